//! The prefix of an entry: fixed fields and the member table, with a digest.

use std::io;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use super::cursor::Cursor;
use crate::corruption::Corruption;

pub(crate) const MAGIC: &[u8; 8] = b"OPKKERN\0";
/// The version of the format of entries. Entries of another format are not read.
pub const ENTRY_FORMAT: u32 = 2;
/// The maximum number of members in a prefix.
pub(crate) const MAX_MEMBERS: usize = 64;
/// The number of bytes before the member table.
pub(crate) const FIXED: usize = 8 + 4 + 4 + 32 + 8 + 8 + 8 + 4 + 4 + 8;
/// The number of bytes of a row of the member table, without the name.
pub(crate) const MEMBER: usize = 1 + 1 + 8 + 32;
const LONGEST: usize = FIXED + MAX_MEMBERS * (MEMBER + 255) + Digest::LEN;
/// A length that the prefix of most entries does not exceed.
const USUAL: usize = 1024;

/// The part of a prefix that every entry has, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The number of bytes of the prefix, with the digest.
    pub(crate) prefix_bytes: usize,
    pub(crate) key: Digest,
    pub(crate) file_bytes: u64,
    pub(crate) created: SystemTime,
    pub(crate) cost: Duration,
    pub(crate) validation_stamp: u32,
    pub(crate) members: usize,
    /// The checksum of all bytes after the eager members.
    pub(crate) rest_sum: u64,
}

impl Prefix {
    /// Appends the fixed fields to `file`; the table and the digest follow them.
    pub(crate) fn encode(&self, file: &mut Vec<u8>) {
        let created = self.created.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        file.extend(MAGIC);
        file.extend(ENTRY_FORMAT.to_le_bytes());
        file.extend((self.prefix_bytes as u32).to_le_bytes());
        file.extend(self.key.as_bytes());
        file.extend(self.file_bytes.to_le_bytes());
        file.extend((created.as_nanos() as u64).to_le_bytes());
        file.extend(u64::try_from(self.cost.as_micros()).unwrap_or(u64::MAX).to_le_bytes());
        file.extend(self.validation_stamp.to_le_bytes());
        file.extend((self.members as u32).to_le_bytes());
        file.extend(self.rest_sum.to_le_bytes());
    }

    /// Decodes and checks the prefix of a file of `file_bytes` bytes, of which `cursor` has the first ones. `key`
    /// is the requested key, or `None` to accept any. The cursor is then at the table.
    ///
    /// # Errors
    /// The first check that fails.
    pub(super) fn decode(
        cursor: &mut Cursor<'_>,
        file_bytes: u64,
        key: Option<&Digest>,
    ) -> Result<Self, Corruption> {
        let prefix_bytes = prefix_length(cursor)?;
        let start = cursor.bytes;
        if prefix_bytes < FIXED + Digest::LEN || prefix_bytes > start.len() {
            return Err(Corruption::WrongLength {
                what: "prefix",
                expected: prefix_bytes as u64,
                found: start.len() as u64,
            });
        }
        let (head, stored) = start[..prefix_bytes].split_at(prefix_bytes - Digest::LEN);
        let found = Digest::of(head);
        if found.as_bytes() != stored {
            return Err(Corruption::PrefixDigest { found });
        }

        // The prefix is valid from here on; it may still belong to another entry.
        let own = Digest::from_bytes(cursor.take("key")?);
        if let Some(key) = key.filter(|key| **key != own) {
            return Err(Corruption::WrongKey { expected: *key, found: own });
        }
        let length = cursor.u64("length of the file")?;
        if length != file_bytes {
            return Err(Corruption::WrongLength { what: "file", expected: length, found: file_bytes });
        }
        Ok(Self {
            prefix_bytes,
            key: own,
            file_bytes,
            created: SystemTime::UNIX_EPOCH + Duration::from_nanos(cursor.u64("creation time")?),
            cost: Duration::from_micros(cursor.u64("cost")?),
            validation_stamp: cursor.u32("validation stamp")?,
            members: cursor.u32("number of members")? as usize,
            rest_sum: cursor.u64("checksum")?,
        })
    }

