//! The build of a project that `msopgen` wrote.
//!
//! A script for each operator removes the directory of its tasks before and behind the compile, and gives each task a directory of
//! its own.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;

use super::super::super::disk;
use super::scripted::{self, Unit, units};
use super::tree::{ProjectTask, Tree};

pub(super) fn environment(tree: &Tree, unit: &str) -> Vec<(&'static str, OsString)> {
    let customize = Unit { tree, name: unit }.at("customize");
    let mut variables = vec![
        ("HI_PYTHON", "python3".into()),
        ("ASCEND_CUSTOM_OPP_PATH", customize.into_os_string()),
        ("TILINGKEY_PAR_COMPILE", "1".into()),
    ];
    variables.extend(tree.ccache_variable());
    variables
}

pub(super) fn configure(tree: &Tree) -> io::Result<()> {
    scripted::generate(tree)?;
    let mut text = "SHELL := /bin/bash\nall: index\n".to_owned();
    let (mut indexes, mut phony) = (Vec::new(), Vec::new());
    for unit in units(tree) {
        let mut compiled = Vec::new();
        for (operator, rows) in tree.project.rows()? {
            let target = format!("{}_{}", operator.op_type, unit.name);
            let _ = writeln!(
                text,
                "{target}:\n\t{copy}\n\tmkdir -p op_kernel && cd op_kernel && export {variables}\\\n\
                 \t&& python3 -B {script} {target} {rows} '{words}' $(MAKE)",
                copy = unit.copy_command(&operator),
                variables = environment(tree, unit.name)
                    .into_iter()
                    .map(|(name, value)| format!("{name}={} ", value.display()))
                    .collect::<String>(),
                script = tree.scripts().join("compile_kernel.py").display(),
                rows = tree.project.scripts(rows.len()),
                words = unit.script_command(&operator, 0).replace("-0.sh", "-@ROW@.sh"),
            );
            compiled.push(target);
        }
        let index = format!("index_{}", unit.name);
        let _ = writeln!(text, "{index}: {}\n\t{}", compiled.join(" "), unit.index_command());
        phony.append(&mut compiled);
        indexes.push(index);
    }
    let (indexes, phony) = (indexes.join(" "), phony.join(" "));
    let _ = writeln!(text, "index: {indexes}\n.PHONY: all index {indexes} {phony}");
    disk::write(&tree.build_dir().join("Makefile"), text)
}

pub(super) fn tasks(tree: &Tree) -> io::Result<Vec<ProjectTask>> {
    scripted::tasks(tree, |unit, operator, row| {
        let folder = format!("op_kernel/{}_{}/kernel_{row}", operator.op_type, unit.name);
        tree.build_dir().join(folder)
    })
}
