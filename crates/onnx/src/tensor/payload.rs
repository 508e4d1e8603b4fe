//! Elements in the buffer of the model's file.

use std::fmt;
use std::io;

use opkeep_ops::Elements;
use prost::bytes::Bytes;

use crate::wire::varint;

/// Whether elements are truth values. Those are a byte of 0 or 1 in memory, and nothing keeps a file from having others:
/// they count as 1, as in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truth(pub(crate) bool);

impl Truth {
    /// Makes truth values of bytes, if that is what they are.
    pub(crate) fn settle(self, out: &mut [u8]) {
        if self.0 {
            out.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    }
}

/// Whether `out` is as large as the elements are.
pub(crate) fn fits(bytes: u64, out: &[u8]) -> io::Result<()> {
    if bytes == out.len() as u64 {
        return Ok(());
    }
    let problem = format!("{bytes} bytes of elements, expected {}", out.len());
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Elements that stand in the file as they do in memory.
pub(crate) struct Dense {
    /// As a rule one.
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) truth: Truth,
}

/// How many bytes there are.
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
        write!(f, "{} bytes", total(&self.chunks))
    }
}

/// Whole numbers as protobuf packs them, of which each element has the low bytes. Floats of 16 bits are among them, as
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

    /// How many numbers there are.
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
                // All of the number counts, not only what is kept.
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
