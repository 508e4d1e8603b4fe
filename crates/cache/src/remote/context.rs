//! The limits of a call to an engine.

use std::fmt;
use std::time::Instant;

use opkeep_fs::CancelToken;

/// The limits of a call to an engine.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RemoteContext<'a> {
    /// The time by which the call must return.
    pub deadline: Instant,
    /// A token that ends the call early, if the caller can be cancelled. The client checks it a few times a second.
    pub cancel: Option<&'a CancelToken>,
}

impl<'a> RemoteContext<'a> {
    /// Creates the limits of a call that may take until `deadline`.
    pub fn new(deadline: Instant, cancel: Option<&'a CancelToken>) -> Self {
        Self { deadline, cancel }
    }
}

impl fmt::Debug for RemoteContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteContext").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
