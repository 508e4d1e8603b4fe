//! SHA-256 digests, domain-tagged hashing, and fingerprints made of named parts.
//!
//! Everything that opkeep compares, it compares by [`Digest`]. Raw bytes (an object file, a toolchain binary)
//! are hashed as they are with [`Digest::of`], so that the value equals what `sha256sum` prints. Structures are
//! hashed with a [`Hasher`], which tags the domain and prefixes every item with its kind and length: no two
//! different sequences of calls feed the same bytes to SHA-256.
//!
//! A [`Fingerprint`] is an ordered list of named parts. Two fingerprints with the same digest have the same parts;
//! [`Fingerprint::diff`] lists the parts that differ, which explains a cache miss.
//!
//! This crate knows nothing of operators or caches, and reads no file: [`FileDigests`] is how others give digests of files.
//!
//! ```
//! use opkeep_digest::{Digest, Hasher};
//!
//! assert!(Digest::of(b"").to_string().starts_with("e3b0c44298fc1c14"));
//!
//! let digest = |parts: &[&str]| {
//!     let mut hasher = Hasher::new("example");
//!     parts.iter().for_each(|part| hasher.str(part));
//!     hasher.finish()
//! };
//! assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
//! ```

mod digest;
mod file_digests;
mod fingerprint;
mod hasher;

pub use digest::{Digest, ParseDigestError};
pub use file_digests::FileDigests;
pub use fingerprint::{Fingerprint, Part, PartChange};
pub use hasher::Hasher;
