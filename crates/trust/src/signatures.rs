//! The signatures of an entry, and the member that keeps them.

use std::collections::BTreeSet;
use std::str;

use opkeep_text::counted;
use thiserror::Error;

use crate::signature::Signature;

/// The name of the member of an entry that keeps its signatures.
pub const SIGNATURES_MEMBER: &str = "signatures";

/// The start of the line with the namespace.
const NAMESPACE: &[u8] = b"namespace ";

/// The signatures of an entry by any number of signers, up to [`MAX_LINES`](Self::MAX_LINES).
///
/// Encoded as lines, sorted by their bytes, each with one signature. Other lines are kept, so that a later version can add
/// signatures of other kinds; they count as no signature.
///
/// In a store, one more line, `namespace NAME`, has the namespace that the signatures were made for: hosts use one store for several
/// namespaces, and the name is needed to verify a signature. The line proves nothing. An entry that leaves the store goes without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    lines: BTreeSet<Vec<u8>>,
}

impl Signatures {
    /// The maximum number of lines. It bounds the time that a verification takes, since anyone can add lines to an entry.
    pub const MAX_LINES: usize = 64;
    /// The maximum number of bytes of all lines.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// No signatures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the member of an entry.
    ///
    /// # Errors
    /// It has more lines or bytes than an entry may have.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignaturesTooLarge> {
        let lines = || bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        // With the end of the last line, which encoding adds.
        let bytes_of_lines = bytes.len() + usize::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
        let found = SignaturesTooLarge { lines: lines().count(), bytes: bytes_of_lines };
        match found.lines <= Self::MAX_LINES && found.bytes <= Self::MAX_BYTES {
            true => Ok(Self { lines: opkeep_order::set(lines().map(<[u8]>::to_vec)) }),
            false => Err(found),
        }
    }

    /// The bytes of the member. Empty without lines.
    pub fn encode(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
    }

    /// Adds a signature. If there is no space for it, lines without a signature make way, then the last ones by order: what
    /// others added never keeps a host from adding its own.
    pub fn insert(&mut self, signature: &Signature) {
        let line = signature.to_string().into_bytes();
        while !self.lines.contains(&line) && !self.has_space_for(line.len()) {
            let unknown = self.lines.iter().rfind(|line| read(line).is_none());
            let Some(last) = unknown.or_else(|| self.lines.last()).cloned() else { break };
            self.lines.remove(&last);
        }
        self.lines.insert(line);
    }

    fn has_space_for(&self, line: usize) -> bool {
        let bytes: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        self.lines.len() < Self::MAX_LINES && bytes + line < Self::MAX_BYTES
    }

    /// The namespaces that the signatures of an entry in a store may be for: the recorded one, if there is one, and `current`.
    pub fn namespaces<'a>(&'a self, current: &'a str) -> impl Iterator<Item = &'a str> {
        let recorded = self.namespace().filter(|recorded| *recorded != current);
        recorded.into_iter().chain([current])
    }

    /// The namespace that a store recorded with the signatures. `None`: there is no record, or there are several.
    pub fn namespace(&self) -> Option<&str> {
        let mut records = self.lines.iter().filter_map(|line| namespace_in(line));
        records.next().filter(|_| records.next().is_none())
    }

    /// The signatures as a store keeps them, with a record of the namespace that they are for. Without a record if the name has white
    /// space, or if there is no space for it.
    #[must_use]
    pub fn with_namespace(&self, namespace: &str) -> Self {
        let mut recorded = self.without_namespace();
        let line = [NAMESPACE, namespace.as_bytes()].concat();
        if namespace_in(&line).is_some() && recorded.has_space_for(line.len()) {
            recorded.lines.insert(line);
        }
        recorded
    }

    /// The signatures as they leave a store.
    #[must_use]
    pub fn without_namespace(&self) -> Self {
        let lines = self.lines.iter().filter(|line| !line.starts_with(NAMESPACE));
        Self { lines: opkeep_order::set(lines.cloned()) }
    }

    /// The signatures, in the order of their lines.
    pub fn iter(&self) -> impl Iterator<Item = Signature> {
        self.lines.iter().filter_map(|line| read(line))
    }

    /// Whether there is no line at all.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The namespace in a line, if it is a record of one. No signature begins as such a line does: it has no space.
fn namespace_in(line: &[u8]) -> Option<&str> {
    let name = str::from_utf8(line.strip_prefix(NAMESPACE)?).ok()?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// The signature in a line, if it has one.
fn read(line: &[u8]) -> Option<Signature> {
    str::from_utf8(line).ok()?.parse().ok()
}

impl FromIterator<Signature> for Signatures {
    fn from_iter<I: IntoIterator<Item = Signature>>(signatures: I) -> Self {
        let mut all = Self::new();
        signatures.into_iter().for_each(|signature| all.insert(&signature));
        all
    }
}

/// The member with the signatures is larger than an entry may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the signatures have {lines} and {bytes}, expected at most {} and {}",
    counted(Signatures::MAX_LINES, "line"),
    counted(Signatures::MAX_BYTES, "byte"),
    lines = counted(*.lines, "line"),
    bytes = counted(*.bytes, "byte")
)]
pub struct SignaturesTooLarge {
    /// The number of lines.
    pub lines: usize,
    /// The number of bytes.
    pub bytes: usize,
}
