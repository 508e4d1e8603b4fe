//! Archives whose bytes follow from their files alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

impl File {
    pub(super) fn data(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), is_program: false }
    }

    pub(super) fn program(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), is_program: true }
    }
}

/// Returns a `.tar.gz` of files by their paths, below a directory `top`. Order, owners, modes and times are not those of the
/// machine: entries are sorted, belong to root, and have the time `seconds` since 1970. A directory comes before its files.
pub(super) fn archive(top: &str, files: &BTreeMap<String, File>, seconds: u64) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut directories = BTreeSet::new();
    for (path, file) in files {
        let path = format!("{top}/{path}");
        for (at, _) in path.match_indices('/') {
            let directory = &path[..=at];
            if directories.insert(directory.to_owned()) {
                append(&mut archive, directory, EntryType::Directory, 0o755, seconds, &[])?;
            }
        }
        let mode = if file.is_program { 0o755 } else { 0o644 };
        append(&mut archive, &path, EntryType::Regular, mode, seconds, &file.bytes)?;
    }
    // Its header has neither a time nor a name.
    let mut compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    compressed.write_all(&archive.into_inner()?)?;
    compressed.finish()
}

fn append(
    archive: &mut Builder<Vec<u8>>,
    path: &str,
    kind: EntryType,
    mode: u32,
    seconds: u64,
    bytes: &[u8],
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(seconds);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, path, bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files() -> BTreeMap<String, File> {
        [
            ("share/b".to_owned(), File::data("two")),
            ("share/a".to_owned(), File::data("")),
            ("bin/opkeep".to_owned(), File::program("one")),
        ]
        .into()
    }

    #[test]
    fn entries_are_sorted_and_have_no_trait_of_the_machine() {
        let bytes = archive("opkeep-1", &files(), 1_700_000_000).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            found.push((entry.path().unwrap().to_string_lossy().into_owned(), header.mode().unwrap(), text));
        }
        let expected = [
            ("opkeep-1/", 0o755, ""),
            ("opkeep-1/bin/", 0o755, ""),
            ("opkeep-1/bin/opkeep", 0o755, "one"),
            ("opkeep-1/share/", 0o755, ""),
            ("opkeep-1/share/a", 0o644, ""),
            ("opkeep-1/share/b", 0o644, "two"),
        ];
        assert_eq!(found, expected.map(|(path, mode, text)| (path.to_owned(), mode, text.to_owned())));
    }

    #[test]
    fn compression_adds_no_time_and_no_name() {
        let bytes = archive("opkeep-1", &files(), 1_700_000_000).unwrap();
        // Magic, deflate, no flags, no time, most compression, no operating system.
        assert_eq!(bytes[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255]);
        assert_eq!(bytes, archive("opkeep-1", &files(), 1_700_000_000).unwrap());
    }

    #[test]
    fn a_long_path_is_whole() {
        let path = format!("{}/{}", "a".repeat(120), "b".repeat(120));
        let files = [(path.clone(), File::data("x"))].into();
        let bytes = archive("opkeep-1", &files, 0).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let paths: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(paths.last(), Some(&format!("opkeep-1/{path}")));
    }
}
