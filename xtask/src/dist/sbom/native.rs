//! What a binary has beside crates: code in C and assembly that crates bring along, and the libraries of the Rust toolchain.

use std::collections::BTreeSet;

use super::graph::{Graph, Id};

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

/// Code in a crate that is not the crate's own.
struct Bundled {
    crate_name: &'static str,
    name: &'static str,
    licence: &'static str,
    /// Returns its version and its package URL, by the version of the crate.
    identity: fn(&str) -> Option<(String, String)>,
}

/// The crates that compile code which is not Rust, and that code. A crate that is missing here is an error.
const BUNDLED: &[Bundled] = &[
    Bundled {
        crate_name: "libmimalloc-sys",
        name: "mimalloc-c",
        licence: "MIT",
        // The crate does not state the version.
        identity: |version| {
            Some((format!("in libmimalloc-sys {version}"), "pkg:github/microsoft/mimalloc".to_owned()))
        },
    },
    Bundled {
        crate_name: "ring",
        name: "boringssl",
        licence: "Apache-2.0 AND ISC",
        // The crate has parts of it, and does not state of which version.
        identity: |version| Some((format!("in ring {version}"), "pkg:github/google/boringssl".to_owned())),
    },
    Bundled {
        crate_name: "ring",
        name: "fiat-crypto",
        licence: "MIT OR Apache-2.0 OR BSD-1-Clause",
        identity: |version| Some((format!("in ring {version}"), "pkg:github/mit-plv/fiat-crypto".to_owned())),
    },
    Bundled {
        crate_name: "zstd-sys",
        name: "libzstd",
        licence: "BSD-3-Clause",
        identity: |version| {
            let version = version.split_once("+zstd.")?.1;
            Some((version.to_owned(), format!("pkg:github/facebook/zstd@v{version}")))
        },
    },
];

/// The versions of the toolchain's libraries.
#[derive(Clone, Debug)]
pub(in crate::dist) struct Libraries {
    pub(in crate::dist) rust: String,
    pub(in crate::dist) rust_commit: String,
    pub(in crate::dist) llvm: String,
    pub(in crate::dist) musl: String,
}

/// Returns the components of a binary with these crates that are no crates. `compile_c` has the names of all crates with code
/// that is not Rust.
pub(super) fn native(
    graph: &Graph,
    compile_c: &BTreeSet<String>,
    libraries: &Libraries,
) -> Result<Vec<Native>, String> {
    let mut found = Vec::new();
    for id @ (name, version) in graph.keys() {
        let mut bundled = BUNDLED.iter().filter(|bundled| bundled.crate_name == name).peekable();
        if bundled.peek().is_none() && compile_c.contains(name) {
            return Err(format!(
                "`{name}` compiles code that is not Rust: add it to `BUNDLED` in {}",
                file!()
            ));
        }
        for Bundled { name: bundled, licence, identity, .. } in bundled {
            let (version, purl) = identity(version)
                .ok_or_else(|| format!("`{name}` {version} does not state its version of {bundled}"))?;
            let description = format!("C and assembly, compiled for the crate {name}");
            let (name, crate_id) = (*bundled, Some(id.clone()));
            found.push(Native { name, version, licence, purl, description, crate_id });
        }
    }
    found.extend(of_toolchain(libraries));
    Ok(found)
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
mod tests {
    use super::super::graph::Package;
    use super::*;

    fn libraries() -> Libraries {
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
    fn c_code_has_the_version_that_its_crate_states() {
        let graph = graph(&[("zstd-sys", "2.1.3+zstd.1.5.7"), ("ring", "0.17.14"), ("serde", "1.0.0")]);
        let found = native(&graph, &["zstd-sys".to_owned(), "ring".to_owned()].into(), &libraries()).unwrap();
        let names: Vec<&str> = found.iter().map(|native| native.name).collect();
        assert_eq!(names, ["boringssl", "fiat-crypto", "libzstd", "rust-std", "musl", "libunwind"]);
        let zstd = &found[2];
        assert_eq!((zstd.version.as_str(), zstd.purl.as_str()), ("1.5.7", "pkg:github/facebook/zstd@v1.5.7"));
        assert_eq!(zstd.crate_id.as_ref().unwrap().0, "zstd-sys");
    }

    #[test]
    fn unknown_c_code_is_an_error() {
        let graph = graph(&[("libz-sys", "1.0.0")]);
        let error = native(&graph, &["libz-sys".to_owned()].into(), &libraries()).unwrap_err();
        assert!(error.starts_with("`libz-sys` compiles code that is not Rust: "), "{error}");
    }

    #[test]
    fn a_crate_that_states_no_version_of_its_c_code_is_an_error() {
        let graph = graph(&[("zstd-sys", "2.1.3")]);
        assert!(native(&graph, &BTreeSet::new(), &libraries()).unwrap_err().contains("libzstd"));
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
