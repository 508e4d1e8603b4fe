//! The texts of keys and signatures: `NAME:BASE64`.

use base64ct::{Base64, Encoding};
use opkeep_text::counted;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::key_name::KeyName;

/// The number of bytes of a public key.
pub(crate) const PUBLIC: usize = 32;
/// The number of bytes of a secret key: the seed and the public key.
pub(crate) const SECRET: usize = 64;
/// The number of bytes of a signature.
pub(crate) const SIGNATURE: usize = 64;

/// The reason why a text is no key or signature. Has no part of the text, which may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyTextError {
    /// It has no `:`.
    #[error("expected NAME:BASE64, found no `:`")]
    NoColon,
    /// The name before the `:` is not allowed.
    #[error(
        "what stands before the `:` is no name of a key: expected 1 to 64 letters, digits, `.`, `_` or `-`"
    )]
    Name,
    /// What follows the `:` does not encode the right number of bytes.
    #[error(
        "expected the base64 of {expected} behind the `:`, {} with padding, found another text of \
         {found}",
        counted(expected.div_ceil(3) * 4, "character"),
        expected = counted(*.expected, "byte"),
        found = counted(*.found, "character")
    )]
    Base64 {
        /// The number of bytes that are expected.
        expected: usize,
        /// The number of characters that were found.
        found: usize,
    },
    /// A public key is expected.
    #[error(
        "expected a public key of 32 bytes, found 64 bytes, as a secret key has; use its public key here, and replace the pair \
         if another user may have read this file"
    )]
    SecretKey,
    /// A secret key is expected.
    #[error(
        "expected a secret key of 64 bytes, found 32 bytes, as a public key has; use the file of the secret key"
    )]
    PublicKey,
    /// The halves of a secret key do not belong together.
    #[error(
        "its public half is not the one of its secret half: the key is damaged; restore its file from a copy"
    )]
    Halves,
    /// The bytes are no public key that may be trusted: they are no point of the curve, or one for which anyone can make
    /// signatures, or have a second spelling.
    #[error("its 32 bytes are no ed25519 key that can be trusted; copy the key again")]
    Unusable,
}

/// Splits a text into the name and the rest.
pub(crate) fn split(text: &str) -> Result<(KeyName, &str), KeyTextError> {
    let (name, rest) = text.split_once(':').ok_or(KeyTextError::NoColon)?;
    Ok((name.parse().map_err(|_| KeyTextError::Name)?, rest))
}

/// Decodes base64 of `N` bytes: of the texts of equal meaning, only the one that [`encode`] makes.
pub(crate) fn decode<const N: usize>(text: &str) -> Result<Zeroizing<[u8; N]>, KeyTextError> {
    let wrong = KeyTextError::Base64 { expected: N, found: text.len() };
    let mut bytes = Zeroizing::new([0; N]);
    match Base64::decode(text, bytes.as_mut()) {
        Ok(decoded) if decoded.len() == N => Ok(bytes),
        _ => Err(wrong),
    }
}

/// Whether a text has the length of `N` bytes in base64.
pub(crate) fn is_as_long_as<const N: usize>(text: &str) -> bool {
    text.len() == N.div_ceil(3) * 4
}

/// Returns `NAME:BASE64`. The text is erased when it is dropped.
pub(crate) fn encode(name: &KeyName, bytes: &[u8]) -> Zeroizing<String> {
    let encoded = Zeroizing::new(Base64::encode_string(bytes));
    let name = name.as_str();
    // Of the final length, so that no part of a secret stays where a shorter text was.
    let mut text = Zeroizing::new(String::with_capacity(name.len() + 1 + encoded.len()));
    text.push_str(name);
    text.push(':');
    text.push_str(&encoded);
    text
}
