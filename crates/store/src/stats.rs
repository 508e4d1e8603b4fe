//! The statistics of a target. A process counts in memory and adds its counts to the file `stats` at its end: no look-up
//! writes them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_fs::{ForkMark, RootedFs, unix};

use crate::layout;
use crate::number_file::{NumberFile, UpdateOutcome};

/// Defines the counters, their names in the file, and their fields, from one list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $variant:ident $field:ident $name:literal,)+) => {
        /// A counter.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Counter {
            $($variant,)+
        }

        const NAMES: &[&str] = &[$($name,)+];

        /// The statistics of a target since it was created, or since [`TargetStore::reset_statistics`].
        ///
        /// [`TargetStore::reset_statistics`]: crate::TargetStore::reset_statistics
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Statistics {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl Statistics {
            /// Returns every number with its name, in the order of the file.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field),)+].into_iter()
            }

            fn of(numbers: &[u64; COUNT]) -> Self {
                Self { $($field: numbers[Counter::$variant as usize],)+ }
            }
        }
    };
}

counters! {
    /// The time at which counting began, in Unix seconds.
    Since since "since",
    /// Look-ups that found an entry.
    Hits hits "hits",
    /// Look-ups that found no entry.
    Absent misses_absent "absent",
    /// Look-ups that found a damaged entry.
    Damaged misses_damaged "damaged",
    /// Look-ups that found an entry which an untrusted user could have written.
    Untrusted misses_untrusted "untrusted",
    /// Look-ups that found an entry which could not be read.
    Io misses_trouble "trouble",
    /// Kernels that the callers compiled.
    Compiles compiles "compiles",
    /// The time of the callers' compiles, in microseconds.
    CompileMicros compile_micros "compile-us",
    /// Waits for a lock of another process or thread.
    Waits waits "waits",
    /// Microseconds that callers waited for locks.
    WaitMicros wait_micros "wait-us",
    /// Entries that were put.
    Puts puts "puts",
    /// Bytes of the entries that were found.
    BytesRead bytes_read "bytes-read",
    /// Bytes of the entries that were put.
    BytesWritten bytes_written "bytes-written",
    /// Microseconds that the content of the found entries took to compile.
    SavedMicros saved_micros "saved-us",
    /// Entries that were evicted.
    Evictions evictions "evictions",
    /// Bytes of the entries that were evicted.
    BytesEvicted bytes_evicted "bytes-evicted",
    /// Damaged entries that were quarantined.
    Quarantines quarantines "quarantines",
    /// Entries that came from a remote store.
    RemoteHits remote_hits "remote-hits",
    /// Entries that were published to a remote store.
    RemotePuts remote_puts "remote-puts",
    /// Calls to a remote store that failed or returned an invalid entry.
    RemoteErrors remote_errors "remote-errors",
}

const COUNT: usize = NAMES.len();

const STATS: NumberFile<COUNT> =
    NumberFile { title: "opkeep statistics 2", earlier_title: "opkeep statistics 1", names: names() };

const fn names() -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = NAMES[at];
        at += 1;
    }
    names
}

impl Statistics {
    /// Returns the number of look-ups that found no usable entry, for any reason.
    pub fn misses(&self) -> u64 {
        let reasons = [self.misses_absent, self.misses_damaged, self.misses_untrusted, self.misses_trouble];
        reasons.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the compile time that hits saved.
    pub fn time_saved(&self) -> Duration {
        Duration::from_micros(self.saved_micros)
    }
}

/// The counts of this process that are not written yet. A forked child begins with none: its parent writes its own.
#[derive(Debug)]
pub(crate) struct Counters {
    path: PathBuf,
    shared: bool,
    counts: [AtomicU64; COUNT],
    mark: ForkMark,
}

impl Counters {
    pub(crate) fn new(dir: &Path, shared: bool) -> Self {
        let counts = [const { AtomicU64::new(0) }; COUNT];
        Self { path: dir.join(layout::STATS), shared, counts, mark: ForkMark::new() }
    }

    pub(crate) fn add(&self, count: Counter, number: u64) {
        self.counts()[count as usize].fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, count: Counter, time: Duration) {
        self.add(count, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds the counts to the file. If that fails, they are kept for the next time.
    pub(crate) fn flush(&self, fs: &RootedFs, now: SystemTime) -> io::Result<()> {
        let taken = self.take();
        if taken.iter().all(|count| *count == 0) {
            return Ok(());
        }
        let written = STATS.update(fs, &self.path, self.shared, |old| {
            let old = old.unwrap_or_else(|| nothing(now));
            Some(std::array::from_fn(|at| old[at].saturating_add(taken[at])))
        });
        if !matches!(written, Ok(UpdateOutcome::Written(_))) {
            for (count, taken) in self.counts().iter().zip(taken) {
                count.fetch_add(taken, Ordering::Relaxed);
            }
        }
        must_be_written(written?)
    }

    /// Whether there is a file with valid statistics.
    pub(crate) fn exists(&self, fs: &RootedFs) -> bool {
        STATS.read(fs, &self.path).is_some()
    }

    /// Whether the file is corrupt.
    pub(crate) fn is_corrupt(&self, fs: &RootedFs) -> io::Result<bool> {
        STATS.is_corrupt(fs, &self.path)
    }

    /// Resets the file if it is corrupt.
    pub(crate) fn reset_if_corrupt(&self, fs: &RootedFs, now: SystemTime) -> io::Result<()> {
        must_be_written(STATS.update(fs, &self.path, self.shared, |old| old.or_else(|| Some(nothing(now))))?)
    }

    /// Returns the sums of the counts in the file and in this process.
    pub(crate) fn all(&self, fs: &RootedFs) -> Statistics {
        let old = STATS.read(fs, &self.path).unwrap_or_default();
        let count = |at: usize| self.counts()[at].load(Ordering::Relaxed);
        Statistics::of(&std::array::from_fn(|at| old[at].saturating_add(count(at))))
    }

    /// Resets all counts.
    pub(crate) fn reset(&self, fs: &RootedFs, now: SystemTime) -> io::Result<()> {
        self.take();
        must_be_written(STATS.reset(fs, &self.path, self.shared, nothing(now))?)
    }

    fn take(&self) -> [u64; COUNT] {
        self.counts().each_ref().map(|count| count.swap(0, Ordering::Relaxed))
    }

    fn counts(&self) -> &[AtomicU64; COUNT] {
        if self.mark.is_first_in_child() {
            self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        &self.counts
    }
}

/// Returns an error if another process held the lock until the last attempt.
fn must_be_written(outcome: UpdateOutcome<COUNT>) -> io::Result<()> {
    match outcome {
        UpdateOutcome::Written(_) => Ok(()),
        UpdateOutcome::Unchanged | UpdateOutcome::Busy => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn nothing(now: SystemTime) -> [u64; COUNT] {
    let mut numbers = [0; COUNT];
    numbers[Counter::Since as usize] = unix(now).as_secs();
    numbers
}
