//! A toolkit and a project in a directory of their own.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use opkeep_cann_meta::targets;
use opkeep_testkit::toolkit::package::{
    PackageInstallation, PackageToolkit, Project, ProjectTask, ProjectTree,
};
use opkeep_validator::validate;
use rustix::process::{Pid, Signal, kill_process_group};
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
        self.project.copy_sources().unwrap();
        task
    }

    /// Runs the task of an operator with further options, in this environment.
    pub(crate) fn compile(&self, task: &ProjectTask, options: &[&str], variables: &[(&str, &str)]) -> Run {
        run(self.project.asc_opc(task).unwrap().args(options).envs(variables.iter().copied()))
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

    /// The texts of all logs, for the message of a build that failed.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        let mut dirs = vec![self.at("project")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    dirs.push(path);
                } else if path.extension().is_some_and(|extension| extension == "log") {
                    text +=
                        &format!("--- {}\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default());
                }
            }
        }
        text
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

/// A program in a process group of its own that does not end by itself.
pub(crate) struct Hanging(Child);

impl Hanging {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Waits for something that happens soon, up to a limit.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    unreachable!("what is waited for does not happen");
}
