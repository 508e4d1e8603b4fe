//! The arguments of `opkeep gc`.

use std::path::PathBuf;
use std::time::Duration;

use crate::flags::store::StoreArgs;
use crate::flags::target_filter::TargetFilter;

/// The details of gc.
const DETAILS: &str = "\
Limits of each target's directory in the store:
  op_cache.ini
    in the store's directory: max_op_cache_size (MB, or -1 for no limit) and remain_cache_size_ratio (percent
    that is left after an eviction); counts only if both are valid, and then instead of the variables
  ASCEND_MAX_OP_CACHE_SIZE, ASCEND_REMAIN_CACHE_SIZE_RATIO
    the same from the environment [default: 500 and 50]
  OPKEEP_MAX_CACHE_ENTRIES
    a limit on the number of kernels [default: none]

Kernels that were used in the last half hour stay, whatever the limits, unless --older-than is less.

With DIR, kernels in CANN's own cache are evicted by CANN's limits: op_cache.ini in kernel_cache, if
unset the two variables, if unset 500 and 50; -1: no kernel is deleted. First go the files that CANN
counts and never deletes: objects without their .json, .json without their object, .temp, stale
.lock, then _pre.json whose kernel is missing; then, if that is not enough, kernels, the longest
unused first. Files that were used in the last half hour, are open or locked, or are not CANN's
always stay. Sizes in an op_cache.ini without adk_version and ops_version count here, although CANN
ignores them.

Exit code 1: something could not be deleted or read, or no target of the store has the name of
--target; 2: there is no such cache.

Examples:
  opkeep gc --dry-run
    reports what the limits would evict
  opkeep gc --max-size 2G --older-than 30d
    evicts from the store
  opkeep gc ~/atc_data/kernel_cache
    evicts from CANN's own cache";

/// Evict the longest unused kernels, down to the limits, and delete stale files
///
/// Of the store, or of CANN's kernel_cache.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// CANN's kernel_cache, a chip's directory in it, or a directory above
    ///
    /// [default: the store that builds use]
    #[arg(value_name = "DIR", conflicts_with_all = ["cache_dir", "target"])]
    pub(crate) dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) target: TargetFilter,
    /// Report what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The size that may remain of each target, instead of the limits: 300M, 2G
    ///
    /// The letters K, M and G are powers of 1024; without one it is a number of bytes.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    /// Delete kernels that were not used for this long: 30d, 12h, 45m, 10s
    ///
    /// Even within the limits.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
}

/// Parses a size such as `300M`; the letters are powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
        Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.ok_or_else(|| {
        "expected bytes, or a whole number with K, M or G, which are powers of 1024".to_owned()
    })
}

/// Parses an age such as `30d`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let expected = || "expected a whole number with d, h, m or s".to_owned();
    let (at, unit) = text.char_indices().last().ok_or_else(expected)?;
    let seconds = match unit {
        'd' => 24 * 60 * 60,
        'h' => 60 * 60,
        'm' => 60,
        's' => 1,
        _ => return Err(expected()),
    };
    let age = text[..at].parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    age.map(Duration::from_secs).ok_or_else(expected)
}
