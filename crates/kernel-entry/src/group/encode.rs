//! The encoding of a group as an entry.

use opkeep_digest::Digest;
use opkeep_store::EntryBuilder;

use crate::expectations::StoredExpectations;
use crate::group::record::GroupRecord;
use crate::member::{EXPECTATIONS, EXTRA_PREFIX, GROUP};

/// A group with rendered members, ready to be written.
#[derive(Debug)]
pub struct EncodedGroup<'a> {
    files: Vec<(String, &'a [u8])>,
    record: String,
    key: Digest,
    expectations: Option<&'a StoredExpectations>,
    stamp: u32,
    cost: std::time::Duration,
}

/// Renders the entry of a group. `stamp` is the validation stamp of a group without expectations.
pub fn encode_group<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    record: &GroupRecord,
    expectations: Option<&'a StoredExpectations>,
    stamp: u32,
) -> EncodedGroup<'a> {
    let key = record.key.digest();
    let member = |(name, bytes): (&str, &'a [u8])| (format!("{EXTRA_PREFIX}{name}"), bytes);
    EncodedGroup {
        files: files.into_iter().map(member).collect(),
        record: record.render(&key),
        key,
        expectations,
        stamp: expectations.map_or(stamp, StoredExpectations::stamp),
        cost: record.compile_time.unwrap_or_default(),
    }
}

impl EncodedGroup<'_> {
    /// The key of the entry.
    pub fn key(&self) -> &Digest {
        &self.key
    }

    /// The entry for the store.
    pub fn builder(&self) -> EntryBuilder<'_> {
        let mut entry = EntryBuilder::new(self.stamp).cost(self.cost);
        for (name, bytes) in &self.files {
            entry = entry.eager(name, bytes);
        }
        entry = entry.lazy(GROUP, self.record.as_bytes());
        match self.expectations {
            Some(expectations) => entry.lazy(EXPECTATIONS, expectations.encoded()),
            None => entry,
        }
    }
}
