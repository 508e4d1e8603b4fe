//! What a binary of an archive must be: static, stripped, and for its platform.

use std::path::Path;
use std::process::Command;

use super::platform::Platform;
use crate::disk;

/// Fails unless the binary is as it must be.
pub(super) fn check(path: &Path, platform: &Platform) -> Result<(), String> {
    let mut readelf = Command::new("readelf");
    readelf.env("LC_ALL", "C").args(["--wide", "--file-header", "--program-headers", "--dynamic"]);
    let printed = disk::printed(readelf.arg("--sections").arg(path))?;
    let problems = problems(&printed, platform.machine);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(format!("`{}`: {}", path.display(), problems.join("; "))),
    }
}

/// Returns what is wrong with the binary that `readelf` described.
fn problems(printed: &str, machine: &str) -> Vec<String> {
    let has = |pattern: &str| printed.lines().any(|line| line.contains(pattern));
    let mut problems = Vec::new();
    let found = printed.lines().find_map(|line| line.trim().strip_prefix("Machine:")).map(str::trim);
    if found != Some(machine) {
        problems.push(format!("it is for {}, expected {machine}", found.unwrap_or("no machine")));
    }
    if !has("Program Headers:") || !has("Section Headers:") {
        problems.push("readelf shows no headers".to_owned());
    }
    for (pattern, problem) in [
        ("INTERP", "it needs a program that loads it, so it is not static"),
        ("(NEEDED)", "it needs shared libraries"),
        (" .symtab ", "it has symbols"),
        (" .debug_", "it has debug information"),
    ] {
        if has(pattern) {
            problems.push(problem.to_owned());
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATIC: &str = "\
  Class:                             ELF64
  Machine:                           AArch64
Section Headers:
  [ 1] .rela.dyn         RELA            0000000000000270 000270 06b4f8 18   A  0   0  8
  [21] .shstrtab         STRTAB          0000000000000000 2cd1a4 0000f0 00      0   0  1
Program Headers:
  LOAD           0x000000 0x0000000000000000 0x0000000000000000 0x0f5d54 0x0f5d54 R   0x1000
Dynamic section at offset 0x2a5b18 contains 21 entries:
 0x0000000000000015 (DEBUG)              0x0
";

    #[test]
    fn a_static_stripped_binary_passes() {
        assert_eq!(problems(STATIC, "AArch64"), [""; 0]);
    }

    #[test]
    fn each_fault_is_named() {
        let with = |line: &str| problems(&format!("{STATIC}{line}\n"), "AArch64");
        let interpreter = "  INTERP         0x000318 0x0000000000000318 0x0000000000000318 0x00001c";
        assert!(with(interpreter)[0].contains("not static"));
        let library = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]";
        assert!(with(library)[0].contains("shared libraries"));
        assert!(with("  [41] .symtab           SYMTAB          0000000000000000")[0].contains("symbols"));
        assert!(with("  [37] .debug_line       PROGBITS        0000000000000000")[0].contains("debug"));
        assert!(problems(STATIC, "Advanced Micro Devices X86-64")[0].contains("it is for AArch64"));
        assert!(!problems("", "AArch64").is_empty());
    }

    #[test]
    fn the_program_of_this_test_is_not_static() {
        let path = std::env::current_exe().unwrap();
        let error = check(&path, super::super::platform::native().unwrap()).unwrap_err();
        assert!(error.contains("shared libraries"), "{error}");
    }
}
