//! The allowed dependencies between crates: ARCHITECTURE.md lists them, and the manifests must agree, in both
//! directions.
//!
//! The document holds a fenced block opened with "```arrows". A line is a crate, `->`, and the workspace crates that it
//! may depend on; a crate without any has a line without targets. Lines that begin with `#` are notes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::finding::Finding;
use super::manifest::line_of;

pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";

/// They help the tests of other crates, and must never be part of a product.
const TEST_SUPPORT: [&str; 2] = ["opkeep-testkit", "opkeep-toolchain-mutations"];

/// A member of the workspace, as far as the checks need it.
#[derive(Clone, Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    /// The manifest's path relative to the workspace.
    pub(super) manifest: String,
    /// The manifest.
    pub(super) text: String,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug)]
struct Dependency {
    name: String,
    dev: bool,
    /// Has a path and no version, so it never reaches a registry.
    path_only: bool,
}

/// The members, without the texts of their manifests.
pub(super) fn packages(metadata: &Value) -> Result<Vec<Package>, String> {
    fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
        value[key].as_str().ok_or_else(|| format!("`cargo metadata` has no `{key}` in {value:.100}"))
    }
    fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
        value[key].as_array().ok_or_else(|| format!("`cargo metadata` has no list `{key}`"))
    }
    let root = text(metadata, "workspace_root")?;
    let mut packages = Vec::new();
    for package in list(metadata, "packages")? {
        let mut dependencies = Vec::new();
        for dependency in list(package, "dependencies")? {
            dependencies.push(Dependency {
                name: text(dependency, "name")?.to_owned(),
                dev: dependency["kind"] == "dev",
                path_only: dependency["path"].is_string() && text(dependency, "req")? == "*",
            });
        }
        let manifest = text(package, "manifest_path")?;
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).replace('\\', "/");
        packages.push(Package {
            name: text(package, "name")?.to_owned(),
            manifest: manifest.trim_start_matches('/').to_owned(),
            text: String::new(),
            dependencies,
        });
    }
    Ok(packages)
}

pub(super) fn check(document: &str, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(listed) = parse(document, &mut findings) else {
        let problem = "there is no block opened with \"```arrows\"";
        let help = "list every crate under crates/ there, as `opkeep-ops -> opkeep-descriptor`";
        return vec![Finding::new(DOCUMENT, 1, problem, help)];
    };
    let members: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for (name, (line, _)) in listed.iter().filter(|(name, _)| !members.contains(*name)) {
        let problem = format!("`{name}` is no member of the workspace");
        findings.push(Finding::new(DOCUMENT, *line, problem, "remove or correct the line"));
    }
    for package in packages {
        let name = package.name.as_str();
        let mut drawn = BTreeSet::new();
        for dependency in package.dependencies.iter().filter(|it| members.contains(it.name.as_str())) {
            if is_test_support(&dependency.name) && !is_test_support(name) {
                findings.extend(test_support(package, dependency));
            } else if !dependency.dev {
                drawn.insert(dependency.name.as_str());
            }
        }
        let Some((line, allowed)) = listed.get(name) else {
            if package.manifest.starts_with("crates/") || !drawn.is_empty() {
                let targets: String = drawn.iter().map(|target| format!(" {target}")).collect();
                let problem = format!("`{name}` is missing from {DOCUMENT}");
                let help = format!("add `{name} ->{targets}` to its arrows, if that is the design");
                findings.push(Finding::new(&package.manifest, 1, problem, help));
            }
            continue;
        };
        for target in drawn.difference(allowed) {
            let problem = format!("{name} -> {target} is an arrow that {DOCUMENT} does not list");
            let help = "do without, or change the design there first";
            findings.push(Finding::new(&package.manifest, line_of(&package.text, target), problem, help));
        }
        for target in allowed.difference(&drawn) {
            let problem = format!("{DOCUMENT} lists {name} -> {target}, which no manifest has");
            findings.push(Finding::new(DOCUMENT, *line, problem, "remove the arrow"));
        }
    }
    findings
}

type Arrows<'a> = BTreeMap<&'a str, (usize, BTreeSet<&'a str>)>;

/// The line and the targets of each crate; `None` if there is no block.
fn parse<'a>(document: &'a str, findings: &mut Vec<Finding>) -> Option<Arrows<'a>> {
    let mut arrows = None;
    let mut inside = false;
    for (line, text) in (1..).zip(document.lines()) {
        let text = text.trim();
        if text.starts_with("```") {
            inside = !inside && text == "```arrows";
            if inside {
                arrows.get_or_insert_with(Arrows::new);
            }
            continue;
        }
        let Some(arrows) = arrows.as_mut().filter(|_| inside && !text.is_empty() && !text.starts_with('#'))
        else {
            continue;
        };
        let (name, targets) = text.split_once("->").unwrap_or((text, ""));
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) || targets.contains("->") {
            let problem = format!("`{text}` is no arrow");
            findings.push(Finding::new(DOCUMENT, line, problem, "write one crate, `->`, and its targets"));
        } else if arrows.insert(name, (line, targets.split_whitespace().collect())).is_some() {
            let problem = format!("`{name}` has two lines");
            findings.push(Finding::new(DOCUMENT, line, problem, "join them"));
        }
    }
    arrows
}

fn is_test_support(name: &str) -> bool {
    TEST_SUPPORT.contains(&name)
}

fn test_support(package: &Package, dependency: &Dependency) -> Option<Finding> {
    let name = &dependency.name;
    let (problem, help) = if !dependency.dev {
        (format!("`{name}` is more than a dev-dependency"), "move it to [dev-dependencies]")
    } else if !dependency.path_only {
        (format!("`{name}` is not path-only"), "give it a path and no version in the root manifest")
    } else {
        return None;
    };
    Some(Finding::new(&package.manifest, line_of(&package.text, name), problem, help))
}

#[cfg(test)]
mod tests;
