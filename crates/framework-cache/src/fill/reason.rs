//! The reason why a kernel, or a rank, was not filled.

use std::path::PathBuf;

use opkeep_text::counted;
use thiserror::Error;

/// The reason why a kernel, or a rank, was not filled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum UnfilledReason {
    /// The device of the rank is unknown.
    #[error("it lacks {} that other ranks have; {error}", counted(*.lacking, "kernel"))]
    UnknownDevice {
        /// The number of kernels that other ranks have and this one lacks.
        lacking: u64,
        /// The reason why the device is unknown.
        error: DeviceError,
    },
    /// Some ranks lack kernels without a device in their names, which are not MindSpore's.
    #[error(
        "some ranks lack {} without a device in the name, such as `{example}`, which are not MindSpore's",
        counted(*.count, "kernel")
    )]
    OtherNames {
        /// The number of such kernels.
        count: usize,
        /// The name of the first such kernel.
        example: String,
    },
    /// Another reason, as a message.
    #[error("{0}")]
    Other(String),
}

impl From<String> for UnfilledReason {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// The reason why the device of a rank is unknown.
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
        "device {given} was given for rank {rank}, but its own `{file}` names {found}: give the right one, or move \
         that file away"
    )]
    Contradicted {
        /// The rank.
        rank: String,
        /// The device in the map.
        given: u32,
        /// A file of the rank.
        file: String,
        /// The device in the name or content of that file.
        found: u32,
    },
    /// The rank's own files name different devices.
    #[error(
        "its files disagree about its device: `{}` names {}, `{}` names {}; give the device of rank {rank}",
        .files[0].1, .files[0].0, .files[1].1, .files[1].0
    )]
    Ambiguous {
        /// The rank.
        rank: String,
        /// Two devices, each with a file.
        files: [(u32, String); 2],
    },
    /// Neither a file nor the map has the device.
    #[error("no file of rank {rank} names its device, and RANK_ID is no device")]
    Unknown {
        /// The rank.
        rank: String,
    },
}
