//! A project that is written.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use super::super::super::{disk, interpreter, paths};
use super::super::installation::PackageInstallation;
use super::super::operators::{self, COMMON, Operator};
use super::super::tools;
use super::files;
use super::plan::{Project, System};

/// Where a project has what, and how its files are made.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) project: Project,
    pub(super) folder: PathBuf,
    pub(super) toolkit: PackageInstallation,
}

/// One task: a compile of one operator for one row, one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectTask {
    /// The operator's type.
    pub op_type: String,
    /// The family of chips: `ascend910b`.
    pub unit: String,
    /// The kernel's name, which is that of the files as well.
    pub name: String,
    /// The parameter file.
    pub params: PathBuf,
    /// The operator's generated Python.
    pub python: PathBuf,
    /// The directory of what the task makes.
    pub output: PathBuf,
    /// The directory that it runs in.
    pub dir: PathBuf,
    /// The words behind `asc_opc`.
    pub arguments: Vec<String>,
}

impl ProjectTask {
    /// The object and its `.json`.
    pub fn files(&self) -> [PathBuf; 2] {
        ["o", "json"].map(|ending| self.output.join(format!("{}.{ending}", self.name)))
    }
}

impl Tree {
    /// Writes the sources.
    pub(super) fn write(&self) -> io::Result<()> {
        for operator in &self.project.operators {
            for (name, text) in operator.sources {
                disk::write(&self.kernel_source(operator, name), text)?;
            }
        }
        for (name, text) in COMMON {
            disk::write(&self.common_header(name), text)?;
        }
        files::SCRIPTS.into_iter().try_for_each(|(name, text)| disk::write(&self.scripts().join(name), text))
    }

    /// A header that all operators may include: `row_copy.h`, `cann_compat.h`.
    pub(super) fn common_header(&self, name: &str) -> PathBuf {
        self.sources().join("common/include").join(name)
    }

    /// The build tree.
    pub(super) fn build_dir(&self) -> PathBuf {
        self.sources().join(if self.project.system == System::Msopgen { "build_out" } else { "build" })
    }

    /// A program in the environment of the toolkit.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.folder.join("home"));
        for (name, value) in self.toolkit.environment(&tools::path()) {
            let before = if name == "PATH" { self.first_on_path() } else { Vec::new() };
            let parts: Vec<OsString> =
                before.into_iter().map(PathBuf::into_os_string).chain([value]).collect();
            command.env(name, parts.join(OsStr::new(":")));
        }
        if self.project.system == System::Vllm {
            command.env("BISHENG_REAL_PATH", self.toolkit.tool("bisheng"));
        }
        command.envs(self.project.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Directories whose programs hide those of the toolkit.
    fn first_on_path(&self) -> Vec<PathBuf> {
        let mut folders = self.project.path.clone();
        if self.project.system == System::Vllm && self.project.ccache.is_some() {
            folders.push(self.compiler_script_dir());
        }
        folders
    }

    /// Where vllm-ascend's build puts the script that runs the compiler by a ccache.
    pub(super) fn compiler_script_dir(&self) -> PathBuf {
        self.build_dir().join("gen_bisheng_dir")
    }

    /// The directory of the sources.
    pub(super) fn sources(&self) -> PathBuf {
        match self.project.system {
            System::Vllm => self.folder.join("csrc"),
            System::Nn | System::Msopgen => self.folder.clone(),
        }
    }

    /// The directory of the scripts.
    pub(super) fn scripts(&self) -> PathBuf {
        match self.project.system {
            System::Nn => self.sources().join("scripts/kernel/binary_script"),
            System::Vllm | System::Msopgen => self.sources().join("cmake/scripts/util"),
        }
    }

    pub(super) fn kernel_source(&self, operator: &Operator, name: &str) -> PathBuf {
        let folder = match self.project.system {
            System::Msopgen => self.sources().join("op_kernel").join(operator.file),
            System::Vllm | System::Nn => self.sources().join(operator.file).join("op_kernel"),
        };
        folder.join(name)
    }

    /// The compile options of all operators, with the project's absolute paths in them.
    pub(super) fn compile_options(&self) -> String {
        let common = self.sources().join("common/include");
        let mut options = vec![
            format!("-include{}", common.join("cann_compat.h").display()),
            format!("-I{}", common.display()),
        ];
        options.extend(self.project.options.iter().cloned());
        format!("ALL,,{}\n", options.join(" "))
    }

    /// Writes the operator information of a unit: as a list for the generators, and for `asc_opc`.
    pub(super) fn write_op_info(&self, unit: &str, ini: &Path, package: &Path) -> io::Result<()> {
        let rows = self.project.rows()?;
        let text: String = rows.iter().map(|(operator, rows)| operator.ini(rows)).collect();
        disk::write(ini, text)?;
        let info: Map<String, Value> =
            rows.iter().map(|(operator, rows)| (operator.op_type.to_owned(), operator.info(rows))).collect();
        let path = paths::op_info(&package.join("op_impl/ai_core/tbe"), unit);
        disk::write(&path, serde_json::to_string_pretty(&info)?)
    }

    /// The variable that names a ccache for the compiler package.
    pub(super) fn ccache_variable(&self) -> Option<(&'static str, OsString)> {
        let ccache = self.project.ccache.as_ref()?;
        Some(("ASCENDC_CCACHE_EXECUTABLE", ccache.clone().into_os_string()))
    }

    /// Compiles the host library with the tiling of the operators, where one has its tiling there.
    pub(super) fn write_library(&self, path: &Path) -> io::Result<()> {
        let source = path.with_extension("c");
        disk::write(&source, operators::library_source(&self.project.operators))?;
        let clang = &tools::required()?.clang;
        run(Command::new(clang).args(["-shared", "-nostdlib", "-fPIC", "-O1", "-o"]).args([path, &source]))
    }

    /// Runs a generator.
    pub(super) fn generate(&self, script: &str, arguments: &[&dyn AsRef<OsStr>]) -> io::Result<()> {
        let python = interpreter::python().unwrap_or_else(|| "python3".into());
        let mut command = Command::new(python);
        run(command
            .arg("-B")
            .arg(self.scripts().join(script))
            .args(arguments.iter().map(|word| word.as_ref())))
    }
}

/// Runs a program; what it said, where it fails.
pub(super) fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {}: {text}", command.get_program().display(), output.status)))
}
