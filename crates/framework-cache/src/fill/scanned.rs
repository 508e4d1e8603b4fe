//! The input of a fill: scanned caches.

use crate::quarantine::QuarantinedItem;
use crate::scan::CacheScan;

/// A scanned cache, and the changes since the scan.
#[derive(Clone, Copy, Debug)]
pub struct ScannedCache<'a> {
    /// The result of the scan.
    pub scan: &'a CacheScan,
    /// The items that were quarantined since the scan; in a dry run, those that would be.
    pub moved: &'a [QuarantinedItem],
}
