//! A store: its root, and the configuration to open it.

pub(crate) mod build_records;
pub(crate) mod directories;
mod mark_destinations;
pub(crate) mod read;
pub(crate) mod target;
pub(crate) mod unsent;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::layout::{CACHEDIR_TAG, CACHEDIR_TEXT, GITIGNORE, LIMITS_FILE, VERSION};
use crate::marker::{self, Level, Owner};
use crate::ownership::OwnerPolicy;
use crate::{LimitSettings, LimitWarning, Limits, StoreError, files, kernel_cache};
use opkeep_fs::{Clock, Dir, RootedFs, Watcher};

/// The configuration of a store.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreConfig {
    /// The root directory. If it is missing, it is created with mode 0700.
    pub root: PathBuf,
    /// Whether entries may be written.
    pub access: Access,
    /// The users, besides this one, whose entries may be used.
    pub trusted_owners: Vec<u32>,
    /// The limits from the environment.
    pub limits: LimitSettings,
    /// A watcher that is called before every file operation. For tests.
    pub watcher: Option<Arc<dyn Watcher>>,
    /// A clock in place of the file system's clock. For tests.
    pub clock: Option<Arc<dyn Clock>>,
}

/// Whether entries may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Entries may be written, and a missing store is created.
    ReadWrite,
    /// Entries of an existing store may be written and deleted; no store and no directory is created.
    Existing,
    /// Nothing is written below the root.
    ReadOnly,
}

impl Access {
    /// Whether anything may be written.
    pub(crate) fn writes(self) -> bool {
        self != Self::ReadOnly
    }

    /// Whether a missing store and its directories may be created.
    pub(crate) fn creates(self) -> bool {
        self == Self::ReadWrite
    }
}

/// The names of the files and directories that a store creates in its root.
const OWN: [&str; 4] = [CACHEDIR_TAG, GITIGNORE, LIMITS_FILE, VERSION];

impl StoreConfig {
    /// Returns the configuration of a store at `root` that this user reads and writes.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            access: Access::ReadWrite,
            trusted_owners: Vec::new(),
            limits: LimitSettings::default(),
            watcher: None,
            clock: None,
        }
    }

    /// This store with this access.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// This store; entries of these users may be used, too.
    #[must_use]
    pub fn with_trusted_owners(mut self, owners: Vec<u32>) -> Self {
        self.trusted_owners = owners;
        self
    }

    /// This store with these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: LimitSettings) -> Self {
        self.limits = limits;
        self
    }

    /// This store with this watcher. For tests.
    #[must_use]
    pub fn with_watcher(mut self, watcher: Arc<dyn Watcher>) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// This store with this clock. For tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }
}

/// A store.
#[derive(Clone, Debug)]
pub struct Store {
    config: StoreConfig,
    trust: OwnerPolicy,
    fs: RootedFs,
    limits: Arc<Limits>,
    warnings: Arc<[LimitWarning]>,
}

