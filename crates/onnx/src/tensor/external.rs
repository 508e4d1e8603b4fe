//! Elements in files beside the model.
//!
//! A model names these files, and a model is not trusted. So a name leads only to files below the model's directory: it
//! is relative and has no `..`, and the targets of links are checked before a file is opened. One link out of the
//! directory is allowed: if the model's own file is a link, the files that it names may be links into the directory of
//! the link's target, as in the caches of model hubs, which keep every file of a download under another name.
//!
//! The directory is opened first, then each name in turn without following links, so that the file that was checked is
//! the file that is read. A file is not kept open, since a model may have a file for each of thousands of tensors; when
//! its elements are read, it must still be the same file.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::{FileState, Fs};
use opkeep_ops::Elements;

use crate::error::{ExternalError, shortened};
use crate::opened::{Opened, Unopened};
use crate::tensor::payload::{self, Truth};
use crate::wire::proto::StringStringEntryProto;

/// The limit on the length of a name.
const MAX_LOCATION_BYTES: usize = 4096;

/// The elements of a tensor of `bytes` bytes in a file beside `model`.
pub(crate) fn elements(
    entries: &[StringStringEntryProto],
    bytes: u64,
    truth: Truth,
    model: Option<&Path>,
) -> Result<External, ExternalError> {
    let model = model.ok_or(ExternalError::NoDirectory)?;
    let entries = Entries::of(entries)?;
    if let Some(found) = entries.length.filter(|length| *length != bytes) {
        return Err(ExternalError::Length { expected: bytes, found });
    }
    let file = Beside::find(model, entries.location)?;
    let state = file.open()?.state;
    let offset = entries.offset;
    if offset.checked_add(bytes).is_none_or(|end| end > state.len) {
        let path = file.named;
        return Err(ExternalError::TooShort { path, offset, bytes, found: state.len });
    }
    Ok(External { file, state, offset, bytes, truth })
}

/// The content of `external_data`. Its `checksum` is not compared, since that would take reading the whole file.
struct Entries<'a> {
    location: &'a str,
    offset: u64,
    length: Option<u64>,
}

impl<'a> Entries<'a> {
    fn of(entries: &'a [StringStringEntryProto]) -> Result<Self, ExternalError> {
        let value = |key: &'static str| {
            let mut found = entries.iter().filter(|entry| entry.key == key).map(|entry| entry.value.as_str());
            match (found.next(), found.next()) {
                (value, None) => Ok(value),
                (_, Some(_)) => Err(ExternalError::Entry {
                    key,
                    expected: "one value",
                    found: "there more than once".to_owned(),
                }),
            }
        };
        let number = |key: &'static str| match value(key)? {
            Some(text) => text.parse().map(Some).map_err(|_| ExternalError::Entry {
                key,
                expected: "a whole number of bytes",
                found: format!("`{}`", shortened(text)),
            }),
            None => Ok(None),
        };
        Ok(Self {
            location: checked_location(value("location")?)?,
            offset: number("offset")?.unwrap_or(0),
            length: number("length")?,
        })
    }
}

/// Checks, by the name alone, that a file is below the directory.
fn checked_location(location: Option<&str>) -> Result<&str, ExternalError> {
    let wrong = |found: String| ExternalError::Entry {
        key: "location",
        expected: "the path of a file in or below the model's directory, without `..`",
        found,
    };
    let location = location.ok_or_else(|| wrong("not there".to_owned()))?;
    let is_name = |part: &str| !part.is_empty() && part != "..";
    if location.len() <= MAX_LOCATION_BYTES && !location.contains('\0') && location.split('/').all(is_name) {
        return Ok(location);
    }
    Err(wrong(format!("`{}`", shortened(&location.replace('\0', "\\0")))))
}

/// A file beside a model.
#[derive(Debug)]
struct Beside {
    /// Its path as the model names it, for messages.
    named: PathBuf,
    /// The directory that contains it, and its path from there, both without links.
    directory: PathBuf,
    inner: PathBuf,
}

impl Beside {
    fn find(model: &Path, location: &str) -> Result<Self, ExternalError> {
        let named = directory_of(model).join(location);
        let real = |path: &Path| {
            Fs::new().real_path(path).map_err(|source| ExternalError::Io { path: path.to_owned(), source })
        };
        let leads_to = real(&named)?;
        let directory = real(directory_of(model))?;
        // The second directory differs only if the model's file is a link.
        for directory in [&directory, directory_of(&real(model)?)] {
            if let Ok(inner) = leads_to.strip_prefix(directory) {
                return Ok(Self { named, directory: directory.to_owned(), inner: inner.to_owned() });
            }
        }
        Err(ExternalError::Outside { path: named, leads_to, directory })
    }

    fn open(&self) -> Result<Opened, ExternalError> {
        Opened::beneath(&self.directory, &self.inner).map_err(|unopened| {
            let path = self.named.clone();
            match unopened {
                Unopened::NotAFile(found) => ExternalError::NotAFile { path, found },
                Unopened::Io(source) => ExternalError::Io { path, source },
            }
        })
    }
}

/// The directory that contains a file.
fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Elements in an existing file beside the model, read on demand.
#[derive(Debug)]
pub(crate) struct External {
    file: Beside,
    state: FileState,
    offset: u64,
    bytes: u64,
    truth: Truth,
}

impl Elements for External {
    fn copy_to(&self, out: &mut [u8]) -> io::Result<()> {
        payload::fits(self.bytes, out)?;
        let opened = self.file.open().map_err(io::Error::other)?;
        if !opened.state.is_same_content(&self.state) {
            let path = self.file.named.display();
            return Err(io::Error::other(format!("`{path}` has changed since the model was read")));
        }
        opened.read_at(out, self.offset)?;
        self.truth.settle(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(model: Option<&Path>) -> Result<External, ExternalError> {
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        elements(&[entry("location", "w.bin"), entry("offset", "2")], 3, Truth(false), model)
    }

    #[test]
    fn a_model_without_a_file_has_none_beside_it() {
        assert!(matches!(found(None), Err(ExternalError::NoDirectory)));
    }

    #[test]
    fn a_changed_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (model, weights) = (directory.path().join("m.onnx"), directory.path().join("w.bin"));
        let write = |path: &Path, bytes: &[u8]| Fs::new().replace(path, &[bytes], 0o666).unwrap();
        write(&model, b"");
        write(&weights, b"abcdef");
        let external = found(Some(&model)).unwrap();
        let mut out = [0; 3];
        external.copy_to(&mut out).unwrap();
        assert_eq!(&out, b"cde");
        assert_eq!(external.copy_to(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // Another file of the same size, and other content in the same file.
        write(&weights, b"ghijkl");
        let error = external.copy_to(&mut out).unwrap_err().to_string();
        assert!(error.ends_with("w.bin` has changed since the model was read"), "{error}");
        let external = found(Some(&model)).unwrap();
        let file = std::fs::OpenOptions::new().append(true).open(&weights).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(external.copy_to(&mut out).is_err());
        // A link in its place is not followed.
        let external = found(Some(&model)).unwrap();
        std::os::unix::fs::symlink("w.bin", directory.path().join("link")).unwrap();
        external.copy_to(&mut out).unwrap();
        let (from, to) = (directory.path().join("link"), &weights);
        Fs::new().rename(&weights, &directory.path().join("kept")).unwrap();
        Fs::new().rename(&from, to).unwrap();
        assert!(external.copy_to(&mut out).is_err());
    }
}
