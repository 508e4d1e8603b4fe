//! Dependency files of compiler and linker, for hosts on which programs can be neither confined nor observed.
//!
//! A dry run shows the programs, their ELF headers the libraries that these load, dependency files the headers, libraries
//! and scripts. What a program reads without saying so stays unseen, so nothing is kept that a script compiled.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use opkeep_backend::BackendError;
use opkeep_fs::Fs;
use opkeep_process::{Found, Observation, Program};

use super::cc::Cc;
use super::driver_query::{DriverInfo, unusable};
use super::libraries::{Libraries, usual_directories};
use super::programs::{find_program, is_elf};
use super::words::{command_of, line_after};
use crate::config::CpuConfig;
use crate::work_dir::read_made;

const COMPILER_FILE: &str = "kernel.d";
const LINKER_FILE: &str = "link.d";

/// Has the compiler and the linker write down what they read.
pub(crate) const FLAGS: [&str; 4] = ["-MD", "-MF", COMPILER_FILE, "-Wl,--dependency-file=link.d"];

/// The files that were read by a compile in `dir`, outside of it.
pub(crate) fn read(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in [COMPILER_FILE, LINKER_FILE] {
        let text = read_made(dir, name)?;
        for path in names(&String::from_utf8_lossy(&text)) {
            let path = dir.join(path);
            if !path.starts_with(dir) && !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The prerequisites in a makefile's rules.
fn names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rule in text.replace("\\\n", " ").lines() {
        let Some((_, names)) = rule.split_once(": ") else { continue };
        let mut name = String::new();
        let mut letters = names.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if letters.peek().is_some_and(|next| matches!(next, ' ' | '#' | '\\')) => {
                    name.extend(letters.next())
                }
                '$' if letters.peek() == Some(&'$') => name.extend(letters.next()),
                ' ' => found.extend(Some(std::mem::take(&mut name)).filter(|name| !name.is_empty())),
                letter => name.push(letter),
            }
        }
        found.extend(Some(name).filter(|name| !name.is_empty()));
    }
    found
}

/// The files that a dry run names: the driver, the programs that it runs, and the libraries that they load.
pub(crate) fn of_dry_run(
    config: &CpuConfig,
    cc: &Cc,
    dry_run: &DriverInfo,
) -> Result<Observation, BackendError> {
    let search = line_after(&dry_run.steps, "COMPILER_PATH=").unwrap_or_default();
    let locate = |program: &str| {
        let mut dirs = std::ffi::OsString::from(&search);
        dirs.push(":");
        dirs.push(&config.path);
        find_program(OsStr::new(program), &dirs)
    };
    let mut seen = Observation::default();
    let program = |path: PathBuf, args: &[String]| Program {
        read: std::iter::once(path.clone()).chain(args.iter().flat_map(|word| files_in(word))).collect(),
        is_script: !is_elf(&path),
        path,
        args: args.iter().map(Into::into).collect(),
        ..Program::default()
    };
    seen.programs.push(program(cc.driver.clone(), &[]));
    for step in dry_run.steps.lines().filter_map(command_of) {
        let (name, _) = step.split_first().ok_or_else(|| unusable("an empty step".to_owned()))?;
        let path = locate(name).ok_or_else(|| {
            unusable(format!("`{}` runs `{name}`, which is not there", cc.driver.display()))
        })?;
        seen.programs.push(program(path, &step));
    }
    if seen.programs.len() == 1 {
        return Err(unusable(format!("`{} -###` shows no steps", cc.driver.display())));
    }
    // gcc's collect2 runs ld, which the dry run does not show.
    seen.programs.extend(locate("ld").map(|path| program(path, &[])));
    let mut libraries = Libraries::new(usual_directories(&dry_run.triple));
    for program in &mut seen.programs {
        let mut at = 0;
        while let Some(path) = program.read.get(at) {
            for library in libraries.needed(path) {
                if !program.read.contains(&library) {
                    program.read.push(library);
                }
            }
            at += 1;
        }
        seen.read.extend(program.read.iter().map(|path| (path.clone(), Found::at(path))));
    }
    Ok(seen)
}

/// Whether CC names the driver itself, by what it shows of its steps: gcc says as what it was called, clang runs itself.
pub(crate) fn is_driver(cc: &Cc, dry_run: &DriverInfo) -> bool {
    let itself = line_after(&dry_run.steps, "COLLECT_GCC=").map(PathBuf::from).or_else(|| {
        let steps = dry_run.steps.lines().filter_map(command_of);
        let mut own = steps.filter(|step| step.iter().any(|word| word == "-cc1"));
        own.next().and_then(|step| step.first().map(PathBuf::from))
    });
    let real = |path: &Path| Fs::new().real_path(path).ok();
    is_elf(&cc.driver) && itself.is_some_and(|itself| real(&itself) == real(&cc.driver))
}

/// The files that an argument names: as a whole (`/x.so`), behind a sign (`-plugin-opt=/x`, `-Wl,/x`, `@/x`), or behind a
/// flag (`-imacros/x.h`).
fn files_in(word: &str) -> Vec<PathBuf> {
    let mut begins: Vec<usize> = word.match_indices(['=', ',', '@']).map(|(at, _)| at + 1).collect();
    begins.extend(word.find('/'));
    begins.push(0);
    let ends = || word.match_indices(',').map(|(at, _)| at).chain([word.len()]);
    let candidates = begins.iter().flat_map(|begin| ends().map(move |end| (*begin, end)));
    let texts = candidates.filter_map(|(begin, end)| word.get(begin..end));
    let mut found: Vec<PathBuf> =
        texts.map(PathBuf::from).filter(|path| path.is_absolute() && Fs::new().is_file(path)).collect();
    opkeep_order::sort(&mut found);
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make files")]

    use super::*;

    #[test]
    fn files_are_found_wherever_an_argument_names_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.h");
        std::fs::write(&file, "").unwrap();
        let path = file.to_str().unwrap();
        for word in [
            path.to_owned(),
            format!("-specs={path}"),
            format!("-imacros{path}"),
            format!("@{path}"),
            format!("-Wl,-T,{path}"),
            format!("-Wl,-T,{path},--more"),
            format!("--include={path}"),
        ] {
            assert_eq!(files_in(&word), std::slice::from_ref(&file), "{word}");
        }
        assert!(files_in(dir.path().to_str().unwrap()).is_empty());
        assert!(files_in("-O2").is_empty());
    }

    #[test]
    fn names_in_makefiles_come_apart() {
        let text = "kernel.o: kernel.c \\\n /a/b.h /with\\ space.h \\\n  /dollar$$.h\n\nkernel.c:\n";
        assert_eq!(names(text), ["kernel.c", "/a/b.h", "/with space.h", "/dollar$.h"]);
    }
}
