//! What a build does now, and how long it will take, from its events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use opkeep::{Event, Outcome};

/// The state of a build. It reads no clock.
#[derive(Debug)]
pub(super) struct BuildState {
    began: Instant,
    /// The number of kernels, once it is known.
    total: usize,
    counts: Counts,
    /// The missing kernels that have not ended, by name: kernels of several targets may have the same name.
    left: HashMap<String, Vec<Option<Duration>>>,
    /// The compiles that have begun, in that order.
    running: VecDeque<Running>,
    /// The kernels for which other processes or hosts are waited for.
    waiting: Waiting,
    threads: usize,
    /// The number of kernels that were missing.
    missing: usize,
    /// Why kernels are missing, in a few words, by name.
    causes: HashMap<String, String>,
}

/// The kernels that have ended, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) reused: usize,
    pub(super) compiled: usize,
    /// Built by other processes and hosts meanwhile.
    pub(super) shared: usize,
    pub(super) failed: usize,
    /// Skipped or cancelled.
    pub(super) stopped: usize,
}

/// A compile.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) kernel: String,
    pub(super) began: Instant,
    /// The time that it takes, by earlier compiles.
    pub(super) expected: Option<Duration>,
}

impl Counts {
    /// The number of kernels that have ended.
    pub(super) fn done(&self) -> usize {
        self.reused + self.compiled + self.shared + self.failed + self.stopped
    }
}

impl BuildState {
    /// Begins a build at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            total: 0,
            counts: Counts::default(),
            left: HashMap::new(),
            running: VecDeque::new(),
            waiting: Waiting::default(),
            threads: 1,
            missing: 0,
            causes: HashMap::new(),
        }
    }

    /// Adds an event of `now`.
    pub(super) fn observe(&mut self, event: &Event<'_>, now: Instant) {
        match event {
            Event::Planned { kernels, .. } => self.total += kernels,
            Event::LookedUp { missing, threads, .. } => {
                self.threads = (*threads).max(1);
                self.missing += missing.len();
                for kernel in *missing {
                    self.left.entry(kernel.name.to_owned()).or_default().push(kernel.expected);
                }
            }
            Event::Explained { kernel, miss, .. } => {
                self.causes.insert((*kernel).to_owned(), miss.to_string());
            }
            Event::Hit { .. } => self.counts.reused += 1,
            Event::Started { kernel } => {
                let expected = self.left.get(*kernel).and_then(|times| times.last()).copied().flatten();
                self.waiting.remove(kernel);
                self.running.push_back(Running { kernel: (*kernel).to_owned(), began: now, expected });
            }
            Event::Waiting { kernel } | Event::WaitingForHost { kernel, .. } => {
                self.waiting.add(kernel);
            }
            Event::WaitEnded { kernel, .. } => self.waiting.remove(kernel),
            Event::Finished { kernel, outcome, .. } => {
                self.end(kernel);
                match outcome {
                    Outcome::Shared => self.counts.shared += 1,
                    Outcome::Reused => self.counts.reused += 1,
                    _ => self.counts.compiled += 1,
                }
            }
            Event::Failed { kernel, .. } => {
                self.end(kernel);
                self.counts.failed += 1;
            }
            Event::Skipped { kernel, .. } | Event::Cancelled { kernel, .. } => {
                self.end(kernel);
                self.counts.stopped += 1;
            }
            _ => {}
        }
    }

    /// The number of kernels, or 0 while it is not known.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The number of kernels that were missing, those included that have ended.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Returns why a kernel is missing, if that is known.
    pub(super) fn cause(&self, kernel: &str) -> Option<&str> {
        self.causes.get(kernel).map(String::as_str)
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The compiles, those that began first first.
    pub(super) fn running(&self) -> impl ExactSizeIterator<Item = &Running> {
        self.running.iter()
    }

    /// The kernels for which other processes or hosts are waited for, those whose wait began first first.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = &str> {
        self.waiting.names.values().map(String::as_str)
    }

    /// Returns the time at `now` since the build began.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Returns the time that the missing kernels still take at `now`, by earlier compiles: not less than the longest of them, since no
    /// number of threads makes one compile shorter. `None` if nothing is missing or a time is not known.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        let mut times = Vec::new();
        for (kernel, expected) in &self.left {
            let mut running = self.running.iter().filter(|running| running.kernel == *kernel);
            for expected in expected {
                let passed = running.next().map_or(Duration::ZERO, |running| now - running.began);
                times.push((*expected)?.saturating_sub(passed));
            }
        }
        let threads = u32::try_from(self.threads).unwrap_or(u32::MAX);
        let shared = times.iter().sum::<Duration>() / threads;
        times.iter().max().map(|longest| shared.max(*longest))
    }

    fn end(&mut self, kernel: &str) {
        self.waiting.remove(kernel);
        if let Some(at) = self.running.iter().position(|running| running.kernel == kernel) {
            self.running.remove(at);
        }
        if let Some(times) = self.left.get_mut(kernel) {
            times.pop();
            if times.is_empty() {
                self.left.remove(kernel);
            }
        }
    }
}

