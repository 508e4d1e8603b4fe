//! `cargo xtask dist`: makes the archives of the command. An archive follows from a commit and the compilers: the same commit,
//! built in another directory at another time, gives the same bytes, which `--check` shows. Each command is tried as a user has it.

mod archive;
mod binary;
mod build;
mod cargo_home;
mod checkout;
mod contents;
mod environment;
mod options;
mod platform;
mod sbom;
mod site;
mod trial;

use std::path::Path;

use self::build::Habits;
use self::checkout::{Commit, absolute, is_changed};
use self::options::Options;
use self::platform::{Platform, native};
use self::sbom::sha256;
use self::site::{Made, Site};
use crate::disk;
use crate::venv::Skip;

/// Where sources are copied to and built.
const WORK: &str = "target/archives-build";

const SUMS: &str = "SHA256SUMS";

/// What nearly all users have, and what few have.
const USUAL: Habits = Habits { umask: "022", locale: "C", zone: "UTC0" };
const OTHERS: Habits = Habits { umask: "077", locale: "C.UTF-8", zone: "JST-9" };

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
    let site = Site { directory: work.join("a"), habits: USUAL };
    // Another commit may be made while these are built.
    let commit = Commit::head(root)?;
    let made = site.make(root, &commit, &options.platforms)?;
    if options.check {
        check(root, &commit, &options.platforms, &work, &made)?;
    }
    let new = work.join("new");
    disk::empty_directory(&new)?;
    made.iter().try_for_each(|(name, bytes)| disk::write_bytes(&new.join(name), bytes))?;
    try_all(&options, &site, &commit.name, &new, &made)?;
    disk::remove(&new)?;
    publish(&options.out, &made)
}

/// Tries the commands of the archives in `new`: the one of this machine, with `--check` all.
fn try_all(options: &Options, site: &Site, commit: &str, new: &Path, made: &Made) -> Result<(), String> {
    let native = native()?;
    for platform in options.platforms.iter().filter(|platform| options.check || ***platform == *native) {
        let suffix = format!("{}.tar.gz", platform.triple);
        for name in made.keys().filter(|name| name.ends_with(&suffix)) {
            let directory = site.directory.join("trial");
            match trial::try_archive(&new.join(name), platform, commit, &site.source(), &directory) {
                Ok(()) => println!("{name}: its command builds, verifies and explains a network"),
                Err(Skip::Skipped(reason)) => println!("{name}: not tried: {reason}"),
                Err(Skip::Failed(reason)) => return Err(reason),
            }
        }
    }
    Ok(())
}

/// Writes the files to `out`, each at once as a whole, and the digests of all archives and bills that are there then.
fn publish(out: &Path, made: &Made) -> Result<(), String> {
    for (name, bytes) in made {
        let (half, file) = (out.join(format!(".{name}.new")), out.join(name));
        disk::write_bytes(&half, bytes)?;
        disk::rename(&half, &file)?;
        println!("{} ({:.1} MB)", file.display(), bytes.len() as f64 / 1e6);
    }
    let mut all = Made::new();
    for name in disk::names(out)?.into_iter().filter(|name| is_published(name)) {
        let bytes = disk::bytes(out, &name)?;
        all.insert(name, bytes);
    }
    let file = out.join(SUMS);
    disk::write_bytes(&file, sums(&all).as_bytes())?;
    println!("{}", file.display());
    Ok(())
}

fn is_published(name: &str) -> bool {
    name.starts_with("opkeep-") && [".tar.gz", ".cdx.json"].iter().any(|end| name.ends_with(end))
}

/// Builds again, in another directory, from another copy of the packages, as a user with other habits, and compares. Validates the
/// bills of materials.
fn check(
    root: &Path,
    commit: &Commit,
    platforms: &[&Platform],
    work: &Path,
    made: &Made,
) -> Result<(), String> {
    let directory = work.join("a second place whose name is longer");
    disk::empty_directory(&directory)?;
    let again = Site { directory: directory.clone(), habits: OTHERS }.make(root, commit, platforms)?;
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
    fn sums_are_of_all_that_is_published() {
        let root = std::env::temp_dir().join(format!("opkeep-publish-{}", std::process::id()));
        let out = root.join("out");
        disk::write_bytes(&out.join("opkeep-1-arm.tar.gz"), b"abc").unwrap();
        disk::write_bytes(&out.join("notes.txt"), b"").unwrap();
        publish(&out, &made(&[("opkeep-1-x86.tar.gz", "")])).unwrap();
        let (names, text) = (disk::names(&out).unwrap(), disk::bytes(&out, SUMS).unwrap());
        disk::remove(&root).unwrap();
        assert_eq!(names, ["SHA256SUMS", "notes.txt", "opkeep-1-arm.tar.gz", "opkeep-1-x86.tar.gz"]);
        let text = String::from_utf8(text).unwrap();
        let named: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
        assert_eq!(named, ["opkeep-1-arm.tar.gz", "opkeep-1-x86.tar.gz"]);
    }
}
