//! The stored result of a command.
//!
//! A result is a group of files: `record`, and one file for each output that is not empty and each text.
//!
//! ```text
//! "opkeep result 1\n"
//! number of outputs (4 bytes, little-endian)
//! each: root's name (1 byte of length), rest (2 bytes of length), kind (1 byte: 0 = file, 1 = directory), mode (2), whether the file has bytes (1)
//! ```
//!
//! The bytes of the output with number `n` are in the file `output-n`. A text (`stdout`, `stderr`) is a list of segments: a byte
//! 0 with 4 bytes of length and as many bytes, or a byte 1 with 1 byte of length and the name of a root.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use opkeep_embed::{FileGroup, MAX_GROUP_FILES};

use crate::bytes::{Bytes, OutOfBytes, put_u16, put_u32};
use crate::roots::{PathName, Roots, Segment};

const HEAD: &[u8] = b"opkeep result 1\n";
const RECORD: &str = "record";
const TEXTS: [&str; 2] = ["stdout", "stderr"];
/// The files of a group beside the outputs.
const OTHER_FILES: usize = 1 + TEXTS.len();
/// The number of outputs that can be stored.
pub(crate) const MAX_OUTPUTS: usize = MAX_GROUP_FILES - OTHER_FILES;
/// The number of outputs in a record, directories among them.
const MAX_RECORDS: usize = 4096;

/// The result of a command that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredResult {
    /// The outputs, in the order in which they are to be written.
    pub(crate) outputs: Vec<Output>,
    /// The texts of standard output and standard error, with the names of roots.
    pub(crate) texts: [Vec<u8>; 2],
}

/// A file or a directory that a command made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) name: PathName,
    /// The bits of its permissions.
    pub(crate) mode: u32,
    pub(crate) content: OutputContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputContent {
    File(Vec<u8>),
    Directory,
}

impl StoredResult {
    /// The files of the group: names and bytes. `record` is the first one.
    pub(crate) fn files<'a>(&'a self, record: &'a [u8]) -> Vec<(String, &'a [u8])> {
        let mut files = vec![(RECORD.to_owned(), record)];
        for (number, output) in self.outputs.iter().enumerate() {
            if let OutputContent::File(bytes) = &output.content
                && !bytes.is_empty()
            {
                files.push((output_name(number), bytes));
            }
        }
        let texts = TEXTS.iter().zip(&self.texts).filter(|(_, text)| !text.is_empty());
        files.extend(texts.map(|(name, text)| ((*name).to_owned(), text.as_slice())));
        files
    }

    /// The bytes of the record. `None`: a path is longer than a record can state.
    pub(crate) fn record(&self) -> Option<Vec<u8>> {
        let mut bytes = HEAD.to_vec();
        put_u32(&mut bytes, self.outputs.len());
        for Output { name: PathName { root, rest }, mode, content } in &self.outputs {
            let rest = rest.as_os_str().as_bytes();
            bytes.push(u8::try_from(root.len()).ok()?);
            bytes.extend_from_slice(root.as_bytes());
            put_u16(&mut bytes, u16::try_from(rest.len()).ok()?.into());
            bytes.extend_from_slice(rest);
            let (kind, has_bytes) = match content {
                OutputContent::File(bytes) => (0, !bytes.is_empty()),
                OutputContent::Directory => (1, false),
            };
            bytes.push(kind);
            put_u16(&mut bytes, (mode & 0o7777) as usize);
            bytes.push(u8::from(has_bytes));
        }
        Some(bytes)
    }

    /// The result in a group. `None`: it is of another version, or damaged.
    pub(crate) fn of(group: &FileGroup) -> Option<Self> {
        Self::decode(|name| group.get(name))
    }

    fn decode<'a>(file: impl Fn(&str) -> Option<&'a [u8]>) -> Option<Self> {
        let texts = TEXTS.map(|name| file(name).unwrap_or_default().to_vec());
        let record = file(RECORD)?.strip_prefix(HEAD)?;
        let outputs = outputs(&mut Bytes::new(record), file).ok()??;
        Some(Self { outputs, texts })
    }
}

fn output_name(number: usize) -> String {
    format!("output-{number}")
}

