//! A store and a remote tier, opened as a mode requires.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use opkeep_store::{Access, CacheMode, Store, StoreConfig, StoreError, TargetStore, is_target_name};

use crate::error::CacheError;
use crate::event::{Events, OnEvent};
use crate::for_others::IsForOthers;
use crate::kept_lock::kept_locks;
use crate::outage::Outage;
use crate::per_process::PerProcess;
use crate::push::PushReport;
use crate::remote::{RemoteConfig, RemotePolicy, RemoteTier};
use crate::signing::{Keys, TrustConfig};
use crate::target::TargetCache;
use crate::tiers::{Shared, Target, upload_limit};
use crate::upload::Uploads;
use crate::warning::{OnWarning, WarningKind, Warnings};

/// The settings of a cache.
#[derive(Clone)]
#[non_exhaustive]
pub struct CacheConfig {
    /// The local store. The mode decides whether it is written.
    pub store: Option<StoreConfig>,
    /// The mode in which the store is used.
    pub mode: CacheMode,
    /// The remote tier.
    pub remote: Option<RemoteConfig>,
    /// Which entries other hosts can use. Only these are sent to the remote tier, and taken from it; all others stay on this machine.
    /// By default there are none, so that a caller that does not set it shares nothing.
    pub is_for_others: IsForOthers,
    /// The keys that sign entries, and those whose signatures are demanded. Entries are signed for the namespace of the remote tier.
    pub trust: TrustConfig,
    /// A function that is called for each warning.
    pub on_warning: Option<OnWarning>,
    /// A function that is called for each event of the remote tier. It must not be slow: entries are sent and leases are renewed on the
    /// same threads.
    pub on_event: Option<OnEvent>,
    /// The pause after a write that failed for a reason that holds for all writes, such as a full disk. Then a write is tried
    /// again. Each further failure doubles the pause, up to ten minutes.
    pub write_pause: Duration,
}

impl Default for CacheConfig {
    /// No store, no remote tier, and pauses of 30 seconds.
    fn default() -> Self {
        Self {
            store: None,
            mode: CacheMode::default(),
            remote: None,
            is_for_others: |_| false,
            trust: TrustConfig::default(),
            on_warning: None,
            on_event: None,
            write_pause: Duration::from_secs(30),
        }
    }
}

impl CacheConfig {
    /// Creates settings for `store` in the mode [`CacheMode::Enable`].
    pub fn new(store: StoreConfig) -> Self {
        Self { store: Some(store), ..Self::default() }
    }
}

impl fmt::Debug for CacheConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, mode, remote, is_for_others: _, trust, on_warning: _, on_event: _, write_pause } =
            self;
        f.debug_struct("CacheConfig")
            .field("store", store)
            .field("mode", mode)
            .field("remote", remote)
            .field("trust", trust)
            .field("write_pause", write_pause)
            .finish_non_exhaustive()
    }
}

/// Compiled kernels of all targets, in a local store and a remote tier.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
    /// The targets so far. Each is opened when it is first used.
    targets: Mutex<Vec<(String, TargetCache)>>,
}

impl Cache {
    /// Opens the cache. Unless the mode requires the store, a store that cannot be written is only read, and a store that
    /// cannot be used at all is not used, each with a warning.
    ///
    /// # Errors
    /// The mode requires a store, and there is none or it cannot be used. A store that does not exist is no error if there is a remote
    /// tier to read from.
    pub fn open(config: CacheConfig) -> Result<Self, CacheError> {
        let CacheConfig { store, mode, remote, is_for_others, trust, on_warning, on_event, write_pause } =
            config;
        let (warnings, events) = (Warnings(on_warning), Events(on_event));
        let reads_remote = remote.as_ref().is_some_and(|remote| remote.policy != RemotePolicy::Off);
        let store = open_store(mode, store, reads_remote, &warnings)?;
        for warning in store.iter().flat_map(Store::limit_warnings) {
            warnings.warn(WarningKind::Limits, warning);
        }
        let is_written = mode.writes() && store.as_ref().is_some_and(Store::is_writable);
        let namespace = trust.namespace.clone();
        let keys = Arc::new(Keys::open(trust, is_written, |text| warnings.warn(WarningKind::Keys, text)));
        // Only what is sent is signed with that key.
        let sends = remote.as_ref().is_some_and(|remote| remote.policy == RemotePolicy::ReadWrite);
        if let Some(text) = keys.distrust_of_own().filter(|_| sends && mode.writes()) {
            warnings.warn(WarningKind::Keys, text);
        }
        let in_remote = remote.as_ref().map(|remote| remote.namespace.clone());
        let namespace = namespace.or(in_remote).unwrap_or_default();
        let remote = remote.map(RemoteTier::new);
        let (kept_locks, outage) = (kept_locks(), Outage::new(write_pause));
        let uploads = PerProcess::new(Uploads::new(upload_limit(remote.as_deref())));
        let shared = Shared {
            mode,
            store,
            remote,
            is_for_others,
            keys,
            namespace,
            warnings,
            events,
            kept_locks,
            outage,
            uploads,
        };
        Ok(Self { shared: Arc::new(shared), targets: Mutex::default() })
    }

    /// Returns the part of the cache for the target `name`, such as `cpu-x86_64`. Without a usable store every caller builds.
    ///
    /// # Errors
    /// The name is not valid, or the mode requires the store, and its part for this target cannot be used.
    pub fn target(&self, name: &str) -> Result<TargetCache, CacheError> {
        if !is_target_name(name) {
            return Err(CacheError::TargetName { target: name.to_owned() });
        }
        if let Some(target) = self.known(name) {
            return Ok(target);
        }
        // The targets are not locked here, since the caller's function for warnings may call this function.
        let store = self.open_target(name)?;
        let shared = Arc::clone(&self.shared);
        let target = TargetCache::new(Target::new(shared, name.to_owned(), store));
        let mut targets = self.locked();
        match targets.iter().find(|(known, _)| known == name) {
            Some((_, other)) => Ok(other.clone()),
            None => {
                targets.push((name.to_owned(), target.clone()));
                Ok(target)
            }
        }
    }

