//! The outcome of a repair.

use std::path::PathBuf;

use opkeep_framework_cache::fill::FillReport;
use opkeep_framework_cache::quarantine::{QuarantineReport, RepairError};
use opkeep_framework_cache::scan::{CacheScan, RankComparison};

use super::triton::RepairedTriton;
use crate::ui::output::ExitStatus;
use crate::ui::text::Text;

/// The outcome of a repair, as text and as JSON.
pub(crate) struct Repaired<T> {
    pub(crate) text: Text,
    pub(crate) json: T,
    pub(crate) exit_status: ExitStatus,
}

/// Unreadable directories, with the errors.
pub(crate) type UnreadableDirs = Vec<(PathBuf, String)>;

/// The repair of one cache.
pub(crate) struct RepairedCache {
    pub(crate) scan: CacheScan,
    pub(crate) quarantine: Result<QuarantineReport, RepairError>,
}

impl RepairedCache {
    /// Returns the number of remaining problems.
    pub(crate) fn left(&self) -> usize {
        let unreadable = self.scan.unreadable_dirs.len();
        unreadable + self.quarantine.as_ref().map_or(1, |quarantine| quarantine.skipped.len())
    }
}

/// The repair of all caches.
pub(crate) struct Repairs {
    /// The paths in the arguments.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) caches: Vec<RepairedCache>,
    pub(crate) triton: Vec<RepairedTriton>,
    pub(crate) unreadable_dirs: UnreadableDirs,
    pub(crate) filled: Option<FillReport>,
    /// A comparison of the ranks, if no rank is filled: ranks that lack kernels compile them while others wait.
    pub(crate) ranks: Vec<RankComparison>,
    pub(crate) dry_run: bool,
}
