//! mdBook, which builds the pages, and the links of what it built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::links::{is_external, resolved};
use super::page::attributes;
use crate::disk;

/// Another version is installed beside it.
const VERSION: &str = "0.5.4";
const SOURCES: &str = "target/docs/sources";
pub(super) const BOOK: &str = "target/book";

/// The directory of the installation.
fn tools() -> String {
    format!("target/tools/mdbook-{VERSION}")
}

fn program() -> String {
    format!("{}/bin/mdbook", tools())
}

pub(super) fn is_installed() -> bool {
    Path::new(&program()).is_file()
}

/// Builds mdBook from its sources, unless an earlier run did. Without optimization, which takes a third of the time: the book is
/// small.
pub(super) fn install() -> Result<(), String> {
    if is_installed() {
        return Ok(());
    }
    println!("building mdBook {VERSION}, which takes a minute or two; it stays in {}", tools());
    let version = format!("mdbook@{VERSION}");
    let mut cargo = crate::cargo::cargo();
    cargo.args(["install", &version, "--locked", "--no-default-features", "--features", "search", "--debug"]);
    cargo.args(["--root", &tools(), "--target-dir", "target/docs/mdbook"]);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0").env_remove("RUSTC_WRAPPER");
    let built = cargo.output().map_err(|error| format!("cargo did not start: {error}"))?;
    if !built.status.success() {
        let log = String::from_utf8_lossy(&built.stderr).into_owned();
        return Err(format!("mdBook was not built: {}\n{log}", built.status));
    }
    disk::remove(Path::new("target/docs/mdbook"))
}

/// Builds the book of the sources. Its warnings are errors.
pub(super) fn build(sources: &super::book::Sources, settings: &str) -> Result<(), String> {
    let directory = Path::new(SOURCES);
    disk::empty_directory(directory)?;
    let write = |path: &str, bytes: &[u8]| disk::write_bytes(&directory.join(path), bytes);
    write("book.toml", settings.as_bytes())?;
    for (path, text) in &sources.pages {
        write(path, text.as_bytes())?;
    }
    for (path, file) in &sources.copies {
        write(path, &disk::bytes(Path::new(""), file)?)?;
    }
    disk::empty_directory(Path::new(BOOK))?;
    let book = std::path::absolute(BOOK).map_err(|error| format!("`{BOOK}`: {error}"))?;
    let mut command = Command::new(program());
    command.args(["build", SOURCES, "--dest-dir"]).arg(book);
    let built = command.output().map_err(|error| format!("`{}` did not start: {error}", program()))?;
    let log = String::from_utf8_lossy(&built.stderr).into_owned();
    match built.status.success() && !log.contains("WARN") && !log.contains("ERROR") {
        true => Ok(()),
        false => Err(format!("mdBook reports problems: {}\n{log}", built.status)),
    }
}

/// The links in the built pages that lead nowhere, and the pages of the sources that were not built.
pub(super) fn problems(sources: &super::book::Sources) -> Result<Vec<String>, String> {
    let root = Path::new(BOOK);
    let mut files = BTreeSet::new();
    list(root, "", &mut files)?;
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(|path| path.ends_with(".html") && !is_generated(path)) {
        pages.insert(path.clone(), String::from_utf8_lossy(&disk::bytes(root, path)?).into_owned());
    }
    let missing = missing(sources.pages.keys(), &files);
    Ok(missing.into_iter().chain(broken(&files, &pages)).collect())
}

fn missing<'a>(sources: impl Iterator<Item = &'a String>, files: &BTreeSet<String>) -> Vec<String> {
    let built = |source: &str| source.replace(".md", ".html");
    let pages = sources.filter(|source| *source != "SUMMARY.md").map(|source| built(source));
    pages.filter(|page| !files.contains(page)).map(|page| format!("{BOOK}/{page} was not built")).collect()
}

/// Pages of mdBook's own: the one for addresses that do not exist, whose links are absolute, and one that has all pages in it.
fn is_generated(path: &str) -> bool {
    ["404.html", "print.html", "toc.html"].contains(&path)
}

fn broken(files: &BTreeSet<String>, pages: &BTreeMap<String, String>) -> Vec<String> {
    let ids: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, text)| (path.as_str(), attributes(text, "id").into_iter().map(|(_, id)| id).collect()))
        .collect();
    let mut problems = Vec::new();
    for (path, text) in pages {
        let links =
            ["href", "src"].into_iter().flat_map(|name| attributes(text, name)).map(|(_, target)| target);
        for target in links.filter(|target| !is_external(target) && !target.starts_with("data:")) {
            let (file, anchor) = target.split_once('#').map_or((target, ""), |(file, anchor)| (file, anchor));
            let is_there = resolved(path, file).is_some_and(|file| {
                let has_anchor = |ids: &BTreeSet<&str>| anchor.is_empty() || ids.contains(anchor);
                files.contains(&file) && ids.get(file.as_str()).is_none_or(has_anchor)
            });
            if !is_there && !is_generated(file) {
                problems.push(format!("{BOOK}/{path}: `{target}` leads nowhere"));
            }
        }
    }
    problems
}

fn list(root: &Path, below: &str, files: &mut BTreeSet<String>) -> Result<(), String> {
    for name in disk::names(&root.join(below))? {
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        match root.join(&path).is_dir() {
            true => list(root, &path, files)?,
            false => {
                files.insert(path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_is_a_page() {
        let sources = ["SUMMARY.md", "index.md", "a.md", "repository/index.md", "b.md"].map(str::to_owned);
        let files = ["index.html", "a.html", "repository/index.html"].map(str::to_owned).into();
        assert_eq!(missing(sources.iter(), &files), ["target/book/b.html was not built"]);
    }

    #[test]
    fn links_of_built_pages_lead_to_files_and_ids() {
        let page = "<h1 id=\"one\"><a href=\"#one\"></a></h1> <a href=\"x/b.html#two\"> <img src=\"c.svg\">";
        let other =
            "<h1 id=\"two\"> <a href=\"../a.html#three\"> <a href=\"d.html\"> <a href=\"https://e.org/#f\">";
        let files = ["a.html", "x/b.html", "c.svg"].map(str::to_owned).into();
        let pages =
            [("a.html", page), ("x/b.html", other)].map(|(path, text)| (path.to_owned(), text.to_owned()));
        let problems = broken(&files, &pages.into());
        let expected = ["`../a.html#three` leads nowhere", "`d.html` leads nowhere"];
        assert_eq!(problems, expected.map(|problem| format!("{BOOK}/x/b.html: {problem}")));
    }
}
