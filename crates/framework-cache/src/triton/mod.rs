//! The directory in which Triton keeps its kernels (`TRITON_CACHE_DIR`): a directory for each of its keys.
//!
//! | file of a key | contents |
//! |---|---|
//! | `__grp__<name>.json` | the list of the files of one kernel, which Triton writes last |
//! | `<name>.json` | the kernel's metadata, with its target and the key |
//! | `<name>.cubin`, `<name>.hsaco` | its object; other backends have other suffixes |
//! | `<name>.ttir`, `<name>.ptx`, ... | its intermediate code |
//! | `<name>.json.opkeep` | opkeep's record: which entry of the store the files are, with their digests |
//! | others | launchers and results of tuning, which are in no list |
//!
//! opkeep gives Triton the files in directories beside that of the key, one for each toolchain (`<key>.opkeep-<digest>`); that of
//! the key has copies of the last one, under second names of the same files.
//!
//! Triton checks nothing when it takes these files. A kernel is intact if its list and its metadata can be read, all files of
//! the list are there, the metadata is of the directory's key, the object has the kernel, and all files are as the record
//! states. Bytes can differ all the same: only the [entry](opkeep_kernel_entry::GroupRecord) of the store has their digests.
//! [`repair`](repair()) writes the files of the entry again, and quarantines damaged kernels that have none.

mod compare;
mod find;
mod group;
mod metadata;
mod record;
mod repair;
mod stored;

pub use compare::{Compared, ComparedFile, FileState};
pub use find::{KeyDir, TritonDir, framework_key, take};
pub use group::{KeyFiles, TritonFile, TritonGroup};
pub use metadata::TritonMetadata;
pub use record::TritonRecord;
pub use repair::{QuarantinedGroup, RepairedDir, SkippedGroup, TritonRepairOptions, WrittenGroup, repair};
pub use stored::{StoredGroup, TRITON};
