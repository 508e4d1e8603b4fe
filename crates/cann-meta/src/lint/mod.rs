//! What the vendors' own parsers would do with a `.json`.
//!
//! Not a verdict: a kernel that MindSpore 2.0 cannot load may be just right for CANN. Each lint names the reader, what
//! it would do, the field, what it expects there and what it found. They look at the bytes themselves, so they also
//! judge a document that [`KernelMeta::parse`](crate::KernelMeta::parse) refuses. Of one reader, the first 100 are listed.
//!
//! Both vendors read JSON with nlohmann's library, which is not strict: it gives a float where a whole number is asked
//! for, cuts it to the width asked for, and gives true as 1 where that width is 32 bits or less.

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
