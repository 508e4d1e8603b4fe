//! The state of paths now.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkeep_digest::{Digest, FileDigests, Hasher};
use opkeep_fs::{FileKind, Fs};
use opkeep_process::{Found, Learned};

use crate::manifest::{Listed, Manifest, Old};
use crate::roots::{Roots, Segment};
use crate::task::Task;

/// The largest file below a root that is read as a text.
const MAX_TEXT: u64 = 16 << 20;
/// A file with a byte 0 among so many first ones is no text.
const TEXT_HEAD: u64 = 8 << 10;

/// Where the kernel shows its state: nothing there is a file whose content could be compared. In `/dev`, files of users lie beside devices,
/// as in `/dev/shm`; what is no file counts by its kind there.
const STATE_OF_THE_MACHINE: [&str; 2] = ["/proc", "/sys"];

/// The properties of the processor, by which programs choose instructions. They count without those that change all the time.
pub(crate) const PROCESSOR: &str = "/proc/cpuinfo";
const MOMENTARY: [&str; 5] = ["cpu MHz", "bogomips", "BogoMIPS", "clock", "timebase"];

/// The states of paths, each looked at once. Lives for one look-up.
pub(crate) struct States<'a> {
    pub(crate) roots: &'a Roots,
    task: &'a Task<'a>,
    digests: &'a dyn FileDigests,
    known: RefCell<HashMap<PathBuf, State>>,
    parents: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
    /// The states of outputs before the run that wrote them.
    before: RefCell<HashMap<PathBuf, Found>>,
    /// The names in directories before a run wrote there.
    names: RefCell<HashMap<PathBuf, Vec<(OsString, FileKind)>>>,
}

/// The state of a path, as far as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// The target of the link that the path is.
    link: Option<PathBuf>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Missing,
    File {
        content: Content,
        mode: u32,
    },
    Unreadable {
        mode: u32,
    },
    Directory {
        mode: u32,
    },
    /// A pipe, a socket or a device, with the bits of its kind and its permissions.
    Other {
        mode: u32,
    },
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Plain(Digest),
    /// A text that contains paths of roots: with their names in place of them.
    WithRoots(Digest),
}

