//! The crates that are published: what `cargo metadata` says about them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The members that may be published.
pub(crate) fn published(metadata: &Value) -> Vec<&Value> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.filter(|package| package["publish"].is_null()).collect()
}

/// The directory of a member, relative to the workspace.
pub(crate) fn directory(metadata: &Value, package: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (root, manifest) = (text(&metadata["workspace_root"]), text(&package["manifest_path"]));
    let manifest = manifest.strip_prefix(&root).unwrap_or(&manifest);
    manifest.trim_start_matches('/').trim_end_matches("/Cargo.toml").to_owned()
}

/// The published crates that each published crate requires, by dependencies that its package has: cargo removes
/// dev-dependencies without a version.
pub(crate) fn required(metadata: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let named = || published(metadata).into_iter().filter_map(|it| Some((it["name"].as_str()?, it)));
    let names: BTreeSet<&str> = named().map(|(name, _)| name).collect();
    named()
        .map(|(name, package)| (name, versioned(package).filter(|target| names.contains(target)).collect()))
        .collect()
}

fn versioned(package: &Value) -> impl Iterator<Item = &str> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    dependencies.filter(|it| it["kind"] != "dev" || it["req"] != "*").filter_map(|it| it["name"].as_str())
}

/// The published crates, each after those that it requires. Crates that require each other are missing.
pub(crate) fn in_order(metadata: &Value) -> Vec<&str> {
    let required = required(metadata);
    let mut order: Vec<&str> = Vec::new();
    loop {
        let is_next = |(name, targets): &(&&str, &BTreeSet<&str>)| {
            !order.contains(*name) && targets.iter().all(|target| order.contains(target))
        };
        match required.iter().find(is_next) {
            Some((name, _)) => order.push(name),
            None => return order,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_crate_follows_those_that_it_requires() {
        let dependency = |name: &str, kind: Value, req: &str| json!({"name": name, "kind": kind, "req": req});
        let metadata = json!({"workspace_root": "/w", "packages": [
            {"name": "a", "publish": null, "manifest_path": "/w/crates/x/Cargo.toml", "dependencies": [
                dependency("c", Value::Null, "^1"), dependency("b", json!("dev"), "*"), dependency("serde", Value::Null, "^1"),
            ]},
            {"name": "b", "publish": null, "dependencies": [dependency("a", Value::Null, "^1")]},
            {"name": "c", "publish": null, "dependencies": [dependency("d", json!("build"), "^1")]},
            {"name": "d", "publish": null, "dependencies": []},
            {"name": "hidden", "publish": [], "dependencies": []},
        ]});
        assert_eq!(in_order(&metadata), ["d", "c", "a", "b"]);
        assert_eq!(directory(&metadata, published(&metadata)[0]), "crates/x");
    }
}
