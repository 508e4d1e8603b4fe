//! Virtual environments, which stay for the next run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::interpreter::Interpreter;
use crate::disk;
use crate::task::run;

/// Returns the Python of an environment, which is created if there is none with these packages.
pub(super) fn environment(
    scratch: &Path,
    name: &str,
    interpreter: &Interpreter,
    packages: &[&str],
) -> Result<PathBuf, String> {
    let directory = scratch.join(name);
    let python = directory.join("bin/python");
    // Written last: an interrupted pip leaves a part.
    let ready = packages.join("\n");
    if disk::text_if_exists(&directory, "ready")?.as_deref() != Some(&ready) {
        run(Command::new(&interpreter.program).args(["-m", "venv", "--clear"]).arg(&directory))?;
        if !packages.is_empty() {
            run(pip(&python).arg("install").args(packages))
                .map_err(|error| format!("{error}; is the package index reachable?"))?;
        }
        disk::write(&directory.join("ready"), &ready)?;
    }
    Ok(python)
}

/// Installs a wheel, and nothing that it requires.
pub(super) fn install_wheel(python: &Path, wheel: &Path) -> Result<(), String> {
    run(pip(python).args(["install", "--force-reinstall", "--no-deps", "--no-index"]).arg(wheel))
}

/// The search path of programs, with `directory` first.
pub(super) fn path_with(directory: &Path) -> OsString {
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory.to_owned()).chain(std::env::split_paths(&inherited));
    std::env::join_paths(all).unwrap_or(inherited)
}

pub(super) fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    // It calls cargo.
    crate::cargo::without_package(&mut pip);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    pip
}
