//! `cargo xtask dist`: makes the archives of the command. An archive follows from a commit and the compilers: the same commit,
//! built in another directory at another time, gives the same bytes, which `--check` shows. Each command is tried as a user has it.

mod archive;
mod binary;
mod build;
mod checkout;
mod contents;
mod options;
mod platform;
mod sbom;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::build::{Compilers, Places, kept, named_in};
use self::checkout::{Checkout, Commit, absolute, is_changed};
use self::options::Options;
use self::platform::{Platform, native};
use self::sbom::{Libraries, Subject, sha256};
use crate::disk;
use crate::venv::Skip;

/// Where sources are copied to and built.
const WORK: &str = "target/archives-build";

const SUMS: &str = "SHA256SUMS";

/// The files that are made, by name.
type Made = BTreeMap<String, Vec<u8>>;

pub(crate) fn dist(args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    // The binary of this machine writes the man pages.
    for platform in options.platforms.iter().copied().chain([native()?]) {
        platform.check_installed()?;
        platform.c_compiler()?;
    }
    let root = Path::new(".");
    if is_changed(root)? {
        println!("the archives are of the last commit; what is not committed is not in them");
    }
    let work = absolute(Path::new(WORK))?;
    let first = Site { directory: work.join("a"), cargo_home: cargo_home()? };
    let made = make(root, &options.platforms, &first)?;
    if options.check {
        check(root, &options.platforms, &work, &made)?;
    }
    for (name, bytes) in &made {
        disk::write_bytes(&options.out.join(name), bytes)?;
        println!("{} ({:.1} MB)", options.out.join(name).display(), bytes.len() as f64 / 1e6);
    }
    disk::write_bytes(&options.out.join(SUMS), sums(&made).as_bytes())?;
    println!("{}", options.out.join(SUMS).display());
    try_all(&options, &first.directory, &made)
}

/// Tries the commands of the archives: the one of this machine, with `--check` all.
fn try_all(options: &Options, site: &Path, made: &Made) -> Result<(), String> {
    let native = native()?;
    for platform in options.platforms.iter().filter(|platform| options.check || ***platform == *native) {
        let suffix = format!("{}.tar.gz", platform.triple);
        for name in made.keys().filter(|name| name.ends_with(&suffix)) {
            let archive = options.out.join(name);
            match trial::try_archive(&archive, platform, &site.join("source"), &site.join("trial")) {
                Ok(()) => println!("{name}: its command builds, verifies and explains a network"),
                Err(Skip::Skipped(reason)) => println!("{name}: not tried: {reason}"),
                Err(Skip::Failed(reason)) => return Err(reason),
            }
        }
    }
    Ok(())
}

/// A place to build at.
struct Site {
    directory: PathBuf,
    cargo_home: PathBuf,
}

