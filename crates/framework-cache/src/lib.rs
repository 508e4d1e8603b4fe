//! Kernel caches that frameworks and toolkits wrote: MindSpore's, AKG's and CANN's.
//!
//! [`scan`] finds out which kernels are intact, which are damaged or orphaned, and what the framework makes of each. It
//! only reads. On its judgement rest:
//!
//! - [`quarantine`], which moves away what is wrong, with a journal first, and [`restore`], which moves it back;
//! - [`fill`], which gives ranks the kernels that other ranks have;
//! - [`import`], which puts kernels into a store;
//! - [`FrameworkFiles`], which judges and keeps what a [`View`](opkeep_kernel_meta::View) replaces.

pub mod fill;
mod foreign_files;
pub mod import;
pub mod quarantine;
pub mod restore;
pub mod scan;
mod tree;

pub use foreign_files::FrameworkFiles;
pub use tree::{Links, Tree};
