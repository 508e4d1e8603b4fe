//! Public keys.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::VerifyingKey;
use opkeep_digest::Digest;
use thiserror::Error;

use crate::key_name::KeyName;
use crate::key_text::{self, KeyTextError, PUBLIC, SECRET};
use crate::message::Message;
use crate::signature::Signature;

/// A public key with its name. Shown, and parsed, as `NAME:BASE64`, the base64 of 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: KeyName,
    key: VerifyingKey,
    signer: SignerId,
}

impl PublicKey {
    pub(crate) fn new(name: KeyName, key: VerifyingKey) -> Self {
        let signer = SignerId(Digest::of(key.as_bytes()).prefix_u64());
        Self { name, key, signer }
    }

    /// Reads the 32 bytes of a key.
    fn from_bytes(name: KeyName, bytes: &[u8; PUBLIC]) -> Result<Self, KeyTextError> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| KeyTextError::Unusable)?;
        // A key has one text and one signer id, and for none of them can others make signatures.
        if key.is_weak() || key.to_edwards().compress().as_bytes() != bytes {
            return Err(KeyTextError::Unusable);
        }
        Ok(Self::new(name, key))
    }

    /// The name.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// The signer id.
    pub fn signer(&self) -> SignerId {
        self.signer
    }

    /// Whether `signature` is this key's for `message`. The names are not compared.
    pub fn verifies(&self, message: &Message, signature: &Signature) -> bool {
        self.key.verify_strict(message.as_bytes(), &signature.to_ed25519()).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&key_text::encode(&self.name, self.key.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, encoded) = key_text::split(text)?;
        if key_text::is_as_long_as::<SECRET>(encoded) {
            return Err(KeyTextError::SecretKey);
        }
        Self::from_bytes(name, &*key_text::decode(encoded)?)
    }
}

/// What identifies a signer in the names of objects: the first 64 bits of the SHA-256 of the public key's 32 bytes. Shown, and
/// parsed, as 16 lower-case hexadecimal digits. It proves nothing; only [`PublicKey::verifies`] does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignerId(u64);

impl fmt::Display for SignerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:016x}", self.0))
    }
}

impl fmt::Debug for SignerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignerId({self})")
    }
}

impl FromStr for SignerId {
    type Err = ParseSignerIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let refuse = || ParseSignerIdError { found: text.chars().take(80).collect() };
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(refuse());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| refuse())
    }
}

/// The reason why a text is no signer id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{found}` is no signer id: expected 16 lower-case hexadecimal digits")]
pub struct ParseSignerIdError {
    /// The text, cut to 80 characters.
    pub found: String,
}
