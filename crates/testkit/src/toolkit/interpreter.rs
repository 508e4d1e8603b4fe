//! The Python of the tests.
//!
//! A Python imports what the machine's packages ask for (`.pth` files) whenever it starts. That can take ten times as long as
//! its own start, and workers, which use no bytecode, compile it each time. So the tests have a virtual environment without
//! packages.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::disk;

/// The Python that the toolkit runs with, if this machine has one that it can: tests of the stand-in are ignored
/// without. It has no packages but the standard library.
pub fn python() -> Option<PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    // Where no environment can be written, the machine's own will do.
    let find = || machines_python().map(|machines| without_packages(&machines).unwrap_or(machines));
    PYTHON.get_or_init(find).clone()
}

/// The interpreter itself: `python3` is a script of a version manager on some machines, which takes longer than most tests.
fn machines_python() -> Option<PathBuf> {
    let code = "import sys; assert sys.version_info >= (3, 7); print(sys.executable)";
    let output = Command::new("python3").args(["-c", code]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim_end()))
}

/// A virtual environment of this Python. It is beside the test program, for all of them, and stays.
fn without_packages(machines: &Path) -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let [beside, home] = [&program, machines].map(|path| path.parent().unwrap_or(Path::new("/")));
    let name = format!("python{}", home.display().to_string().replace('/', "-"));
    let environment = beside.join(name);
    let python = environment.join("bin/python3");
    let config = format!("home = {}\ninclude-system-site-packages = false\n", home.display());
    if disk::target(&python).is_ok_and(|target| target == machines) {
        return Ok(python);
    }
    // Several test programs may do this at once. The link comes last.
    disk::replace(&environment.join("pyvenv.cfg"), config)?;
    disk::link_at_once(machines, &python)?;
    Ok(python)
}
