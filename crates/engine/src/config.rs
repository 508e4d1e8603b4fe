//! The settings of an engine.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opkeep_cache::{RemoteConfig, TrustConfig};
use opkeep_fs::Fs;
use opkeep_kernel_meta::{ForeignFiles, LeaveForeign, View, ViewError};
use opkeep_store::{CacheMode, StoreConfig, resolve_path};

use crate::BuildError;
use crate::view::group::ViewGroup;

/// The settings of an [`Engine`](crate::Engine).
///
/// ```
/// # use opkeep::Config;
/// # use opkeep_store::{CacheMode, StoreConfig};
/// let mut config = Config::with_store(StoreConfig::new("/var/cache/kernels"));
/// config.mode = CacheMode::ReadOnly;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The store. If unset, every kernel is compiled. The mode decides whether the store is written.
    pub store: Option<StoreConfig>,
    /// The remote tier, if there is one. A remote tier never fails a build.
    pub remote: Option<RemoteConfig>,
    /// The keys that sign kernels, and those whose signatures are demanded. If they are, imported kernels are not used.
    pub trust: TrustConfig,
    /// The cache mode.
    pub mode: CacheMode,
    /// The number of compilers that this process runs at once. If unset, the backend decides.
    pub jobs: Option<NonZeroUsize>,
    /// The number of compilers that all builds of this user with the same [`work_dir`](Self::work_dir) run at once on
    /// this machine. If unset, the larger of [`jobs`](Self::jobs) and the backend's number.
    pub machine_jobs: Option<NonZeroUsize>,
    /// The niceness that [`build`](crate::Engine::build) adds to its compilers: 0 to 19; more counts as 19. Unless it
    /// is 0, `build` compiles only on threads that it starts itself. [`get_or_build`](crate::Engine::get_or_build)
    /// compiles on the caller's thread, and does not change that thread's priority.
    pub nice: u8,
    /// Whether a build ends with the first kernel that fails. Compiles in progress are finished and kept; all other
    /// kernels are [skipped](crate::Outcome::Skipped).
    pub fail_fast: bool,
    /// Whether [`BuildReport`](crate::BuildReport) holds the kernels. If not, a build of any number of kernels needs no
    /// more memory than a few kernels; take the kernels from the observer, or from the view.
    pub keep_artifacts: bool,
    /// Whether imported kernels are reused. The compiler of an imported kernel and the compiler's inputs are unknown;
    /// only the job, the target and the options are known, from the descriptor. A compiled kernel takes precedence over
    /// an imported one.
    pub trust_imported: bool,
    /// Whether [`build`](crate::Engine::build) explains each miss ([`KernelReport::miss`](crate::KernelReport::miss), and an
    /// [`Event`](crate::Event)): while it compiles, it compares the missing kernels with all stored ones, and may end later for it, if
    /// there are very many. Without misses it does nothing. If unset, a build gives that 200 ms, for [`KernelReport::reason`](
    /// crate::KernelReport::reason).
    pub explain_misses: bool,
    /// The time limit of one compile. If unset, there is no limit.
    pub compile_timeout: Option<Duration>,
    /// The number of bytes of kernels that [`get_or_build`](crate::Engine::get_or_build) keeps in memory. The least
    /// recently used are dropped first.
    pub memory_bytes: usize,
    /// The directory where a framework looks for kernels. If unset, kernels are written to the store only.
    pub view: Option<ViewConfig>,
    /// The directory below which work directories are created. If unset, the system's directory for temporary files.
    pub work_dir: Option<PathBuf>,
    /// The record that [`build`](crate::Engine::build) makes of itself, for reports. If unset, it makes none.
    pub record: Option<RecordConfig>,
    /// The file system. Its clock decides which files of a toolchain changed too recently for their digests to be
    /// remembered, and for how long [`get_or_build`](crate::Engine::get_or_build) assumes that a toolchain is
    /// unchanged.
    pub fs: Fs,
}

impl Default for Config {
    /// Returns settings with no store, no view, a compile timeout of ten minutes, and 256 MiB of kernels in memory.
    fn default() -> Self {
        Self {
            store: None,
            remote: None,
            trust: TrustConfig::default(),
            mode: CacheMode::Enable,
            jobs: None,
            machine_jobs: None,
            nice: 0,
            fail_fast: false,
            keep_artifacts: true,
            trust_imported: false,
            explain_misses: false,
            compile_timeout: Some(Duration::from_secs(600)),
            memory_bytes: 256 << 20,
            view: None,
            work_dir: None,
            record: None,
            fs: Fs::new(),
        }
    }
}

