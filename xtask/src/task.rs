//! Tasks.

/// A task: it gets the arguments after its name, and its error is a message.
pub(crate) type Task = fn(&[String]) -> Result<(), String>;

/// The error of a task without arguments that got some.
pub(crate) fn no_arguments(args: &[String]) -> Result<(), String> {
    match args.first() {
        None => Ok(()),
        Some(first) => Err(format!("found `{first}`, expected no arguments")),
    }
}
