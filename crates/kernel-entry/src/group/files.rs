//! The files of a group.

use opkeep_artifact::{Artifact, Member};
use opkeep_digest::Digest;
use opkeep_store::{Entry, EntryHead, MemberHead};

use crate::group::record::GroupRecord;
use crate::member::EXTRA_PREFIX;

/// The largest number of files in a group: an entry has 64 members, of which some hold no file.
pub const MAX_GROUP_FILES: usize = 60;

/// What the head of an entry states of the files of its group, in the order in which they were published. An entry that holds no
/// group has no files.
pub fn group_file_heads(entry: &EntryHead) -> impl Iterator<Item = MemberHead<'_>> {
    let is_group = GroupRecord::is_in(entry);
    entry.member_heads().filter(move |member| is_group && member.is_eager).filter_map(|mut member| {
        member.name = member.name.strip_prefix(EXTRA_PREFIX)?;
        Some(member)
    })
}

/// The files of the group in an entry, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct GroupFiles<'a>(&'a Entry);

impl<'a> GroupFiles<'a> {
    /// The files of the group in `entry`. An entry that holds no group has none.
    pub fn of(entry: &'a Entry) -> Self {
        Self(entry)
    }

    /// The names of the files, in the order in which they were published.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        group_file_heads(self.0).map(|file| file.name)
    }

    /// The bytes of a file, whose digest was checked when the entry was read.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.0.member(&format!("{EXTRA_PREFIX}{name}")).filter(|_| GroupRecord::is_in(self.0))
    }

    /// The digest of a file.
    pub fn digest(self, name: &str) -> Option<&'a Digest> {
        self.0.member_digest(&format!("{EXTRA_PREFIX}{name}")).filter(|_| GroupRecord::is_in(self.0))
    }

    /// The names and the bytes of the files, in the order in which they were published.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.names().filter_map(move |name| Some((name, self.get(name)?)))
    }

    /// The kernel among the files, copied, as the validator judges it. `None` if the record names no object, or if a file
    /// that it names is missing.
    pub fn artifact(self, record: &GroupRecord) -> Option<Artifact> {
        let object = self.get(record.object.as_deref()?)?.to_vec();
        let metadata = match &record.metadata {
            Some(name) => self.get(name)?.to_vec(),
            None => Vec::new(),
        };
        let is_pair =
            |name: &str| record.object.as_deref() == Some(name) || record.metadata.as_deref() == Some(name);
        let others = self.iter().filter(|(name, _)| !is_pair(name));
        let extra = others.map(|(name, bytes)| Member { name: name.to_owned(), bytes: bytes.to_vec() });
        Some(Artifact { metadata, object, extra: extra.collect() })
    }
}
