//! Caches that are to be filled.

use crate::quarantine::QuarantinedItem;
use crate::scan::CacheScan;

/// A cache that was surveyed.
#[derive(Clone, Copy, Debug)]
pub struct ScannedCache<'a> {
    /// What is in it.
    pub scan: &'a CacheScan,
    /// What of that was set aside since, or would be.
    pub moved: &'a [QuarantinedItem],
}
