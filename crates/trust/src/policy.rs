//! What a consumer demands.

use crate::message::Message;
use crate::public_key::PublicKey;
use crate::signatures::Signatures;
use crate::trusted_keys::TrustedKeys;
use crate::untrusted::Untrusted;

/// What a consumer demands of the entries that it takes. No list of trusted keys and an empty one are opposites: without a
/// list, signatures do not matter; with an empty one, no entry is taken.
#[derive(Clone, Debug, Default)]
pub enum SignaturePolicy {
    /// Entries are taken with and without signatures.
    #[default]
    Ignored,
    /// Only entries that one of these keys signed are taken.
    Required(TrustedKeys),
}

impl SignaturePolicy {
    /// Returns the trusted keys, if signatures matter.
    pub fn trusted_keys(&self) -> Option<&TrustedKeys> {
        match self {
            Self::Ignored => None,
            Self::Required(keys) => Some(keys),
        }
    }

    /// Whether an entry with this message may be taken: `Ok` with the key that signed it, or with `None` if signatures do not
    /// matter.
    ///
    /// # Errors
    /// [`Untrusted`].
    pub fn check(&self, message: &Message, signatures: &Signatures) -> Result<Option<&PublicKey>, Untrusted> {
        self.trusted_keys().map(|keys| keys.verify(message, signatures)).transpose()
    }
}
