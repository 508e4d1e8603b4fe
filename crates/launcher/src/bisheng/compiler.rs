//! The content of a compiler: its installation, and the libraries that it loads.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_digest::{Digest, FileDigests, Hasher};
use opkeep_fs::{FileId, FileKind, Fs};
use opkeep_process::program_interpreter;

use super::NotCached;

/// Directories in which other programs lie as well: they are the installation of none.
const SHARED: [&str; 5] = ["/", "/usr", "/usr/local", "/opt", "/home"];
/// The number of files and directories of an installation.
const MAX_ENTRIES: usize = 20_000;
const BIN: &str = "bin";

/// A compiler's program and its installation.
#[derive(Clone, Debug)]
pub(crate) struct Compiler {
    /// The program without links in its path.
    real: PathBuf,
    /// The directory of the installation: `ccec_compiler` for `ccec_compiler/bin/bisheng`.
    tree: PathBuf,
    /// The loader of a program with shared libraries.
    loader: Option<PathBuf>,
    /// The name by which the program is started: it may decide what it does.
    name: OsString,
}

impl Compiler {
    /// The compiler at `program`.
    ///
    /// # Errors
    /// It is a script, whose content says nothing, or it has no installation of its own.
    pub(crate) fn at(program: &Path) -> Result<Self, NotCached> {
        let fs = Fs::new();
        let refused = |why: String| NotCached::Compiler { path: program.to_owned(), why };
        let real = fs.real_path(program).map_err(|error| refused(error.to_string()))?;
        let loader = match program_interpreter(&real).map_err(|error| refused(error.to_string()))? {
            Some((_, true)) => return Err(refused("it is a script".to_owned())),
            Some((loader, false)) => Some(loader),
            None if fs.starts_with(&real, b"\x7fELF") => None,
            None => return Err(refused("it is no program of this machine".to_owned())),
        };
        let dir = real.parent().unwrap_or(&real);
        let tree = dir.parent().filter(|_| dir.ends_with(BIN)).unwrap_or(dir).to_owned();
        if SHARED.iter().any(|shared| tree == Path::new(shared)) {
            return Err(refused(format!("other programs lie in `{}` as well", tree.display())));
        }
        let name = program.file_name().unwrap_or_default().to_owned();
        Ok(Self { real, tree, loader, name })
    }

    /// The command that prints the libraries which the program loads.
    pub(crate) fn list_libraries(&self) -> Option<(&Path, Vec<OsString>)> {
        let loader = self.loader.as_deref()?;
        Some((loader, vec!["--list".into(), self.real.clone().into()]))
    }

    /// The digest of all that the compiler is, with the libraries in what that command printed.
    ///
    /// # Errors
    /// A file cannot be read, or there are too many.
    pub(crate) fn digest(&self, libraries: &[u8], digests: &dyn FileDigests) -> Result<Digest, NotCached> {
        let mut hasher = Hasher::new("opkeep compiler");
        hasher.bytes(self.name.as_bytes());
        let below = self.real.strip_prefix(&self.tree).unwrap_or(&self.real);
        hasher.bytes(below.as_os_str().as_bytes());
        let mut walk = Walk { hasher: &mut hasher, digests, seen: HashSet::new(), entries: 0 };
        walk.dir(&self.tree)?;
        let libraries = paths(libraries);
        let outside: Vec<_> = libraries.iter().filter(|path| !path.starts_with(&self.tree)).collect();
        hasher.list(outside.len());
        for library in outside {
            hasher.bytes(library.file_name().unwrap_or_default().as_bytes());
            hasher.digest(&content(library, digests)?);
        }
        Ok(hasher.finish())
    }
}

/// A walk over an installation.
struct Walk<'a> {
    hasher: &'a mut Hasher,
    digests: &'a dyn FileDigests,
    /// The directories so far: links may lead to one again.
    seen: HashSet<FileId>,
    entries: usize,
}

impl Walk<'_> {
    fn dir(&mut self, dir: &Path) -> Result<(), NotCached> {
        let fs = Fs::new();
        let refused = |error: std::io::Error| refused(dir, &error);
        let id = FileId::of(&fs.metadata(dir).map_err(refused)?);
        if !self.seen.insert(id) {
            self.hasher.str("again");
            return Ok(());
        }
        let mut names = fs.list(dir).map_err(refused)?;
        opkeep_order::sort(&mut names);
        self.entries += names.len();
        if self.entries > MAX_ENTRIES {
            let why = format!("its installation has more than {MAX_ENTRIES} files");
            return Err(NotCached::Compiler { path: dir.to_owned(), why });
        }
        self.hasher.list(names.len());
        for (name, kind) in names {
            let path = dir.join(&name);
            self.hasher.bytes(name.as_bytes());
            match kind {
                FileKind::File => self.file(&path)?,
                FileKind::Dir => self.dir(&path)?,
                FileKind::Link => {
                    let target = fs.read_link(&path).map_err(refused)?;
                    self.hasher.bytes(target.as_os_str().as_bytes());
                    match fs.metadata(&path) {
                        Ok(found) if found.is_dir() => self.dir(&path)?,
                        Ok(found) if found.is_file() => self.file(&path)?,
                        _ => self.hasher.str("nowhere"),
                    }
                }
                FileKind::Other => self.hasher.str("no file"),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), NotCached> {
        self.hasher.digest(&content(path, self.digests)?);
        Ok(())
    }
}

fn content(path: &Path, digests: &dyn FileDigests) -> Result<Digest, NotCached> {
    digests.digest(path).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> NotCached {
    NotCached::Compiler { path: path.to_owned(), why: error.to_string() }
}

/// The absolute paths that a loader prints, as in `libz.so.1 => /lib/libz.so.1 (0x7f00)`.
fn paths(printed: &[u8]) -> Vec<PathBuf> {
    let lines = printed.split(|byte| *byte == b'\n');
    let path = |line: &[u8]| {
        let line = line.trim_ascii();
        let line = line.windows(4).position(|word| word == b" => ").map_or(line, |at| &line[at + 4..]);
        let end = line.windows(2).rposition(|word| word == b" (").unwrap_or(line.len());
        line.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(&line[..end])))
    };
    lines.filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_libraries_are_read() {
        let printed = b"\tlinux-vdso.so.1 (0x00007ff)\n\tlibz.so.1 => /lib/a b/libz.so.1 (0x00007f)\n\tlibx.so => not found\n\t/lib64/ld.so (0x1)\n";
        assert_eq!(paths(printed), [PathBuf::from("/lib/a b/libz.so.1"), PathBuf::from("/lib64/ld.so")]);
    }

    #[test]
    fn a_script_and_a_shared_directory_are_refused() {
        for path in ["/usr/bin/ldd", "/absent/bin/bisheng", "/usr/bin/env"] {
            assert!(matches!(Compiler::at(Path::new(path)), Err(NotCached::Compiler { .. })), "{path}");
        }
    }
}
