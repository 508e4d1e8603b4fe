//! The crates that run in a process of others use cells that no forked child finds locked.
//!
//! A child has one thread. A `OnceLock` that another thread of its parent was filling stays locked in it for ever, so that the child
//! hangs: with a data loader of a training job, this happens.

use syn::visit::{self, Visit};
use syn::{Ident, Item};

use super::attributes::{attributes, is_for_tests};
use super::finding::Finding;

/// The crates that run in processes which fork.
const CRATES: [&str; 5] =
    ["crates/cache/src/", "crates/capi/src/", "crates/embed/src/", "crates/remote/src/", "crates/store/src/"];
/// The types of the standard library that are filled once.
const CELLS: [&str; 3] = ["LazyLock", "Once", "OnceLock"];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let concerns = CRATES.iter().any(|part| path.starts_with(part)) && !path.ends_with("/tests.rs");
    // The module graph reports a file that cannot be parsed.
    let Some(file) = concerns.then(|| syn::parse_file(text).ok()).flatten() else { return Vec::new() };
    let mut cells = Cells::default();
    cells.visit_file(&file);
    let finding = |(line, name)| {
        let problem = format!("a forked child may find a `{name}` locked for ever");
        Finding::new(path, line, problem, "use `opkeep_fs::ForkSafeCell`")
    };
    cells.0.into_iter().map(finding).collect()
}

/// The lines that name such a type outside tests.
#[derive(Default)]
struct Cells(Vec<(usize, String)>);

impl<'a> Visit<'a> for Cells {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_ident(&mut self, ident: &'a Ident) {
        let name = ident.to_string();
        if CELLS.contains(&name.as_str()) {
            self.0.push((ident.span().start().line, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cells_of_the_standard_library_are_found() {
        for text in [
            "use std::sync::OnceLock;",
            "use std::sync::{Arc, LazyLock as Lazy};",
            "struct S { cell: std::sync::OnceLock<u8> }",
            "fn f() { static ONCE: std::sync::Once = std::sync::Once::new(); }",
        ] {
            let found = lines("crates/remote/src/a/b.rs", text);
            assert!(
                !found.is_empty() && found[0].starts_with("crates/remote/src/a/b.rs:1: a forked"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn others_tests_and_other_crates_are_not() {
        for (path, text) in [
            ("crates/remote/src/a.rs", "use std::cell::OnceCell; use opkeep_fs::ForkSafeCell;"),
            ("crates/remote/src/a.rs", "#[cfg(test)]\nmod tests { use std::sync::OnceLock; }"),
            ("crates/remote/src/a/tests.rs", "use std::sync::OnceLock;"),
            ("crates/remote/tests/cases/a.rs", "use std::sync::OnceLock;"),
            ("crates/engine/src/a.rs", "use std::sync::OnceLock;"),
        ] {
            assert_eq!(lines(path, text), Vec::<String>::new(), "{path}");
        }
    }
}
