//! Help texts, laid out for a width.
//!
//! The details of a command are plain text without a width: paragraphs, and lists of terms. A term is indented by two
//! blanks; its text is after two blanks or more, or in the next lines, which are indented further. Terms that are commands of
//! a shell are continued as a shell reads them.

mod layout;

use clap::Command;
pub(crate) use layout::{blocks, wrapped};
use rustix::termios::tcgetwinsize;

use crate::ui::env;

/// The width of texts that are not for a terminal.
pub(crate) const DEFAULT_WIDTH: usize = 100;

/// The narrowest and the widest text. In longer lines, the eye loses the next one.
const WIDTHS: (usize, usize) = (40, 120);

/// Returns the width of texts: that of the terminal; without one, that in the environment.
pub(crate) fn width() -> usize {
    let of_terminal = [tcgetwinsize(std::io::stdout()), tcgetwinsize(std::io::stderr())];
    let columns =
        of_terminal.into_iter().flatten().map(|size| usize::from(size.ws_col)).find(|width| *width > 0);
    columns.or_else(env::columns).unwrap_or(DEFAULT_WIDTH).clamp(WIDTHS.0, WIDTHS.1)
}

/// Returns `command` with all help texts laid out for `width`.
pub(crate) fn laid_out(command: Command, width: usize) -> Command {
    let details = command.get_after_long_help().map(|details| layout::details(&details.to_string(), width));
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let mut command = command.term_width(width);
    if let Some(details) = details {
        command = command.after_long_help(details);
    }
    let subcommand =
        |command: Command, name| command.mut_subcommand(name, |command| laid_out(command, width));
    names.into_iter().fold(command, subcommand)
}

#[cfg(test)]
mod tests;
