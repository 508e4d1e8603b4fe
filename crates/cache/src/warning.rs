//! Warnings: problems that fail no build.

use std::fmt;
use std::sync::Arc;

/// The subject of a warning. A caller may report only the first warning of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// The local store cannot be used at all.
    Store,
    /// Entries cannot be written.
    Keeping,
    /// Entries cannot be read, or are not trusted.
    Reading,
    /// An entry is damaged.
    Corruption,
    /// A limit of the store is not valid and is ignored.
    Limits,
    /// Locks cannot be taken.
    Locks,
    /// The keys that sign entries do not fit those that are trusted, or the host key cannot be kept.
    Keys,
    /// The remote tier does not work as it should.
    Remote,
}

/// A function that is called with the kind and the text of each warning, on the thread on which the problem occurs.
pub type OnWarning = Arc<dyn Fn(WarningKind, &str) + Send + Sync>;

/// Calls the caller's function for each warning.
#[derive(Clone, Default)]
pub(crate) struct Warnings(pub(crate) Option<OnWarning>);

impl Warnings {
    pub(crate) fn warn(&self, kind: WarningKind, text: impl fmt::Display) {
        if let Some(on_warning) = &self.0 {
            on_warning(kind, &text.to_string());
        }
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Warnings").field(&self.0.is_some()).finish()
    }
}
