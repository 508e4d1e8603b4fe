//! A signature.

use std::fmt;
use std::str::FromStr;

use crate::key_name::KeyName;
use crate::key_text::{self, KeyTextError, SIGNATURE};

/// A signature with the name of the key that is said to have made it. Shown, and parsed, as `NAME:BASE64`, the base64 of 64
/// bytes. It counts only if [`PublicKey::verifies`](crate::PublicKey::verifies) says so.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature {
    key_name: KeyName,
    bytes: [u8; 64],
}

impl Signature {
    /// A signature from its 64 bytes.
    pub const fn from_bytes(key_name: KeyName, bytes: [u8; 64]) -> Self {
        Self { key_name, bytes }
    }

    /// The 64 bytes.
    pub const fn to_bytes(&self) -> [u8; 64] {
        self.bytes
    }

    /// The name of the key, as the signature states it.
    pub fn key_name(&self) -> &KeyName {
        &self.key_name
    }

    pub(crate) fn to_ed25519(&self) -> ed25519_dalek::Signature {
        ed25519_dalek::Signature::from_bytes(&self.bytes)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&key_text::encode(&self.key_name, &self.bytes))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

impl FromStr for Signature {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key_name, encoded) = key_text::split(text)?;
        Ok(Self::from_bytes(key_name, *key_text::decode::<SIGNATURE>(encoded)?))
    }
}
