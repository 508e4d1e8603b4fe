//! A cursor over the bytes of an entry.

use std::ops::Range;

use crate::corruption::Corruption;

/// A cursor that takes bytes from the front.
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn range(&mut self, len: usize, what: &'static str) -> Result<Range<usize>, Corruption> {
        let end = self.at.saturating_add(len);
        if end > self.bytes.len() {
            return Err(Corruption::WrongLength {
                what,
                expected: end as u64,
                found: self.bytes.len() as u64,
            });
        }
        Ok(std::mem::replace(&mut self.at, end)..end)
    }

    pub(super) fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Corruption> {
        let range = self.range(N, what)?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.bytes[range]);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Corruption> {
        self.take(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Corruption> {
        self.take(what).map(u64::from_le_bytes)
    }
}