/// The kernels that wait. A build may wait for all of its kernels, and each of them is removed by its name.
#[derive(Debug, Default)]
struct Waiting {
    /// The names in the order of their last waits.
    names: BTreeMap<u64, String>,
    /// The place of each name in that order.
    places: HashMap<String, u64>,
    next: u64,
}

impl Waiting {
    fn add(&mut self, kernel: &str) {
        self.remove(kernel);
        self.names.insert(self.next, kernel.to_owned());
        self.places.insert(kernel.to_owned(), self.next);
        self.next += 1;
    }

    fn remove(&mut self, kernel: &str) {
        if let Some(place) = self.places.remove(kernel) {
            self.names.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use opkeep::MissingKernel;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn looked_up(state: &mut BuildState, times: &[(&str, u64)], threads: usize) {
        let expected = |seconds: u64| (seconds > 0).then(|| SECOND * u32::try_from(seconds).unwrap());
        let missing: Vec<_> = times
            .iter()
            .map(|(name, seconds)| MissingKernel { name, expected: expected(*seconds) })
            .collect();
        state.observe(&Event::LookedUp { missing: &missing, threads }, state.began);
    }

    #[test]
    fn the_time_that_remains_is_shared_among_threads() {
        let began = Instant::now();
        let mut state = BuildState::new(began);
        assert_eq!(state.remaining(began), None);
        looked_up(&mut state, &[("a", 10), ("b", 6), ("c", 4)], 2);
        assert_eq!(state.remaining(began), Some(SECOND * 10), "half of 20 s");
        state.observe(&Event::Started { kernel: "a" }, began);
        state.observe(&Event::Started { kernel: "b" }, began);
        assert_eq!(state.remaining(began + SECOND * 4), Some(SECOND * 6), "6, 2 and 4 s by two threads");
        state.observe(&Event::Cancelled { kernel: "b", elapsed: SECOND * 4 }, began + SECOND * 4);
        assert_eq!(state.remaining(began + SECOND * 9), Some(SECOND * 4), "no less than the longest");
        assert_eq!(state.remaining(began + SECOND * 90), Some(SECOND * 4), "a compile may take longer");
        for kernel in ["a", "c"] {
            state.observe(&Event::Skipped { kernel, first: "b" }, began);
        }
        assert_eq!(state.remaining(began), None);
        assert_eq!(state.counts(), Counts { stopped: 3, ..Counts::default() });
    }

    #[test]
    fn nothing_is_said_of_unknown_times() {
        let began = Instant::now();
        let mut state = BuildState::new(began);
        looked_up(&mut state, &[("a", 10), ("b", 0)], 2);
        assert_eq!(state.remaining(began), None);
    }

    /// Kernels of two targets have one name.
    #[test]
    fn equal_names_are_different_kernels() {
        let began = Instant::now();
        let mut state = BuildState::new(began);
        looked_up(&mut state, &[("a", 3), ("a", 3)], 1);
        for _ in 0..2 {
            state.observe(&Event::Started { kernel: "a" }, began);
        }
        state.observe(&Event::Cancelled { kernel: "a", elapsed: SECOND }, began);
        assert_eq!((state.running().len(), state.remaining(began + SECOND)), (1, Some(SECOND * 2)));
        state.observe(&Event::Cancelled { kernel: "a", elapsed: SECOND }, began);
        assert_eq!((state.running().len(), state.counts().done()), (0, 2));
    }

    #[test]
    fn a_wait_ends_with_the_compile_or_the_kernel() {
        let began = Instant::now();
        let mut state = BuildState::new(began);
        for kernel in ["a", "b", "c"] {
            state.observe(&Event::Waiting { kernel }, began);
            state.observe(&Event::Waiting { kernel }, began);
        }
        let waiting = |state: &BuildState| state.waiting().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(waiting(&state), ["a", "b", "c"]);
        state.observe(&Event::Waiting { kernel: "a" }, began);
        assert_eq!(waiting(&state), ["b", "c", "a"], "a kernel has one place, that of its last wait");
        state.observe(&Event::Started { kernel: "a" }, began);
        state.observe(&Event::Skipped { kernel: "b", first: "a" }, began);
        assert_eq!(waiting(&state), ["c"]);
        state.observe(&Event::Cancelled { kernel: "c", elapsed: SECOND }, began);
        assert_eq!((state.waiting().len(), state.waiting.places.len()), (0, 0));
    }
}
