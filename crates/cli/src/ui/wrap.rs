//! Lines that are wrapped at the width of the terminal. A line that no terminal shows stays one line, for programs that read it.

use std::fmt::Display;
use std::io::IsTerminal;

use crate::ui::help::{width, wrapped};
use crate::ui::text::{Text, one_line};

/// The indentation of continued lines whose first line has a longer head than half the terminal.
const INDENT: usize = 4;

/// Returns the width of the terminal to which results are printed; `None` if they are printed to something else.
pub(crate) fn terminal_width() -> Option<usize> {
    std::io::stdout().is_terminal().then(width)
}

/// Returns a line of `head` and `body`. On a terminal, the body is continued in further lines below itself.
pub(crate) fn headed(head: &str, body: impl Display) -> Text {
    headed_in(terminal_width(), head, &body.to_string())
}

fn headed_in(width: Option<usize>, head: &str, body: &str) -> Text {
    let (head, body) = (one_line(head), one_line(body));
    let own = head.chars().count();
    let Some(width) = width.filter(|width| own + body.chars().count() > *width) else {
        return Text::of(format_args!("{head}{body}"));
    };
    let indent = if own > width / 2 { INDENT } else { own };
    let lines = wrapped(&body, width.saturating_sub(own), width - indent);
    let mut text = Text::default();
    for (at, line) in lines.iter().enumerate() {
        match at {
            0 => text.line(format_args!("{head}{line}")),
            _ => text.line(format_args!("{}{line}", " ".repeat(indent))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_continued_below_its_body() {
        let body = "a finding that is longer than the line";
        let lines = |width, head: &str| headed_in(width, head, body).as_str().to_owned();
        assert_eq!(lines(None, "  error  "), format!("  error  {body}"));
        assert_eq!(lines(Some(47), "  error  "), format!("  error  {body}"));
        assert_eq!(lines(Some(30), "  error  "), "  error  a finding that is\n         longer than the line");
        assert_eq!(
            lines(Some(30), "/a/path/of/many/names: "),
            "/a/path/of/many/names: a\n    finding that is longer\n    than the line"
        );
        // An escaped line end is no line end, and a word is never broken.
        assert_eq!(headed_in(Some(10), "", "a\nb").as_str(), "a\\nb");
        assert_eq!(headed_in(Some(10), "x: ", &"y".repeat(20)).as_str(), format!("x: {}", "y".repeat(20)));
    }
}
