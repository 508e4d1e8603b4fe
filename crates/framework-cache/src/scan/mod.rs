//! Scans the caches of frameworks: decides which kernels are intact, and how the framework reacts to the others. A scan
//! changes nothing.
//!
//! [`find`] searches a directory for caches; [`scan`](scan()) judges all files in one cache. The known caches:
//!
//! | cache | directory | kernels |
//! |---|---|---|
//! | MindSpore | `kernel_meta`, `rank_N/kernel_meta` | `<stem>.json`, `<stem>.o` or `lib<stem>.so`, `<stem>.info` |
//! | AKG | `akg_kernel_meta`, and `akg`, `tbe`, `composite` in it | `<stem>.json`, `<stem>.o`, `<stem>.so`, `<stem>.info` |
//! | CANN | `kernel_cache/<soc>` | `<kernel>.json`, the object that it names, `_pre.json`, `.lock`, `.temp` |
//! | operator package, or the tree that it is built in | `tbe/kernel/<soc>/<op>`, `kernel/<soc>`, `binary/<soc>` | `<kernel>.json`, the object that it names |
//! | a compiler's work | `kernel_meta_<process>/kernel_meta` | `<kernel>.json`, the object that it names |
//!
//! The name of a directory shows which framework owns it, and that framework's rules decide which files belong to a
//! kernel: MindSpore uses the name of the `.json`, CANN its content. Caches are found at any depth, also in each other,
//! but not in pseudo file systems (`/proc`). The scan reaches files through descriptors of directories and follows no
//! link.
//!
//! A kernel is *intact* if its `.json` can be read and describes the object beside it, as [`opkeep_validator`] decides.
//! A kernel is for *another chip* if it is intact, but its descriptor or the directory names another chip than its
//! object; see `chip_comparison`. A kernel is an *orphan* if the `.json` is missing, and *damaged* in every other case.
//! A damaged kernel or an orphan is *in progress* if it was written less than [`YOUNG`] ago, is open or locked, or was
//! replaced while it was read: a build may be writing it.
//!
//! The reaction of a framework to a kernel (`behavior`) follows from the framework's sources.
//!
//! One pass over the descriptor's bytes confirms a name ([`name_matches`](opkeep_descriptor::name_matches)): parsing
//! the whole descriptor would take longer than the rest of the scan.

mod behavior;
pub(crate) mod cache_dir;
mod chip;
mod chip_comparison;
mod extract;
pub(crate) mod file_set;
pub(crate) mod in_use;
mod item;
pub(crate) mod judge;
mod other_files;
mod own_notes;
mod ranks;
mod scanner;
mod shared_files;

pub use cache_dir::{CacheDir, CacheDirs, Kind, OtherFiles, find, find_through_links, is_in_quarantine};
pub use chip::{Built, NamedBy, OtherChip};
pub use extract::{CacheReader, ExtractError, ExtractedKernel};
pub use in_use::YOUNG;
pub use item::{Effect, FrameworkBehavior, Item, ItemKind, ItemProblem, ItemState, Kernel, Note, Orphan};
pub use opkeep_kernel_meta::InUse;
pub use other_files::other_chip;
pub use ranks::{MissingKernel, RankCache, RankComparison, RankCopy, compare};
pub(crate) use scanner::judge_one;
pub use scanner::{CacheScan, ScanOptions, scan};
