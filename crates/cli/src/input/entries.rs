//! The content of the entries of a store, for reports.

use std::num::NonZeroUsize;

use opkeep_fs::{CancelToken, map};
use opkeep_store::{Entry, Lookup, TargetStore};

/// Returns what `read` returns of each entry of a target, in no order. Entries that cannot be read are skipped. Neither
/// statistics nor last uses change.
pub(crate) fn read_entries<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&Entry) -> Option<T> + Sync,
) -> Vec<T> {
    let read_one = |key| match target.peek(&key) {
        Lookup::Hit(entry) => read(&entry),
        Lookup::Miss(_) => None,
    };
    let in_directory = |first: usize| -> Vec<T> {
        let keys = target.keys_from(u8::try_from(first).unwrap_or(u8::MAX));
        keys.into_iter().take_while(|_| !cancel.is_cancelled()).filter_map(read_one).collect()
    };
    let directories = usize::from(u8::MAX) + 1;
    map(directories, threads, || cancel.is_cancelled(), in_directory).results.into_iter().flatten().collect()
}
