//! One run of `opkeep build`, as a process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use opkeep_descriptor::write_info;
use opkeep_testkit::descriptor;
use serde_json::Value;

use super::case::Call;
use super::disk;
use super::system::system_path;

/// The operators that are built: the first calls the math library, the second does not.
const OPERATORS: [&str; 2] = ["Exp", "Relu"];

/// Writes the descriptors that all cases build.
pub(super) fn write_network(dir: &Path) -> io::Result<()> {
    OPERATORS.iter().try_for_each(|op_type| {
        let text = write_info(&descriptor(&op_type.to_lowercase(), op_type, &[&[5]]));
        disk::write(&dir.join(format!("{op_type}.info")), text)
    })
}

/// A sequence of builds with one store, one `TMPDIR` and one home directory.
pub(super) struct World<'a> {
    pub(super) program: &'a Path,
    pub(super) network: &'a Path,
    pub(super) dir: PathBuf,
    pub(super) runs: AtomicUsize,
}

/// The result of a build.
#[derive(Debug)]
pub(super) struct Built {
    /// By operator.
    pub(super) kernels: BTreeMap<String, Kernel>,
    /// Operators that were not built, with the reason.
    pub(super) refused: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) reused: bool,
    pub(super) key: String,
    pub(super) object: Vec<u8>,
}

impl<'a> World<'a> {
    pub(super) fn new(program: &'a Path, network: &'a Path, dir: PathBuf) -> Self {
        Self { program, network, dir, runs: AtomicUsize::new(0) }
    }

    pub(super) fn build(&self, call: &Call) -> io::Result<Built> {
        if call.one_by_one.is_empty() {
            return self.build_in_order(call, self.network);
        }
        let mut all = Built { kernels: BTreeMap::new(), refused: Vec::new() };
        for op_type in &call.one_by_one {
            let one = self.build_in_order(call, &self.network.join(format!("{op_type}.info")))?;
            all.kernels.extend(one.kernels);
            all.refused.extend(one.refused);
        }
        Ok(all)
    }

    fn build_in_order(&self, call: &Call, input: &Path) -> io::Result<Built> {
        // Each run has an empty view, which receives the kernels of the run.
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let view = self.dir.join(format!("view_{run}"));
        disk::directory(&view)?;
        let mut command = self.command(call, &view);
        command.arg("build").arg(input).args(["--format", "json", "--jobs", "2"]).args(&call.args);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| io::Error::other(format!("{error}: {}: {said}", output.status)))?;
        if said.contains("panicked") {
            return Err(io::Error::other(said));
        }
        let rank = call.env.iter().find(|(name, _)| *name == "RANK_ID").map_or("0", |(_, rank)| rank);
        read_report(&report, &view.join(format!("rank_{rank}/kernel_meta")))
    }

    fn command(&self, call: &Call, view: &Path) -> Command {
        let mut command = match call.launcher.split_first() {
            Some((launcher, words)) => {
                let mut command = Command::new(launcher);
                command.args(words).arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        let path: Vec<String> = call.path.iter().cloned().chain([system_path()]).collect();
        let or = |path: &Option<PathBuf>, name: &str| path.clone().unwrap_or_else(|| self.dir.join(name));
        command.env_clear().env("PATH", path.join(":")).env("HOME", self.dir.join("home"));
        command.env("TMPDIR", or(&call.tmp, "tmp")).current_dir(or(&call.cwd, "cwd")).stdin(Stdio::null());
        command.env("OPKEEP_CACHE_DIR", self.dir.join("store")).env("MS_COMPILER_CACHE_PATH", view);
        if !call.cc.is_empty() {
            command.env("CC", &call.cc);
        }
        command.envs(call.env.iter().map(|(name, value)| (*name, value)));
        command
    }
}

fn read_report(report: &Value, view: &Path) -> io::Result<Built> {
    let mut built = Built { kernels: BTreeMap::new(), refused: Vec::new() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(error) = report["error"].as_str() {
        built.refused.push(error.to_owned());
    }
    for result in report["results"].as_array().into_iter().flatten() {
        let op_type = text(&result["op_type"]);
        match result["outcome"].as_str() {
            Some(outcome @ ("compiled" | "reused" | "shared" | "bypassed")) => {
                let object = object_of(view, &op_type)?;
                let kernel = Kernel { reused: outcome == "reused", key: text(&result["key"]), object };
                built.kernels.insert(op_type, kernel);
            }
            _ => built.refused.push(format!("{op_type}: {}", text(&result["reason"]))),
        }
    }
    match built.kernels.is_empty() && built.refused.is_empty() {
        true => Err(io::Error::other(format!("a build of nothing: {report}"))),
        false => Ok(built),
    }
}

/// The object that a framework would load for the operator.
fn object_of(view: &Path, op_type: &str) -> io::Result<Vec<u8>> {
    let begin = format!("{}_", op_type.to_lowercase());
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_object = |path: &PathBuf| name(path).starts_with(&begin) && name(path).ends_with(".o");
    let found = disk::entries(view).into_iter().find(is_object);
    let none = || io::Error::other(format!("{} has no object for {op_type}", view.display()));
    disk::read(&found.ok_or_else(none)?)
}
