//! `cargo xtask notices`: compares THIRD-PARTY.md with the crates that our binaries link, and their licence files. The file
//! is committed, because `pip install` builds a wheel with Cargo alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::bundled::{self, Bundled};
use crate::disk;

const DOCUMENT: &str = "THIRD-PARTY.md";
const USAGE: &str = "usage: cargo xtask notices [--update]";

/// The packages with binaries that are distributed.
const DISTRIBUTED: [&str; 3] = ["opkeep-capi", "opkeep-cli", "opkeep-python"];

/// The platforms of what is distributed: crates of other systems are not linked.
const PLATFORMS: [&str; 3] =
    ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// The libraries of the Rust toolchain that static binaries contain.
const STATIC: &str = include_str!("notices/static.md");

const HEAD: &str = "\
# Third-party software

opkeep's command, its Python package and its C library contain code of these crates, and of the Rust standard library, whose
licence is MIT or Apache-2.0 (Copyright (c) The Rust Project Contributors). Of alternative licences with MIT among them, MIT
was chosen. `cargo xtask notices --update` writes this file.

| crate | version | licence |
|---|---|---|
";

pub(crate) fn notices(args: &[String]) -> Result<(), String> {
    let update = match args {
        [] => false,
        [flag] if flag == "--update" => true,
        [other, ..] => return Err(format!("found `{other}`\n{USAGE}")),
    };
    let mut crates = BTreeSet::new();
    for platform in PLATFORMS {
        let metadata = disk::resolved(platform)?;
        let linked = linked(&metadata)?;
        bundled::check(linked.iter().map(|one| one.name.as_str()), &bundled::with_native_code(&metadata))?;
        crates.extend(linked);
    }
    let crates: Vec<Crate> = crates.into_iter().collect();
    let texts = crates.iter().map(licence_texts).collect::<Result<Vec<_>, _>>()?;
    let document = document(&crates, &texts);
    let committed = disk::text_if_exists(Path::new("."), DOCUMENT)?.unwrap_or_default();
    match (document == committed, update) {
        (true, _) => Ok(()),
        (false, true) => disk::write(Path::new(DOCUMENT), &document),
        (false, false) => Err(format!(
            "`{DOCUMENT}` does not have the crates that are linked, or their licences; `--update` writes it"
        )),
    }
}

/// A crate of a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    licence: String,
    /// Its manifest, beside the licence files.
    manifest: String,
}

impl Crate {
    fn of(package: &Value) -> Result<Self, String> {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        let name = text("name").ok_or("`cargo metadata` has a package without a name")?;
        let missing = |key: &str| format!("`{name}` states no {key}");
        let [version, licence, manifest] =
            ["version", "license", "manifest_path"].map(|key| text(key).ok_or_else(|| missing(key)));
        let (version, licence, manifest) = (version?, licence?.replace('/', " OR "), manifest?);
        Ok(Self { name, version, licence, manifest })
    }
}

/// Returns the crates of registries that the distributed packages link, sorted. Procedural macros and build scripts run in
/// the compiler, and are in no binary.
fn linked(metadata: &Value) -> Result<Vec<Crate>, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (id(&package), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (id(&node), node)).collect();
    let is_macro = |package: &Value| {
        list(&package["targets"]).iter().any(|target| list(&target["kind"]).contains(&"proc-macro".into()))
    };
    let is_distributed = |package: &Value| DISTRIBUTED.iter().any(|name| package["name"] == *name);
    let mut open: Vec<String> =
        packages.iter().filter(|(_, package)| is_distributed(package)).map(|(id, _)| id.clone()).collect();
    let (mut seen, mut crates) = (BTreeSet::new(), BTreeSet::new());
    while let Some(next) = open.pop() {
        let package =
            packages.get(&next).ok_or_else(|| format!("`cargo metadata` has no package `{next}`"))?;
        if is_macro(package) || !seen.insert(next.clone()) {
            continue;
        }
        if !package["source"].is_null() {
            crates.insert(Crate::of(package)?);
        }
        for dependency in nodes.get(&next).map(|node| list(&node["deps"])).unwrap_or_default() {
            let is_linked = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            open.extend(dependency["pkg"].as_str().filter(|_| is_linked).map(str::to_owned));
        }
    }
    Ok(crates.into_iter().collect())
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_default().to_owned()
}

/// Returns the licence texts of a crate.
fn licence_texts(one: &Crate) -> Result<Vec<String>, String> {
    let dir = Path::new(&one.manifest).parent().unwrap_or(Path::new("."));
    let names = chosen(&one.licence, &disk::names(dir)?);
    if names.is_empty() {
        let Crate { name, version, .. } = one;
        return Err(format!("`{name}` {version} has no licence file in `{}`", dir.display()));
    }
    let text = |name: &str| {
        let bytes = disk::bytes(dir, name)?;
        let lines: Vec<String> =
            String::from_utf8_lossy(&bytes).lines().map(|line| line.trim_end().to_owned()).collect();
        Ok(lines.join("\n").trim_matches('\n').to_owned())
    };
    let own = names.iter().map(String::as_str);
    let of_others = Bundled::of(&one.name).map(|bundled| bundled.licence_file);
    let mut texts: Vec<String> = own.chain(of_others).map(text).collect::<Result<_, String>>()?;
    // A crate may have the licence of others' code among its own.
    let mut seen = BTreeSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    Ok(texts)
}

