//! Text for the terminal, in which no name controls the terminal or begins a line.
//!
//! Names come from models, descriptors, kernels and directories of other users. All printed text is a [`Text`], so that
//! no caller has to escape names: a line is escaped as a whole when it is added, and only [`Text`] ends it.

use std::fmt::{self, Display, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) use opkeep_text::counted;

/// Escaped lines for the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(String);

impl Text {
    /// Creates a text of one line.
    pub(crate) fn of(line: impl Display) -> Self {
        let mut text = Self::default();
        text.line(line);
        text
    }

    /// Creates a text from a script of opkeep, which contains no names and is not escaped.
    pub(crate) fn script(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Adds one line; line ends in it are escaped.
    pub(crate) fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(Escape(&mut self.0), "{line}");
        self.0.push('\n');
    }

    /// Adds text of several lines, such as a compiler's log. The lines after the first are marked, so that none of them looks
    /// like a line of opkeep.
    pub(crate) fn quoted(&mut self, text: impl Display) {
        let text = text.to_string();
        for (at, line) in text.trim_end().split('\n').enumerate() {
            match at {
                0 => self.line(line),
                _ => self.line(format_args!("    | {line}")),
            }
        }
    }

    /// Adds the first `limit` of `lines`, and a line about the number of the others.
    pub(crate) fn list(
        &mut self,
        mut lines: impl Iterator<Item = impl Display>,
        limit: usize,
        others: impl Fn(usize) -> String,
    ) {
        lines.by_ref().take(limit).for_each(|line| self.line(line));
        if let count @ 1.. = lines.count() {
            self.line(others(count));
        }
    }

    pub(crate) fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all lines, without the end of the last one.
    pub(crate) fn as_str(&self) -> &str {
        self.0.trim_end()
    }
}

impl Extend<Text> for Text {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.append(&text));
    }
}

impl FromIterator<Text> for Text {
    fn from_iter<I: IntoIterator<Item = Self>>(texts: I) -> Self {
        let mut all = Self::default();
        all.extend(texts);
        all
    }
}

/// A writer that escapes all text written to it.
struct Escape<'a>(&'a mut String);

impl Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| self.write_char(letter))
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        match letter {
            _ if is_printable(letter) => self.0.push(letter),
            '\n' | '\r' | '\t' => self.0.extend(letter.escape_default()),
            _ => self.0.extend(letter.escape_unicode()),
        }
        Ok(())
    }
}

/// Returns the text, escaped to one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let _ = Escape(&mut line).write_str(text);
    line
}

/// Returns a name for a text that quotes it by backticks, with those of its own escaped: none ends the quotation.
pub(crate) fn quotable(name: impl AsRef<Path>) -> String {
    name.as_ref().to_string_lossy().replace('`', "\\u{60}")
}

/// Returns JSON of the same value that is safe to print: JSON escapes control characters, but not all others that
/// are not printable.
pub(crate) fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        match is_printable(letter) {
            true => shown.push(letter),
            // Such characters occur only in strings, where the escape means the same character.
            false => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(shown, "\\u{unit:04x}");
            }),
        }
    }
    shown
}