    /// Reads only the prefix of a file, as [`EntryHead::read`](super::EntryHead::read) does, and does not decode the table.
    pub(crate) fn read(
        read_start: impl Fn(usize) -> io::Result<Vec<u8>>,
        file_bytes: u64,
        key: &Digest,
    ) -> io::Result<Result<Self, Corruption>> {
        let start = Self::read_bytes(read_start, file_bytes)?;
        Ok(Self::decode(&mut Cursor::new(&start), file_bytes, Some(key)))
    }

    /// Reads the bytes of the prefix, and perhaps some more.
    pub(super) fn read_bytes(
        read_start: impl Fn(usize) -> io::Result<Vec<u8>>,
        file_bytes: u64,
    ) -> io::Result<Vec<u8>> {
        let at_most = |bytes: usize| usize::try_from(file_bytes).unwrap_or(usize::MAX).min(bytes);
        let mut start = read_start(at_most(USUAL))?;
        let longer = |prefix: &usize| (USUAL + 1..=LONGEST).contains(prefix);
        if let Some(prefix) = prefix_length(&mut Cursor::new(&start)).ok().filter(longer) {
            start = read_start(at_most(prefix))?;
        }
        Ok(start)
    }
}

/// Checks magic and format; returns the length of the prefix.
fn prefix_length(cursor: &mut Cursor<'_>) -> Result<usize, Corruption> {
    let magic = cursor.take::<8>("magic")?;
    if &magic != MAGIC {
        return Err(Corruption::Magic { found: magic });
    }
    let format = cursor.u32("format")?;
    if format != ENTRY_FORMAT {
        return Err(Corruption::Format { expected: ENTRY_FORMAT, found: format });
    }
    cursor.u32("length of the prefix").map(|bytes| bytes as usize)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests write entries")]
mod tests {
    use std::fs::{self, File};

    use opkeep_fs::RootedFs;

    use super::*;
    use crate::EntryBuilder;

    const COST: Duration = Duration::from_micros(7_000_001);

    /// Reads only the prefix of a file with these bytes.
    fn read(bytes: &[u8], key: &Digest) -> Result<Prefix, Corruption> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("entry");
        fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        let read_start = |limit| RootedFs::default().read_start(&file, &path, limit);
        Prefix::read(read_start, bytes.len() as u64, key).unwrap()
    }

    #[test]
    fn a_prefix_is_read_alone_however_long_it_is() {
        let key = Digest::of(b"key");
        let long = "n".repeat(255);
        for members in [0, 1, 9, 64] {
            let entry =
                (0..members).fold(EntryBuilder::new(3).cost(COST), |entry, _| entry.eager(&long, &[7; 3000]));
            let file = entry.encode(&key).unwrap();
            let prefix = read(&file, &key).unwrap();
            assert_eq!((prefix.cost, prefix.members, prefix.key), (COST, members, key));
            // Bytes after the prefix do not matter; damage in it is found.
            let mut bad = file.clone();
            bad[prefix.prefix_bytes..].fill(0);
            assert_eq!(read(&bad, &key).unwrap(), prefix);
            for at in (0..prefix.prefix_bytes).step_by(61) {
                let mut bad = file.clone();
                bad[at] ^= 4;
                assert!(read(&bad, &key).is_err(), "byte {at}");
            }
            assert!(read(&file[..file.len() - 1], &key).is_err());
            assert!(read(&file, &Digest::of(b"other")).is_err());
        }
        assert!(read(b"", &key).is_err());
        // A prefix with an impossible length is not read.
        let mut forged = EntryBuilder::new(3).encode(&key).unwrap();
        forged[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(read(&forged, &key), Err(Corruption::WrongLength { what: "prefix", .. })));
    }
}
