//! `cargo xtask remote-servers`: installs the servers that tests of the remote tier start, and starts each once; and the programs that
//! start builds on a cluster, for `docs/cluster.md`.
//!
//! What cannot be installed here is left out, with the reason; its tests show as ignored.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::disk;
use crate::frameworks::commit_seed;
use crate::venv::{self, Skip, Venv};

/// The directory in which the tests look for them.
const DIRECTORY: &str = "target/remote-servers";

/// Versions whose behaviour the tests know. Later s3s-fs need a later compiler.
const PYTHON_PROGRAMS: [PythonProgram; 4] = [
    // Its extra `server` has what all services need, which is much more.
    PythonProgram {
        name: "moto-5.2.5",
        program: "moto_server",
        requirements: &["moto[s3]==5.2.5", "flask", "flask-cors"],
        mode: Mode::Quick,
    },
    PythonProgram {
        name: "buildgrid-0.4.4",
        program: "bgd",
        requirements: &["buildgrid==0.4.4"],
        mode: Mode::Quick,
    },
    PythonProgram {
        name: "kubernetes-validate-1.37.0",
        program: "kubernetes-validate",
        requirements: &["kubernetes-validate==1.37.0"],
        mode: Mode::Launchers,
    },
    // It takes half a minute and 300 MB.
    PythonProgram { name: "ray-2.60.0", program: "ray", requirements: &["ray==2.60.0"], mode: Mode::All },
];
/// Programs of the system, and the packages of Debian that have them.
const SYSTEM_PROGRAMS: [SystemProgram; 4] = [
    SystemProgram { program: "redis-server", package: "redis-server", mode: Mode::Quick },
    SystemProgram { program: "slurmctld", package: "slurm-wlm", mode: Mode::Launchers },
    SystemProgram { program: "mpirun", package: "openmpi-bin", mode: Mode::Launchers },
    // A test reads the page of a report with it. It takes half a minute and 400 MB.
    SystemProgram { program: "chromium", package: "chromium", mode: Mode::S3sFs },
];
const S3S_FS: &str = "0.14.1";

const USAGE: &str = "usage: cargo xtask remote-servers [--install|--check]
  (nothing)  install what takes seconds: redis-server as root, moto and BuildGrid; start each server
  --install  also s3s-fs, which is built from its sources and takes minutes; Slurm, Open MPI and
             Chromium as root, Ray, kubernetes-validate
  --check    install nothing; start each server that there is";

struct PythonProgram {
    /// With its version: another one is installed anew.
    name: &'static str,
    program: &'static str,
    requirements: &'static [&'static str],
    /// When it is installed.
    mode: Mode,
}

struct SystemProgram {
    program: &'static str,
    package: &'static str,
    /// When it is installed.
    mode: Mode,
}

/// What is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing.
    Check,
    /// What takes seconds, and most tests need.
    Quick,
    /// Also what starts builds on a cluster, except Ray.
    Launchers,
    /// Also s3s-fs, except what starts builds on a cluster.
    S3sFs,
    All,
}

impl Mode {
    /// Whether what belongs to the mode `part` is installed.
    fn has(self, part: Self) -> bool {
        self != Self::Check && (part == Self::Quick || part == self || self == Self::All)
    }

    /// The mode of a commit in CI. One of four has the launchers, whose packages take a minute, and another one s3s-fs, which takes
    /// more. The tests of the launchers run for the same commits.
    fn of_commit(seed: u32) -> Self {
        match seed % 4 {
            0 => Self::Launchers,
            2 => Self::S3sFs,
            _ => Self::Quick,
        }
    }

    fn of(args: &[String]) -> Result<Self, String> {
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Ok(Self::Quick),
            ["--install"] => Ok(Self::All),
            ["--check"] => Ok(Self::Check),
            _ => Err(format!("found `{}`\n{USAGE}", args.join(" "))),
        }
    }
}

pub(crate) fn remote_servers(args: &[String]) -> Result<(), String> {
    let mode = Mode::of(args)?;
    install(mode);
    start_each()
}

/// The step of `ci`, whose tests start each server.
pub(crate) fn install_in_ci(args: &[String]) -> Result<(), String> {
    crate::task::no_arguments(args)?;
    install(commit_seed().map_or(Mode::Quick, Mode::of_commit));
    Ok(())
}

