//! What building needs: the store, a place for compilers to work, and what was learned before.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use opkeep_fs::NotPrivate;
use opkeep_store::{Access, CacheMode, Store, StoreConfig, StoreError, TargetStore};

use crate::costs::CompileTimes;
use crate::expected::Judging;
use crate::group::ForceGroup;
use crate::tokens::JobTokens;
use crate::warnings::{WarningKind, WarningLog};
use crate::work::WorkDirs;
use crate::{BuildError, Builder, FileDigestCache};

/// Opened for each build; for kernels that are asked for one at a time, once.
pub(crate) struct Runtime {
    pub(crate) warnings: WarningLog,
    pub(crate) shelves: StoreTargets,
    pub(crate) judging: Judging,
    /// Without a work folder nothing can be compiled, but what is in the store can be taken.
    pub(crate) work: io::Result<WorkDirs>,
    pub(crate) memo: FileDigestCache,
    pub(crate) costs: CompileTimes,
    pub(crate) tokens: JobTokens,
    /// With [`CacheMode::Force`], what was made since this began is new enough.
    pub(crate) group: ForceGroup,
}

impl Runtime {
    pub(crate) fn open(builder: &Builder) -> Result<Self, BuildError> {
        builder.check_places()?;
        let began = SystemTime::now();
        let warnings = WarningLog::new(builder.observer.clone());
        warnings.tell_all(&builder.backend.warnings());
        let shelves = StoreTargets::open(builder, &warnings)?;
        let work = WorkDirs::open(&builder.work_dir);
        let memo = work.as_ref().map(|work| FileDigestCache::open(work.memo())).unwrap_or_default();
        let answers = work.as_ref().ok().and_then(WorkDirs::answers);
        let memo = memo.cancelled_by(builder.cancel.clone()).with_answers(answers);
        let costs = CompileTimes::new(work.as_ref().ok().map(WorkDirs::costs));
        if let Some(warning) = work.as_ref().ok().and_then(WorkDirs::warning) {
            warnings.tell(WarningKind::Work, &warning);
        }
        let common = |find: fn(&WorkDirs) -> Result<PathBuf, NotPrivate>, lost: &str| {
            let found = find(work.as_ref().ok()?);
            found.map_err(|why| warnings.tell(WarningKind::Work, &format!("{why}: without it {lost}"))).ok()
        };
        let slots = common(WorkDirs::slots, "this build does not count the compilers of other builds");
        let tokens = JobTokens::new(slots, builder.compilers());
        let group = match &builder.store {
            Some(config) if builder.mode == CacheMode::Force => {
                let groups =
                    common(WorkDirs::groups, "other builds with the mode force compile the same again");
                ForceGroup::join(groups.as_deref(), &config.root, began)
            }
            _ => ForceGroup::alone(began),
        };
        let judging = Judging::new(&*builder.backend);
        Ok(Self { warnings, shelves, judging, work, memo, costs, tokens, group })
    }

    /// Writes down what was learned. Best effort: without it the next build learns it again.
    pub(crate) fn save(&self) {
        self.memo.save();
        self.costs.save();
    }
}

/// The store's part for each target, opened when it is first asked for.
pub(crate) struct StoreTargets {
    mode: CacheMode,
    store: Option<Store>,
    opened: Mutex<Vec<(String, Option<Arc<TargetStore>>)>>,
    /// The store could not be written. It is read on, and nothing more is tried: one cause, one warning.
    cannot_keep: AtomicBool,
}

impl StoreTargets {
    fn open(builder: &Builder, warnings: &WarningLog) -> Result<Self, BuildError> {
        let store = open_store(builder, warnings)?;
        let notices = store.iter().flat_map(Store::limit_warnings).map(ToString::to_string);
        warnings.tell_each(WarningKind::Limits, &notices.collect::<Vec<_>>());
        let cannot_keep = AtomicBool::new(false);
        Ok(Self { mode: builder.mode, store, opened: Mutex::default(), cannot_keep })
    }

    /// The shelf of `target`, if there is one that can be used.
    pub(crate) fn of(
        &self,
        target: &str,
        warnings: &WarningLog,
    ) -> Result<Option<Arc<TargetStore>>, BuildError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shelf)) = opened.iter().find(|(known, _)| known == target) {
            return Ok(shelf.clone());
        }
        let shelf = self.open_shelf(target, warnings)?.map(Arc::new);
        opened.push((target.to_owned(), shelf.clone()));
        Ok(shelf)
    }

    /// The store, if there is one.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    fn open_shelf(&self, target: &str, warnings: &WarningLog) -> Result<Option<TargetStore>, BuildError> {
        let Some(store) = &self.store else { return Ok(None) };
        let error = match store.target(target) {
            Ok(shelf) => return Ok(Some(shelf)),
            Err(source) if self.mode.requires_store() => {
                return Err(BuildError::Store { mode: self.mode, source });
            }
            Err(error) => error,
        };
        // What cannot be written may still be read.
        let readable = store.reader().target(target).ok().filter(|_| self.mode.reads());
        match &readable {
            Some(_) => {
                warnings.tell(WarningKind::Keeping, &format!("kernels are built and not kept: {error}"))
            }
            None => warnings.tell(WarningKind::Store, &format!("building without the store: {error}")),
        }
        Ok(readable)
    }

    /// Whether kernels are put into `shelf`.
    pub(crate) fn keep_in(&self, shelf: &TargetStore) -> bool {
        shelf.is_writable() && !self.cannot_keep.load(Ordering::Relaxed)
    }

    /// Goes on without writing to the store, and says why, once.
    pub(crate) fn cannot_keep(&self, error: &StoreError, warnings: &WarningLog) {
        if !self.cannot_keep.swap(true, Ordering::Relaxed) {
            warnings.tell(WarningKind::Keeping, &format!("kernels are built and not kept: {error}"));
        }
    }
}

/// The store, as the mode wants it. One that cannot be used is a warning, unless the mode insists on it.
fn open_store(builder: &Builder, warnings: &WarningLog) -> Result<Option<Store>, BuildError> {
    let mode = builder.mode;
    if mode == CacheMode::Disable {
        return Ok(None);
    }
    let Some(config) = &builder.store else {
        return if mode.requires_store() { Err(BuildError::NoStore { mode }) } else { Ok(None) };
    };
    let open = |access| Store::open(StoreConfig { access, ..config.clone() });
    if !mode.writes() {
        let opened = open(Access::ReadOnly).map(Some);
        return match opened {
            Err(source) if mode.requires_store() => Err(BuildError::Store { mode, source }),
            other => Ok(other.unwrap_or_default()),
        };
    }
    let error = match open(Access::ReadWrite) {
        Ok(store) => return Ok(Some(store)),
        Err(error) => error,
    };
    // What cannot be written may still be read: a hit is never lost for that.
    match open(Access::ReadOnly) {
        Ok(store) if mode.reads() => {
            warnings.tell(WarningKind::Keeping, &format!("kernels are built and not kept: {error}"));
            Ok(Some(store))
        }
        _ => {
            warnings.tell(WarningKind::Store, &format!("building without the store: {error}"));
            Ok(None)
        }
    }
}