impl Config {
    /// Returns the default settings with a store.
    pub fn with_store(store: StoreConfig) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    /// Returns an error if the view is the store's directory, inside it, or around it. A rank's directory may be in the
    /// store's directory outside of `v1`, since a project may use one directory for both.
    pub(crate) fn check_directories(&self) -> Result<(), BuildError> {
        let (Some(config), Some(store)) = (&self.view, &self.store) else { return Ok(()) };
        // A path that cannot be a directory is reported when kernels are written to it.
        let Some(view) = config.open().ok().and_then(|view| resolve_path(view.dir())) else { return Ok(()) };
        let Some(store) = resolve_path(&store.root) else { return Ok(()) };
        let own = match config.location {
            ViewLocation::Rank { .. } if view != store => store.join("v1"),
            _ => store.clone(),
        };
        match view.starts_with(own) || store.starts_with(&view) {
            true => Err(BuildError::ViewInStore { view, store }),
            false => Ok(()),
        }
    }
}

/// The record that a build makes of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordConfig {
    /// The label of the build, such as the file name of a model.
    pub label: String,
    /// Whether the record is added to the store, if the build writes to one. If it cannot be written, nothing happens.
    pub is_stored: bool,
}

impl RecordConfig {
    /// Creates the configuration of a record that is added to the store.
    pub fn stored(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_stored: true }
    }
}

/// The directory of kernels for a framework, and the permitted changes in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewConfig {
    /// The directory.
    pub location: ViewLocation,
    /// The permitted changes in the directory.
    pub policy: ViewPolicy,
    /// The builds of other backends that share the directory. If unset, no other build shares it.
    pub group: Option<ViewGroup>,
    /// The check of files that no build wrote. The default leaves all of them unchanged, damaged ones too, even if the
    /// policy allows replacing them, since it has no quarantine.
    ///
    /// A kernel that a build wrote, and whose `.json` a framework extended, is replaced or withdrawn in any case. The
    /// extended file goes to the quarantine. If the quarantine refuses it, or there is none, the file stays in the
    /// directory under a name that no framework reads, listed in
    /// [`ViewPlacement::displaced`](crate::ViewPlacement::displaced). The same holds for a kernel that a framework wrote
    /// exactly as a build would have, once a build has recorded it.
    pub foreign_files: Arc<dyn ForeignFiles>,
}

/// The directory where a framework looks for kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewLocation {
    /// The directory of a rank: `<base>/rank_<rank>/kernel_meta`.
    Rank {
        /// The directory that contains the directories of the ranks.
        base: PathBuf,
        /// The rank's id.
        rank: String,
    },
    /// The directory with this path.
    Directory(PathBuf),
}

/// The permitted changes in the directory where a framework looks for kernels. The default leaves foreign kernels
/// unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewPolicy {
    /// Whether foreign kernels may be replaced, and release kernels by debug kernels. Foreign files are quarantined
    /// first.
    pub replace: bool,
    /// Whether the target is a guess, not the user's choice. In a directory with a foreign kernel, a build with a
    /// guessed target then writes only the kernels whose target is the chip that their descriptor names.
    pub guessed_target: bool,
}

impl ViewConfig {
    /// Creates a configuration for `location` that leaves foreign files unchanged.
    pub fn new(location: ViewLocation) -> Self {
        Self { location, policy: ViewPolicy::default(), group: None, foreign_files: Arc::new(LeaveForeign) }
    }

    /// The directory of a rank: `<base>/rank_<rank>/kernel_meta`.
    pub fn rank(base: impl Into<PathBuf>, rank: impl Into<String>) -> Self {
        Self::new(ViewLocation::Rank { base: base.into(), rank: rank.into() })
    }

    /// Creates a configuration for the directory `dir`.
    pub fn directory(dir: impl Into<PathBuf>) -> Self {
        Self::new(ViewLocation::Directory(dir.into()))
    }

    /// Opens the directory.
    pub(crate) fn open(&self) -> Result<View, ViewError> {
        let view = match &self.location {
            ViewLocation::Rank { base, rank } => View::of(base, rank),
            ViewLocation::Directory(dir) => View::at(dir),
        };
        Ok(view?.with_foreign_files(Arc::clone(&self.foreign_files)))
    }
}
