//! What makes the package of a published crate incomplete, or impossible: `cargo xtask package` makes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use syn::Item;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::attributes::{attributes, is_for_tests};
use super::finding::Finding;
use super::manifest::line_of;
use crate::published;

/// The licence files, which a package has beside its manifest.
pub(super) const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The documents that a package has beside its manifest: `include` in the workspace's manifest lists them.
const DOCUMENTS: [&str; 3] = ["FINDINGS.md", "PROMISES.md", "README.md"];

/// The macros that read a file while a crate is compiled.
const INCLUDES: [&str; 3] = ["include!(", "include_bytes!(", "include_str!("];

/// The crates that have packages, by their directories.
pub(super) struct Published<'a> {
    metadata: &'a Value,
    by_directory: BTreeMap<String, &'a str>,
}

impl<'a> Published<'a> {
    pub(super) fn of(metadata: &'a Value) -> Self {
        let packages = published::published(metadata).into_iter();
        let named =
            packages.map(|it| (published::directory(metadata, it), it["name"].as_str().unwrap_or("")));
        Self { metadata, by_directory: named.collect() }
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &str> {
        self.by_directory.keys().map(String::as_str)
    }

    /// The directory of the package whose source `path` is.
    fn of_source<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (directory, _) = path.split_once("/src/")?;
        self.by_directory.contains_key(directory).then_some(directory)
    }

    /// Finds crates that require each other, in dependencies that a package has: those with a version. None of them can be
    /// published first. `manifests` has the texts of the manifests.
    pub(super) fn cycles(&self, manifests: &BTreeMap<String, String>) -> Vec<Finding> {
        let required = published::required(self.metadata);
        let directories: BTreeMap<&str, &str> =
            self.by_directory.iter().map(|(directory, name)| (*name, directory.as_str())).collect();
        let mut findings = Vec::new();
        for (name, targets) in &required {
            for target in targets.iter().filter(|target| reaches(&required, target, name)) {
                let manifest = format!("{}/Cargo.toml", directories[name]);
                let line = manifests.get(&manifest).map_or(1, |text| line_of(text, target));
                let problem = format!("`{name}` requires `{target}`, which requires it");
                let help = "of a dev-dependency, state the path alone: `{ path = \"...\" }`";
                findings.push(Finding::new(&manifest, line, problem, help));
            }
        }
        findings
    }

    /// Finds included files of which the package has none.
    pub(super) fn includes(&self, path: &str, text: &str) -> Vec<Finding> {
        let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
        let Some(directory) = self.of_source(path).filter(|_| !is_test) else { return Vec::new() };
        // The module graph reports a file that cannot be parsed.
        let Ok(file) = syn::parse_file(text) else { return Vec::new() };
        let mut tests = Tests::default();
        tests.visit_file(&file);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let mut findings = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(number, _)| !tests.has(*number)) {
            for included in INCLUDES.iter().filter_map(|name| literal_after(line, name)) {
                let found = resolved(parent, included);
                let found = found.as_deref().and_then(|it| it.strip_prefix(directory)?.strip_prefix('/'));
                if !found.is_some_and(|it| it.starts_with("src/") || DOCUMENTS.contains(&it)) {
                    let problem = format!("`{included}` is not in the package");
                    let help = "move the file below `src`; in an example, read it with `std::fs`";
                    findings.push(Finding::new(path, number, problem, help));
                }
            }
        }
        findings
    }
}

/// Checks that a package has the licence `name` of the workspace.
pub(super) fn licence(directory: &str, name: &str, text: Option<&str>, of_root: &str) -> Option<Finding> {
    let problem = match text {
        Some(text) if text == of_root => return None,
        Some(_) => "the licence is not that of the workspace",
        None => "the package has no such licence file",
    };
    let help = format!("`ln -sf ../../{name} {directory}/{name}`");
    Some(Finding::new(&format!("{directory}/{name}"), 1, problem, help))
}

/// Whether `from` requires `to`, directly or not.
fn reaches<'a>(required: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str, to: &str) -> bool {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        if seen.insert(next) {
            open.extend(required.get(next).into_iter().flatten());
        }
    }
    false
}

/// The string literal that follows `name` in a line.
fn literal_after<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(name)?;
    let is_whole = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    let literal = after.trim_start().strip_prefix('"').filter(|_| is_whole)?;
    literal.split_once('"').map(|(literal, _)| literal)
}

