//! Scripts of projects that are written as they are.

/// Python that a build runs.
pub(super) const SCRIPTS: [(&str, &str); 5] = [
    ("ini.py", include_str!("ini.py")),
    ("impl_build.py", include_str!("impl_build.py")),
    ("param_build.py", include_str!("param_build.py")),
    ("ops_config.py", include_str!("ops_config.py")),
    ("operator.py.template", include_str!("operator.py.template")),
];
