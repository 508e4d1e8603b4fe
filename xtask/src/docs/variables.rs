//! The variables of the environment that the code names, and the page that lists them.

use std::collections::{BTreeMap, BTreeSet};

pub(super) const PAGE: &str = "docs/environment.md";
/// Its constants have the same prefix.
pub(super) const HEADER: &str = "crates/capi/include/opkeep.h";
const PREFIX: &str = "OPKEEP_";

/// Whether a file is code.
pub(super) fn concerns(path: &str) -> bool {
    (path.ends_with(".rs") || path.ends_with(".py")) && !path.starts_with("xtask/src/docs/")
}

/// Whether the page has to list what a file names. Tests make up further variables.
fn is_listed(path: &str) -> bool {
    !path.contains("/tests/") && !path.ends_with("/tests.rs") && !path.starts_with("xtask/")
}

/// Variables that the page lacks, and those on the page that no code names. `code` has the texts by path.
pub(super) fn problems(page: &str, header: &str, code: &BTreeMap<String, String>) -> Vec<String> {
    let constants: BTreeSet<&str> = header.lines().filter_map(declared).collect();
    let listed = names(page);
    let (mut used, mut needed) = (BTreeSet::new(), BTreeMap::new());
    for (path, text) in code {
        let variables: Vec<&str> = names(text).into_iter().filter(|name| !constants.contains(name)).collect();
        if is_listed(path) {
            needed.extend(variables.iter().map(|name| (*name, path.as_str())));
        }
        used.extend(variables);
    }
    let missing = needed.iter().filter(|(name, _)| !listed.contains(*name));
    let missing = missing.map(|(name, path)| format!("{path}: `{name}` is missing in {PAGE}"));
    let unused = listed.difference(&used);
    missing.chain(unused.map(|name| format!("{PAGE}: no code names `{name}`"))).collect()
}

/// The constant that a line of the header declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let name = line.strip_prefix("#define ").unwrap_or(line);
    names(name).into_iter().next().filter(|first| name.starts_with(first))
}

/// The names with our prefix in a text. A prefix of names, `OPKEEP_REMOTE_`, is none.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let name = |(at, _): (usize, &'_ str)| {
        let length = text[at..].find(|c| !is_part(c)).unwrap_or(text.len() - at);
        &text[at..at + length]
    };
    let is_whole = |(at, _): &(usize, &str)| !text[..*at].ends_with(is_part);
    text.match_indices(PREFIX).filter(is_whole).map(name).filter(|name| !name.ends_with('_')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_and_code_have_the_same_variables() {
        let header = "#define OPKEEP_ABI 1\n    OPKEEP_CODE_OK = 0,\n/* OPKEEP_REMOTE */\n";
        let code =
            "env(\"OPKEEP_REMOTE\"); OPKEEP_ABI; \"OPKEEP_\"; OPKEEP_CODE_OK; // OPKEEP_REMOTE_*, XOPKEEP_NO";
        let code = BTreeMap::from([("a.rs".to_owned(), code.to_owned())]);
        assert_eq!(problems("`OPKEEP_REMOTE`", header, &code), [""; 0]);
        assert_eq!(
            problems("`OPKEEP_OTHER`", header, &code),
            [
                "a.rs: `OPKEEP_REMOTE` is missing in docs/environment.md",
                "docs/environment.md: no code names `OPKEEP_OTHER`"
            ]
        );
    }

    #[test]
    fn tests_may_name_others() {
        let code = |path: &str| BTreeMap::from([(path.to_owned(), "\"OPKEEP_X\"".to_owned())]);
        assert_eq!(problems("", "", &code("crates/cli/src/args.rs")).len(), 1);
        assert_eq!(problems("", "", &code("crates/cli/tests/suite/a.rs")), [""; 0]);
        assert_eq!(problems("`OPKEEP_X`", "", &code("crates/cli/tests/suite/a.rs")), [""; 0]);
        assert!(concerns("crates/python/python/opkeep/cache.py") && !concerns("docs/a.md"));
    }
}
