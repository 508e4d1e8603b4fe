//! The content of one file: its modules, its items, its imports, and the paths that it uses.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use crate::tidy::attributes::{attributes, is_for_tests};

/// A path from the crate's root: names of modules, and at most one item at its end.
pub(super) type Path = Vec<String>;

/// A file, parsed.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Modules that are written in the file itself, without tests.
    pub(super) inline: BTreeSet<Path>,
    /// Modules that are compiled for tests only.
    pub(super) tests: BTreeSet<Path>,
    /// The items that each module of the file defines.
    pub(super) items: BTreeSet<(Path, String)>,
    /// The imports of each module: the name there, and the path; `None` for another crate.
    pub(super) imports: BTreeMap<(Path, String), Option<Path>>,
    /// The modules from which each module imports everything.
    pub(super) globs: Vec<(Path, Path)>,
    /// Each path that is used, with its line.
    pub(super) uses: Vec<(Path, usize)>,
    /// The module being visited.
    at: Path,
    /// Names of modules that the file declares, with the module that contains them.
    declared: BTreeSet<(Path, String)>,
}

impl Scan {
    /// Scans the file of the module `at`.
    pub(super) fn of(text: &str, at: Path) -> syn::Result<Self> {
        let file = syn::parse_file(text)?;
        let mut scan = Self { at, ..Self::default() };
        scan.declare(&file.items);
        scan.visit_file(&file);
        Ok(scan)
    }

    /// Records the modules and items of one module in advance, so that earlier paths find them.
    fn declare(&mut self, items: &[Item]) {
        for item in items {
            let name = match item {
                Item::Mod(it) => {
                    if is_for_tests(&it.attrs) {
                        self.tests.insert(self.below(&it.ident.to_string()));
                    } else {
                        self.declared.insert((self.at.clone(), it.ident.to_string()));
                    }
                    continue;
                }
                Item::Const(it) => &it.ident,
                Item::Enum(it) => &it.ident,
                Item::Fn(it) => &it.sig.ident,
                Item::Static(it) => &it.ident,
                Item::Struct(it) => &it.ident,
                Item::Trait(it) => &it.ident,
                Item::Type(it) => &it.ident,
                Item::Union(it) => &it.ident,
                _ => continue,
            };
            self.items.insert((self.at.clone(), name.to_string()));
        }
    }

    fn below(&self, name: &str) -> Path {
        let mut path = self.at.clone();
        path.push(name.to_owned());
        path
    }

    /// The path from the crate's root that `names` denote here; `None` if they lead to another crate or to a local
    /// item.
    fn absolute(&self, names: &[String]) -> Option<Path> {
        let (first, rest) = names.split_first()?;
        let (mut path, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (self.at.clone(), rest),
            "super" => (self.at.clone(), names),
            name if self.declared.contains(&(self.at.clone(), name.to_owned())) => (self.at.clone(), names),
            _ => return None,
        };
        while let Some((_, after)) = rest.split_first().filter(|(name, _)| *name == "super") {
            path.pop()?;
            rest = after;
        }
        path.extend(rest.iter().cloned());
        Some(path)
    }

    fn import(&mut self, tree: &UseTree, names: &mut Vec<String>) {
        match tree {
            UseTree::Path(it) => {
                names.push(it.ident.to_string());
                self.import(&it.tree, names);
                names.pop();
            }
            UseTree::Group(it) => it.items.iter().for_each(|tree| self.import(tree, names)),
            UseTree::Glob(it) => {
                let Some(path) = self.absolute(names) else { return };
                self.uses.push((path.clone(), it.star_token.spans[0].start().line));
                self.globs.push((self.at.clone(), path));
            }
            UseTree::Name(it) => self.import_as(&it.ident, &it.ident, names),
            UseTree::Rename(it) => self.import_as(&it.ident, &it.rename, names),
        }
    }

    fn import_as(&mut self, ident: &syn::Ident, name: &syn::Ident, names: &[String]) {
        let mut full = names.to_vec();
        if ident != "self" {
            full.push(ident.to_string());
        }
        let path = self.absolute(&full);
        if let Some(path) = &path {
            self.uses.push((path.clone(), ident.span().start().line));
        }
        let name = if name == "self" { names.last().cloned() } else { Some(name.to_string()) };
        if let Some(name) = name {
            self.imports.insert((self.at.clone(), name), path);
        }
    }

    /// Records the paths in a macro's input. It is not parsed, so only paths with an explicit root count.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut names: Vec<String> = Vec::new();
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.note(&names, line);
                        names.clear();
                        line = ident.span().start().line;
                    }
                    names.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.note(&names, line);
                    names.clear();
                    self.tokens(group.stream());
                }
                _ => {
                    self.note(&names, line);
                    names.clear();
                    colons = 0;
                }
            }
        }
        self.note(&names, line);
    }

    fn note(&mut self, names: &[String], line: usize) {
        let Some(path) = names.get(1).and_then(|_| self.absolute(names)) else { return };
        self.uses.push((path, line));
    }
}

impl<'a> Visit<'a> for Scan {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let Some((_, items)) = &item.content else { return };
        self.at.push(item.ident.to_string());
        self.inline.insert(self.at.clone());
        self.declare(items);
        items.iter().for_each(|item| self.visit_item(item));
        self.at.pop();
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        self.note(&names, line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, it: &'a syn::Macro) {
        self.visit_path(&it.path);
        self.tokens(it.tokens.clone());
    }

    fn visit_vis_restricted(&mut self, _: &'a syn::VisRestricted) {}
}
