//! Members take everything that the root manifest decides from it, by `workspace = true`.

use std::iter;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::finding::Finding;

/// The fields of `[package]` that come from the workspace.
const INHERITED: [&str; 4] = ["version", "edition", "license", "rust-version"];

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The keys of a dependency that does not come from the root manifest.
const SOURCES: [&str; 4] = ["version", "path", "git", "registry"];

/// A key with its value.
type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let manifest = parse(text);
    let package = manifest.get("package").and_then(|it| it.get_ref().as_table());
    let mut findings = Vec::new();
    for field in INHERITED {
        let own = package.and_then(|package| package.get_key_value(field));
        if !own.is_some_and(inherits) {
            let problem = format!("`{field}` does not come from the workspace");
            let help = format!("write `{field}.workspace = true` in [package]");
            findings.push(Finding::new(path, own.map_or(1, |own| line(text, own)), problem, help));
        }
    }
    let own = manifest.get_key_value("lints");
    if !own.is_some_and(inherits) {
        let problem = "the lints do not come from the workspace";
        let help = "write `workspace = true` in [lints]";
        findings.push(Finding::new(path, own.map_or(1, |own| line(text, own)), problem, help));
    }
    for entry in dependencies(&manifest) {
        let (name, value) = (entry.0.get_ref(), entry.1.get_ref());
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
        for field in INHERITED {
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
    fn dependencies_of_its_own_are_findings() {
        let cases = [
            ("serde.workspace = true", "serde = \"1\"", "m:10: `serde` has its own version; "),
            ("serde.workspace", "serde.version", "m:10: `serde` has its own version; "),
            ("sha2 = { workspace = true,", "sha2 = { path = \"../x\",", "m:11: `sha2` has its own path; "),
            ("sha2 = { workspace = true,", "sha2 = {", "m:11: `sha2` is not the workspace's; "),
            (
                "], workspace = true }",
                "], workspace = true, version = \"4\" }",
                "m:12: `clap` has its own version; ",
            ),
            ("rustix.workspace = true", "rustix = \"1\"", "m:18: `rustix` has its own version; "),
            ("workspace = true\nfeatures", "git = \"u\"\nfeatures", "m:21: `tempfile` has its own git; "),
        ];
        for (from, to, start) in cases {
            let findings = found(&GOOD.replace(from, to));
            assert!(findings.len() == 1 && findings[0].starts_with(start), "{to}: {findings:?}");
        }
    }
}
