//! The places where the version stands: the manifest of the workspace, Cargo.lock, and texts that name a release, such as
//! `opkeep-1.2.3.tar.gz`. All else has it from there: the members, the Python packages, `opkeep --version`, `opkeep.pc`.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::changelog::CHANGELOG;
use super::version::Version;

pub(crate) const MANIFEST: &str = "Cargo.toml";
pub(crate) const LOCK: &str = "Cargo.lock";

/// Files of other versions, and texts that are made up.
const OTHERS: [&str; 4] = ["fixtures/", "fuzz/", "target/", "xtask/"];

/// The characters between the product's name and a version: `opkeep-1.2.3`, `opkeep==1.2.3`, `opkeep = "1.2.3"`.
const BETWEEN: &str = " -_@:=\"";

/// A version in a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) range: Range<usize>,
    pub(crate) line: usize,
    pub(crate) version: String,
}

impl Place {
    fn new(text: &str, range: Range<usize>) -> Self {
        let line = text[..range.start].matches('\n').count() + 1;
        Self { version: text[range.clone()].to_owned(), range, line }
    }

    /// The place of a string in TOML, without its quotes.
    fn of_value(text: &str, value: &Spanned<DeValue<'_>>) -> Self {
        Self::new(text, value.span().start + 1..value.span().end - 1)
    }
}

/// Whether the file at `path`, of any kind, may have versions of ours. If it is no text, it has none.
pub(crate) fn concerns(path: &str) -> bool {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    path != CHANGELOG && !is_test && !OTHERS.iter().any(|directory| path.starts_with(directory))
}

/// The places of a file, in their order.
pub(crate) fn places(path: &str, text: &str) -> Result<Vec<Place>, String> {
    if path == CHANGELOG {
        return Ok(Vec::new());
    }
    let mut places = match path {
        MANIFEST => of_manifest(text)?,
        LOCK => of_lock(text)?,
        _ => of_text(text),
    };
    places.sort_by_key(|place| place.range.start);
    Ok(places)
}

pub(crate) fn workspace_version(manifest: &str) -> Result<String, String> {
    let table = parse(MANIFEST, manifest)?;
    let version = at(&table, &["workspace", "package", "version"]);
    let version = version.and_then(|it| it.get_ref().as_str()).map(str::to_owned);
    version.ok_or_else(|| format!("`{MANIFEST}` has no `workspace.package.version`"))
}

fn parse<'a>(path: &str, text: &'a str) -> Result<DeTable<'a>, String> {
    DeTable::parse(text).map(Spanned::into_inner).map_err(|error| format!("`{path}`: {error}"))
}

fn at<'a, 'b>(table: &'b DeTable<'a>, keys: &[&str]) -> Option<&'b Spanned<DeValue<'a>>> {
    let (first, rest) = keys.split_first()?;
    let first = table.get(*first)?;
    rest.iter().try_fold(first, |value, key| value.get_ref().as_table()?.get(*key))
}

/// The version of the workspace, and those that crates require of each other.
fn of_manifest(text: &str) -> Result<Vec<Place>, String> {
    let table = parse(MANIFEST, text)?;
    let mut places: Vec<Place> = at(&table, &["workspace", "package", "version"])
        .map(|it| Place::of_value(text, it))
        .into_iter()
        .collect();
    let dependencies = at(&table, &["workspace", "dependencies"]).and_then(|it| it.get_ref().as_table());
    let tables = dependencies.into_iter().flat_map(|it| it.values()).filter_map(|it| it.get_ref().as_table());
    let of_ours = tables.filter(|dependency| dependency.contains_key("path"));
    places.extend(of_ours.filter_map(|it| it.get("version")).map(|it| Place::of_value(text, it)));
    Ok(places)
}

