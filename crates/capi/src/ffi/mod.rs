//! The functions of the interface, and the only `unsafe` code of this crate.
//!
//! All pointers follow the same rules, which each function's safety section refers to:
//!
//! * A pointer to text is null, if the parameter is optional, or points to a text that ends with a byte 0.
//! * A pointer with a count or a size is null, with 0, or points to that many values.
//! * A pointer to a struct with a field `size` points to at least that many bytes.
//! * A pointer to a result may be written, and is aligned.
//! * What a pointer refers to is not changed by other threads during the call. The function keeps no pointer.
//!
//! Null where a value is required, pointers that are not aligned, sizes that no struct has, and text that is not UTF-8 are
//! errors with the code [`Code::Argument`](crate::Code::Argument).
#![expect(unsafe_code, reason = "C passes pointers")]

mod cache;
mod digest;
mod errors;
mod hit;
mod key;
mod pointers;
mod request;
mod ticket;
mod types;
mod verify;

pub use cache::{
    CacheOptions, CacheWarning, opkeep_close, opkeep_finish_uploads, opkeep_next_warning, opkeep_open,
    opkeep_target_close, opkeep_target_open,
};
pub use digest::{opkeep_digest, opkeep_digest_file};
pub use errors::{opkeep_abi, opkeep_last_code, opkeep_last_message, opkeep_version};
pub use hit::{
    HitInfo, opkeep_hit_count, opkeep_hit_file, opkeep_hit_find, opkeep_hit_info, opkeep_hit_release,
};
pub use key::{Key, Part};
pub use request::{
    Answer, Request, opkeep_cancel_new, opkeep_cancel_release, opkeep_cancel_request, opkeep_get,
    opkeep_get_or_begin, opkeep_get_or_begin_many,
};
pub use ticket::{Group, opkeep_abandon, opkeep_publish, opkeep_put, opkeep_ticket_release};
pub use types::{
    Cache, Cancel, File, Hit, OPKEEP_ABI, OPKEEP_DIGEST_SIZE, OPKEEP_LOCAL, OPKEEP_NO_WAIT,
    OPKEEP_STAYS_HERE, Report, Target, Ticket,
};
pub use verify::{
    Finding, Pair, opkeep_report_counts, opkeep_report_finding, opkeep_report_release, opkeep_rules,
    opkeep_verify,
};
