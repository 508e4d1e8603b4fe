//! Compile times on this machine, by which the longest compiles begin first.
//!
//! The file is a hint: a lost or damaged line only makes the order worse.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opkeep_fs::Fs;

const HEAD: &str = "opkeep costs 1";
const MAX_KINDS: usize = 4096;
const MAX_BYTES: u64 = 1 << 20;

/// The properties of kernels with similar compile times: the backend, the target and the types of the operators.
pub(crate) type TimingKey = String;

/// The estimated time of a compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompileTime {
    pub(crate) time: Duration,
    /// Whether a compile of such operators was measured. Otherwise it is the average of the others.
    pub(crate) is_measured: bool,
}

/// Compile times by [`TimingKey`].
#[derive(Debug, Default)]
pub(crate) struct CompileTimes {
    file: Option<PathBuf>,
    /// The compile times of this process that are not yet in the file, in microseconds.
    measured: Mutex<BTreeMap<TimingKey, u64>>,
    /// The longest compile time that is known for the backends and targets of this process, in microseconds; 0 if none is.
    longest: AtomicU64,
}

impl CompileTimes {
    /// Opens the compile times in `file`; without a file, they are not kept.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, ..Self::default() }
    }

    /// Returns the timing key of a kernel; `None` if it does not fit into a line of the file.
    pub(crate) fn timing_key(backend: &str, target: &str, op_type: &str) -> Option<TimingKey> {
        let timing_key = format!("{backend} {target} {op_type}");
        (timing_key.len() <= 256 && !timing_key.contains(char::is_control)).then_some(timing_key)
    }

    /// Returns the estimated compile time for each of `keys`. For an unknown key, it is the average of the known ones, if there are any.
    pub(crate) fn expected<'k>(
        &self,
        keys: impl Iterator<Item = Option<&'k TimingKey>>,
    ) -> Vec<Option<CompileTime>> {
        let recorded: HashMap<TimingKey, u64> = self.read().into_iter().collect();
        let mut targets = BTreeSet::new();
        let of_key = |timing_key: Option<&'k TimingKey>| {
            let timing_key = timing_key?;
            targets.insert(target(timing_key));
            recorded.get(timing_key).copied()
        };
        let found: Vec<Option<u64>> = keys.map(of_key).collect();
        let of_targets = recorded.iter().filter(|(timing_key, _)| targets.contains(target(timing_key)));
        self.longest.fetch_max(of_targets.map(|(_, took)| *took).max().unwrap_or(0), Ordering::Relaxed);
        let known = found.iter().flatten();
        let average = known.clone().sum::<u64>().checked_div(known.count() as u64);
        let time = |found: Option<u64>| {
            let micros = found.or(average)?;
            let time = Duration::from_micros(micros);
            (micros > 0).then_some(CompileTime { time, is_measured: found.is_some() })
        };
        found.into_iter().map(time).collect()
    }

    /// Returns the estimated compile time for `key`, if it is known.
    pub(crate) fn expected_one(&self, key: Option<&TimingKey>) -> Option<Duration> {
        self.expected(std::iter::once(key)).pop().flatten().map(|expected| expected.time)
    }

    /// Returns the longest compile time of any operator that is known for the targets of this process: those that this process
    /// measured, and those that were recorded when it looked for times.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let longest = self.longest.load(Ordering::Relaxed);
        (longest > 0).then(|| Duration::from_micros(longest))
    }

    /// Records a compile time.
    pub(crate) fn note(&self, timing_key: Option<TimingKey>, took: Duration) {
        let Some(timing_key) = timing_key else { return };
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.longest.fetch_max(took, Ordering::Relaxed);
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.entry(timing_key).and_modify(|known| *known = mean(*known, took)).or_insert(took);
    }

    /// Adds the compile times of this process to the file. Best effort.
    pub(crate) fn save(&self) {
        let Some(file) = &self.file else { return };
        let measured = std::mem::take(&mut *self.measured.lock().unwrap_or_else(PoisonError::into_inner));
        if measured.is_empty() {
            return;
        }
        // The most recently measured come first; beyond the limit, the last ones are dropped.
        let known = self.read();
        let old: HashMap<&str, u64> =
            known.iter().map(|(timing_key, took)| (timing_key.as_str(), *took)).collect();
        let fresh = measured.iter().map(|(timing_key, took)| {
            let took = old.get(timing_key.as_str()).map_or(*took, |old| mean(*old, *took));
            (timing_key, took)
        });
        let others = known.iter().filter(|(timing_key, _)| !measured.contains_key(timing_key));
        let lines = fresh.chain(others.map(|(timing_key, took)| (timing_key, *took))).take(MAX_KINDS);
        let lines = lines.map(|(timing_key, took)| format!("{took} {timing_key}\n"));
        let text = format!("{HEAD}\n{}", lines.collect::<String>());
        let _ = Fs::new().replace(file, &[text.as_bytes()], 0o600);
    }

    /// The records, most recently measured first.
    fn read(&self) -> Vec<(TimingKey, u64)> {
        let text = self.file.as_ref().and_then(|file| Fs::new().read_own(file, MAX_BYTES).ok());
        text.map(|text| parse(&String::from_utf8_lossy(&text))).unwrap_or_default()
    }
}