/// Installs the programs, and prints where each is, or why it is left out.
fn install(mode: Mode) {
    let began = Instant::now();
    // pip mostly waits for the index, and runs on one core.
    let results = std::thread::scope(|scope| {
        let python = scope.spawn(|| python_programs(mode));
        let mut results = system_programs(mode);
        results.push(("s3s-fs", s3s_fs(mode)));
        results.extend(python.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        results
    });
    for (name, result) in results {
        match result {
            Ok(path) => println!("{name}: {}", path.display()),
            Err(reason) => println!("{name}: LEFT OUT, {reason}; its tests show as ignored"),
        }
    }
    println!("installed in {:.0} s", began.elapsed().as_secs_f64());
}

/// Where each program is, or the reason why it is nowhere.
type Results = Vec<(&'static str, Result<PathBuf, String>)>;

/// The system's programs: from its packages, as root.
fn system_programs(mode: Mode) -> Results {
    let find = |program: &str| {
        let script = "PATH=$PATH:/usr/bin:/usr/sbin command -v \"$0\"";
        let found = disk::output("sh", &["-c", script, program], None);
        found.ok().map(|path| PathBuf::from(venv::text(&path).trim()))
    };
    let is_missing = |one: &&SystemProgram| mode.has(one.mode) && find(one.program).is_none();
    let missing: Vec<_> = SYSTEM_PROGRAMS.iter().filter(is_missing).map(|one| one.package).collect();
    let installed = if missing.is_empty() { Ok(()) } else { install_packages(&missing) };
    let result = |one: &SystemProgram| match (find(one.program), &installed) {
        (Some(path), _) => Ok(path),
        (None, _) if !mode.has(one.mode) => Err("it is not on the PATH".to_owned()),
        (None, Ok(())) => Err("its package has no program on the PATH".to_owned()),
        (None, Err(reason)) => Err(reason.clone()),
    };
    SYSTEM_PROGRAMS.iter().map(|one| (one.program, result(one))).collect()
}

fn install_packages(packages: &[&str]) -> Result<(), String> {
    let user = disk::output("id", &["-u"], None)?;
    if venv::text(&user).trim() != "0" {
        return Err("it is not on the PATH, and only root can install it".to_owned());
    }
    let apt = |args: &[&str]| {
        println!("==> apt-get {}", args.join(" "));
        let mut command = Command::new("apt-get");
        let output = venv::output(command.args(args).env("DEBIAN_FRONTEND", "noninteractive"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("`apt-get {}`: {}", args.join(" "), last_line(&venv::text(&output.stderr)))),
        }
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

/// The programs in Python, in one virtual environment.
fn python_programs(mode: Mode) -> Results {
    let directory = Path::new(DIRECTORY).join("venv");
    let venv = if mode == Mode::Check { None } else { Some(Venv::create(&directory)) };
    let result = |one: &PythonProgram| {
        match &venv {
            Some(Err(Skip::Skipped(reason) | Skip::Failed(reason))) => return Err(reason.clone()),
            Some(Ok(venv)) if mode.has(one.mode) => {
                venv.install(one.name, one.requirements).map_err(|error| last_line(&error))?;
            }
            _ if !venv::is_marked(&directory, one.name) => {
                return Err(format!("{} is not installed", one.name));
            }
            _ => {}
        }
        Ok(directory.join("bin").join(one.program))
    };
    PYTHON_PROGRAMS.iter().map(|one| (one.program, result(one))).collect()
}

/// s3s-fs, from its sources: no index has the program. Without optimization, which takes half the time.
fn s3s_fs(mode: Mode) -> Result<PathBuf, String> {
    let program = Path::new(DIRECTORY).join("bin/s3s-fs");
    // cargo puts the program there when it is complete.
    if program.exists() {
        return Ok(program);
    }
    if !mode.has(Mode::S3sFs) {
        return Err("it is not installed; it takes minutes to build, which `--install` does".to_owned());
    }
    let build = Path::new(DIRECTORY).join("build");
    let mut cargo = crate::cargo::cargo();
    cargo.args(["install", "s3s-fs", "--version", S3S_FS, "--features", "binary", "--locked", "--debug"]);
    cargo.args(["--no-track", "--root", DIRECTORY, "--target-dir"]).arg(&build);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    println!("==> cargo install s3s-fs");
    let output = venv::output(&mut cargo)?;
    if build.exists() {
        disk::remove(&build)?;
    }
    match output.status.success() {
        true => Ok(program),
        false => Err(last_line(&venv::text(&output.stderr))),
    }
}

/// The last line of what a program said went wrong.
fn last_line(text: &str) -> String {
    text.trim().lines().next_back().unwrap_or_default().trim().to_owned()
}

/// Runs the tests that start each server.
fn start_each() -> Result<(), String> {
    let args = ["test", "--quiet", "--package", "opkeep-testkit", "--test", "cases", "--", "servers: "];
    println!("==> cargo {}", args.join(" "));
    // The directory may be another one in the environment, where the tests would look.
    let directory = std::path::absolute(DIRECTORY).map_err(|error| format!("`{DIRECTORY}`: {error}"))?;
    let status = crate::cargo::cargo().args(args).env("OPKEEP_REMOTE_SERVERS", directory).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the tests of the servers ended with {status}")),
        Err(error) => Err(format!("cargo did not start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_understood_or_refused() {
        let parsed = |args: &[&str]| Mode::of(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert_eq!(parsed(&[]), Ok(Mode::Quick));
        assert_eq!(parsed(&["--install"]), Ok(Mode::All));
        assert_eq!(parsed(&["--check"]), Ok(Mode::Check));
        assert!(parsed(&["--instal"]).unwrap_err().contains("`--instal`"));
        assert!(parsed(&["--check", "--install"]).unwrap_err().contains("usage"));
    }

    #[test]
    fn each_mode_has_its_parts() {
        let parts =
            |mode: Mode| [Mode::Quick, Mode::Launchers, Mode::S3sFs, Mode::All].map(|part| mode.has(part));
        assert_eq!(parts(Mode::Check), [false; 4]);
        assert_eq!(parts(Mode::Quick), [true, false, false, false]);
        assert_eq!(parts(Mode::Launchers), [true, true, false, false]);
        assert_eq!(parts(Mode::S3sFs), [true, false, true, false]);
        assert_eq!(parts(Mode::All), [true; 4]);
        assert_eq!(
            [0, 1, 2, 3].map(Mode::of_commit),
            [Mode::Launchers, Mode::Quick, Mode::S3sFs, Mode::Quick]
        );
    }

    #[test]
    fn the_last_line_is_the_reason() {
        assert_eq!(last_line("a\nERROR: no matching distribution \n\n"), "ERROR: no matching distribution");
        assert_eq!(last_line(""), "");
    }
}
