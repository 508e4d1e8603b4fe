//! Kernel caches that frameworks and toolkits wrote: MindSpore's, AKG's and CANN's.
//!
//! [`scan`] finds out which kernels are intact, which are damaged or orphaned, and what the framework makes of each.
//! [`quarantine`] moves away what is wrong, and [`restore`] moves it back; [`fill`] gives ranks the kernels that other
//! ranks have; [`gc`] limits the size of CANN's caches. [`FrameworkFiles`] judges and keeps what a
//! [`View`](opkeep_kernel_meta::View) replaces.

pub mod fill;
pub mod gc;
pub mod import;
mod occupant;
mod open_files;
pub mod quarantine;
pub mod restore;
pub mod scan;
mod tree;

pub use occupant::FrameworkFiles;
pub use tree::{Links, Tree};
