//! Counters files: small files of named numbers that several processes read, change and write under a lock.
//!
//! A file is one block of [`BLOCK`] bytes, so every write has the same length, whatever the numbers and however many:
//!
//! ```text
//! opkeep statistics 2
//! hits             17
//! puts             3
//! (spaces)
//! check 77dcf324a332d6f8     a checksum of all bytes before this line
//! ```
//!
//! Numbers are found by their names. A missing number is 0, and a 0 is not written; an unknown number keeps its value when
//! the file is written again: so versions with different numbers share the file. A killed process leaves the old block. A
//! corrupt block fails its checksum and counts as missing.
//!
//! Each user who may read the directory may read the numbers. The lock is a separate file, since a process that can open a
//! file can lock it and never release it.

use std::io;
use std::path::Path;
use std::time::Duration;

use opkeep_fs::{FileLock, LockFile, RootedFs, TryLock};

use crate::checksum::checksum;
use crate::files;
use crate::layout::NUMBERS_LOCK;

/// The length of each file.
const BLOCK: usize = 4096;
/// The length of the last line.
const CHECK: usize = "check 0123456789abcdef\n".len();
/// The number of bytes that are read: one more than a file has, so that a longer file is recognized.
pub(crate) const LIMIT: usize = BLOCK + 1;

/// A kind of file: its first line, and the names of the `N` numbers that this version knows.
pub(crate) struct NumberFile<const N: usize> {
    /// The first line.
    pub(crate) title: &'static str,
    /// The first line of the files of earlier versions, which are not padded to a block.
    pub(crate) earlier_title: &'static str,
    /// The name of each number.
    pub(crate) names: [&'static str; N],
}

/// The numbers in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers<const N: usize> {
    /// The numbers that this version knows.
    pub(crate) known: [u64; N],
    /// The numbers of other versions, by name.
    unknown: Vec<(String, u64)>,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateOutcome<const N: usize> {
    /// The file has these numbers now.
    Written([u64; N]),
    /// The file had no numbers, and none were written.
    Unchanged,
    /// Another process held the lock until the last attempt.
    Busy,
}

/// The number of attempts to get the lock, a millisecond apart. It is held for one read and one write.
const ATTEMPTS: u32 = 25;

/// The number of reads of a corrupt file before it counts as corrupt; the pauses are a quarter and half a millisecond.
const MAX_READS: u32 = 3;

impl<const N: usize> NumberFile<N> {
    /// Returns the block of a file. Numbers of other versions that do not fit are left out.
    fn encode(&self, numbers: &Numbers<N>) -> Vec<u8> {
        let mut text = format!("{}\n", self.title);
        let known = self.names.iter().copied().zip(numbers.known);
        let unknown = numbers.unknown.iter().map(|(name, value)| (name.as_str(), *value));
        // Each line costs every process that adds to the file.
        for (name, value) in known.chain(unknown).filter(|(_, value)| *value > 0) {
            let line = format!("{name:<16} {value}\n");
            if text.len() + line.len() < BLOCK - CHECK {
                text.push_str(&line);
            }
        }
        let mut block = text.into_bytes();
        block.resize(BLOCK - CHECK - 1, b' ');
        block.push(b'\n');
        let sum = checksum(&block);
        block.extend_from_slice(format!("check {sum:016x}\n").as_bytes());
        block
    }

    /// Returns the numbers of a block, or of a file of an earlier version.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<Numbers<N>> {
        let (checked, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
        let text = std::str::from_utf8(checked).ok()?;
        let (title, lines) = text.split_once('\n')?;
        let is_known = if bytes.len() == BLOCK { title == self.title } else { title == self.earlier_title };
        if !is_known || check != format!("check {:016x}\n", checksum(checked)).as_bytes() {
            return None;
        }
        let mut numbers = Numbers { known: [0; N], unknown: Vec::new() };
        // The numbers end at the first line of spaces.
        for line in lines.lines().take_while(|line| !line.starts_with(' ')) {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else { continue };
            let value = words.next()?.parse().ok()?;
            match self.names.iter().position(|known| *known == name) {
                Some(at) => numbers.known[at] = value,
                None => numbers.unknown.push((name.to_owned(), value)),
            }
        }
        Some(numbers)
    }

