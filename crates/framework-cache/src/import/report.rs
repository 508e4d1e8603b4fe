//! What came of an import.

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

/// Why nothing could be imported at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of an import.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ImportReport {
    /// The caches that were found, in order.
    pub caches: Vec<CacheImport>,
    /// Folders that could not be looked into, and why.
    pub unreadable_dirs: Vec<(PathBuf, String)>,
    /// What should be known and stopped nothing: limits of the store that do not count.
    pub warnings: Vec<String>,
    /// Whether it ended before all was done.
    pub interrupted: bool,
}

/// What came of one cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct CacheImport {
    /// The folder.
    pub path: PathBuf,
    /// Whose it is, in a word.
    pub kind: &'static str,
    /// The rank, if it is one's.
    pub rank: Option<String>,
    /// Why none of its kernels was looked at, if that is so.
    pub skip_reason: Option<SkipReason>,
    /// What is in the store now and was not; what would be, in a dry run.
    pub imported: Vec<ImportedKernel>,
    /// What stands in the store in place of an older one of the same job: it was compiled after that was imported.
    pub replaced: Vec<ImportedKernel>,
    /// How many were in the store already.
    pub existing: usize,
    /// How many are of jobs whose kernels were in the store already, with other bytes, and not compiled since. The first
    /// one stays: ranks have kernels of one job that differ in their names.
    pub duplicates: usize,
    /// What was not imported, and why.
    pub skipped: Vec<SkippedKernel>,
    /// How many were not looked at, since it was interrupted or nothing more could be written.
    pub unprocessed: usize,
    /// Folders in it that could not be looked into, and why.
    pub unreadable_dirs: Vec<(String, String)>,
}

/// A kernel that was imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportedKernel {
    /// What it is called where it came from.
    pub name: String,
    /// Its key.
    pub key: Key,
    /// The types of its operators, joined.
    pub op_type: String,
    /// What it runs on.
    pub target: String,
    /// The bytes of its `.o` and its `.json` together.
    pub bytes: usize,
}

/// A kernel that was not imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkippedKernel {
    /// What it is called where it is.
    pub name: String,
    /// Why.
    pub why: SkipReason,
}

/// Why kernels are not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It is damaged, or what is left of one: what is wrong.
    Damaged(String),
    /// It is for another chip than its descriptor, or its directory, names: which.
    OtherChip(String),
    /// Its descriptor names a chip that is not known: which.
    UnknownChip(String),
    /// Somebody is at it: who.
    InUse(String),
    /// It cannot be read: why.
    Unreadable(String),
    /// A build of ours put it there.
    Ours,
    /// Nothing says what it computes.
    NoDescriptor,
    /// The same of all that is in such caches: whose.
    NoDescriptors(String),
    /// Its descriptor is damaged: how.
    TornDescriptor(String),
    /// Its descriptor is another kernel's, or was changed: which name follows from it.
    OtherName(Option<String>),
    /// It is called as another kernel in its `.json`: how.
    OtherKernel(String),
    /// Its operator is not the toolkit's: from which source it is.
    OwnSource(String),
    /// Its descriptor is newer than the kernel.
    BegunAnew,
    /// It was compiled for debugging.
    Debug,
    /// An option of it has a meaning that cannot be kept: which.
    Options(String),
    /// No backend runs such kernels: for which target.
    NoBackend(String),
    /// It has no object of its own.
    InParts,
    /// Its object is a library.
    NoObject,
    /// The validator refuses it: why.
    Invalid(Vec<String>),
    /// It could not be written: why.
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

    /// The reason in a word, for programs.
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

    /// Whether something is wrong, and not only of no use here.
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
    /// Adds a directory that could not be looked into: once, by whatever paths it was met.
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
