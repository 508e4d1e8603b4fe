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
        /// A counter of the [`Statistics`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// The number of counters. A counter is an index below it (`counter as usize`).
            pub const COUNT: usize = COUNT;
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

            /// Creates statistics of counts, by counter.
            pub fn of(numbers: &[u64; Counter::COUNT]) -> Self {
                Self { $($field: numbers[Counter::$variant as usize],)+ }
            }

            /// Adds the counts of `other`. The time at which counting began is the earlier one.
            pub fn add(&mut self, other: &Self) {
                let since = [self.since, other.since].into_iter().filter(|since| *since > 0).min();
                $(self.$field = self.$field.saturating_add(other.$field);)+
                self.since = since.unwrap_or_default();
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
    /// Entries that a user cleared.
    Cleared cleared "cleared",
    /// Bytes of the entries that a user cleared.
    BytesCleared bytes_cleared "bytes-cleared",
    /// Damaged entries that were quarantined.
    Quarantines quarantines "quarantines",
    /// Entries that came from a remote store.
    RemoteHits remote_hits "remote-hits",
    /// Entries that were published to a remote store.
    RemotePuts remote_puts "remote-puts",
    /// Calls to a remote store that failed or returned an invalid entry.
    RemoteErrors remote_errors "remote-errors",
    /// Entries from a remote store that another host built while the caller waited. They count as remote hits as well.
    RemoteShared remote_shared "remote-shared",
    /// Bytes of the objects that a remote store returned.
    RemoteReceived remote_bytes_received "remote-bytes-received",
    /// Bytes of the objects that were sent to a remote store.
    RemoteSent remote_bytes_sent "remote-bytes-sent",
    /// Calls to a remote store that failed.
    RemoteFailures remote_failures "remote-failures",
    /// Entries that a remote store refused to take.
    UploadsRefused uploads_refused "uploads-refused",
    /// Entries that could not be sent to a remote store for another reason.
    UploadsUnsent uploads_unsent "uploads-unsent",
    /// Waits for a build of another host.
    HostWaits host_waits "host-waits",
    /// Leases of other hosts that were taken over.
    Takeovers takeovers "takeovers",
    /// Microseconds in which callers did nothing but wait for other processes of this host.
    LostToProcesses lost_process_micros "lost-process-us",
    /// Microseconds in which callers did nothing but wait for other hosts.
    LostToHosts lost_host_micros "lost-host-us",
    /// Microseconds in which callers waited for answers of a remote store.
    LostToRemote lost_remote_micros "lost-remote-us",
    /// Entries of a remote store that were refused since they are damaged, or not those of their names.
    RefusedDamaged refused_damaged "refused-damaged",
    /// Entries of a remote store that were refused since they are not signed.
    RefusedUnsigned refused_unsigned "refused-unsigned",
    /// Entries of a remote store that were refused since no key that signed them is trusted.
    RefusedUntrusted refused_untrusted "refused-untrusted",
    /// Entries of a remote store that were refused since a signature is not that of the trusted key that it names.
    RefusedForged refused_forged "refused-forged",
    /// Entries of a remote store that were refused since the caller cannot use their content.
    RefusedInvalid refused_invalid "refused-invalid",
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
        let old = STATS.read(fs, &self.path).unwrap_or([0; COUNT]);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Earlier versions know the first counters only. They add to the same file, and keep the others.
    #[test]
    fn an_earlier_version_keeps_the_counters_that_it_does_not_know() {
        const KNOWN: usize = Counter::RemoteErrors as usize + 1;
        let names = std::array::from_fn(|at| NAMES[at]);
        let earlier: NumberFile<KNOWN> =
            NumberFile { title: STATS.title, earlier_title: STATS.earlier_title, names };
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (RootedFs::default(), dir.path().join(layout::STATS));
        let old = earlier.update(&fs, &path, false, |_| Some([7; KNOWN])).unwrap();
        assert_eq!(old, UpdateOutcome::Written([7; KNOWN]));
        let counters = Counters::new(dir.path(), false);
        for counter in [Counter::Hits, Counter::Takeovers, Counter::RefusedInvalid] {
            counters.add(counter, 3);
        }
        counters.flush(&fs, SystemTime::now()).unwrap();
        let added =
            earlier.update(&fs, &path, false, |old| old.map(|old| old.map(|count| count + 1))).unwrap();
        assert!(matches!(added, UpdateOutcome::Written(_)));
        let all = counters.all(&fs);
        assert_eq!((all.hits, all.remote_errors, all.takeovers, all.refused_invalid), (11, 8, 3, 3));
    }

    #[test]
    fn sums_keep_the_earlier_beginning() {
        let counted = |since, hits| Statistics { since, hits, ..Statistics::default() };
        let mut sum = Statistics::default();
        for one in [counted(0, 1), counted(70, 2), counted(50, 4)] {
            sum.add(&one);
        }
        assert_eq!(sum, counted(50, 7));
    }
}
