//! The garbage collection of CANN's own cache, `kernel_cache/<soc>`.
//!
//! CANN evicts kernels itself: at the start of a process, if the files in the directory have at least as many bytes as
//! the limit. CANN counts every file, but deletes only descriptions and objects. So `_pre.json`, `.h`, `.temp` and
//! `.lock` files and objects without a description accumulate. When these files alone reach the limit, each start of a
//! process evicts every kernel that was idle for half an hour, and the size stays above the limit. [`gc`](gc()) counts
//! as CANN does, and deletes in this order:
//!
//! 1. useless files: orphans, temporary files, locks of missing files; even below the limit;
//! 2. kernels and precompiles that were idle for [`GcOptions::older_than`], if that is set;
//! 3. above the limit: precompiles without a kernel, then kernels, the longest idle first, until the size to remain is
//!    reached.
//!
//! Files that were used within the last half hour stay, whatever the options. Files that another process has open or
//! locked stay, and so do unknown files. [`gc`](gc()) holds CANN's eviction lock while it runs.
//!
//! The last use of a kernel is the access time of its description, which CANN sets at each hit. [`gc`](gc()) reads the
//! description without a change of that time.

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
