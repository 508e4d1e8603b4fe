//! Members take everything that the root manifest decides from it, by `workspace = true`.

use std::iter;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::finding::Finding;

/// The fields of `[package]` that come from the workspace.
const INHERITED: [&str; 4] = ["version", "edition", "license", "rust-version"];

/// Further ones, of crates that are published.
const INHERITED_IF_PUBLISHED: [&str; 3] = ["categories", "include", "keywords"];

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The keys of a dependency that does not come from the root manifest.
const SOURCES: [&str; 4] = ["version", "path", "git", "registry"];

/// A key with its value.
type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let manifest = parse(text);
    let package = manifest.get("package").and_then(|it| it.get_ref().as_table());
    let mut findings = Vec::new();
    let own_entry = |field: &str| package.and_then(|package| package.get_key_value(field));
    let is_published = own_entry("publish").and_then(|(_, value)| value.get_ref().as_bool()) != Some(false);
    for field in INHERITED.iter().chain(INHERITED_IF_PUBLISHED.iter().filter(|_| is_published)) {
        let own = own_entry(field);
        if !own.is_some_and(inherits) {
            let problem = format!("`{field}` does not come from the workspace");
            let help = format!("write `{field}.workspace = true` in [package]");
            findings.push(Finding::new(path, own.map_or(1, |own| line(text, own)), problem, help));
        }
    }
    if is_published {
        findings.extend(descriptions(path, text, own_entry));
    }
    let own = manifest.get_key_value("lints");
    if !own.is_some_and(inherits) {
        let problem = "the lints do not come from the workspace";
        let help = "write `workspace = true` in [lints]";
        findings.push(Finding::new(path, own.map_or(1, |own| line(text, own)), problem, help));
    }
    let dev = manifest.get("dev-dependencies").and_then(|it| it.get_ref().as_table());
    for entry in dependencies(&manifest) {
        let (name, value) = (entry.0.get_ref(), entry.1.get_ref());
        // A package leaves out a dev-dependency without a version, as it must one that depends on it.
        let is_path_alone = value.get("path").is_some() && value.get("version").is_none();
        if is_path_alone
            && dev
                .and_then(|dev| dev.get_key_value(name.as_ref()))
                .is_some_and(|it| std::ptr::eq(it.1, entry.1))
        {
            continue;
        }
        let own = match value.as_table() {
            Some(table) => SOURCES.into_iter().find(|source| table.contains_key(*source)),
            None => Some("version"),
        };
        let help = format!("name it in the root manifest and write `{name}.workspace = true`");
        if let Some(own) = own {
            findings.push(Finding::new(path, line(text, entry), format!("`{name}` has its own {own}"), help));
        } else if !inherits(entry) {
            let problem = format!("`{name}` is not the workspace's");
            findings.push(Finding::new(path, line(text, entry), problem, help));
        }
    }
    findings
}

/// Checks what a registry shows of a crate.
fn descriptions<'a>(path: &str, text: &str, own_entry: impl Fn(&str) -> Option<Entry<'a>>) -> Vec<Finding> {
    let value = |field: &str| own_entry(field).and_then(|(_, value)| value.get_ref().as_str());
    let documentation = format!("https://docs.rs/{}", value("name").unwrap_or_default());
    let mut findings = Vec::new();
    for (field, is_right, help) in [
        ("description", value("description").is_some_and(|it| !it.is_empty()), "say what the crate is"),
        (
            "documentation",
            value("documentation") == Some(&documentation),
            &*format!("write `documentation = \"{documentation}\"`"),
        ),
    ] {
        if !is_right {
            let problem = format!("a registry needs another `{field}`");
            let line = own_entry(field).map_or(1, |own| line(text, own));
            findings.push(Finding::new(path, line, problem, help));
        }
    }
    findings
}

/// The line of a manifest on which the dependency `name` begins.
pub(super) fn line_of(text: &str, name: &str) -> usize {
    dependencies(&parse(text)).find(|(key, _)| key.get_ref() == name).map_or(1, |entry| line(text, entry))
}

/// The content of a manifest. Cargo has read the file before, so there are no errors to report.
fn parse(text: &str) -> DeTable<'_> {
    DeTable::parse_recoverable(text).0.into_inner()
}

/// The dependencies of every kind and of all targets.
fn dependencies<'a>(manifest: &'a DeTable<'a>) -> impl Iterator<Item = Entry<'a>> {
    let targets = manifest.get("target").and_then(|it| it.get_ref().as_table());
    let targets = targets.into_iter().flat_map(|it| it.values()).filter_map(|it| it.get_ref().as_table());
    let kinds = |table: &'a DeTable<'a>| DEPENDENCIES.into_iter().filter_map(|kind| table.get(kind));
    iter::once(manifest).chain(targets).flat_map(kinds).filter_map(|it| it.get_ref().as_table()).flatten()
}