impl Content {
    /// The content of a file. Below a root, paths of roots do not count in a text.
    pub(crate) fn of(
        path: &Path,
        found: &Metadata,
        roots: &Roots,
        digests: &dyn FileDigests,
    ) -> io::Result<Self> {
        if roots.cover(path) && found.len() <= MAX_TEXT && is_text(path)? {
            let bytes = Fs::new().read(path, MAX_TEXT)?;
            let has_roots =
                |segments: &[Segment<'_>]| segments.iter().any(|it| matches!(it, Segment::Root(_)));
            if has_roots(&roots.segments(&bytes)) {
                let mut hasher = Hasher::new("opkeep text with roots");
                roots.hash_text(&mut hasher, &bytes);
                return Ok(Self::WithRoots(hasher.finish()));
            }
            return Ok(Self::Plain(Digest::of(&bytes)));
        }
        digests.digest(path).map(Self::Plain)
    }

    pub(crate) fn hash(self, hasher: &mut Hasher) {
        match self {
            Self::Plain(digest) => {
                hasher.str("plain");
                hasher.digest(&digest);
            }
            Self::WithRoots(digest) => {
                hasher.str("with roots");
                hasher.digest(&digest);
            }
        }
    }
}

impl<'a> States<'a> {
    pub(crate) fn new(task: &'a Task<'a>, roots: &'a Roots, digests: &'a dyn FileDigests) -> Self {
        Self {
            roots,
            task,
            digests,
            known: RefCell::default(),
            parents: RefCell::default(),
            before: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Remembers the names in a directory, sorted, as a run found them: what it wrote there does not count.
    pub(crate) fn remember_names(&self, dir: &Path, names: Vec<(OsString, FileKind)>) {
        self.names.borrow_mut().insert(dir.to_owned(), names);
    }

    /// The digest of the state of all that a manifest names. `None`: a root of it is not declared here, or a directory that was
    /// listed cannot be.
    pub(crate) fn digest(&self, manifest: &Manifest) -> Option<Digest> {
        let mut hasher = Hasher::new("opkeep launcher state");
        let mut parents = BTreeMap::new();
        hasher.list(manifest.paths.len());
        for name in &manifest.paths {
            let path = self.roots.locate(name)?;
            self.hash(&mut hasher, &path);
            if let Some(parent) = path.parent().filter(|parent| !parents.contains_key(*parent)) {
                parents.insert(parent.to_owned(), self.real(parent));
            }
        }
        // A link on the way decides where programs look for further files, beside those that they find.
        let linked = parents.iter().filter(|(path, real)| real.as_ref() != Some(path));
        let linked: Vec<_> = linked.collect();
        hasher.list(linked.len());
        for (path, real) in linked {
            self.roots.hash_path(&mut hasher, path);
            hasher.option(real.is_some());
            real.iter().for_each(|real| self.roots.hash_path(&mut hasher, real));
        }
        hasher.list(manifest.listed.len());
        for listed in &manifest.listed {
            let dir = self.roots.locate(&listed.dir)?;
            let names = self.names(&dir)?;
            let counted = counted(listed, &names, &self.task.results_in(&dir));
            hasher.list(counted.len());
            for (name, kind) in counted {
                hasher.bytes(name.as_bytes());
                hasher.u64(number(*kind));
            }
        }
        hasher.list(manifest.old.len());
        for old in &manifest.old {
            self.hash_old(&mut hasher, old)?;
        }
        Some(hasher.finish())
    }

    /// From now on, an output has the state that it had before the run which has ended.
    pub(crate) fn set_before(&self, path: PathBuf, found: Found) {
        self.before.borrow_mut().insert(path, found);
    }

    /// Adds what a command learns of an old output.
    fn hash_old(&self, hasher: &mut Hasher, Old { path, learned }: &Old) -> Option<()> {
        let path = self.roots.locate(path)?;
        let found = self.before.borrow().get(&path).cloned().unwrap_or_else(|| Found::at(&path));
        hasher.option(found.is_link());
        found.link().into_iter().for_each(|link| self.roots.hash_text(hasher, link.as_os_str().as_bytes()));
        let is_new = found.is_nothing() && !found.is_link();
        let is_like_new = match learned {
            Learned::IsReplaceable => is_new || found.is_file(),
            Learned::Mode(mode) => is_new || found.is_file() && found.mode() == Some(*mode),
            Learned::State => false,
        };
        hasher.str(match () {
            () if is_like_new => "new",
            () if found.is_nothing() => "missing",
            () if found.is_file() => "file",
            () if found.is_directory() => "directory",
            () => "other",
        });
        hasher.u64(if is_like_new { 0 } else { found.mode().unwrap_or_default().into() });
        Some(())
    }

    fn names(&self, dir: &Path) -> Option<Vec<(OsString, FileKind)>> {
        let remembered = self.names.borrow().get(dir).cloned();
        remembered.or_else(|| names(dir))
    }

    /// Whether the content of a file can be read.
    pub(crate) fn is_readable(&self, path: &Path) -> bool {
        !matches!(self.of(path).kind, Kind::Unreadable { .. })
    }

    fn hash(&self, hasher: &mut Hasher, path: &Path) {
        let State { link, kind } = self.of(path);
        hasher.option(link.is_some());
        link.iter().for_each(|link| self.roots.hash_text(hasher, link.as_os_str().as_bytes()));
        let (name, mode) = match kind {
            Kind::Missing => ("missing", 0),
            Kind::File { content, mode } => {
                content.hash(hasher);
                ("file", mode)
            }
            Kind::Unreadable { mode } => ("unreadable", mode),
            Kind::Directory { mode } => ("directory", mode),
            Kind::Other { mode } => ("other", mode),
        };
        hasher.str(name);
        hasher.u64(u64::from(mode));
    }

    fn of(&self, path: &Path) -> State {
        if let Some(state) = self.known.borrow().get(path) {
            return state.clone();
        }
        let state = self.look(path);
        self.known.borrow_mut().insert(path.to_owned(), state.clone());
        state
    }

    fn look(&self, path: &Path) -> State {
        if path == Path::new(PROCESSOR) {
            return processor();
        }
        if STATE_OF_THE_MACHINE.iter().any(|dir| path.starts_with(dir) && path != Path::new(dir)) {
            return State { link: None, kind: Kind::Other { mode: 0 } };
        }
        let fs = Fs::new();
        let (found, link) = match fs.symlink_metadata(path) {
            Err(_) => return State { link: None, kind: Kind::Missing },
            Ok(found) if found.is_symlink() => (fs.metadata(path).ok(), fs.read_link(path).ok()),
            Ok(found) => (Some(found), None),
        };
        let Some(found) = found else { return State { link, kind: Kind::Missing } };
        let mode = found.mode();
        let kind = match () {
            () if found.is_dir() => Kind::Directory { mode },
            () if found.is_file() => match Content::of(path, &found, self.roots, self.digests) {
                Ok(content) => Kind::File { content, mode },
                Err(_) => Kind::Unreadable { mode },
            },
            () => Kind::Other { mode },
        };
        State { link, kind }
    }

    /// The real path of a directory, or of the lowest one above it that exists, with the rest behind it.
    fn real(&self, dir: &Path) -> Option<PathBuf> {
        if let Some(real) = self.parents.borrow().get(dir) {
            return real.clone();
        }
        let real = match Fs::new().real_path(dir) {
            Ok(real) => Some(real),
            Err(_) => dir.parent().and_then(|above| Some(self.real(above)?.join(dir.file_name()?))),
        };
        self.parents.borrow_mut().insert(dir.to_owned(), real.clone());
        real
    }
}

fn processor() -> State {
    let kind = match Fs::new().read_text(Path::new(PROCESSOR), MAX_TEXT) {
        Ok(text) => Kind::File {
            content: Content::Plain(Digest::of(lasting_lines(&text).as_bytes())),
            mode: 0o100_444,
        },
        Err(_) => Kind::Missing,
    };
    State { link: None, kind }
}

/// The lines that are the same whenever they are read on one machine.
fn lasting_lines(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !MOMENTARY.iter().any(|name| line.starts_with(name))).collect()
}

/// Whether a file begins like a text. The digests of other files are remembered, and they are not read here.
fn is_text(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    Fs::new().open(path)?.take(TEXT_HEAD).read_to_end(&mut head)?;
    Ok(!head.contains(&0))
}

/// The sorted names in a directory, each with its kind.
pub(crate) fn names(dir: &Path) -> Option<Vec<(OsString, FileKind)>> {
    let mut names = Fs::new().list(dir).ok()?;
    opkeep_order::sort(&mut names);
    Some(names)
}

fn number(kind: FileKind) -> u64 {
    match kind {
        FileKind::File => 0,
        FileKind::Dir => 1,
        FileKind::Link => 2,
        FileKind::Other => 3,
    }
}

/// The names that count in a directory, of which `names` were found: not those of results.
pub(crate) fn counted<'n>(
    listed: &Listed,
    names: &'n [(OsString, FileKind)],
    is_result: &dyn Fn(&OsStr) -> bool,
) -> Vec<&'n (OsString, FileKind)> {
    names.iter().filter(|(name, kind)| listed.counts(name, *kind) && !is_result(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The speed of a processor changes from one moment to the next; its instructions and their number do not.
    #[test]
    fn the_processor_counts() {
        let text =
            "processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 2800.1\nflags\t\t: fpu avx2\nbogomips\t: 5600\n";
        let other = text.replace("2800.1", "1200.7").replace("5600", "5601");
        assert_eq!(lasting_lines(text), lasting_lines(&other));
        assert_eq!(lasting_lines(text), "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu avx2\n");
        let kind = processor().kind;
        assert!(matches!(kind, Kind::File { .. }) && processor().kind == kind);
    }
}
