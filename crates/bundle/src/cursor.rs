//! A cursor over bytes that may end anywhere.

use opkeep_digest::Digest;

use crate::error::BundleError;

/// A cursor that takes bytes from the front of the index.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The error for a problem of what was taken last.
    pub(crate) fn invalid(&self, problem: &'static str) -> BundleError {
        BundleError::Index { problem, at: self.at }
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn slice(&mut self, bytes: usize) -> Result<&'a [u8], BundleError> {
        let end = self.at.checked_add(bytes).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.invalid("it ends early"))?;
        let slice = &self.bytes[self.at..end];
        self.at = end;
        Ok(slice)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BundleError> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, BundleError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BundleError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BundleError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn digest(&mut self) -> Result<Digest, BundleError> {
        self.array().map(Digest::from_bytes)
    }

    /// Takes a number of rows, each of which has `row_bytes` bytes at least: more rows than there are bytes is an error before
    /// anything is allocated.
    pub(crate) fn count(&mut self, row_bytes: usize) -> Result<usize, BundleError> {
        let count = self.u32()? as usize;
        match count.checked_mul(row_bytes).is_some_and(|bytes| bytes <= self.left()) {
            true => Ok(count),
            false => Err(self.invalid("it has more rows than bytes")),
        }
    }
}
