//! `cargo xtask release VERSION`: sets the version in all places, and moves the changes below it. It commits nothing: the
//! changes are looked at, tested and committed like all others. `cargo xtask tidy` checks that all places agree.

mod changelog;
pub(crate) mod places;
mod version;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::{disk, published};
pub(crate) use changelog::CHANGELOG;
pub(crate) use changelog::findings as changelog_findings;
pub(crate) use places::{LOCK, MANIFEST, Place, concerns, places, workspace_version};
use version::Version;

const USAGE: &str = "usage: cargo xtask release VERSION, with three numbers such as 1.2.3";
/// The platform whose dependencies are looked up, to see that Cargo.lock is consistent.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The texts of files, by their paths.
type Texts = BTreeMap<String, String>;

pub(crate) fn release(args: &[String]) -> Result<(), String> {
    let [version] = args else { return Err(USAGE.to_owned()) };
    let version = Version::parse(version).ok_or(USAGE)?;
    let metadata = disk::metadata()?;
    let root = metadata["workspace_root"].as_str().ok_or("`cargo metadata` names no workspace root")?;
    let root = Path::new(root);
    let status = disk::output("git", &["status", "--porcelain"], Some(root))?;
    let status = String::from_utf8_lossy(&status);
    if !status.trim().is_empty() {
        return Err(format!("there are changes that are not committed; commit or remove them:\n{status}"));
    }
    let date = disk::output("date", &["--utc", "+%F"], None)?;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    let changed = released(&texts(root)?, version, &date)?;
    for (path, text) in &changed {
        disk::write(&root.join(path), text)?;
        println!("changed {path}");
    }
    disk::resolved(PLATFORM).map_err(|error| format!("`{LOCK}` and the manifests do not agree: {error}"))?;
    println!("{}", next_steps(&metadata, version));
    Ok(())
}

/// The texts in which a version may be.
fn texts(root: &Path) -> Result<Texts, String> {
    let paths = disk::files(root)?.into_iter().filter(|path| concerns(path) || path == CHANGELOG);
    let read = |path: String| match disk::bytes(root, &path) {
        // What is no text names no version, and must not change.
        Ok(bytes) => Some(Ok((path, String::from_utf8(bytes).ok()?))),
        Err(error) => Some(Err(error)),
    };
    paths.filter_map(read).collect()
}

/// The texts that change with a release.
fn released(texts: &Texts, version: Version, date: &str) -> Result<Texts, String> {
    let text = |path: &str| texts.get(path).ok_or_else(|| format!("there is no `{path}`"));
    let now = workspace_version(text(MANIFEST)?)?;
    let current = Version::parse(&now).ok_or_else(|| format!("`{MANIFEST}` has the version `{now}`"))?;
    if version <= current {
        return Err(format!("{version} is not greater than the present version, {current}"));
    }
    let mut changed = Texts::new();
    for (path, text) in texts {
        let mut new = text.clone();
        // From the last one on, so that the ranges stay right.
        for place in places(path, text)?.iter().rev() {
            if place.version != now {
                let Place { line, version, .. } = place;
                return Err(format!("`{path}`, line {line}: the version is {version}, expected {now}"));
            }
            new.replace_range(place.range.clone(), &version.to_string());
        }
        if new != *text {
            changed.insert(path.clone(), new);
        }
    }
    changed.insert(CHANGELOG.to_owned(), changelog::released(text(CHANGELOG)?, version, date)?);
    Ok(changed)
}

/// What is to do after the files were changed.
fn next_steps(metadata: &Value, version: Version) -> String {
    let packages: String = published::in_order(metadata)
        .chunks(5)
        .map(|names| {
            format!(" \\\n     {}", names.iter().map(|name| format!(" -p {name}")).collect::<String>())
        })
        .collect();
    format!(
        "\nThe version is {version}. Nothing is committed. Next:\n\
         \x20 1. git diff; cargo xtask ci; cargo xtask package\n\
         \x20 2. git commit --all --message 'release: {version}'; git tag --annotate v{version}\n\
         \x20 3. cargo xtask dist; cargo xtask deb\n\
         \x20 4. each crate after those that it requires:\n     cargo publish{packages}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    /// The repository's own texts, with a change to release.
    fn with_a_change() -> Texts {
        let mut texts = texts(root()).unwrap();
        let changes = texts.get_mut(CHANGELOG).unwrap();
        *changes = changes.replacen("## Unreleased\n", "## Unreleased\n\n- A change.\n", 1);
        texts
    }

    fn greater(texts: &Texts) -> Version {
        Version::parse(&workspace_version(&texts[MANIFEST]).unwrap()).unwrap().next_major()
    }

    #[test]
    fn a_release_changes_the_version_everywhere_and_once() {
        let mut texts = with_a_change();
        let version = greater(&texts);
        let changed = released(&texts, version, "2030-01-02").unwrap();
        for path in [CHANGELOG, LOCK, MANIFEST, "docs/container/Containerfile", "docs/install.md"] {
            assert!(changed.contains_key(path), "{path}");
        }
        assert!(
            changed[CHANGELOG]
                .contains(&format!("## Unreleased\n\n## {version} (2030-01-02)\n\n- A change.\n"))
        );
        texts.extend(changed);
        let mut count = 0;
        for (path, text) in &texts {
            for place in places(path, text).unwrap() {
                assert_eq!(place.version, version.to_string(), "{path}:{}", place.line);
                count += 1;
            }
        }
        // Each crate is at least in Cargo.lock, and most are in the manifest.
        assert!(count > 50, "{count}");
        assert_eq!(changelog_findings(&texts[CHANGELOG], &version.to_string()), []);

        let refused = released(&texts, version, "2030-01-02").unwrap_err();
        assert_eq!(refused, format!("{version} is not greater than the present version, {version}"));
        let empty = released(&texts, version.next_major(), "2030-01-02").unwrap_err();
        assert!(empty.contains("no change"), "{empty}");
    }

    #[test]
    fn places_that_differ_are_refused() {
        let mut texts = with_a_change();
        let version = greater(&texts);
        let now = workspace_version(&texts[MANIFEST]).unwrap();
        let lock = texts.get_mut(LOCK).unwrap();
        let name = "name = \"opkeep-cli\"\nversion = ";
        assert!(lock.contains(name));
        *lock = lock.replace(&format!("{name}\"{now}\""), &format!("{name}\"0.0.1\""));
        let refused = released(&texts, version, "2030-01-02").unwrap_err();
        assert!(refused.starts_with("`Cargo.lock`, line ") && refused.ends_with(&now), "{refused}");
    }

    #[test]
    fn what_comes_next_names_each_crate() {
        let metadata = disk::metadata().unwrap();
        let steps = next_steps(&metadata, Version::parse("1.2.3").unwrap());
        assert!(steps.contains("'release: 1.2.3'") && steps.contains("v1.2.3"), "{steps}");
        let places = published::published(&metadata);
        let at = |name: &str| steps.find(&format!(" -p {name}")).unwrap_or_else(|| panic!("{name}: {steps}"));
        places.iter().for_each(|package| {
            at(package["name"].as_str().unwrap());
        });
        assert!(at("opkeep-digest") < at("opkeep-store") && at("opkeep-store") < at("opkeep-cli"), "{steps}");
    }

    #[test]
    fn arguments_are_checked() {
        for args in [&[][..], &["1.2"], &["v1.2.3"], &["1.2.3-rc.1"], &["1.2.3", "1.2.4"]] {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(release(&args).unwrap_err(), USAGE);
        }
    }
}
