//! `cargo xtask install-size`: installs the command as a user does, below `target/installed`, and checks that the program is
//! stripped and small.

use std::path::{Path, PathBuf};

use crate::disk;
use crate::task::no_arguments;

/// A program of this size, or a larger one, fails.
const LIMIT: usize = 12_000_000;
const ROOT: &str = "target/installed";
const CRATE: &str = "crates/cli";

pub(crate) fn install_size(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    check(&install()?)
}

/// Installs the command, and returns its path.
fn install() -> Result<PathBuf, String> {
    let mut cargo = crate::cargo::cargo();
    cargo.args(["install", "--quiet", "--locked", "--force", "--path", CRATE, "--root", ROOT]);
    let status = cargo.status().map_err(|error| format!("cargo did not start: {error}"))?;
    match status.success() {
        true => Ok(Path::new(ROOT).join("bin/opkeep")),
        false => Err(format!("`cargo install` ended with {status}")),
    }
}

/// States the size of a program, and checks it. The programs of a release are checked, too.
pub(crate) fn check(program: &Path) -> Result<(), String> {
    let text = program.to_string_lossy();
    let bytes = disk::bytes(Path::new(""), &text)?.len();
    let sections = disk::output("readelf", &["--sections", "--wide", &text], None)?;
    println!("{text}: {}", stated(bytes));
    verdict(bytes, &String::from_utf8_lossy(&sections)).map_err(|problem| format!("`{text}` {problem}"))
}

fn stated(bytes: usize) -> String {
    format!("{:.2} MB, of {:.1} MB that are allowed", bytes as f64 / 1e6, LIMIT as f64 / 1e6)
}

fn verdict(bytes: usize, sections: &str) -> Result<(), String> {
    if let Some(name) =
        [".symtab", ".debug_info", ".debug_line"].iter().find(|name| sections.contains(**name))
    {
        return Err(format!("is not stripped: it has the section `{name}`"));
    }
    match bytes < LIMIT {
        true => Ok(()),
        false => Err(format!(
            "has {bytes} bytes, expected fewer than {LIMIT}; `nm --size-sort` of a build with symbols shows what is large"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_program_and_symbols_are_refused() {
        assert_eq!(verdict(LIMIT - 1, "  [ 1] .interp\n  [14] .text\n"), Ok(()));
        assert!(verdict(LIMIT, "").unwrap_err().contains("12000000 bytes, expected fewer than 12000000"));
        for section in [".symtab", ".debug_line"] {
            assert!(verdict(1, &format!("  [30] {section}\n")).unwrap_err().contains(section));
        }
        assert_eq!(stated(11_904_000), "11.90 MB, of 12.0 MB that are allowed");
    }

    #[test]
    fn a_program_with_symbols_is_recognised() {
        // Test programs have symbols.
        let this = std::env::current_exe().unwrap();
        assert!(check(&this).unwrap_err().contains("is not stripped"));
    }
}