/// Makes the archives and bills of materials of the present commit.
fn make(root: &Path, platforms: &[&Platform], site: &Site) -> Result<Made, String> {
    let commit = Commit::head(root)?;
    let checkout = Checkout::new(root, &site.directory.join("source"))?;
    let sysroot = disk::output("rustc", &["--print", "sysroot"], None)?;
    let places = Places {
        source: checkout.root.clone(),
        target: site.directory.join("target"),
        cargo_home: site.cargo_home.clone(),
        sysroot: PathBuf::from(String::from_utf8_lossy(&sysroot).trim()),
    };
    let native = native()?;
    let program = build::build(&places, native, &Compilers::of(native)?)?.0;
    let common = contents::common(&places.source, &program, &site.directory.join("man"))?;
    let mut made = Made::new();
    for platform in platforms {
        let (binary, bill) = binary_and_bill(platform, &places, &commit, &checkout.version)?;
        let name = format!("opkeep-{}-{}", checkout.version, platform.triple);
        made.insert(format!("{name}.cdx.json"), bill.clone().into_bytes());
        let files = contents::with_binary(&common, binary, bill);
        let archive = archive::archive(&name, &files, commit.seconds);
        let archive = archive.map_err(|error| format!("`{name}.tar.gz`: {error}"))?;
        made.insert(format!("{name}.tar.gz"), archive);
    }
    Ok(made)
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
    let home = kept().into_iter().find(|(name, _)| *name == "HOME").map(|(_, value)| value);
    let named = named_in(&bytes, places, home.as_deref());
    if !named.is_empty() {
        let named: Vec<String> = named.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(format!("{triple}: the binary names {} of this machine", named.join(", ")));
    }
    let graph = sbom::linked(&places.source, triple)?;
    compare(&graph.keys().cloned().collect(), &sbom::compiled(&messages, triple)?)?;
    let lock = disk::bytes(&places.source, "Cargo.lock")?;
    let compile_c = sbom::with_native_code(&disk::resolved(triple)?);
    let tools = [("rustc".to_owned(), compilers.rust.release.clone()), compilers.c.clone()];
    let (binary, commit, time) = (bytes.as_slice(), commit.name.as_str(), commit.time.as_str());
    let bill = sbom::bill(
        &Subject { version, triple, commit, time, binary, tools: &tools },
        &graph,
        &sbom::checksums(&String::from_utf8_lossy(&lock))?,
        &compile_c,
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

/// Builds again, in another directory and from another copy of the packages, and compares. Validates the bills of materials.
fn check(root: &Path, platforms: &[&Platform], work: &Path, made: &Made) -> Result<(), String> {
    let directory = work.join("a second place whose name is longer");
    let cargo_home = directory.join("cargo-home");
    disk::empty_directory(&directory)?;
    disk::empty_directory(&cargo_home.join("registry"))?;
    for name in ["registry/cache", "registry/index", "config.toml"] {
        let from = self::cargo_home()?.join(name);
        if from.exists() {
            disk::copy(&from, &cargo_home.join(name))?;
        }
    }
    let again = make(root, platforms, &Site { directory: directory.clone(), cargo_home })?;
    differences(made, &again)?;
    println!("built twice: all archives are equal");
    for (name, bytes) in made.iter().filter(|(name, _)| name.ends_with(".json")) {
        match sbom::validate(&String::from_utf8_lossy(bytes), &directory) {
            Ok(()) => println!("{name}: valid CycloneDX"),
            Err(Skip::Skipped(reason)) => println!("{name}: not validated: {reason}"),
            Err(Skip::Failed(reason)) => return Err(format!("{name}: {reason}")),
        }
    }
    disk::remove(&directory)
}

/// Fails unless both builds gave the same.
fn differences(one: &Made, other: &Made) -> Result<(), String> {
    let differ = |(name, bytes): (&String, &Vec<u8>)| {
        let again = other.get(name).map_or("nothing".to_owned(), |bytes| sha256(bytes));
        let first = sha256(bytes);
        (first != again).then(|| format!("{name}: {first}, then {again}"))
    };
    let differ: Vec<String> = one.iter().filter_map(differ).collect();
    match differ.is_empty() && one.len() == other.len() {
        true => Ok(()),
        false => Err(format!("two builds of one commit differ:\n{}", differ.join("\n"))),
    }
}

/// Returns the digests of files, as `sha256sum --check` reads them.
fn sums(made: &Made) -> String {
    made.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect()
}

/// Returns cargo's own directory.
fn cargo_home() -> Result<PathBuf, String> {
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    variable("CARGO_HOME")
        .or_else(|| Some(variable("HOME")?.join(".cargo")))
        .ok_or_else(|| "neither `CARGO_HOME` nor `HOME` is set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[(&str, &str)]) -> Made {
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn sums_are_those_of_sha256sum() {
        let sums = sums(&made(&[("b.tar.gz", ""), ("a.tar.gz", "abc")]));
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.tar.gz\n\
            e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b.tar.gz\n";
        assert_eq!(sums, expected);
    }

    #[test]
    fn another_byte_is_a_difference() {
        let first = made(&[("a", "1"), ("b", "2")]);
        assert_eq!(differences(&first, &first), Ok(()));
        let error = differences(&first, &made(&[("a", "1"), ("b", "3")])).unwrap_err();
        assert!(error.contains("\nb: ") && !error.contains("\na: "), "{error}");
        assert!(differences(&first, &made(&[("a", "1")])).unwrap_err().contains("then nothing"));
        assert!(differences(&made(&[("a", "1")]), &first).is_err());
    }

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
