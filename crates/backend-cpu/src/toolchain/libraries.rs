//! Which shared libraries a program loads.
//!
//! Compilers see an environment without `LD_LIBRARY_PATH`, so libraries come from the directories that the program
//! names itself and from those of the system. A library that is not found where it is looked for does not count; the
//! loader would not find it either, or finds it by its cache in a directory that `/etc/ld.so.conf` names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{Dyn as _, FileHeader as _};
use opkeep_fs::Fs;

type Header = FileHeader64<object::LittleEndian>;

/// The paths of libraries that were looked up.
pub(crate) struct Libraries {
    /// The system's directories.
    usual: Vec<PathBuf>,
    /// Libraries by name, kept since all programs need the C library.
    known: HashMap<String, Option<PathBuf>>,
}

impl Libraries {
    pub(crate) fn new(usual: Vec<PathBuf>) -> Self {
        Self { usual, known: HashMap::new() }
    }

    /// The libraries that the file at `path` needs, as far as they are found. None for what is no ELF file: a script.
    pub(crate) fn needed(&mut self, path: &Path) -> Vec<PathBuf> {
        let Some((names, own)) = read(path) else { return Vec::new() };
        let own = own_directories(path, &own);
        names.into_iter().filter_map(|name| self.find(name, &own)).collect()
    }

    fn find(&mut self, name: String, own: &[PathBuf]) -> Option<PathBuf> {
        let direct = Some(PathBuf::from(&name)).filter(|_| name.contains('/'));
        let first = direct.into_iter().chain(own.iter().map(|dir| dir.join(&name)));
        if let Some(found) = first.into_iter().find(|candidate| Fs::new().is_file(candidate)) {
            return Some(found);
        }
        let usual = &self.usual;
        let in_usual = |name: &String| {
            usual.iter().map(|dir| dir.join(name)).find(|candidate| Fs::new().is_file(candidate))
        };
        self.known.entry(name).or_insert_with_key(in_usual).clone()
    }
}

/// The directories that a program names itself, in lists.
fn own_directories(path: &Path, lists: &[String]) -> Vec<PathBuf> {
    if lists.is_empty() {
        return Vec::new();
    }
    let real = Fs::new().real_path(path).unwrap_or_default();
    let origin = real.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let dirs = lists.iter().flat_map(|list| list.split(':'));
    dirs.map(|dir| dir.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin).into()).collect()
}

/// Names of needed libraries, and lists of directories to look for them in.
fn read(path: &Path) -> Option<(Vec<String>, Vec<String>)> {
    let data = ReadCache::new(Fs::new().open(path).ok()?);
    let header = Header::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &data).ok()?;
    let (mut names, mut dirs) = (Vec::new(), Vec::new());
    if let Some((entries, link)) = sections.dynamic(endian, &data).ok()? {
        let strings = sections.strings(endian, &data, link).ok()?;
        for entry in entries {
            let list = match entry.tag(endian) {
                DT_NEEDED => &mut names,
                DT_RPATH | DT_RUNPATH => &mut dirs,
                _ => continue,
            };
            list.push(String::from_utf8_lossy(entry.string(endian, strings).ok()?).into_owned());
        }
    }
    Some((names, dirs))
}

/// The system's directories for libraries of the target `triple`.
pub(crate) fn usual_directories(triple: &str) -> Vec<PathBuf> {
    // Debian's directories leave the vendor out: x86_64-pc-linux-gnu is x86_64-linux-gnu there.
    let parts: Vec<&str> = triple.split('-').collect();
    let multiarch = match parts.as_slice() {
        [arch, _, rest @ ..] if rest.len() > 1 => format!("{arch}-{}", rest.join("-")),
        _ => triple.to_owned(),
    };
    let mut dirs = configured_dirs();
    let usual = ["/lib/{}", "/usr/lib/{}", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
    dirs.extend(usual.iter().map(|dir| PathBuf::from(dir.replace("{}", &multiarch))));
    dirs
}

/// Directories that `/etc/ld.so.conf` and the files it includes name. None where there is no such file.
fn configured_dirs() -> Vec<PathBuf> {
    const MAX_TEXT: u64 = 1 << 20;
    let included = Path::new("/etc/ld.so.conf.d");
    let names = Fs::new().list(included).unwrap_or_default();
    let mut paths: Vec<PathBuf> = names.into_iter().map(|(name, _)| included.join(name)).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    opkeep_order::sort(&mut paths);
    paths.insert(0, PathBuf::from("/etc/ld.so.conf"));
    let texts = paths.iter().filter_map(|path| Fs::new().read_text(path, MAX_TEXT).ok());
    let text = texts.collect::<Vec<_>>().join("\n");
    text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests look at this very program")]

    use super::*;

    /// The test program is linked against the C library, and what is said of it must be what the loader says.
    #[test]
    fn this_programs_libraries_are_those_that_are_mapped() {
        let program = std::env::current_exe().unwrap();
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libraries = Libraries::new(usual_directories(&triple)).needed(&program);
        assert!(!libraries.is_empty());
        for library in libraries {
            let real = library.canonicalize().unwrap();
            assert!(maps.contains(real.to_str().unwrap()), "{library:?} is not mapped");
        }
    }

    /// Libraries of libraries are found when those are followed; here, by the directory that a program names.
    #[test]
    fn directories_that_a_program_names_are_searched() {
        let dir = tempfile::tempdir().unwrap();
        let cc = |args: &[&str]| {
            let status = std::process::Command::new("cc").current_dir(dir.path()).args(args).status();
            assert!(status.unwrap().success());
        };
        std::fs::write(dir.path().join("lib.c"), "int one(void) { return 1; }").unwrap();
        std::fs::write(dir.path().join("main.c"), "int one(void); int main(void) { return one(); }").unwrap();
        cc(&["-shared", "-fPIC", "-o", "libone.so", "lib.c"]);
        cc(&["-o", "main", "main.c", "-L.", "-lone", "-Wl,-rpath,$ORIGIN"]);
        let found = Libraries::new(Vec::new()).needed(&dir.path().join("main"));
        let own = dir.path().canonicalize().unwrap().join("libone.so");
        assert!(found.contains(&own), "{found:?}");
    }

    #[test]
    fn other_files_than_programs_need_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("cc");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let mut libraries = Libraries::new(Vec::new());
        assert!(libraries.needed(&script).is_empty());
        assert!(libraries.needed(&dir.path().join("absent")).is_empty());
    }
}
