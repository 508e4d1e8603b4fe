//! The command `opkeep`, as a program and within another program's process.
//!
//! [`main`] is the program: it prints, handles signals, and reads the arguments of its process. [`in_process`] runs the
//! same commands for a host such as the Python module, and touches nothing of the host: it prints nothing, handles no
//! signal, and never ends the process. Both read the environment and resolve relative paths from the current directory.

mod args;
mod commands;
mod config;
mod flags;
mod in_process;
mod input;
mod setup;
mod ui;

use std::process::ExitCode;

use args::{Args, color_of, exit_code};
use clap::error::ErrorKind;
pub use in_process::{InProcess, in_process};
pub use opkeep_fs::CancelToken;
pub use ui::caller::{CommandError, CommandErrorKind, Level};
pub use ui::env::MAX_ENTRIES_VARIABLE;
use ui::output::{ExitStatus, Output, print_usage_error};

/// Runs the command that this process was started with. Returns its exit code.
pub fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    let line = commands::opc::of_link(&line).unwrap_or(line);
    match Args::read(&line, ui::help::width) {
        Ok(args) => {
            ui::interrupt::remove_temporaries_at_end();
            let output = Output::terminal(&args.ui);
            let status = match args.ui.trace() {
                Ok(is_traced) => args.run(&output.with_trace(is_traced)),
                Err(error) => {
                    output.print_failure(&error);
                    ExitStatus::Failed
                }
            };
            ui::interrupt::end();
            ExitCode::from(status.code())
        }
        Err(error) => {
            match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
                _ => print_usage_error(&error, color_of(&line)),
            }
            ExitCode::from(exit_code(&error))
        }
    }
}
