//! The warnings of a build.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opkeep_backend::Diagnostics;

use crate::event::{Event, Observer};
use crate::warning::{Warning, WarningKind};

/// The warnings of a build, one of each kind: a network of four hundred operators on a full disk has one problem, not
/// four hundred.
///
/// The observer gets no warning before [`report`](Self::report) is called: the observer may call the engine, which
/// cannot answer while it opens its runtime.
pub(crate) struct WarningLog {
    logged: Mutex<Records>,
    observer: Option<Arc<Observer>>,
    backend: Arc<BackendWarnings>,
}

#[derive(Default)]
struct Records {
    /// The warnings, each with the number of further warnings of the same kind.
    warnings: Vec<(Warning, usize)>,
    /// Whether each warning is reported when it is added.
    is_reporting: bool,
}

/// The warnings of a backend. Each text is reported once by all builds of an engine.
#[derive(Default)]
pub(crate) struct BackendWarnings {
    state: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    known: BTreeSet<String>,
    /// The warnings of calls outside of a build, which the next build reports.
    pending: Vec<String>,
}

impl BackendWarnings {
    fn state(&self) -> MutexGuard<'_, Texts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the warnings of a backend outside of a build.
impl Diagnostics for BackendWarnings {
    fn warn(&self, text: String) {
        let mut state = self.state();
        if state.known.insert(text.clone()) {
            state.pending.push(text);
        }
    }
}

/// Reports the warnings of a backend during a build.
impl Diagnostics for WarningLog {
    fn warn(&self, text: String) {
        if self.backend.state().known.insert(text.clone()) {
            self.warn_each(WarningKind::Backend, &[text]);
        }
    }
}

impl WarningLog {
    pub(crate) fn new(observer: Option<Arc<Observer>>, backend: Arc<BackendWarnings>) -> Self {
        Self { logged: Mutex::default(), observer, backend }
    }

    /// Reports all warnings to the observer: the existing ones now, and each later one when it is added.
    pub(crate) fn report(&self) {
        let mut logged = self.logged();
        logged.is_reporting = true;
        let so_far: Vec<Warning> = logged.warnings.iter().map(|(warning, _)| warning.clone()).collect();
        drop(logged);
        so_far.iter().for_each(|warning| self.notify(warning.kind, &warning.text));
    }

    /// Reports the warnings that the backend emitted before this build.
    pub(crate) fn warn_pending(&self) {
        let pending = std::mem::take(&mut self.backend.state().pending);
        self.warn_each(WarningKind::Backend, &pending);
    }

    /// Reports each of `texts`, although they are of one kind: each needs a fix of its own.
    pub(crate) fn warn_each(&self, kind: WarningKind, texts: &[String]) {
        for text in texts {
            self.push(self.logged(), kind, text);
        }
    }

    /// Reports `text`, unless a warning of this kind was reported before; in that case it is only counted.
    pub(crate) fn warn_once(&self, kind: WarningKind, text: &str) {
        let mut logged = self.logged();
        if let Some((known, more)) = logged.warnings.iter_mut().find(|(known, _)| known.kind == kind) {
            *more += usize::from(known.text != text);
            return;
        }
        self.push(logged, kind, text);
    }

    /// Adds a warning. The caller holds `logged` locked from the search on, since two threads may report the same
    /// warning.
    fn push(&self, mut logged: MutexGuard<'_, Records>, kind: WarningKind, text: &str) {
        logged.warnings.push((Warning { kind, text: text.to_owned() }, 0));
        let is_reporting = logged.is_reporting;
        drop(logged);
        if is_reporting {
            self.notify(kind, text);
        }
    }

    fn notify(&self, kind: WarningKind, text: &str) {
        opkeep_trace::debug!("warning", text = text);
        if let Some(observer) = &self.observer {
            observer(Event::Warning { kind, text });
        }
    }

    /// Returns all warnings, with the numbers of further ones of the same kind.
    pub(crate) fn all(&self) -> Vec<Warning> {
        let warning = |(warning, more): &(Warning, usize)| match more {
            0 => warning.clone(),
            more => Warning { text: format!("{warning} (and {more} more like it)"), ..warning.clone() },
        };
        self.logged().warnings.iter().map(warning).collect()
    }

    /// The records. A panic elsewhere leaves them consistent.
    fn logged(&self) -> MutexGuard<'_, Records> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
