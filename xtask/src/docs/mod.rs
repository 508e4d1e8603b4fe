//! `cargo xtask docs`: checks the links of all documents, and builds the book in `docs` with mdBook.

mod book;
mod links;
mod mdbook;
mod page;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use book::{Book, SUMMARY};
use links::Documents;
use page::Page;

use crate::disk;
use crate::frameworks::commit_seed;

const SETTINGS: &str = "docs/book.toml";
const USAGE: &str = "usage: cargo xtask docs [--check|--update]
  (nothing)  check the links of all documents, build the book into target/book, check the links of its pages
  --check    check the links of all documents, and build nothing
  --update   write the pages and tables that are generated";
/// The tests that compare generated pages with the program; with this variable they write them.
const UPDATE: &str = "OPKEEP_UPDATE_DOCS";

pub(crate) fn docs(args: &[String]) -> Result<(), String> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let repository = Repository::read()?;
            repository.check()?;
            mdbook::install()?;
            repository.build()
        }
        ["--check"] => Repository::read()?.check(),
        ["--update"] => update(),
        _ => Err(format!("found `{}`\n{USAGE}", args.join(" "))),
    }
}

/// The step of `ci`. mdBook is built for one commit of four, since that takes as long as other steps; where it is already installed,
/// the book is built for each.
pub(crate) fn docs_in_ci(args: &[String]) -> Result<(), String> {
    crate::task::no_arguments(args)?;
    match mdbook::is_installed() || commit_seed().is_ok_and(|seed| seed % 4 == 1) {
        true => docs(&[]),
        false => docs(&["--check".to_owned()]),
    }
}

fn update() -> Result<(), String> {
    crate::findings::findings(&["--update".to_owned()])?;
    let mut cargo = crate::cargo::cargo();
    cargo
        .args(["test", "--package", "opkeep-cli", "--test", "suite", "--", "book::generated"])
        .env(UPDATE, "1");
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the tests that write the pages ended with {status}")),
        Err(error) => Err(format!("cargo did not start: {error}")),
    }
}

/// The documents of the repository.
struct Repository {
    files: Vec<String>,
    texts: BTreeMap<String, String>,
    documents: Documents,
    book: Book,
}

impl Repository {
    fn read() -> Result<Self, String> {
        let root = Path::new(".");
        let files = disk::files(root)?;
        let mut texts = BTreeMap::new();
        for path in files.iter().filter(|path| path.ends_with(".md")) {
            texts.insert(path.clone(), String::from_utf8_lossy(&disk::bytes(root, path)?).into_owned());
        }
        let pages: BTreeMap<_, _> =
            texts.iter().map(|(path, text)| (path.clone(), Page::read(text))).collect();
        let book = Book::new(pages.get(SUMMARY).ok_or_else(|| format!("`{SUMMARY}` is missing"))?);
        Ok(Self { documents: Documents::new(&files, pages), files, texts, book })
    }

    fn check(&self) -> Result<(), String> {
        let pages = &self.documents.pages;
        let mut problems: Vec<_> = pages.keys().flat_map(|path| self.documents.problems(path)).collect();
        problems.extend(self.book.problems(pages));
        problems.extend(self.variables()?);
        let links: usize = pages.values().map(|page| page.links.len()).sum();
        finished(&problems, &format!("{links} links in {} documents", pages.len()))
    }

    /// What is wrong with the page about the environment.
    fn variables(&self) -> Result<Vec<String>, String> {
        let read = |path: &String| {
            let bytes = disk::bytes(Path::new("."), path)?;
            Ok::<_, String>((path.clone(), String::from_utf8_lossy(&bytes).into_owned()))
        };
        let code =
            self.files.iter().filter(|path| variables::concerns(path)).map(read).collect::<Result<_, _>>()?;
        let page = self.texts.get(variables::PAGE).map_or("", String::as_str);
        let (_, header) = read(&variables::HEADER.to_owned())?;
        Ok(variables::problems(page, &header, &code))
    }

    fn build(&self) -> Result<(), String> {
        let files: BTreeSet<_> = self.files.iter().cloned().collect();
        let sources = self.book.sources(&self.texts, &self.documents.pages, &files);
        let settings = disk::text_if_exists(Path::new("."), SETTINGS)?.unwrap_or_default();
        mdbook::build(&sources, &settings)?;
        let pages = self.book.chapters().count();
        finished(&mdbook::problems(&sources)?, &format!("{pages} pages in {}/index.html", mdbook::BOOK))
    }
}

/// Prints the problems, or what was looked at.
fn finished(problems: &[String], done: &str) -> Result<(), String> {
    for problem in problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("docs: no problems in {done}");
            Ok(())
        }
        1 => Err("1 problem, above".to_owned()),
        many => Err(format!("{many} problems, above")),
    }
}
