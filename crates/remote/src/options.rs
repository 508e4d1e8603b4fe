//! What engines need besides their URLs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What an engine needs besides its URL.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Returns a variable of the environment, such as `AWS_ACCESS_KEY_ID`. `None`: there are no variables.
    pub variable: Option<Arc<Variable>>,
    /// A file of PEM certificates, whose authorities are trusted for TLS instead of the system's.
    pub authorities: Option<PathBuf>,
}

/// Returns the value of a variable of the environment.
pub type Variable = dyn Fn(&str) -> Option<String> + Send + Sync;

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}
