//! The `opkeep` command. Only this crate prints, exits, or reads the environment.

mod args;
mod commands;
mod flags;
mod input;
mod setup;
mod ui;

use std::process::ExitCode;

use clap::Parser;

use args::Args;
use ui::file_limit::FileLimit;
use ui::output::{ExitStatus, Output};
use ui::text::one_line;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(error),
    };
    let output = Output::new(args.format, FileLimit::watch());
    let exit_status = args.command.run(&output);
    if let Err(error) = &exit_status
        && !ui::interrupt::is_cause_of(error)
    {
        output.print_failure(error);
    }
    output.warn_of_file_limit();
    match exit_status {
        Ok(ExitStatus::Success) => ExitCode::SUCCESS,
        Ok(ExitStatus::Problems) => ExitCode::from(1),
        Ok(ExitStatus::Failed) => ExitCode::from(2),
        Ok(ExitStatus::Interrupted) => ExitCode::from(ui::interrupt::EXIT_CODE),
        Err(error) if ui::interrupt::is_cause_of(&error) => {
            output.print_interrupted();
            ExitCode::from(ui::interrupt::EXIT_CODE)
        }
        Err(_) => ExitCode::from(2),
    }
}

/// Prints the error of the command line, or the requested help. Returns the exit code.
fn usage(error: clap::Error) -> ExitCode {
    // Parsed again with escaped arguments, since clap prints them unchanged. Most are file names, and a shell's pattern
    // may have matched unsafe ones.
    let shown = std::env::args_os().map(|arg| one_line(&arg.to_string_lossy()));
    let error = Args::try_parse_from(shown).err().unwrap_or(error);
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
