//! The format of an entry's file: encoding and decoding, without file access.

mod cursor;
mod head;
pub(crate) mod prefix;

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::checksum::checksum;
use crate::corruption::Corruption;
pub use head::{EntryHead, MemberHead};
pub use prefix::ENTRY_FORMAT;

use head::Member;
use prefix::{FIXED, MAX_MEMBERS, MEMBER, Prefix};

/// The maximum number of bytes of an entry that is written or read: 1 GiB.
pub const MAX_ENTRY_BYTES: u64 = 1 << 30;

/// An entry to store.
#[derive(Clone, Debug)]
pub struct EntryBuilder<'a> {
    validation: u32,
    created: SystemTime,
    cost: Duration,
    members: Vec<(&'a str, &'a [u8], bool)>,
}

impl<'a> EntryBuilder<'a> {
    /// Creates an entry without members, with the caller's validation stamp.
    pub fn new(validation: u32) -> Self {
        Self { validation, created: SystemTime::now(), cost: Duration::ZERO, members: Vec::new() }
    }

    /// Sets the time at which the entry was created. If unset, it is the time of [`new`](Self::new).
    #[must_use]
    pub fn created(mut self, created: SystemTime) -> Self {
        self.created = created;
        self
    }

    /// Sets the time that the creation of the entry took. If unset or zero, it is unknown. Of idle entries, cheap ones
    /// are evicted first; an entry of unknown cost counts as the most expensive of them.
    #[must_use]
    pub fn cost(mut self, cost: Duration) -> Self {
        self.cost = cost;
        self
    }

    /// Adds a member that every hit returns.
    #[must_use]
    pub fn eager(mut self, name: &'a str, bytes: &'a [u8]) -> Self {
        self.members.push((name, bytes, true));
        self
    }

    /// Adds a member that is only read on demand.
    #[must_use]
    pub fn lazy(mut self, name: &'a str, bytes: &'a [u8]) -> Self {
        self.members.push((name, bytes, false));
        self
    }

    /// Adds a lazy member, in place of members of the same name.
    #[must_use]
    pub fn with_lazy(mut self, name: &'a str, bytes: &'a [u8]) -> Self {
        self.members.retain(|(other, ..)| *other != name);
        self.lazy(name, bytes)
    }

    /// Returns the name and the bytes of each member, and whether it is eager.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a [u8], bool)> + '_ {
        self.members.iter().copied()
    }

    /// Sets the caller's validation stamp.
    #[must_use]
    pub fn with_validation(mut self, validation: u32) -> Self {
        self.validation = validation;
        self
    }

    /// Returns the caller's validation stamp.
    pub fn validation(&self) -> u32 {
        self.validation
    }

    /// Returns the error for an entry that [`encode`](Self::encode) rejects.
    pub(crate) fn too_large(&self) -> crate::StoreError {
        let bytes = self.members.iter().map(|(name, bytes, _)| (name.len() + bytes.len()) as u64).sum();
        crate::StoreError::TooLarge { members: self.members.len(), bytes }
    }

    /// Returns the bytes of the file. `None` if a bound is exceeded: 64 members, names of 1 to 255 bytes,
    /// [`MAX_ENTRY_BYTES`].
    pub fn encode(&self, key: &Digest) -> Option<Vec<u8>> {
        let names_fit = self.members.iter().all(|(name, ..)| (1..=255).contains(&name.len()));
        if self.members.len() > MAX_MEMBERS || !names_fit {
            return None;
        }
        let ordered = || {
            let eager = self.members.iter().filter(|(.., eager)| *eager);
            eager.chain(self.members.iter().filter(|(.., eager)| !*eager))
        };
        let names: usize = self.members.iter().map(|(name, ..)| name.len()).sum();
        let prefix = FIXED + MEMBER * self.members.len() + names + Digest::LEN;
        let body: usize = self.members.iter().map(|(_, bytes, _)| bytes.len()).sum();
        let length = prefix.checked_add(body).filter(|length| *length as u64 <= MAX_ENTRY_BYTES)?;

        // The members come first, since the prefix holds their checksum.
        let mut file = Vec::with_capacity(length);
        file.resize(prefix, 0);
        ordered().for_each(|(_, bytes, _)| file.extend_from_slice(bytes));
        let eager = self.members.iter().filter(|(.., eager)| *eager);
        let rest = prefix + eager.map(|(_, bytes, _)| bytes.len()).sum::<usize>();
        let fixed = Prefix {
            prefix_bytes: prefix,
            key: *key,
            file_bytes: length as u64,
            created: self.created,
            cost: self.cost,
            validation_stamp: self.validation,
            members: self.members.len(),
            rest_sum: checksum(&file[rest..]),
        };
        let mut head = Vec::with_capacity(prefix);
        fixed.encode(&mut head);
        for (name, bytes, eager) in ordered() {
            head.push(Member::flags(*eager));
            head.push(name.len() as u8);
            head.extend((bytes.len() as u64).to_le_bytes());
            head.extend(Digest::of(bytes).as_bytes());
            head.extend(name.as_bytes());
        }
        let digest = Digest::of(&head);
        head.extend(digest.as_bytes());
        file[..prefix].copy_from_slice(&head);
        Some(file)
    }
}

