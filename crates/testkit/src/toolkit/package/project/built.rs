//! A project that is written, to be built and to be changed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::super::disk;
use super::super::installation::PackageInstallation;
use super::super::tools;
use super::plan::{Project, System};
use super::tree::{self, ProjectTask, Tree};
use super::{msopgen, nn, scripted, vllm};

/// A project that is written and configured.
#[derive(Clone, Debug)]
pub struct ProjectTree(Tree);

impl Project {
    /// Writes the project into `folder`, configured for the toolkit.
    ///
    /// # Errors
    /// The directory cannot be written to, or there are more tasks than rows.
    pub fn write(&self, folder: &Path, toolkit: &PackageInstallation) -> io::Result<ProjectTree> {
        let tree = Tree { project: self.clone(), folder: folder.to_owned(), toolkit: toolkit.clone() };
        tree.write()?;
        let own = ProjectTree(tree);
        own.configure()?;
        Ok(own)
    }
}

impl ProjectTree {
    /// Writes the build tree anew but for what the build made: what a run of CMake does.
    ///
    /// # Errors
    /// A file cannot be written, or a generator fails.
    pub fn configure(&self) -> io::Result<()> {
        match self.0.project.system {
            System::Vllm => vllm::configure(&self.0),
            System::Nn => nn::configure(&self.0),
            System::Msopgen => msopgen::configure(&self.0),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// A file of `op_kernel`: `source("AddCustom", "add_custom.cpp")`.
    ///
    /// # Errors
    /// The project has no such operator.
    pub fn source(&self, op_type: &str, name: &str) -> io::Result<PathBuf> {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, format!("no operator `{op_type}` here"));
        let operator = self.0.project.operators.iter().find(|operator| operator.op_type == op_type);
        Ok(self.0.kernel_source(operator.ok_or_else(missing)?, name))
    }

    /// A header that all operators may include: `row_copy.h`, `cann_compat.h`.
    pub fn common_header(&self, name: &str) -> PathBuf {
        self.0.common_header(name)
    }

    /// The build tree.
    pub fn build_dir(&self) -> PathBuf {
        self.0.build_dir()
    }

    /// Changes a file of it.
    ///
    /// # Errors
    /// The file is missing, or cannot be written.
    pub fn edit(&self, path: &Path, change: impl FnOnce(String) -> String) -> io::Result<()> {
        self.0.toolkit.edit(path, change)
    }

    /// Removes the build tree and configures it again.
    ///
    /// # Errors
    /// It cannot be removed or written.
    pub fn clean(&self) -> io::Result<()> {
        disk::remove(&self.build_dir())?;
        self.configure()
    }

    /// Its tasks, unit by unit.
    ///
    /// # Errors
    /// A parameter file cannot be read.
    pub fn tasks(&self) -> io::Result<Vec<ProjectTask>> {
        match self.0.project.system {
            System::Vllm => vllm::tasks(&self.0),
            System::Nn => nn::tasks(&self.0),
            System::Msopgen => msopgen::tasks(&self.0),
        }
    }

    /// A build with so many jobs, in the environment of the toolkit and with nothing else of the process's but `PATH`.
    pub fn build(&self, jobs: usize) -> Command {
        let machine = tools::tools();
        let mut command = if self.0.project.ninja {
            let ninja = machine.and_then(|machine| machine.ninja.clone());
            let mut command = self.command(&ninja.unwrap_or_else(|| "ninja".into()));
            command.arg("-k0");
            command
        } else {
            let mut command =
                self.command(&machine.map_or_else(|| "make".into(), |machine| machine.make.clone()));
            command.arg("-k");
            command
        };
        command.arg(format!("-j{jobs}")).current_dir(self.build_dir());
        command
    }

    /// Copies the kernels' sources into the build tree, as the build does first: what a task needs that runs by itself.
    ///
    /// # Errors
    /// They cannot be copied.
    pub fn copy_sources(&self) -> io::Result<()> {
        let words = match self.0.project.system {
            System::Vllm | System::Msopgen => scripted::copy_commands(&self.0)?,
            System::Nn => nn::copy_commands(&self.0)?,
        };
        tree::run(Command::new("bash").args(["-ec", &words.join("\n")]))
    }

    /// `asc_opc` for one task, as its script runs it, in its directory, which is created.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn asc_opc(&self, task: &ProjectTask) -> io::Result<Command> {
        disk::folder(&task.dir)?;
        let mut command = self.command(&self.0.toolkit.tool("asc_opc"));
        command.args(&task.arguments).current_dir(&task.dir).envs(self.task_environment(&task.unit));
        Ok(command)
    }

    /// A program in the environment of the toolkit.
    pub fn command(&self, program: &Path) -> Command {
        self.0.command(program)
    }

    /// The variables that the build sets for a task.
    fn task_environment(&self, unit: &str) -> Vec<(&'static str, OsString)> {
        match self.0.project.system {
            System::Vllm => vllm::environment(&self.0, unit),
            System::Nn => nn::environment(&self.0),
            System::Msopgen => msopgen::environment(&self.0, unit),
        }
    }
}
