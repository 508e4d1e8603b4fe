//! The files below a directory, listed once, and read without leaving it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

use opkeep_fs::{CancelToken, Dir, FileKind, FileRead, RootedFs, pseudo_below};
use opkeep_text::counted;

use crate::error::PackageError;

/// The largest number of files and directories that are listed.
pub(crate) const MAX_FILES: usize = 1_000_000;
/// The largest depth of directories.
pub(crate) const MAX_DEPTH: usize = 40;

/// The files below a directory.
pub(crate) struct FileTree {
    root: PathBuf,
    fs: RootedFs,
    /// All names, by their paths below the root.
    kinds: BTreeMap<PathBuf, FileKind>,
    /// Directories that cannot be listed, with the reason.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
}

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadProblem {
    /// It does not exist.
    Missing,
    /// It is a link, or is behind one, that leads out of the directory.
    Leaves(PathBuf),
    /// It is a directory, a pipe, a socket or a device.
    NotAFile,
    /// It is larger than the limit.
    TooLarge(u64),
    /// It could not be read.
    Failed(String),
}

impl FileTree {
    /// Lists all files below `root`. Links are listed, not followed.
    ///
    /// # Errors
    /// The directory cannot be listed, or has too many files.
    pub(crate) fn list(root: &Path, cancel: &CancelToken) -> Result<Self, PackageError> {
        let open = |source| PackageError::Open { path: root.to_owned(), source };
        let mut fs = RootedFs::new(None, None);
        let real = fs.real_path(root).map_err(open)?;
        let top = fs.enter(&real).map_err(open)?;
        let mut tree = Self { root: real, fs, kinds: BTreeMap::new(), unreadable: Vec::new() };
        tree.add(&top, Path::new("")).map_err(open)?;
        let mut open_dirs = vec![PathBuf::new()];
        while let Some(path) = open_dirs.pop() {
            let dir = match path.as_os_str().is_empty() {
                true => top.try_clone(),
                false => tree.fs.open_dir(&tree.root.join(&path)),
            };
            let listed = dir.and_then(|dir| {
                if path.as_os_str().is_empty() || pseudo_below(&top, &dir).is_some() {
                    return Ok(());
                }
                tree.add(&dir, &path)
            });
            if let Err(error) = listed {
                tree.unreadable.push((path.clone(), error.to_string()));
                continue;
            }
            if cancel.is_cancelled() {
                return Err(PackageError::Cancelled);
            }
            if tree.kinds.len() > MAX_FILES {
                return Err(PackageError::TooManyFiles { path: root.to_owned(), limit: MAX_FILES });
            }
            let below: Vec<PathBuf> = tree.dirs_in(&path).map(Path::to_owned).collect();
            match below.first().map_or(0, |first| first.components().count()) > MAX_DEPTH {
                true => tree.unreadable.push((path, format!("it is more than {MAX_DEPTH} directories deep"))),
                false => open_dirs.extend(below),
            }
        }
        Ok(tree)
    }

    fn add(&mut self, dir: &Dir, path: &Path) -> io::Result<()> {
        for (name, kind) in dir.list()?.iter() {
            self.kinds.insert(path.join(name), kind);
        }
        Ok(())
    }

    /// The directory, without links.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The path without links, if the file exists; else the absolute path as it is.
    pub(crate) fn real(&self, path: &Path) -> PathBuf {
        let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.fs.real_path(path).unwrap_or_else(|_| absolute())
    }

    /// Everything below `dir`, at any depth, with its kind.
    pub(crate) fn below(&self, dir: &Path) -> Vec<(&Path, FileKind)> {
        let after = self.kinds.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
        let all = after.map(|(path, kind)| (path.as_path(), *kind));
        all.take_while(|(path, _)| path.starts_with(dir)).collect()
    }

    /// The names in `dir` itself.
    pub(crate) fn children(&self, dir: &Path) -> Vec<(&Path, FileKind)> {
        let mut below = self.below(dir);
        below.retain(|(path, _)| path.parent() == Some(dir));
        below
    }

    /// The directories in `dir`.
    pub(crate) fn dirs_in(&self, dir: &Path) -> impl Iterator<Item = &Path> {
        let children = self.children(dir).into_iter();
        children.filter(|(_, kind)| *kind == FileKind::Dir).map(|(path, _)| path)
    }

    /// All directories, the root first.
    pub(crate) fn all_dirs(&self) -> impl Iterator<Item = &Path> {
        let dirs = self.kinds.iter().filter(|(_, kind)| **kind == FileKind::Dir);
        std::iter::once(Path::new("")).chain(dirs.map(|(path, _)| path.as_path()))
    }

    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.kinds.get(path) == Some(&FileKind::Dir)
    }

    /// Whether a file or a link has this path, without a link on the way.
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        matches!(self.kinds.get(path), Some(FileKind::File | FileKind::Link | FileKind::Other))
    }

    /// Reads a file of at most `limit` bytes. A link is followed if it stays in the directory.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadProblem> {
        let mut path = path.to_owned();
        if !self.is_plain(&path) {
            path = self.resolve(&path)?;
        }
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadProblem::Missing,
            _ => ReadProblem::Failed(error.to_string()),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ReadProblem::NotAFile);
        };
        let dir = self.fs.open_dir(&self.root.join(parent)).map_err(failed)?;
        let mut bytes = Vec::new();
        match dir.read(name, limit, &mut bytes) {
            FileRead::Complete(_) => Ok(bytes),
            FileRead::TooLarge(_) => Err(ReadProblem::TooLarge(limit)),
            FileRead::Missing => Err(ReadProblem::Missing),
            FileRead::NotAFile => Err(ReadProblem::NotAFile),
            FileRead::Changing => Err(ReadProblem::Failed("it changed whenever it was read".to_owned())),
            FileRead::Link => Err(ReadProblem::Failed("it became a link while it was read".to_owned())),
            FileRead::Failed(error) => Err(failed(error)),
        }
    }

    /// Whether a path leads to a file that was listed, without a link.
    fn is_plain(&self, path: &Path) -> bool {
        self.kinds.get(path).is_some_and(|kind| *kind != FileKind::Link)
    }

    /// Whether something that can be reached without leaving the directory has this path.
    pub(crate) fn find(&self, path: &Path) -> Result<(), ReadProblem> {
        if self.is_plain(path) { Ok(()) } else { self.resolve(path).map(drop) }
    }

    /// The path without links. Also names that were not listed, since a link to a directory may be on the way.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ReadProblem> {
        let is_inner = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inner {
            return Err(ReadProblem::Leaves(path.to_owned()));
        }
        let real = match self.fs.real_path(&self.root.join(path)) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ReadProblem::Missing),
            Err(error) => return Err(ReadProblem::Failed(error.to_string())),
        };
        match real.strip_prefix(&self.root) {
            Ok(inner) => Ok(inner.to_owned()),
            Err(_) => Err(ReadProblem::Leaves(real)),
        }
    }
}

impl std::fmt::Display for ReadProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => write!(f, "no file"),
            Self::Leaves(to) => write!(f, "a link out of the package, to `{}`", to.display()),
            Self::NotAFile => write!(f, "a directory, a pipe or a device"),
            Self::TooLarge(limit) => write!(f, "more than {}", counted(limit, "byte")),
            Self::Failed(why) => f.write_str(why),
        }
    }
}
