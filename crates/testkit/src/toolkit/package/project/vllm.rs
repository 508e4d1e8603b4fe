//! The build of vllm-ascend and ops-transformer.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::super::super::disk;
use super::tree::{ProjectTask, Tree};

/// The program that scripts call, by its bare name.
const COMMAND: &str = "opc";

/// Where a unit has its part of the build.
struct Unit<'a> {
    tree: &'a Tree,
    name: &'a str,
}

impl Unit<'_> {
    fn at(&self, path: &str) -> PathBuf {
        self.tree.build_dir().join("binary").join(self.name).join(path)
    }

    fn ini(&self) -> PathBuf {
        self.tree.build_dir().join(format!("autogen/aic-{}-ops-info.ini", self.name))
    }
}

fn units(tree: &Tree) -> impl Iterator<Item = Unit<'_>> {
    tree.project.units.iter().map(move |name| Unit { tree, name })
}

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
    let project = &tree.project;
    let options = tree.build_dir().join("autogen/custom_compile_options.ini");
    disk::write(&options, tree.compile_options())?;
    for unit in units(tree) {
        tree.write_op_info(unit.name, &unit.ini(), &unit.at("customize"))?;
        tree.write_library(&unit.at("customize/op_impl/ai_core/tbe/op_tiling/liboptiling.so"))?;
        tree.generate("impl_build.py", &[&unit.ini(), &options, &unit.name, &unit.at("src"), &"type"])?;
        let arguments: [&dyn AsRef<std::ffi::OsStr>; 6] =
            [&unit.ini(), &unit.at("gen"), &unit.name, &COMMAND, &project.tiling_keys, &project.debug_config];
        tree.generate("param_build.py", &arguments)?;
    }
    if let Some(ccache) = &project.ccache {
        let script =
            format!("#!/bin/bash\nargs=\"$@\"\neval \"{} $BISHENG_REAL_PATH $args\"\n", ccache.display());
        disk::write_program(&tree.build_dir().join("gen_bisheng_dir/bisheng"), &script)?;
    }
    disk::write(&tree.build_dir().join("Makefile"), makefile(tree)?)
}

/// Copies and tasks leave stamps that depend on nothing, so that a second build does nothing, whatever has changed.
fn makefile(tree: &Tree) -> io::Result<String> {
    let mut text = "SHELL := /bin/bash\nall: index\n".to_owned();
    if tree.project.ccache.is_some() {
        let folder = tree.build_dir().join("gen_bisheng_dir");
        let _ = writeln!(text, "export PATH := {}:$(PATH)", folder.display());
    }
    let mut every = Vec::new();
    for unit in units(tree) {
        let mut done = Vec::new();
        for (operator, rows) in tree.project.rows()? {
            let (file, copied) = (operator.file, unit.at(&format!("src/{}.done", operator.file)));
            let from = tree.sources().join(file).join("op_kernel");
            let (to, out) = (unit.at(&format!("src/{file}")), unit.at(&format!("bin/{}/{file}", unit.name)));
            let _ = writeln!(
                text,
                "{copied}:\n\tmkdir -p {to} {out} && cp -rf {from}/. {to} && touch $@",
                copied = copied.display(),
                to = to.display(),
                out = out.display(),
                from = from.display()
            );
            for row in 0..rows.len() {
                let script = format!("{}-{file}-{row}", operator.op_type);
                let stamp = unit.at(&format!("gen/{script}.done"));
                let variables: Vec<String> = environment(tree, unit.name)
                    .into_iter()
                    .map(|(name, value)| format!("{name}=\"{}\"", value.display()))
                    .collect();
                let _ = writeln!(
                    text,
                    "{stamp}: | {copied}\n\tcd {gen} && export {variables} && bash {script}.sh --kernel-src={to}/{file}.cpp {python} {out} \
                     && touch $@ && echo $(MAKE)",
                    stamp = stamp.display(),
                    copied = copied.display(),
                    gen = unit.at("gen").display(),
                    variables = variables.join(" "),
                    to = to.display(),
                    python = unit.at(&format!("src/{}.py", operator.op_type)).display(),
                    out = out.display()
                );
                done.push(stamp.display().to_string());
            }
        }
        let index = unit.at("index.done");
        let _ = writeln!(
            text,
            "{index}: {done}\n\tpython3 -B {script} {bin} {unit} && touch $@",
            index = index.display(),
            done = done.join(" "),
            script = tree.scripts().join("ops_config.py").display(),
            bin = unit.at("bin").display(),
            unit = unit.name
        );
        every.push(index.display().to_string());
    }
    let _ = writeln!(text, "index: {}\n.PHONY: all index", every.join(" "));
    Ok(text)
}

pub(super) fn tasks(tree: &Tree) -> io::Result<Vec<ProjectTask>> {
    let mut tasks = Vec::new();
    for unit in units(tree) {
        for (operator, rows) in tree.project.rows()? {
            for row in 0..rows.len() {
                let script = unit.at(&format!("gen/{}-{}-{row}.sh", operator.op_type, operator.file));
                let output = unit.at(&format!("bin/{}/{}", unit.name, operator.file));
                let python = unit.at(&format!("src/{}.py", operator.op_type));
                let line = disk::read(&script)?;
                let line = line.lines().find_map(|line| line.strip_prefix(&format!("res=$({COMMAND} ")));
                let words = line.and_then(|line| line.strip_suffix(')')).unwrap_or_default();
                let words = words.replace('"', "").replace("$1", &python.to_string_lossy());
                let words = words.replace("$2", &output.to_string_lossy());
                let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
                let params = arguments.iter().find_map(|word| word.strip_prefix("--input_param="));
                let params = PathBuf::from(params.unwrap_or_default());
                let content: Value = serde_json::from_str(&disk::read(&params)?)?;
                let name = content["op_list"][0]["bin_filename"].as_str().unwrap_or_default().to_owned();
                tasks.push(ProjectTask {
                    op_type: operator.op_type.to_owned(),
                    unit: unit.name.to_owned(),
                    name,
                    params,
                    python,
                    output,
                    dir: unit.at("gen"),
                    arguments,
                });
            }
        }
    }
    Ok(tasks)
}
