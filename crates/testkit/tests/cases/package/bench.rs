//! A toolkit and a project in a directory of their own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use opkeep_cann_meta::targets;
use opkeep_testkit::toolkit::package::{
    PackageInstallation, PackageToolkit, Project, ProjectTask, ProjectTree,
};
use opkeep_validator::validate;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) installed: PackageInstallation,
    pub(crate) project: ProjectTree,
}

/// The status and the output of a program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(&Project::vllm())
    }

    pub(crate) fn of(project: &Project) -> Self {
        let dir = TempDir::new().unwrap();
        // The path of every file here is what the operating system says that it is.
        let at = fs::canonicalize(dir.path()).unwrap();
        let installed = PackageToolkit::new().write(&at.join("Ascend")).unwrap();
        let project = project.write(&at.join("project"), &installed).unwrap();
        Self { dir, installed, project }
    }

    /// The first task of an operator, ready to be run by itself.
    pub(crate) fn task(&self, op_type: &str) -> ProjectTask {
        let tasks = self.project.tasks().unwrap();
        let task = tasks.into_iter().find(|task| task.op_type == op_type).unwrap();
        let folder = self.project.source(op_type, "").unwrap();
        let copied = task.python.parent().unwrap().join(folder.parent().unwrap().file_name().unwrap());
        run(Command::new("cp").args(["-rfT".as_ref(), folder.as_os_str(), copied.as_os_str()]));
        task
    }

    /// Runs the task of an operator with further options, in this environment.
    pub(crate) fn compile(&self, task: &ProjectTask, options: &[&str], variables: &[(&str, &str)]) -> Run {
        run(self.project.asc_opc(task).args(options).envs(variables.iter().copied()))
    }

    /// Runs it, and reads the object and the `.json`.
    pub(crate) fn compiled(
        &self,
        task: &ProjectTask,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> (Vec<u8>, Value) {
        let ran = self.compile(task, options, variables);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        pair(task)
    }

    /// The findings of the validator for a task's files. A genuine kernel has none.
    pub(crate) fn findings(task: &ProjectTask) -> Vec<String> {
        let [object, json] = task.files().map(|path| fs::read(path).unwrap());
        let soc = task.arguments.iter().find_map(|word| word.strip_prefix("--soc_version=")).unwrap();
        validate(&json, &object, &targets::ascend(soc)).findings.iter().map(ToString::to_string).collect()
    }

    /// A file below the directory of all this.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(path)
    }
}

/// The object and the `.json` of a task.
pub(crate) fn pair(task: &ProjectTask) -> (Vec<u8>, Value) {
    let [object, json] = task.files().map(|path| fs::read(path).unwrap());
    (object, serde_json::from_slice(&json).unwrap())
}

pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
