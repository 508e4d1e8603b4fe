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

/// Why an import could not begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of an import.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ImportReport {
    /// The caches that were found, in order.
    pub caches: Vec<CacheImport>,
    /// Directories that could not be read, and why.
    pub unreadable_dirs: Vec<(PathBuf, String)>,
    /// Settings of the store's limits that do not count.
    pub warnings: Vec<String>,
    /// It was cancelled.
    pub interrupted: bool,
}

/// The result of one cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct CacheImport {
    /// The directory.
    pub path: PathBuf,
    /// The name of its kind.
    pub kind: &'static str,
    /// The rank, if it belongs to one.
    pub rank: Option<String>,
    /// Why none of its kernels was read, if so.
    pub skip_reason: Option<SkipReason>,
    /// The kernels that were published, or would be.
    pub imported: Vec<ImportedKernel>,
    /// The kernels that replaced an older one of the same job, or would: they were compiled after that was imported.
    pub replaced: Vec<ImportedKernel>,
    /// The number of kernels that the store had already.
    pub existing: usize,
    /// The number of kernels of whose jobs the store had others already, not older. The first one stays: kernels of several
    /// ranks differ in their names.
    pub duplicates: usize,
    /// The kernels that were not imported, and why.
    pub skipped: Vec<SkippedKernel>,
    /// The number of kernels that were not read, since the import was cancelled or the store could not be written.
    pub unprocessed: usize,
    /// Directories in it that could not be read, and why.
    pub unreadable_dirs: Vec<(String, String)>,
}

/// A kernel that was imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportedKernel {
    /// Its name in the cache.
    pub name: String,
    /// Its key.
    pub key: Key,
    /// The types of its operators, joined.
    pub op_type: String,
    /// Its target.
    pub target: String,
    /// The bytes of its `.o` and its `.json` together.
    pub bytes: usize,
}

/// A kernel that was not imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkippedKernel {
    /// Its name in the cache.
    pub name: String,
    /// The reason.
    pub why: SkipReason,
}

/// Why a kernel is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It is damaged or an orphan: the problem.
    Damaged(String),
    /// It is for another chip than its descriptor, or its directory, names: the chips.
    OtherChip(String),
    /// Its descriptor names an unknown chip.
    UnknownChip(String),
    /// It is in use: by which process.
    InUse(String),
    /// It cannot be read: the error.
    Unreadable(String),
    /// A build of opkeep wrote it.
    Ours,
    /// It has no descriptor.
    NoDescriptor,
    /// Caches of this kind have no descriptors.
    NoDescriptors(String),
    /// Its descriptor is damaged: the problem.
    TornDescriptor(String),
    /// Its descriptor is another kernel's, or was changed: the name that follows from it.
    OtherName(Option<String>),
    /// Its `.json` has the name of another kernel.
    OtherKernel(String),
    /// Its operator is not the toolkit's: the source.
    OwnSource(String),
    /// Its descriptor is newer than the kernel.
    BegunAnew,
    /// It was compiled for debugging.
    Debug,
    /// An option of it cannot be kept: the option.
    Options(String),
    /// No backend runs kernels for this target.
    NoBackend(String),
    /// It is a multi-part kernel.
    InParts,
    /// Its object is a library.
    NoObject,
    /// The validator refuses it: the errors.
    Invalid(Vec<String>),
    /// It could not be published: the error.
    NotKept(String),
}

impl SkipReason {
    pub(super) fn of_item(item: &Item) -> Self {
        match &item.state {
            ItemState::OtherChip(other) => Self::OtherChip(other.to_string()),
            ItemState::Changing => Self::InUse("it changed whenever it was read".to_owned()),
            ItemState::Unreadable { file, problem } => Self::Unreadable(format!("`{file}`: {problem}")),
            state => {
                let problem = match state {
                    ItemState::Damaged(problems) => {
                        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                    }
                    ItemState::Orphan(orphan) => orphan.to_string(),
                    _ => item.state_name().to_owned(),
                };
                match &item.in_use {
                    Some(in_use) => Self::InUse(format!("{in_use}; so far: {problem}")),
                    None => Self::Damaged(problem),
                }
            }
        }
    }

