//! Figures of a benchmark for programs: `cargo xtask bench-report` makes its tables of these alone, and not of the
//! printed text.
#![expect(clippy::print_stderr, reason = "a lost figure is reported")]

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::files;

/// One row of a benchmark.
///
/// [`note`](Self::note) writes it as a line of JSON to the file `<bench>.jsonl` in the directory that `OPKEEP_FIGURES`
/// names; if the variable is not set, nothing is written.
#[derive(Debug)]
#[must_use = "it is written down by `note`"]
pub struct Figure {
    bench: &'static str,
    fields: Map<String, Value>,
}

impl Figure {
    /// A row of `bench`.
    pub fn new(bench: &'static str, row: impl Into<String>) -> Self {
        let figure = Self { bench, fields: Map::new() };
        figure.with("bench", bench).with("row", row.into())
    }

    /// The number of entries, kernels or operators.
    pub fn entries(self, entries: usize) -> Self {
        self.with("entries", entries)
    }

    /// The number of bytes of an iteration.
    pub fn bytes(self, bytes: usize) -> Self {
        self.with("bytes", bytes)
    }

    /// The measured time, and the floor's.
    pub fn times(self, ours: Duration, floor: Duration) -> Self {
        self.values("s", ours.as_secs_f64(), floor.as_secs_f64())
    }

    /// Other values in `unit`.
    pub fn values(self, unit: &str, ours: f64, floor: f64) -> Self {
        self.value(unit, ours).with("floor", floor)
    }

    /// A value without a floor.
    pub fn value(self, unit: &str, ours: f64) -> Self {
        self.with("unit", unit).with("ours", ours)
    }

    /// The ratio to the floor: lower quartile, median, upper quartile.
    pub fn ratio(self, [low, median, high]: [f64; 3]) -> Self {
        self.with("low", low).with("ratio", median).with("high", high)
    }

    /// The budget in words; the measured value with the `limit`; and the verdict of [`Budgets`](crate::Budgets), if
    /// there is a budget.
    pub fn budget<'a>(
        self,
        allowed: impl Into<String>,
        [measured, limit]: [f64; 2],
        verdict: impl Into<Option<&'a str>>,
    ) -> Self {
        match verdict.into() {
            Some(verdict) => {
                let judged = self.with("budget", allowed.into()).with("verdict", verdict);
                judged.with("of_budget", measured / limit)
            }
            None => self,
        }
    }

    /// Writes it to the file.
    pub fn note(self) {
        if let Some(directory) = files::figures_directory() {
            let (path, line) =
                (directory.join(format!("{}.jsonl", self.bench)), json!(self.fields).to_string());
            if let Err(error) = files::append_line(&path, &line) {
                eprintln!("a figure is lost: `{}` cannot be written: {error}", path.display());
            }
        }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_its_values() {
        let figure = Figure::new("store_hit", "hit").entries(1000).bytes(9216);
        let figure = figure.times(Duration::from_micros(3), Duration::from_micros(2)).ratio([1.4, 1.5, 1.75]);
        let expected = json!({
            "bench": "store_hit", "row": "hit", "entries": 1000, "bytes": 9216, "unit": "s", "ours": 3e-6, "floor": 2e-6,
            "low": 1.4, "ratio": 1.5, "high": 1.75, "budget": "1.25 times", "verdict": "BROKEN", "of_budget": 1.2,
        });
        assert_eq!(json!(figure.budget("1.25 times", [1.5, 1.25], "BROKEN").fields), expected);
    }
}
