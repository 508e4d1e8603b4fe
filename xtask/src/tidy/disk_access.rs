//! Product code reaches files through `opkeep-fs`: its watcher sees every call, and its tests make each call fail.
//!
//! Other crates name only the types of `std::fs` that are handles or plain data. clippy.toml bans the functions, and
//! exceptions from that ban are allowed only in tests, in `opkeep-fs`, and where the command line reads the
//! environment.

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use super::attributes::{attributes, is_for_tests};
use super::finding::Finding;

/// Handles and plain data.
const TYPES: [&str; 5] = ["File", "FileType", "Metadata", "Permissions", "TryLockError"];
/// The crate that reaches files.
const FLOOR: &str = "crates/fs/";
/// The part of the command line that reads the environment and ends the process, and that of the C interface which reads the
/// environment if its caller asks for it.
const ENVIRONMENT: [&str; 2] = ["crates/cli/src/ui/", "crates/capi/src/environment.rs"];
/// Support for tests, which damages files as other programs do.
const TEST_SUPPORT: [&str; 2] = ["crates/testkit/", "crates/toolchain-mutations/"];

/// Whether `path` is product code. The modules of its tests are not.
fn concerns(path: &str) -> bool {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    path.starts_with("crates/")
        && path.contains("/src/")
        && !is_test
        && !path.starts_with(FLOOR)
        && !TEST_SUPPORT.iter().any(|directory| path.starts_with(directory))
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    // The module graph reports a file that cannot be parsed.
    let Some(file) = concerns(path).then(|| syn::parse_file(text).ok()).flatten() else { return Vec::new() };
    let mut uses = Uses::default();
    uses.attributes(&file.attrs);
    uses.visit_file(&file);
    let found = uses.found.into_iter().map(|(line, name)| {
        let problem = format!("`std::fs{name}` is named outside `opkeep-fs`");
        Finding::new(path, line, problem, "call `opkeep_fs::Fs`, or a directory of it")
    });
    let reads_environment = ENVIRONMENT.iter().any(|part| path.starts_with(part));
    let exceptions = uses.exceptions.into_iter().filter(|_| !reads_environment).map(|line| {
        let problem = "an exception from `clippy::disallowed_methods` stands outside tests";
        Finding::new(
            path,
            line,
            problem,
            "call `opkeep_fs::Fs`; let the command line pass values of the environment",
        )
    });
    found.chain(exceptions).collect()
}

/// The names that a file uses outside its tests.
#[derive(Default)]
struct Uses {
    /// Items of `std::fs` with their lines; an empty name is the module itself.
    found: Vec<(usize, String)>,
    /// The lines of exceptions from the ban.
    exceptions: Vec<usize>,
}

impl Uses {
    fn attributes(&mut self, attributes: &[Attribute]) {
        for attribute in attributes {
            let Ok(list) = attribute.meta.require_list() else { continue };
            if list.tokens.to_string().contains("disallowed_methods") {
                self.exceptions.push(attribute.pound_token.spans[0].start().line);
            }
        }
    }

    /// Records `names` if they are an item of `std::fs` that other crates must not name.
    fn note(&mut self, names: &[String], line: usize) {
        let ["std", "fs", rest @ ..] = &names.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            return;
        };
        match rest.first() {
            Some(name) if TYPES.contains(name) => {}
            Some(name) => self.found.push((line, format!("::{name}"))),
            None => self.found.push((line, String::new())),
        }
    }

    fn import(&mut self, tree: &UseTree, names: &mut Vec<String>) {
        let last = |name: &str| if name == "self" { Vec::new() } else { vec![name.to_owned()] };
        match tree {
            UseTree::Path(it) => {
                names.push(it.ident.to_string());
                self.import(&it.tree, names);
                names.pop();
            }
            UseTree::Group(it) => it.items.iter().for_each(|tree| self.import(tree, names)),
            UseTree::Name(it) => {
                self.note(&[&names[..], &last(&it.ident.to_string())].concat(), it.ident.span().start().line);
            }
            UseTree::Rename(it) => {
                self.note(&[&names[..], &last(&it.ident.to_string())].concat(), it.ident.span().start().line);
            }
            UseTree::Glob(it) => {
                self.note(&[&names[..], &["*".to_owned()]].concat(), it.star_token.spans[0].start().line);
            }
        }
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_for_tests(attributes(item)) {
            self.attributes(attributes(item));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        if names.len() > 2 {
            self.note(&names, line);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().map(|finding| finding.to_string()).collect()
    }

    const LIB: &str = "crates/x/src/lib.rs";

    #[test]
    fn functions_and_the_module_are_found() {
        for (text, name) in [
            ("use std::fs;", ""),
            ("use std::fs::{self, File};", ""),
            ("use std::{io, fs::read_to_string};", "::read_to_string"),
            ("use std::fs::*;", "::*"),
            ("fn f() { std::fs::write(a, b); }", "::write"),
            ("fn f() { let o = std::fs::OpenOptions::new(); }", "::OpenOptions"),
        ] {
            let problem = format!("{LIB}:1: `std::fs{name}` is named outside `opkeep-fs`; ");
            let found = found(LIB, text);
            assert!(found.len() == 1 && found[0].starts_with(&problem), "{text}: {found:?}");
        }
    }

    #[test]
    fn types_tests_and_the_floor_are_not() {
        for text in [
            "use std::fs::{File, Metadata};",
            "fn f(file: &std::fs::File) {}",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "#[cfg(test)]\n#[expect(clippy::disallowed_methods, reason = \"x\")]\nmod tests {}",
        ] {
            assert!(found(LIB, text).is_empty(), "{text}");
        }
        let test_support = ["crates/testkit/src/a.rs", "crates/toolchain-mutations/src/a.rs"];
        for path in ["crates/fs/src/a.rs", "crates/x/tests/suite/a.rs", "xtask/src/a.rs"]
            .into_iter()
            .chain(test_support)
        {
            assert!(found(path, "use std::fs;").is_empty(), "{path}");
        }
    }

    #[test]
    fn an_exception_from_the_ban_is_found() {
        for text in [
            "#![expect(clippy::disallowed_methods, reason = \"x\")]",
            "#[expect(clippy::disallowed_methods)]\nfn f() {}",
        ] {
            assert!(found(LIB, text)[0].starts_with(&format!("{LIB}:1: an exception")), "{text}");
            assert!(found("crates/cli/src/ui/env.rs", text).is_empty(), "{text}");
        }
    }
}
