//! What came of a repair.

use std::path::PathBuf;

use opkeep_framework_cache::fill::FillReport;
use opkeep_framework_cache::quarantine::{QuarantineReport, RepairError};
use opkeep_framework_cache::scan::{CacheScan, RankComparison};

use crate::ui::output::Verdict;
use crate::ui::text::Text;

/// What was repaired, for people and for programs.
pub(crate) struct Repaired<T> {
    pub(crate) text: Text,
    pub(crate) json: T,
    pub(crate) verdict: Verdict,
}

/// Folders that could not be looked into, and why.
pub(crate) type Closed = Vec<(PathBuf, String)>;

/// What came of one cache.
pub(crate) struct RepairedCache {
    pub(crate) scan: CacheScan,
    pub(crate) aside: Result<QuarantineReport, RepairError>,
}

impl RepairedCache {
    /// How much is not in order.
    pub(crate) fn left(&self) -> usize {
        let closed = self.scan.unreadable_dirs.len();
        closed + self.aside.as_ref().map_or(1, |aside| aside.skipped.len())
    }
}

/// What came of all.
pub(crate) struct Repairs {
    /// What was named.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) caches: Vec<RepairedCache>,
    /// What could not be looked into.
    pub(crate) closed: Closed,
    pub(crate) filled: Option<FillReport>,
    /// The ranks side by side, if none is filled: those that lack kernels compile them while others wait.
    pub(crate) ranks: Vec<RankComparison>,
    pub(crate) dry_run: bool,
}
