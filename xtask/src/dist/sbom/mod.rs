//! The bill of materials of a binary, in CycloneDX 1.6: each crate that is linked, the libraries of the Rust toolchain, and code
//! in C. It follows from the sources and the compilers: its time is that of the commit.

mod graph;
mod native;
mod validate;

use std::collections::BTreeMap;

pub(super) use graph::{Graph, compiled, parse, tree_arguments};
use graph::{Id, Package, ROOT};
use native::Native;
pub(super) use native::{Libraries, musl_version};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
pub(super) use validate::validate;

/// What a bill is about.
pub(super) struct Subject<'a> {
    pub(super) version: &'a str,
    pub(super) triple: &'a str,
    pub(super) commit: &'a str,
    /// The time of the commit, as `2026-11-28T15:34:00Z`.
    pub(super) time: &'a str,
    pub(super) binary: &'a [u8],
    /// The names and versions of the compilers.
    pub(super) tools: &'a [(String, String)],
    /// The C library whose headers the C compiler reads.
    pub(super) c_headers: &'a str,
}

/// Returns the digests of crates, which a `Cargo.lock` has.
pub(super) fn checksums(lock: &str) -> Result<BTreeMap<Id, String>, String> {
    let lock = DeTable::parse(lock).map_err(|error| format!("`Cargo.lock`: {error}"))?;
    let packages = lock.get_ref().get("package").and_then(|packages| packages.get_ref().as_array());
    let packages = packages.ok_or("`Cargo.lock` has no packages")?;
    let checksum = |package: &Spanned<DeValue<'_>>| {
        let text = |key: &str| Some(package.get_ref().get(key)?.get_ref().as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages.iter().filter_map(checksum).collect())
}

/// Returns the bill of a binary with these crates.
pub(super) fn bill(
    subject: &Subject<'_>,
    graph: &Graph,
    checksums: &BTreeMap<Id, String>,
    metadata: &Value,
    libraries: &Libraries,
) -> Result<String, String> {
    let (root_id, root) =
        graph.iter().find(|((name, _), _)| name == ROOT).ok_or_else(|| format!("`{ROOT}` is missing"))?;
    let natives = native::native(graph, metadata, libraries)?;
    let others = graph.iter().filter(|(id, _)| *id != root_id);
    let crates = others.map(|(id, package)| component(id, package, checksums));
    let mut components = crates.collect::<Result<Vec<_>, _>>()?;
    components.extend(natives.iter().map(native_component));
    let bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number(subject),
        "version": 1,
        "metadata": about(subject, root_id, root),
        "components": components,
        "dependencies": dependencies(graph, &natives, root_id),
    });
    serde_json::to_string_pretty(&bill)
        .map(|text| text + "\n")
        .map_err(|error| format!("the bill of materials cannot be written: {error}"))
}

fn about(subject: &Subject<'_>, root_id: &Id, root: &Package) -> Value {
    let tools = subject
        .tools
        .iter()
        .map(|(name, version)| json!({"type": "application", "name": name, "version": version}));
    json!({
        "timestamp": subject.time,
        "lifecycles": [{"phase": "build"}],
        "tools": {"components": tools.collect::<Vec<_>>()},
        "component": {
            "type": "application",
            "bom-ref": purl(root_id),
            "name": "opkeep",
            "version": subject.version,
            "purl": purl(root_id),
            "licenses": licences(&root.licence),
            "hashes": [{"alg": "SHA-256", "content": sha256(subject.binary)}],
        },
        "properties": [
            {"name": "opkeep:c-headers", "value": subject.c_headers},
            {"name": "opkeep:commit", "value": subject.commit},
            {"name": "opkeep:features", "value": root.features},
            {"name": "opkeep:target", "value": subject.triple},
        ],
    })
}

