//! Lists of trusted keys.

use std::collections::BTreeSet;
use std::path::Path;

use opkeep_fs::Fs;

use crate::error::TrustError;
use crate::key_file;
use crate::message::Message;
use crate::public_key::{PublicKey, SignerId};
use crate::signatures::Signatures;
use crate::untrusted::Untrusted;

/// Keys that are trusted. An empty list trusts none; that signatures do not matter at all is
/// [`SignaturePolicy::Ignored`](crate::SignaturePolicy::Ignored).
///
/// Keys of one name are all trusted: the bytes decide, and a name may be used again for the next key of the same owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedKeys {
    keys: Vec<PublicKey>,
}

impl TrustedKeys {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads public keys from a text: one a line, or several separated by spaces. `#` begins a comment, which ends with the
    /// line. Keys that stand there twice count once.
    ///
    /// # Errors
    /// [`TrustError::Key`] for the first word that is no public key: no part of a list is taken.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        let found = key_file::public_keys(text).map_err(|wrong| wrong.into_error(None))?;
        Ok(found.into_iter().collect())
    }

    /// Reads a file as [`parse`](Self::parse) does, at most 1 MiB. Links are followed. The file must belong to this user or to
    /// root, and no other user may be able to write to it; the directories above it are not checked.
    ///
    /// # Errors
    /// [`TrustError::Writable`], [`TrustError::Key`], [`TrustError::NoText`], [`TrustError::Io`].
    pub fn read(fs: &Fs, path: &Path) -> Result<Self, TrustError> {
        Ok(key_file::read_trusted(fs, path)?.into_iter().collect())
    }

    /// The keys, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter()
    }

    /// The signer ids of the keys, each once.
    pub fn signers(&self) -> BTreeSet<SignerId> {
        self.keys.iter().map(PublicKey::signer).collect()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key is trusted.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a key, unless it is in the list.
    pub fn insert(&mut self, key: PublicKey) {
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }

    /// Returns the first key that one of the signatures is of.
    ///
    /// # Errors
    /// [`Untrusted`]. Of several signatures that do not count, one with the name of a trusted key is reported.
    pub fn verify(&self, message: &Message, signatures: &Signatures) -> Result<&PublicKey, Untrusted> {
        let (mut signers, mut wrong) = (BTreeSet::new(), None);
        for signature in signatures.iter() {
            let mut is_known = false;
            for key in self.keys.iter().filter(|key| key.name() == signature.key_name()) {
                if key.verifies(message, &signature) {
                    return Ok(key);
                }
                is_known = true;
            }
            let name = signature.key_name().clone();
            if is_known {
                wrong.get_or_insert(name);
            } else {
                signers.insert(name);
            }
        }
        Err(match wrong {
            Some(signer) => Untrusted::WrongSignature { signer },
            None if signers.is_empty() => Untrusted::NoSignature,
            None => Untrusted::UnknownSigner { signers },
        })
    }
}

impl Extend<PublicKey> for TrustedKeys {
    fn extend<I: IntoIterator<Item = PublicKey>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| self.insert(key));
    }
}

impl FromIterator<PublicKey> for TrustedKeys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        let mut list = Self::new();
        list.extend(keys);
        list
    }
}
