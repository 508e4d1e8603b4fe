//! The files of a cache and of its subdirectories, by stem.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use opkeep_cann_meta::file_names::{FileSet, NameClass};
use opkeep_fs::descend;
use opkeep_fs::{Dir, FileKind};
use opkeep_kernel_meta::is_quarantine;

use crate::disk::{ListedState, for_each};
use crate::usage::FileTotals;

/// The maximum depth of a listed directory below the cache.
const MAX_DEPTH: usize = 16;
/// The maximum number of unknown files whose names are kept.
const LISTED: usize = 100;
/// The number of files between two reports of progress.
const STRIDE: u64 = 4096;

/// The listed files of one directory.
#[derive(Debug, Default)]
pub(crate) struct ListedDir {
    /// The path of the directory, relative to the cache.
    pub(crate) path: PathBuf,
    pub(crate) files: FilesByStem,
    /// The names and states of temporary files.
    pub(crate) temps: Vec<(Box<str>, ListedState)>,
    /// Whether a description is a link. CANN follows such a link, this crate does not, so the files that the
    /// description names are unknown.
    pub(crate) is_linked: bool,
}

/// The files of each stem, as suffixes with states.
pub(crate) type FilesByStem = HashMap<Box<str>, Vec<(FileSet, ListedState)>>;

/// The listed files of a cache.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) dirs: Vec<ListedDir>,
    /// The number and size of all regular files, as CANN counts them.
    pub(crate) total: FileTotals,
    /// The number and size of files that belong to no kernel.
    pub(crate) other: FileTotals,
    pub(crate) unknown: UnknownFiles,
    /// Directories that could not be read, each with the error.
    pub(crate) unreadable_dirs: Vec<(PathBuf, io::Error)>,
    pub(crate) cancelled: bool,
}

/// The unknown files, which stay.
#[derive(Debug, Default)]
pub(crate) struct UnknownFiles {
    /// The paths of the first hundred in their order, relative to the cache.
    pub(crate) names: BTreeSet<String>,
    pub(crate) count: u64,
}

impl UnknownFiles {
    pub(crate) fn add(&mut self, path: &Path, name: &OsStr) {
        self.count += 1;
        self.names.insert(path.join(name).to_string_lossy().into_owned());
        if self.names.len() > LISTED {
            self.names.pop_last();
        }
    }
}

/// The callbacks of a listing.
pub(crate) struct ListingObserver<'a> {
    /// Called with the number of files listed so far.
    pub(crate) listed: &'a dyn Fn(u64),
    pub(crate) is_cancelled: &'a dyn Fn() -> bool,
}

impl Listing {
    /// Lists `dir` and the directories below it.
    ///
    /// # Errors
    /// `dir` cannot be listed.
    pub(crate) fn of(dir: &Dir, observer: &ListingObserver<'_>) -> io::Result<Self> {
        let mut listing = Self::default();
        listing.add_dir(dir, Path::new(""), 0, false, observer)?;
        Ok(listing)
    }

    /// Lists a directory and those below it. Files in quarantine are only counted: they stay, so that they can be
    /// restored.
    fn add_dir(
        &mut self,
        dir: &Dir,
        path: &Path,
        depth: usize,
        in_quarantine: bool,
        observer: &ListingObserver<'_>,
    ) -> io::Result<()> {
        let (mut listed, mut below) =
            (ListedDir { path: path.to_owned(), ..ListedDir::default() }, Vec::new());
        for_each(dir, |name, kind, state| {
            if let Some(state) = state {
                self.add_file(&mut listed, name, state, in_quarantine, observer);
            } else if kind == FileKind::Dir {
                below.push(name.to_owned());
            } else {
                listed.is_linked |= kind == FileKind::Link && name.as_encoded_bytes().ends_with(b".json");
                self.unknown.add(path, name);
            }
        })?;
        self.dirs.push(listed);
        opkeep_order::sort(&mut below);
        for name in below {
            let path = path.join(&name);
            if self.cancelled {
                break;
            }
            if depth == MAX_DEPTH {
                self.unreadable_dirs.push((path, io::Error::other("it is nested too deep")));
                continue;
            }
            let in_quarantine = in_quarantine || is_quarantine(&name);
            let listed = descend(dir, &name).and_then(|inner| match inner {
                Some(inner) => self.add_dir(&inner, &path, depth + 1, in_quarantine, observer),
                None => Ok(()),
            });
            if let Err(error) = listed {
                self.unreadable_dirs.push((path, error));
            }
        }
        Ok(())
    }

    fn add_file(
        &mut self,
        listed: &mut ListedDir,
        name: &OsStr,
        state: ListedState,
        in_quarantine: bool,
        observer: &ListingObserver<'_>,
    ) {
        self.total.add(1, state.size);
        if self.total.files.is_multiple_of(STRIDE) {
            (observer.listed)(self.total.files);
            self.cancelled |= (observer.is_cancelled)();
        }
        let text = name.to_str().filter(|_| !in_quarantine && !self.cancelled);
        match text.map(|text| (text, NameClass::in_kernel_cache(text))) {
            Some((_, NameClass::Kernel(stem, member))) => match listed.files.get_mut(stem) {
                Some(files) => files.push((member, state)),
                None => drop(listed.files.insert(stem.into(), vec![(member, state)])),
            },
            Some((text, NameClass::Temp)) => listed.temps.push((text.into(), state)),
            Some((_, NameClass::Known)) => self.other.add(1, state.size),
            _ => {
                self.other.add(1, state.size);
                if !in_quarantine {
                    self.unknown.add(&listed.path, name);
                }
            }
        }
    }
}
