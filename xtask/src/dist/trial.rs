//! A trial of an archive as a user has it: it is extracted, and its command does the main job. The command of another processor runs
//! in QEMU, if that is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::environment::kept;
use super::platform::{Platform, native};
use crate::disk;
use crate::venv::Skip;

/// The network that is built.
const MODEL: &str = "fixtures/networks/lenet/model.onnx";

/// Extracts an archive below `directory`, and tries its command.
pub(super) fn try_archive(
    archive: &Path,
    platform: &Platform,
    commit: &str,
    source: &Path,
    directory: &Path,
) -> Result<(), Skip> {
    disk::empty_directory(directory)?;
    let names = [archive, directory].map(|path| path.to_string_lossy().into_owned());
    disk::output("tar", &["-xzf", &names[0], "--strip-components=1", "-C", &names[1]], None)?;
    let command = Trial {
        emulator: emulator(platform)?,
        program: directory.join("bin/opkeep"),
        compiler: compiler(platform),
        model: source.join(MODEL),
        directory,
    };
    command
        .main_job(platform.triple, commit)
        .map_err(|problem| Skip::Failed(format!("{}: {problem}", archive.display())))
}

/// Returns the program that runs binaries of a platform; `None` if they run here.
fn emulator(platform: &Platform) -> Result<Option<String>, Skip> {
    if native()? == platform {
        return Ok(None);
    }
    let name = format!("qemu-{}-static", platform.arch);
    let works = Command::new(&name).arg("--version").output().is_ok_and(|output| output.status.success());
    match works {
        true => Ok(Some(name)),
        false => Err(Skip::Skipped(format!("there is no `{name}`"))),
    }
}

/// Returns a C compiler for the kernels of a platform.
fn compiler(platform: &Platform) -> String {
    match native() {
        Ok(native) if native == platform => "gcc".to_owned(),
        _ => format!("{}-linux-gnu-gcc", platform.arch),
    }
}

struct Trial<'a> {
    emulator: Option<String>,
    program: PathBuf,
    compiler: String,
    model: PathBuf,
    directory: &'a Path,
}

impl Trial<'_> {
    /// Builds a network twice, verifies and explains its kernels, and tries to run it, which a static command refuses.
    fn main_job(&self, triple: &str, commit: &str) -> Result<(), String> {
        let version = self.opkeep(&["--version"], 0)?;
        let commit = commit.get(..9).unwrap_or(commit);
        if !version.contains(triple) || !version.contains(commit) {
            return Err(format!("`--version` prints `{}`, without {triple} or {commit}", version.trim()));
        }
        let model = self.model.to_string_lossy();
        let network = [&*model, "--target", "cpu"];
        let build = [&["build", "--no-kernel-meta", "--quiet"], &network[..]].concat();
        let (first, second) = (self.opkeep(&build, 0)?, self.opkeep(&build, 0)?);
        if !first.contains("13 operators, 13 kernels for cpu-") || !first.contains(" 13 compiled,") {
            return Err(format!("the first build printed `{}`", first.trim()));
        }
        if !second.contains(" 13 reused, 0 compiled,") {
            return Err(format!("the second build printed `{}`", second.trim()));
        }
        let verified = self.opkeep(&["verify"], 0)?;
        if !verified.contains("13 kernels checked: 13 valid, 0 refused") {
            return Err(format!("`verify` printed `{}`", verified.trim()));
        }
        self.opkeep(&[&["explain"], &network[..]].concat(), 0)?;
        self.opkeep(&["doctor", "--target", "cpu"], 0)?;
        let refused = self.opkeep(&[&["run"], &network[..]].concat(), 2)?;
        match refused.contains("error: this program is statically linked") {
            true => Ok(()),
            false => Err(format!("`run` printed `{}`", refused.trim())),
        }
    }

    /// Runs the command, which must end with this status. Returns what it printed.
    fn opkeep(&self, args: &[&str], expected: i32) -> Result<String, String> {
        let mut command = match &self.emulator {
            Some(emulator) => Command::new(emulator),
            None => Command::new(&self.program),
        };
        if self.emulator.is_some() {
            command.arg(&self.program);
        }
        // No settings of the user, such as a remote cache, to which the trial would send its kernels.
        command.args(args).env_clear().envs(kept(&["PATH", "TMPDIR"])).env("CC", &self.compiler);
        command.env("HOME", self.directory).env("OPKEEP_CONFIG", "/dev/null");
        command.env("OPKEEP_CACHE_DIR", self.directory.join("store"));
        let output = command.output().map_err(|error| format!("`{command:?}` did not start: {error}"))?;
        let Output { status, stdout, stderr } = output;
        let printed = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        match status.code() == Some(expected) {
            true => Ok(printed),
            false => Err(format!("`{}` ended with {status}: {printed}", args.join(" "))),
        }
    }
}