/// Returns the backend and the target of a timing key.
fn target(timing_key: &str) -> &str {
    let end = timing_key.match_indices(' ').nth(1).map_or(timing_key.len(), |(at, _)| at);
    &timing_key[..end]
}

fn parse(text: &str) -> Vec<(TimingKey, u64)> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Vec::new();
    }
    let line = |line: &str| {
        let (took, timing_key) = line.split_once(' ')?;
        Some((timing_key.to_owned(), took.parse().ok()?))
    };
    lines.filter_map(line).collect()
}

/// Returns the mean of the old and the new value: the speed of a machine changes.
fn mean(old: u64, new: u64) -> u64 {
    old.midpoint(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing_key(op_type: &str) -> Option<TimingKey> {
        CompileTimes::timing_key("cpu", "cpu-x86_64", op_type)
    }

    #[test]
    fn estimates_are_recorded_times_or_their_average() {
        let temp = tempfile::tempdir().unwrap();
        let open = || CompileTimes::new(Some(temp.path().join("costs")));
        let millis = Duration::from_millis;
        let expected = |times: &CompileTimes, op_types: [&str; 3]| {
            let keys = op_types.map(timing_key);
            let expected = times.expected(keys.iter().map(Option::as_ref));
            let measured = expected.iter().flatten().filter(|expected| expected.is_measured).count();
            (expected.iter().map(|expected| expected.map(|one| one.time)).collect::<Vec<_>>(), measured)
        };
        let times_of = |times: [u64; 3]| times.map(|time| Some(millis(time))).to_vec();

        let times = open();
        assert_eq!(expected(&times, ["a", "b", "c"]), (vec![None; 3], 0));
        times.note(timing_key("a"), millis(100));
        times.note(timing_key("b"), millis(20));
        times.note(timing_key("b"), millis(40));
        times.save();
        assert_eq!(expected(&open(), ["a", "b", "c"]), (times_of([100, 30, 65]), 2));

        // Times that another process wrote in the meantime stay.
        let other = open();
        other.note(timing_key("c"), millis(7));
        other.save();
        times.note(timing_key("a"), millis(300));
        times.save();
        assert_eq!(expected(&open(), ["a", "b", "c"]), (times_of([200, 30, 7]), 3));
    }

    #[test]
    fn the_longest_time_is_that_of_any_operator_of_the_target() {
        let temp = tempfile::tempdir().unwrap();
        let open = || CompileTimes::new(Some(temp.path().join("costs")));
        let times = open();
        assert_eq!(times.longest(), None);
        times.note(timing_key("a"), Duration::from_millis(30));
        times.note(timing_key("b c"), Duration::from_millis(90));
        times.note(CompileTimes::timing_key("cpu", "cpu-aarch64", "a"), Duration::from_secs(9));
        times.save();
        assert_eq!(times.longest(), Some(Duration::from_secs(9)));
        // Another process has not looked yet; then it knows the times of its own target, also those of other operators.
        let times = open();
        assert_eq!(times.longest(), None);
        let new = timing_key("new");
        times.expected([new.as_ref(), None].into_iter());
        assert_eq!(times.longest(), Some(Duration::from_millis(90)));
        times.note(new, Duration::from_millis(100));
        assert_eq!(times.longest(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn the_least_recently_measured_times_are_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let save = |op_types: &mut dyn Iterator<Item = String>| {
            let times = CompileTimes::new(Some(temp.path().join("costs")));
            op_types.for_each(|name| times.note(timing_key(&name), Duration::from_millis(1)));
            times.save();
            times.read()
        };
        let known = |read: &[(TimingKey, u64)], name: &str| {
            read.iter().any(|(known, _)| Some(known) == timing_key(name).as_ref())
        };
        save(&mut (0..MAX_KINDS).map(|at| format!("m{at}")));
        // One of the old keys is measured again, and all but one of the file's lines are new; in alphabetical order the new
        // ones are last.
        save(&mut ["m9".to_owned()].into_iter());
        let read = save(&mut (0..MAX_KINDS - 1).map(|at| format!("z{at}")));
        assert_eq!(read.len(), MAX_KINDS);
        assert!(known(&read, "m9") && !known(&read, "m1") && known(&read, "z0"));
    }

    #[test]
    fn invalid_lines_are_skipped() {
        let known = parse("opkeep costs 1\n12 cpu t Add\nx cpu t Mul\n\n7\n99 cpu t Sub");
        assert_eq!(known, [("cpu t Add".into(), 12), ("cpu t Sub".into(), 99)]);
        assert!(parse("something else\n12 cpu t Add\n").is_empty());
        assert_eq!(timing_key("two\nlines"), None);
    }
}
