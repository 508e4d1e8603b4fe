//! Domain-tagged, length-prefixed hashing of structures.

use sha2::{Digest as _, Sha256};

use crate::Digest;

/// Hashes a structure, item by item, so that different structures cannot feed equal bytes to SHA-256.
///
/// Every item is one tag byte, a length or the value itself in little-endian, and for texts the bytes. A hasher
/// begins with its domain, so equal items of two domains (a job and a toolchain, say) never share a digest.
#[derive(Clone, Debug)]
pub struct Hasher(Sha256);

/// The kind of the next item. Values are part of every key: never reuse one.
#[repr(u8)]
enum Tag {
    Domain = 1,
    Text = 2,
    Bytes = 3,
    Unsigned = 4,
    Signed = 5,
    Bool = 6,
    List = 7,
    Absent = 8,
    Present = 9,
    Digest = 10,
}

impl Hasher {
    /// A hasher for the structure called `domain`.
    pub fn new(domain: &str) -> Self {
        let mut hasher = Self(Sha256::new());
        hasher.tagged(Tag::Domain, domain.as_bytes());
        hasher
    }

    /// Adds a text. Also used for the names of fields and variants.
    pub fn str(&mut self, text: &str) {
        self.tagged(Tag::Text, text.as_bytes());
    }

    /// Adds raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.tagged(Tag::Bytes, bytes);
    }

    /// Adds an unsigned number, or the bit pattern of a float.
    pub fn u64(&mut self, value: u64) {
        self.word(Tag::Unsigned, value);
    }

    /// Adds a signed number.
    pub fn i64(&mut self, value: i64) {
        self.word(Tag::Signed, value as u64);
    }

    /// Adds a truth value.
    pub fn bool(&mut self, value: bool) {
        self.word(Tag::Bool, u64::from(value));
    }

    /// Announces a list of `len` items, which the caller adds next.
    pub fn list(&mut self, len: usize) {
        self.word(Tag::List, len as u64);
    }

    /// Announces an optional item: absent, or present and added next by the caller.
    pub fn option(&mut self, present: bool) {
        self.word(if present { Tag::Present } else { Tag::Absent }, 0);
    }

    /// Adds a digest made elsewhere.
    pub fn digest(&mut self, digest: &Digest) {
        self.tagged(Tag::Digest, digest.as_bytes());
    }

    /// The digest of everything added.
    pub fn finish(self) -> Digest {
        Digest::from_bytes(self.0.finalize().into())
    }

    fn tagged(&mut self, tag: Tag, bytes: &[u8]) {
        self.word(tag, bytes.len() as u64);
        self.0.update(bytes);
    }

    fn word(&mut self, tag: Tag, value: u64) {
        let mut head = [tag as u8; 9];
        head[1..].copy_from_slice(&value.to_le_bytes());
        self.0.update(head);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn of(domain: &str, feed: impl Fn(&mut Hasher)) -> Digest {
        let mut hasher = Hasher::new(domain);
        feed(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn neighbouring_structures_never_collide() {
        let digests: Vec<Digest> = vec![
            of("a", |_| {}),
            of("b", |_| {}),
            of("a", |h| h.str("")),
            of("a", |h| h.bytes(b"")),
            of("a", |h| h.str("ab")),
            of("a", |h| {
                h.str("a");
                h.str("b")
            }),
            of("a", |h| h.u64(1)),
            of("a", |h| h.i64(1)),
            of("a", |h| h.bool(true)),
            of("a", |h| h.list(1)),
            of("a", |h| h.option(true)),
            of("a", |h| h.option(false)),
            of("a", |h| {
                h.list(1);
                h.str("a")
            }),
            of("a", |h| {
                h.option(true);
                h.str("a")
            }),
            of("a", |h| h.digest(&Digest::of(b"a"))),
            of("a", |h| h.bytes(Digest::of(b"a").as_bytes())),
        ];
        assert_eq!(digests.iter().collect::<HashSet<_>>().len(), digests.len());
    }

    /// The encoding itself is frozen: a change here would invalidate every existing cache.
    #[test]
    fn the_encoding_is_as_documented() {
        let mut plain = vec![1];
        plain.extend(3u64.to_le_bytes());
        plain.extend(b"job");
        plain.push(5);
        plain.extend((-2i64).to_le_bytes());
        assert_eq!(of("job", |h| h.i64(-2)), Digest::of(&plain));
    }
}
