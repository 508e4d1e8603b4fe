//! What a binary has beside crates: code in C and assembly that crates bring along, and the libraries of the Rust toolchain.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::graph::{Graph, Id};
use crate::bundled::{self, Bundled};

/// A component that is no crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) licence: &'static str,
    pub(super) purl: String,
    pub(super) description: String,
    /// The crate that brings it along; `None` if every binary has it.
    pub(super) crate_id: Option<Id>,
}

/// The versions of the toolchain's libraries.
#[derive(Clone, Debug)]
pub(in crate::dist) struct Libraries {
    pub(in crate::dist) rust: String,
    pub(in crate::dist) rust_commit: String,
    pub(in crate::dist) llvm: String,
    pub(in crate::dist) musl: String,
}

/// Returns the components of a binary with these crates that are no crates. `metadata` is what cargo states about all crates.
pub(super) fn native(graph: &Graph, metadata: &Value, libraries: &Libraries) -> Result<Vec<Native>, String> {
    bundled::check(graph.keys().map(|(name, _)| name.as_str()), &bundled::with_native_code(metadata))?;
    let mut found = Vec::new();
    for id @ (crate_name, crate_version) in graph.keys() {
        for bundled in Bundled::of(crate_name) {
            let directory = directory(metadata, id)
                .ok_or_else(|| format!("`cargo metadata` has no `{crate_name}` {crate_version}"))?;
            let (version, purl) = bundled.identity(crate_version, &directory)?;
            let description = format!("C and assembly, compiled for the crate {crate_name}");
            let (name, licence, crate_id) = (bundled.name, bundled.licence, Some(id.clone()));
            found.push(Native { name, version, licence, purl, description, crate_id });
        }
    }
    found.extend(of_toolchain(libraries));
    Ok(found)
}

/// Returns the directory of a crate's sources.
fn directory(metadata: &Value, (name, version): &Id) -> Option<PathBuf> {
    let mut packages = metadata["packages"].as_array()?.iter();
    let package = packages.find(|package| package["name"] == **name && package["version"] == **version)?;
    Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned())
}

fn of_toolchain(libraries: &Libraries) -> [Native; 3] {
    let Libraries { rust, rust_commit, llvm, musl } = libraries;
    let native = |name, version: &str, licence, purl, description: &str| Native {
        name,
        version: version.to_owned(),
        licence,
        purl,
        description: description.to_owned(),
        crate_id: None,
    };
    [
        native(
            "rust-std",
            rust,
            "MIT OR Apache-2.0",
            format!("pkg:github/rust-lang/rust@{rust_commit}#library/std"),
            "The Rust standard library, with the crates that it uses",
        ),
        native(
            "musl",
            musl,
            "MIT",
            format!("pkg:generic/musl@{musl}"),
            "The C library, as the Rust toolchain has it",
        ),
        native(
            "libunwind",
            llvm,
            "Apache-2.0 WITH LLVM-exception",
            format!("pkg:github/llvm/llvm-project@{llvm}#libunwind"),
            "LLVM's library for stack unwinding, as the Rust toolchain has it",
        ),
    ]
}

/// Returns the version of musl whose static library this is: the only text in it that is a version.
pub(in crate::dist) fn musl_version(library: &[u8]) -> Option<String> {
    let texts = library.split(|byte| *byte == 0).filter(|text| is_version(text));
    let versions: BTreeSet<&[u8]> = texts.collect();
    match versions.into_iter().collect::<Vec<_>>()[..] {
        [version] => Some(String::from_utf8_lossy(version).into_owned()),
        _ => None,
    }
}

fn is_version(text: &[u8]) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.len() <= 3 && part.iter().all(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
    parts.len() == 3 && parts.into_iter().all(is_number)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::graph::Package;
    use super::*;

    pub(in crate::dist::sbom) fn libraries() -> Libraries {
        Libraries {
            rust: "1.95.0".to_owned(),
            rust_commit: "abc".to_owned(),
            llvm: "22.1.2".to_owned(),
            musl: "1.2.5".to_owned(),
        }
    }

    fn graph(crates: &[(&str, &str)]) -> Graph {
        let entry = |(name, version): &(&str, &str)| {
            (((*name).to_owned(), (*version).to_owned()), Package::default())
        };
        crates.iter().map(entry).collect()
    }

    #[test]
    fn c_code_belongs_to_the_crate_that_brings_it_along() {
        let graph = graph(&[("zstd-sys", "2.1.3+zstd.1.5.7"), ("ring", "0.17.14"), ("serde", "1.0.0")]);
        let package = |(name, version): &Id| json!({"name": name, "version": version, "id": name, "manifest_path": "/nowhere/Cargo.toml"});
        let metadata = json!({"packages": graph.keys().map(package).collect::<Vec<_>>()});
        let found = native(&graph, &metadata, &libraries()).unwrap();
        let names: Vec<&str> = found.iter().map(|native| native.name).collect();
        assert_eq!(names, ["boringssl", "fiat-crypto", "libzstd", "rust-std", "musl", "libunwind"]);
        assert_eq!(found[2].crate_id.as_ref().unwrap().0, "zstd-sys");
        assert!(
            native(&graph, &json!({"packages": []}), &libraries()).unwrap_err().contains("`ring` 0.17.14")
        );
    }

    #[test]
    fn the_version_of_musl_is_in_its_library() {
        assert_eq!(
            musl_version(b"!<arch>\nversion.lo/\x001.2.5\0GCC: (GNU) 9.4.0\0").as_deref(),
            Some("1.2.5")
        );
        assert_eq!(musl_version(b"!<arch>\n\x001.2.5\0\x001.2.6\0"), None);
        assert_eq!(musl_version(b"!<arch>\n"), None);
    }
}
