//! Walks through directory trees given by a user.
//!
//! A walk enters volumes that are mounted in the tree, but no pseudo file system, and enters each directory once, even
//! if several paths lead to it. It records the directories that it could not enter. Verification and import, which
//! change nothing in the tree, follow links to directories, except to those above the tree; all other walks follow no
//! link.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, statat};

use opkeep_fs::{Dir, FileId, FileKind, Fs};
use opkeep_fs::{descend, pseudo_file_system};
use opkeep_kernel_meta::{MAX_DEPTH, is_quarantine};

/// The treatment of symbolic links to directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Links are followed, except to directories above the tree.
    Follow,
    /// Links are not followed, so that no file outside of the tree is changed.
    Leave,
}

/// A walk through a tree, with the directories that it could not enter.
#[derive(Debug)]
pub(crate) struct Walk {
    links: Links,
    /// The identities of the directories that were entered.
    entered: HashSet<FileId>,
    /// The identities of the directories above the tree.
    above: HashSet<FileId>,
    /// The paths of links to directories that are not followed yet.
    pending: Vec<PathBuf>,
    /// Directories that cannot be read, each with the error.
    pub(crate) unreadable_dirs: Vec<(PathBuf, io::Error)>,
    /// Directories that are nested too deep, and were not entered.
    pub(crate) too_deep: Vec<PathBuf>,
    /// Links to directories above the tree, which were not followed.
    pub(crate) not_followed: Vec<PathBuf>,
}

impl Walk {
    /// Begins a walk at the directory `root`, which may be a link. Also returns that directory, opened.
    ///
    /// # Errors
    /// `root` is not a directory, cannot be read, or is on a pseudo file system.
    pub(crate) fn begin(root: &Path, links: Links) -> io::Result<(Self, Dir)> {
        let dir = Dir::open_quietly(root)?;
        if let Some(name) = pseudo_file_system(&dir) {
            return Err(io::Error::other(format!("it is on the pseudo file system {name}")));
        }
        let real_path = Fs::new().real_path(root)?;
        let above = real_path
            .ancestors()
            .skip(1)
            .filter_map(|path| identity(&Dir::open_quietly(path).ok()?))
            .collect();
        let entered = identity(&dir).into_iter().collect();
        let (pending, unreadable_dirs, too_deep, not_followed) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok((Self { links, entered, above, pending, unreadable_dirs, too_deep, not_followed }, dir))
    }

    /// Opens the directory called `name` in `dir`, if it may be entered. `depth` is the depth of `dir`.
    pub(crate) fn below(&mut self, dir: &Dir, name: &OsStr, depth: usize) -> Option<Dir> {
        let path = || dir.path().join(name);
        if depth >= MAX_DEPTH {
            self.too_deep.push(path());
            return None;
        }
        match descend(dir, name) {
            Ok(below) => below.and_then(|below| self.enter(below)),
            // The directory was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.unreadable_dirs.push((path(), error));
                None
            }
        }
    }

    /// Returns whether the link called `name` in `dir` leads to a directory. If links are followed, the directory is
    /// queued.
    ///
    /// # Errors
    /// The link is dangling, or its target is unknown.
    pub(crate) fn link(&mut self, dir: &Dir, name: &OsStr) -> io::Result<bool> {
        let found = statat(dir, name, AtFlags::empty())?;
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_directory && self.links == Links::Follow {
            self.pending.push(dir.path().join(name));
        }
        Ok(is_directory)
    }

    /// Opens the target of the next queued link. Call this after all directories of the tree were entered, so that
    /// these have their own paths.
    pub(crate) fn next_link_target(&mut self) -> Option<Dir> {
        while let Some(path) = self.pending.pop() {
            let entered = match Dir::open_quietly(&path) {
                Ok(dir) if self.is_above(&dir) => {
                    self.not_followed.push(path);
                    None
                }
                Ok(dir) if pseudo_file_system(&dir).is_some() => None,
                Ok(dir) => self.enter(dir),
                Err(error) => {
                    self.unreadable_dirs.push((path, error));
                    None
                }
            };
            if entered.is_some() {
                return entered;
            }
        }
        None
    }

    fn is_above(&self, dir: &Dir) -> bool {
        identity(dir).is_some_and(|it| self.above.contains(&it))
    }

    fn enter(&mut self, dir: Dir) -> Option<Dir> {
        let is_new = identity(&dir).is_none_or(|it| self.entered.insert(it));
        is_new.then_some(dir)
    }
}

fn identity(dir: &Dir) -> Option<FileId> {
    dir.stat().ok().map(|found| found.state.id)
}

/// The files found in a tree.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Tree {
    /// Files, and links that do not lead to directories, in the order of their paths.
    pub files: Vec<PathBuf>,
    /// Directories that cannot be read, each with the error.
    pub unreadable_dirs: Vec<(PathBuf, io::Error)>,
    /// Directories that are nested too deep, and were not entered.
    pub too_deep: Vec<PathBuf>,
    /// Links to directories above the tree, which were not followed although links are.
    pub not_followed: Vec<PathBuf>,
}

impl Tree {
    /// Returns the files at and below the directory `root` whose paths satisfy `is_wanted`. Pseudo file systems are not
    /// entered.
    ///
    /// # Errors
    /// `root` is not a directory, cannot be read, or is on a pseudo file system.
    pub fn below(root: &Path, links: Links, is_wanted: impl Fn(&Path) -> bool) -> io::Result<Self> {
        let (mut walk, dir) = Walk::begin(root, links)?;
        let mut files = Vec::new();
        list(&dir, 0, &mut walk, &is_wanted, &mut files);
        while let Some(dir) = walk.next_link_target() {
            list(&dir, 0, &mut walk, &is_wanted, &mut files);
        }
        opkeep_order::sort(&mut files);
        let Walk { unreadable_dirs, too_deep, not_followed, .. } = walk;
        Ok(Self { files, unreadable_dirs, too_deep, not_followed })
    }
}

fn list(
    dir: &Dir,
    depth: usize,
    walk: &mut Walk,
    is_wanted: &impl Fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) {
    let names = match dir.entries() {
        Ok(names) => names,
        Err(error) => return walk.unreadable_dirs.push((dir.path().to_owned(), error)),
    };
    for name in names {
        let is_directory = match name.kind {
            FileKind::Dir => true,
            FileKind::Link => walk.link(dir, &name.name).unwrap_or(false),
            _ => false,
        };
        match name.kind {
            // Quarantined files are not searched.
            FileKind::Dir if is_quarantine(&name.name) => {}
            FileKind::Dir => {
                if let Some(below) = walk.below(dir, &name.name, depth) {
                    list(&below, depth + 1, walk, is_wanted, files);
                }
            }
            _ if is_directory => {}
            _ => files.extend(Some(dir.path().join(&name.name)).filter(|path| is_wanted(path))),
        }
    }
}

/// Returns the components of the real path of the directory at `path`.
pub(crate) fn real_path_names(path: &Path) -> io::Result<Vec<OsString>> {
    Ok(Fs::new().real_path(path)?.iter().map(OsStr::to_owned).collect())
}