    /// Changes the numbers in a file. A missing file is created; a corrupt file has no numbers.
    pub(crate) fn update(
        &self,
        fs: &RootedFs,
        path: &Path,
        shared: bool,
        change: impl FnOnce(Option<[u64; N]>) -> Option<[u64; N]>,
    ) -> io::Result<UpdateOutcome<N>> {
        self.write(fs, path, shared, |old| {
            let known = change(old.as_ref().map(|old| old.known))?;
            Some(Numbers { known, unknown: old.map(|old| old.unknown).unwrap_or_default() })
        })
    }

    /// Writes `known`, and 0 for the numbers of other versions.
    pub(crate) fn reset(
        &self,
        fs: &RootedFs,
        path: &Path,
        shared: bool,
        known: [u64; N],
    ) -> io::Result<UpdateOutcome<N>> {
        self.write(fs, path, shared, |old| {
            let unknown = old.map(|old| old.unknown).unwrap_or_default();
            Some(Numbers { known, unknown: unknown.into_iter().map(|(name, _)| (name, 0)).collect() })
        })
    }

    fn write(
        &self,
        fs: &RootedFs,
        path: &Path,
        shared: bool,
        change: impl FnOnce(Option<Numbers<N>>) -> Option<Numbers<N>>,
    ) -> io::Result<UpdateOutcome<N>> {
        let lock_path = path.with_file_name(NUMBERS_LOCK);
        let lock = files::open_lock(fs, &lock_path, shared)?;
        let Some(_locked) = lock_soon(fs, lock, &lock_path)? else { return Ok(UpdateOutcome::Busy) };
        let file = files::open_numbers(fs, path, shared)?;
        let before = fs.read_start(&file, path, LIMIT)?;
        let old = self.decode(&before);
        let was_valid = old.is_some();
        let Some(numbers) = change(old) else { return Ok(UpdateOutcome::Unchanged) };
        let block = self.encode(&numbers);
        if before.len() > block.len() {
            fs.set_length(&file, path, 0)?;
        }
        if before != block
            && let Err(error) = fs.write_start(&file, path, &block)
        {
            // A full disk, or a limit on the size of files, may have written a part. Restore the old numbers; if there were
            // none, an empty file is better than a corrupt one.
            let _ = match was_valid {
                true => fs
                    .write_start(&file, path, &before)
                    .and_then(|()| fs.set_length(&file, path, before.len() as u64)),
                false => fs.set_length(&file, path, 0),
            };
            return Err(error);
        }
        Ok(UpdateOutcome::Written(numbers.known))
    }

    /// Whether a file is corrupt: not empty, and without valid numbers. Takes no lock and writes nothing.
    pub(crate) fn is_corrupt(&self, fs: &RootedFs, path: &Path) -> io::Result<bool> {
        for read in 0..MAX_READS {
            let file = fs.open(path)?;
            let bytes = fs.read_start(&file, path, LIMIT)?;
            if bytes.is_empty() || self.decode(&bytes).is_some() {
                return Ok(false);
            }
            // Another process may be in the middle of its write, which is one call.
            if read + 1 < MAX_READS {
                std::thread::sleep(Duration::from_micros(250 << read));
            }
        }
        Ok(true)
    }

