//! The head of an entry: its fixed fields and the table of its members, without what the members hold.

use std::io;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use super::cursor::Cursor;
use super::prefix::{MAX_MEMBERS, Prefix};
use crate::corruption::Corruption;

const EAGER: u8 = 1;

/// The head of an entry, whose bytes were checked: all that is known of the entry without the bytes of its members.
#[derive(Clone, Debug)]
pub struct EntryHead {
    /// The bytes of the file: the prefix at least.
    pub(super) bytes: Vec<u8>,
    pub(super) prefix: Prefix,
    pub(super) members: Vec<Member>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(super) name: Range<usize>,
    /// The place of the bytes in the file.
    pub(crate) body: Range<usize>,
    pub(super) digest: Digest,
    pub(super) eager: bool,
}

/// What the head of an entry states of a member.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MemberHead<'a> {
    /// The name.
    pub name: &'a str,
    /// The number of bytes.
    pub bytes: u64,
    /// The digest of the bytes.
    pub digest: &'a Digest,
    /// Whether every hit returns the member.
    pub is_eager: bool,
}

impl EntryHead {
    /// Returns the entry's key.
    pub fn key(&self) -> &Digest {
        &self.prefix.key
    }

    /// Returns the caller's validation stamp from [`EntryBuilder::new`](crate::EntryBuilder::new).
    pub fn validation(&self) -> u32 {
        self.prefix.validation_stamp
    }

    /// Returns the time at which the entry was created.
    pub fn created(&self) -> SystemTime {
        self.prefix.created
    }

    /// Returns the time that the creation of the entry took, from [`EntryBuilder::cost`](crate::EntryBuilder::cost); zero if
    /// unknown.
    pub fn cost(&self) -> Duration {
        self.prefix.cost
    }

    /// Returns the number of bytes of the whole entry.
    pub fn file_bytes(&self) -> u64 {
        self.prefix.file_bytes
    }

    /// Returns the digest of the member `name`.
    pub fn member_digest(&self, name: &str) -> Option<&Digest> {
        self.find(name).map(|member| &member.digest)
    }

    /// Returns the names of all members, in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.member_heads().map(|member| member.name)
    }

    /// Returns what the head states of each member, in file order.
    pub fn member_heads(&self) -> impl Iterator<Item = MemberHead<'_>> {
        self.members.iter().filter_map(|member| {
            let name = std::str::from_utf8(&self.bytes[member.name.clone()]).ok()?;
            let Member { body, digest, eager, .. } = member;
            Some(MemberHead { name, bytes: body.len() as u64, digest, is_eager: *eager })
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| &self.bytes[member.name.clone()] == name.as_bytes())
    }

    /// Returns `bytes` if they are those of `member`.
    pub(crate) fn checked<T: AsRef<[u8]>>(&self, member: &Member, bytes: T) -> Result<T, Corruption> {
        match Digest::of(bytes.as_ref()) {
            found if found == member.digest => Ok(bytes),
            found => Err(Corruption::MemberDigest {
                name: String::from_utf8_lossy(&self.bytes[member.name.clone()]).into_owned(),
                expected: member.digest,
                found,
            }),
        }
    }

    /// Reads the head of a file of `file_bytes` bytes, of which `read_start` reads up to a number of bytes. The bytes of the
    /// members are not checked.
    pub(crate) fn read(
        read_start: impl Fn(usize) -> io::Result<Vec<u8>>,
        file_bytes: u64,
        key: &Digest,
    ) -> io::Result<Result<Self, Corruption>> {
        Ok(Self::decode(Prefix::read_bytes(read_start, file_bytes)?, file_bytes, Some(key)))
    }

    /// Decodes and checks the head of a file of `file_bytes` bytes, of which `bytes` are the first.
    pub(super) fn decode(bytes: Vec<u8>, file_bytes: u64, key: Option<&Digest>) -> Result<Self, Corruption> {
        let mut cursor = Cursor::new(&bytes);
        let prefix = Prefix::decode(&mut cursor, file_bytes, key)?;
        let members = members(&mut cursor, &prefix)?;
        Ok(Self { bytes, prefix, members })
    }
}

impl Member {
    /// The byte of the table that states whether the member is eager.
    pub(super) fn flags(eager: bool) -> u8 {
        if eager { EAGER } else { 0 }
    }
}

/// Reads the member table. Eager members come first, and the members fill the file from the end of the prefix to the
/// end.
fn members(cursor: &mut Cursor<'_>, prefix: &Prefix) -> Result<Vec<Member>, Corruption> {
    let count = prefix.members;
    if count > MAX_MEMBERS {
        return Err(Corruption::Table { problem: "too many members" });
    }
    let file_bytes = usize::try_from(prefix.file_bytes).unwrap_or(usize::MAX);
    let mut members: Vec<Member> = Vec::with_capacity(count);
    let mut body = prefix.prefix_bytes;
    for _ in 0..count {
        let [flags, name_len] = cursor.take("member")?;
        let len = usize::try_from(cursor.u64("length of a member")?).unwrap_or(usize::MAX);
        let digest = Digest::from_bytes(cursor.take("digest of a member")?);
        let name = cursor.range(usize::from(name_len), "name of a member")?;
        let end = body.checked_add(len).filter(|end| *end <= file_bytes);
        let end = end.ok_or(Corruption::Table { problem: "a member ends behind the file" })?;
        let eager = flags & EAGER != 0;
        if eager && members.last().is_some_and(|last| !last.eager) {
            return Err(Corruption::Table { problem: "an eager member stands behind another" });
        }
        members.push(Member { name, body: body..end, digest, eager });
        body = end;
    }
    if body != file_bytes || cursor.at != prefix.prefix_bytes - Digest::LEN {
        return Err(Corruption::Table { problem: "bytes that belong to no member" });
    }
    Ok(members)
}
