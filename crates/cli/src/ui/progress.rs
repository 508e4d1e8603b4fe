//! A progress bar, shown if stderr is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use opkeep::Event;

use crate::ui::text::one_line;

/// Shows the progress of a command on stderr, if that is a terminal.
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

    /// Shows a text, escaped. All texts reach the bar through this function.
    fn message(&self, text: &str) {
        self.0.set_message(one_line(text));
    }

    /// Begins a run of a network with `nodes` nodes.
    pub(crate) fn begin(&self, nodes: usize) {
        self.0.set_length(nodes as u64);
    }

    /// Shows that `done` of `of` items are done.
    pub(crate) fn at(&self, done: u64, of: u64) {
        self.0.set_length(of);
        // Threads report in any order.
        self.0.update(|state| state.set_pos(state.pos().max(done)));
    }

    /// Shows that `done` of `of` items of the subject `what` are done, and begins anew if the subject is another than
    /// before.
    pub(crate) fn of(&self, what: &str, done: u64, of: u64) {
        if self.0.message() != one_line(what) {
            self.about(what);
        }
        self.at(done, of);
    }

    /// Begins anew with the subject `what`.
    pub(crate) fn about(&self, what: &str) {
        self.0.set_position(0);
        self.message(what);
    }

    /// Counts a node that ran.
    pub(crate) fn ran(&self, node: &str) {
        self.message(node);
        self.0.inc(1);
    }

    pub(crate) fn observe(&self, event: Event<'_>) {
        match event {
            Event::Planned { kernels, .. } => self.0.set_length(kernels as u64),
            Event::Hit { .. } => self.0.inc(1),
            Event::Started { .. } | Event::Waiting { .. } => self.message(&event.to_string()),
            Event::Finished { .. }
            | Event::Failed { .. }
            | Event::Skipped { .. }
            | Event::Cancelled { .. } => {
                self.message(&event.to_string());
                self.0.inc(1);
            }
            // Warnings are in the report, from which they are printed.
            _ => {}
        }
    }

    pub(crate) fn done(&self) {
        self.0.finish_and_clear();
    }
}
