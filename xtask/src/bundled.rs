//! Code in C and assembly that crates bring along, which has licences and versions of its own.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::disk;

/// Code in a crate that is not the crate's own.
pub(crate) struct Bundled {
    pub(crate) crate_name: &'static str,
    pub(crate) name: &'static str,
    pub(crate) licence: &'static str,
    /// The file of its licence, in the crate.
    pub(crate) licence_file: &'static str,
    /// Where it is developed, as in a package URL.
    repository: &'static str,
    version: Stated,
}

/// Where a crate states the version of the code that it brings along.
enum Stated {
    /// In its own version, after this text.
    CrateVersion(&'static str),
    /// In a header: this macro has the number, whose last four digits are the minor version and the patch.
    Header { file: &'static str, name: &'static str },
    /// It has parts of that code, and does not state of which version.
    Nowhere,
}

/// The crates that compile code which is not Rust, and that code. A crate that is missing here is an error.
pub(crate) const BUNDLED: &[Bundled] = &[
    Bundled {
        crate_name: "libmimalloc-sys",
        // Not the name of a crate.
        name: "mimalloc-c",
        licence: "MIT",
        licence_file: "c_src/mimalloc/v3/LICENSE",
        repository: "github/microsoft/mimalloc",
        version: Stated::Header { file: "c_src/mimalloc/v3/include/mimalloc.h", name: "MI_MALLOC_VERSION" },
    },
    Bundled {
        crate_name: "ring",
        name: "boringssl",
        licence: "Apache-2.0 AND ISC",
        licence_file: "LICENSE-BoringSSL",
        repository: "github/google/boringssl",
        version: Stated::Nowhere,
    },
    Bundled {
        crate_name: "ring",
        name: "fiat-crypto",
        licence: "MIT OR Apache-2.0 OR BSD-1-Clause",
        licence_file: "third_party/fiat/LICENSE",
        repository: "github/mit-plv/fiat-crypto",
        version: Stated::Nowhere,
    },
    Bundled {
        crate_name: "zstd-sys",
        name: "libzstd",
        licence: "BSD-3-Clause",
        licence_file: "zstd/LICENSE",
        repository: "github/facebook/zstd",
        version: Stated::CrateVersion("+zstd."),
    },
];

impl Bundled {
    /// Returns what a crate brings along.
    pub(crate) fn of(crate_name: &str) -> impl Iterator<Item = &'static Self> {
        BUNDLED.iter().filter(move |bundled| bundled.crate_name == crate_name)
    }

    /// Returns the version and the package URL, by the version of the crate and the directory of its sources.
    pub(crate) fn identity(&self, crate_version: &str, directory: &Path) -> Result<(String, String), String> {
        let Self { crate_name, name, repository, .. } = self;
        let unstated = || format!("`{crate_name}` {crate_version} does not state its version of {name}");
        let version = match self.version {
            Stated::CrateVersion(before) => {
                crate_version.split_once(before).ok_or_else(unstated)?.1.to_owned()
            }
            Stated::Header { file, name } => {
                let header = disk::bytes(directory, file)?;
                in_header(&String::from_utf8_lossy(&header), name).ok_or_else(unstated)?
            }
            Stated::Nowhere => {
                return Ok((format!("in {crate_name} {crate_version}"), format!("pkg:{repository}")));
            }
        };
        Ok((version.clone(), format!("pkg:{repository}@v{version}")))
    }
}

/// Returns the version that a macro of a header has: `30302` is 3.3.2.
fn in_header(header: &str, name: &str) -> Option<String> {
    let mut lines = header.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.len() >= 3 && words[0] == "#define" && words[1] == name)?;
    let number: u32 = line[2].parse().ok()?;
    Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// Fails if one of these crates compiles code that the table lacks.
pub(crate) fn check<'a>(
    crates: impl Iterator<Item = &'a str>,
    compile_c: &BTreeSet<String>,
) -> Result<(), String> {
    let mut missing = crates.filter(|name| compile_c.contains(*name) && Bundled::of(name).next().is_none());
    match missing.next() {
        None => Ok(()),
        Some(name) => {
            Err(format!("`{name}` compiles code that is not Rust: add it to `BUNDLED` in {}", file!()))
        }
    }
}

/// Returns the names of the crates that compile C: those whose build scripts use a crate that calls a compiler.
pub(crate) fn with_native_code(metadata: &Value) -> BTreeSet<String> {
    const CALL_COMPILERS: [&str; 3] = ["cc", "cmake", "autotools"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let name_of = |id: &Value| {
        let package = packages.iter().find(|package| package["id"] == *id)?;
        package["name"].as_str().map(str::to_owned)
    };
    let calls = |dependency: &Value| {
        list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] == "build")
            && name_of(&dependency["pkg"]).is_some_and(|name| CALL_COMPILERS.contains(&name.as_str()))
    };
    let nodes = list(&metadata["resolve"]["nodes"]);
    let calling = nodes.iter().filter(|node| list(&node["deps"]).iter().any(calls));
    calling.filter_map(|node| name_of(&node["id"])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_build_script_with_a_c_compiler_is_found() {
        let package = |name: &str| json!({"name": name, "id": name});
        let node = |name: &str, dependency: &str, kind: Value| json!({"id": name, "deps": [{"pkg": dependency, "dep_kinds": [{"kind": kind}]}]});
        let packages = ["ring", "tests", "generated", "cc", "x"].map(package);
        let nodes = [
            node("ring", "cc", json!("build")),
            node("tests", "cc", json!("dev")),
            node("generated", "x", json!("build")),
        ];
        let metadata = json!({"packages": packages, "resolve": {"nodes": nodes}});
        assert_eq!(with_native_code(&metadata), ["ring".to_owned()].into());
    }

    #[test]
    fn unknown_c_code_is_an_error() {
        let compile_c = ["libz-sys".to_owned(), "ring".to_owned()].into();
        assert_eq!(check(["ring", "serde"].into_iter(), &compile_c), Ok(()));
        let error = check(["ring", "libz-sys"].into_iter(), &compile_c).unwrap_err();
        assert!(error.starts_with("`libz-sys` compiles code that is not Rust: "), "{error}");
    }

    #[test]
    fn a_version_is_where_the_crate_states_it() {
        let identity = |name: &str, version: &str| {
            Bundled::of(name).next().unwrap().identity(version, Path::new("/nowhere"))
        };
        let expected = ("1.5.7".to_owned(), "pkg:github/facebook/zstd@v1.5.7".to_owned());
        assert_eq!(identity("zstd-sys", "2.1.3+zstd.1.5.7"), Ok(expected));
        assert!(identity("zstd-sys", "2.1.3").unwrap_err().contains("libzstd"));
        assert_eq!(identity("ring", "0.17.14").unwrap().0, "in ring 0.17.14");
        assert!(identity("libmimalloc-sys", "0.1.49").is_err());
        let header = "#define MI_MALLOC_VERSION 30302   // major + 2 digits minor\n";
        assert_eq!(in_header(header, "MI_MALLOC_VERSION").as_deref(), Some("3.3.2"));
        assert_eq!(in_header(header, "MI_VERSION"), None);
    }
}
