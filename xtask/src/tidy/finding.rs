//! A violation of a rule.

use std::fmt;

/// One violation of a rule: where it is, what is wrong, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    what: String,
    help: String,
}

impl Finding {
    pub(super) fn new(path: &str, line: usize, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, help } = self;
        write!(f, "{path}:{line}: {what}; {help}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_place_what_and_help() {
        let finding = Finding::new("crates/x/Cargo.toml", 3, "`a` is wrong", "make it right");
        assert_eq!(finding.to_string(), "crates/x/Cargo.toml:3: `a` is wrong; make it right");
    }
}
