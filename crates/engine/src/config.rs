//! The settings of an engine.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opkeep_cache::RemoteConfig;
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
    /// The store. Without one everything is compiled. Whether it is written is decided by the mode.
    pub store: Option<StoreConfig>,
    /// The remote tier, if there is one. A remote tier never fails a build.
    pub remote: Option<RemoteConfig>,
    /// The cache mode.
    pub mode: CacheMode,
    /// The number of compilers that this process runs at once. If unset, the backend decides.
    pub jobs: Option<NonZeroUsize>,
    /// The number of compilers that all builds of this user with the same [`work_dir`](Self::work_dir) run at once on this
    /// machine. If unset, as many as the backend says, or as [`jobs`](Self::jobs) if that is more.
    pub machine_jobs: Option<NonZeroUsize>,
    /// By how much [`build`](crate::Engine::build) lowers the priority of its compilers, as `nice` does: 0 to 19; more
    /// counts as 19. Unless it is 0, `build` compiles on threads of its own only.
    /// [`get_or_build`](crate::Engine::get_or_build) compiles on the caller's thread and leaves its priority alone.
    pub nice: u8,
    /// Whether a build ends with the first kernel that fails. Compiles in progress are finished and kept; all other kernels
    /// are [skipped](crate::Outcome::Skipped).
    pub fail_fast: bool,
    /// Whether [`BuildReport`](crate::BuildReport) holds the kernels. If not, a build of any number of kernels needs no more
    /// memory than a few of them: take them from the observer, or from the view.
    pub keep_artifacts: bool,
    /// Whether imported kernels are reused. Their compiler and its inputs are unknown; only what their descriptors state is
    /// known: job, target, options. A compiled kernel takes precedence over an imported one.
    pub trust_imported: bool,
    /// The time limit of one compile. `None` is without limit.
    pub compile_timeout: Option<Duration>,
    /// The number of bytes of kernels that [`get_or_build`](crate::Engine::get_or_build) keeps in memory. The least
    /// recently used are dropped first.
    pub memory_bytes: usize,
    /// The directory where a framework looks for kernels, if kernels are written there.
    pub view: Option<ViewConfig>,
    /// The directory below which compilers work. If unset, the system's directory for temporary files.
    pub work_dir: Option<PathBuf>,
    /// The file system whose clock decides which files of a toolchain changed just now, and until when
    /// [`get_or_build`](crate::Engine::get_or_build) takes a toolchain for unchanged.
    pub fs: Fs,
}

impl Default for Config {
    /// No store, no view, no limit but a compile timeout of ten minutes, and 256 MiB of kernels in memory.
    fn default() -> Self {
        Self {
            store: None,
            remote: None,
            mode: CacheMode::Enable,
            jobs: None,
            machine_jobs: None,
            nice: 0,
            fail_fast: false,
            keep_artifacts: true,
            trust_imported: false,
            compile_timeout: Some(Duration::from_secs(600)),
            memory_bytes: 256 << 20,
            view: None,
            work_dir: None,
            fs: Fs::new(),
        }
    }
}

impl Config {
    /// The defaults, with a store.
    pub fn with_store(store: StoreConfig) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    /// Refuses a view that is the store, inside the store, or around it. A rank's directory may be beside `v1`, where both
    /// are in one project.
    pub(crate) fn check_directories(&self) -> Result<(), BuildError> {
        let (Some(config), Some(store)) = (&self.view, &self.store) else { return Ok(()) };
        // A path that cannot be a directory is reported when kernels are put there.
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

/// The directory of kernels for a framework, and the permitted changes there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewConfig {
    /// The directory.
    pub location: ViewLocation,
    /// The permitted changes there.
    pub policy: ViewPolicy,
    /// The builds of other backends that share the directory. If unset, this build is alone.
    pub group: Option<ViewGroup>,
    /// The judge of files that no build wrote. The default leaves all of them as they are, damaged ones too, whatever the
    /// policy allows: it has no quarantine to keep them in.
    pub foreign_files: Arc<dyn ForeignFiles>,
}

/// The directory where a framework looks for kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewLocation {
    /// That of a rank: `<base>/rank_<rank>/kernel_meta`.
    Rank {
        /// The directory that holds those of the ranks.
        base: PathBuf,
        /// The rank's id.
        rank: String,
    },
    /// The directory itself.
    Directory(PathBuf),
}

/// The permitted changes in the directory where a framework looks for kernels. The default leaves foreign kernels alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewPolicy {
    /// Foreign kernels may be replaced, and release kernels by debug kernels. Foreign files are quarantined first.
    pub replace: bool,
    /// The user did not choose the target. Then a directory with a foreign kernel is left as it is, except for kernels whose
    /// target is the chip that their descriptor names.
    pub guessed_target: bool,
}

impl ViewConfig {
    /// Writes kernels to `location`; foreign files are left alone.
    pub fn new(location: ViewLocation) -> Self {
        Self { location, policy: ViewPolicy::default(), group: None, foreign_files: Arc::new(LeaveForeign) }
    }

    /// The directory of a rank: `<base>/rank_<rank>/kernel_meta`.
    pub fn rank(base: impl Into<PathBuf>, rank: impl Into<String>) -> Self {
        Self::new(ViewLocation::Rank { base: base.into(), rank: rank.into() })
    }

    /// The directory `dir` itself.
    pub fn directory(dir: impl Into<PathBuf>) -> Self {
        Self::new(ViewLocation::Directory(dir.into()))
    }

    /// The directory, opened.
    pub(crate) fn open(&self) -> Result<View, ViewError> {
        let view = match &self.location {
            ViewLocation::Rank { base, rank } => View::of(base, rank),
            ViewLocation::Directory(dir) => View::at(dir),
        };
        Ok(view?.with_foreign_files(Arc::clone(&self.foreign_files)))
    }
}
