//! The time of each operator of a run.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use opkeep_descriptor::Job;
use opkeep_ops::Call;
use serde::Serialize;

use crate::ui::json::Milliseconds;
use crate::ui::text::{Text, counted};

/// The times of a run.
pub(crate) struct Profile {
    steps: Vec<Step>,
    pub(crate) elapsed: Duration,
    threads: NonZeroUsize,
}

/// The time of an operator that has run.
struct Step {
    name: String,
    op_type: String,
    elapsed: Duration,
    /// The number of floating-point operations, of convolutions and matrix products only.
    flops: u64,
}

impl Profile {
    pub(crate) fn new<'a>(
        steps: impl IntoIterator<Item = (&'a str, &'a Job, Duration)>,
        elapsed: Duration,
        threads: NonZeroUsize,
    ) -> Self {
        let timed = |(name, job, elapsed): (&str, &Job, Duration)| {
            let op = job.ops.first();
            let flops = op.and_then(|op| Call::of(op).ok()?.flops()).unwrap_or(0);
            Step {
                name: name.to_owned(),
                op_type: op.map(|op| op.op_type.clone()).unwrap_or_default(),
                elapsed,
                flops,
            }
        };
        Self { steps: steps.into_iter().map(timed).collect(), elapsed, threads }
    }

    /// Returns a line such as `ran 176 operators in 212.0 ms on 2 threads: 7.7 GFLOP, 36.4 GFLOP/s`.
    pub(crate) fn summary(&self) -> String {
        let flops: u64 = self.steps.iter().map(|step| step.flops).sum();
        let speed = match flops {
            0 => String::new(),
            flops => format!(": {:.3} GFLOP, {:.1} GFLOP/s", flops as f64 / 1e9, rate(flops, self.elapsed)),
        };
        format!(
            "ran {} in {:.3} ms on {}{speed}",
            counted(self.steps.len(), "operator"),
            Milliseconds(self.elapsed).number(),
            counted(self.threads.get(), "thread")
        )
    }

    /// Returns the times of every operator in order, then of operator types by their total time.
    pub(crate) fn text(&self) -> Text {
        let mut text =
            Text::of(format_args!("{:>10}  {:>5}  {:>8}  {:16}  operator", "ms", "%", "GFLOP/s", "type"));
        let mut by_type: BTreeMap<&str, (usize, Duration, u64)> = BTreeMap::new();
        for step in &self.steps {
            text.line(self.line(step.elapsed, step.flops, &step.op_type, &step.name));
            let sum = by_type.entry(&step.op_type).or_default();
            *sum = (sum.0 + 1, sum.1 + step.elapsed, sum.2 + step.flops);
        }
        let mut by_type: Vec<_> = by_type.into_iter().collect();
        opkeep_order::by_key(&mut by_type, |(_, (_, elapsed, _))| std::cmp::Reverse(*elapsed));
        text.line("together");
        for (op_type, (count, elapsed, flops)) in by_type {
            text.line(self.line(elapsed, flops, op_type, &counted(count, "operator")));
        }
        text
    }

    fn line(&self, elapsed: Duration, flops: u64, op_type: &str, what: &str) -> String {
        let share = elapsed.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9) * 100.0;
        let speed = if flops == 0 { String::new() } else { format!("{:.1}", rate(flops, elapsed)) };
        format!("{:>10.3}  {share:>5.1}  {speed:>8}  {op_type:16}  {what}", Milliseconds(elapsed).number())
    }

    /// Returns every operator for JSON, in order.
    pub(crate) fn output(&self) -> Vec<StepOutput> {
        let step = |step: &Step| StepOutput {
            operator: step.name.clone(),
            op_type: step.op_type.clone(),
            elapsed_ms: Milliseconds(step.elapsed),
            flops: step.flops,
        };
        self.steps.iter().map(step).collect()
    }
}

/// An operator that has run, as JSON.
#[derive(Serialize)]
pub(crate) struct StepOutput {
    operator: String,
    op_type: String,
    elapsed_ms: Milliseconds,
    flops: u64,
}

/// Returns the rate in thousand millions of operations per second.
fn rate(flops: u64, elapsed: Duration) -> f64 {
    flops as f64 / elapsed.as_secs_f64().max(1e-9) / 1e9
}
