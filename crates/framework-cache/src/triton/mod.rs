//! The directory in which Triton keeps its kernels (`TRITON_CACHE_DIR`): a directory for each of its keys.
//!
//! | file of a key | contents |
//! |---|---|
//! | `__grp__<name>.json` | the list of the files of one kernel, which Triton writes last |
//! | `<name>.json` | the kernel's metadata, with its target and the key |
//! | `<name>.cubin`, `<name>.hsaco` | its object; other backends have other suffixes |
//! | `<name>.ttir`, `<name>.ptx`, ... | its intermediate code |
//! | others | launchers and results of tuning, which are in no list |
//!
//! Triton checks nothing when it takes these files. A kernel is intact if its list and its metadata can be read, all files of
//! the list are there, the metadata is of the directory's key, and the object has the kernel. Bytes that are none of these
//! can differ all the same: only the [entry](opkeep_kernel_entry::GroupRecord) of the store has their digests.

mod find;
mod group;
mod metadata;

pub use find::{KeyDir, TritonDir, framework_key, take};
pub use group::{KeyFiles, TritonFile, TritonGroup};
pub use metadata::TritonMetadata;
