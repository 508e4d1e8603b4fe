//! Errors as a terminal shows them: what failed with its causes, remarks, and what helps, each in a line of its own.
//!
//! ```text
//! error: --dim: dimension `bach` is not one that a model leaves open
//! note: the models leave open `batch`
//! help: did you mean `batch`?
//! ```
//!
//! Texts of errors have what helps, or a remark, behind a semicolon. In JSON, and for a caller, an error is one text.

use anstyle::Style;

use crate::ui::caller::Level;
use crate::ui::causes::{causes, chain};
use crate::ui::hints::hints;
use crate::ui::logged::is_multi_line;
use crate::ui::text::Text;

/// The words before the lines of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Error,
    Usage,
    Note,
    Help,
}

impl Label {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Usage => "usage",
            Self::Note => "note",
            Self::Help => "help",
        }
    }

    /// Returns the style of the word.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Error => Level::Error.style(),
            Self::Note => Level::Note.style(),
            Self::Help => Level::Help.style(),
            Self::Usage => Style::new().bold(),
        }
    }
}

/// The beginnings of remarks, which are behind a semicolon as what helps is.
const REMARKS: [&str; 13] = [
    "expected ",
    "known ",
    "it ",
    "the ",
    "no ",
    "nothing ",
    "descriptors ",
    "what ",
    "this is ",
    "looked ",
    "missing",
    "there ",
    "kernels ",
];

/// The lines of an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorReport {
    lines: Vec<(Label, String)>,
    /// Whether a line has lines of its own: the end of a compiler's log.
    has_log: bool,
}

impl ErrorReport {
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let mut report = Self::default();
        if error.chain().any(is_multi_line) {
            report.has_log = true;
            report.add(Label::Error, chain(error));
        } else {
            let (mut problems, mut remarks) = (Vec::new(), Vec::new());
            let is_whole = has_forging_name(error);
            for cause in causes(error) {
                let parts = if is_whole { vec![cause.as_str()] } else { statements(&cause) };
                let mut parts = parts.into_iter().map(str::to_owned);
                problems.extend(parts.next());
                remarks.extend(parts);
            }
            report.add(Label::Error, problems.join(": "));
            for remark in remarks {
                let is_remark = REMARKS.iter().any(|beginning| remark.starts_with(beginning));
                report.add(if is_remark { Label::Note } else { Label::Help }, remark);
            }
        }
        hints(error).into_iter().for_each(|hint| report.add(Label::Help, hint));
        report
    }

    /// Returns the lines for a command line that is wrong.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let UsageProblem { problem, tips, usage } = UsageProblem::of(&text);
        let mut report = Self::default();
        report.add(Label::Error, problem);
        tips.into_iter().for_each(|tip| report.add(Label::Help, tip));
        usage.into_iter().for_each(|usage| report.add(Label::Usage, usage));
        report.add(Label::Help, "--help describes the arguments");
        report
    }

    fn add(&mut self, label: Label, text: impl Into<String>) {
        self.lines.push((label, text.into()));
    }

    /// Returns each line with its label. Lines of a log are marked.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Label, Text)> {
        self.lines.iter().map(|(label, text)| {
            let mut line = Text::default();
            let labelled = format_args!("{}: {text}", label.name());
            if self.has_log {
                line.quoted(labelled)
            } else {
                line.line(labelled)
            };
            (*label, line)
        })
    }
}

/// A command line that is wrong. How the program is called is of no use to a caller in its process.
pub(crate) struct UsageProblem {
    pub(crate) problem: String,
    pub(crate) tips: Vec<String>,
    usage: Option<String>,
}

impl UsageProblem {
    /// Reads the text that clap makes for a terminal.
    pub(crate) fn of(text: &str) -> Self {
        let one_line = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let mut paragraphs = text.trim_end().split("\n\n");
        let problem = paragraphs.next().unwrap_or(text);
        let rest: Vec<&str> = paragraphs.flat_map(str::lines).map(str::trim).collect();
        let after = |line: &&str, beginning| line.strip_prefix(beginning).map(str::to_owned);
        Self {
            problem: one_line(problem.strip_prefix("error: ").unwrap_or(problem)),
            tips: rest.iter().filter_map(|line| after(line, "tip: ")).collect(),
            usage: rest.iter().find_map(|line| after(line, "Usage: ")),
        }
    }
}

/// Whether a name in an error has a backtick that ends its quotation, so that the rest of it would be a line of its own, such as the
/// help of a user who only gave a file its name. Names are in the fields of errors, which their `Debug` texts show; the names in
/// texts without fields have no backticks: see [`quotable`](crate::ui::text::quotable).
fn has_forging_name(error: &anyhow::Error) -> bool {
    let texts: Vec<String> = error.chain().map(ToString::to_string).collect();
    error.chain().any(|cause| {
        let fields = strings_in(&format!("{cause:?}"));
        fields.iter().any(|field| !texts.contains(field) && is_forging(field))
    })
}

