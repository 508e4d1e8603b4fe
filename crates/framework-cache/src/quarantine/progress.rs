//! What a repair reports while it works.

/// What a repair is about to do, or has done: for whoever watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuarantineProgress {
    /// The journal is on the disk; nothing was moved yet.
    Recorded,
    /// The file with this number is about to be moved, from 0.
    Moving(u64),
    /// The file with this number was moved.
    Moved(u64),
    /// All were moved; what was moved is looked at once more.
    Checking,
}
