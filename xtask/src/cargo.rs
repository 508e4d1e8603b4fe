//! Calls of cargo.

use std::ffi::OsStr;
use std::process::Command;

/// The prefixes of the variables by which cargo describes the package of a program that it runs.
const OF_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Cargo, as it would be called from a shell.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    without_package(&mut cargo);
    cargo
}

/// Removes the variables that describe the package of this program. Some build scripts, such as that of `ring`, run again when
/// these variables differ from those of the last build. Then everything that depends on it is built again, too.
pub(crate) fn without_package(command: &mut Command) {
    let is_of_package =
        |name: &OsStr| OF_PACKAGE.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    let variables = std::env::vars_os();
    for (name, _) in variables.filter(|(name, _)| is_of_package(name)) {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_learns_nothing_of_the_package_that_calls_it() {
        let command = cargo();
        let removed = |name: &str| command.get_envs().any(|variable| variable == (OsStr::new(name), None));
        // This test has them, since cargo runs it.
        for name in ["CARGO_PKG_NAME", "CARGO_PKG_VERSION_MINOR", "CARGO_MANIFEST_DIR"] {
            #[expect(clippy::disallowed_methods, reason = "the variables of this test program")]
            let value = std::env::var_os(name);
            assert!(value.is_some() && removed(name), "{name}");
        }
        assert!(!removed("PATH"));
    }
}
