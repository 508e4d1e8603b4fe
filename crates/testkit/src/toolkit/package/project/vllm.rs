//! The build of vllm-ascend and ops-transformer: Makefiles, or files for Ninja.
//!
//! Copies and tasks leave stamps that depend on nothing, so a second build does nothing, whatever has changed. All tasks run in one
//! directory.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;

use super::super::super::disk;
use super::scripted::{self, Unit, units};
use super::tree::{ProjectTask, Tree};

pub(super) fn environment(tree: &Tree, unit: &str) -> Vec<(&'static str, OsString)> {
    let customize = Unit { tree, name: unit }.at("customize");
    vec![
        ("HI_PYTHON", "python3".into()),
        ("TILINGKEY_PAR_COMPILE", "1".into()),
        ("BIN_FILENAME_HASHED", "1".into()),
        ("ASCEND_CUSTOM_OPP_PATH", customize.into_os_string()),
    ]
}

pub(super) fn configure(tree: &Tree) -> io::Result<()> {
    scripted::generate(tree)?;
    if let Some(ccache) = &tree.project.ccache {
        // Words with spaces fall apart in it.
        let script =
            format!("#!/bin/bash\nargs=\"$@\"\neval \"{} $BISHENG_REAL_PATH $args\"\n", ccache.display());
        disk::write_program(&tree.compiler_script_dir().join("bisheng"), &script)?;
    }
    let steps = steps(tree)?;
    if tree.project.ninja {
        return disk::write(&tree.build_dir().join("build.ninja"), for_ninja(&steps));
    }
    disk::write(&tree.build_dir().join("Makefile"), for_make(&steps))
}

/// A stamp, what must be there before, and the words of a shell that make it.
struct Step {
    stamp: String,
    before: Vec<String>,
    command: String,
    /// Whether it is to get make's tokens for parallel work.
    takes_tokens: bool,
}

fn steps(tree: &Tree) -> io::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for unit in units(tree) {
        let stamp = |path: String| unit.at(&path).display().to_string();
        let mut done = Vec::new();
        for (operator, rows) in tree.project.rows()? {
            let copied = stamp(format!("src/{}.done", operator.file));
            let command = unit.copy_command(&operator);
            steps.push(Step { stamp: copied.clone(), before: Vec::new(), command, takes_tokens: false });
            for row in 0..tree.project.scripts(rows.len()) {
                let variables: Vec<String> = environment(tree, unit.name)
                    .into_iter()
                    .map(|(name, value)| format!("{name}=\"{}\"", value.display()))
                    .collect();
                let command = format!(
                    "cd {} && export {} && {}",
                    unit.at("gen").display(),
                    variables.join(" "),
                    unit.script_command(&operator, row)
                );
                let own = stamp(format!("gen/{}-{}-{row}.done", operator.op_type, operator.file));
                done.push(own.clone());
                steps.push(Step { stamp: own, before: vec![copied.clone()], command, takes_tokens: true });
            }
        }
        let index = stamp("index.done".to_owned());
        steps.push(Step { stamp: index, before: done, command: unit.index_command(), takes_tokens: false });
    }
    Ok(steps)
}

/// Naming `$(MAKE)` has make pass its tokens on.
fn for_make(steps: &[Step]) -> String {
    let all: Vec<&str> = steps.iter().map(|step| step.stamp.as_str()).collect();
    let mut text = format!("SHELL := /bin/bash\n.PHONY: all\nall: {}\n", all.join(" "));
    for Step { stamp, before, command, takes_tokens } in steps {
        let tail = if *takes_tokens { " && echo $(MAKE)" } else { "" };
        let _ = writeln!(text, "{stamp}: | {}\n\t{command} && touch $@{tail}", before.join(" "));
    }
    text
}

/// Ninja has no tokens to pass on.
fn for_ninja(steps: &[Step]) -> String {
    let mut text = "rule run\n  command = bash -c '$words && touch $out'\n".to_owned();
    for Step { stamp, before, command, .. } in steps {
        let _ = writeln!(
            text,
            "build {stamp}: run || {}\n  words = {}",
            before.join(" "),
            command.replace('$', "$$")
        );
    }
    text
}

pub(super) fn tasks(tree: &Tree) -> io::Result<Vec<ProjectTask>> {
    scripted::tasks(tree, |unit, _, _| unit.at("gen"))
}