/// Returns those of a crate's files that have the chosen licence: of alternatives MIT, if it is one of them and has a file,
/// otherwise all licences. Notices belong to each.
fn chosen(licence: &str, names: &[String]) -> Vec<String> {
    let begins = |name: &&String, beginnings: &[&str]| {
        let name = name.to_uppercase();
        beginnings.iter().any(|beginning| name.starts_with(beginning))
    };
    let licences: Vec<&String> =
        names.iter().filter(|name| begins(name, &["LICENSE", "LICENCE", "UNLICENSE", "COPYING"])).collect();
    let is_choice = licence.split(" OR ").any(|one| one == "MIT");
    let mit = licences.iter().find(|name| is_choice && name.to_uppercase().contains("MIT"));
    let notices = names.iter().filter(|name| begins(name, &["NOTICE", "COPYRIGHT"]));
    let chosen = mit.map_or(licences.clone(), |mit| vec![*mit]);
    // A notice alone is no licence.
    if chosen.is_empty() { Vec::new() } else { chosen.into_iter().chain(notices).cloned().collect() }
}

/// Returns the document about `crates`, which have these texts. Crates with the same texts share them.
fn document(crates: &[Crate], texts: &[Vec<String>]) -> String {
    let mut document = HEAD.to_owned();
    let mut by_text: BTreeMap<&[String], Vec<String>> = BTreeMap::new();
    for (Crate { name, version, licence, .. }, texts) in crates.iter().zip(texts) {
        document.push_str(&format!("| {name} | {version} | {licence} |\n"));
        by_text.entry(texts).or_default().push(format!("{name} {version}"));
    }
    let mut groups: Vec<_> = by_text.into_iter().map(|(texts, crates)| (crates, texts)).collect();
    groups.sort();
    for (crates, texts) in groups {
        document.push_str(&format!("\n## {}\n", crates.join(", ")));
        texts.iter().for_each(|text| document.push_str(&format!("\n````text\n{text}\n````\n")));
    }
    document.push('\n');
    document.push_str(STATIC);
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn of_alternatives_mit_is_chosen_and_notices_stay() {
        for (licence, files, expected) in [
            ("MIT OR Apache-2.0", &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT"][..], &["LICENSE-MIT"][..]),
            ("MIT OR Apache-2.0", &["license-apache-2.0", "license-mit"], &["license-mit"]),
            ("Unlicense OR MIT", &["COPYING", "LICENSE-MIT", "UNLICENSE"], &["LICENSE-MIT"]),
            ("MIT OR Apache-2.0", &["COPYRIGHT", "LICENSE-MIT"], &["LICENSE-MIT", "COPYRIGHT"]),
            ("Apache-2.0", &["LICENSE", "NOTICE"], &["LICENSE", "NOTICE"]),
            (
                "(MIT OR Apache-2.0) AND Unicode-3.0",
                &["LICENSE-MIT", "LICENSE-UNICODE"],
                &["LICENSE-MIT", "LICENSE-UNICODE"],
            ),
            ("MIT", &["COPYRIGHT", "README.md"], &[]),
        ] {
            assert_eq!(chosen(licence, &names(files)), names(expected), "{licence}, {files:?}");
        }
    }

    #[test]
    fn only_linked_crates_count() {
        let package = |name: &str, kind: &str, source: Value| {
            json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source,
                "manifest_path": "/x/Cargo.toml", "targets": [{"kind": [kind]}]})
        };
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let registry = || json!("registry");
        let metadata = json!({
            "packages": [
                package("opkeep-cli", "lib", Value::Null),
                package("opkeep-benches", "lib", Value::Null),
                package("linked", "lib", registry()),
                package("derive", "proc-macro", registry()),
                package("of-derive", "lib", registry()),
                package("for-tests", "lib", registry()),
                package("for-benches", "lib", registry()),
            ],
            "resolve": {"nodes": [
                {"id": "opkeep-cli", "deps": [
                    dep("linked", Value::Null), dep("derive", Value::Null), dep("for-tests", json!("dev")),
                ]},
                {"id": "opkeep-benches", "deps": [dep("for-benches", Value::Null)]},
                {"id": "derive", "deps": [dep("of-derive", Value::Null)]},
            ]},
        });
        let crates = linked(&metadata).unwrap();
        let found: Vec<(&str, &str)> =
            crates.iter().map(|it| (it.name.as_str(), it.licence.as_str())).collect();
        assert_eq!(found, [("linked", "MIT OR Apache-2.0")]);
    }

    #[test]
    fn crates_with_the_same_text_share_it() {
        let one = |name: &str| Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: "MIT".to_owned(),
            manifest: String::new(),
        };
        let (crates, texts) = ([one("a"), one("b"), one("c")], ["same", "other", "same"]);
        let document = document(&crates, &texts.map(|text| vec![text.to_owned()]));
        let expected = "| a | 1.0.0 | MIT |\n| b | 1.0.0 | MIT |\n| c | 1.0.0 | MIT |\n\n\
            ## a 1.0.0, c 1.0.0\n\n````text\nsame\n````\n\n## b 1.0.0\n\n````text\nother\n````\n";
        assert_eq!(document, format!("{HEAD}{expected}\n{STATIC}"));
    }
}
