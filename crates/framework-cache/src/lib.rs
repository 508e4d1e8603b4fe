//! The kernel caches of frameworks and toolkits: MindSpore's, AKG's, CANN's and Triton's.
//!
//! [`scan`] decides which kernels are intact, damaged or orphaned, and how the framework reacts to each. It only reads.
//! The other modules use its results:
//!
//! - [`quarantine`] moves damaged kernels and orphans away, after it wrote a journal, and [`restore`] moves them back;
//! - [`fill`] copies kernels to ranks that lack them from ranks that have them;
//! - [`import`] publishes kernels in a store;
//! - [`triton`] judges the directory in which Triton keeps its kernels;
//! - [`FrameworkFiles`] judges and quarantines the files that a [`View`](opkeep_kernel_meta::View) replaces.

pub mod fill;
mod framework_files;
pub mod import;
pub mod quarantine;
pub mod restore;
pub mod scan;
mod stem;
mod tree;
pub mod triton;

pub use framework_files::FrameworkFiles;
pub use tree::{Links, Tree};
