//! Sets aside what is damaged or left over in a cache, so that the framework makes just that again; and puts it back.
//!
//! Nothing is deleted and no link followed. What is taken away goes beside the cache, on the same file system:
//!
//! ```text
//! <base>/rank_0/
//!   kernel_meta/                                what the framework reads
//!   kernel_meta.opkeep-quarantine/
//!     20260901T120000.000Z-4711/                one run of repair
//!       .opkeep-journal                        which files, in which state; written and synced before the first move
//!       square_1_0.json                         files as they lay in the cache, in the same folders
//!       tbe_prebuild_res/a.json
//! ```
//!
//! # What holds
//!
//! - **What is moved is what was judged.** Right before each rename, the file is compared with the one that the
//!   [survey](crate::scan) judged, and so is all else of its kernel; right after, and once more at the end, the file
//!   that was moved is. One that turns out to be another goes back, unless its name is taken meanwhile: then it stays in
//!   quarantine, which is told.
//! - **Who holds a lock is left alone**: MindSpore's `file.lock`, AKG's `*_build_tmp.key`, CANN's
//!   `op_cache_file_del.lock` and `<kernel>.lock`, and our own. They are held by us while files are moved.
//! - **A description goes first and comes back last**, so that no reader meets a `.json` beside half of a kernel.
//! - **A run that was interrupted can be undone**, and another goes on where it ended.

pub(crate) mod dir;
mod error;
pub(crate) mod io;
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
