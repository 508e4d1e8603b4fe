//! What building needs: the store, a place for compilers to work, and what was learned before.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use opkeep_fs::NotPrivate;
use opkeep_store::{Access, Config, Mode, Store, StoreError, TargetStore};

use crate::costs::Costs;
use crate::expected::Judging;
use crate::group::Group;
use crate::tokens::Tokens;
use crate::warnings::{Cause, Warnings};
use crate::work::WorkRoot;
use crate::{BuildError, Builder, DigestMemo};

/// Opened for each build; for kernels that are asked for one at a time, once.
pub(crate) struct Workshop {
    pub(crate) warnings: Warnings,
    pub(crate) shelves: Shelves,
    pub(crate) judging: Judging,
    /// Without a work folder nothing can be compiled, but what is in the store can be taken.
    pub(crate) work: io::Result<WorkRoot>,
    pub(crate) memo: DigestMemo,
    pub(crate) costs: Costs,
    pub(crate) tokens: Tokens,
    /// With [`Mode::Force`], what was made since this began is new enough.
    pub(crate) group: Group,
}

impl Workshop {
    pub(crate) fn open(builder: &Builder) -> Result<Self, BuildError> {
        builder.check_places()?;
        let began = SystemTime::now();
        let warnings = Warnings::new(builder.observer.clone());
        warnings.tell_all(&builder.backend.warnings());
        let shelves = Shelves::open(builder, &warnings)?;
        let work = WorkRoot::open(&builder.work_base);
        let memo = work.as_ref().map(|work| DigestMemo::open(work.memo())).unwrap_or_default();
        let answers = work.as_ref().ok().and_then(WorkRoot::answers);
        let memo = memo.cancelled_by(builder.cancel.clone()).with_answers(answers);
        let costs = Costs::new(work.as_ref().ok().map(WorkRoot::costs));
        if let Some(warning) = work.as_ref().ok().and_then(WorkRoot::warning) {
            warnings.tell(Cause::Work, &warning);
        }
        let common = |find: fn(&WorkRoot) -> Result<PathBuf, NotPrivate>, lost: &str| {
            let found = find(work.as_ref().ok()?);
            found.map_err(|why| warnings.tell(Cause::Work, &format!("{why}: without it {lost}"))).ok()
        };
        let slots = common(WorkRoot::slots, "this build does not count the compilers of other builds");
        let tokens = Tokens::new(slots, builder.compilers());
        let group = match &builder.store {
            Some(config) if builder.mode == Mode::Force => {
                let groups =
                    common(WorkRoot::groups, "other builds with the mode force compile the same again");
                Group::join(groups.as_deref(), &config.root, began)
            }
            _ => Group::alone(began),
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
pub(crate) struct Shelves {
    mode: Mode,
    store: Option<Store>,
    opened: Mutex<Vec<(String, Option<Arc<TargetStore>>)>>,
    /// The store could not be written. It is read on, and nothing more is tried: one cause, one warning.
    cannot_keep: AtomicBool,
}

impl Shelves {
    fn open(builder: &Builder, warnings: &Warnings) -> Result<Self, BuildError> {
        let store = open_store(builder, warnings)?;
        let notices = store.iter().flat_map(Store::limit_notices).map(ToString::to_string);
        warnings.tell_each(Cause::Limits, &notices.collect::<Vec<_>>());
        let cannot_keep = AtomicBool::new(false);
        Ok(Self { mode: builder.mode, store, opened: Mutex::default(), cannot_keep })
    }

    /// The shelf of `target`, if there is one that can be used.
    pub(crate) fn of(
        &self,
        target: &str,
        warnings: &Warnings,
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

    fn open_shelf(&self, target: &str, warnings: &Warnings) -> Result<Option<TargetStore>, BuildError> {
        let Some(store) = &self.store else { return Ok(None) };
        let error = match store.target(target) {
            Ok(shelf) => return Ok(Some(shelf)),
            Err(source) if self.mode.insists() => {
                return Err(BuildError::Store { mode: self.mode, source });
            }
            Err(error) => error,
        };
        // What cannot be written may still be read.
        let readable = store.reader().target(target).ok().filter(|_| self.mode.takes());
        match &readable {
            Some(_) => warnings.tell(Cause::Keeping, &format!("kernels are built and not kept: {error}")),
            None => warnings.tell(Cause::Store, &format!("building without the store: {error}")),
        }
        Ok(readable)
    }

    /// Whether kernels are put into `shelf`.
    pub(crate) fn keep_in(&self, shelf: &TargetStore) -> bool {
        shelf.is_writable() && !self.cannot_keep.load(Ordering::Relaxed)
    }

    /// Goes on without writing to the store, and says why, once.
    pub(crate) fn cannot_keep(&self, error: &StoreError, warnings: &Warnings) {
        if !self.cannot_keep.swap(true, Ordering::Relaxed) {
            warnings.tell(Cause::Keeping, &format!("kernels are built and not kept: {error}"));
        }
    }
}

/// The store, as the mode wants it. One that cannot be used is a warning, unless the mode insists on it.
fn open_store(builder: &Builder, warnings: &Warnings) -> Result<Option<Store>, BuildError> {
    let mode = builder.mode;
    if mode == Mode::Disable {
        return Ok(None);
    }
    let Some(config) = &builder.store else {
        return if mode.insists() { Err(BuildError::NoStore { mode }) } else { Ok(None) };
    };
    let open = |access| Store::open(Config { access, ..config.clone() });
    if !mode.keeps() {
        let opened = open(Access::ReadOnly).map(Some);
        return match opened {
            Err(source) if mode.insists() => Err(BuildError::Store { mode, source }),
            other => Ok(other.unwrap_or_default()),
        };
    }
    let error = match open(Access::ReadWrite) {
        Ok(store) => return Ok(Some(store)),
        Err(error) => error,
    };
    // What cannot be written may still be read: a hit is never lost for that.
    match open(Access::ReadOnly) {
        Ok(store) if mode.takes() => {
            warnings.tell(Cause::Keeping, &format!("kernels are built and not kept: {error}"));
            Ok(Some(store))
        }
        _ => {
            warnings.tell(Cause::Store, &format!("building without the store: {error}"));
            Ok(None)
        }
    }
}
