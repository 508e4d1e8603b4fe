//! Caches that are to be filled.

use crate::quarantine::Moved;
use crate::scan::Survey;

/// A cache that was surveyed.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'a> {
    /// What is in it.
    pub survey: &'a Survey,
    /// What of that was set aside since, or would be.
    pub moved: &'a [Moved],
}
