//! SHA-256 values.

use std::fmt;
use std::str::FromStr;

use opkeep_text::counted;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// A SHA-256 value. Shown, and parsed, as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Bytes in a digest.
    pub const LEN: usize = 32;

    /// The SHA-256 of `bytes` as they are, equal to what `sha256sum` prints for a file that holds them.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The SHA-256 of everything that `reader` yields, in constant memory.
    pub fn of_reader(mut reader: impl std::io::Read) -> std::io::Result<Self> {
        let mut sha = Sha256::new();
        let mut buffer = vec![0; 128 * 1024];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(Self(sha.finalize().into())),
                Ok(n) => sha.update(&buffer[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A digest from its 32 bytes, such as they stand in a file.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 64 bits, big-endian: the number whose sixteen hexadecimal digits begin the digest's text.
    pub fn prefix_u64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a SHA-256 value: expected 64 lower-case hexadecimal digits, found {found}")]
pub struct ParseDigestError {
    /// The text, cut to 80 characters.
    pub text: String,
    /// The part of the text that is wrong.
    pub found: String,
}

/// The value of a byte that is not a hexadecimal digit.
const NONE: u8 = u8::MAX;
/// The value of each byte as a digit. Digests are random: a branch for each digit would be mispredicted half of the
/// time, and cost more than all the rest.
const NIBBLES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |found: String| ParseDigestError { text: text.chars().take(80).collect(), found };
        if text.len() != 64 {
            return Err(refuse(counted(text.len(), "byte")));
        }
        let mut bytes = [0; 32];
        for (at, (byte, pair)) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)).enumerate() {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            if high == NONE || low == NONE {
                return Err(refuse(format!("another character near position {}", at * 2)));
            }
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_digest_is_plain_sha256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(Digest::of_reader(&b"abc"[..]).unwrap(), Digest::of(b"abc"));
        assert_eq!(abc.parse::<Digest>().unwrap(), Digest::of(b"abc"));
        assert_eq!(Digest::of(b"abc").prefix_u64(), 0xba78_16bf_8f01_cfea);
    }

    #[test]
    fn reader_digest_spans_buffers() {
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(Digest::of_reader(&bytes[..]).unwrap(), Digest::of(&bytes));
    }

    #[test]
    fn only_lower_case_hex_parses() {
        let good = Digest::of(b"abc").to_string();
        for bad in [&good[1..], &good.to_uppercase(), &format!("{good}0"), &good.replace('b', "g"), "", "é"]
        {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
