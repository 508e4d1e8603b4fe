//! A compiled kernel.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A compiled kernel: the object, its metadata, and any further files that belong to it.
///
/// Its `Debug` form has sizes and hashes, not the bytes, which may be many megabytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The metadata of the object, byte for byte as the compiler wrote it: the `.json` of a CANN kernel. Empty if there
    /// is none.
    pub metadata: Vec<u8>,
    /// The object, byte for byte.
    pub object: Vec<u8>,
    /// Further files: a deterministic twin, the sub-objects of a `jsonList` master, a header.
    pub extra: Vec<Member>,
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifact")
            .field("metadata", &Outline(&self.metadata))
            .field("object", &Outline(&self.object))
            .field("extra", &self.extra)
            .finish()
    }
}

/// The size of bytes, and a hash that differs where they differ.
struct Outline<'a>(&'a [u8]);

impl fmt::Debug for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        write!(f, "[bytes: {}, hash: {:016x}]", self.0.len(), hasher.finish())
    }
}

/// A further file of an [`Artifact`].
#[derive(Clone, PartialEq, Eq)]
pub struct Member {
    /// The file name, without a directory.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("bytes", &Outline(&self.bytes)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_is_short_and_differs_with_the_bytes() {
        let of = |byte: u8| {
            let member = Member { name: "twin.o".to_owned(), bytes: vec![byte; 1 << 16] };
            let artifact =
                Artifact { metadata: vec![byte; 1 << 16], object: vec![byte; 1 << 16], extra: vec![member] };
            format!("{artifact:?}")
        };
        let text = of(0);
        assert!(text.len() < 500 && text.matches("bytes: 65536, hash: ").count() == 3, "{text}");
        assert!(text.contains("twin.o") && text != of(1), "{text}");
    }
}
