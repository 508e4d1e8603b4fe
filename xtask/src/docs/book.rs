//! The sources of the book as mdBook reads them. Pages link to files of the repository that are not in `docs`, by paths
//! which work in a checkout; in the book these files are copies below `repository/`.

use std::collections::{BTreeMap, BTreeSet};

use super::links::{is_external, resolved};
use super::page::{Page, Reference};

pub(super) const DOCS: &str = "docs/";
pub(super) const SUMMARY: &str = "docs/SUMMARY.md";
/// Where the copies are.
const COPIES: &str = "repository/";

/// The book's pages, by their path from the root of the repository.
pub(super) struct Book {
    chapters: BTreeSet<String>,
}

/// The sources of a book.
#[derive(Default)]
pub(super) struct Sources {
    /// The text of each page, by its path in the sources.
    pub(super) pages: BTreeMap<String, String>,
    /// Other files: the path in the sources, and in the repository.
    pub(super) copies: BTreeMap<String, String>,
}

impl Book {
    /// The book of which `summary` is the table of contents.
    pub(super) fn new(summary: &Page) -> Self {
        let chapters = summary.links.iter().filter_map(|link| resolved(SUMMARY, &link.target));
        Self { chapters: chapters.collect() }
    }

    /// The pages that the table of contents lists.
    pub(super) fn chapters(&self) -> impl Iterator<Item = &str> {
        self.chapters.iter().map(String::as_str)
    }

    /// Pages in `docs` that the table of contents lacks, and links to documents that no page is.
    pub(super) fn problems(&self, pages: &BTreeMap<String, Page>) -> Vec<String> {
        let of_docs = pages.keys().filter(|path| path.starts_with(DOCS) && *path != SUMMARY);
        let missing = of_docs.clone().filter(|path| !self.chapters.contains(*path));
        let mut problems: Vec<String> =
            missing.map(|path| format!("{SUMMARY}: it does not list `{path}`")).collect();
        for (path, link) in of_docs
            .filter_map(|path| Some((path, pages.get(path)?)))
            .flat_map(|(path, page)| page.links.iter().map(move |link| (path, link)))
        {
            let file = link.target.split('#').next().unwrap_or_default();
            let Some(target) = resolved(path, file).filter(|_| !is_external(&link.target)) else { continue };
            if target.ends_with(".md") && !self.chapters.contains(&target) {
                let line = link.line;
                problems
                    .push(format!("{path}:{line}: `{target}` is no page of the book; list it in {SUMMARY}"));
            }
        }
        problems
    }

    /// The sources, for the pages of the repository and the names of its files.
    pub(super) fn sources(
        &self,
        texts: &BTreeMap<String, String>,
        pages: &BTreeMap<String, Page>,
        files: &BTreeSet<String>,
    ) -> Sources {
        let mut sources = Sources::default();
        for (path, text) in texts.iter().filter(|(path, _)| *path == SUMMARY || self.chapters.contains(*path))
        {
            let Some(page) = pages.get(path) else { continue };
            let mut edits = Vec::new();
            for include in &page.includes {
                let (file, anchor) =
                    include.target.split_at(include.target.find(':').unwrap_or(include.target.len()));
                let Some(file) = resolved(path, file) else { continue };
                edits.push((
                    include.range.clone(),
                    format!("{}{anchor}", relative(&placed(path), &placed(&file))),
                ));
                sources.copies.insert(placed(&file), file);
            }
            for link in page.links.iter().filter(|link| !is_external(&link.target)) {
                edits.extend(self.edit(path, text, link, files, &mut sources.copies));
            }
            sources.pages.insert(placed(path), edited(text, edits));
        }
        let drawings = files
            .iter()
            .filter(|file| file.starts_with(DOCS) && !file.ends_with(".md") && !file.ends_with(".toml"));
        sources.copies.extend(drawings.map(|file| (placed(file), file.clone())));
        sources
    }

