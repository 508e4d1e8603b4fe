//! The programs of the system, and the marks that cases leave in objects.

use std::io;
use std::process::{Command, Stdio};

/// C that leaves a mark in each object.
pub(super) fn header(mark: u32) -> String {
    format!("static const int mark __attribute__((used)) = {mark};\n")
}

/// The same under another name, for objects with several marks.
pub(super) fn named_header(name: &str, mark: u32) -> String {
    format!("static const int mark_{name} __attribute__((used)) = {mark};\n")
}

/// A flag that leaves a mark in each object.
pub(super) fn flag(mark: u32) -> String {
    format!("-Wl,-soname,m{mark}")
}

/// The path of a program in `PATH`.
pub(super) fn program(name: &str) -> io::Result<String> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{name} is not in PATH"));
    let path = system_path();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    found.and_then(|path| path.to_str().map(str::to_owned)).ok_or_else(missing)
}

/// The system's Python, not a script that searches for one.
pub(super) fn python() -> io::Result<String> {
    let found =
        opkeep_testkit::toolkit::python_with_sources().and_then(|path| path.to_str().map(str::to_owned));
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no python3"))
}

/// The `PATH` of builds, without a case's additions.
pub(super) fn system_path() -> String {
    #[expect(clippy::disallowed_methods, reason = "compilers are where the tests' environment has them")]
    std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned())
}

/// Runs a command that must succeed.
pub(super) fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{command:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
