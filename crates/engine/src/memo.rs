//! Digests of files, remembered between builds.
//!
//! A compiler has tens of megabytes; hashing them at every start would cost more than a warm build. A digest is taken
//! from memory if the file at the path is still the same inode on the same device with the same size and the same
//! modification and change times, to the nanosecond. A file that changed within two seconds of being digested is not
//! remembered: another change within the clock's grain could hide.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use opbuild_backend::{Cancel, FileDigests};
use opbuild_digest::Digest;

use crate::disk;

const HEAD: &str = "opbuild digests 1";
const MAX_FILES: usize = 16384;
const MAX_BYTES: u64 = 8 << 20;
const SETTLED: Duration = Duration::from_secs(2);

/// Remembers digests of files, in memory and in a file of this user's.
#[derive(Debug, Default)]
pub struct DigestMemo {
    file: Option<PathBuf>,
    cancel: Cancel,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<PathBuf, (Identity, Digest)>,
    changed: bool,
}

/// What must be the same for a file to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    modified: i128,
    changed: i128,
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file has been as it is for long enough.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let last = self.modified.max(self.changed);
        i128::try_from(now).is_ok_and(|now| now - last > SETTLED.as_nanos() as i128)
    }
}

impl DigestMemo {
    /// A memo that lives in `file`. One that cannot be read, is damaged, or is not this user's counts as empty.
    pub fn open(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let text = disk::read_own(&file, MAX_BYTES).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let known = text.as_deref().and_then(parse).unwrap_or_default();
        let state = Mutex::new(State { known, changed: false });
        Self { file: Some(file), cancel: Cancel::new(), state }
    }

    /// Lets `cancel` end programs that backends run to answer what they are asked with this memo.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// Writes the memo back, if it learned anything. Best effort: without it the next build digests again.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let text = {
            let mut state = self.locked();
            if !std::mem::take(&mut state.changed) {
                return;
            }
            render(&state.known)
        };
        let _ = disk::replace(file, text.as_bytes());
    }

    /// The state, also after a panic elsewhere: each change to it is whole.
    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl FileDigests for DigestMemo {
    fn digest(&self, path: &Path) -> io::Result<Digest> {
        let now = Identity::of(&disk::metadata(path)?);
        if let Some((known, digest)) = self.locked().known.get(path)
            && *known == now
        {
            return Ok(*digest);
        }
        // A file that changes while it is read has no digest; a few attempts, then it is an error.
        for _ in 0..4 {
            let (file, metadata) = disk::open(path)?;
            let before = Identity::of(&metadata);
            let digest = Digest::of_reader(&file)?;
            let after = Identity::of(&file.metadata()?);
            if before != after {
                continue;
            }
            if after.is_settled() {
                let mut state = self.locked();
                state.known.insert(path.to_owned(), (after, digest));
                state.changed = true;
            }
            return Ok(digest);
        }
        Err(io::Error::other("the file keeps changing while it is read"))
    }

    fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}

/// One line a file, then the digest of all lines, so that a torn memo is no memo.
fn render(known: &HashMap<PathBuf, (Identity, Digest)>) -> String {
    let mut lines: Vec<String> = known
        .iter()
        .filter_map(|(path, (identity, digest))| {
            let Identity { dev, ino, size, modified, changed } = identity;
            let path = path.to_str().filter(|path| !path.contains(['\n', '\r']))?;
            Some(format!("{digest} {dev} {ino} {size} {modified} {changed} {path}\n"))
        })
        .collect();
    lines.sort_unstable();
    lines.truncate(MAX_FILES);
    let body = format!("{HEAD}\n{}", lines.concat());
    format!("{body}{}\n", Digest::of(body.as_bytes()))
}

fn parse(text: &str) -> Option<HashMap<PathBuf, (Identity, Digest)>> {
    let body_end = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (body, seal) = text.split_at(body_end);
    if seal.trim_end() != Digest::of(body.as_bytes()).to_string() {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != HEAD {
        return None;
    }
    lines
        .map(|line| {
            let mut words = line.splitn(7, ' ');
            let digest = words.next()?.parse().ok()?;
            let identity = Identity {
                dev: words.next()?.parse().ok()?,
                ino: words.next()?.parse().ok()?,
                size: words.next()?.parse().ok()?,
                modified: words.next()?.parse().ok()?,
                changed: words.next()?.parse().ok()?,
            };
            Some((PathBuf::from(words.next()?), (identity, digest)))
        })
        .collect()
}