    fn known(&self, name: &str) -> Option<TargetCache> {
        self.locked().iter().find(|(known, _)| known == name).map(|(_, target)| target.clone())
    }

    fn locked(&self) -> MutexGuard<'_, Vec<(String, TargetCache)>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the published entries are in the remote tier, until `deadline` at most, or until `cancel` is cancelled. The wait also
    /// ends when the engine is paused, or idle for [`RemoteConfig::idle_timeout`]. Returns the number of entries that are still being
    /// sent. A program that ends calls this; what is not sent by then is sent by [`TargetCache::push_unsent`].
    pub fn finish_uploads(&self, deadline: Instant, cancel: Option<&CancelToken>) -> usize {
        self.shared.uploads().finish(deadline, cancel)
    }

    /// Sends what earlier uploads left of all targets that were opened, and one bundle for each plan that was fetched, as
    /// [`TargetCache::push_unsent`] and [`TargetCache::share_plans`] do. An engine whose last calls failed is not called during a pause,
    /// as for every other call, which is a warning if there is something to send. Nothing is sent while uploads of this cache have not
    /// ended: wait for them before, with [`finish_uploads`](Self::finish_uploads). That entries are left is a warning, if no other one has
    /// the reason.
    pub fn push_unsent(&self, deadline: Option<Instant>, cancel: Option<&CancelToken>) -> PushReport {
        // The targets are not locked here, since the caller's function for warnings may open one.
        let targets: Vec<_> = self.locked().iter().map(|(_, target)| target.clone()).collect();
        let is_sending = self.shared.uploads().has_any();
        let report = self.push_targets(&targets, is_sending, deadline, cancel);
        if report.left > 0 && !cancel.is_some_and(CancelToken::is_cancelled) {
            targets.first().inspect(|target| target.warn_of_unsent(report.left, is_sending));
        }
        report
    }

    fn push_targets(
        &self,
        targets: &[TargetCache],
        is_sending: bool,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> PushReport {
        let mut all = PushReport::default();
        if is_sending {
            // The engine makes no progress, or needs more time than there was.
            all.left = targets.iter().map(TargetCache::count_unsent).sum();
            return all;
        }
        let remote = self.shared.remote.as_ref();
        if remote.is_some_and(|remote| !remote.client().may_call(Instant::now())) {
            all.left = targets.iter().map(TargetCache::count_unsent).sum();
            if all.left > 0 {
                targets.first().inspect(|target| target.warn_of_pause());
            }
            return all;
        }
        for target in targets {
            all.add(target.push_unsent(deadline, cancel));
            target.share_plans(deadline, cancel);
        }
        all
    }

    /// Whether the remote tier is paused: its last calls failed, and it is called again later.
    pub fn is_remote_paused(&self) -> bool {
        self.shared.remote.as_ref().is_some_and(|remote| remote.client().is_paused())
    }

    /// Returns the local store, if it can be used.
    pub fn store(&self) -> Option<&Store> {
        self.shared.store.as_ref()
    }

    fn open_target(&self, name: &str) -> Result<Option<TargetStore>, CacheError> {
        let Shared { mode, store, warnings, .. } = &*self.shared;
        let Some(store) = store else { return Ok(None) };
        let error = match store.target(name) {
            Ok(target) => return Ok(Some(target)),
            Err(source) if mode.requires_store() => return Err(CacheError::Store { mode: *mode, source }),
            Err(error) => error,
        };
        // A store that cannot be written may still be read.
        let readable = store.reader().target(name).ok().filter(|_| mode.reads());
        warn_unusable(warnings, readable.is_some(), &error);
        Ok(readable)
    }
}

/// Opens the store as the mode requires. A mode that creates no store needs none if entries come from a remote tier.
fn open_store(
    mode: CacheMode,
    config: Option<StoreConfig>,
    reads_remote: bool,
    warnings: &Warnings,
) -> Result<Option<Store>, CacheError> {
    if mode == CacheMode::Disable {
        return Ok(None);
    }
    let Some(config) = config else {
        let is_needed = mode.requires_store() && !reads_remote;
        return if is_needed { Err(CacheError::NoStore { mode }) } else { Ok(None) };
    };
    let open = |access| Store::open(config.clone().with_access(access));
    if !mode.writes() {
        return match open(Access::ReadOnly) {
            Ok(store) => Ok(Some(store)),
            Err(StoreError::NoStore { .. }) if reads_remote => Ok(None),
            Err(source) if mode.requires_store() => Err(CacheError::Store { mode, source }),
            Err(_) => Ok(None),
        };
    }
    let error = match open(Access::ReadWrite) {
        Ok(store) => return Ok(Some(store)),
        Err(error) => error,
    };
    // A store that cannot be written may still be read: no hit is lost.
    let readable = open(Access::ReadOnly).ok().filter(|_| mode.reads());
    warn_unusable(warnings, readable.is_some(), &error);
    Ok(readable)
}

fn warn_unusable(warnings: &Warnings, is_readable: bool, error: &StoreError) {
    match is_readable {
        true => warnings.warn(WarningKind::Keeping, format_args!("kernels are built and not kept: {error}")),
        false => warnings.warn(WarningKind::Store, format_args!("building without the store: {error}")),
    }
}
