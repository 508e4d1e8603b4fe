//! The backends by the targets that they serve.

use std::fmt;
use std::sync::Arc;

use opkeep_descriptor::{BuildSpec, ResolvedSpec};

use crate::backend::Backend;
use crate::error::BackendError;

type Reader = dyn Fn(&BuildSpec) -> Result<ResolvedSpec, BackendError> + Send + Sync;
type Opener = dyn Fn(&str) -> Result<Arc<dyn Backend>, BackendError> + Send + Sync;

/// Backends by target: a value that the caller fills, so there is no global state and no backend is privileged.
#[derive(Default)]
pub struct Registry {
    entries: Vec<BackendEntry>,
}

/// A backend that a [`Registry`] can open.
pub struct BackendEntry {
    /// The backend's name.
    pub name: &'static str,
    /// One line for people.
    pub about: String,
    /// The targets it serves, for people: `cpu, cpu-native`.
    pub targets: String,
    serves: Box<dyn Fn(&str) -> bool + Send + Sync>,
    open: Box<Opener>,
    reads: Option<Box<Reader>>,
}

impl BackendEntry {
    /// A backend that serves the targets for which `serves` is true, and that `open` creates.
    pub fn new(
        name: &'static str,
        about: impl Into<String>,
        targets: impl Into<String>,
        serves: impl Fn(&str) -> bool + Send + Sync + 'static,
        open: impl Fn(&str) -> Result<Arc<dyn Backend>, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            about: about.into(),
            targets: targets.into(),
            serves: Box::new(serves),
            open: Box::new(open),
            reads: None,
        }
    }

    /// Sets the function that resolves the options of kernels which another program compiled, as
    /// [`resolve`](Backend::resolve) of the opened backend does, but without its toolchain. Only for backends that run
    /// such kernels.
    #[must_use]
    pub fn with_option_reader(
        mut self,
        reads: impl Fn(&BuildSpec) -> Result<ResolvedSpec, BackendError> + Send + Sync + 'static,
    ) -> Self {
        self.reads = Some(Box::new(reads));
        self
    }

    /// Opens the backend for `target`.
    ///
    /// # Errors
    /// That of the backend.
    pub fn open(&self, target: &str) -> Result<Arc<dyn Backend>, BackendError> {
        (self.open)(target)
    }
}

impl fmt::Debug for BackendEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendEntry")
            .field("name", &self.name)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a backend. Of two that serve a target, the first added wins.
    pub fn add(&mut self, entry: BackendEntry) -> &mut Self {
        self.entries.push(entry);
        self
    }

    /// The backends, in the order in which they were added.
    pub fn entries(&self) -> &[BackendEntry] {
        &self.entries
    }

    /// The resolved spec of a kernel that another program compiled by `spec`; `None` if no backend for the target runs such
    /// kernels. No backend is opened.
    pub fn resolve_foreign(&self, spec: &BuildSpec) -> Option<Result<ResolvedSpec, BackendError>> {
        let entry = self.entries.iter().find(|entry| (entry.serves)(&spec.target))?;
        entry.reads.as_ref().map(|resolve_foreign| resolve_foreign(spec))
    }

    /// Opens the backend that serves `target`.
    ///
    /// # Errors
    /// [`BackendError::UnknownTarget`], or that of the backend.
    pub fn open(&self, target: &str) -> Result<Arc<dyn Backend>, BackendError> {
        let entry = self.entries.iter().find(|entry| (entry.serves)(target));
        let entry = entry.ok_or_else(|| BackendError::UnknownTarget {
            target: target.to_owned(),
            known: self.entries.iter().map(|entry| entry.targets.as_str()).collect::<Vec<_>>().join(", "),
        })?;
        entry.open(target)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.entries).finish()
    }
}
