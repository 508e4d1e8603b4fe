//! `cargo xtask remote-servers`: installs the servers that tests of the remote tier start, and starts each once.
//!
//! A server that cannot be installed here is left out, with the reason; its tests show as ignored.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::disk;
use crate::frameworks::commit_seed;
use crate::venv::{self, Skip, Venv};

/// The directory in which the tests look for them.
const DIRECTORY: &str = "target/remote-servers";

/// Versions whose behaviour the tests know. Later s3s-fs need a later compiler.
const PYTHON_SERVERS: [PythonServer; 2] = [
    // Its extra `server` has what all services need, which is much more.
    PythonServer {
        name: "moto-5.2.5",
        program: "moto_server",
        requirements: &["moto[s3]==5.2.5", "flask", "flask-cors"],
    },
    PythonServer { name: "buildgrid-0.4.4", program: "bgd", requirements: &["buildgrid==0.4.4"] },
];
const S3S_FS: &str = "0.14.1";

const USAGE: &str = "usage: cargo xtask remote-servers [--install|--check]
  (nothing)  install what takes seconds: redis-server as root, moto and BuildGrid; start each server
  --install  also s3s-fs, which is built from its sources and takes minutes
  --check    install nothing; start each server that there is";

struct PythonServer {
    /// With its version: another one is installed anew.
    name: &'static str,
    program: &'static str,
    requirements: &'static [&'static str],
}

/// What is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Check,
    Quick,
    All,
}

impl Mode {
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

/// The step of `ci`, whose tests start each server. One commit of four has s3s-fs: building it takes more than a minute.
pub(crate) fn install_in_ci(args: &[String]) -> Result<(), String> {
    crate::task::no_arguments(args)?;
    let has_turn = commit_seed().is_ok_and(|seed| seed % 4 == 0);
    install(if has_turn { Mode::All } else { Mode::Quick });
    Ok(())
}

/// Installs the servers, and prints where each is, or why it is left out.
fn install(mode: Mode) {
    let began = Instant::now();
    // pip mostly waits for the index, and runs on one core.
    let (python, [redis, s3s_fs]) = std::thread::scope(|scope| {
        let python = scope.spawn(|| python_servers(mode));
        let others = [redis(mode), s3s_fs(mode)];
        (python.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), others)
    });
    let [moto, buildgrid] = python;
    for (name, result) in
        [("redis-server", redis), ("moto_server", moto), ("BuildGrid", buildgrid), ("s3s-fs", s3s_fs)]
    {
        match result {
            Ok(path) => println!("{name}: {}", path.display()),
            Err(reason) => println!("{name}: LEFT OUT, {reason}; its tests show as ignored"),
        }
    }
    println!("installed in {:.0} s", began.elapsed().as_secs_f64());
}

/// Redis is the system's: from its packages, as root.
fn redis(mode: Mode) -> Result<PathBuf, String> {
    const PROGRAM: &str = "redis-server";
    let find = || {
        let found =
            disk::output("sh", &["-c", "PATH=$PATH:/usr/bin:/usr/sbin command -v redis-server"], None);
        found.ok().map(|path| PathBuf::from(venv::text(&path).trim()))
    };
    if let Some(path) = find() {
        return Ok(path);
    }
    if mode == Mode::Check {
        return Err("it is not on the PATH".to_owned());
    }
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
    apt(&["install", "-y", "--no-install-recommends", PROGRAM])?;
    find().ok_or_else(|| "its package has no program on the PATH".to_owned())
}

/// Moto and BuildGrid, in one virtual environment.
fn python_servers(mode: Mode) -> [Result<PathBuf, String>; 2] {
    let directory = Path::new(DIRECTORY).join("venv");
    if mode == Mode::Check {
        return PYTHON_SERVERS.map(|server| match venv::is_marked(&directory, server.name) {
            true => Ok(directory.join("bin").join(server.program)),
            false => Err(format!("{} is not installed", server.name)),
        });
    }
    match Venv::create(&directory) {
        Ok(venv) => PYTHON_SERVERS.map(|server| {
            let installed = venv.install(server.name, server.requirements);
            installed.map_err(|error| last_line(&error))?;
            Ok(directory.join("bin").join(server.program))
        }),
        Err(Skip::Skipped(reason) | Skip::Failed(reason)) => [Err(reason.clone()), Err(reason)],
    }
}

/// s3s-fs, from its sources: no index has the program. Without optimization, which takes half the time.
fn s3s_fs(mode: Mode) -> Result<PathBuf, String> {
    let program = Path::new(DIRECTORY).join("bin/s3s-fs");
    // cargo puts the program there when it is complete.
    if program.exists() {
        return Ok(program);
    }
    match mode {
        Mode::Check => return Err("it is not installed".to_owned()),
        Mode::Quick => return Err("it takes minutes to build, which `--install` does".to_owned()),
        Mode::All => {}
    }
    let build = Path::new(DIRECTORY).join("build");
    let mut cargo = Command::new("cargo");
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
    let status = Command::new("cargo").args(args).env("OPKEEP_REMOTE_SERVERS", directory).status();
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
    fn the_last_line_is_the_reason() {
        assert_eq!(last_line("a\nERROR: no matching distribution \n\n"), "ERROR: no matching distribution");
        assert_eq!(last_line(""), "");
    }
}
