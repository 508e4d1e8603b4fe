//! Groups of files: the kernels of frameworks that compile by themselves, such as Triton.
//!
//! A framework keeps named files under a key of its own: `add.cubin`, `add.json`, `add.ttir`. Such a group is one entry:
//! it is complete, or it is not there. Its members:
//!
//! | member | contents |
//! |---|---|
//! | `x/<file name>`, eager | the files |
//! | `group` | the [`GroupRecord`]: the parts of the key, and what reports state |
//! | `expectations` | the rules by which the kernel among the files was validated, if there are any |
//!
//! The key of the entry is computed from the parts in the record ([`GroupKey::digest`]), in a domain of its own. So
//! [`verify_entry`](crate::verify_entry) can judge whether an entry belongs to its key, and no group can be taken for the
//! kernel of a job: an entry holds either.

mod encode;
mod file_names;
mod files;
mod key;
mod record;
mod verify;

pub use encode::{EncodedGroup, encode_group};
pub use file_names::{original_file_name, stored_file_name};
pub use files::{GroupFiles, MAX_GROUP_FILES, group_file_heads};
pub use key::{GROUP_SCHEMA, GroupKey};
pub use record::GroupRecord;
pub(crate) use verify::verify_group;
pub use verify::verify_group_binding;
