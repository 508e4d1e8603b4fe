//! Why a kernel, or a rank, was not filled.

use std::path::PathBuf;

use thiserror::Error;

/// Why a kernel, or a rank, was not filled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum UnfilledReason {
    /// It is unknown which device the rank has.
    #[error("it lacks {lacking} of the others' kernels; {error}")]
    UnknownDevice {
        /// The number of kernels that other ranks have.
        lacking: u64,
        /// Why it is unknown.
        error: DeviceError,
    },
    /// Kernels whose names say no device are not MindSpore's.
    #[error(
        "{count} that not all ranks have say no device in their names, such as `{example}`, so they are not MindSpore's"
    )]
    OtherNames {
        /// Their number.
        count: usize,
        /// The first.
        example: String,
    },
    /// Another cause, in words.
    #[error("{0}")]
    Other(String),
}

impl From<String> for UnfilledReason {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// Why the device of a rank is unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The rank has a cache that was not scanned.
    #[error("it was not scanned: to fill it too, or from it, name the directory above, `{}`", .base.display())]
    Unscanned {
        /// The directory of all ranks.
        base: PathBuf,
    },
    /// The map contradicts the rank's own files.
    #[error(
        "device {given} was given for rank {rank}, and its own `{file}` says {found}: give the right one, or move that \
         file away"
    )]
    Contradicted {
        /// The rank.
        rank: String,
        /// The device in the map.
        given: u32,
        /// A file of the rank.
        file: String,
        /// The device in it.
        found: u32,
    },
    /// The rank's own files disagree.
    #[error(
        "its files disagree about its device: `{}` says {}, `{}` says {}; give the one that rank {rank} has",
        .files[0].1, .files[0].0, .files[1].1, .files[1].0
    )]
    Ambiguous {
        /// The rank.
        rank: String,
        /// Two devices, each with a file.
        files: [(u32, String); 2],
    },
    /// Neither a file nor the map says it.
    #[error("no file of rank {rank} says which device it has, and RANK_ID is none")]
    Unknown {
        /// The rank.
        rank: String,
    },
}
