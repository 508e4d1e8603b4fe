//! The version is the same everywhere; `cargo xtask release` sets it.

use std::path::Path;

use toml::de::DeTable;

use super::finding::Finding;
use crate::disk;
use crate::release::{CHANGELOG, MANIFEST, changelog_findings, concerns, places, workspace_version};

/// The Python packages, which have their version from Cargo.toml.
const PYTHON: [&str; 2] = ["crates/cli/pyproject.toml", "crates/python/pyproject.toml"];

pub(super) fn findings(root: &Path, files: &[String]) -> Result<Vec<Finding>, String> {
    let text = |path: &str| disk::text_if_exists(root, path).map(Option::unwrap_or_default);
    let version = workspace_version(&text(MANIFEST)?)?;
    let mut findings = Vec::new();
    for path in files.iter().filter(|path| concerns(path)) {
        let bytes = disk::bytes(root, path)?;
        findings.extend(check(path, &String::from_utf8_lossy(&bytes), &version)?);
    }
    for (line, problem) in changelog_findings(&text(CHANGELOG)?, &version) {
        findings.push(Finding::new(
            CHANGELOG,
            line,
            problem,
            "`cargo xtask release` makes sections of versions",
        ));
    }
    for path in PYTHON {
        findings.extend(python(path, &text(path)?));
    }
    Ok(findings)
}

/// Finds other versions in a file.
fn check(path: &str, text: &str, version: &str) -> Result<Vec<Finding>, String> {
    let others = places(path, text)?.into_iter().filter(|place| place.version != version);
    let finding = |place: crate::release::Place| {
        let problem = format!("the version is {}, that of the workspace {version}", place.version);
        Finding::new(path, place.line, problem, "`cargo xtask release VERSION` sets it everywhere")
    };
    Ok(others.map(finding).collect())
}

/// Checks that a Python package has no version of its own.
fn python(path: &str, text: &str) -> Option<Finding> {
    let table = DeTable::parse_recoverable(text).0.into_inner();
    let dynamic = table.get("project").and_then(|it| it.get_ref().get("dynamic"));
    let mut dynamic = dynamic.and_then(|it| it.get_ref().as_array()).into_iter().flatten();
    let is_dynamic = dynamic.any(|it| it.get_ref().as_str() == Some("version"));
    let problem = "the version does not come from Cargo.toml";
    (!is_dynamic).then(|| Finding::new(path, 1, problem, "write `dynamic = [\"version\"]` in [project]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_found() {
        let text = "a\nSee opkeep-1.2.3.tar.gz and opkeep-1.2.4.tar.gz.\n";
        let found = check("docs/a.md", text, "1.2.4").unwrap();
        assert_eq!(found.len(), 1);
        let line = "docs/a.md:2: the version is 1.2.3, that of the workspace 1.2.4; ";
        assert!(found[0].to_string().starts_with(line), "{found:?}");
    }

    #[test]
    fn a_python_package_has_no_version_of_its_own() {
        assert_eq!(python("p", "[project]\ndynamic = [\"version\"]\n"), None);
        for other in ["[project]\nversion = \"1\"\n", "[project]\ndynamic = [\"readme\"]\n", ""] {
            assert!(python("p", other).is_some(), "{other}");
        }
    }
}
