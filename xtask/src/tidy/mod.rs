//! Checks that no lint does. Every finding is printed, then the task fails; no file is changed.

mod arrows;
mod attributes;
mod container;
mod counts;
mod disk_access;
mod features;
mod finding;
mod fork_safety;
mod hints;
mod manifest;
mod modules;
mod package;
mod profiles;
mod promises;
mod quoting;
mod rust;
mod source;
mod suite;
mod tree;
mod versions;
mod words;

use std::collections::BTreeMap;
use std::path::Path;

use crate::disk;
use crate::task::no_arguments;

pub(crate) fn tidy(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    let metadata = disk::metadata()?;
    let root = metadata["workspace_root"].as_str().ok_or("`cargo metadata` names no workspace root")?;
    let root = Path::new(root);
    let mut packages = arrows::packages(&metadata)?;
    for package in &mut packages {
        package.text = String::from_utf8_lossy(&disk::bytes(root, &package.manifest)?).into_owned();
    }
    let files = disk::files(root)?;

    let mut findings = tree::top_level(&disk::top_level(&files));
    let architecture = disk::text_if_exists(root, arrows::DOCUMENT)?.unwrap_or_default();
    findings.extend(arrows::check(&architecture, &packages));
    for package in &packages {
        findings.extend(manifest::check(&package.manifest, &package.text));
        if let Some(dir) =
            package.manifest.strip_suffix("/Cargo.toml").filter(|dir| dir.starts_with("crates/"))
        {
            let readme = disk::text_if_exists(root, &format!("{dir}/README.md"))?;
            findings.extend(tree::readme(
                dir,
                readme.as_deref(),
                "state there what the crate is, and what it is not",
            ));
        }
    }
    for directory in tree::fixture_directories(&files) {
        let readme = disk::text_if_exists(root, &format!("{directory}/README.md"))?;
        findings.extend(tree::readme(&directory, readme.as_deref(), "state there where the files came from"));
    }
    let published = package::Published::of(&metadata);
    for name in package::LICENCES {
        let of_root = disk::text_if_exists(root, name)?.unwrap_or_default();
        for directory in published.directories() {
            let own = disk::text_if_exists(root, &format!("{directory}/{name}"))?;
            findings.extend(package::licence(directory, name, own.as_deref(), &of_root));
        }
    }
    let manifests: BTreeMap<String, String> =
        packages.iter().map(|package| (package.manifest.clone(), package.text.clone())).collect();
    findings.extend(published.cycles(&manifests));
    let mut sources = promises::Sources::new();
    for path in &files {
        let bytes = disk::bytes(root, path)?;
        findings.extend(tree::home_paths(path, &bytes));
        if words::concerns(path) {
            findings.extend(words::check(path, &String::from_utf8_lossy(&bytes)));
        }
        if source::concerns(path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            findings.extend(source::check(path, &text));
            findings.extend(disk_access::check(path, &text));
            findings.extend(published.includes(path, &text));
            if counts::concerns(path) {
                findings.extend(counts::check(path, &text));
            }
            findings.extend(fork_safety::check(path, &text));
            findings.extend(quoting::check(path, &text));
            sources.insert(path.clone(), text);
        }
    }
    findings.extend(suite::check(&sources));
    findings.extend(modules::check(&sources));
    findings.extend(hints::check(&sources));
    findings.extend(features::findings(root)?);
    findings.extend(versions::findings(root, &files)?);
    let text = |path| disk::text_if_exists(root, path);
    findings.extend(container::check(
        text(container::IGNORE)?.as_deref(),
        text(container::CONTAINERFILE)?.as_deref(),
    ));
    findings.extend(profiles::check(&disk::text_if_exists(root, "Cargo.toml")?.unwrap_or_default()));
    for path in files.iter().filter(|path| promises::concerns(path)) {
        let text = disk::text_if_exists(root, path)?.unwrap_or_default();
        findings.extend(promises::check(path, &text, &sources));
    }

    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: no findings in {} members and {} files", packages.len(), files.len());
            Ok(())
        }
        1 => Err("1 finding, above".to_owned()),
        many => Err(format!("{many} findings, above")),
    }
}
