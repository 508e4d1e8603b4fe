//! A kernel's bytes.

/// An object, its description and its descriptor.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The object: bytes that do not compress, after the first ones of ELF.
    pub object: Vec<u8>,
    /// The description: 1 KiB.
    pub json: Vec<u8>,
    /// The descriptor: 6 KiB.
    pub info: Vec<u8>,
}

impl Kernel {
    /// The size of a usual kernel's object.
    pub const USUAL: usize = 8 << 10;

    /// A kernel with an object of `bytes` bytes, which must be a multiple of 8 and at least 8.
    pub fn new(bytes: usize) -> Self {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        let mut object: Vec<u8> = words.take(bytes / 8).flatten().collect();
        object[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        Self { object, json: vec![b'j'; 1 << 10], info: vec![b'i'; 6 << 10] }
    }

    /// The bytes that a hit returns.
    pub fn needed(&self) -> Vec<u8> {
        [&self.json[..], &self.object[..]].concat()
    }

    /// All bytes.
    pub fn whole(&self) -> Vec<u8> {
        [&self.json[..], &self.object[..], &self.info[..]].concat()
    }
}
