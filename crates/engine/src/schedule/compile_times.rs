//! What compiles took on this machine, so that the longest can begin first.
//!
//! The file is a hint: a lost or damaged line costs a worse order, and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opkeep_fs::Fs;

const HEAD: &str = "opkeep costs 1";
const MAX_KINDS: usize = 4096;
const MAX_BYTES: u64 = 1 << 20;

/// Which kernels cost alike: backend, target and types of the operators.
pub(crate) type TimingKey = String;

/// Compile times by kind of kernel.
#[derive(Debug, Default)]
pub(crate) struct CompileTimes {
    file: Option<PathBuf>,
    /// What was measured since, in microseconds.
    measured: Mutex<BTreeMap<TimingKey, u64>>,
}

impl CompileTimes {
    /// Costs that are kept in `file`.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, measured: Mutex::default() }
    }

    /// The kind of a kernel; none, if it cannot be a line's.
    pub(crate) fn timing_key(backend: &str, target: &str, op_type: &str) -> Option<TimingKey> {
        let timing_key = format!("{backend} {target} {op_type}");
        (timing_key.len() <= 256 && !timing_key.contains(char::is_control)).then_some(timing_key)
    }

    /// What each of `kinds` is expected to take. Of those never seen nothing is known but the others: they are taken
    /// for average.
    pub(crate) fn expected<'k>(&self, kinds: impl Iterator<Item = Option<&'k TimingKey>>) -> Vec<Duration> {
        let known: HashMap<TimingKey, u64> = self.read().into_iter().collect();
        let found: Vec<Option<u64>> = kinds.map(|timing_key| known.get(timing_key?).copied()).collect();
        let seen = found.iter().flatten();
        let average = seen.clone().sum::<u64>().checked_div(seen.count() as u64).unwrap_or_default();
        found.into_iter().map(|found| Duration::from_micros(found.unwrap_or(average))).collect()
    }

    /// Notes what a compile took.
    pub(crate) fn note(&self, timing_key: Option<TimingKey>, took: Duration) {
        let Some(timing_key) = timing_key else { return };
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.entry(timing_key).and_modify(|known| *known = mean(*known, took)).or_insert(took);
    }

    /// Writes down what was measured, beside what others wrote.
    pub(crate) fn save(&self) {
        let Some(file) = &self.file else { return };
        let measured = std::mem::take(&mut *self.measured.lock().unwrap_or_else(PoisonError::into_inner));
        if measured.is_empty() {
            return;
        }
        // Most recently measured first; the least recently measured are dropped.
        let known = self.read();
        let before: HashMap<&str, u64> =
            known.iter().map(|(timing_key, took)| (timing_key.as_str(), *took)).collect();
        let fresh = measured.iter().map(|(timing_key, took)| {
            let took = before.get(timing_key.as_str()).map_or(*took, |before| mean(*before, *took));
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

/// The mean of the old and the new value: machines change.
fn mean(known: u64, new: u64) -> u64 {
    known.midpoint(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing_key(op_type: &str) -> Option<TimingKey> {
        CompileTimes::timing_key("cpu", "cpu-x86_64", op_type)
    }

    #[test]
    fn what_was_measured_is_expected_and_the_unknown_are_average() {
        let temp = tempfile::tempdir().unwrap();
        let open = || CompileTimes::new(Some(temp.path().join("costs")));
        let millis = Duration::from_millis;
        let expected = |costs: &CompileTimes, op_types: [&str; 3]| {
            let kinds = op_types.map(timing_key);
            costs.expected(kinds.iter().map(Option::as_ref))
        };

        let costs = open();
        assert_eq!(expected(&costs, ["a", "b", "c"]), [Duration::ZERO; 3]);
        costs.note(timing_key("a"), millis(100));
        costs.note(timing_key("b"), millis(20));
        costs.note(timing_key("b"), millis(40));
        costs.save();
        assert_eq!(expected(&open(), ["a", "b", "c"]), [millis(100), millis(30), millis(65)]);

        // What another wrote meanwhile stays.
        let other = open();
        other.note(timing_key("c"), millis(7));
        other.save();
        costs.note(timing_key("a"), millis(300));
        costs.save();
        assert_eq!(expected(&open(), ["a", "b", "c"]), [millis(200), millis(30), millis(7)]);
    }

    #[test]
    fn what_was_measured_longest_ago_goes_first() {
        let temp = tempfile::tempdir().unwrap();
        let save = |kinds: &mut dyn Iterator<Item = String>| {
            let costs = CompileTimes::new(Some(temp.path().join("costs")));
            kinds.for_each(|name| costs.note(timing_key(&name), Duration::from_millis(1)));
            costs.save();
            costs.read()
        };
        let known = |read: &[(TimingKey, u64)], name: &str| {
            read.iter().any(|(known, _)| Some(known) == timing_key(name).as_ref())
        };
        save(&mut (0..MAX_KINDS).map(|at| format!("m{at}")));
        // One of the old ones was measured again, and two are new; by the alphabet they are the last.
        save(&mut ["m9".to_owned()].into_iter());
        let read = save(&mut (0..MAX_KINDS - 1).map(|at| format!("z{at}")));
        assert_eq!(read.len(), MAX_KINDS);
        assert!(known(&read, "m9") && !known(&read, "m1") && known(&read, "z0"));
    }

    #[test]
    fn what_is_no_line_is_passed_over() {
        let known = parse("opkeep costs 1\n12 cpu t Add\nx cpu t Mul\n\n7\n99 cpu t Sub");
        assert_eq!(known, [("cpu t Add".into(), 12), ("cpu t Sub".into(), 99)]);
        assert!(parse("something else\n12 cpu t Add\n").is_empty());
        assert_eq!(timing_key("two\nlines"), None);
    }
}
