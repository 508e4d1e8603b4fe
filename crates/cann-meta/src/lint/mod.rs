//! Lints: the behaviour of the vendors' parsers on a `.json`.
//!
//! A lint does not make a kernel invalid: a kernel that MindSpore 2.0 cannot load may be valid for CANN. Each lint
//! names the reader, its behaviour, the field, the expected value and the value found. Lints read the bytes, so they
//! also cover a document that [`KernelMeta::parse`](crate::KernelMeta::parse) rejects. At most 100 lints are listed for
//! each reader.
//!
//! Both vendors read JSON with nlohmann's library, which is not strict: it converts a float to a requested whole
//! number, truncates it to the requested width, and converts true to 1 where that width is at most 32 bits.

mod fe;
mod lints;
mod mindspore;
#[cfg(test)]
mod testing;
mod value;

pub use fe::fe_lints;
pub use lints::{Effect, Lint, Vendor};
pub use mindspore::mindspore_lints;
pub(crate) use mindspore::of_document;
