//! The size limits of CANN's own cache, `kernel_cache/<soc>`, kept where the cache is.
//!
//! CANN evicts kernels itself: once, at the start of a process, if the directory has at least as many bytes as the limit. It
//! counts every file, but deletes only descriptions and objects. So `_pre.json`, `.h`, `.temp`, `.lock` and objects without
//! a description accumulate. When they alone reach the limit, each start evicts every kernel that was idle for half an
//! hour, and gains nothing. [`gc`](gc()) counts as CANN does, and deletes in this order:
//!
//! 1. files that are of no use: orphans, temporary files, locks of missing files; always, even below the limit;
//! 2. kernels and precompiles that were idle for [`GcOptions::older_than`];
//! 3. above the limit: precompiles without a kernel, then kernels, the longest idle first, until the remaining size is
//!    reached.
//!
//! Files that were used within half an hour stay, whatever the options. So do files that another process has open or
//! locked, and unknown files. CANN's lock for its own eviction is held meanwhile.
//!
//! The last use of a kernel is the access time of its description, which CANN sets at each hit. [`gc`](gc()) reads the
//! description and leaves that time as it is.

mod describe;
mod disk;
mod error;
mod file_group;
mod gc;
mod grouping;
mod limits;
mod list;
mod progress;
mod remove;
mod usage;

pub use error::GcError;
pub use gc::{GcOptions, GcReport, gc};
pub use limits::LimitWarning;
pub use progress::{GcProgress, IDLE_FOR, InUseCounts};
pub use usage::{FileGroupKind, FileTotals, Usage};
