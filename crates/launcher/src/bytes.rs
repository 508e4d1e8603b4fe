//! Reading and writing of numbers in encodings.

/// Bytes that are read from their start.
pub(crate) struct Bytes<'a>(&'a [u8]);

/// There are fewer bytes than are read.
#[derive(Debug)]
pub(crate) struct OutOfBytes;

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], OutOfBytes> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(OutOfBytes)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, OutOfBytes> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of 2 bytes.
    pub(crate) fn u16(&mut self) -> Result<usize, OutOfBytes> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// A number of 4 bytes.
    pub(crate) fn u32(&mut self) -> Result<usize, OutOfBytes> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }
}

/// Adds a number that the caller knows to fit.
pub(crate) fn put_u16(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&(number as u16).to_le_bytes());
}

/// Adds a number that the caller knows to fit.
pub(crate) fn put_u32(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&(number as u32).to_le_bytes());
}
