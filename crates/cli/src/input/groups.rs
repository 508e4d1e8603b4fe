//! The groups of files that frameworks keep in a store.

use std::num::NonZeroUsize;

use opkeep_framework_cache::triton::StoredGroup;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::GroupRecord;
use opkeep_store::{Entry, Store};

use crate::input::entries::read_entries;
use crate::input::store::target_stores;

/// Returns the groups of a store that `is_wanted` accepts, in no order; of `target` only, if given.
pub(crate) fn stored_groups(
    store: &Store,
    target: Option<&str>,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    is_wanted: impl Fn(&GroupRecord) -> bool + Sync,
) -> anyhow::Result<Vec<StoredGroup>> {
    let mut groups = Vec::new();
    let read = |entry: &Entry| StoredGroup::of(entry).filter(|group| is_wanted(&group.record));
    for (name, store) in target_stores(store)? {
        if target.is_none_or(|target| target == name) {
            groups.extend(read_entries(&store, threads, cancel, read));
        }
    }
    Ok(groups)
}
