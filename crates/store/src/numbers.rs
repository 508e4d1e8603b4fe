//! Small files of numbers that several processes add to: read, changed and written under a lock, by one write of always
//! the same length. Whoever dies in between leaves the old numbers; what is torn all the same does not check, and counts
//! as not there.
//!
//! Whoever may read the folder may read the numbers. The lock is another file, since whoever can open a file can lock it
//! and never let go.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::checksum::checksum;
use crate::files::{self, FOR_LOCKS, FOR_NUMBERS};
use opkeep_fs::{FileLock, RootedFs, TryLock};

/// The form of a file of `N` numbers.
pub(crate) struct Numbers<const N: usize> {
    /// The first line.
    pub(crate) title: &'static str,
    /// What each number is called.
    pub(crate) names: [&'static str; N],
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed<const N: usize> {
    /// These are the numbers now.
    To([u64; N]),
    /// There were none, and none were made.
    Not,
    /// Another process holds the file for too long.
    Busy,
}

/// The lock, one for all files of numbers in a folder; its file stays.
pub(crate) const LOCK: &str = "numbers.lock";

/// How often a lock is tried, a millisecond apart; it is held for one read and one write.
const ATTEMPTS: u32 = 25;

/// How often numbers that do not check are read, first a quarter of a millisecond apart, then half.
const LOOKS: u32 = 3;

impl<const N: usize> Numbers<N> {
    /// The file, of the same length whatever the numbers.
    fn encode(&self, values: &[u64; N]) -> String {
        let mut text = format!("{}\n", self.title);
        for (name, value) in self.names.iter().zip(values) {
            text.push_str(&format!("{name:<16} {value:020}\n"));
        }
        let sum = checksum(text.as_bytes());
        text.push_str(&format!("check {sum:016x}\n"));
        text
    }

    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<[u64; N]> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines().skip(1);
        let mut values = [0; N];
        for value in &mut values {
            *value = lines.next()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
        }
        (self.encode(&values).as_bytes() == bytes).then_some(values)
    }

    /// One byte more than a file has, so that a longer one shows.
    pub(crate) fn limit(&self) -> usize {
        self.encode(&[0; N]).len() + 1
    }

    /// Changes the numbers in a file; a file that is not there is made, and one that does not check has none.
    pub(crate) fn change(
        &self,
        fs: &RootedFs,
        path: &Path,
        shared: bool,
        change: impl FnOnce(Option<[u64; N]>) -> Option<[u64; N]>,
    ) -> io::Result<Changed<N>> {
        let lock_path = path.with_file_name(LOCK);
        let lock = files::open_lock(fs, &lock_path, shared, &FOR_LOCKS)?;
        let Some(_locked) = lock_soon(fs, lock, &lock_path)? else { return Ok(Changed::Busy) };
        let file = files::open_lock(fs, path, shared, &FOR_NUMBERS)?;
        let before = fs.read_start(&file, path, self.limit())?;
        let Some(values) = change(self.decode(&before)) else { return Ok(Changed::Not) };
        let text = self.encode(&values);
        if before.len() > text.len() {
            fs.set_length(&file, path, 0)?;
        }
        if before != text.as_bytes()
            && let Err(error) = fs.write_start(&file, path, text.as_bytes())
        {
            // A full disk, or a limit on the size of files, may have let a part through: no numbers are better than torn
            // ones, and the old ones are better still.
            let _ = match self.decode(&before) {
                Some(_) => fs.write_start(&file, path, &before),
                None => fs.set_length(&file, path, 0),
            };
            return Err(error);
        }
        Ok(Changed::To(values))
    }

    /// Whether a file has something in it and no numbers. Reads it without its lock, and writes nothing.
    pub(crate) fn is_torn(&self, fs: &RootedFs, path: &Path) -> io::Result<bool> {
        for look in 0..LOOKS {
            let file = fs.open(path)?;
            let bytes = fs.read_start(&file, path, self.limit())?;
            if bytes.is_empty() || self.decode(&bytes).is_some() {
                return Ok(false);
            }
            // Another's write may come between; it is one call.
            if look + 1 < LOOKS {
                std::thread::sleep(Duration::from_micros(250 << look));
            }
        }
        Ok(true)
    }

    /// The numbers in a file, without its lock and without writing anything.
    pub(crate) fn look(&self, fs: &RootedFs, path: &Path) -> Option<[u64; N]> {
        // Another's write may come between; it takes no time to speak of.
        (0..3).find_map(|_| {
            let file = fs.open(path).ok()?;
            self.decode(&fs.read_start(&file, path, self.limit()).ok()?)
        })
    }
}

/// Locks the file at `path`; none if another process holds it for too long.
fn lock_soon(fs: &RootedFs, mut file: File, path: &Path) -> io::Result<Option<Lock>> {
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
    /// A file system without locks may lose counts when two add at once. Nothing rests on them.
    None,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests damage files")]
mod tests {
    use std::fs;

    use super::*;

    const TWO: Numbers<2> = Numbers { title: "two", names: ["one", "another"] };

    #[test]
    fn numbers_come_back_and_anything_else_does_not() {
        let text = TWO.encode(&[7, u64::MAX]);
        assert_eq!(text.len() + 1, TWO.limit());
        assert_eq!(TWO.decode(text.as_bytes()), Some([7, u64::MAX]));
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert_eq!(TWO.decode(&bad), None, "{at}");
            assert_eq!(TWO.decode(&text.as_bytes()[..at]), None, "{at}");
        }
        assert_eq!(TWO.decode(format!("{text}\n").as_bytes()), None);
        assert_eq!(Numbers { names: ["one", "other"], ..TWO }.decode(text.as_bytes()), None);
    }

    #[test]
    fn what_is_torn_or_foreign_is_started_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (fs, path) = (RootedFs::default(), folder.path().join("two"));
        let add = |old: Option<[u64; 2]>| Some(old.map_or([1, 1], |[a, b]| [a + 1, b + 1]));
        assert_eq!(TWO.change(&fs, &path, false, |_| None).unwrap(), Changed::Not);
        for found in ["", "two\n", &TWO.encode(&[9, 9])[..40], &"something of somebody else's\n".repeat(50)] {
            fs::write(&path, found).unwrap();
            assert_eq!(TWO.look(&fs, &path), None);
            assert_eq!(TWO.change(&fs, &path, false, add).unwrap(), Changed::To([1, 1]), "{found}");
            assert_eq!(TWO.change(&fs, &path, false, add).unwrap(), Changed::To([2, 2]));
            assert_eq!(TWO.look(&fs, &path), Some([2, 2]));
        }
        // Whoever can only read the numbers holds nobody up.
        let reader = fs::File::open(&path).unwrap();
        reader.lock().unwrap();
        assert_eq!(TWO.change(&fs, &path, false, add).unwrap(), Changed::To([3, 3]));
        let held = fs::File::open(folder.path().join(LOCK)).unwrap();
        held.lock().unwrap();
        assert_eq!(TWO.change(&fs, &path, false, add).unwrap(), Changed::Busy);
    }

    #[test]
    fn nothing_that_is_added_at_once_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("two");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let add = |old: Option<[u64; 2]>| Some(old.map_or([1, 2], |[a, b]| [a + 1, b + 2]));
                        while TWO.change(&RootedFs::default(), &path, true, add).unwrap() == Changed::Busy {}
                    }
                });
            }
        });
        assert_eq!(TWO.look(&RootedFs::default(), &path), Some([200, 400]));
    }
}
