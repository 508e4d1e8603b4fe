//! Signing keys.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::Signer;
use zeroize::Zeroizing;

use crate::error::TrustError;
use crate::key_name::KeyName;
use crate::key_text::{self, KeyTextError, PUBLIC};
use crate::message::Message;
use crate::public_key::PublicKey;
use crate::signature::Signature;

/// A secret key with its name. The secret is erased from memory when the value is dropped; the compiler may have made
/// temporary copies that are not.
///
/// Parsed from `NAME:BASE64`, the base64 of 64 bytes: the seed and the public key. It has neither `Display` nor `Clone`, and
/// `Debug` shows the public key.
pub struct SigningKey {
    key: ed25519_dalek::SigningKey,
    public: PublicKey,
}

impl SigningKey {
    /// Makes a new key from random bytes of the system.
    ///
    /// # Errors
    /// [`TrustError::Random`].
    pub fn generate(name: KeyName) -> Result<Self, TrustError> {
        Ok(Self::new(name, ed25519_dalek::SigningKey::from_bytes(&*random_seed()?)))
    }

    pub(crate) fn new(name: KeyName, key: ed25519_dalek::SigningKey) -> Self {
        let public = PublicKey::new(name, key.verifying_key());
        Self { key, public }
    }

    /// The public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message. The same message gives the same signature.
    pub fn sign(&self, message: &Message) -> Signature {
        let signature = self.key.sign(message.as_bytes());
        Signature::from_bytes(self.public.name().clone(), signature.to_bytes())
    }

    /// The secret key as text, for its file. The text is erased when it is dropped.
    pub fn to_secret_text(&self) -> Zeroizing<String> {
        let pair = Zeroizing::new(self.key.to_keypair_bytes());
        key_text::encode(self.public.name(), pair.as_ref())
    }
}

/// Returns random bytes of the system. They are erased when they are dropped.
pub(crate) fn random_seed() -> Result<Zeroizing<[u8; 32]>, TrustError> {
    let mut seed = Zeroizing::new([0; 32]);
    let failed = |error: getrandom::Error| TrustError::Random { reason: error.to_string() };
    getrandom::fill(seed.as_mut()).map_err(failed)?;
    Ok(seed)
}

impl FromStr for SigningKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, encoded) = key_text::split(text)?;
        if key_text::is_as_long_as::<PUBLIC>(encoded) {
            return Err(KeyTextError::PublicKey);
        }
        let pair = key_text::decode(encoded)?;
        let key = ed25519_dalek::SigningKey::from_keypair_bytes(&pair).map_err(|_| KeyTextError::Halves)?;
        Ok(Self::new(name, key))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zeroize::ZeroizeOnDrop;

    /// It does not compile without that feature of the dependency.
    #[test]
    fn the_secret_is_erased_when_it_is_dropped() {
        fn is_erased<T: ZeroizeOnDrop>() {}
        is_erased::<ed25519_dalek::SigningKey>();
    }
}