    /// Returns the numbers in a file. Takes no lock and writes nothing.
    pub(crate) fn read(&self, fs: &RootedFs, path: &Path) -> Option<[u64; N]> {
        // Another process may be in the middle of its write, which is one short call.
        (0..3).find_map(|_| {
            let file = fs.open(path).ok()?;
            Some(self.decode(&fs.read_start(&file, path, LIMIT).ok()?)?.known)
        })
    }
}

/// Locks the file at `path`. Returns none if another process holds the lock for too long.
fn lock_soon(fs: &RootedFs, mut file: LockFile, path: &Path) -> io::Result<Option<Lock>> {
    for attempt in 1.. {
        file = match fs.try_lock(file, path)? {
            TryLock::Held(lock) => return Ok(Some(Lock::Held { _lock: lock })),
            TryLock::Unsupported(_) => return Ok(Some(Lock::None)),
            TryLock::Busy(_) if attempt == ATTEMPTS => break,
            TryLock::Busy(file) => file,
        };
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

/// The lock of a process that writes.
enum Lock {
    Held {
        _lock: FileLock,
    },
    /// No lock. In a file system without locks, counts may be lost when two processes add at once. No promise depends
    /// on counts.
    None,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests damage files")]
mod tests {
    use std::fs;

    use super::*;

    const TWO: NumberFile<2> = kind(["one", "another"]);

    const fn kind<const N: usize>(names: [&'static str; N]) -> NumberFile<N> {
        NumberFile { title: "two 2", earlier_title: "two 1", names }
    }

    fn numbers<const N: usize>(known: [u64; N]) -> Numbers<N> {
        Numbers { known, unknown: Vec::new() }
    }

    /// A file as earlier versions wrote it: as long as its counters, each with 20 digits.
    fn earlier(title: &str, numbers: &[(&str, u64)]) -> Vec<u8> {
        let lines = numbers.iter().map(|(name, value)| format!("{name:<16} {value:020}\n"));
        let text = format!("{title}\n{}", lines.collect::<String>());
        format!("{text}check {:016x}\n", checksum(text.as_bytes())).into_bytes()
    }

    #[test]
    fn numbers_round_trip_and_other_content_is_refused() {
        let block = TWO.encode(&numbers([7, u64::MAX]));
        assert_eq!(block.len(), BLOCK);
        assert_eq!(TWO.decode(&block), Some(numbers([7, u64::MAX])));
        for at in 0..block.len() {
            let mut bad = block.clone();
            bad[at] ^= 1;
            assert_eq!(TWO.decode(&bad), None, "{at}");
            assert_eq!(TWO.decode(&block[..at]), None, "{at}");
        }
        assert_eq!(TWO.decode(&[&block[..], b"\n"].concat()), None);
        assert_eq!(NumberFile { title: "three 2", ..TWO }.decode(&block), None, "another kind of file");
    }

    #[test]
    fn an_earlier_versions_file_is_read() {
        let text = earlier("two 1", &[("one", 4), ("another", 5)]);
        assert_eq!(TWO.decode(&text), Some(numbers([4, 5])));
        for at in 0..text.len() {
            let mut bad = text.clone();
            bad[at] ^= 1;
            assert_eq!(TWO.decode(&bad), None, "{at}");
        }
        assert_eq!(TWO.decode(&earlier("two 2", &[("one", 4), ("another", 5)])), None);
    }

    /// Versions with 16, 17 and 18 numbers, of which 15 are the same, add to one file in any order.
    #[test]
    fn versions_with_other_numbers_share_a_file() {
        const NAMES: [&str; 20] = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s",
            "t",
        ];
        const fn first<const N: usize>(with: [usize; 3]) -> NumberFile<N> {
            let mut names = [""; N];
            let mut at = 0;
            while at < N {
                names[at] = if at < 15 { NAMES[at] } else { NAMES[with[at - 15]] };
                at += 1;
            }
            kind(names)
        }
        const SIXTEEN: NumberFile<16> = first([15, 0, 0]);
        const SEVENTEEN: NumberFile<17> = first([16, 15, 0]);
        const EIGHTEEN: NumberFile<18> = first([17, 18, 16]);

        fn add<const N: usize>(file: &NumberFile<N>, path: &Path, number: u64) {
            let add = |old: Option<[u64; N]>| Some(old.unwrap_or([0; N]).map(|value| value + number));
            let written = file.update(&RootedFs::default(), path, false, add).unwrap();
            assert!(matches!(written, UpdateOutcome::Written(_)));
            assert_eq!(fs::metadata(path).unwrap().len(), BLOCK as u64);
        }
        let dir = tempfile::tempdir().unwrap();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let path = dir.path().join(format!("{order:?}"));
            // A number of an earlier version that no version here knows.
            fs::write(&path, earlier("two 1", &[("a", 1000), ("t", 7)])).unwrap();
            for version in order.into_iter().cycle().take(6) {
                match version {
                    0 => add(&SIXTEEN, &path, 1),
                    1 => add(&SEVENTEEN, &path, 10),
                    _ => add(&EIGHTEEN, &path, 100),
                }
            }
            let read = |name: &'static str| kind([name]).read(&RootedFs::default(), &path).unwrap()[0];
            assert_eq!(NAMES.map(read)[..15], [&[1222][..], &[222; 14]].concat());
            // p: 16 and 17, q: 17 and 18, r and s: 18 only.
            assert_eq!(["p", "q", "r", "s", "t"].map(read), [22, 220, 200, 200, 7], "{order:?}");
            EIGHTEEN.reset(&RootedFs::default(), &path, false, [3; 18]).unwrap();
            assert_eq!(["a", "p", "q", "t"].map(read), [3, 0, 3, 0]);
        }
    }

    #[test]
    fn counters_beyond_the_block_are_left_out() {
        let unknown = (0..200).map(|at| (format!("number-{at}"), u64::MAX)).collect();
        let block = TWO.encode(&Numbers { known: [1, 2], unknown });
        assert_eq!(block.len(), BLOCK);
        let decoded = TWO.decode(&block).unwrap();
        assert!(decoded.known == [1, 2] && decoded.unknown.len() > 90, "{decoded:?}");
    }

    #[test]
    fn a_corrupt_or_foreign_file_is_reset() {
        let directory = tempfile::tempdir().unwrap();
        let (fs, path) = (RootedFs::default(), directory.path().join("two"));
        let add = |old: Option<[u64; 2]>| Some(old.map_or([1, 1], |[a, b]| [a + 1, b + 1]));
        assert_eq!(TWO.update(&fs, &path, false, |_| None).unwrap(), UpdateOutcome::Unchanged);
        let corrupt = &TWO.encode(&numbers([9, 9]))[..40];
        for found in [&b""[..], b"two 2\n", corrupt, &b"another program's\n".repeat(500)] {
            fs::write(&path, found).unwrap();
            assert_eq!(TWO.read(&fs, &path), None);
            assert_eq!(TWO.update(&fs, &path, false, add).unwrap(), UpdateOutcome::Written([1, 1]));
            assert_eq!(TWO.update(&fs, &path, false, add).unwrap(), UpdateOutcome::Written([2, 2]));
            assert_eq!(TWO.read(&fs, &path), Some([2, 2]));
        }
        // A process that can only read the numbers does not delay a writer.
        let reader = fs::File::open(&path).unwrap();
        reader.lock().unwrap();
        assert_eq!(TWO.update(&fs, &path, false, add).unwrap(), UpdateOutcome::Written([3, 3]));
        let held = fs::File::open(directory.path().join(NUMBERS_LOCK)).unwrap();
        held.lock().unwrap();
        assert_eq!(TWO.update(&fs, &path, false, add).unwrap(), UpdateOutcome::Busy);
    }

    #[test]
    fn nothing_that_is_added_at_once_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("two");
        let fs = RootedFs::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let add = |old: Option<[u64; 2]>| Some(old.map_or([1, 2], |[a, b]| [a + 1, b + 2]));
                        while TWO.update(&fs, &path, true, add).unwrap() == UpdateOutcome::Busy {}
                    }
                });
            }
        });
        assert_eq!(TWO.read(&fs, &path), Some([200, 400]));
    }
}
