//! A progress bar, where a person is watching.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use opbuild::{Event, Outcome};

use crate::output::one_line;

/// Shows the progress of a build or a run on stderr, if that is a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(wanted: bool) -> Self {
        let bar = if wanted && std::io::stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// A network of `nodes` is about to run.
    pub(crate) fn begin(&self, nodes: usize) {
        self.0.set_length(nodes as u64);
    }

    /// A node has run.
    pub(crate) fn ran(&self, node: &str) {
        self.0.set_message(one_line(node));
        self.0.inc(1);
    }

    pub(crate) fn observe(&self, event: Event<'_>) {
        match event {
            Event::Planned { kernels, .. } => self.0.set_length(kernels as u64),
            Event::Started { kernel } => self.0.set_message(format!("compiling {kernel}")),
            Event::Waiting { kernel } => {
                self.0.set_message(format!("another process is compiling {kernel}"));
            }
            Event::Finished { kernel, outcome, .. } => {
                if outcome != Outcome::Reused {
                    self.0.set_message(format!("{outcome} {kernel}"));
                }
                self.0.inc(1);
            }
            // Warnings are in the report, and printed from there.
            _ => {}
        }
    }

    pub(crate) fn done(&self) {
        self.0.finish_and_clear();
    }
}
