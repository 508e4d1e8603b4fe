//! What a command writes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkeep_launcher::{Stream, Streams};

/// The outputs of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

/// Keeps what is forwarded, and calls a function for each part.
pub(crate) struct Sink<'a> {
    pub(crate) texts: Texts,
    pub(crate) on_write: &'a dyn Fn(&[u8]),
}

impl Streams for Sink<'_> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Stdout => self.texts.out.extend_from_slice(bytes),
            Stream::Stderr => self.texts.err.extend_from_slice(bytes),
        }
        (self.on_write)(bytes);
        Ok(())
    }
}

/// The kind, the mode and the content of all below a directory.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let metadata = fs::metadata(&path).unwrap();
            let bytes = if metadata.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            if metadata.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, (metadata.mode(), bytes));
        }
    }
    found
}
