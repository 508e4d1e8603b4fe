//! A compiled kernel.

/// A compiled kernel: the object, its metadata, and any further files that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The metadata of the object, byte for byte as the compiler wrote it: the `.json` of a CANN kernel. Empty if there
    /// is none.
    pub metadata: Vec<u8>,
    /// The object, byte for byte.
    pub object: Vec<u8>,
    /// Further files: a deterministic twin, the sub-objects of a `jsonList` master, a header.
    pub extra: Vec<Member>,
}

/// A further file of an [`Artifact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The file name, without a directory.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}
