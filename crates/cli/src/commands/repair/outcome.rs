//! The outcome of a repair.

use std::fmt;
use std::path::PathBuf;

use opkeep_framework_cache::fill::{FillReport, UnfilledKernel, UnfilledReason};
use opkeep_framework_cache::quarantine::{QuarantineReport, RepairError};
use opkeep_framework_cache::scan::{CacheScan, RankComparison};

use super::triton::RepairedTriton;
use crate::ui::output::ExitStatus;
use crate::ui::text::{Text, counted};

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
    /// The comparison before ranks were filled.
    pub(crate) ranks_before_fill: Vec<RankComparison>,
    pub(crate) dry_run: bool,
}

/// How many kernels, and how many ranks for reasons of their own, could not be filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unfilled {
    pub(crate) kernels: usize,
    pub(crate) ranks: usize,
}

impl Unfilled {
    pub(crate) fn of(unfilled: &[UnfilledKernel]) -> Self {
        let mut sum = Self::default();
        for UnfilledKernel { kernel, reason, .. } in unfilled {
            match (reason, kernel) {
                (UnfilledReason::OtherNames { count, .. }, _) => sum.kernels += count,
                (UnfilledReason::UnknownDevice { lacking, .. }, _) => {
                    sum.kernels += usize::try_from(*lacking).unwrap_or(usize::MAX);
                }
                (_, Some(_)) => sum.kernels += 1,
                (_, None) => sum.ranks += 1,
            }
        }
        sum
    }
}

impl fmt::Display for Unfilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.kernels, "kernel"), (self.ranks, "rank")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        f.write_str(&counts.map(|(count, what)| counted(count, what)).collect::<Vec<_>>().join(" and "))
    }
}
