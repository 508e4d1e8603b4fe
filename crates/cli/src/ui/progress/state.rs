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
    /// The missing kernels that have not ended, by name, with their measured times: kernels of several targets may have the same name.
    left: HashMap<String, Vec<Option<Duration>>>,
    /// What the compiles of this build took.
    taken: Taken,
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
            taken: Taken::default(),
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
                    let measured = kernel.expected.filter(|_| kernel.is_measured);
                    let measured = measured.map(|expected| expected.min(MAX_ESTIMATE));
                    self.left.entry(kernel.name.to_owned()).or_default().push(measured);
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
                if *outcome == Outcome::Compiled
                    && let Some(running) = self.running.iter().find(|running| running.kernel == *kernel)
                {
                    self.taken.add(running.expected, now.saturating_duration_since(running.began));
                }
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

    /// Returns the time that the missing kernels still take at `now`: not less than the longest of them, since no number of threads makes
    /// one compile shorter. It is estimated by earlier compiles of such operators, as far as those of this build confirm them; without
    /// any, by the average of this build. `None` if nothing is missing, or if nothing is known of a kernel.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        let mut times = Vec::new();
        for (kernel, expected) in &self.left {
            let mut running = self.running.iter().filter(|running| running.kernel == *kernel);
            for expected in expected {
                let passed = running.next().map_or(Duration::ZERO, |running| now - running.began);
                times.push(self.taken.estimate(*expected)?.saturating_sub(passed));
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

/// What the compiles of a build took, beside what was expected of them: a machine may be busier than before, and other kernels of the same
/// operators take other times.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// The number of compiles that have ended, and their time.
    all: (u32, Duration),
    /// The number of those of which a time was expected, that time, and the time that they took.
    measured: (u32, Duration, Duration),
}

/// The longest estimate: a file of times may state any, and sums of them must fit.
const MAX_ESTIMATE: Duration = Duration::from_secs(1000 * 3600);
/// The number of compiles that say more about the others of a build than earlier builds do.
const ENOUGH: u32 = 2;

impl Taken {
    fn add(&mut self, expected: Option<Duration>, took: Duration) {
        self.all = (self.all.0 + 1, self.all.1 + took);
        if let Some(expected) = expected {
            let (count, all_expected, all_took) = self.measured;
            self.measured = (count + 1, all_expected + expected, all_took + took);
        }
    }

    /// Returns the estimated time of a compile that was `expected` to take so long.
    fn estimate(&self, expected: Option<Duration>) -> Option<Duration> {
        match (expected, self.measured) {
            (Some(expected), (ENOUGH.., all_expected, all_took)) if !all_expected.is_zero() => {
                let ratio = all_took.as_secs_f64() / all_expected.as_secs_f64();
                let estimate = Duration::try_from_secs_f64(expected.as_secs_f64() * ratio);
                Some(estimate.unwrap_or(MAX_ESTIMATE).min(MAX_ESTIMATE))
            }
            (Some(expected), _) => Some(expected),
            (None, _) => self.all.1.checked_div(self.all.0),
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
    use std::sync::Arc;

    use opkeep::{Artifact, MissingKernel};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn looked_up(state: &mut BuildState, times: &[(&str, u64)], threads: usize) {
        let expected = |seconds: u64| (seconds > 0).then(|| SECOND * u32::try_from(seconds).unwrap());
        let missing: Vec<_> = times
            .iter()
            .map(|(name, seconds)| {
                let expected = expected(*seconds);
                MissingKernel { name, expected, is_measured: expected.is_some() }
            })
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
        // An average of other operators is no knowledge.
        let mut state = BuildState::new(began);
        let average = MissingKernel { name: "a", expected: Some(SECOND), is_measured: false };
        state.observe(&Event::LookedUp { missing: &[average], threads: 1 }, began);
        assert_eq!(state.remaining(began), None);
    }

    /// Compiles `kernel` from `began` on, for that many seconds.
    fn compiled(state: &mut BuildState, kernel: &str, began: Instant, seconds: u32) {
        state.observe(&Event::Started { kernel }, began);
        let artifact = Arc::new(Artifact { metadata: Vec::new(), object: Vec::new(), extra: Vec::new() });
        let (outcome, elapsed, tier) = (Outcome::Compiled, SECOND * seconds, None);
        let finished = Event::Finished { kernel, outcome, elapsed, artifact: &artifact, tier };
        state.observe(&finished, began + elapsed);
    }

    /// What this build's compiles take says more than what earlier ones took, on a machine with other load or with other compilers at once.
    #[test]
    fn the_compiles_of_the_build_correct_the_estimate() {
        let began = Instant::now();
        let mut state = BuildState::new(began);
        looked_up(&mut state, &[("a", 8), ("b", 8), ("c", 8), ("d", 16)], 2);
        assert_eq!(state.remaining(began), Some(SECOND * 20));
        compiled(&mut state, "a", began, 2);
        assert_eq!(state.remaining(began), Some(SECOND * 16), "one compile may be an exception");
        compiled(&mut state, "b", began, 2);
        assert_eq!(state.remaining(began), Some(SECOND * 4), "2 and 4 s by two threads, the longest alone");
        // A kernel of unknown operators takes the average.
        let mut state = BuildState::new(began);
        looked_up(&mut state, &[("a", 0), ("b", 0), ("c", 0)], 1);
        compiled(&mut state, "a", began, 3);
        assert_eq!(state.remaining(began), Some(SECOND * 6));
        assert!(state.counts().compiled == 1 && state.running().len() == 0);
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
