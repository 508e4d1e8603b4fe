//! The environment of programs that archives depend on: named variables only, since another one could change what is built.

use std::ffi::OsString;

/// Returns those of these variables that this process has.
pub(super) fn kept<'a>(names: &[&'a str]) -> Vec<(&'a str, OsString)> {
    names.iter().filter_map(|name| Some((*name, variable(name)?))).collect()
}

/// Returns a variable of this process.
pub(super) fn variable(name: &str) -> Option<OsString> {
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    std::env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_kept() {
        let kept = kept(&["PATH", "OPKEEP_NOT_SET"]);
        assert_eq!(kept.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["PATH"]);
    }
}