/// The outputs in a record. `None`: it has a value that no record has.
fn outputs<'a>(
    record: &mut Bytes<'_>,
    file: impl Fn(&str) -> Option<&'a [u8]>,
) -> Result<Option<Vec<Output>>, OutOfBytes> {
    let count = record.u32()?;
    if count > MAX_RECORDS {
        return Ok(None);
    }
    let mut outputs = Vec::new();
    for number in 0..count {
        let length = usize::from(record.u8()?);
        let root = record.take(length)?.to_vec();
        let length = record.u16()?;
        let rest = PathBuf::from(OsString::from_vec(record.take(length)?.to_vec()));
        let (kind, mode, has_bytes) = (record.u8()?, record.u16()? as u32, record.u8()?);
        let content = match (kind, has_bytes) {
            (0, 0) => OutputContent::File(Vec::new()),
            (0, 1) => match file(&output_name(number)) {
                Some(bytes) => OutputContent::File(bytes.to_vec()),
                None => return Ok(None),
            },
            (1, 0) => OutputContent::Directory,
            _ => return Ok(None),
        };
        let Ok(root) = String::from_utf8(root) else { return Ok(None) };
        outputs.push(Output { name: PathName { root, rest }, mode: mode & 0o777, content });
    }
    Ok(record.is_empty().then_some(outputs))
}

/// A text with the names of roots in place of their paths.
pub(crate) fn encode_text(roots: &Roots, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in roots.segments(text) {
        match segment {
            Segment::Bytes(part) => {
                bytes.push(0);
                put_u32(&mut bytes, part.len());
                bytes.extend_from_slice(part);
            }
            Segment::Root(name) => {
                bytes.push(1);
                bytes.push(name.len() as u8);
                bytes.extend_from_slice(name.as_bytes());
            }
        }
    }
    bytes
}

/// The text with the paths of these roots. `None`: it is damaged, or a root of it is not declared here.
pub(crate) fn decode_text(roots: &Roots, encoded: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut text) = (Bytes::new(encoded), Vec::new());
    while !bytes.is_empty() {
        match bytes.u8().ok()? {
            0 => {
                let length = bytes.u32().ok()?;
                text.extend_from_slice(bytes.take(length).ok()?);
            }
            1 => {
                let length = usize::from(bytes.u8().ok()?);
                let name = std::str::from_utf8(bytes.take(length).ok()?).ok()?;
                text.extend_from_slice(roots.path_of(name)?.as_os_str().as_bytes());
            }
            _ => return None,
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> StoredResult {
        let name = |root: &str, rest: &[u8]| PathName {
            root: root.to_owned(),
            rest: PathBuf::from(OsString::from_vec(rest.to_vec())),
        };
        let outputs = vec![
            Output { name: name("build", b"out"), mode: 0o750, content: OutputContent::Directory },
            Output {
                name: name("build", b"out/a\xff.o"),
                mode: 0o640,
                content: OutputContent::File(b"object".to_vec()),
            },
            Output { name: name("", b"/x/empty"), mode: 0o644, content: OutputContent::File(Vec::new()) },
        ];
        StoredResult { outputs, texts: [b"\0\x01\0\0\0x".to_vec(), Vec::new()] }
    }

    #[test]
    fn results_survive_and_damaged_ones_are_refused() {
        let result = result();
        let record = result.record().unwrap();
        let files = result.files(&record);
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["record", "output-1", "stdout"]);
        let decode = |record: &[u8]| {
            StoredResult::decode(|wanted| {
                let file = files.iter().find(|(name, _)| name == wanted).map(|(_, bytes)| *bytes);
                if wanted == RECORD { Some(record.to_vec().leak()) } else { file }
            })
        };
        assert_eq!(decode(&record), Some(result.clone()));
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), None, "{length}");
        }
        assert_eq!(decode(&[&record[..], b"x"].concat()), None);
    }

    #[test]
    fn any_text_survives() {
        let roots = Roots::new([("build".to_owned(), PathBuf::from("/x/build"))]).unwrap();
        let moved = Roots::new([("build".to_owned(), PathBuf::from("/y"))]).unwrap();
        for text in [&b""[..], b"\0\x01build", b"in /x/build/a: \xff", b"<build> 1", b"/x/build"] {
            let encoded = encode_text(&roots, text);
            assert_eq!(decode_text(&roots, &encoded).unwrap(), text);
        }
        let encoded = encode_text(&roots, b"-I/x/build/a /x/builder");
        assert_eq!(decode_text(&moved, &encoded).unwrap(), b"-I/y/a /x/builder");
        assert_eq!(decode_text(&Roots::default(), &encoded), None);
        assert_eq!(decode_text(&roots, &encoded[..encoded.len() - 1]), None);
    }
}
