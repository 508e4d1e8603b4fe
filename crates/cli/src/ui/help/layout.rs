//! The layout of a command's details.

use std::fmt::Write;

use anstyle::Style;

/// The longest term that has its text beside it.
const LONGEST_TERM: usize = 24;
/// The indentation of a term.
const INDENT: usize = 2;
/// The indentation of a text below its term.
const BELOW: usize = 6;

/// A paragraph, or a list of terms below its title.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) text: String,
    pub(crate) rows: Vec<Row>,
}

/// A term with its text.
pub(crate) struct Row {
    pub(crate) term: String,
    pub(crate) text: String,
}

impl Row {
    fn of(line: &str) -> Self {
        let (term, text) = line.split_once("  ").unwrap_or((line, ""));
        Self { term: term.to_owned(), text: text.trim_start().to_owned() }
    }

    /// Whether the term is a command of a shell.
    fn is_command(&self) -> bool {
        self.term.starts_with("opkeep ") || self.term.contains(" opkeep ")
    }
}

/// Returns the details, with no line that is longer than `width`, unless one word is.
pub(super) fn details(source: &str, width: usize) -> String {
    let mut laid_out = String::new();
    for (at, block) in blocks(source).enumerate() {
        if at > 0 {
            laid_out.push('\n');
        }
        add_block(&mut laid_out, &block, width);
    }
    laid_out.trim_end().to_owned()
}

/// Returns the paragraphs and the lists of the details of a command.
pub(crate) fn blocks(source: &str) -> impl Iterator<Item = Block> {
    source.split("\n\n").map(|lines| {
        let mut block = Block::default();
        for line in lines.lines() {
            let text = line.trim_start();
            match (line.len() - text.len(), block.rows.last_mut()) {
                (0, _) => append(&mut block.text, text),
                (INDENT, _) | (_, None) => block.rows.push(Row::of(text)),
                (_, Some(row)) => append(&mut row.text, text),
            }
        }
        block
    })
}

/// Adds a paragraph, or a list of terms below its title.
fn add_block(laid_out: &mut String, block: &Block, width: usize) {
    let Block { text, rows } = block;
    let lines = wrapped(text, width, width);
    match lines.as_slice() {
        [title] if !rows.is_empty() => {
            let style = Style::new().bold().underline();
            // Writing to a string cannot fail.
            let _ = writeln!(laid_out, "{style}{title}{style:#}");
        }
        lines => lines.iter().for_each(|line| add_line(laid_out, 0, line)),
    }
    add_rows(laid_out, rows, width);
}

fn add_rows(laid_out: &mut String, rows: &[Row], width: usize) {
    let terms = rows.iter().map(|row| row.term.chars().count());
    let longest = terms.filter(|term| *term <= LONGEST_TERM).max();
    // A narrow column of text would be hard to read.
    let is_legible = |column: &usize| column * 5 <= width * 2 && !rows.iter().any(Row::is_command);
    let beside = longest.map(|longest| INDENT + longest + 2).filter(is_legible);
    for row in rows {
        let term = row.term.chars().count();
        match beside.filter(|column| INDENT + term + 2 <= *column && !row.text.is_empty()) {
            Some(column) => {
                let lines = wrapped(&row.text, width - column, width - column);
                for (at, line) in lines.iter().enumerate() {
                    let term = if at == 0 { row.term.as_str() } else { "" };
                    let blanks = " ".repeat(column - INDENT - term.chars().count());
                    add_line(laid_out, INDENT, &[term, &blanks, line].concat());
                }
            }
            None => {
                add_term(laid_out, row, width);
                let column = beside.unwrap_or(BELOW);
                let lines = wrapped(&row.text, width - column, width - column);
                lines.iter().for_each(|line| add_line(laid_out, column, line));
            }
        }
    }
}

/// Adds a term without its text. The lines after the first are indented further.
fn add_term(laid_out: &mut String, row: &Row, width: usize) {
    const CONTINUED: usize = INDENT + 2;
    let mark = if row.is_command() { " \\" } else { "" };
    let lines = match row.term.chars().count() + INDENT <= width {
        true => vec![row.term.clone()],
        false => wrapped(&row.term, width - INDENT - mark.len(), width - CONTINUED - mark.len()),
    };
    for (at, line) in lines.iter().enumerate() {
        let indent = if at == 0 { INDENT } else { CONTINUED };
        let mark = if at + 1 < lines.len() { mark } else { "" };
        add_line(laid_out, indent, &[line, mark].concat());
    }
}

fn add_line(laid_out: &mut String, indent: usize, line: &str) {
    laid_out.extend([&" ".repeat(indent), line, "\n"]);
}

/// Appends a line of the source to its paragraph.
fn append(paragraph: &mut String, line: &str) {
    if !paragraph.is_empty() {
        paragraph.push(' ');
    }
    paragraph.push_str(line);
}

/// Breaks a text at blanks, as late as possible: the first line has at most `first` characters, each other at most `next`,
/// unless one word has more.
pub(crate) fn wrapped(text: &str, first: usize, next: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let limit = if lines.is_empty() { first } else { next };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > limit {
            lines.push(std::mem::take(&mut line));
        }
        append(&mut line, word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}
