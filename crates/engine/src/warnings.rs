//! Warnings: problems that stop nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opkeep_backend::Diagnostics;

use crate::event::{Event, Observer};

/// Warnings, one of each kind: a network of four hundred operators on a full disk has one problem, not four hundred.
pub(crate) struct WarningLog {
    logged: Mutex<Vec<Warning>>,
    observer: Option<Arc<Observer>>,
    backend: Arc<BackendWarnings>,
}

/// Warnings of a backend, each text reported once by all builds of an engine.
#[derive(Default)]
pub(crate) struct BackendWarnings {
    state: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    known: BTreeSet<String>,
    /// Those of calls outside of a build, for the next build to report.
    pending: Vec<String>,
}

impl BackendWarnings {
    fn state(&self) -> MutexGuard<'_, Texts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps what a backend warns of outside of a build.
impl Diagnostics for BackendWarnings {
    fn warn(&self, text: String) {
        let mut state = self.state();
        if state.known.insert(text.clone()) {
            state.pending.push(text);
        }
    }
}

/// Reports what a backend warns of during a build.
impl Diagnostics for WarningLog {
    fn warn(&self, text: String) {
        if self.backend.state().known.insert(text.clone()) {
            self.warn_each(WarningKind::Backend, &[text]);
        }
    }
}

struct Warning {
    kind: WarningKind,
    first: String,
    more: usize,
}

/// The subject of a warning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarningKind {
    /// The store cannot be used at all.
    Store,
    /// Entries cannot be written.
    Keeping,
    /// Entries that cannot be read, or are not trusted.
    Reading,
    /// Damaged entries.
    Corruption,
    /// Kernels with something that no genuine one was seen to have.
    Doubt,
    /// Limits that do not count.
    Limits,
    /// Locks that cannot be had.
    Locks,
    /// Kernels that cannot be put where a framework looks.
    View,
    /// The work directory cannot be used.
    Work,
    /// Kernels that are left as others put them there.
    Left,
    /// The directory for kernels is one where other users may write.
    Directory,
    /// The toolchain changed during the build.
    Moved,
    /// The backend's own warnings, each text once.
    Backend,
    /// The remote tier does not work as it should.
    Remote,
}

impl WarningKind {
    /// The kind of one of the cache's warnings.
    pub(crate) fn of(kind: opkeep_cache::WarningKind) -> Self {
        use opkeep_cache::WarningKind as Kind;
        match kind {
            Kind::Keeping => Self::Keeping,
            Kind::Reading => Self::Reading,
            Kind::Corruption => Self::Corruption,
            Kind::Limits => Self::Limits,
            Kind::Locks => Self::Locks,
            Kind::Remote => Self::Remote,
            _ => Self::Store,
        }
    }
}

impl WarningLog {
    pub(crate) fn new(observer: Option<Arc<Observer>>, backend: Arc<BackendWarnings>) -> Self {
        Self { logged: Mutex::default(), observer, backend }
    }

    /// Reports what the backend warned of before this build.
    pub(crate) fn warn_pending(&self) {
        let pending = std::mem::take(&mut self.backend.state().pending);
        self.warn_each(WarningKind::Backend, &pending);
    }

    /// Reports each of `texts`: they have one cause, and each is to be mended by itself.
    pub(crate) fn warn_each(&self, kind: WarningKind, texts: &[String]) {
        for text in texts {
            self.push(self.logged.lock().unwrap_or_else(PoisonError::into_inner), kind, text);
        }
    }

    /// Reports `text`, unless a warning of this kind was reported before; then it is counted.
    pub(crate) fn warn_once(&self, kind: WarningKind, text: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = logged.iter_mut().find(|known| known.kind == kind) {
            known.more += usize::from(known.first != text);
            return;
        }
        self.push(logged, kind, text);
    }

    /// Adds a warning. `logged` is locked since it was looked into: two threads may have the same to report.
    fn push(&self, mut logged: MutexGuard<'_, Vec<Warning>>, kind: WarningKind, text: &str) {
        logged.push(Warning { kind, first: text.to_owned(), more: 0 });
        drop(logged);
        if let Some(observer) = &self.observer {
            observer(Event::Warning { text });
        }
    }

    /// All warnings.
    pub(crate) fn texts(&self) -> Vec<String> {
        let logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |warning: &Warning| match warning.more {
            0 => warning.first.clone(),
            more => format!("{} (and {more} more like it)", warning.first),
        };
        logged.iter().map(line).collect()
    }
}
