//! `cargo xtask package`: makes the package of each published crate, and looks into it.
//!
//! Cargo compiles each package by itself, with the packages that it depends on in place of a registry. That takes minutes, so
//! `ci` runs the form `--no-verify`, which compiles nothing and needs no network.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::{disk, published};

const USAGE: &str = "usage: cargo xtask package [--no-verify]";

/// The files that each package has, beside those of its `src` directory.
const IN_EACH: [&str; 5] = ["Cargo.toml", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// A crate with programs has also the licences of what is linked.
const WITH_PROGRAMS: &str = "THIRD-PARTY.md";
/// The directories that stay in the repository.
const LEFT_OUT: [&str; 2] = ["benches/", "tests/"];
/// The largest compressed size. A registry takes ten times as much; a package beyond this has data in it.
const MAX_BYTES: usize = 1 << 20;

pub(crate) fn package(args: &[String]) -> Result<(), String> {
    let verify = match args {
        [] => true,
        [flag] if flag == "--no-verify" => false,
        [other, ..] => return Err(format!("found `{other}`\n{USAGE}")),
    };
    let begin = Instant::now();
    let metadata = disk::metadata()?;
    let crates: Vec<Packed> = published::published(&metadata)
        .into_iter()
        .map(|package| Packed::of(&metadata, package))
        .collect::<Result<_, _>>()?;
    let mut cargo = crate::cargo::cargo();
    // The changes of a working tree are packaged, too, so that a change can be tried before it is committed.
    cargo.args(["package", "--quiet", "--allow-dirty"]);
    if !verify {
        cargo.args(["--no-verify", "--offline"]);
    }
    crates.iter().for_each(|packed| {
        cargo.args(["--package", &packed.name]);
    });
    let status = cargo.status().map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err(format!("`cargo package` ended with {status}"));
    }

    let target = Path::new(metadata["target_directory"].as_str().unwrap_or("target")).join("package");
    let sources = disk::files(Path::new(metadata["workspace_root"].as_str().unwrap_or(".")))?;
    let mut problems = Vec::new();
    for packed in &crates {
        let file = format!("{}-{}.crate", packed.name, packed.version);
        let bytes = disk::bytes(&target, &file)?;
        let list = disk::output("tar", &["-tzf", &file], Some(&target))?;
        let prefix = format!("{}-{}/", packed.name, packed.version);
        let list = String::from_utf8_lossy(&list);
        let files: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        println!("{:24} {:4} files {:7.1} KiB", packed.name, files.len(), bytes.len() as f64 / 1024.0);
        let found = packed.problems(&files, &sources, bytes.len());
        problems.extend(found.into_iter().map(|problem| format!("{file}: {problem}")));
    }
    let how = if verify { "each compiled by itself" } else { "not compiled" };
    println!("package: {} packages, {how}, in {:.1} s", crates.len(), begin.elapsed().as_secs_f64());
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}

/// A crate, of which there is a package.
struct Packed {
    name: String,
    version: String,
    /// Relative to the workspace.
    directory: String,
    has_programs: bool,
}

impl Packed {
    fn of(metadata: &Value, package: &Value) -> Result<Self, String> {
        let text = |key: &str| {
            package[key].as_str().map(str::to_owned).ok_or_else(|| format!("`cargo metadata` has no `{key}`"))
        };
        let targets = package["targets"].as_array().into_iter().flatten();
        Ok(Self {
            name: text("name")?,
            version: text("version")?,
            directory: published::directory(metadata, package),
            has_programs: targets.clone().any(|target| target["kind"][0] == "bin"),
        })
    }

    /// What is wrong with a package of these files and this size. `sources` has the files of the repository.
    fn problems(&self, files: &BTreeSet<&str>, sources: &[String], bytes: usize) -> Vec<String> {
        let source = format!("{}/", self.directory);
        let of_source = sources.iter().filter_map(|path| path.strip_prefix(&source));
        let mut wanted: BTreeSet<&str> = of_source.filter(|path| path.starts_with("src/")).collect();
        wanted.extend(IN_EACH);
        wanted.extend(self.has_programs.then_some(WITH_PROGRAMS));
        let missing = wanted.difference(files).map(|path| format!("`{path}` is missing"));
        let needless =
            files.iter().filter(|path| LEFT_OUT.iter().any(|directory| path.starts_with(directory)));
        let needless = needless.map(|path| format!("`{path}` stays in the repository"));
        let large = (bytes > MAX_BYTES).then(|| format!("{bytes} bytes, more than {MAX_BYTES}"));
        missing.chain(needless).chain(large).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_and_a_large_package_are_found() {
        let sources =
            ["crates/a/src/lib.rs", "crates/a/src/x.c", "crates/a/tests/y.rs", "crates/b/src/lib.rs"];
        let sources = sources.map(str::to_owned);
        let full =
            || [&IN_EACH[..], &["src/lib.rs", "src/x.c"]].concat().into_iter().collect::<BTreeSet<_>>();
        let library = || Packed {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            directory: "crates/a".to_owned(),
            has_programs: false,
        };
        assert_eq!(library().problems(&full(), &sources, MAX_BYTES), [""; 0]);
        for file in full() {
            let mut files = full();
            files.remove(file);
            assert_eq!(library().problems(&files, &sources, 1), [format!("`{file}` is missing")]);
        }
        let program = Packed { has_programs: true, ..library() };
        assert_eq!(program.problems(&full(), &sources, 1), ["`THIRD-PARTY.md` is missing"]);
        let mut files = full();
        files.insert("tests/y.rs");
        assert_eq!(library().problems(&files, &sources, 1), ["`tests/y.rs` stays in the repository"]);
        assert_eq!(
            library().problems(&full(), &sources, MAX_BYTES + 1),
            ["1048577 bytes, more than 1048576"]
        );
    }

    #[test]
    fn arguments_are_checked() {
        assert!(package(&["--verify".to_owned()]).unwrap_err().contains(USAGE));
    }
}
