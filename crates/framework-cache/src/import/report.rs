//! The result of an import.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::scan::{CacheDir, CacheDirs, Item, ItemState};
use opkeep_cann_meta::unjudged;
use opkeep_descriptor::Key;
use opkeep_fs::{FileId, Fs};
use opkeep_store::StoreError;
use thiserror::Error;

/// The reason why an import could not begin, or why it cannot be found out what it would store.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's part for a target cannot be used.
    #[error("{0}")]
    Target(String),
    /// The cache cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Cache {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

/// The result of an import.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ImportReport {
    /// The results of the caches, in the order in which they were found.
    pub caches: Vec<CacheImport>,
    /// Directories that could not be read, each with the error.
    pub unreadable_dirs: Vec<(PathBuf, String)>,
    /// Warnings about settings of the store's limits that do not count.
    pub warnings: Vec<String>,
    /// Whether the import was cancelled.
    pub interrupted: bool,
}

/// The result of the import of one cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct CacheImport {
    /// The directory of the cache.
    pub path: PathBuf,
    /// The name of the cache's kind.
    pub kind: &'static str,
    /// The `RANK_ID`, if the cache belongs to a rank.
    pub rank: Option<String>,
    /// The reason why no kernel of the cache was read, if so.
    pub skip_reason: Option<SkipReason>,
    /// The kernels that were published; in a dry run, those that would be.
    pub imported: Vec<ImportedKernel>,
    /// The kernels that replaced a stored kernel of the same job, since they were compiled after that was imported; in
    /// a dry run, those that would replace one.
    pub replaced: Vec<ImportedKernel>,
    /// The number of kernels that were in the store before.
    pub existing: usize,
    /// The number of kernels that were not stored, since the store has another, not older kernel of the same job.
    /// Kernels of several ranks differ in their names.
    pub duplicates: usize,
    /// The kernels that were not imported, with the reasons.
    pub skipped: Vec<SkippedKernel>,
    /// The number of kernels that were not read, since the import was cancelled or the store could not be written.
    pub unprocessed: usize,
    /// Directories in the cache that could not be read, each with the error.
    pub unreadable_dirs: Vec<(String, String)>,
}

/// A kernel that was imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportedKernel {
    /// The name of the kernel in the cache.
    pub name: String,
    /// The key of the kernel in the store.
    pub key: Key,
    /// The types of the kernel's operators, joined.
    pub op_type: String,
    /// The target of the kernel.
    pub target: String,
    /// The total size of the `.o` and the `.json`, in bytes.
    pub bytes: usize,
}

/// A kernel that was not imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkippedKernel {
    /// The name of the kernel in the cache.
    pub name: String,
    /// The reason why the kernel was not imported.
    pub why: SkipReason,
}

/// The reason why a kernel is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The kernel is damaged or an orphan; with the problem.
    Damaged(String),
    /// The kernel is for another chip than its descriptor or its directory names; with both chips.
    OtherChip(String),
    /// The descriptor names this unknown chip.
    UnknownChip(String),
    /// The kernel is in use; with the kind of use.
    InUse(String),
    /// The kernel cannot be read; with the error.
    Unreadable(String),
    /// A build of opkeep wrote the kernel.
    Ours,
    /// The kernel has no descriptor.
    NoDescriptor,
    /// Caches of this kind have no descriptors; with the name of the kind.
    NoDescriptors(String),
    /// The descriptor is damaged; with the problem.
    DamagedDescriptor(String),
    /// The descriptor is another kernel's, or was changed; with the name that follows from it, if any.
    OtherName(Option<String>),
    /// The `.json` has this name of another kernel.
    OtherKernel(String),
    /// The operator is not the toolkit's; with the path of its source.
    CustomSource(String),
    /// The descriptor is newer than the kernel.
    NewerDescriptor,
    /// The kernel was compiled for debugging.
    Debug,
    /// An option of the kernel cannot be stored; with the problem.
    Options(String),
    /// No backend runs imported kernels for this target.
    NoBackend(String),
    /// The kernel is a multi-part kernel.
    MultiPart,
    /// The object is a library.
    NoObject,
    /// The validator rejects the kernel; with the errors.
    Invalid(Vec<String>),
    /// The kernel could not be published; with the error.
    NotPublished(String),
}

impl SkipReason {
    pub(super) fn of_item(item: &Item) -> Self {
        match &item.state {
            ItemState::OtherChip(other) => Self::OtherChip(other.to_string()),
            ItemState::Changing => Self::InUse("it changed whenever it was read".to_owned()),
            ItemState::Unreadable { file, problem } => Self::Unreadable(format!("`{file}`: {problem}")),
            _ => match item.in_use {
                Some(in_use) => Self::InUse(format!("{in_use}; so far: {}", item.problem())),
                None => Self::Damaged(item.problem()),
            },
        }
    }

