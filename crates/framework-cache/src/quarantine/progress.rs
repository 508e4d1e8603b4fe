//! The progress of a repair.

/// A step of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuarantineProgress {
    /// The journal is durable, and no file is moved yet.
    Recorded,
    /// The file with this number, counted from 0, is about to be moved.
    Moving(u64),
    /// The file with this number was moved.
    Moved(u64),
    /// All files were moved, and are checked once more.
    Checking,
}