    /// The name of the reason, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "damaged",
            Self::OtherChip(_) => "other-chip",
            Self::UnknownChip(_) => "unknown-chip",
            Self::InUse(_) => "in-use",
            Self::Unreadable(_) => "unreadable",
            Self::Ours => "ours",
            Self::NoDescriptor | Self::NoDescriptors(_) => "no-descriptor",
            Self::TornDescriptor(_) => "damaged-descriptor",
            Self::OtherName(_) => "other-name",
            Self::OtherKernel(_) => "other-kernel",
            Self::OwnSource(_) => "own-source",
            Self::BegunAnew => "begun-anew",
            Self::Debug => "debug",
            Self::Options(_) => "options",
            Self::NoBackend(_) => "no-backend",
            Self::InParts => "in-parts",
            Self::NoObject => "no-object",
            Self::Invalid(_) => "invalid",
            Self::NotKept(_) => "not-kept",
        }
    }

    /// Whether it is a problem, and not only unsuitable.
    pub const fn is_problem(&self) -> bool {
        match self {
            Self::Damaged(_)
            | Self::OtherChip(_)
            | Self::UnknownChip(_)
            | Self::Unreadable(_)
            | Self::TornDescriptor(_)
            | Self::OtherName(_)
            | Self::OtherKernel(_)
            | Self::Invalid(_)
            | Self::NotKept(_) => true,
            Self::InUse(_)
            | Self::Ours
            | Self::NoDescriptor
            | Self::NoDescriptors(_)
            | Self::OwnSource(_)
            | Self::BegunAnew
            | Self::Debug
            | Self::Options(_)
            | Self::NoBackend(_)
            | Self::InParts
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
            Self::Ours => f.write_str("opkeep put it there, out of a store of its own"),
            Self::NoDescriptor => f.write_str("no .info beside it: nothing says what it computes"),
            Self::NoDescriptors(whose) => {
                write!(f, "{whose} has no descriptors: nothing says what its kernels compute")
            }
            Self::TornDescriptor(how) => write!(f, "its descriptor is damaged: {how}"),
            Self::OtherName(Some(name)) => write!(
                f,
                "its descriptor is that of `{name}`: it is another kernel's, or was changed since"
            ),
            Self::OtherName(None) => f.write_str(
                "its name does not follow from its descriptor: that is another kernel's, or was changed since",
            ),
            Self::OtherKernel(name) => {
                write!(f, "its files hold the kernel `{name}`: that is another one, put under this name since")
            }
            Self::OwnSource(path) => write!(
                f,
                "its operator is not the toolkit's, but from `{path}`: what was in there when it was compiled is not known"
            ),
            Self::BegunAnew => f.write_str(
                "its descriptor is newer than the kernel: frameworks write it before they compile, so the kernel may be \
                 of older options (copies made without `cp -a` lose these dates)",
            ),
            Self::Debug => f.write_str("it was compiled for debugging: such kernels are never kept"),
            Self::Options(which) => write!(f, "its options cannot be kept: {which}"),
            Self::NoBackend(target) => {
                write!(f, "no backend here runs kernels for `{target}` that others compiled")
            }
            Self::InParts => f.write_str("it is in parts (`jsonList`), which are not imported"),
            Self::NoObject => {
                f.write_str("its object is a library, for the host: no backend here runs such that others compiled")
            }
            Self::Invalid(errors) => write!(f, "it is no kernel for its target: {}", errors.join("; ")),
            Self::NotKept(why) => write!(f, "it could not be kept: {why}"),
        }
    }
}

impl ImportReport {
    /// Adds a directory that could not be read; once, even if it was found by several paths.
    pub(super) fn add_unreadable(&mut self, path: &Path, error: &io::Error, seen: &mut HashSet<FileId>) {
        if Fs::new().look(path).ok().is_none_or(|found| seen.insert(found.state.id)) {
            self.unreadable_dirs.push((path.to_owned(), error.to_string()));
        }
    }

    pub(super) fn add_unreadable_dirs(&mut self, found: &CacheDirs, seen: &mut HashSet<FileId>) {
        found.unreadable_dirs.iter().for_each(|(path, error)| self.add_unreadable(path, error, seen));
        let deep = "nested too deep; name it on the command line".to_owned();
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
