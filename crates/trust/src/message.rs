//! What signatures are made over.
//!
//! A message is the name of its domain, a zero, and the SHA-256 of its fields, each with its kind and its length. So no message
//! is one of another kind, and none is a text that another program signs with the same key.

use opkeep_digest::{Digest, Hasher};

use crate::content::EntryDigest;

const ENTRY: &str = "opkeep signed entry v1";
const BUNDLE: &str = "opkeep signed bundle v1";

/// The bytes that are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    /// The message of a domain over the fields that `add` adds.
    fn new(domain: &str, add: impl FnOnce(&mut Hasher)) -> Self {
        let mut hasher = Hasher::new(domain);
        add(&mut hasher);
        Self([domain.as_bytes(), &[0], hasher.finish().as_bytes()].concat())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A statement about an entry: this content is the kernel of this key.
#[derive(Clone, Copy, Debug)]
pub struct SignedEntry<'a> {
    /// The version of the format of entries. It decides what the members mean.
    pub format: u32,
    /// The namespace, which separates products and teams.
    pub namespace: &'a str,
    /// The exact target.
    pub target: &'a str,
    /// The key.
    pub key: &'a Digest,
    /// The digest of the content.
    pub content: &'a EntryDigest,
}

impl SignedEntry<'_> {
    /// The bytes that are signed.
    pub fn message(&self) -> Message {
        let Self { format, namespace, target, key, content } = *self;
        Message::new(ENTRY, |hasher| {
            hasher.u64(format.into());
            hasher.str(namespace);
            hasher.str(target);
            hasher.digest(key);
            hasher.digest(content.digest());
        })
    }
}

/// A statement about a bundle: this index lists its entries.
#[derive(Clone, Copy, Debug)]
pub struct SignedBundle<'a> {
    /// The namespace, which separates products and teams.
    pub namespace: &'a str,
    /// The exact target; empty if the bundle has entries of several.
    pub target: &'a str,
    /// The digest of the plan whose entries the bundle has. `None`: it is for no plan.
    pub plan: Option<&'a Digest>,
    /// The digest of the encoded index, which has the version of its format.
    pub index: &'a Digest,
}

impl SignedBundle<'_> {
    /// The bytes that are signed.
    pub fn message(&self) -> Message {
        let Self { namespace, target, plan, index } = *self;
        Message::new(BUNDLE, |hasher| {
            hasher.str(namespace);
            hasher.str(target);
            hasher.option(plan.is_some());
            if let Some(plan) = plan {
                hasher.digest(plan);
            }
            hasher.digest(index);
        })
    }
}