/// The path that `relative` leads to from the directory `parent`; `None` above the root.
fn resolved(parent: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = parent.split('/').collect();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines of items for tests, also those of the documentation.
#[derive(Default)]
struct Tests(Vec<(usize, usize)>);

impl Tests {
    fn has(&self, line: usize) -> bool {
        self.0.iter().any(|(first, last)| (first..=last).contains(&&line))
    }
}

impl<'a> Visit<'a> for Tests {
    fn visit_item(&mut self, item: &'a Item) {
        let is_doctest = attributes(item).iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "doctest")
        });
        if is_doctest || is_for_tests(attributes(item)) {
            let begin = attributes(item).first().map_or(item.span(), |attribute| attribute.span());
            self.0.push((begin.start().line, item.span().end().line));
        } else {
            visit::visit_item(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(dependencies: &[(&str, &str, Value, &str)]) -> Value {
        let package = |name: &str| {
            let own = dependencies.iter().filter(|(from, ..)| *from == name);
            let own = own.map(|(_, to, kind, req)| json!({"name": to, "kind": kind, "req": req}));
            let manifest = format!("/w/crates/{name}/Cargo.toml");
            json!({"name": name, "manifest_path": manifest, "publish": null, "dependencies": own.collect::<Vec<_>>()})
        };
        let mut hidden = package("hidden");
        hidden["publish"] = json!([]);
        json!({"workspace_root": "/w", "packages": [package("a"), package("b"), package("c"), hidden]})
    }

    fn texts(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crates_that_require_each_other_are_found() {
        let cycles = |dependencies: &[(&str, &str, Value, &str)]| {
            let metadata = metadata(dependencies);
            let text = "[dependencies]\nb.workspace = true\n".to_owned();
            let manifests = BTreeMap::from([("crates/a/Cargo.toml".to_owned(), text)]);
            texts(Published::of(&metadata).cycles(&manifests))
        };
        let (normal, dev) = (|| Value::Null, || json!("dev"));
        let line = [("a", "b", normal(), "^1"), ("b", "c", normal(), "^1"), ("a", "c", dev(), "^1")];
        assert_eq!(cycles(&line), [""; 0]);
        let with = |last| cycles(&[&line[..], &[last]].concat());
        let found = with(("c", "a", dev(), "^1"));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("crates/a/Cargo.toml:2: `a` requires `b`, which"), "{found:?}");
        assert!(with(("b", "b", dev(), "^1"))[0].contains("`b` requires `b`"));
        // A package does not have these.
        assert_eq!(with(("c", "a", dev(), "*")), [""; 0]);
        assert_eq!(with(("hidden", "a", normal(), "^1")), [""; 0]);
    }

    #[test]
    fn included_files_are_in_the_package() {
        let metadata = metadata(&[]);
        let published = Published::of(&metadata);
        let found = |path: &str, text: &str| texts(published.includes(path, text));
        let outside = "const A: &str = include_str!(\"../../../../fixtures/a\");\n";
        let line = "crates/a/src/x/y.rs:1: `../../../../fixtures/a` is not in the package; ";
        assert!(found("crates/a/src/x/y.rs", outside)[0].starts_with(line));
        let example = "//! ```\n//! let a = include_bytes!(\"../tests/x\");\n//! ```\n";
        assert!(found("crates/a/src/lib.rs", example)[0].starts_with("crates/a/src/lib.rs:2: "));
        assert_eq!(found("crates/a/src/x.rs", "#[doc = include_str!(\"../x.md\")]\nstruct A;").len(), 1);
        for inside in ["include_str!(\"x.md\")", "include_bytes!( \"./y/../x\")", "my_include_str!(\"../a\")"]
        {
            assert_eq!(
                found("crates/a/src/x.rs", &format!("const A: &str = {inside};")),
                [""; 0],
                "{inside}"
            );
        }
        for test in
            ["#[cfg(test)]\nmod tests {\n", "#[cfg(doctest)]\n#[doc = include_str!(\"../x\")]\nmod a {"]
        {
            assert_eq!(found("crates/a/src/x.rs", &format!("{test}{outside}}}")), [""; 0], "{test}");
        }
        for path in ["crates/a/src/x/tests.rs", "crates/a/tests/x.rs", "crates/hidden/src/x.rs"] {
            assert_eq!(found(path, outside), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_package_has_the_licences() {
        assert_eq!(licence("crates/a", "LICENSE-MIT", Some("MIT"), "MIT"), None);
        for other in [None, Some("BSD")] {
            let found = licence("crates/a", "LICENSE-MIT", other, "MIT").map(|it| it.to_string());
            assert!(found.is_some_and(|it| it.starts_with("crates/a/LICENSE-MIT:1: ")), "{other:?}");
        }
    }

    #[test]
    fn packages_are_those_that_may_be_published() {
        let metadata = metadata(&[]);
        let published = Published::of(&metadata);
        assert_eq!(published.directories().collect::<Vec<_>>(), ["crates/a", "crates/b", "crates/c"]);
    }
}
