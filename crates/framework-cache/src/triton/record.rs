//! The record that opkeep keeps beside a group in Triton's directory (`<name>.json.opkeep`), and Triton's list of a group.
//!
//! The record states of which entry of the store the files are, and which bytes they should have:
//!
//! ```text
//! opkeep 1 <key of the entry> <number of files>
//! <SHA-256 digest> add.json
//! <SHA-256 digest> add.cubin
//! ```

use std::path::Path;

use opkeep_digest::Digest;

use super::find::LIST;

/// The first word and the version.
const HEAD: &str = "opkeep 1 ";

/// The record beside a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TritonRecord {
    /// The key of the entry.
    pub entry: Digest,
    /// The names of the files, and the digests of their bytes.
    pub files: Vec<(String, Digest)>,
}

impl TritonRecord {
    /// The name of the record of the group `group`.
    pub(super) fn name(group: &str) -> String {
        format!("{group}.opkeep")
    }

    /// Reads a record. `None` if it is none, is cut, or is one of a later version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split('\n');
        let (entry, count) = lines.next()?.strip_prefix(HEAD)?.split_once(' ')?;
        let file = |line: &str| {
            let (digest, name) = line.split_once(' ')?;
            is_name(name).then_some(())?;
            Some((name.to_owned(), digest.parse().ok()?))
        };
        let files: Vec<_> = lines.map(file).collect::<Option<_>>()?;
        (files.len().to_string() == count).then_some(Self { entry: entry.parse().ok()?, files })
    }

    /// The text of the record.
    pub fn render(&self) -> String {
        let head = format!("{HEAD}{} {}\n", self.entry, self.files.len());
        head + &self.files.iter().map(|(name, digest)| format!("{digest} {name}\n")).collect::<String>()
    }

    /// Whether the bytes are those of a record of a later version, which this one must not replace.
    pub(super) fn is_later(bytes: &[u8]) -> bool {
        bytes.starts_with(b"opkeep ") && !bytes.starts_with(HEAD.as_bytes())
    }
}

/// Whether this can be the name of a file beside another one.
pub(super) fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// The name of Triton's list of the files of the group `group`.
pub(super) fn list_name(group: &str) -> String {
    format!("{LIST}{group}")
}

/// Triton's list of the files of a group, with the paths that they have in `dir`.
pub(super) fn render_list<'a>(dir: &Path, names: impl Iterator<Item = &'a str>) -> String {
    let dir = dir.to_string_lossy();
    let pair = |name| format!("\"{}\": \"{}\"", ascii_json(name), ascii_json(&format!("{dir}/{name}")));
    format!("{{\"child_paths\": {{{}}}}}", names.map(pair).collect::<Vec<_>>().join(", "))
}

/// The characters of a JSON text, all in ASCII: as Python renders it.
fn ascii_json(text: &str) -> String {
    let (mut units, mut json) = ([0; 2], String::new());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            ' '..='~' => json.push(letter),
            _ => json.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"))),
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_records_of_this_version_are_read() {
        let digest = Digest::of(b"bytes");
        let files = ["add.json", "@add ä.ttir"].map(|name| (name.to_owned(), digest));
        let record = TritonRecord { entry: Digest::of(b"key"), files: files.to_vec() };
        let text = record.render();
        assert_eq!(TritonRecord::parse(text.as_bytes()), Some(record));
        for end in 0..text.len() {
            assert_eq!(TritonRecord::parse(&text.as_bytes()[..end]), None, "{end}");
        }
        for (from, to) in [("opkeep 1", "opkeep 2"), ("add.json", "../add"), ("add.json", "..")] {
            assert_eq!(TritonRecord::parse(text.replace(from, to).as_bytes()), None, "{to}");
        }
        assert!(TritonRecord::is_later(b"opkeep 2 x") && !TritonRecord::is_later(b"opkeep 1 x"));
    }

    #[test]
    fn a_list_is_json() {
        let list = render_list(Path::new("/c\"a\\ä"), ["a.json", "b\n.ptx"].into_iter());
        assert!(list.is_ascii());
        let json: serde_json::Value = serde_json::from_str(&list).unwrap();
        let expected =
            serde_json::json!({"child_paths": {"a.json": "/c\"a\\ä/a.json", "b\n.ptx": "/c\"a\\ä/b\n.ptx"}});
        assert_eq!(json, expected);
    }
}