fn inherits((_, value): Entry<'_>) -> bool {
    value.get_ref().get("workspace").and_then(|it| it.get_ref().as_bool()) == Some(true)
}

/// The line on which an entry begins: that of its first value, which may follow a header.
fn line(text: &str, (key, value): Entry<'_>) -> usize {
    let below = value.get_ref().as_table().and_then(|it| it.keys().map(|key| key.span().start).min());
    text[..below.unwrap_or(key.span().start)].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[package]
name = "x" # version = "1"
description = "X"
documentation = "https://docs.rs/x"
categories.workspace = true
include.workspace = true
keywords.workspace = true
version.workspace = true
edition = { workspace = true }
license.workspace = true
rust-version.workspace = true

[dependencies]
serde.workspace = true
sha2 = { workspace = true, optional = true }
clap = { features = [
    "derive", # a comment, with ] in it
    "wrap_help",
], workspace = true }

[target.'cfg(not(target_os = "a.b"))'.dependencies]
rustix.workspace = true

[dev-dependencies.tempfile]
workspace = true
features = []

[features]
default = ["serde"]

[lints]
workspace = true
"#;

    fn found(text: &str) -> Vec<String> {
        check("m", text).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_member_that_inherits_is_silent() {
        assert_eq!(found(GOOD), [""; 0]);
        assert_eq!(found(&GOOD.replace("[lints]\nworkspace = true\n", "[lints.rust]\n")).len(), 1);
    }

    #[test]
    fn fields_of_its_own_are_findings() {
        for field in INHERITED.iter().chain(&INHERITED_IF_PUBLISHED) {
            let text = GOOD.replace(&format!("\n{field}.workspace = true"), &format!("\n{field} = \"1\""));
            let text = text.replace(&format!("\n{field} = {{ workspace = true }}"), "\nedition = \"1\"");
            let findings = found(&text);
            assert_eq!(findings.len(), 1, "{findings:?}");
            let problem =
                format!("`{field}` does not come from the workspace; write `{field}.workspace = true`");
            assert!(findings[0].contains(&problem), "{findings:?}");
            assert!(!findings[0].starts_with("m:1:"), "{findings:?}");
        }
        assert!(found(&GOOD.replace("license.workspace = true\n", ""))[0].starts_with("m:1: `license`"));
        assert_eq!(
            found(&GOOD.replace("license.workspace = true\n", "license.workspace = false\n")).len(),
            1
        );
    }

    #[test]
    fn what_a_registry_shows_is_checked_of_published_crates() {
        for (line, field) in [("description = \"X\"\n", "description"), ("/x\"\n", "documentation")] {
            let without = GOOD.replace(line, if field == "description" { "" } else { "/y\"\n" });
            let findings = found(&without);
            assert!(findings.len() == 1 && findings[0].contains(field), "{field}: {findings:?}");
            assert_eq!(found(&without.replace("[package]", "[package]\npublish = false")), [""; 0]);
        }
        let private = GOOD.replace("[package]", "[package]\npublish = false");
        assert_eq!(found(&private.replace("include.workspace = true\n", "")), [""; 0]);
    }

    #[test]
    fn a_dev_dependency_may_have_a_path_alone() {
        let at = |key: &str, value: &str| found(&GOOD.replace(key, &format!("{value}\n{key}"))).len();
        let (dev, normal) = ("[dev-dependencies.tempfile]", "[target.");
        assert_eq!(at(dev, "[dev-dependencies.y]\npath = \"../y\""), 0);
        assert_eq!(at(dev, "[dev-dependencies.y]\npath = \"../y\"\nversion = \"1\""), 1);
        assert_eq!(at(normal, "y = { path = \"../y\" }"), 1);
    }

    #[test]
    fn dependencies_of_its_own_are_findings() {
        let cases = [
            ("serde.workspace = true", "serde = \"1\"", "m:15: `serde` has its own version; "),
            ("serde.workspace", "serde.version", "m:15: `serde` has its own version; "),
            ("sha2 = { workspace = true,", "sha2 = { path = \"../x\",", "m:16: `sha2` has its own path; "),
            ("sha2 = { workspace = true,", "sha2 = {", "m:16: `sha2` is not the workspace's; "),
            (
                "], workspace = true }",
                "], workspace = true, version = \"4\" }",
                "m:17: `clap` has its own version; ",
            ),
            ("rustix.workspace = true", "rustix = \"1\"", "m:23: `rustix` has its own version; "),
            ("workspace = true\nfeatures", "git = \"u\"\nfeatures", "m:26: `tempfile` has its own git; "),
        ];
        for (from, to, start) in cases {
            let findings = found(&GOOD.replace(from, to));
            assert!(findings.len() == 1 && findings[0].starts_with(start), "{to}: {findings:?}");
        }
    }
}
