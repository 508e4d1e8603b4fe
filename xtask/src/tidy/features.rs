//! The Python module is built with the crates that the tests are built with: each crate has the same features in both.
//! Otherwise cargo builds it, and all crates that use it, twice.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::Finding;
use crate::disk;
use crate::wheel::{AS_IN_TESTS, CRATE};

const PACKAGE: &str = "opkeep-python";

pub(super) fn findings(root: &Path) -> Result<Vec<Finding>, String> {
    let wheel = tree(root, &["--package", PACKAGE, "--features", AS_IN_TESTS, "--edges", "normal,build"])?;
    let tests = tree(root, &["--workspace", "--edges", "normal,build,dev"])?;
    Ok(check(&wheel, &tests))
}

/// The crates of a build, one a line, each with its features.
fn tree(root: &Path, selection: &[&str]) -> Result<String, String> {
    let args = [&["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"], selection].concat();
    Ok(String::from_utf8_lossy(&disk::output("cargo", &args, Some(root))?).into_owned())
}

fn check(wheel: &str, tests: &str) -> Vec<Finding> {
    // ` (*)` marks a crate that was listed before.
    let crates = |tree: &str| -> BTreeSet<String> {
        tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    };
    let (wheel, tests) = (crates(wheel), crates(tests));
    let own = format!("{PACKAGE} ");
    let differ = wheel.difference(&tests).filter(|line| !line.is_empty() && !line.starts_with(&own));
    let finding = |line: &String| {
        let problem =
            format!("`{line}` has other features in the tests, so the wheel's checks build it again");
        let help = format!(
            "add what it has there to the feature `{AS_IN_TESTS}`; `cargo tree --workspace --format '{{p}} {{f}}'` shows it"
        );
        Finding::new(&format!("{CRATE}/Cargo.toml"), 1, problem, help)
    };
    differ.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_with_other_features_is_found() {
        let tests = "opkeep-python v1 []\nserde v1 [alloc,std]\nlibc v2 []\nserde v1 [] (*)\n";
        let wheel =
            |serde: &str| format!("opkeep-python v1 [as-in-tests]\nserde v1 [{serde}]\n\nlibc v2 [] (*)\n");
        assert_eq!(check(&wheel("alloc,std"), tests), []);
        let found = check(&wheel("std"), tests);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("`serde v1 [std]`"), "{found:?}");
    }

    #[test]
    fn the_wheel_has_the_crates_of_the_tests() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        assert_eq!(findings(root).unwrap(), []);
        let plain = tree(root, &["--package", PACKAGE, "--edges", "normal,build"]).unwrap();
        let tests = tree(root, &["--workspace", "--edges", "normal,build,dev"]).unwrap();
        assert_ne!(check(&plain, &tests), [], "the feature is not needed");
    }
}
