//! Digests of files, remembered between builds.
//!
//! A compiler has tens of megabytes; hashing them at every start would cost more than a warm build. A digest is taken
//! from memory if the file at the path is still the same inode on the same device with the same size and the same
//! modification and change times, to the nanosecond. A file that changed within two seconds of being digested is not
//! remembered, since another change within the clock's resolution could stay unnoticed. The file of digests has only those of
//! files whose change time no program can choose, see [`ChangeTimes`]: a container's image is another one in another
//! process, under the same path. Others are remembered in memory.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use opkeep_backend::FileDigests;
use opkeep_digest::Digest;
use opkeep_fs::{ChangeTimes, FileId, FileState, Fs, private_user_dir};

const HEAD: &str = "opkeep digests 1";
const MAX_FILES: usize = 16384;
const MAX_BYTES: u64 = 8 << 20;
/// The maximum number of bytes of all lines, without the digest at the end.
const MAX_BODY: usize = MAX_BYTES as usize - 2 * Digest::LEN - 1;
/// The maximum number of remembered answers of backends, and the maximum number of bytes of one answer.
const MAX_ANSWERS: usize = 64;
const MAX_ANSWER: u64 = 1 << 20;
const SETTLED: Duration = Duration::from_secs(2);

/// A cache of digests of files, in memory and in a file that belongs to this user.
#[derive(Debug, Default)]
pub struct FileDigestCache {
    fs: Fs,
    file: Option<PathBuf>,
    /// The directory of backends' answers, with one file for each answer.
    answers: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<PathBuf, Known>,
    /// The change times of each device whose files are among those that were read from the file.
    devices: HashMap<u64, ChangeTimes>,
    changed: bool,
    /// The number of requests so far.
    asked: u64,
}

/// The record of a file.
#[derive(Clone, Copy, Debug)]
struct Known {
    state: FileState,
    digest: Digest,
    /// Whether other processes may use it.
    is_shared: bool,
    /// The place of the last request among all requests. Records that were only read from the file have negative
    /// numbers, in the order of the file.
    used: i64,
}

impl State {
    /// Returns the known digest of a file that is unchanged.
    fn recall(&mut self, path: &Path, now: FileState) -> Option<Digest> {
        self.asked += 1;
        let known = self.known.get_mut(path).filter(|known| known.state == now)?;
        if known.used < 0 {
            let times = self.devices.entry(now.id.dev).or_insert_with(|| ChangeTimes::at(path));
            if !times.show_changes(&now) {
                return None;
            }
        }
        known.used = self.asked.cast_signed();
        Some(known.digest)
    }

    fn note(&mut self, path: &Path, state: FileState, digest: Digest, is_shared: bool) {
        let used = self.asked.cast_signed();
        self.known.insert(path.to_owned(), Known { state, digest, is_shared, used });
        self.changed |= is_shared;
    }
}

impl FileDigestCache {
    /// Opens the cache in `file`. A file that cannot be read, is damaged, or belongs to another user counts as empty.
    pub fn open(file: impl Into<PathBuf>) -> Self {
        Self::open_with(Fs::new(), file)
    }

    /// Opens this user's cache on this machine, below the directory `base`; the builds whose work directories are there use it,
    /// too. If this user's directory there cannot be used, digests are remembered in memory only.
    pub fn of_user(base: &Path) -> Self {
        private_user_dir(base).map(|dir| Self::open(file_in(&dir))).unwrap_or_default()
    }

    /// Opens the cache as [`open`](Self::open) does, with the file system `fs`, whose clock decides which files changed
    /// too recently to be remembered.
    pub fn open_with(fs: Fs, file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let text = fs.read_own(&file, MAX_BYTES).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let known = text.as_deref().and_then(parse).unwrap_or_default();
        let state = Mutex::new(State { known, ..State::default() });
        Self { fs, file: Some(file), answers: None, state }
    }

    /// Sets the directory for backends' answers. Other users must not have access to it.
    #[must_use]
    pub fn with_answers(mut self, dir: Option<PathBuf>) -> Self {
        self.answers = dir;
        self
    }