/// A stored entry, whose bytes were checked.
#[derive(Clone, Debug)]
pub struct Entry(EntryHead);

impl Deref for Entry {
    type Target = EntryHead;

    fn deref(&self) -> &EntryHead {
        &self.0
    }
}

impl Entry {
    /// Returns the eager member `name`, whose digest was checked when the entry was read.
    pub fn member(&self, name: &str) -> Option<&[u8]> {
        self.find(name).filter(|member| member.eager).map(|member| &self.bytes[member.body.clone()])
    }

    /// Returns any member. The digest of a member that is not eager is checked now.
    ///
    /// # Errors
    /// [`Corruption::MemberDigest`].
    pub fn lazy_member(&self, name: &str) -> Result<Option<&[u8]>, Corruption> {
        let checked = |member: &Member| self.checked(member, &self.bytes[member.body.clone()]);
        self.find(name).map(checked).transpose()
    }

    /// Returns a builder with the content of this entry, without the key. Lazy members are copied without a check of
    /// their digests: [`lazy_member`](Self::lazy_member) checks them.
    pub fn to_builder(&self) -> EntryBuilder<'_> {
        let members = self.members().collect();
        let (validation, created, cost) = (self.validation(), self.created(), self.cost());
        EntryBuilder { validation, created, cost, members }
    }

    /// Returns a builder with the content of this entry, the stamp `validation`, and the lazy members `renewed`, which
    /// replace members of the same names. Other lazy members are copied as by [`to_builder`](Self::to_builder).
    pub fn revalidated<'a>(&'a self, validation: u32, renewed: &[(&'a str, &'a [u8])]) -> EntryBuilder<'a> {
        let mut builder = self.to_builder().with_validation(validation);
        builder.members.retain(|(name, ..)| renewed.iter().all(|(new, _)| new != name));
        renewed.iter().fold(builder, |builder, (name, bytes)| builder.lazy(name, bytes))
    }

    /// Whether `other` has the same bytes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// Returns the name and the bytes of each member, and whether it is eager. The entry's checksum covers the lazy
    /// members; their digests are not checked.
    pub fn members(&self) -> impl Iterator<Item = (&str, &[u8], bool)> {
        self.members.iter().filter_map(|member| {
            let name = std::str::from_utf8(&self.bytes[member.name.clone()]).ok()?;
            Some((name, &self.bytes[member.body.clone()], member.eager))
        })
    }

    /// Returns the key in a file, other parts of which may be damaged, and the member `name` if that is intact. `None`: the head
    /// of the file is damaged, too.
    pub fn intact_parts(file: Vec<u8>, name: &str) -> Option<(Digest, Option<Vec<u8>>)> {
        let file_bytes = file.len() as u64;
        let head = EntryHead::decode(file, file_bytes, None).ok()?;
        let intact = |member: &Member| {
            let bytes = head.bytes.get(member.body.clone())?;
            head.checked(member, bytes).ok().map(<[u8]>::to_vec)
        };
        Some((*head.key(), head.find(name).and_then(intact)))
    }

    /// Decodes and checks a whole file. `key` is the requested key, or `None` to accept any.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn decode(file: Vec<u8>, key: Option<&Digest>) -> Result<Self, Corruption> {
        let file_bytes = file.len() as u64;
        let entry = Self(EntryHead::decode(file, file_bytes, key)?);
        for member in entry.members.iter().filter(|member| member.eager) {
            entry.checked(member, &entry.bytes[member.body.clone()])?;
        }
        let last = entry.members.iter().rfind(|member| member.eager);
        let rest = last.map_or(entry.prefix.prefix_bytes, |last| last.body.end);
        if checksum(&entry.bytes[rest..]) != entry.prefix.rest_sum {
            return Err(Corruption::Checksum { from: rest as u64 });
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Duration = Duration::from_micros(1_234_567);

    fn sample() -> (Digest, Vec<u8>) {
        let key = Digest::of(b"key");
        let entry = EntryBuilder::new(7).cost(COST).lazy("info", b"{\"job\": 1}").eager("json", b"{}");
        let entry = entry.eager("object", &[3; 100]);
        (key, entry.lazy("header", b"for people").encode(&key).unwrap())
    }

    #[test]
    fn members_are_returned_eager_first() {
        let (key, file) = sample();
        let entry = Entry::decode(file, Some(&key)).unwrap();
        assert_eq!(entry.names().collect::<Vec<_>>(), ["json", "object", "info", "header"]);
        assert_eq!(entry.member("object"), Some(&[3; 100][..]));
        assert_eq!(entry.member("info"), None);
        assert_eq!(entry.lazy_member("info").unwrap(), Some(&b"{\"job\": 1}"[..]));
        assert_eq!(entry.validation(), 7);
        assert_eq!(entry.cost(), COST);
    }

    #[test]
    fn any_changed_byte_is_damage() {
        let (key, file) = sample();
        for at in 0..file.len() {
            for change in [1, 0x80, 0xff] {
                let mut bad = file.clone();
                bad[at] ^= change;
                assert!(Entry::decode(bad, Some(&key)).is_err(), "byte {at} ^ {change:#x}");
            }
        }
    }

    #[test]
    fn any_other_length_is_damage() {
        let (key, file) = sample();
        for end in 0..file.len() {
            assert!(Entry::decode(file[..end].to_vec(), Some(&key)).is_err(), "{end}");
        }
        assert!(Entry::decode([&file[..], &[0]].concat(), Some(&key)).is_err());
    }

    #[test]
    fn an_entry_is_bound_to_its_key() {
        let (key, file) = sample();
        let other = Digest::of(b"other");
        let expected = Corruption::WrongKey { expected: other, found: key };
        assert_eq!(Entry::decode(file, Some(&other)).unwrap_err(), expected);
    }

    /// A forged table under a correct prefix digest: no panic, no allocation beyond the file.
    #[test]
    fn forged_tables_are_refused() {
        let (key, file) = sample();
        let prefix = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
        let forge = |at: usize, bytes: &[u8]| {
            let mut bad = file.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            let digest = Digest::of(&bad[..prefix - 32]);
            bad[prefix - 32..prefix].copy_from_slice(digest.as_bytes());
            Entry::decode(bad, Some(&key))
        };
        assert!(forge(72 - 8, &[0; 0]).is_ok());
        let count = FIXED - 12;
        assert!(matches!(forge(count, &u32::MAX.to_le_bytes()), Err(Corruption::Table { .. })));
        assert!(matches!(forge(count, &3u32.to_le_bytes()), Err(Corruption::Table { .. })));
        let first_len = FIXED + 2;
        assert!(matches!(forge(first_len, &u64::MAX.to_le_bytes()), Err(Corruption::Table { .. })));
        assert!(forge(first_len, &3u64.to_le_bytes()).is_err());
        assert!(forge(FIXED + 1, &[255]).is_err());
    }

    #[test]
    fn bounds_hold_when_writing() {
        let key = Digest::of(b"");
        let long = "n".repeat(256);
        assert!(EntryBuilder::new(0).eager(&long, b"").encode(&key).is_none());
        assert!(EntryBuilder::new(0).eager("", b"").encode(&key).is_none());
        let many = (0..65).fold(EntryBuilder::new(0), |entry, _| entry.eager("n", b""));
        assert!(many.encode(&key).is_none());
    }
}
