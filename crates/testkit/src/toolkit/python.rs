//! The Python part: which file of ours goes where.

use std::io;
use std::path::Path;

use super::disk;

/// Files below `python/site-packages`.
pub(super) const FILES: [(&str, &str); 41] = [
    ("opkeep_standin/__init__.py", include_str!("py/standin/__init__.py")),
    ("opkeep_standin/control.py", include_str!("py/standin/control.py")),
    ("opkeep_standin/elf.py", include_str!("py/standin/elf.py")),
    ("opkeep_standin/faults.py", include_str!("py/standin/faults.py")),
    ("opkeep_standin/kernel.py", include_str!("py/standin/kernel.py")),
    ("opc_tool/__init__.py", ""),
    ("opc_tool/constant.py", include_str!("py/opc_tool/constant.py")),
    ("opc_tool/ge_ir_pb2.py", include_str!("py/opc_tool/ge_ir_pb2.py")),
    ("opc_tool/input_param.py", include_str!("py/opc_tool/input_param.py")),
    ("opc_tool/op_compilation.py", include_str!("py/opc_tool/op_compilation.py")),
    ("opc_tool/op_info_store.py", include_str!("py/opc_tool/op_info_store.py")),
    ("opc_tool/op_manager.py", include_str!("py/opc_tool/op_manager.py")),
    ("opc_tool/opc.py", include_str!("py/opc_tool/opc.py")),
    ("opc_tool/opc_api.py", include_str!("py/opc_tool/opc_api.py")),
    ("opc_tool/option_parser.py", include_str!("py/opc_tool/option_parser.py")),
    ("opc_tool/post_compile.py", include_str!("py/opc_tool/post_compile.py")),
    ("tbe/__init__.py", include_str!("py/tbe/init.py")),
    ("tbe/dsl.py", include_str!("py/tbe/dsl.py")),
    ("tbe/tikcpp.py", include_str!("py/tbe/tikcpp.py")),
    ("tbe/common/__init__.py", ""),
    ("tbe/common/buildcfg.py", include_str!("py/tbe/buildcfg.py")),
    ("tbe/common/register.py", include_str!("py/tbe/register.py")),
    ("tbe/common/context/__init__.py", ""),
    ("tbe/common/context/op_context.py", include_str!("py/tbe/op_context.py")),
    ("tbe/common/platform/__init__.py", ""),
    ("tbe/common/platform/platform_info.py", include_str!("py/tbe/platform_info.py")),
    ("tbe/common/repository_manager/__init__.py", ""),
    ("tbe/common/repository_manager/interface.py", include_str!("py/tbe/repository.py")),
    ("tbe/common/utils/__init__.py", ""),
    ("tbe/common/utils/log.py", include_str!("py/tbe/log.py")),
    ("tbe/common/utils/para_check.py", include_str!("py/tbe/para_check.py")),
    ("tbe/tvm/__init__.py", ""),
    ("tbe/tvm/contrib/__init__.py", ""),
    ("tbe/tvm/contrib/ccec.py", include_str!("py/tbe/ccec.py")),
    ("tbe/tvm/runtime/__init__.py", ""),
    ("tbe/tvm/runtime/cce_runtime.py", include_str!("py/tbe/cce_runtime.py")),
    ("te/__init__.py", ""),
    ("te/platform/__init__.py", ""),
    ("te/platform/cce_conf.py", include_str!("py/te/cce_conf.py")),
    ("te_fusion/__init__.py", ""),
    ("te_fusion/parallel_compilation.py", include_str!("py/te_fusion/parallel_compilation.py")),
];

/// `asc_opc`, which newer releases have.
const ASC_OPC: (&str, &str) = ("asc_opc_tool/asc_opc.py", include_str!("py/opc_tool/asc_opc.py"));

/// Modules that the toolkit imports of the user's Python. They are empty here, since the Python of tests may lack them.
pub(super) const WANTED: [&str; 8] =
    ["attr", "cloudpickle", "decorator", "ml_dtypes", "numpy", "psutil", "scipy", "tornado"];

/// Files below `impl`, besides operators.
pub(super) const HELPERS: [(&str, &str); 6] = [
    ("__init__.py", ""),
    ("util/__init__.py", ""),
    ("util/platform_adapter.py", include_str!("py/impl/platform_adapter.py")),
    ("util/util_common.py", include_str!("py/impl/util_common.py")),
    ("util/util_select_op_base.py", include_str!("py/impl/util_select_op_base.py")),
    ("util/util_broadcast.py", include_str!("py/impl/util_broadcast.py")),
];

/// The helper that is imported by a name that is only known when the operator is.
pub(super) const LATE_HELPER: (&str, &str) =
    ("util/util_cube_910b.py", include_str!("py/impl/util_cube_910b.py"));

/// An operator in the language of expressions, and one in Ascend C.
pub(super) const OPERATOR: &str = include_str!("py/impl/op.py.template");
pub(super) const ASCEND_C: &str = include_str!("py/impl/ascendc_op.py.template");

/// The programs.
pub(super) const CCEC: &str = include_str!("py/bin/ccec.sh");
pub(super) const LLD: &str = include_str!("py/bin/lld.sh");
pub(super) const OPC: &str = include_str!("py/bin/opc.sh");

/// Writes all packages to `site`, except those of the user's that are to be `missing`.
pub(super) fn write(site: &Path, missing: &[String], protobuf: &str, asc_opc: bool) -> io::Result<()> {
    for (name, text) in FILES.into_iter().chain(asc_opc.then_some(ASC_OPC)) {
        disk::write(&site.join(name), text)?;
    }
    let is_there = |name: &str| !missing.iter().any(|missing| missing == name);
    for name in WANTED.into_iter().filter(|name| is_there(name)) {
        disk::write(&site.join(name).join("__init__.py"), format!("\"\"\"Stands for {name}.\"\"\"\n"))?;
    }
    if is_there("google") {
        disk::write(&site.join("google/__init__.py"), "")?;
        let version = format!("\"\"\"Stands for protobuf.\"\"\"\n__version__ = \"{protobuf}\"\n");
        disk::write(&site.join("google/protobuf/__init__.py"), version)?;
    }
    Ok(())
}