/// The versions of the members: what has no source is here.
fn of_lock(text: &str) -> Result<Vec<Place>, String> {
    let table = parse(LOCK, text)?;
    let packages = table.get("package").and_then(|it| it.get_ref().as_array());
    let packages = packages.into_iter().flatten().filter_map(|it| it.get_ref().as_table());
    let members = packages.filter(|package| !package.contains_key("source"));
    Ok(members.filter_map(|it| it.get("version")).map(|it| Place::of_value(text, it)).collect())
}

/// The versions that follow the name of the product, or of one of its crates.
fn of_text(text: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for (at, _) in text.match_indices("opkeep") {
        let word =
            text[at..].find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(text.len() - at);
        let after = at + text[at..at + word].trim_end_matches('-').len();
        let between = text[after..].find(|c: char| !BETWEEN.contains(c)).unwrap_or(0);
        let begin = after + between;
        let length = text[begin..].find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let number = &text[begin..begin + length.unwrap_or(text.len() - begin)];
        // A sentence may end here.
        let number = number.trim_end_matches('.');
        if (1..=4).contains(&between) && Version::parse(number).is_some() {
            places.push(Place::new(text, begin..begin + number.len()));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(path: &str, text: &str) -> Vec<(usize, String)> {
        places(path, text).unwrap().into_iter().map(|place| (place.line, place.version)).collect()
    }

    #[test]
    fn the_manifest_has_the_version_of_each_crate() {
        let text = "[workspace.package]\nversion = \"1.2.3\"\n\n[workspace.dependencies]\n\
            opkeep = { path = \"a\", version = \"1.2.3\" }\nopkeep-testkit = { path = \"b\" }\nserde = { version = \"1.2.3\" }\n\
            sha2 = \"1.2.3\"\n";
        assert_eq!(versions(MANIFEST, text), [(2, "1.2.3".to_owned()), (5, "1.2.3".to_owned())]);
        assert_eq!(workspace_version(text), Ok("1.2.3".to_owned()));
        assert!(workspace_version("[workspace]\n").is_err());
        assert!(places(MANIFEST, "[").is_err());
    }

    #[test]
    fn the_lock_file_has_the_version_of_each_member() {
        let text = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\n\
            [[package]]\nname = \"opkeep\"\nversion = \"1.2.3\"\n";
        assert_eq!(versions(LOCK, text), [(10, "1.2.3".to_owned())]);
    }

    #[test]
    fn a_text_may_name_a_release() {
        for name in [
            "opkeep 1.2.3",
            "opkeep-1.2.3-x86_64.tar.gz",
            "opkeep_1.2.3-1_amd64.deb",
            "opkeep==1.2.3",
            "opkeep:1.2.3",
            "opkeep-cli 1.2.3.",
            "opkeep = \"1.2.3\"",
            "opkeep@1.2.3",
            "`opkeep-cli-1.2.3`",
        ] {
            assert_eq!(versions("docs/a.md", name), [(1, "1.2.3".to_owned())], "{name}");
        }
        for other in [
            "opkeep",
            "opkeep 1.2",
            "opkeep 127.0.0.1",
            "tiny 1.2.3",
            "opkeep requires Rust 1.91.0",
            "since 1.2.3",
            "opkeep ",
            "opkeep.1.2.3",
        ] {
            assert_eq!(versions("docs/a.md", other), [], "{other}");
        }
        assert_eq!(versions("docs/a.md", "a\nopkeep 1.2.3, opkeep 1.2.4").len(), 2);
    }

    #[test]
    fn texts_of_other_versions_are_not_looked_at() {
        for path in [
            MANIFEST,
            LOCK,
            "README.md",
            "docs/a.md",
            "crates/a/src/b.rs",
            "docs/container/Containerfile",
            ".ci/run",
        ] {
            assert!(concerns(path), "{path}");
        }
        for path in [
            CHANGELOG,
            "fixtures/a/README.md",
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "xtask/src/a.rs",
        ] {
            assert!(!concerns(path), "{path}");
        }
    }
}