    /// What replaces a link: one that leads to a page or a copy, or its text if there is neither, as of a directory.
    fn edit(
        &self,
        path: &str,
        text: &str,
        link: &Reference,
        files: &BTreeSet<String>,
        copies: &mut BTreeMap<String, String>,
    ) -> Option<(std::ops::Range<usize>, String)> {
        let (file, anchor) = link.target.split_at(link.target.find('#').unwrap_or(link.target.len()));
        if file.is_empty() {
            return None;
        }
        let target = resolved(path, file)?;
        let is_page = self.chapters.contains(&target);
        if !is_page && (!files.contains(&target) || target.ends_with(".md")) {
            return Some((link.whole.clone(), text[link.text.clone()].to_owned()));
        }
        if !is_page {
            copies.insert(placed(&target), target.clone());
        }
        Some((link.range.clone(), format!("{}{anchor}", relative(&placed(path), &placed(&target)))))
    }
}

/// The place of a file of the repository in the sources. A README is the index of its directory.
fn placed(path: &str) -> String {
    let place = path.strip_prefix(DOCS).map_or_else(|| format!("{COPIES}{path}"), str::to_owned);
    match place.strip_suffix("README.md") {
        Some(directory) if directory.is_empty() || directory.ends_with('/') => format!("{directory}index.md"),
        _ => place,
    }
}

/// The path of `target` for a link on `page`.
fn relative(page: &str, target: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (page.split('/').collect(), target.split('/').collect());
    let shared = from[..from.len() - 1].iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", from.len() - 1 - shared);
    up.chain(to[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

fn edited(text: &str, mut edits: Vec<(std::ops::Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = text.to_owned();
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [(&str, &str); 4] = [
        (SUMMARY, "[R](README.md)\n[A](a.md)\n[S](../SECURITY.md)\n"),
        (
            "docs/a.md",
            "[r](README.md) [s](../SECURITY.md#x) [h](../x/y.h) [d](../x/)\n{{#include ../x/y.h:z}}\n![p](p.svg)",
        ),
        ("SECURITY.md", "# X\n[a](docs/a.md) [c](CHANGELOG.md) [h](x/y.h)"),
        ("docs/b.md", "[c](../CHANGELOG.md)"),
    ];

    fn read() -> (Book, BTreeMap<String, String>, BTreeMap<String, Page>) {
        let texts: BTreeMap<_, _> = TEXTS.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let pages: BTreeMap<_, _> =
            texts.iter().map(|(path, text)| (path.clone(), Page::read(text))).collect();
        (Book::new(&pages[SUMMARY]), texts, pages)
    }

    #[test]
    fn links_lead_to_pages_and_copies() {
        let (book, texts, pages) = read();
        let files = ["x/y.h", "docs/p.svg", "CHANGELOG.md", "docs/book.toml"].map(str::to_owned).into();
        let sources = book.sources(&texts, &pages, &files);
        assert_eq!(sources.pages["SUMMARY.md"], "[R](index.md)\n[A](a.md)\n[S](repository/SECURITY.md)\n");
        assert_eq!(
            sources.pages["a.md"],
            "[r](index.md) [s](repository/SECURITY.md#x) [h](repository/x/y.h) d\n{{#include repository/x/y.h:z}}\n![p](p.svg)"
        );
        assert_eq!(sources.pages["repository/SECURITY.md"], "# X\n[a](../a.md) c [h](x/y.h)");
        let copies: Vec<_> = sources.copies.keys().map(String::as_str).collect();
        assert_eq!(copies, ["p.svg", "repository/x/y.h"]);
    }

    #[test]
    fn each_page_and_each_linked_document_is_listed() {
        let (book, _, pages) = read();
        let problems = book.problems(&pages);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert_eq!(problems[0], "docs/SUMMARY.md: it does not list `docs/b.md`");
        assert!(problems[1].starts_with("docs/b.md:1: `CHANGELOG.md` is no page of the book; "));
    }
}
