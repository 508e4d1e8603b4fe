//! Names of objects in an engine, and the values of leases.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The maximum length of a name: engines have limits of about 1000 bytes, which include a prefix.
const MAX_NAME: usize = 300;
const TOKEN_BYTES: usize = 16;
/// The length of an encoded value: the digits of the token and of the heartbeat.
const VALUE_DIGITS: usize = 2 * TOKEN_BYTES + 16;

/// The name of an object in an engine: segments of `[A-Za-z0-9._-]`, none of them `.` or `..`, separated by `/`; 300 bytes at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

/// A text is not the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{text}` is not the name of an object: expected at most {MAX_NAME} bytes, segments of `[A-Za-z0-9._-]` separated by `/`"
)]
pub struct ObjectNameError {
    /// The text, or its start.
    text: String,
}

impl ObjectName {
    /// Creates a name.
    ///
    /// # Errors
    /// The text is not a name.
    pub fn new(text: impl Into<String>) -> Result<Self, ObjectNameError> {
        let text = text.into();
        let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_char);
        if text.len() <= MAX_NAME && text.split('/').all(is_segment) {
            return Ok(Self(text));
        }
        Err(ObjectNameError { text: text.chars().take(MAX_NAME).collect() })
    }

    /// Creates a name of a text that is valid by its construction.
    pub(super) fn of_valid(text: String) -> Self {
        debug_assert!(Self::new(text.as_str()).is_ok(), "`{text}`");
        Self(text)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The random number by which a holder knows its lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken([u8; TOKEN_BYTES]);

impl LeaseToken {
    /// Creates a token of random bytes.
    pub fn new(random: [u8; TOKEN_BYTES]) -> Self {
        Self(random)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({self})")
    }
}

/// The content of a lease. As text: 48 hexadecimal digits, of which the first 32 are the token, and the others the heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseValue {
    /// Its holder's token.
    pub token: LeaseToken,
    /// The number of renewals. An observer that sees another number knows that the holder is alive.
    pub heartbeats: u64,
}

impl LeaseValue {
    /// Creates a value.
    pub fn new(token: LeaseToken, heartbeats: u64) -> Self {
        Self { token, heartbeats }
    }

    /// Decodes the content of an object. `None`: it is no value of a lease.
    pub fn decode(content: &[u8]) -> Option<Self> {
        str::from_utf8(content).ok()?.parse().ok()
    }
}

impl fmt::Display for LeaseValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}", self.token, self.heartbeats)
    }
}

/// A text is no value of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected the {VALUE_DIGITS} hexadecimal digits of a lease")]
pub struct LeaseValueError;

impl FromStr for LeaseValue {
    type Err = LeaseValueError;

    fn from_str(text: &str) -> Result<Self, LeaseValueError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != VALUE_DIGITS || !text.bytes().all(is_digit) {
            return Err(LeaseValueError);
        }
        let (token, heartbeats) = text.split_at(2 * TOKEN_BYTES);
        let token = u128::from_str_radix(token, 16).map_err(|_| LeaseValueError)?;
        let heartbeats = u64::from_str_radix(heartbeats, 16).map_err(|_| LeaseValueError)?;
        Ok(Self { token: LeaseToken(token.to_be_bytes()), heartbeats })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_paths_of_plain_segments() {
        for name in ["a", "v1/default/cpu-x86_64/e/00.ff", "A-Z_0.9", &"x".repeat(300)] {
            assert_eq!(ObjectName::new(name).map(|name| name.to_string()).as_deref(), Ok(name));
        }
        for text in
            ["", "/", "a/", "/a", "a//b", ".", "a/../b", "a/.", "a b", "ä", "a\0", "a*", &"x".repeat(301)]
        {
            assert!(ObjectName::new(text).is_err(), "{text:?}");
        }
        assert!(ObjectName::new("x".repeat(1 << 20)).unwrap_err().to_string().len() < 500);
    }

    #[test]
    fn values_come_back() {
        let token = LeaseToken::new(*b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\xfd\xfe\xff");
        for heartbeats in [0, 1, u64::MAX] {
            let value = LeaseValue::new(token, heartbeats);
            assert_eq!(LeaseValue::decode(value.to_string().as_bytes()), Some(value));
        }
        assert_eq!(
            LeaseValue::new(token, 10).to_string(),
            "000102030405060708090a0b0cfdfeff000000000000000a"
        );
        let good = LeaseValue::new(token, 1).to_string();
        for bad in ["", &good[1..], &format!("{good}0"), &good.replace('f', "F"), &format!("+{}", &good[1..])]
        {
            assert_eq!(LeaseValue::decode(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(LeaseValue::decode(&[0xff; 48]), None);
    }
}