    /// Writes the file, if there are new digests. Best effort: without the file, the next build computes them again.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let text = {
            let mut state = self.locked();
            if !std::mem::take(&mut state.changed) {
                return;
            }
            render(&state.known)
        };
        let _ = self.fs.replace(file, &[text.as_bytes()], 0o600);
    }

    /// The state. A panic elsewhere leaves it consistent.
    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl FileDigests for FileDigestCache {
    fn digest(&self, path: &Path) -> io::Result<Digest> {
        let now = FileState::of(&self.fs.metadata(path)?);
        if let Some(digest) = self.locked().recall(path, now) {
            return Ok(digest);
        }
        // A file that changes while it is read has no digest: after a few attempts this is an error.
        for _ in 0..4 {
            let (file, metadata) = self.fs.open_file(path)?;
            let before = FileState::of(&metadata);
            let digest = Digest::of_reader(&file)?;
            let after = FileState::of(&file.metadata()?);
            if before != after {
                continue;
            }
            if after.rested(self.fs.now(), SETTLED) {
                let is_shared = ChangeTimes::of(&file).show_changes(&after);
                self.locked().note(path, after, digest, is_shared);
            }
            return Ok(digest);
        }
        Err(io::Error::other("the file keeps changing while it is read"))
    }

    fn recall(&self, question: &Digest) -> Option<Vec<u8>> {
        self.fs.read_own(&self.answers.as_ref()?.join(question.to_string()), MAX_ANSWER).ok()
    }

    /// Stores an answer. Beyond the maximum number, the oldest answers are removed.
    fn remember(&self, question: &Digest, answer: &[u8]) {
        let Some(dir) = self.answers.as_ref().filter(|_| answer.len() as u64 <= MAX_ANSWER) else { return };
        let file = dir.join(question.to_string());
        if self.fs.replace(&file, &[answer], 0o600).is_err() {
            return;
        }
        let mut others = self.fs.list_stats(dir).unwrap_or_default();
        others.retain(|(path, _)| *path != file);
        opkeep_order::by_key(&mut others, |(_, found)| found.state.mtime);
        let surplus = others.len().saturating_sub(MAX_ANSWERS - 1);
        for (path, _) in others.iter().take(surplus) {
            let _ = self.fs.remove(path);
        }
    }
}

/// The file of digests in this user's directory.
pub(crate) fn file_in(dir: &Path) -> PathBuf {
    dir.join("digests")
}

/// Renders one line for each file, the most recently requested first, then the digest of all lines, by which damage is
/// detected. The least recently requested files beyond the limits are left out.
fn render(known: &HashMap<PathBuf, Known>) -> String {
    let mut files: Vec<(&PathBuf, &Known)> = known.iter().filter(|(_, known)| known.is_shared).collect();
    opkeep_order::by(&mut files, |(a_path, a), (b_path, b)| b.used.cmp(&a.used).then(a_path.cmp(b_path)));
    let mut body = format!("{HEAD}\n");
    let lines = files.into_iter().filter_map(|(path, Known { state, digest, .. })| {
        let FileState { id: FileId { dev, ino }, len, mtime, ctime } = state;
        let path = path.to_str().filter(|path| !path.contains(['\n', '\r']))?;
        Some(format!("{digest} {dev} {ino} {len} {mtime} {ctime} {path}\n"))
    });
    for line in lines.take(MAX_FILES) {
        // A file that is too long would not be read.
        if body.len() + line.len() > MAX_BODY {
            break;
        }
        body.push_str(&line);
    }
    format!("{body}{}\n", Digest::of(body.as_bytes()))
}

fn parse(text: &str) -> Option<HashMap<PathBuf, Known>> {
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
        .zip(1..)
        .map(|(line, place)| {
            let mut words = line.splitn(7, ' ');
            let digest = words.next()?.parse().ok()?;
            let id = FileId { dev: words.next()?.parse().ok()?, ino: words.next()?.parse().ok()? };
            let state = FileState {
                id,
                len: words.next()?.parse().ok()?,
                mtime: words.next()?.parse().ok()?,
                ctime: words.next()?.parse().ok()?,
            };
            Some((PathBuf::from(words.next()?), Known { state, digest, is_shared: true, used: -place }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: FileState = FileState { id: FileId { dev: 1, ino: 2 }, len: 3, mtime: 4, ctime: 5 };

    #[test]
    fn the_least_recently_requested_digests_are_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("digests");
        // The names are no hint to the order of the requests.
        let name = |at: usize, kind: &str| PathBuf::from(format!("/{kind}/{at}"));
        let note = |cache: &FileDigestCache, path: &Path| {
            let mut state = cache.locked();
            if state.recall(path, STATE).is_none() {
                state.note(path, STATE, Digest::of(path.as_os_str().as_encoded_bytes()), true);
            }
        };
        let cache = FileDigestCache::open(&file);
        (0..MAX_FILES).for_each(|at| note(&cache, &name(at, "old")));
        cache.save();
        // The first file is requested again; ten new files displace the ten least recently requested ones.
        let cache = FileDigestCache::open(&file);
        cache.locked().devices.insert(STATE.id.dev, ChangeTimes::Own);
        assert_eq!(cache.locked().known.len(), MAX_FILES);
        note(&cache, &name(0, "old"));
        (0..10).for_each(|at| note(&cache, &name(at, "new")));
        cache.save();
        let cache = FileDigestCache::open(&file);
        let state = cache.locked();
        let has = |path: PathBuf| state.known.contains_key(&path);
        assert_eq!(state.known.len(), MAX_FILES);
        assert!(has(name(0, "old")) && (0..10).all(|at| has(name(at, "new"))));
        assert!((1..=10).all(|at| !has(name(at, "old"))) && has(name(11, "old")));
    }

    #[test]
    fn a_cache_that_is_written_can_be_read() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("digests");
        let cache = FileDigestCache::open(&file);
        for at in 0..3000 {
            cache.locked().note(
                Path::new(&format!("/{at}/{}", "x".repeat(4000))),
                STATE,
                Digest::of(b"it"),
                true,
            );
        }
        cache.save();
        assert!(FileDigestCache::open(&file).locked().known.len() > 1500);
    }
}
