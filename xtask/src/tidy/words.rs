//! Words that no document and no comment has: the vocabulary has others, and there is no right use of these. Of words with right uses,
//! `cargo xtask words` prints counts.

use super::finding::Finding;
use crate::words::occurrences;

/// A word in lower case, and its replacement.
const FORBIDDEN: [(&str, &str); 11] = [
    ("die", "exit, be killed, fail"),
    ("died", "exited, was killed, failed"),
    ("dies", "exits, is killed, fails"),
    ("nobody", "no caller, no process, no user"),
    ("sign of life", "heartbeat"),
    ("somebody", "a caller, a process, a user"),
    ("someone", "a caller, a process, a user, an attacker"),
    ("tell", "report, log, distinguish"),
    ("tells", "reports, logs, distinguishes"),
    ("told", "reported, logged, passed"),
    ("whoever", "the lock holder, the process that, a user who"),
];

/// A document that lists old words, one that a program writes, and the list itself.
const EXEMPT: [&str; 4] =
    ["CHANGELOG.md", "benches/REPORT.md", "xtask/src/tidy/words.rs", "xtask/src/words.rs"];

/// Whether people read `path` as prose, in whole or in its comments.
pub(super) fn concerns(path: &str) -> bool {
    let is_source = [".rs", ".h", ".hpp"].iter().any(|end| path.ends_with(end));
    let is_prose = is_text(path) || is_source && !path.contains("/tests/");
    is_prose && !path.starts_with("fixtures/") && !EXEMPT.contains(&path)
}

/// Whether all of a file is text for people: a document, or a drawing of one.
fn is_text(path: &str) -> bool {
    path.ends_with(".md") || path.ends_with(".svg")
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let prose = if is_text(path) { Some(line) } else { comment(line) };
        let Some(prose) = prose.map(|prose| without_code(prose).to_lowercase()) else { continue };
        for (word, instead) in FORBIDDEN.iter().filter(|(word, _)| occurrences(&prose, word) > 0) {
            let problem = format!("`{word}` is no word of a document or comment");
            findings.push(Finding::new(path, number, problem, format!("write what it is: {instead}")));
        }
    }
    findings
}

/// The text of a comment that has a line to itself, or follows code.
fn comment(line: &str) -> Option<&str> {
    let at = line.find("//")?;
    // A URL in code is none.
    let is_first = line[..at].trim().is_empty();
    (is_first || line[..at].ends_with(' ')).then(|| &line[at + 2..])
}

/// A line without what it has in backquotes, such as names of tests.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_word_is_found_in_documents_and_comments() {
        let problems = |path: &str, text: &str| check(path, text).len();
        assert_eq!(problems("docs/drawings/a.svg", "<desc>a process that dies</desc>"), 1);
        assert_eq!(problems("docs/a.md", "a process\nthat dies, and whoever waits"), 2);
        assert_eq!(
            problems("crates/a/src/lib.rs", "//! Nobody waits.\n    /// Someone.\nlet a = 1; // told"),
            3
        );
        assert_eq!(problems("crates/a/src/lib.rs", "fn tell() {}\nlet told = \"https://nobody\";"), 0);
        assert_eq!(problems("docs/a.md", "bodies, a retold story, diesel, `a_holder_that_died`"), 0);
        let found = &check("docs/a.md", "x\nsomebody")[0];
        assert_eq!((found.path.as_str(), found.line), ("docs/a.md", 2));
    }

    #[test]
    fn documents_and_sources_are_read_and_no_tests() {
        let read = [
            "docs/a.md",
            "docs/drawings/a.svg",
            "SECURITY.md",
            "crates/a/src/lib.rs",
            "crates/a/include/a.hpp",
            "xtask/src/a.rs",
        ];
        assert!(read.iter().all(|path| concerns(path)));
        let others = ["CHANGELOG.md", "fixtures/a/README.md", "crates/a/tests/suite/a.rs", "crates/a/a.py"];
        assert!(!others.iter().any(|path| concerns(path)));
    }
}
