//! Loading and running kernels.

use std::collections::TryReserveError;
use std::num::NonZeroUsize;

use opkeep_artifact::Artifact;
use opkeep_descriptor::Job;

use crate::error::BackendError;
use crate::slot::Slot;

/// Loads kernels into this process or onto a device.
pub trait Loader: Send + Sync {
    /// Loads a kernel that was compiled for `job`.
    ///
    /// A loader checks that the object is the one that the `.json` describes, and that it was made for this job, by
    /// the marks that the compiler left for that. It cannot check what the code does: a kernel is trusted as a program is.
    ///
    /// # Errors
    /// [`BackendError::Load`], [`BackendError::Unsupported`] for a job whose launch the loader does not know, or
    /// [`BackendError::StaticProgram`].
    fn load(&self, artifact: &Artifact, job: &Job) -> Result<Box<dyn LoadedKernel>, BackendError>;
}

/// A loaded kernel.
pub trait LoadedKernel: Send + Sync {
    /// The buffer of each input, in the job's order.
    fn inputs(&self) -> &[Slot];

    /// The buffer of each output.
    fn outputs(&self) -> &[Slot];

    /// Runs the kernel on up to `threads` threads. Results do not depend on their number, nor on what the outputs held
    /// before: each is written in full.
    ///
    /// # Errors
    /// [`BackendError::Launch`], if a buffer's count, length or alignment does not fit; nothing has run then.
    fn launch(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        threads: NonZeroUsize,
    ) -> Result<(), BackendError>;
}

/// A tensor's memory: bytes that begin at a multiple of 64, where an element of any type may.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    const ALIGN: usize = 64;

    /// `len` zero bytes; aborts if there is not enough memory.
    pub fn zeroed(len: usize) -> Self {
        Self::place(vec![0; len + Self::ALIGN], len)
    }

    /// `len` zero bytes.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn try_zeroed(len: usize) -> Result<Self, TryReserveError> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(len.saturating_add(Self::ALIGN))?;
        memory.resize(len + Self::ALIGN, 0);
        Ok(Self::place(memory, len))
    }

    /// The same memory as a buffer of `len` bytes with any content; the buffer itself if it is too small.
    ///
    /// # Errors
    /// The buffer itself.
    pub fn resized(self, len: usize) -> Result<Self, Self> {
        if len <= self.capacity() { Ok(Self { len, ..self }) } else { Err(self) }
    }

    /// The largest length to which it can be [`resized`](Self::resized).
    pub fn capacity(&self) -> usize {
        self.memory.len() - self.from
    }

    fn place(memory: Vec<u8>, len: usize) -> Self {
        let from = memory.as_ptr().align_offset(Self::ALIGN).min(Self::ALIGN);
        Self { memory, from, len }
    }

    /// A buffer with these elements.
    pub fn of_f32(values: &[f32]) -> Self {
        let mut buffer = Self::zeroed(values.len() * 4);
        for (slot, value) in buffer.bytes_mut().chunks_exact_mut(4).zip(values) {
            slot.copy_from_slice(&value.to_ne_bytes());
        }
        buffer
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.len]
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }

    /// The bytes as elements.
    pub fn to_f32(&self) -> Vec<f32> {
        let (words, _) = self.bytes().as_chunks::<4>();
        words.iter().map(|word| f32::from_ne_bytes(*word)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_keep_their_content() {
        for len in [0, 1, 3, 4096] {
            let buffer = Buffer::zeroed(len);
            assert_eq!(buffer.bytes().len(), len);
            assert!(len == 0 || buffer.bytes().as_ptr().addr().is_multiple_of(64));
        }
        assert_eq!(Buffer::of_f32(&[1.5, -2.0]).to_f32(), [1.5, -2.0]);
        let smaller = Buffer::of_f32(&[1.5, -2.0]).resized(4).unwrap();
        assert_eq!(smaller.to_f32(), [1.5]);
        assert_eq!(smaller.resized(8).unwrap().to_f32(), [1.5, -2.0]);
        assert_eq!(Buffer::zeroed(8).resized(4096).unwrap_err().bytes().len(), 8);
    }
}
