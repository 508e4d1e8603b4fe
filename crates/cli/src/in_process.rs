//! Commands within another program's process.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use opkeep_fs::CancelToken;
use serde::Serialize;

use crate::args::{Args, exit_code};
use crate::ui::caller::{Caller, CommandError, CommandErrorKind, Level, ProgressSender};
use crate::ui::error_report::UsageProblem;
use crate::ui::help::DEFAULT_WIDTH;
use crate::ui::output::{ExitStatus, Output};

/// The result of a command that ran in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InProcess {
    /// The JSON document that the program prints for `--format json`. An error that ended the command is in it, too, as
    /// `error` and `help`. Empty for a usage error. For `--help` and `--version` the document has the field `text`.
    pub json: String,
    /// The exit code of the program: 0 done; 1 done, and problems were found; 2 wrong usage, an input cannot be read, or
    /// nothing could be done; 130 cancelled.
    pub exit_code: u8,
    /// The error that ended the command. None if it ran to its end: its problems are then in the JSON document, also for
    /// the exit codes 1 and 2.
    pub error: Option<CommandError>,
}

/// Runs one command in this process. Prints nothing, installs no signal handler, and never ends the process.
///
/// `args` are the arguments after the program's name, such as `["build", "model.onnx", "--target", "cpu"]`. The format is
/// always JSON, whatever `--format` says. The command reads the environment of the process, and resolves relative paths
/// from its current directory.
///
/// `cancel` has the effect that an interrupt has on the program: compilers end, finished kernels are kept, and the exit code
/// is 130. Commands that take no time finish.
///
/// `on_message` gets what the program prints beside its result, except the error that ended the command: that is in
/// [`InProcess::error`]. Texts are escaped as for a terminal; one of several lines is an error with the end of a compiler's
/// log. Messages of [`Level::Progress`] come from another thread, so a caller that holds a lock which `on_message` takes
/// waits for ever. None comes after the return.
///
/// Calls in several threads do not affect each other.
///
/// A write beyond the limit on the size of files (`ulimit -f`) is an error if the process ignores SIGXFSZ, as Python does;
/// by default, that signal ends the process.
///
/// # Panics
/// A panic in the command or in `on_message` goes on in the caller. Further calls work.
pub fn in_process(
    args: impl IntoIterator<Item = OsString>,
    cancel: &CancelToken,
    on_message: &(dyn Fn(Level, &str) + Sync),
) -> InProcess {
    let line: Vec<OsString> = std::iter::once("opkeep".into()).chain(args).collect();
    // Not for the terminal of this process, nor for `COLUMNS`, which some libraries set, such as the `readline` of Python.
    let args = match Args::read(&line, || DEFAULT_WIDTH) {
        Ok(args) => args,
        Err(error) => return not_run(&error, cancel, on_message),
    };
    let (sender, progress) = channel();
    thread::scope(|scope| {
        let deliver = move || deliver_progress(&progress, on_message);
        // Without a thread for it, there is no progress.
        let delivery = thread::Builder::new().spawn_scoped(scope, deliver);
        let output = Output::caller(Caller::new(on_message, Some(ProgressSender::new(sender))), cancel);
        let exit_status = args.run(&output);
        let result = finished(output, exit_status);
        match delivery.map(thread::ScopedJoinHandle::join) {
            Ok(Err(panic)) => resume_unwind(panic),
            _ => result,
        }
    })
}

/// Delivers the progress of a command until it ends.
fn deliver_progress(progress: &Receiver<Option<String>>, on_message: &(dyn Fn(Level, &str) + Sync)) {
    while let Ok(Some(text)) = progress.recv() {
        on_message(Level::Progress, &text);
    }
}

/// Returns the result of a command that ran.
fn finished(output: Output<'_>, exit_status: ExitStatus) -> InProcess {
    let (json, mut error) = output.into_result();
    if exit_status == ExitStatus::Interrupted {
        let text = "interrupted; run it again to continue".to_owned();
        let kind = CommandErrorKind::Interrupted;
        error = match error {
            Some(error) => Some(CommandError { kind, ..error }),
            None => Some(CommandError { kind, text, help: Vec::new() }),
        };
    }
    InProcess { json, exit_code: exit_status.code(), error }
}

/// Returns the error for a command line that is wrong.
fn usage_error(text: &str) -> CommandError {
    let UsageProblem { problem, tips, .. } = UsageProblem::of(text);
    CommandError { kind: CommandErrorKind::Usage, text: problem, help: tips }
}

/// The requested help or version, as JSON.
#[derive(Serialize)]
struct RequestedText {
    text: String,
}

/// Returns the result for a command line that names no command to run.
fn not_run(
    error: &clap::Error,
    cancel: &CancelToken,
    on_message: &(dyn Fn(Level, &str) + Sync),
) -> InProcess {
    let code = exit_code(error);
    let text = error.render().to_string().trim_end().to_owned();
    if code != 0 {
        return InProcess { json: String::new(), exit_code: code, error: Some(usage_error(&text)) };
    }
    let output = Output::caller(Caller::new(on_message, None), cancel);
    let _ = output.print_json_only(&RequestedText { text });
    finished(output, ExitStatus::Success)
}
