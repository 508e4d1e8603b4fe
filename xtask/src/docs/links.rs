//! The links of all documents: files and headings exist; addresses of other sites have a valid form, and are not called.

use std::collections::{BTreeMap, BTreeSet};

use super::page::{Page, Reference};

/// The documents of the repository, and the names of all its files and directories.
pub(super) struct Documents {
    /// By path from the root of the repository.
    pub(super) pages: BTreeMap<String, Page>,
    names: BTreeSet<String>,
}

impl Documents {
    pub(super) fn new(files: &[String], pages: BTreeMap<String, Page>) -> Self {
        let directories = files.iter().flat_map(|file| file.match_indices('/').map(|(at, _)| &file[..at]));
        let names = directories.chain(files.iter().map(String::as_str)).map(str::to_owned).collect();
        Self { pages, names }
    }

    /// What is wrong with the references of one page, each with its place.
    pub(super) fn problems(&self, path: &str) -> Vec<String> {
        let Some(page) = self.pages.get(path) else { return Vec::new() };
        let links = page.links.iter().filter_map(|link| Some((link, self.problem(path, link)?)));
        let includes = page.includes.iter().filter_map(|include| {
            let file = include.target.split(':').next().unwrap_or_default();
            let is_missing = resolved(path, file).is_none_or(|file| !self.names.contains(&file));
            is_missing.then(|| (include, format!("the included file `{file}` does not exist")))
        });
        links.chain(includes).map(|(at, problem)| format!("{path}:{}: {problem}", at.line)).collect()
    }

    fn problem(&self, path: &str, link: &Reference) -> Option<String> {
        let target = link.target.as_str();
        if is_external(target) {
            return (!has_valid_form(target))
                .then(|| format!("`{target}` is no address of the form https://host/path"));
        }
        let (file, anchor) =
            target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
        let Some(file) = resolved(path, file) else {
            return Some(format!("`{target}` leaves the repository"));
        };
        if !file.is_empty() && !self.names.contains(&file) {
            return Some(format!("`{target}` leads to `{file}`, which does not exist"));
        }
        let (page, anchor) = (self.pages.get(&file)?, anchor?);
        (!page.anchors.contains(anchor)).then(|| format!("`{target}`: `{file}` has no heading `#{anchor}`"))
    }
}

/// Whether a target is an address of another site.
pub(super) fn is_external(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn has_valid_form(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_host = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    host.contains('.') && host.chars().all(is_host) && rest.chars().all(|c| c.is_ascii_graphic())
}

/// The path from the root of what a page links to; `None` outside of the repository. A link without a file leads to its page.
pub(super) fn resolved(page: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(page.to_owned());
    }
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            part => path.push(part),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let files = ["docs/a.md", "docs/b.md", "docs/b.svg", "x/y.rs"].map(str::to_owned);
        let pages = [("docs/a.md", text), ("docs/b.md", "# One two\n")];
        let pages = pages.map(|(path, text)| (path.to_owned(), Page::read(text)));
        Documents::new(&files, pages.into()).problems("docs/a.md")
    }

    #[test]
    fn files_and_headings_have_to_exist() {
        let fine = "# A\n[a](#a) [b](b.md) [b](b.md#one-two) [s](b.svg) [y](../x/y.rs) [x](../x/)\n{{#include ../x/y.rs:z}}";
        assert_eq!(problems(fine), [""; 0]);
        assert_eq!(problems("[a](#b)"), ["docs/a.md:1: `#b`: `docs/a.md` has no heading `#b`"]);
        assert_eq!(problems("\n[a](b.md#c)"), ["docs/a.md:2: `b.md#c`: `docs/b.md` has no heading `#c`"]);
        assert_eq!(problems("[a](c.md)"), ["docs/a.md:1: `c.md` leads to `docs/c.md`, which does not exist"]);
        assert_eq!(problems("[a](../../c.md)"), ["docs/a.md:1: `../../c.md` leaves the repository"]);
        assert_eq!(
            problems("{{#include ../x/z.rs}}"),
            ["docs/a.md:1: the included file `../x/z.rs` does not exist"]
        );
    }

    #[test]
    fn addresses_have_a_form() {
        assert_eq!(problems("[a](https://example.org/a?b#c)"), [""; 0]);
        for wrong in ["http://example.org", "https://example", "https://exa mple.org/", "ftp://example.org/"]
        {
            assert_eq!(problems(&format!("[a]({wrong})")).len(), 1, "{wrong}");
        }
    }
}
