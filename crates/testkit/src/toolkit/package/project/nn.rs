//! The build of ops-nn, ops-math and ops-cv.
//!
//! A task is a line of `opc_cmd.sh`, run with a time limit and a log of its own. All tasks, of all units, run in one directory of
//! the source tree, and kernels of one operator have equal names for all units. Each build runs all of them again.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use super::super::super::{disk, interpreter};
use super::scripted::name_in;
use super::tree::{ProjectTask, Tree};

const IMPL_MODE: &str = "high_performance";

fn unit_dir(tree: &Tree, unit: &str) -> PathBuf {
    tree.build_dir().join("binary").join(unit).join("bin")
}

pub(super) fn environment(tree: &Tree) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![
        ("TILINGKEY_PAR_COMPILE", "1".into()),
        ("BIN_FILENAME_HASHED", "1".into()),
        ("ASCEND_SLOG_PRINT_TO_STDOUT", "1".into()),
        ("HI_PYTHON", interpreter::python().unwrap_or_else(|| "python3".into()).into_os_string()),
    ];
    variables.extend(tree.ccache_variable());
    variables
}

pub(super) fn configure(tree: &Tree) -> io::Result<()> {
    let (build, project) = (tree.build_dir(), &tree.project);
    let options = build.join("autogen/custom_compile_options.ini");
    disk::write(&options, tree.compile_options())?;
    tree.write_library(&build.join("op_tiling/liboptiling.so"))?;
    for unit in &project.units {
        let ini = build.join(format!("autogen/aic-{unit}-ops-info.ini"));
        tree.write_op_info(unit, &ini, &build.join("customize"))?;
        tree.generate("impl_build.py", &[&ini, &options, unit, &build.join("tbe/dynamic"), &"file"])?;
        let (folder, more) = (unit_dir(tree, unit).join("opc_cmd"), more_options(tree));
        let arguments: [&dyn AsRef<OsStr>; 7] =
            [&ini, &folder, unit, &IMPL_MODE, &build, &more, &project.debug_config];
        tree.generate("opc_cmd_build.py", &arguments)?;
    }
    disk::write(&build.join("Makefile"), makefile(tree)?)
}

fn more_options(tree: &Tree) -> String {
    match tree.project.tiling_keys.as_str() {
        "" => String::new(),
        keys => format!("--tiling_key={keys}"),
    }
}

/// The words that copy all sources, and the headers that operators share.
pub(super) fn copy_commands(tree: &Tree) -> io::Result<Vec<String>> {
    let to = tree.build_dir().join("tbe/ascendc");
    let copied = |from: PathBuf, to: PathBuf| {
        format!("mkdir -p {to} && cp -rf {from}. {to}", from = from.display(), to = to.display())
    };
    let mut words = vec![copied(tree.common_header(""), to.join("common"))];
    words.extend(
        tree.project
            .rows()?
            .iter()
            .map(|(operator, _)| copied(tree.kernel_source(operator, ""), to.join(operator.file))),
    );
    Ok(words)
}

fn makefile(tree: &Tree) -> io::Result<String> {
    let mut text = "SHELL := /bin/bash\nall: index\n".to_owned();
    let _ = writeln!(text, "copy:\n\t{}", copy_commands(tree)?.join("\n\t"));
    let variables: Vec<String> =
        environment(tree).into_iter().map(|(name, value)| format!("{name}={}", value.display())).collect();
    let (mut indexes, mut phony) = (Vec::new(), Vec::new());
    for unit in &tree.project.units {
        let folder = unit_dir(tree, unit);
        let mut tasks = Vec::new();
        for number in 1..=tree.project.rows()?.iter().map(|(_, rows)| rows.len()).sum() {
            let target = format!("task_{unit}_{number}");
            let _ = writeln!(
                text,
                "{target}: copy\n\tcd {scripts} && export {variables} && bash build_binary_op_exe_task.sh {folder} {number} \
                 && echo $(MAKE)",
                scripts = tree.scripts().display(),
                variables = variables.join(" "),
                folder = folder.display()
            );
            tasks.push(target);
        }
        let index = format!("index_{unit}");
        let script = tree.scripts().join("ops_config.py");
        let _ = writeln!(
            text,
            "{index}: {}\n\tpython3 -B {} {} {unit}",
            tasks.join(" "),
            script.display(),
            folder.display()
        );
        phony.append(&mut tasks);
        indexes.push(index);
    }
    let (indexes, phony) = (indexes.join(" "), phony.join(" "));
    let _ = writeln!(text, "index: {indexes}\n.PHONY: all copy index {indexes} {phony}");
    Ok(text)
}

pub(super) fn tasks(tree: &Tree) -> io::Result<Vec<ProjectTask>> {
    let mut tasks = Vec::new();
    for unit in &tree.project.units {
        let text = disk::read(&unit_dir(tree, unit).join("opc_cmd/opc_cmd.sh"))?;
        let mut lines = text.lines();
        for (operator, rows) in tree.project.rows()? {
            for line in lines.by_ref().take(rows.len()) {
                let arguments: Vec<String> = line.split(' ').skip(1).map(str::to_owned).collect();
                let value = |option: &str| {
                    PathBuf::from(
                        arguments.iter().find_map(|word| word.strip_prefix(option)).unwrap_or_default(),
                    )
                };
                let params = value("--input_param=");
                tasks.push(ProjectTask {
                    op_type: operator.op_type.to_owned(),
                    unit: unit.clone(),
                    name: name_in(&params)?,
                    params,
                    python: arguments.first().map(PathBuf::from).unwrap_or_default(),
                    output: value("--output="),
                    dir: tree.scripts(),
                    arguments,
                });
            }
        }
    }
    Ok(tasks)
}
