//! The progress of a build: on a terminal, a line for each compile, redrawn and gone at the end, and failures above them, which stay;
//! elsewhere, a line for each kernel that is compiled or fails, and a heartbeat in between.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use opkeep::{Event, KernelError, Outcome};

use super::lines::{self, heartbeat, position};
use super::state::BuildState;
use crate::ui::logged::is_multi_line;
use crate::ui::text::{Text, one_line};

/// The time between two drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(100);
/// The longest time without a line elsewhere.
const SILENCE: Duration = Duration::from_secs(30);

/// Shows the progress of a build.
pub(crate) struct BuildProgress {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    shown: Mutex<Shown>,
    ended: Condvar,
    sink: Sink,
    /// Whether lines of kernels name the causes of misses. The result does, too, and may follow in the same file.
    names_causes: bool,
}

struct Shown {
    build: BuildState,
    /// The time of the last line that is not redrawn.
    spoke: Instant,
    has_ended: bool,
}

enum Sink {
    Nothing,
    /// The caller in whose process the build runs.
    Caller(Sender<Option<String>>),
    Terminal(ProgressBar),
    /// Stderr that is no terminal.
    Log,
}

impl BuildProgress {
    /// Shows the progress on stderr, if it `is_wanted`; `as_log` also on a terminal.
    pub(crate) fn on_stderr(is_wanted: bool, as_log: bool) -> Self {
        let sink = match (is_wanted, std::io::stderr().is_terminal() && !as_log) {
            (false, _) => Sink::Nothing,
            (true, false) => Sink::Log,
            (true, true) => Sink::Terminal(terminal_bar()),
        };
        Self::new(sink)
    }

    /// Sends texts to the caller in whose process the command runs.
    pub(crate) fn for_caller(caller: Option<Sender<Option<String>>>) -> Self {
        Self::new(caller.map_or(Sink::Nothing, Sink::Caller))
    }

    fn new(sink: Sink) -> Self {
        let now = Instant::now();
        let shown = Shown { build: BuildState::new(now), spoke: now, has_ended: false };
        let names_causes = !has_one_stream();
        let shared = Arc::new(Shared { shown: Mutex::new(shown), ended: Condvar::new(), sink, names_causes });
        let own = Arc::clone(&shared);
        let thread = match shared.sink {
            Sink::Nothing | Sink::Caller(_) => None,
            // Without a thread, the build goes on without a heartbeat.
            Sink::Terminal(_) | Sink::Log => {
                thread::Builder::new().name("progress".to_owned()).spawn(move || own.run()).ok()
            }
        };
        Self { shared, thread: Mutex::new(thread) }
    }

    /// Shows what an event changes.
    pub(crate) fn observe(&self, event: &Event<'_>) {
        let now = Instant::now();
        let mut shown = self.shared.locked();
        shown.build.observe(event, now);
        match &self.shared.sink {
            Sink::Nothing => {}
            Sink::Terminal(bar) => {
                if let Event::Failed { .. } = event
                    && let Some(text) = self.shared.log_text(&shown.build, event)
                {
                    bar.suspend(|| eprint(&text));
                }
            }
            Sink::Caller(caller) if is_reported(event) => {
                // The command has ended if nothing receives it.
                let _ = caller.send(Some(one_line(&event.to_string())));
            }
            Sink::Caller(_) => {}
            Sink::Log => {
                if let Some(text) = self.shared.log_text(&shown.build, event) {
                    shown.spoke = now;
                    eprint(&text);
                }
            }
        }
    }

    /// Ends. Nothing of a terminal's lines is left but failures.
    pub(crate) fn done(&self) {
        self.shared.locked().has_ended = true;
        self.shared.ended.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl Shared {
    /// Draws and speaks until the build has ended.
    fn run(&self) {
        let mut shown = self.locked();
        while !shown.has_ended {
            let now = Instant::now();
            let wait = match &self.sink {
                Sink::Terminal(bar) => {
                    bar.set_message(lines::on_terminal(&shown.build, now, size()).join("\n"));
                    REDRAW
                }
                _ => {
                    let silent = now.saturating_duration_since(shown.spoke);
                    if silent >= SILENCE {
                        shown.spoke = now;
                        eprint(&Text::of(heartbeat(&shown.build, now)));
                    }
                    SILENCE.saturating_sub(silent).max(REDRAW)
                }
            };
            shown = self.ended.wait_timeout(shown, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Sink::Terminal(bar) = &self.sink {
            bar.finish_and_clear();
        }
    }

    /// Returns the text of an event for a log: of a kernel that was compiled, or failed, with the end of its compiler's output. What is
    /// reused or not built needs no line, and neither does the only missing kernel, which the result names next.
    fn log_text(&self, build: &BuildState, event: &Event<'_>) -> Option<Text> {
        if build.missing() < 2 {
            return None;
        }
        let line = format!("{} {event}", position(build));
        let mut text = Text::default();
        match event {
            Event::Finished { kernel, outcome: Outcome::Compiled, .. } => {
                match build.cause(kernel).filter(|_| self.names_causes) {
                    Some(cause) => text.line(format_args!("{line}: {cause}")),
                    None => text.line(line),
                }
            }
            Event::Finished { .. } | Event::LeaseTakenOver { .. } => text.line(line),
            // Nothing was compiled. The result names all such kernels in one line.
            Event::Failed { error: KernelError::NotCached { .. }, .. } => return None,
            Event::Failed { error, .. } if is_multi_line(*error) => text.quoted(line),
            Event::Failed { .. } => text.line(line),
            _ => return None,
        }
        Some(text)
    }

    /// A panic elsewhere leaves the state consistent.
    fn locked(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bar that has no parts but its message.
fn terminal_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

/// The size of the terminal in columns and lines; a line leaves the last column free, after which some terminals begin a new one.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let of = |size: Option<u16>, usual| size.filter(|size| *size > 0).map_or(usual, usize::from);
    let columns = of(size.map(|size| size.ws_col), 80);
    (columns.saturating_sub(1), of(size.map(|size| size.ws_row), 24).saturating_sub(1).max(1))
}

/// Whether the caller in whose process the build runs gets a text of an event.
fn is_reported(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Started { .. }
            | Event::Waiting { .. }
            | Event::WaitingForHost { .. }
            | Event::LeaseTakenOver { .. }
            | Event::NotSent { .. }
            | Event::RemotePaused
            | Event::RemoteResumed
            | Event::Finished { .. }
            | Event::Failed { .. }
            | Event::Skipped { .. }
            | Event::Cancelled { .. }
    )
}

/// Whether stdout and stderr are one file, pipe or terminal. A stream that is closed is none.
fn has_one_stream() -> bool {
    let stdout = rustix::fs::fstat(std::io::stdout());
    let stderr = rustix::fs::fstat(std::io::stderr());
    matches!((stdout, stderr), (Ok(stdout), Ok(stderr)) if (stdout.st_dev, stdout.st_ino) == (stderr.st_dev, stderr.st_ino))
}

/// Prints on stderr. Best effort: an error of stderr cannot be reported anywhere.
fn eprint(text: &Text) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_str());
}
