//! A compiled kernel.

/// A compiled kernel: the object, its description, and any further files that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The `.json`, byte for byte as the compiler wrote it.
    pub json: Vec<u8>,
    /// The `.o`, byte for byte.
    pub object: Vec<u8>,
    /// Further files: a deterministic twin, the sub-objects of a `jsonList` master, a header.
    pub extra: Vec<Member>,
}

/// A further file of an [`Artifact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its file name, without a folder.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}