fn component(id: &Id, package: &Package, checksums: &BTreeMap<Id, String>) -> Result<Value, String> {
    let (name, version) = id;
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(id),
        "name": name,
        "version": version,
        "purl": purl(id),
        "licenses": licences(&package.licence),
    });
    if !package.is_own {
        let checksum =
            checksums.get(id).ok_or_else(|| format!("`Cargo.lock` has no digest of `{name}` {version}"))?;
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    Ok(component)
}

fn native_component(native: &Native) -> Value {
    let Native { name, version, licence, purl, description, .. } = native;
    json!({
        "type": "library",
        "bom-ref": reference(native),
        "name": name,
        "version": version,
        "description": description,
        "purl": purl,
        "licenses": licences(licence),
    })
}

/// Returns which component uses which. The standard library is named at the command, though each crate uses it.
fn dependencies(graph: &Graph, natives: &[Native], root_id: &Id) -> Vec<Value> {
    let of_toolchain = || natives.iter().filter(|native| native.crate_id.is_none());
    let mut dependencies = Vec::new();
    for (id, package) in graph {
        let mut uses: Vec<String> = package.uses.iter().map(purl).collect();
        let bundled = natives.iter().filter(|native| native.crate_id.as_ref() == Some(id));
        uses.extend(bundled.map(reference));
        if id == root_id {
            uses.extend(of_toolchain().map(reference));
        }
        dependencies.push(json!({"ref": purl(id), "dependsOn": uses}));
    }
    dependencies.extend(natives.iter().map(|native| json!({"ref": reference(native), "dependsOn": []})));
    dependencies
}

fn reference(native: &Native) -> String {
    format!("native:{}", native.name)
}

