//! What is in the folder of a cache, and in the folders below: every file with its state, by whose it is.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::gc::disk::{Stamp, each};
use crate::gc::usage::Amount;
use crate::scan::cache_dir::Kind;
use crate::scan::file_set::{FileSet, NameClass, class};
use opkeep_fs::descend;
use opkeep_fs::{Dir, FileKind};
use opkeep_kernel_meta::QUARANTINE;

/// Folders nested deeper than this are not looked into.
const MAX_DEPTH: usize = 16;
/// At most so many strange names are listed.
const LISTED: usize = 100;
/// So many files are listed between two questions whether to go on.
const STRIDE: u64 = 4096;

/// What is right in one folder.
#[derive(Debug, Default)]
pub(crate) struct ListedDir {
    /// Which, below the cache's own.
    pub(crate) below: PathBuf,
    /// By stem, which files there are.
    pub(crate) groups: Groups,
    /// Files that were to be renamed.
    pub(crate) temps: Vec<(Box<str>, Stamp)>,
    /// A description is a link, which CANN follows and we do not: nobody knows which files it names.
    pub(crate) is_linked: bool,
}

/// The files of each stem.
pub(crate) type Groups = HashMap<Box<str>, Vec<(FileSet, Stamp)>>;

/// Everything in a cache.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) shelves: Vec<ListedDir>,
    /// All regular files, as CANN counts them.
    pub(crate) total: Amount,
    /// Those that are no kernel's.
    pub(crate) other: Amount,
    pub(crate) unknown: UnknownFiles,
    /// Folders that could not be looked into, and why.
    pub(crate) closed: Vec<(PathBuf, io::Error)>,
    pub(crate) cancelled: bool,
}

/// Names of what is not recognised, and stays.
#[derive(Debug, Default)]
pub(crate) struct UnknownFiles {
    /// The first hundred.
    pub(crate) names: Vec<String>,
    pub(crate) count: u64,
}

impl UnknownFiles {
    pub(crate) fn add(&mut self, below: &Path, name: &OsStr) {
        self.count += 1;
        if self.names.len() < LISTED {
            self.names.push(below.join(name).to_string_lossy().into_owned());
        }
    }
}

/// Who watches the listing.
pub(crate) struct ListingObserver<'a> {
    /// Told how many files were listed so far.
    pub(crate) listed: &'a dyn Fn(u64),
    pub(crate) cancelled: &'a dyn Fn() -> bool,
}

impl Listing {
    /// Lists `dir` and the folders below it.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub(crate) fn of(dir: &Dir, listener: &ListingObserver<'_>) -> io::Result<Self> {
        let mut listing = Self::default();
        listing.folder(dir, Path::new(""), 0, false, listener)?;
        Ok(listing)
    }

    /// Lists one folder. What is `aside` was put there by a repair, and stays for its undoing.
    fn folder(
        &mut self,
        dir: &Dir,
        below: &Path,
        depth: usize,
        aside: bool,
        listener: &ListingObserver<'_>,
    ) -> io::Result<()> {
        let (mut shelf, mut folders) =
            (ListedDir { below: below.to_owned(), ..ListedDir::default() }, Vec::new());
        each(dir, |name, kind, stamp| {
            if let Some(stamp) = stamp {
                self.file(&mut shelf, name, stamp, aside, listener);
            } else if kind == FileKind::Dir {
                folders.push(name.to_owned());
            } else {
                shelf.is_linked |= kind == FileKind::Link && name.as_encoded_bytes().ends_with(b".json");
                self.unknown.add(below, name);
            }
        })?;
        self.shelves.push(shelf);
        folders.sort_unstable();
        for folder in folders {
            let path = below.join(&folder);
            if self.cancelled {
                break;
            }
            if depth == MAX_DEPTH {
                self.closed.push((path, io::Error::other("it is nested too deep")));
                continue;
            }
            let aside = aside || folder.as_encoded_bytes().ends_with(QUARANTINE.as_bytes());
            let listed = descend(dir, &folder).and_then(|inner| match inner {
                Some(inner) => self.folder(&inner, &path, depth + 1, aside, listener),
                None => Ok(()),
            });
            if let Err(error) = listed {
                self.closed.push((path, error));
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        shelf: &mut ListedDir,
        name: &OsStr,
        stamp: Stamp,
        aside: bool,
        listener: &ListingObserver<'_>,
    ) {
        self.total.add(1, stamp.size);
        if self.total.files.is_multiple_of(STRIDE) {
            (listener.listed)(self.total.files);
            self.cancelled |= (listener.cancelled)();
        }
        let text = name.to_str().filter(|_| !aside && !self.cancelled);
        match text.map(|text| (text, class(text, Kind::Cann))) {
            Some((_, NameClass::Of(stem, member))) => match shelf.groups.get_mut(stem) {
                Some(files) => files.push((member, stamp)),
                None => drop(shelf.groups.insert(stem.into(), vec![(member, stamp)])),
            },
            Some((text, NameClass::Temp)) if is_temp(text) => shelf.temps.push((text.into(), stamp)),
            Some((_, NameClass::Known)) => self.other.add(1, stamp.size),
            _ => {
                self.other.add(1, stamp.size);
                if !aside {
                    self.unknown.add(&shelf.below, name);
                }
            }
        }
    }
}

/// Whether a name is that of a temporary file as CANN makes it: what it is to become, process, time, random number.
fn is_temp(name: &str) -> bool {
    let Some(name) = name.strip_suffix(".temp") else { return false };
    let is_tail = |tail: &str| {
        !tail.is_empty() && tail.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let becomes =
        |suffix: &str| name.rsplit_once(suffix).is_some_and(|(stem, tail)| is_kernel(stem) && is_tail(tail));
    [".json_", ".o_", ".so_", ".h_"].into_iter().any(becomes)
}

/// Whether a stem is one that CANN gives to kernels. What bears another is recognised only by a description.
pub(crate) fn is_kernel(stem: &str) -> bool {
    stem.strip_prefix("lib").unwrap_or(stem).len() > 3
        && stem.strip_prefix("lib").unwrap_or(stem).starts_with("te_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_of_kernels_are_known_by_their_names() {
        for (name, expected) in [
            ("te_add_ab.o_812_1700000000_42.temp", true),
            ("te_add_ab.json_812_1700000000_42.temp", true),
            ("libte_add_ab.so_812_1_2.temp", true),
            ("te_add_ab_pre.json_812_1_2.temp", true),
            ("te_add_ab.h_8_1_a.temp", true),
            ("my.o_812_1_2.temp", false),
            ("te_add_ab.temp", false),
            ("te_add_ab.o.temp", false),
            ("te_add_ab.txt_812_1_2.temp", false),
            ("te_add_ab.o_8 1.temp", false),
            (".temp", false),
        ] {
            assert_eq!(is_temp(name), expected, "{name}");
        }
    }
}
