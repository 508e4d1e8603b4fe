//! Elements in the buffer of the model's file.

use std::fmt;
use std::io;

use opkeep_ops::Elements;
use opkeep_text::counted;
use prost::bytes::Bytes;

use crate::wire::varint;

/// Whether elements are truth values. In memory they are a byte of 0 or 1; other values in a file count as 1, as in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truth(pub(crate) bool);

impl Truth {
    /// Converts bytes to truth values, if the elements are such.
    pub(crate) fn settle(self, out: &mut [u8]) {
        if self.0 {
            out.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    }
}

/// Checks that `out` has the size of the elements.
pub(crate) fn fits(bytes: u64, out: &[u8]) -> io::Result<()> {
    if bytes == out.len() as u64 {
        return Ok(());
    }
    let problem = format!("{bytes} of elements, expected {}", out.len(), bytes = counted(bytes, "byte"));
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Elements with the same form in the file and in memory.
pub(crate) struct Dense {
    /// Usually one.
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) truth: Truth,
}

/// The number of bytes.
pub(crate) fn total(chunks: &[Bytes]) -> u64 {
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}

impl Elements for Dense {
    fn copy_to(&self, out: &mut [u8]) -> io::Result<()> {
        fits(total(&self.chunks), out)?;
        let mut at = 0;
        for chunk in &self.chunks {
            out[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        self.truth.settle(out);
        Ok(())
    }
}

impl fmt::Debug for Dense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(total(&self.chunks), "byte"))
    }
}

/// Whole numbers in protobuf's packed form, of which each element has the low bytes. They include 16-bit floats, as
/// their bits.
pub(crate) struct Varints {
    chunks: Vec<Bytes>,
    count: u64,
    /// Bytes of an element.
    width: usize,
    truth: Truth,
}

impl Varints {
    /// The numbers in `chunks`; `None` if there is anything else.
    pub(crate) fn new(chunks: &[Bytes], width: usize, truth: Truth) -> Option<Self> {
        let mut count = 0;
        for chunk in chunks {
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let (_, bytes) = varint(rest).ok()?;
                rest = &rest[bytes..];
                count += 1;
            }
        }
        Some(Self { chunks: chunks.to_vec(), count, width, truth })
    }

    /// The number of numbers.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

impl Elements for Varints {
    fn copy_to(&self, out: &mut [u8]) -> io::Result<()> {
        fits(self.count * self.width as u64, out)?;
        let mut chunks = self.chunks.iter();
        let mut rest: &[u8] = &[];
        for slot in out.chunks_exact_mut(self.width) {
            while rest.is_empty() {
                rest = chunks.next().ok_or(io::ErrorKind::UnexpectedEof)?;
            }
            let (value, bytes) = varint(rest).map_err(|_| io::ErrorKind::InvalidData)?;
            rest = &rest[bytes..];
            if self.truth.0 {
                // All bytes of the number count, not only the kept ones.
                slot.fill(u8::from(value != 0));
            } else {
                slot.copy_from_slice(&value.to_le_bytes()[..self.width]);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Varints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packed numbers", self.count)
    }
}
