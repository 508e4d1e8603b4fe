//! The caches to fill.

use crate::quarantine::QuarantinedItem;
use crate::scan::CacheScan;

/// A scanned cache.
#[derive(Clone, Copy, Debug)]
pub struct ScannedCache<'a> {
    /// Its content.
    pub scan: &'a CacheScan,
    /// The items that were quarantined since, or would be.
    pub moved: &'a [QuarantinedItem],
}