/// Whether a character is printed without an escape: it is no control character, no end of a line or paragraph, and not in
/// Unicode's category Cf, whose characters are invisible and may change the direction of text.
fn is_printable(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// The largest width to which cells are aligned: one long name must not move the others off the screen.
const MAX_WIDTH: usize = 100;

/// Returns lines with aligned cells, after `indent`: columns of numbers to the right, the others and the first to the left.
/// All lines have as many cells as the first. A cell that is wider than [`MAX_WIDTH`] moves the others of its line.
pub(crate) fn columns(indent: &str, lines: &[Vec<String>]) -> Text {
    let lines: Vec<Vec<String>> =
        lines.iter().map(|line| line.iter().map(|cell| one_line(cell)).collect()).collect();
    let cells = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| line[at].width()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..cells).map(width).collect();
    let is_right: Vec<bool> = (0..cells).map(|at| at > 0 && has_numbers(&lines, at)).collect();
    let mut text = Text::default();
    for line in &lines {
        let cells = line.iter().zip(&widths).zip(&is_right).map(|((cell, width), is_right)| {
            let blanks = padding(cell, *width);
            if *is_right { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.line(format_args!("{indent}{}", line.trim_end()));
    }
    text
}

/// Whether a column has numbers, also with units: below a head that may be a word, each cell begins with a digit or is
/// empty.
fn has_numbers(lines: &[Vec<String>], at: usize) -> bool {
    let is_number = |cell: &str| cell.starts_with(|letter: char| letter.is_ascii_digit());
    let cells = || lines.iter().map(|line| line[at].as_str());
    let below = || cells().skip(1);
    below().all(|cell| cell.is_empty() || is_number(cell)) && cells().any(is_number)
}

/// Returns the blanks that fill `text` up to `width` or [`MAX_WIDTH`] columns of a terminal. A width in a format string would be a
/// panic from 65,536 on, and names in a store may be longer.
pub(crate) fn padding(text: &str, width: usize) -> String {
    " ".repeat(width.min(MAX_WIDTH).saturating_sub(text.width()))
}

/// Returns the first characters of `text` that fit into `limit` columns of a terminal, with a mark if there are more. Characters that
/// have no column of their own count, too, since a name may have any number of them.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let mut width = 0;
    let mut is_beyond = |letter: char| {
        width += letter.width().unwrap_or(1).max(1);
        width > limit
    };
    match text.char_indices().find(|(_, letter)| is_beyond(*letter)) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a path as an argument of a command in a shell, which reads exactly its bytes: no flag, although its name may begin as one.
pub(crate) fn quoted_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    match bytes.starts_with(b"-") {
        true => quoted(&[b"./", bytes].concat()),
        false => quoted(bytes),
    }
}

/// Returns a word, which is no path, quoted for a shell.
pub(crate) fn quoted_word(word: &str) -> String {
    quoted(word.as_bytes())
}

fn quoted(word: &[u8]) -> String {
    let is_bare = |letter: char| letter.is_alphanumeric() || "/._-+,:@%=".contains(letter);
    match std::str::from_utf8(word) {
        Ok(word) if !word.is_empty() && word.chars().all(is_bare) => word.to_owned(),
        Ok(word) if word.chars().all(is_printable) => format!("'{}'", word.replace('\'', r"'\''")),
        _ => {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
            let escaped = |letter: char| match letter {
                '\\' | '\'' => format!("\\{letter}"),
                _ if is_printable(letter) => letter.to_string(),
                _ => hex(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            };
            let chunk = |chunk: std::str::Utf8Chunk<'_>| {
                chunk.valid().chars().map(escaped).collect::<String>() + &hex(chunk.invalid())
            };
            format!("$'{}'", word.utf8_chunks().map(chunk).collect::<String>())
        }
    }
}

/// Returns a number of bytes as text with a unit.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=1023 => counted(bytes, "byte"),
        1024..=1_048_575 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..=1_073_741_823 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Returns a time in seconds as text with a unit.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => counted(seconds / 86_400, "day"),
    }
}

/// Returns the first `limit` of `names`: `a, b, ...`.
pub(crate) fn first_names(mut names: impl Iterator<Item = String>, limit: usize) -> String {
    let mut first: Vec<String> = names.by_ref().take(limit).collect();
    first.extend(names.next().map(|_| "...".to_owned()));
    first.join(", ")
}

/// Returns the names of each reason, in the order in which the reasons appear first: for a list that states each reason once.
pub(crate) fn by_reason<R: PartialEq, N>(items: impl Iterator<Item = (R, N)>) -> Vec<(R, Vec<N>)> {
    let mut groups: Vec<(R, Vec<N>)> = Vec::new();
    for (reason, name) in items {
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
