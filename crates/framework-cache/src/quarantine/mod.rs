//! Moves damaged kernels and orphans of a cache to a quarantine, so that the framework compiles those kernels again.
//!
//! No file is deleted, and no link is followed. The quarantine is beside the cache, on the same file system:
//!
//! ```text
//! <base>/rank_0/
//!   kernel_meta/                                the cache
//!   kernel_meta.opkeep-quarantine/
//!     20260901T120000.000Z-4711/                one run of repair
//!       .opkeep-journal                        the files and their states; durable before the first move
//!       square_1_0.json                         files under their paths in the cache
//!       tbe_prebuild_res/a.json
//! ```
//!
//! # Guarantees
//!
//! - **Only the judged files are moved.** Before each rename, the file and all other files of its kernel are compared
//!   with those that the [scan](crate::scan) judged; after the rename, and once more at the end, the moved file is
//!   compared. If a file was replaced meanwhile, the new file gets its name back; if the name was taken again, the new
//!   file stays in quarantine, and is reported.
//! - **Locks are respected**: MindSpore's `file.lock`, AKG's `*_build_tmp.key`, CANN's `op_cache_file_del.lock` and
//!   `<kernel>.lock`, and the lock of builds are held while files are moved.
//! - **A description is moved first and restored last**, so that no reader finds a `.json` beside an incomplete kernel.
//! - **An interrupted run can be undone**, and another run can move the remaining files.

pub(crate) mod dir;
mod error;
pub(crate) mod files;
pub(crate) mod journal;
pub(crate) mod locked_cache;
pub(crate) mod locks;
pub(crate) mod mover;
pub(crate) mod partners;
mod plan;
mod progress;
pub(crate) mod replaced;
mod skipped;

pub use error::RepairError;
pub use mover::{QuarantineOptions, QuarantineReport, QuarantinedItem, quarantine};
pub use opkeep_kernel_meta::RunId;
pub use progress::QuarantineProgress;
pub use skipped::{SkipCause, SkippedItem};
