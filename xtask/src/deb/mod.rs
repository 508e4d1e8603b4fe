//! `cargo xtask deb`: the Debian package of the command, by cargo-deb, which it first builds below `target/tools`. The same
//! commit gives the same bytes. `[package.metadata.deb]` of the command's manifest says what is in it.

mod check;
mod notes;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::task::run;
use crate::{disk, install_size};

const USAGE: &str = "usage: cargo xtask deb [--maintainer 'NAME <ADDRESS>']";

/// The maintainer of a package for this host only: an address of this domain belongs to no host.
const NO_MAINTAINER: &str = "opkeep maintainers <maintainers@opkeep.invalid>";

const CARGO_DEB: &str = "3.8.0";
const CRATE: &str = "opkeep-cli";
/// What is made for the package; `[package.metadata.deb]` names it.
const PARTS: &str = "target/deb";
const PACKAGES: &str = "target/debian";

/// The completions of each shell, where Debian's shells look for them; `[package.metadata.deb]` has the directories.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "opkeep"), ("zsh", "_opkeep"), ("fish", "opkeep.fish")];

pub(crate) fn deb(args: &[String]) -> Result<(), String> {
    let maintainer = match args {
        [] => None,
        [flag, maintainer] if flag == "--maintainer" => Some(maintainer.as_str()),
        [other, ..] => return Err(format!("found `{other}`\n{USAGE}")),
    };
    let begin = Instant::now();
    let metadata = disk::metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut packages = packages.filter(|package| package["name"] == CRATE);
    let package = packages.next().ok_or_else(|| format!("there is no `{CRATE}`"))?;
    let version = package["version"].as_str().ok_or_else(|| format!("`{CRATE}` has no version"))?;
    let author = package["authors"][0].as_str();
    let maintainer = maintainer.or(author).unwrap_or_else(|| {
        println!(
            "deb: no maintainer is set, so the package is for this host only: the first of `authors` in \
             [workspace.package] of Cargo.toml is the maintainer, or --maintainer 'NAME <ADDRESS>'"
        );
        NO_MAINTAINER
    });
    let seconds = commit_time()?;

    let cargo_deb = tool()?;
    let mut build = crate::cargo::cargo();
    run(build.args(["build", "--release", "--locked", "--package", CRATE]))?;
    let program = Path::new(metadata["target_directory"].as_str().unwrap_or("target")).join("release/opkeep");
    install_size::check(&program)?;

    parts(&program)?;
    let parts = Path::new(PARTS);
    let third_party = disk::text_if_exists(Path::new("."), "THIRD-PARTY.md")?.unwrap_or_default();
    let mit = disk::text_if_exists(Path::new("."), "LICENSE-MIT")?.unwrap_or_default();
    disk::write(&parts.join("copyright"), &notes::copyright(&mit, &third_party))?;
    let date = disk::output("date", &["--utc", "--rfc-email", &format!("--date=@{seconds}")], None)?;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    disk::write(&parts.join("changelog"), &notes::changelog(version, maintainer, &date))?;

    let mut package = Command::new(cargo_deb);
    crate::cargo::without_package(&mut package);
    // Quiet, since it warns of each path with `target` in it.
    package.args(["--no-build", "--quiet", "--locked", "--package", CRATE, "--output", PACKAGES]);
    package.args(["--maintainer", maintainer]);
    run(package.env("SOURCE_DATE_EPOCH", seconds.to_string()))?;
    let file = Path::new(PACKAGES).join(format!("opkeep_{version}-1_{}.deb", architecture()?));
    check::check(&file, version)?;
    println!("deb: {} in {:.0} s", file.display(), begin.elapsed().as_secs_f64());
    Ok(())
}

/// The time of the present commit, in seconds since 1970.
fn commit_time() -> Result<u64, String> {
    let time = disk::output("git", &["log", "-1", "--format=%ct"], None)?;
    let time = String::from_utf8_lossy(&time);
    time.trim().parse().map_err(|error| format!("`git log` printed `{}`: {error}", time.trim()))
}

fn architecture() -> Result<String, String> {
    let name = disk::output("dpkg", &["--print-architecture"], None)?;
    Ok(String::from_utf8_lossy(&name).trim().to_owned())
}

/// Builds cargo-deb, unless an earlier run did. Returns its path.
fn tool() -> Result<PathBuf, String> {
    let root = Path::new("target/tools").join(format!("cargo-deb-{CARGO_DEB}"));
    let program = root.join("bin/cargo-deb");
    // Cargo renames the program to this place when it is complete.
    if !program.exists() {
        println!("==> cargo install cargo-deb {CARGO_DEB}");
        let mut install = crate::cargo::cargo();
        install.args(["install", "--quiet", "--locked", "cargo-deb", "--version", CARGO_DEB, "--root"]);
        run(install.arg(&root))?;
    }
    Ok(program)
}

/// Writes the man pages and the completions.
fn parts(program: &Path) -> Result<(), String> {
    let parts = Path::new(PARTS);
    disk::empty_directory(parts)?;
    let program = program.to_string_lossy();
    disk::output(&program, &["man", &parts.join("man").to_string_lossy()], None)?;
    for (shell, name) in COMPLETIONS {
        let script = disk::output(&program, &["completions", shell], None)?;
        disk::write_bytes(&parts.join("completions").join(shell).join(name), &script)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_what_is_made() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let manifest = disk::text_if_exists(root, "crates/cli/Cargo.toml").unwrap().unwrap();
        let workspace = disk::text_if_exists(root, "Cargo.toml").unwrap().unwrap();
        for (shell, name) in COMPLETIONS {
            let source = format!("\"../../{PARTS}/completions/{shell}/{name}\"");
            assert!(manifest.contains(&source), "{source}");
        }
        // The one place is `authors` of the workspace.
        assert!(!manifest.contains("maintainer = "), "the package names a maintainer of its own");
        assert!(manifest.contains("authors.workspace = true") == workspace.contains("\nauthors = "));
        for part in ["man/*.1", "copyright", "changelog"] {
            assert!(manifest.contains(&format!("\"../../{PARTS}/{part}\"")), "{part}");
        }
    }

    #[test]
    fn arguments_are_checked() {
        assert!(deb(&["--install".to_owned()]).unwrap_err().contains(USAGE));
    }
}
