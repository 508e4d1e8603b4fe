//! Files of ours that are written as they are: what goes where.

/// Below `<arch>-linux/ccec_compiler`.
pub(super) const COMPILER: [(&str, &str); 8] = [
    ("lib/clang/15.0.5/include/__clang_cce_runtime.h", include_str!("include/__clang_cce_runtime.h")),
    ("lib/clang/15.0.5/include/__clang_cce_ident.h", include_str!("include/__clang_cce_ident.h")),
    ("lib/clang/15.0.5/include/stdio.h", include_str!("include/stdio.h")),
    ("lib/opkeep_standin_link.py", include_str!("tools/link.py")),
    ("lib/opkeep_standin/__init__.py", include_str!("../py/standin/__init__.py")),
    ("lib/opkeep_standin/elf.py", include_str!("../py/standin/elf.py")),
    ("lib/opkeep_standin/kernel.py", include_str!("../py/standin/kernel.py")),
    ("lib/opkeep_standin/link.py", include_str!("../py/standin/link.py")),
];

/// Headers below `<arch>-linux`.
pub(super) const HEADERS: [(&str, &str); 3] = [
    ("tikcpp/tikcfw/kernel_operator.h", include_str!("include/kernel_operator.h")),
    ("tikcpp/tikcfw/kernel_tpl.h", include_str!("include/kernel_tpl.h")),
    ("tikcpp/tikcfw/lib/ascendc_api_version.h", include_str!("include/ascendc_api_version.h")),
];

/// The script that starts the command.
pub(super) const ASC_OPC: &str = include_str!("tools/asc_opc.sh");

/// Python below `python/site-packages` that the toolkit for single operators has too.
pub(super) const SHARED: [&str; 15] = [
    "opkeep_standin/__init__.py",
    "opkeep_standin/control.py",
    "opkeep_standin/elf.py",
    "opkeep_standin/faults.py",
    "opkeep_standin/kernel.py",
    "tbe/common/__init__.py",
    "tbe/common/buildcfg.py",
    "tbe/common/register.py",
    "tbe/common/context/__init__.py",
    "tbe/common/context/op_context.py",
    "tbe/common/platform/__init__.py",
    "tbe/common/platform/platform_info.py",
    "tbe/common/repository_manager/__init__.py",
    "tbe/common/repository_manager/interface.py",
    "tbe/common/utils/__init__.py",
];

/// Python that is of this toolkit alone, or in another folder of it.
pub(super) const PYTHON: [(&str, &str); 18] = [
    ("tbe/__init__.py", ""),
    ("tbe/common/utils/log.py", include_str!("../py/tbe/log.py")),
    ("asc_opc_tool/constant.py", include_str!("../py/opc_tool/constant.py")),
    ("asc_opc_tool/input_param.py", include_str!("../py/opc_tool/input_param.py")),
    ("asc_opc_tool/op_compilation.py", include_str!("../py/opc_tool/op_compilation.py")),
    ("asc_opc_tool/op_info_store.py", include_str!("../py/opc_tool/op_info_store.py")),
    ("asc_opc_tool/op_manager.py", include_str!("../py/opc_tool/op_manager.py")),
    ("asc_opc_tool/opc.py", include_str!("../py/asc_opc_tool/opc.py")),
    ("asc_opc_tool/option_parser.py", include_str!("../py/opc_tool/option_parser.py")),
    ("asc_opc_tool/post_compile.py", include_str!("../py/opc_tool/post_compile.py")),
    ("asc_op_compile_base/__init__.py", ""),
    ("asc_op_compile_base/asc_op_compiler/__init__.py", ""),
    (
        "asc_op_compile_base/asc_op_compiler/common_utility.py",
        include_str!("../py/asc_op_compile_base/common_utility.py"),
    ),
    (
        "asc_op_compile_base/asc_op_compiler/compile_base.py",
        include_str!("../py/asc_op_compile_base/compile_base.py"),
    ),
    (
        "asc_op_compile_base/asc_op_compiler/compile_op.py",
        include_str!("../py/asc_op_compile_base/compile_op.py"),
    ),
    (
        "asc_op_compile_base/asc_op_compiler/constants.py",
        include_str!("../py/asc_op_compile_base/constants.py"),
    ),
    (
        "asc_op_compile_base/asc_op_compiler/get_op_tiling.py",
        include_str!("../py/asc_op_compile_base/get_op_tiling.py"),
    ),
    (
        "asc_op_compile_base/asc_op_compiler/kernel_info_infer.py",
        include_str!("../py/asc_op_compile_base/kernel_info_infer.py"),
    ),
];
