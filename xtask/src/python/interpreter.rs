//! The Pythons of this machine.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::disk;

/// The minor versions of Python 3 that the package supports, as far as they exist.
const VERSIONS: std::ops::RangeInclusive<u32> = 10..=15;

/// An installed Python.
pub(super) struct Interpreter {
    pub(super) minor: u32,
    pub(super) program: PathBuf,
}

/// The Pythons of this machine that the package supports, one of each version: first `python3`, then those that are called
/// by their version, or that pyenv has.
pub(super) fn interpreters() -> Vec<Interpreter> {
    let pyenv = |minor| {
        let prefix = disk::output("pyenv", &["prefix", &format!("3.{minor}")], None).ok()?;
        Some(format!("{}/bin/python3", String::from_utf8(prefix).ok()?.trim()))
    };
    let others = VERSIONS.flat_map(|minor| [Some(format!("python3.{minor}")), pyenv(minor)]).flatten();
    let mut found: Vec<Interpreter> = Vec::new();
    for program in std::iter::once("python3".to_owned()).chain(others) {
        if let Some(interpreter) = Interpreter::of(&program)
            && found.iter().all(|known| known.minor != interpreter.minor)
        {
            found.push(interpreter);
        }
    }
    found
}

impl Interpreter {
    /// The interpreter called `program`, if the package supports it.
    fn of(program: &str) -> Option<Self> {
        let script = "import ensurepip, sys, venv; print(*sys.version_info[:2], sys.executable)";
        let output = Command::new(program).args(["-c", script]).stderr(Stdio::null()).output().ok()?;
        Self::parse(str::from_utf8(&output.stdout).ok()?)
    }

    /// Reads the major version, the minor version and the path of an interpreter.
    fn parse(line: &str) -> Option<Self> {
        let (version, program) = line.trim().strip_prefix("3 ")?.split_once(' ')?;
        let minor = version.parse().ok().filter(|minor| VERSIONS.contains(minor))?;
        Some(Self { minor, program: program.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_interpreters_are_recognised() {
        let found = Interpreter::parse("3 11 /usr/bin/python 3\n").unwrap();
        assert_eq!((found.minor, found.program), (11, PathBuf::from("/usr/bin/python 3")));
        for other in ["", "3 9 /usr/bin/python3\n", "2 7 /usr/bin/python\n", "4 10 /p\n", "3 16 /p\n"] {
            assert!(Interpreter::parse(other).is_none(), "{other}");
        }
    }
}
