//! The constants of the format.

/// The version of the format. Bundles of another format are not read.
pub const BUNDLE_FORMAT: u32 = 1;
/// The maximum number of bytes of the entries in a block of several entries.
pub const MAX_BLOCK_BYTES: u64 = 8 << 20;
/// The level of the compression: more take longer than the network or the disk that they save.
pub(crate) const LEVEL: i32 = 3;
/// The binary logarithm of the number of bytes in which repetitions are found: those of a block.
pub(crate) const WINDOW_LOG: u32 = 23;
