//! Several ways to do the same, measured side by side.
#![expect(
    clippy::print_stdout,
    clippy::panic,
    reason = "figures are printed, and a broken budget is a failure"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Whether figures are requested, by `cargo bench`. Under `cargo test` everything runs once and no budget counts.
pub fn is_measured() -> bool {
    let given = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    given("--bench") && !given("--test")
}

/// The time that `run` takes, including dropping its result.
pub fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let _ = black_box(run());
    start.elapsed()
}

/// The times of `N` ways, turn by turn. Each turn runs all of them, so that a slowdown of the machine affects all.
#[derive(Debug)]
pub struct Turns<const N: usize>(Vec<[Duration; N]>);

impl<const N: usize> Turns<N> {
    /// Takes turns for about `total`, at least 5; without [`is_measured`] only one. Each way returns its own time, so
    /// that preparation and cleaning up do not count.
    pub fn take(total: Duration, mut ways: [&mut dyn FnMut() -> Duration; N]) -> Self {
        let (start, mut turns) = (Instant::now(), Vec::new());
        if is_measured() {
            // The very first run is not typical.
            ways.iter_mut().for_each(|way| _ = way());
        }
        while turns.is_empty() || is_measured() && (turns.len() < 5 || start.elapsed() < total) {
            let mut times = [Duration::ZERO; N];
            for at in 0..N {
                // The order is reversed in every other turn.
                let way = if turns.len() % 2 == 0 { at } else { N - 1 - at };
                times[way] = ways[way]();
            }
            turns.push(times);
        }
        Self(turns)
    }

    /// The number of turns.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The median of the times of `way`.
    pub fn median(&self, way: usize) -> Duration {
        let mut times: Vec<Duration> = self.0.iter().map(|times| times[way]).collect();
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// The times of `way` in seconds: lower quartile, median, upper quartile.
    pub fn quartiles(&self, way: usize) -> [f64; 3] {
        quartiles(self.0.iter().map(|times| times[way].as_secs_f64()))
    }

    /// The ratios of `way` to `floor` in each turn: lower quartile, median, upper quartile.
    pub fn ratio(&self, way: usize, floor: usize) -> [f64; 3] {
        quartiles(self.0.iter().map(|times| times[way].as_secs_f64() / times[floor].as_secs_f64()))
    }
}

fn quartiles(numbers: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() * quarter / 4).min(numbers.len() - 1)])
}

/// The budgets of a benchmark, judged so far.
#[derive(Debug, Default)]
pub struct Budgets {
    broken: usize,
}

impl Budgets {
    /// Judges whether a [`ratio`](Turns::ratio), or a time in [`quartiles`](Turns::quartiles), is within `budget`. It
    /// is broken if three quarters of the turns exceed it: a budget that is barely met must not fail on a busy machine.
    pub fn judge(&mut self, [low, median, _]: [f64; 3], budget: f64) -> &'static str {
        if !is_measured() {
            return "not measured";
        }
        self.broken += usize::from(low > budget);
        match (low > budget, median > budget) {
            (true, _) => "BROKEN",
            (false, true) => "just about",
            (false, false) => "kept",
        }
    }

    /// Judges whether a count is within `budget`.
    pub fn judge_count(&mut self, count: u64, budget: u64) -> &'static str {
        self.judge([count as f64; 3], budget as f64)
    }

    /// Ends the program with a failure if a budget was broken.
    ///
    /// # Panics
    /// If a budget was broken.
    pub fn settle(self) {
        println!();
        if self.broken > 0 {
            panic!("{} budgets are broken, as marked above", self.broken);
        }
    }
}

/// `number` with its thousands separated.
pub fn thousands(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(" ")
}