    /// Returns the name of the reason in JSON output.
    pub const fn name(&self) -> &'static str {
        self.names().0
    }

    /// Returns the reason in a few words that follow a number of kernels.
    pub const fn phrase(&self) -> &'static str {
        self.names().1
    }

    const fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Damaged(_) => ("damaged", "damaged"),
            Self::OtherChip(_) => ("other-chip", "for another chip"),
            Self::UnknownChip(_) => ("unknown-chip", "for an unknown chip"),
            Self::InUse(_) => ("in-use", "in use"),
            Self::Unreadable(_) => ("unreadable", "unreadable"),
            Self::Ours => ("ours", "written by opkeep"),
            Self::NoDescriptor | Self::NoDescriptors(_) => ("no-descriptor", "without a descriptor"),
            Self::DamagedDescriptor(_) => ("damaged-descriptor", "with a damaged descriptor"),
            Self::OtherName(_) => ("other-name", "with another kernel's descriptor"),
            Self::OtherKernel(_) => ("other-kernel", "with another kernel's files"),
            Self::CustomSource(_) => ("own-source", "of a custom operator"),
            Self::NewerDescriptor => ("begun-anew", "older than the descriptor"),
            Self::Debug => ("debug", "for debugging"),
            Self::Options(_) => ("options", "with options that cannot be stored"),
            Self::NoBackend(_) => ("no-backend", "for a target without a backend"),
            Self::MultiPart => ("in-parts", "with several parts"),
            Self::NoObject => ("no-object", "with a library for the host"),
            Self::Invalid(_) => ("invalid", "invalid"),
            Self::NotPublished(_) => ("not-kept", "not published"),
        }
    }

    /// Returns whether the reason is a problem of the kernel or the store, and not only of its suitability.
    pub const fn is_problem(&self) -> bool {
        match self {
            Self::Damaged(_)
            | Self::OtherChip(_)
            | Self::UnknownChip(_)
            | Self::Unreadable(_)
            | Self::DamagedDescriptor(_)
            | Self::OtherName(_)
            | Self::OtherKernel(_)
            | Self::Invalid(_)
            | Self::NotPublished(_) => true,
            Self::InUse(_)
            | Self::Ours
            | Self::NoDescriptor
            | Self::NoDescriptors(_)
            | Self::CustomSource(_)
            | Self::NewerDescriptor
            | Self::Debug
            | Self::Options(_)
            | Self::NoBackend(_)
            | Self::MultiPart
            | Self::NoObject => false,
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(problem) => write!(f, "not intact: {problem}"),
            Self::OtherChip(other) => f.write_str(other),
            Self::UnknownChip(chip) => f.write_str(&unjudged(chip)),
            Self::InUse(who) => write!(f, "in use: {who}"),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Ours => f.write_str("opkeep wrote it from its own store"),
            Self::NoDescriptor => f.write_str("no .info beside it, so its job is unknown"),
            Self::NoDescriptors(whose) => {
                write!(f, "{whose} has no descriptors, so the jobs of its kernels are unknown")
            }
            Self::DamagedDescriptor(how) => write!(f, "its descriptor is damaged: {how}"),
            Self::OtherName(Some(name)) => write!(
                f,
                "its descriptor is that of `{name}`: it is another kernel's, or was changed since"
            ),
            Self::OtherName(None) => f.write_str(
                "its name does not follow from its descriptor: that is another kernel's, or was changed since",
            ),
            Self::OtherKernel(name) => {
                write!(f, "its files hold `{name}`, another kernel, which was given this name later")
            }
            Self::CustomSource(path) => write!(
                f,
                "its operator is not the toolkit's, but from `{path}`, whose content at the time of the compile is \
                 unknown"
            ),
            Self::NewerDescriptor => f.write_str(
                "its descriptor is newer than the kernel: frameworks write it before they compile, so the kernel may \
                 be of older options (copies made without `cp -a` lose these dates)",
            ),
            Self::Debug => f.write_str("it was compiled for debugging: such kernels are never stored"),
            Self::Options(which) => write!(f, "its options cannot be stored: {which}"),
            Self::NoBackend(target) => {
                write!(f, "no backend runs imported kernels for `{target}`")
            }
            Self::MultiPart => f.write_str("it is a multi-part kernel (`jsonList`), and those are not imported"),
            Self::NoObject => {
                f.write_str("its object is a library for the host, and no backend runs imported libraries")
            }
            Self::Invalid(errors) => write!(f, "it is no kernel for its target: {}", errors.join("; ")),
            Self::NotPublished(why) => write!(f, "it could not be published: {why}"),
        }
    }
}

impl ImportReport {
    /// Adds a directory that could not be read, unless it was added before under another path.
    pub(super) fn add_unreadable(&mut self, path: &Path, error: &io::Error, seen: &mut HashSet<FileId>) {
        if Fs::new().look(path).ok().is_none_or(|found| seen.insert(found.state.id)) {
            self.unreadable_dirs.push((path.to_owned(), error.to_string()));
        }
    }

    pub(super) fn add_unreadable_dirs(&mut self, found: &CacheDirs, seen: &mut HashSet<FileId>) {
        found.unreadable_dirs.iter().for_each(|(path, error)| self.add_unreadable(path, error, seen));
        let deep = "nested too deep; give its own path".to_owned();
        self.unreadable_dirs.extend(found.too_deep.iter().map(|path| (path.clone(), deep.clone())));
    }
}

impl CacheImport {
    pub(super) fn new(dir: &CacheDir) -> Self {
        Self {
            path: dir.path.clone(),
            kind: dir.kind.name(),
            rank: dir.rank.clone(),
            skip_reason: None,
            imported: Vec::new(),
            existing: 0,
            replaced: Vec::new(),
            duplicates: 0,
            skipped: Vec::new(),
            unprocessed: 0,
            unreadable_dirs: Vec::new(),
        }
    }
}
