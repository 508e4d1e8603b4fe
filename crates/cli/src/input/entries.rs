//! The content of the entries of a store, for reports.

use std::num::NonZeroUsize;

use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, map};
use opkeep_store::{Entry, Lookup, OpenEntry, TargetStore};

/// Returns what `read` returns of each entry of a target, in no order. Entries that cannot be read are skipped. Neither
/// statistics nor last uses change.
pub(crate) fn read_entries<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&Entry) -> Option<T> + Sync,
) -> Vec<T> {
    read_keys(target, threads, cancel, |key| match target.peek(key) {
        Lookup::Hit(entry) => read(&entry),
        Lookup::Miss(_) => None,
    })
}

/// Does the same with the heads of the entries. Damage in the members is not found.
pub(crate) fn read_heads<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&OpenEntry<'_>) -> Option<T> + Sync,
) -> Vec<T> {
    read_keys(target, threads, cancel, |key| read(&target.open_entry(key).ok()?))
}

fn read_keys<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&Digest) -> Option<T> + Sync,
) -> Vec<T> {
    let in_directory = |first: usize| -> Vec<T> {
        let keys = target.keys_from(u8::try_from(first).unwrap_or(u8::MAX));
        keys.into_iter().take_while(|_| !cancel.is_cancelled()).filter_map(|key| read(&key)).collect()
    };
    let directories = usize::from(u8::MAX) + 1;
    map(directories, threads, || cancel.is_cancelled(), in_directory).results.into_iter().flatten().collect()
}
