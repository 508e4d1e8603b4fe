//! What builds with a script for each task have in common: those of vllm-ascend, and of `msopgen` projects.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::super::super::disk;
use super::super::operators::Operator;
use super::plan::System;
use super::tree::{ProjectTask, Tree};

/// Where a unit has its part of the build.
pub(super) struct Unit<'a> {
    pub(super) tree: &'a Tree,
    pub(super) name: &'a str,
}

impl Unit<'_> {
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.tree.build_dir().join("binary").join(self.name).join(path)
    }

    fn ini(&self) -> PathBuf {
        self.tree.build_dir().join(format!("autogen/aic-{}-ops-info.ini", self.name))
    }

    pub(super) fn python(&self, operator: &Operator) -> PathBuf {
        self.at(&format!("src/{}.py", operator.op_type))
    }

    pub(super) fn output(&self, operator: &Operator) -> PathBuf {
        self.at(&format!("bin/{}/{}", self.name, operator.file))
    }

    /// The copy of an operator's sources.
    pub(super) fn copied(&self, operator: &Operator) -> PathBuf {
        self.at("src").join(operator.file)
    }

    /// The words of a shell that copy the sources, and make the directory of the output.
    pub(super) fn copy_command(&self, operator: &Operator) -> String {
        let (to, out) = (self.copied(operator), self.output(operator));
        let from = self.tree.kernel_source(operator, "");
        format!(
            "mkdir -p {to} {out} && cp -rf {from}. {to}",
            to = to.display(),
            out = out.display(),
            from = from.display()
        )
    }

    /// The words that run the script of a row.
    pub(super) fn script_command(&self, operator: &Operator, row: usize) -> String {
        format!(
            "bash {script} --kernel-src={source} {python} {out}",
            script = self.script(operator, row).display(),
            source = self.copied(operator).join(format!("{}.cpp", operator.file)).display(),
            python = self.python(operator).display(),
            out = self.output(operator).display()
        )
    }

    /// The words that write the index.
    pub(super) fn index_command(&self) -> String {
        let script = self.tree.scripts().join("ops_config.py");
        format!("python3 -B {} {} {}", script.display(), self.at("bin").display(), self.name)
    }

    fn script(&self, operator: &Operator, row: usize) -> PathBuf {
        self.at(&format!("gen/{}-{}-{row}.sh", operator.op_type, operator.file))
    }
}

pub(super) fn units(tree: &Tree) -> impl Iterator<Item = Unit<'_>> {
    tree.project.units.iter().map(move |name| Unit { tree, name })
}

/// The words that copy all sources.
pub(super) fn copy_commands(tree: &Tree) -> io::Result<Vec<String>> {
    let rows = tree.project.rows()?;
    Ok(units(tree)
        .flat_map(|unit| {
            rows.iter().map(move |(operator, _)| unit.copy_command(operator)).collect::<Vec<_>>()
        })
        .collect())
}

/// The program that scripts call, by its bare name.
fn command(tree: &Tree) -> &'static str {
    if tree.project.system == System::Vllm { "opc" } else { "asc_opc" }
}

/// Writes the generated Python, the parameter files and the scripts.
pub(super) fn generate(tree: &Tree) -> io::Result<()> {
    let project = &tree.project;
    let options = tree.build_dir().join("autogen/custom_compile_options.ini");
    disk::write(&options, tree.compile_options())?;
    for unit in units(tree) {
        tree.write_op_info(unit.name, &unit.ini(), &unit.at("customize"))?;
        tree.write_library(&unit.at("customize/op_impl/ai_core/tbe/op_tiling/liboptiling.so"))?;
        tree.generate("impl_build.py", &[&unit.ini(), &options, &unit.name, &unit.at("src"), &"type"])?;
        let arguments: [&dyn AsRef<OsStr>; 7] = [
            &unit.ini(),
            &unit.at("gen"),
            &unit.name,
            &command(tree),
            &if project.relocatable { "1" } else { "0" },
            &project.tiling_keys,
            &project.debug_config,
        ];
        tree.generate("param_build.py", &arguments)?;
    }
    Ok(())
}

/// The tasks, each with the words that its script has; `dir` is where the row of an operator is compiled.
pub(super) fn tasks(
    tree: &Tree,
    dir: impl Fn(&Unit<'_>, &Operator, usize) -> PathBuf,
) -> io::Result<Vec<ProjectTask>> {
    let mut tasks = Vec::new();
    for unit in units(tree) {
        for (operator, rows) in tree.project.rows()? {
            for row in 0..tree.project.scripts(rows.len()) {
                tasks.push(task(&unit, &operator, row, dir(&unit, &operator, row))?);
            }
        }
    }
    Ok(tasks)
}

fn task(unit: &Unit<'_>, operator: &Operator, row: usize, dir: PathBuf) -> io::Result<ProjectTask> {
    let (output, python) = (unit.output(operator), unit.python(operator));
    let text = disk::read(&unit.script(operator, row))?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("res=$({} ", command(unit.tree))));
    let words = line.and_then(|line| line.strip_suffix(')')).unwrap_or_default().replace('"', "");
    let words = words.replace("$1", &python.to_string_lossy()).replace("$2", &output.to_string_lossy());
    let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let params = arguments.iter().find_map(|word| word.strip_prefix("--input_param="));
    let params = PathBuf::from(params.unwrap_or_default());
    Ok(ProjectTask {
        op_type: operator.op_type.to_owned(),
        unit: unit.name.to_owned(),
        name: name_in(&params)?,
        params,
        python,
        output,
        dir,
        arguments,
    })
}

/// The name of the kernel in a parameter file.
pub(super) fn name_in(params: &std::path::Path) -> io::Result<String> {
    let content: Value = serde_json::from_str(&disk::read(params)?)?;
    Ok(content["op_list"][0]["bin_filename"].as_str().unwrap_or_default().to_owned())
}
