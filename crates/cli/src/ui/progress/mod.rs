//! Progress on stderr: of a build, in [`build`]; of other commands, a bar, if stderr is a terminal. In process, texts for the caller.

pub(crate) mod build;
mod lines;
mod state;

use std::io::IsTerminal;
use std::sync::mpsc::Sender;

use indicatif::{ProgressBar, ProgressStyle};

use crate::ui::text::one_line;

/// Shows the progress of a command.
pub(crate) struct Progress {
    bar: ProgressBar,
    caller: Option<Sender<Option<String>>>,
}

impl Progress {
    /// Shows a bar on stderr, if that is a terminal.
    pub(crate) fn on_terminal(is_wanted: bool) -> Self {
        let bar = if is_wanted && std::io::stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, caller: None }
    }

    /// Sends texts to the caller in whose process the command runs.
    pub(crate) fn for_caller(caller: Option<Sender<Option<String>>>) -> Self {
        Self { bar: ProgressBar::hidden(), caller }
    }

    /// Shows a text, escaped. All texts reach the bar and the caller through this function.
    fn message(&self, text: &str) {
        let text = one_line(text);
        if let Some(caller) = &self.caller {
            // The command has ended if nothing receives it.
            let _ = caller.send(Some(text.clone()));
        }
        self.bar.set_message(text);
    }

    /// Begins a run of a network with `nodes` nodes.
    pub(crate) fn begin(&self, nodes: usize) {
        self.bar.set_length(nodes as u64);
    }

    /// Shows that `done` of `total` items are done.
    pub(crate) fn update(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        // Threads report in any order.
        self.bar.update(|state| state.set_pos(state.pos().max(done)));
    }

    /// Shows that `done` of `total` items of the subject are done. A subject other than the shown one is started.
    pub(crate) fn update_subject(&self, subject: &str, done: u64, total: u64) {
        if self.bar.message() != one_line(subject) {
            self.start(subject);
        }
        self.update(done, total);
    }

    /// Starts at 0 with a new subject.
    pub(crate) fn start(&self, subject: &str) {
        self.bar.set_position(0);
        self.message(subject);
    }

    /// Counts a node that ran.
    pub(crate) fn node_done(&self, node: &str) {
        self.message(node);
        self.bar.inc(1);
    }

    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }
}
