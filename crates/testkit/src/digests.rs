//! Digests of files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use opkeep_backend::FileDigests;
use opkeep_digest::{Digest, Fingerprint};
use opkeep_fs::{FileState, Fs};

/// The digests of compilers and interpreters, which have tens of megabytes and do not change while tests run.
static KNOWN: LazyLock<Mutex<HashMap<FileState, Digest>>> = LazyLock::new(Mutex::default);
/// Smaller files are digested on each call.
const LARGE: u64 = 1 << 20;
/// A change within the clock's resolution of another could stay unnoticed.
const SETTLED: Duration = Duration::from_secs(2);

/// Digests files on each call, and counts them. A large file that has not changed is read once in a process.
#[derive(Debug, Default)]
pub struct PlainDigests {
    asked: Mutex<HashMap<PathBuf, usize>>,
}

impl PlainDigests {
    /// The number of different files that were digested.
    pub fn files(&self) -> usize {
        self.asked.lock().map_or(0, |asked| asked.len())
    }
}

impl FileDigests for PlainDigests {
    fn digest(&self, path: &Path) -> io::Result<Digest> {
        if let Ok(mut asked) = self.asked.lock() {
            *asked.entry(path.to_owned()).or_default() += 1;
        }
        let fs = Fs::new();
        let (file, metadata) = fs.open_file(path)?;
        let state = FileState::of(&metadata);
        if state.len < LARGE || !state.rested(fs.now(), SETTLED) {
            return Digest::of_reader(file);
        }
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known().get(&state) {
            return Ok(*digest);
        }
        let digest = Digest::of_reader(&file)?;
        if FileState::of(&file.metadata()?) == state {
            known().insert(state, digest);
        }
        Ok(digest)
    }
}

/// A fingerprint of `texts` and of `files`, each a name and its content, as backends make them of compilers.
pub fn fingerprint(texts: &[(&str, &str)], files: &[(&str, &str)]) -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    texts.iter().for_each(|(name, text)| fingerprint.text(*name, *text));
    for (name, content) in files {
        let digest = Digest::of(content.as_bytes());
        fingerprint.add(*name, digest, format!("{name} {:.12}", digest.to_string()));
    }
    fingerprint
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_large_file_that_changes_has_another_digest() {
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut digest = |byte: u8| {
            file.rewind().unwrap();
            file.write_all(&vec![byte; 2 << 20]).unwrap();
            file.as_file().set_modified(long_ago).unwrap();
            PlainDigests::default().digest(file.path()).unwrap()
        };
        let (one, two) = (digest(1), digest(2));
        assert_eq!([digest(1), digest(2)], [one, two]);
        assert_ne!(one, two);
    }
}
