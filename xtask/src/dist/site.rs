//! Building all that is published of a commit, in one place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::build::{self, Compilers, Habits, Places, cargo_in, named_in};
use super::checkout::{Checkout, Commit};
use super::environment::variable;
use super::platform::{Platform, native};
use super::sbom::{self, Libraries, Subject};
use super::{archive, binary, cargo_home, contents};
use crate::disk;

/// The files that are made, by name.
pub(super) type Made = BTreeMap<String, Vec<u8>>;

/// A place to build at.
pub(super) struct Site {
    pub(super) directory: PathBuf,
    pub(super) habits: Habits,
}

impl Site {
    /// The copy of the sources.
    pub(super) fn source(&self) -> PathBuf {
        self.directory.join("source")
    }

    /// Makes the archives and bills of materials of a commit.
    pub(super) fn make(&self, root: &Path, commit: &Commit, platforms: &[&Platform]) -> Result<Made, String> {
        let checkout = Checkout::new(root, commit, &self.source())?;
        cargo_home::check_above(&checkout.root)?;
        let places = self.places(&checkout.root)?;
        let native = native()?;
        let program = build::build(&places, native, &Compilers::of(native)?)?.0;
        let common = contents::common(&places.source, &program, &self.directory.join("man"))?;
        let mut made = Made::new();
        for platform in platforms {
            let (binary, bill) = binary_and_bill(platform, &places, commit, &checkout.version)?;
            let name = format!("opkeep-{}-{}", checkout.version, platform.triple);
            made.insert(format!("{name}.cdx.json"), bill.clone().into_bytes());
            let files = contents::with_binary(&common, binary, bill);
            let archive = archive::archive(&name, &files, commit.seconds);
            let archive = archive.map_err(|error| format!("`{name}.tar.gz`: {error}"))?;
            made.insert(format!("{name}.tar.gz"), archive);
        }
        Ok(made)
    }

    fn places(&self, source: &Path) -> Result<Places, String> {
        let sysroot = disk::output("rustc", &["--print", "sysroot"], None)?;
        let places = Places {
            source: source.to_owned(),
            target: self.directory.join("target"),
            cargo_home: self.directory.join("cargo-home"),
            home: self.directory.join("home"),
            sysroot: PathBuf::from(String::from_utf8_lossy(&sysroot).trim()),
            habits: self.habits,
        };
        disk::create_directory(&places.home)?;
        cargo_home::prepare(&cargo_home::of_user()?, &places.cargo_home)?;
        Ok(places)
    }
}

/// Builds the command for a platform, checks the binary, and lists what is in it.
fn binary_and_bill(
    platform: &Platform,
    places: &Places,
    commit: &Commit,
    version: &str,
) -> Result<(Vec<u8>, String), String> {
    let triple = platform.triple;
    let compilers = Compilers::of(platform)?;
    let (path, messages) = build::build(places, platform, &compilers)?;
    let bytes = disk::bytes(Path::new(""), &path.to_string_lossy())?;
    binary::check(&path, platform)?;
    let named = named_in(&bytes, places, variable("HOME").as_deref());
    if !named.is_empty() {
        let named: Vec<String> = named.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(format!("{triple}: the binary names {} of this machine", named.join(", ")));
    }
    let graph = sbom::parse(&disk::printed(cargo_in(places).args(sbom::tree_arguments(triple)))?)?;
    compare(&graph.keys().cloned().collect(), &sbom::compiled(&messages, triple)?)?;
    let lock = disk::bytes(&places.source, "Cargo.lock")?;
    let metadata = disk::resolved_by(cargo_in(places), triple)?;
    let tools = [("rustc".to_owned(), compilers.rust.release.clone()), compilers.c.clone()];
    let c_headers = compilers.c_headers.as_str();
    let (binary, commit, time) = (bytes.as_slice(), commit.name.as_str(), commit.time.as_str());
    let bill = sbom::bill(
        &Subject { version, triple, commit, time, binary, tools: &tools, c_headers },
        &graph,
        &sbom::checksums(&String::from_utf8_lossy(&lock))?,
        &metadata,
        &libraries(platform, places, &compilers)?,
    )?;
    Ok((bytes, bill))
}

/// Fails unless the crates of a bill of materials are those that were compiled.
fn compare(listed: &BTreeSet<(String, String)>, compiled: &BTreeSet<(String, String)>) -> Result<(), String> {
    let differ: Vec<String> =
        listed.symmetric_difference(compiled).map(|(name, version)| format!("{name} {version}")).collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "`cargo tree` and the build differ in {}: a bill of materials would not have what is linked",
            differ.join(", ")
        )),
    }
}

fn libraries(platform: &Platform, places: &Places, compilers: &Compilers) -> Result<Libraries, String> {
    let library = format!("lib/rustlib/{}/lib/self-contained/libc.a", platform.triple);
    let musl = sbom::musl_version(&disk::bytes(&places.sysroot, &library)?)
        .ok_or_else(|| format!("`{library}` of the Rust toolchain does not state one version of musl"))?;
    let build::RustVersion { release, commit, llvm } = compilers.rust.clone();
    Ok(Libraries { rust: release, rust_commit: commit, llvm, musl })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_not_listed_is_an_error() {
        let ids = |names: &[&str]| -> BTreeSet<_> {
            names.iter().map(|name| ((*name).to_owned(), "1.0.0".to_owned())).collect()
        };
        assert_eq!(compare(&ids(&["a"]), &ids(&["a"])), Ok(()));
        assert!(compare(&ids(&["a"]), &ids(&["a", "b"])).unwrap_err().contains("b 1.0.0"));
        assert!(compare(&ids(&["a", "c"]), &ids(&["a"])).unwrap_err().contains("c 1.0.0"));
    }
}
