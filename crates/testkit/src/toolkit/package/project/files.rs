//! Scripts of projects that are written as they are.

/// Programs that a build runs.
pub(super) const SCRIPTS: [(&str, &str); 8] = [
    ("ini.py", include_str!("ini.py")),
    ("impl_build.py", include_str!("impl_build.py")),
    ("param_build.py", include_str!("param_build.py")),
    ("ops_config.py", include_str!("ops_config.py")),
    ("opc_cmd_build.py", include_str!("opc_cmd_build.py")),
    ("compile_kernel.py", include_str!("compile_kernel.py")),
    ("build_binary_op_exe_task.sh", include_str!("build_binary_op_exe_task.sh")),
    ("operator.py.template", include_str!("operator.py.template")),
];
