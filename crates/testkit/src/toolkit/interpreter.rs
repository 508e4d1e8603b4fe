//! The Python of the tests.
//!
//! A Python imports what the machine's packages ask for (`.pth` files) whenever it starts. That can take ten times as long as
//! its own start. Then it compiles each module of the standard library that the toolkit imports, since the toolkit's programs
//! use no bytecode beside sources: this is most of what they take. So the tests have a virtual environment without packages,
//! whose standard library is bytecode without sources.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{disk, library};

/// The Python that the toolkit runs with, if this machine has one that it can: tests of the stand-in are ignored
/// without. It has no packages but the standard library, of which it has bytecode only.
pub fn python() -> Option<PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    // Where no environment can be written, the machine's own will do.
    let find = || {
        let machines = Machines::find()?;
        Some(without_sources(&machines).unwrap_or(machines.program))
    };
    PYTHON.get_or_init(find).clone()
}

/// The same with the machine's standard library, for tests that change it.
pub fn python_with_sources() -> Option<PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let machines = Machines::find()?;
        Some(without_packages(&machines).unwrap_or(machines.program))
    };
    PYTHON.get_or_init(find).clone()
}

/// The machine's Python.
struct Machines {
    /// The interpreter itself: `python3` is a script of a version manager on some machines, which takes longer than most tests.
    program: PathBuf,
    /// The directory of the standard library.
    library: PathBuf,
    /// What the names of its bytecode have, such as `cpython-311`.
    tag: String,
}

impl Machines {
    fn find() -> Option<Self> {
        let code = "import os, sys; assert sys.version_info >= (3, 7)\n\
            print(sys.executable, os.path.dirname(os.__file__), sys.implementation.cache_tag, sep='\\n')";
        let output = Command::new("python3").args(["-c", code]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let [program, library, tag] = text.lines().collect::<Vec<_>>().try_into().ok()?;
        let found = Self { program: program.into(), library: library.into(), tag: tag.to_owned() };
        output.status.success().then_some(found)
    }

    /// A directory beside the test program, for all of them, which stays.
    fn place(&self, kind: &str) -> io::Result<PathBuf> {
        let program = std::env::current_exe()?;
        let [beside, home] = [&program, &self.program].map(|path| path.parent().unwrap_or(Path::new("/")));
        Ok(beside.join(format!("{kind}{}", home.display().to_string().replace('/', "-"))))
    }
}

fn without_packages(machines: &Machines) -> io::Result<PathBuf> {
    let home = machines.program.parent().unwrap_or(Path::new("/"));
    environment(&machines.place("python")?, machines, home)
}

fn without_sources(machines: &Machines) -> io::Result<PathBuf> {
    // The same two names below another directory.
    let above = machines.library.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    let name = machines.library.strip_prefix(above).map_err(io::Error::other)?;
    let at = machines.place("quick-python")?;
    let base = at.join("base");
    // A part of one is not taken for all of it: it has another name until it is complete.
    disk::at_once(&base, |made| {
        library::copy(&machines.library, &made.join(name), &machines.tag)?;
        disk::link_at_once(&machines.program, &made.join("bin/python3"))
    })?;
    let python = environment(&at, machines, &base.join("bin"))?;
    let works = Command::new(&python).args(["-c", "import json"]).output()?.status.success();
    works.then_some(python).ok_or_else(|| io::Error::other("it does not find its library"))
}

/// A virtual environment at a place, of the Python whose programs are in `home`.
fn environment(at: &Path, machines: &Machines, home: &Path) -> io::Result<PathBuf> {
    let python = at.join("bin/python3");
    let config = format!("home = {}\ninclude-system-site-packages = false\n", home.display());
    if disk::target(&python).is_ok_and(|target| target == machines.program) {
        return Ok(python);
    }
    // Several test programs may do this at once. The link comes last.
    disk::replace(&at.join("pyvenv.cfg"), config)?;
    disk::link_at_once(&machines.program, &python)?;
    Ok(python)
}