impl Store {
    /// Opens a store. With [`Access::ReadWrite`] a missing root is created. If the root is CANN's own cache, a directory called
    /// `kernel_cache`, or is in it, the store is in the directory `opkeep` of that cache instead.
    ///
    /// # Errors
    /// The root is not a directory, is not trusted, or cannot be created; an existing store in CANN's own cache would be
    /// written; the directory `v1` belongs to another program.
    pub fn open(mut config: StoreConfig) -> Result<Self, StoreError> {
        let (writable, creates) = (config.access.writes(), config.access.creates());
        let mut fs = RootedFs::new(config.watcher.clone(), config.clock.clone()).quiet(!writable);
        config.root = kernel_cache::place(&fs, &config.root, writable)?;
        let root = &config.root;
        if creates {
            files::create_dirs(&fs, root, 0o700)
                .map_err(|source| directories::trouble("create", root, source))?;
        }
        // The root may be a link; nothing below it may.
        let entered = fs.real_path(root).and_then(|real| Ok((fs.enter(&real)?, real)));
        let entered = entered.and_then(|(dir, real)| Ok((dir.stat()?, dir, real)));
        let (stat, dir, real) = match entered {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = root.clone();
                // The root was created and is missing, so the path is a link without a target.
                return Err(if creates {
                    StoreError::NotADirectory { path }
                } else {
                    StoreError::NoStore { path }
                });
            }
            other => other.map_err(|source| directories::trouble("open", root, source))?,
        };
        let trust = OwnerPolicy::below(root, &stat, &config.trusted_owners)?;
        // A directory with other files in it is not marked: the marks would apply to those, too.
        let marks = creates && files::holds_only(&dir, &OWN);
        // Checked before the first write, since the directory may belong to another program.
        let version = real.join(VERSION);
        let owner = directories::open_owned(&fs, &trust, &version, Level::Version)?.map(|(_, owner)| owner);
        if writable && !creates && !owner.is_some_and(Owner::is_store) {
            return Err(StoreError::NoStore { path: real });
        }
        let (limits, warnings) = Limits::find(&fs, &real, creates, &config.limits);
        let config = StoreConfig { root: real, ..config };
        let store = Self { trust, fs, limits: Arc::new(limits), warnings: warnings.into(), config };
        if marks {
            store.mark()?;
        }
        if creates && owner != Some(Owner::Store) {
            store.owned(&version, Level::Version, true)?;
        }
        Ok(store)
    }

    /// Opens the store again after other processes removed it or a part of it.
    ///
    /// # Errors
    /// As [`open`](Self::open), or the root is not shared as it was: open directories and files have the modes for that.
    pub(crate) fn open_again(&self) -> Result<Self, StoreError> {
        let StoreConfig { root, trusted_owners, .. } = &self.config;
        let is_as_before = match self.directory(root, false)? {
            Some(dir) => {
                let stat = dir.stat().map_err(|source| directories::trouble("look at", root, source))?;
                OwnerPolicy::below(root, &stat, trusted_owners)? == self.trust
            }
            // The owner of a shared root chooses its group.
            None => !self.trust.is_shared(),
        };
        match is_as_before {
            true => Self::open(self.config.clone()),
            false => Err(StoreError::NoStore { path: root.clone() }),
        }
    }

    /// Whether the store exists. A root without a version directory is not a store.
    ///
    /// # Errors
    /// The version directory belongs to another program, or cannot be read.
    pub fn exists(&self) -> Result<bool, StoreError> {
        self.owned(&self.version_dir(), Level::Version, false).map(|found| found.is_some())
    }

    /// Returns the names of all targets, in order.
    ///
    /// # Errors
    /// The directory could not be listed, or is not trusted.
    pub fn targets(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.list_targets()?.0)
    }

    /// Returns the directories of other programs beside the targets, in order. The store never changes them.
    ///
    /// # Errors
    /// As [`targets`](Self::targets).
    pub fn foreign(&self) -> Result<Vec<PathBuf>, StoreError> {
        Ok(self.list_targets()?.1)
    }

    /// Returns the names of targets, and the directories of other programs beside them. An unreadable directory counts
    /// as a target: opening that target returns the error.
    fn list_targets(&self) -> Result<(Vec<String>, Vec<PathBuf>), StoreError> {
        let dir = self.version_dir();
        let Some(directory) = self.owned(&dir, Level::Version, false)? else { return Ok(Default::default()) };
        let listed = directory.list().map_err(|source| directories::trouble("list", &dir, source))?;
        let mut names: Vec<&str> = listed.utf8().collect();
        opkeep_order::sort(&mut names);
        let (mut targets, mut foreign) = (Vec::new(), Vec::new());
        for name in names {
            let path = dir.join(name);
            let seen = directory.look(name);
            if !directories::is_target_name(name) || !seen.is_ok_and(|seen| seen.is_dir()) {
                continue;
            }
            match self.owned(&path, Level::Target, false) {
                Ok(None) => {}
                Err(StoreError::Foreign { path }) => foreign.push(path),
                Ok(Some(_)) | Err(_) => targets.push(name.to_owned()),
            }
        }
        Ok((targets, foreign))
    }

    /// Returns the same store with [`Access::ReadOnly`].
    pub fn reader(&self) -> Self {
        let config = StoreConfig { access: Access::ReadOnly, ..self.config.clone() };
        Self { config, fs: self.fs.clone().quiet(true), ..self.clone() }
    }

    /// Returns the limits of each target's directory, as read when the store was opened.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the ignored settings of limits. Report each as a warning.
    pub fn limit_warnings(&self) -> &[LimitWarning] {
        &self.warnings
    }

    /// Returns the real path of the root directory.
    pub fn root(&self) -> &Path {
        &self.config.root
    }

    /// Whether entries may be written.
    pub fn is_writable(&self) -> bool {
        self.config().access.writes()
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.config
    }

    pub(crate) fn fs(&self) -> &RootedFs {
        &self.fs
    }

    pub(crate) fn shared_limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    pub(crate) fn trust(&self) -> &OwnerPolicy {
        &self.trust
    }

    pub(crate) fn version_dir(&self) -> PathBuf {
        self.config.root.join(VERSION)
    }

    /// Opens the directory of a version or a target. If `make`, a missing or empty one is created and marked. `None` if it is
    /// missing or empty.
    ///
    /// # Errors
    /// The directory belongs to another program.
    pub(crate) fn owned(&self, path: &Path, level: Level, make: bool) -> Result<Option<Dir>, StoreError> {
        if make {
            let Some(directory) = self.directory(path, true)? else { return Ok(None) };
            return marker::claim(&self.fs, &directory, level).map(|()| Some(directory));
        }
        let found = directories::open_owned(&self.fs, &self.trust, path, level)?;
        Ok(found.filter(|(_, owner)| owner.is_store()).map(|(directory, _)| directory))
    }

    /// Opens a directory and checks its owner and mode. If `make`, a missing directory is created. Returns `None` if it
    /// is missing.
    pub(crate) fn directory(&self, path: &Path, make: bool) -> Result<Option<Dir>, StoreError> {
        directories::open(&self.fs, &self.trust, path, make)
    }

    /// Marks the root so that backup programs and git ignore it.
    fn mark(&self) -> Result<(), StoreError> {
        for (name, text) in [(CACHEDIR_TAG, CACHEDIR_TEXT), (GITIGNORE, "*\n")] {
            let path = self.config.root.join(name);
            files::write_new(&self.fs, &path, text).map_err(|source| StoreError::Io {
                action: "write",
                path,
                source,
            })?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { root, access, trusted_owners, limits, watcher: _, clock: _ } = self;
        f.debug_struct("StoreConfig")
            .field("root", root)
            .field("access", access)
            .field("trusted_owners", trusted_owners)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}
