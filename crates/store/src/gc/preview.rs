//! What eviction deletes next: the order in which it would take entries, without deleting any.

use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::inventory::FileTotals;

/// What eviction would delete next.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EvictionPreview {
    /// Whether a limit is exceeded now, so that the next eviction deletes entries.
    pub is_over: bool,
    /// The entries that eviction may delete: those idle for half an hour.
    pub idle: FileTotals,
    /// The first entries of them that eviction would delete, in its order.
    pub next: Vec<NextEviction>,
}

/// An entry that eviction would delete.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NextEviction {
    /// The key.
    pub key: Digest,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The time of the last use.
    pub last_used: SystemTime,
    /// The time that it took to create the entry, if it is known.
    pub cost: Option<Duration>,
}
