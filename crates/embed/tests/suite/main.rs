//! The tests of the crate that need no process of their own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests damage files as other programs do"))]

#[cfg(test)]
mod copies;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod tickets;

use opkeep_embed::{FileCache, FileCacheConfig, GroupClaim, GroupTicket, StoreConfig, TargetFiles};

/// A cache in a directory of its own.
fn cache(dir: &tempfile::TempDir) -> TargetFiles {
    let config = FileCacheConfig::new(StoreConfig::new(dir.path().join("store")), "test");
    FileCache::open(config).unwrap().target("cuda-sm_90").unwrap()
}

fn ticket(claim: GroupClaim) -> GroupTicket {
    match claim {
        GroupClaim::Begin(ticket) => ticket,
        other => panic!("expected a ticket: {other:?}"),
    }
}
