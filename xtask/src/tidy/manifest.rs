//! Members say `workspace = true`, and nothing else, about everything that the root manifest decides.

use std::collections::BTreeMap;

use super::Finding;

/// What `[package]` takes from the workspace.
const INHERITED: [&str; 4] = ["version", "edition", "license", "rust-version"];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let entries = entries(text);
    let says_workspace = |keys: &[&str]| entries.iter().any(|it| it.is(keys) && it.value == "true");
    let mut findings = Vec::new();
    for field in INHERITED {
        if !says_workspace(&["package", field, "workspace"]) {
            let own = entries.iter().find(|it| it.keys.len() == 2 && it.is(&["package", field]));
            let what = format!("`{field}` does not come from the workspace");
            let way_out = format!("write `{field}.workspace = true` in [package]");
            findings.push(Finding::new(path, own.map_or(1, |it| it.line), what, way_out));
        }
    }
    if !says_workspace(&["lints", "workspace"]) {
        let own = entries.iter().find(|it| it.keys.first().is_some_and(|key| key == "lints"));
        let what = "the lints do not come from the workspace";
        let way_out = "write `workspace = true` in [lints]";
        findings.push(Finding::new(path, own.map_or(1, |it| it.line), what, way_out));
    }

    let mut dependencies: BTreeMap<&[String], (usize, bool, Option<&str>)> = BTreeMap::new();
    for entry in &entries {
        let Some((name, rest)) = entry.dependency() else { continue };
        let (_, inherits, own) = dependencies.entry(name).or_insert((entry.line, false, None));
        match rest {
            [key] if key == "workspace" => *inherits |= entry.value == "true",
            [key, ..] if ["version", "path", "git", "registry"].contains(&key.as_str()) => *own = Some(key),
            [] => *own = Some("version"),
            _ => {}
        }
    }
    for (name, (line, inherits, own)) in dependencies {
        let name = name.last().map_or("", String::as_str);
        let way_out = format!("name it in the root manifest and write `{name}.workspace = true`");
        if let Some(own) = own {
            findings.push(Finding::new(path, line, format!("`{name}` has its own {own}"), way_out));
        } else if !inherits {
            findings.push(Finding::new(path, line, format!("`{name}` is not the workspace's"), way_out));
        }
    }
    findings
}

/// One value of a manifest under its full path: `[package]` and `version.workspace = true`, or
/// `version = { workspace = true }`, are both `package version workspace` with the value `true`.
#[derive(Debug, PartialEq)]
struct Entry {
    line: usize,
    keys: Vec<String>,
    value: String,
}

impl Entry {
    fn is(&self, keys: &[&str]) -> bool {
        self.keys.iter().map(String::as_str).eq(keys.iter().copied())
    }

    /// The path up to the name of the dependency that this entry is about, and what follows.
    fn dependency(&self) -> Option<(&[String], &[String])> {
        let table = if self.keys.first().is_some_and(|key| key == "target") { 2 } else { 0 };
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
        let is_one = kinds.contains(&self.keys.get(table)?.as_str()) && self.keys.len() > table + 1;
        is_one.then(|| self.keys.split_at(table + 2))
    }
}

/// The values of a manifest. Reads as much of TOML as manifests use; cargo itself has read the file before.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut table = Vec::new();
    let mut lines = (1..).zip(text.lines().map(without_comment));
    while let Some((line, text)) = lines.next() {
        if let Some(header) = text.strip_prefix('[') {
            table = keys(header.trim_matches(['[', ']']));
        } else if let Some(at) = outside(text, |c| c == '=') {
            let mut value = text[at + 1..].trim().to_owned();
            while depth(&value) > 0
                && let Some((_, more)) = lines.next()
            {
                value.push(' ');
                value.push_str(more);
            }
            flatten(line, [table.clone(), keys(&text[..at])].concat(), &value, &mut entries);
        }
    }
    entries
}

/// Adds `value`, or if it is an inline table, what stands in it.
fn flatten(line: usize, path: Vec<String>, value: &str, entries: &mut Vec<Entry>) {
    let Some(inner) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        entries.push(Entry { line, keys: path, value: value.to_owned() });
        return;
    };
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (item, more) = match outside(rest, |c| c == ',') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, ""),
        };
        if let Some(at) = outside(item, |c| c == '=') {
            flatten(line, [path.clone(), keys(&item[..at])].concat(), item[at + 1..].trim(), entries);
        }
        rest = more.trim();
    }
}

/// The parts of a dotted key, without quotes.
fn keys(dotted: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = dotted;
    loop {
        let at = outside(rest, |c| c == '.');
        parts.push(rest[..at.unwrap_or(rest.len())].trim().trim_matches(['"', '\'']).to_owned());
        match at {
            Some(at) => rest = &rest[at + 1..],
            None => return parts,
        }
    }
}

fn without_comment(line: &str) -> &str {
    line[..outside(line, |c| c == '#').unwrap_or(line.len())].trim()
}

/// Where the first wanted character stands outside quotes and brackets.
fn outside(text: &str, wanted: impl Fn(char) -> bool) -> Option<usize> {
    let mut found = None;
    scan(text, |at, c, depth| {
        if depth == 0 && found.is_none() && wanted(c) {
            found = Some(at);
        }
    });
    found
}

/// How many brackets are open at the end of `text`.
fn depth(text: &str) -> i32 {
    scan(text, |_, _, _| {})
}

fn scan(text: &str, mut visit: impl FnMut(usize, char, i32)) -> i32 {
    let mut quote = None;
    let mut depth = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, _) => {
                visit(at, c, depth);
                match c {
                    '[' | '{' => depth += 1,
                    ']' | '}' => depth -= 1,
                    _ => {}
                }
            }
        }
    }
    depth
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
            let what =
                format!("`{field}` does not come from the workspace; write `{field}.workspace = true`");
            assert!(findings[0].contains(&what), "{findings:?}");
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

    #[test]
    fn dotted_and_quoted_keys_come_apart() {
        assert_eq!(
            keys("target.'cfg(a = \"b.c\")'.dependencies"),
            ["target", "cfg(a = \"b.c\")", "dependencies"]
        );
        assert_eq!(without_comment(" a = \"x # \\\" y\" # z"), "a = \"x # \\\" y\"");
    }
}