/// Returns the package URL of a crate. In it, `+` would stand for a space.
fn purl((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn licences(expression: &str) -> Value {
    json!([{"expression": expression}])
}

/// Returns the number of the bill of a platform's binary of a commit: a UUID of version 8, which is derived from data.
fn serial_number(subject: &Subject<'_>) -> String {
    let name = format!("opkeep bill of materials\n{}\n{}", subject.commit, subject.triple);
    let mut digits = sha256(name.as_bytes());
    digits.truncate(32);
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "a");
    for at in [20, 16, 12, 8] {
        digits.insert(at, '-');
    }
    format!("urn:uuid:{digits}")
}

/// Returns the SHA-256 of `bytes`, in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::native::tests::libraries;
    use super::*;
    use crate::disk;

    const ROOT_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn subject(triple: &str) -> Subject<'_> {
        let (version, commit, time) = ("0.1.0", "0123", "2026-11-28T15:34:00Z");
        Subject { version, triple, commit, time, binary: b"binary", tools: &[], c_headers: "musl" }
    }

    fn bill_of(triple: &str) -> Value {
        let root = Path::new(ROOT_DIR);
        let lock = String::from_utf8(disk::bytes(root, "Cargo.lock").unwrap()).unwrap();
        let tree = disk::output("cargo", &tree_arguments(triple), Some(root)).unwrap();
        let graph = parse(&String::from_utf8(tree).unwrap()).unwrap();
        let metadata = disk::resolved(triple).unwrap();
        let bill =
            bill(&subject(triple), &graph, &checksums(&lock).unwrap(), &metadata, &libraries()).unwrap();
        serde_json::from_str(&bill).unwrap()
    }

    fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
        value[key].as_array().unwrap()
    }

    fn text<'a>(value: &'a Value, key: &str) -> &'a str {
        value[key].as_str().unwrap_or_else(|| panic!("no text `{key}`: {value}"))
    }

    /// A package of `Cargo.lock`, read without the parser that is tested.
    struct Locked {
        name: Option<String>,
        version: Option<String>,
        checksum: Option<String>,
    }

    fn locked(package: &str) -> Locked {
        let value = |key: &str| {
            let value = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            value.map(|value| value.trim_end_matches('"').to_owned())
        };
        Locked { name: value("name"), version: value("version"), checksum: value("checksum") }
    }

    #[test]
    fn each_crate_has_the_digest_of_the_lock_file() {
        let lock = String::from_utf8(disk::bytes(Path::new(ROOT_DIR), "Cargo.lock").unwrap()).unwrap();
        let lock: Vec<Locked> = lock.split("\n\n").map(locked).collect();
        let bill = bill_of("x86_64-unknown-linux-musl");
        let (mut own, mut hashed) = (0, 0);
        for component in list(&bill, "components") {
            if !text(component, "purl").starts_with("pkg:cargo/") {
                continue;
            }
            let is_it = |locked: &&Locked| {
                locked.name.as_deref() == component["name"].as_str()
                    && locked.version.as_deref() == component["version"].as_str()
            };
            match &lock.iter().find(is_it).unwrap().checksum {
                Some(checksum) => {
                    assert_eq!(component["hashes"][0]["content"], *checksum, "{component}");
                    hashed += 1;
                }
                None => {
                    assert!(text(component, "name").starts_with("opkeep"), "{component}");
                    own += 1;
                }
            }
        }
        assert!(own > 20 && hashed > 80, "{own} of our crates, {hashed} of others");
    }

    #[test]
    fn a_bill_has_what_is_linked_and_nothing_else() {
        let bill = bill_of("aarch64-unknown-linux-musl");
        let has = |name: &str| list(&bill, "components").iter().any(|component| component["name"] == name);
        for name in [
            "ring",
            "mimalloc-c",
            "zstd-sys",
            "libzstd",
            "boringssl",
            "rust-std",
            "musl",
            "libunwind",
            "opkeep-store",
        ] {
            assert!(has(name), "{name} is missing");
        }
        // Macros, build scripts, tests, other packages of the workspace, other systems.
        for name in ["serde_derive", "cc", "proptest", "opkeep-testkit", "pyo3", "windows-sys"] {
            assert!(!has(name), "{name} is not linked");
        }
        assert_eq!(bill["metadata"]["component"]["hashes"][0]["content"], sha256(b"binary"));
    }

    #[test]
    fn each_component_is_in_the_graph_once_and_can_be_reached() {
        let bill = bill_of("x86_64-unknown-linux-musl");
        let root = text(&bill["metadata"]["component"], "bom-ref");
        let components = list(&bill, "components").iter().map(|component| text(component, "bom-ref"));
        let references: Vec<&str> = components.chain([root]).collect();
        let unique: BTreeSet<&str> = references.iter().copied().collect();
        assert_eq!(references.len(), unique.len());
        let uses: BTreeMap<&str, Vec<&str>> = list(&bill, "dependencies")
            .iter()
            .map(|one| (text(one, "ref"), list(one, "dependsOn").iter().filter_map(Value::as_str).collect()))
            .collect();
        assert_eq!(uses.keys().copied().collect::<BTreeSet<_>>(), unique);
        let (mut open, mut seen) = (vec![root], BTreeSet::new());
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(&uses[next]);
            }
        }
        assert_eq!(seen, unique);
    }

    #[test]
    fn a_bill_follows_from_its_subject() {
        let one = serial_number(&subject("x86_64-unknown-linux-musl"));
        assert_eq!(one, serial_number(&subject("x86_64-unknown-linux-musl")));
        assert_ne!(one, serial_number(&subject("aarch64-unknown-linux-musl")));
        let parts: Vec<usize> = one.trim_start_matches("urn:uuid:").split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{one}");
    }

    #[test]
    fn a_crate_without_a_digest_is_an_error() {
        let id = |name: &str| (name.to_owned(), "1.0.0".to_owned());
        let package = || Package { licence: "MIT".to_owned(), ..Package::default() };
        let graph = [(id(ROOT), Package { is_own: true, ..package() }), (id("serde"), package())].into();
        let bill = bill(&subject("x"), &graph, &BTreeMap::new(), &Value::Null, &libraries());
        assert!(bill.unwrap_err().contains("no digest of `serde`"));
    }

    #[test]
    fn a_plus_in_a_version_is_escaped() {
        assert_eq!(purl(&("a".to_owned(), "1+b".to_owned())), "pkg:cargo/a@1%2Bb");
    }
}
