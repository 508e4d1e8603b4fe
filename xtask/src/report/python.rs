//! The benchmarks in Python, which need what `cargo xtask frameworks` installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::disk;

/// Their names.
const BENCHES: [&str; 2] = ["triton_hit", "cache_get"];
/// Where `cargo xtask frameworks` installs.
const FRAMEWORKS: &str = "target/frameworks";
/// Our package for the benchmarks, which is optimised.
const PACKAGE: &str = "target/bench-package";
/// The program beside which `cache_get` measures.
const IN_RUST: &str = "target/release/examples/time_get";

/// Whether a benchmark is one of these.
pub(super) fn is_one(bench: &str) -> bool {
    BENCHES.contains(&bench)
}

/// The commands that build what they need, if they can run.
pub(super) fn builds() -> Vec<Command> {
    let Some(python) = python() else { return Vec::new() };
    let mut pip = Command::new(python);
    // It calls cargo.
    crate::cargo::without_package(&mut pip);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--no-deps",
        "--target",
        PACKAGE,
        "./crates/python",
    ]);
    let mut cargo = crate::cargo::cargo();
    cargo.args(["build", "--quiet", "--release", "--package", "opkeep-embed", "--example", "time_get"]);
    vec![pip, cargo]
}

/// The command of a benchmark. `None` if it cannot run.
pub(super) fn command(bench: &str) -> Option<Command> {
    let mut command = Command::new(python()?);
    command.arg(format!("crates/python/benches/{bench}.py"));
    if bench == "cache_get" {
        command.arg(IN_RUST);
    }
    let paths = [PathBuf::from(PACKAGE), newest_triton()?, PathBuf::from("crates/python/tests")];
    let paths = paths.map(|path| std::path::absolute(path).unwrap_or_default());
    command.env("PYTHONPATH", std::env::join_paths(paths).ok()?);
    Some(command)
}

/// The interpreter.
fn python() -> Option<PathBuf> {
    let python = Path::new(FRAMEWORKS).join("venv/bin/python");
    (python.exists() && newest_triton().is_some()).then_some(python)
}

/// The directory of the newest Triton.
fn newest_triton() -> Option<PathBuf> {
    let version = |path: &PathBuf| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?.strip_prefix("triton-")?;
        name.split('.').map(|part| part.parse().ok()).collect()
    };
    let found = disk::entries(Path::new(FRAMEWORKS)).ok()?.into_iter();
    found.filter_map(|path| Some((version(&path)?, path))).max().map(|(_, path)| path)
}
