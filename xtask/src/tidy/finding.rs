//! A violation of a rule.

use std::fmt;

/// One violation of a rule: where it is, what is wrong, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    problem: String,
    help: String,
}

impl Finding {
    pub(super) fn new(path: &str, line: usize, problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, problem: problem.into(), help: help.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, problem, help } = self;
        write!(f, "{path}:{line}: {problem}; {help}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_place_problem_and_help() {
        let finding = Finding::new("crates/x/Cargo.toml", 3, "`a` is wrong", "make it right");
        assert_eq!(finding.to_string(), "crates/x/Cargo.toml:3: `a` is wrong; make it right");
    }
}
