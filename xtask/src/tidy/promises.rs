//! Every promise in a `PROMISES.md` names existing tests.
//!
//! A row ends in a cell of names: `file::test` is a test of the crate's `tests/suite/file.rs`, `tests/cases/file.rs` or
//! `tests/file.rs`, or of a file in a directory `file` there; `src/file::test` is a test beside the code; `other:
//! file::test` is a test of the crate in `crates/other`. A program with its own `main` may list the test as `test`, `file::test` or
//! `file/test`.

use std::collections::BTreeMap;

use super::finding::Finding;

/// Rust files by path, with their text.
pub(super) type Sources = BTreeMap<String, String>;

/// Whether `path` is a list of promises.
pub(super) fn concerns(path: &str) -> bool {
    path.strip_prefix("crates/").is_some_and(|path| path.ends_with("/PROMISES.md"))
}

pub(super) fn check(path: &str, text: &str, sources: &Sources) -> Vec<Finding> {
    let own = path.strip_suffix("/PROMISES.md").unwrap_or(path);
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(names) = row(line) else { continue };
        if names.is_empty() {
            let problem = "the promise names no test";
            findings.push(Finding::new(
                path,
                number,
                problem,
                "name the test that fails without it, as `file::test`",
            ));
        }
        for name in names {
            if !is_test(name, own, sources) {
                let problem = format!("there is no test `{name}`");
                let help =
                    "write it, or name another as `file::test`, `src/file::test` or `crate: file::test`";
                findings.push(Finding::new(path, number, problem, help));
            }
        }
    }
    findings
}

/// The names in backquotes in the last cell of a row; `None` if the line is no row of promises.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let last = *cells.last()?;
    let is_heading = last == "test" || cells.iter().all(|cell| cell.bytes().all(|byte| byte == b'-'));
    (!is_heading).then(|| last.split('`').skip(1).step_by(2).collect())
}

fn is_test(name: &str, own: &str, sources: &Sources) -> bool {
    let (directory, name) = match name.split_once(": ") {
        Some((other, name)) => (format!("crates/{other}"), name),
        None => (own.to_owned(), name),
    };
    let Some((file, test)) = name.split_once("::") else { return false };
    let is_its = |path: &str| match file.strip_prefix("src/") {
        Some(module) => {
            path == format!("{directory}/src/{module}.rs")
                || path == format!("{directory}/src/{module}/mod.rs")
        }
        None => path.strip_prefix(&format!("{directory}/tests/")).is_some_and(|path| {
            let program = ["suite/", "cases/"].into_iter().find_map(|program| path.strip_prefix(program));
            [Some(path), program]
                .into_iter()
                .flatten()
                .any(|path| path.strip_suffix(".rs") == Some(file) || path.starts_with(&format!("{file}/")))
        }),
    };
    let texts: Vec<&String> = sources.iter().filter(|(path, _)| is_its(path)).map(|(_, text)| text).collect();
    let has_own_main = texts.iter().any(|text| text.contains("libtest_mimic"));
    let listed = [test.to_owned(), format!("{file}::{test}"), format!("{file}/{test}")];
    let is_listed = |text: &str| has_own_main && listed.iter().any(|name| is_listed(text, name));
    texts.iter().any(|text| has_attribute(text, test) || is_listed(text))
}

/// Whether there is a function `test` under `#[test]`.
fn has_attribute(text: &str, test: &str) -> bool {
    let function = format!("fn {test}(");
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut above = lines.iter().enumerate().filter(|(_, line)| line.starts_with(&function));
    above.any(|(at, _)| {
        lines[..at].iter().rev().take_while(|line| is_note(line)).any(|line| *line == "#[test]")
    })
}

fn is_note(line: &str) -> bool {
    line.starts_with("#[") || line.starts_with("//")
}

/// Whether a program with its own `main` lists a test of this name: as the first argument of a call.
fn is_listed(text: &str, test: &str) -> bool {
    text.contains(&format!("(\"{test}\",")) || text.lines().any(|line| line.trim() == format!("\"{test}\","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "crates/store/PROMISES.md";

    fn sources() -> Sources {
        let files = [
            ("crates/store/tests/suite/put.rs", "#[test]\nfn a_put() {}\n\nfn helper() {}\n"),
            (
                "crates/store/tests/cases/races/mod.rs",
                "use libtest_mimic::Trial;\ntrial(\"two race\", race),\n",
            ),
            (
                "crates/store/src/entry.rs",
                "mod tests {\n    /// So it is.\n    #[test]\n    #[ignore]\n    fn beside() {}\n}",
            ),
            (
                "crates/store/tests/lock.rs",
                "use libtest_mimic::Trial;\ntrial(\"one waits\", wait),\ntrial(\n    \"another\",\n",
            ),
            (
                "crates/store/tests/cases/kinds.rs",
                "use libtest_mimic::Trial;\ntrial(\"kinds::one\", one),\ntrial(\n    \"kinds/two\",\n",
            ),
            ("crates/store/tests/faults/main.rs", "use libtest_mimic::Trial;"),
            ("crates/store/tests/faults/rows.rs", "row(\"put it\", absent),"),
            (
                "crates/engine/tests/crowd.rs",
                "#[test]\nfn a_crowd() {}\n#[test]\nfn listed() { f(\"not\", 1) }",
            ),
        ];
        files.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
    }

    fn found(last: &str) -> Vec<String> {
        let text =
            format!("# Title\n\n| promise | test |\n|---|---|\n| it holds | {last} |\n\nNo row: `x`.\n");
        let line = |finding: &Finding| finding.to_string().split(';').next().unwrap_or_default().to_owned();
        check(OWN, &text, &sources()).iter().map(line).collect()
    }

    #[test]
    fn lists_of_promises_are_in_crates() {
        assert!(concerns(OWN));
        assert!(!concerns("PROMISES.md") && !concerns("crates/store/README.md"));
    }

    #[test]
    fn existing_tests_are_found() {
        for name in [
            "put::a_put",
            "src/entry::beside",
            "lock::one waits",
            "lock::another",
            "faults::put it",
            "races::two race",
            "kinds::one",
            "kinds::two",
        ] {
            assert_eq!(found(&format!("`{name}`")), [""; 0], "{name}");
        }
        assert_eq!(found("`engine: crowd::a_crowd`, `put::a_put`"), [""; 0]);
    }

    #[test]
    fn misspelt_names_and_other_functions_are_not_found() {
        for name in [
            "put::a_putt",
            "put::a_pu",
            "put::helper",
            "puts::a_put",
            "a_put",
            "src/put::a_put",
            "src/entry::a_put",
            "lock::waits",
            "kinds::ds::one",
            "engine: put::a_put",
            "crowd::a_crowd",
            "engine: crowd::not",
            "engin: crowd::a_crowd",
        ] {
            assert_eq!(
                found(&format!("`{name}`")),
                [format!("{OWN}:5: there is no test `{name}`")],
                "{name}"
            );
        }
        assert_eq!(found("`put::a_put`, `put::b`"), [format!("{OWN}:5: there is no test `put::b`")]);
        assert_eq!(found("believe me"), [format!("{OWN}:5: the promise names no test")]);
    }
}
