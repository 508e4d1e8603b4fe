//! The record beside a group in the directory of Triton's own key.
//!
//! PyTorch's Inductor carries all files of that directory in its own cache, and writes them into the same directory elsewhere.
//! The record says of which entry they are, so with which compilers they were made, and which bytes they should have:
//!
//! ```text
//! opkeep 1 <key of the entry> <number of files>
//! <SHA-256 digest> add.json
//! <SHA-256 digest> add.cubin
//! ```

use opkeep_embed::Digest;

/// The first word and the version.
const HEAD: &str = "opkeep 1 ";

/// The record beside a group.
pub(crate) struct Record {
    /// The key of the entry.
    pub(crate) entry: Digest,
    /// The names of the files, and the digests of their bytes.
    pub(crate) files: Vec<(String, Digest)>,
}

impl Record {
    /// The name of the record of the group `group`.
    pub(crate) fn name(group: &str) -> String {
        format!("{group}.opkeep")
    }

    /// The text of the record of an entry.
    pub(crate) fn render<'a>(
        entry: &Digest,
        files: impl ExactSizeIterator<Item = (&'a str, &'a Digest)>,
    ) -> String {
        let head = format!("{HEAD}{entry} {}\n", files.len());
        let lines = files.map(|(name, digest)| format!("{digest} {name}\n"));
        head + &lines.collect::<String>()
    }

    /// Reads a record. `None` if it is none, is cut, or is one of a later version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split('\n');
        let (entry, count) = lines.next()?.strip_prefix(HEAD)?.split_once(' ')?;
        let file = |line: &str| {
            let (digest, name) = line.split_once(' ')?;
            Some((name.to_owned(), digest.parse().ok()?))
        };
        let files: Vec<_> = lines.map(file).collect::<Option<_>>()?;
        (files.len().to_string() == count).then_some(Self { entry: entry.parse().ok()?, files })
    }
}
