//! What ran: the log, which is in the targets of links.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::disk;

/// A program of the toolkit that was started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ToolRun {
    /// Its name: `asc_opc`, `bisheng`, `ccec`, `ld.lld`, `llvm-objdump`; `make` for the one that runs the compiles of a task.
    pub tool: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The directory that it was started in.
    pub dir: PathBuf,
    /// Its process; of `make` the one that starts it.
    pub pid: u32,
    /// The process that started it.
    pub parent: u32,
    /// When, in nanoseconds of the monotonic clock.
    pub at: u64,
}

impl ToolRun {
    /// Whether an argument is this word.
    pub fn has(&self, word: &str) -> bool {
        self.args.iter().any(|argument| argument == word)
    }

    /// What stands behind the option `name`.
    pub fn value_of(&self, name: &str) -> Option<&str> {
        let at = self.args.iter().position(|argument| argument == name)?;
        self.args.get(at + 1).map(String::as_str)
    }
}

/// The lines of the log in `folder`, in the order in which they were begun.
pub(super) fn lines(folder: &Path) -> io::Result<Vec<String>> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, part) in disk::links(folder)? {
        let (line, _) = name.rsplit_once('.').unwrap_or((&name, ""));
        match lines.last_mut() {
            Some((last, text)) if last == line => *text += &part,
            _ => lines.push((line.to_owned(), part)),
        }
    }
    Ok(lines.into_iter().map(|(_, text)| text).collect())
}

/// Those about programs. A line that is being written while it is read is left out.
pub(super) fn runs(folder: &Path) -> io::Result<Vec<ToolRun>> {
    Ok(lines(folder)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
