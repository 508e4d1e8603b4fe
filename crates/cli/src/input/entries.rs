//! The content of the entries of a store, for reports.

use std::num::NonZeroUsize;

use opkeep::BuildError;
use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, map};
use opkeep_store::{Entry, Lookup, Miss, OpenEntry, TargetStore};

use crate::ui::text::counted;

/// What the heads of the entries of a target say.
#[derive(Debug)]
pub(crate) struct ReadHeads<T> {
    /// What was read, in no order.
    pub(crate) read: Vec<T>,
    pub(crate) unread: Unread,
}

/// The entries that exist, and could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// The number of entries, and of directories of entries.
    pub(crate) count: u64,
    /// Why one of them could not be read.
    why: Option<String>,
}

impl Unread {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.why = self.why.take().or(other.why);
    }

    fn one(why: String) -> Self {
        Self { count: 1, why: Some(why) }
    }

    /// Returns how many could not be read, and why, in a few words; `None` if all could be.
    pub(crate) fn problem(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        Some(format!("{} could not be read: {why}", counted(self.count, "entry")))
    }
}

/// Returns what `read` returns of each entry of a target, in no order. Entries that cannot be read are skipped. Neither
/// statistics nor last uses change.
pub(crate) fn read_entries<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&Entry) -> Option<T> + Sync,
) -> Vec<T> {
    let read = |key: &Digest| match target.peek(key) {
        Lookup::Hit(entry) => Ok(read(&entry)),
        Lookup::Miss(miss) => Err(miss),
    };
    read_keys(target, threads, cancel, read).0.read
}

/// Returns what `read` returns of the head of each entry of a target, and what could not be read. Damage in the members is not
/// found. An entry that is evicted meanwhile is none. Neither statistics nor last uses change.
///
/// # Errors
/// It was cancelled: an incomplete result would look like that of a smaller store.
pub(crate) fn read_heads<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&OpenEntry<'_>) -> Option<T> + Sync,
) -> Result<ReadHeads<T>, BuildError> {
    match read_keys(target, threads, cancel, |key| Ok(read(&target.open_entry(key)?))) {
        (_, true) => Err(BuildError::Cancelled),
        (heads, false) => Ok(heads),
    }
}

/// Returns what was read, and whether it was cancelled before the last entry.
fn read_keys<T: Send>(
    target: &TargetStore,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    read: impl Fn(&Digest) -> Result<Option<T>, Miss> + Sync,
) -> (ReadHeads<T>, bool) {
    let in_directory = |first: usize| {
        let mut heads = ReadHeads { read: Vec::new(), unread: Unread::default() };
        let keys = match target.list_keys(u8::try_from(first).unwrap_or(u8::MAX)) {
            Ok(keys) => keys,
            Err(error) => {
                heads.unread = Unread::one(error.to_string());
                return (heads, false);
            }
        };
        for key in keys {
            if cancel.is_cancelled() {
                return (heads, true);
            }
            match read(&key) {
                Ok(one) => heads.read.extend(one),
                Err(Miss::Absent) => {}
                Err(miss) => heads.unread.add(Unread::one(format!("{key}: {miss}"))),
            }
        }
        (heads, false)
    };
    let directories = usize::from(u8::MAX) + 1;
    let mapped = map(directories, threads, || cancel.is_cancelled(), in_directory);
    let mut all = ReadHeads { read: Vec::new(), unread: Unread::default() };
    let mut is_cancelled = mapped.is_cancelled;
    for (heads, stopped) in mapped.results {
        all.read.extend(heads.read);
        all.unread.add(heads.unread);
        is_cancelled |= stopped;
    }
    (all, is_cancelled)
}