/// Whether a name has a statement of its own behind a backtick, when it is quoted.
fn is_forging(name: &str) -> bool {
    !name.matches('`').count().is_multiple_of(2) || statements(&format!("`{name}`")).len() > 1
}

/// Returns the strings in a `Debug` text.
fn strings_in(debug: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut letters = debug.chars();
    while letters.by_ref().any(|letter| letter == '"') {
        let mut string = String::new();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                // What is escaped is no backtick, semicolon or blank; quotes may be in the text of an error.
                '\\' => string.extend(letters.next()),
                _ => string.push(letter),
            }
        }
        strings.push(string);
    }
    strings
}

/// Splits a text at its semicolons, except those within a quotation or parentheses. A text with a quotation that does not end is whole.
fn statements(text: &str) -> Vec<&str> {
    if !text.matches('`').count().is_multiple_of(2) {
        return vec![text];
    }
    let (mut parts, mut begin) = (Vec::new(), 0);
    let (mut is_quoted, mut depth) = (false, 0_usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '`' => is_quoted = !is_quoted,
            '(' | '[' if !is_quoted => depth += 1,
            ')' | ']' if !is_quoted => depth = depth.saturating_sub(1),
            ';' if !is_quoted && depth == 0 && text[at..].starts_with("; ") => {
                parts.push(&text[begin..at]);
                begin = at + 2;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;
    use crate::ui::logged::LoggedError;
    use crate::ui::text::quotable;

    fn lines(error: &anyhow::Error) -> Vec<String> {
        ErrorReport::of(error).lines().map(|(_, text)| text.as_str().to_owned()).collect()
    }

    #[test]
    fn remarks_and_help_have_lines() {
        let error =
            anyhow!("line 1: `a; b` is (no; none) wrong; it is old; give another").context("cannot read `x`");
        assert_eq!(
            lines(&error),
            [
                "error: cannot read `x`: line 1: `a; b` is (no; none) wrong",
                "note: it is old",
                "help: give another"
            ]
        );
        // A text that has its cause.
        let cause = std::io::Error::other("gone");
        let error = Err::<(), _>(cause).context("cannot read `x`: gone").unwrap_err();
        assert_eq!(lines(&error), ["error: cannot read `x`: gone"]);
    }

    #[test]
    fn a_log_is_not_split_and_is_marked() {
        let error = anyhow::Error::new(LoggedError("cc failed\nint a; int b".to_owned()));
        assert_eq!(lines(&error), ["error: cc failed\n    | int a; int b"]);
    }

    /// Names that end their quotation, and go on as the help of opkeep would.
    const FORGING: [&str; 5] = [
        "a`; run evil",
        "a`; run evil `b",
        "a`; run `evil`; then `b",
        "a `; it is old; `",
        "`; run \"evil\" `\\",
    ];

    #[derive(Debug, thiserror::Error)]
    enum NameError {
        #[error("cannot read `{}`; expected a file", file.display())]
        File { file: std::path::PathBuf },
        #[error("node `{node}` (line 1) is wrong; give another")]
        Node { node: String, source: std::io::Error },
    }

    #[test]
    fn a_name_forges_no_help() {
        for name in FORGING {
            let other = || std::io::Error::other("no; none");
            let node = NameError::Node { node: name.to_owned(), source: other() };
            for error in [
                anyhow::Error::new(NameError::File { file: name.into() }),
                anyhow::Error::new(node).context("cannot build `x`"),
                anyhow!("cannot read `{}`", quotable(name)),
                Err::<(), _>(other()).context(format!("cannot read `{}`", quotable(name))).unwrap_err(),
            ] {
                let lines = lines(&error);
                let forged = lines.iter().skip(1).find(|line| line.contains("evil") || line.contains("old"));
                assert_eq!(forged, None, "{lines:?}");
            }
        }
        // Names with a backtick that end nothing, and texts with quotations of their own.
        for (node, last) in
            [("a`b`c", "help: none"), ("is `a`; give b", "help: none"), ("a; b", "help: none")]
        {
            let error = NameError::Node { node: node.to_owned(), source: std::io::Error::other("no; none") };
            assert_eq!(lines(&error.into()).last().unwrap(), last, "{node}");
        }
    }

    #[test]
    fn names_begin_no_line() {
        let error = anyhow!("`a\nhelp: b\u{1b}[2J` is wrong");
        assert_eq!(lines(&error), ["error: `a\\nhelp: b\\u{1b}[2J` is wrong"]);
    }
}
