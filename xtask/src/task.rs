//! Tasks, and the programs that they run.

use std::process::Command;

/// A task: it gets the arguments after its name, and its error is a message.
pub(crate) type Task = fn(&[String]) -> Result<(), String>;

/// The error of a task without arguments that got some.
pub(crate) fn no_arguments(args: &[String]) -> Result<(), String> {
    match args.first() {
        None => Ok(()),
        Some(first) => Err(format!("found `{first}`, expected no arguments")),
    }
}

/// Runs a command to its end. Its output is that of this program.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let line = line(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` did not start: {error}")),
    }
}

/// The command's line, as a person types it.
pub(crate) fn line(command: &Command) -> String {
    format!("{command:?}").replace('"', "")
}
