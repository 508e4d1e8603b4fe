//! The uses between modules of a crate, so that no two use each other.
//!
//! A module is a file. It uses another one if a path in it, outside tests, leads to an item that is defined there: for
//! a re-exported item, its definition counts. A parent that declares a child does not use it by that.

mod graph;
mod scan;

use std::collections::BTreeMap;

use super::finding::Finding;
use super::promises::Sources;
use graph::{Crate, Cycle};

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, files) in crates(sources) {
        match Crate::parse(&files) {
            Ok(parsed) => findings.extend(parsed.cycles().into_iter().map(finding)),
            Err(finding) => findings.push(finding),
        }
    }
    findings
}

fn finding(cycle: Cycle) -> Finding {
    let problem = format!("modules use each other: {}", cycle.path.join(" -> "));
    let help = "move what both need into a module that neither of them contains";
    Finding::new(&cycle.file, cycle.line, problem, help)
}

/// The product files of each crate: its directory, then path and text of each file below its `src`.
fn crates(sources: &Sources) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut crates = BTreeMap::<_, Vec<_>>::new();
    for (path, text) in sources {
        if let Some((dir, _)) = path.split_once("/src/") {
            crates.entry(dir).or_default().push((path.as_str(), text.as_str()));
        }
    }
    crates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}.rs"), (*text).to_owned()));
        check(&sources.collect()).iter().map(ToString::to_string).collect()
    }

    const LIB: (&str, &str) = ("lib", "mod a;\nmod b;\npub use a::A;\npub use b::B;");

    #[test]
    fn modules_that_use_each_other_are_found_by_any_kind_of_path() {
        let b = ("b", "use crate::a::A;\npub struct B(A);");
        let users = [
            "use crate::B;\npub struct A;",
            "use super::b::{self};\npub struct A;",
            "pub struct A(crate::B);",
            "pub struct A;\nfn f() { vec![crate::b::B]; }",
            "pub struct A;\nmod inner { use super::super::b::B; }",
        ];
        for user in users {
            let found = found(&[LIB, ("a", user), b]);
            assert_eq!(found.len(), 1, "{user}: {found:?}");
            assert!(found[0].contains("modules use each other: a -> b -> a"), "{user}: {found:?}");
        }
    }

    #[test]
    fn a_mention_without_use_makes_no_cycle() {
        let b = ("b", "use crate::a::A;\npub struct B(A);");
        let others = [
            "pub struct A;",
            "/// See [`crate::B`].\npub struct A;",
            "pub struct A;\n#[cfg(test)]\nmod tests { use crate::B; }",
            "pub struct A;\n#[test]\nfn f() { crate::B; }",
            "use std::b::B;\npub struct A;",
        ];
        for other in others {
            assert!(found(&[LIB, ("a", other), b]).is_empty(), "{other}");
        }
        // The tests of a module may be in a separate file.
        let a = ("a", "pub struct A;\n#[cfg(test)]\nmod tests;");
        assert!(found(&[LIB, a, b, ("a/tests", "use crate::B; use super::A;")]).is_empty());
    }

    #[test]
    fn a_child_that_uses_its_parent_makes_a_cycle_only_if_the_parent_uses_it() {
        let child = ("a/child", "use super::A;\nimpl A { pub fn f() {} }");
        assert!(found(&[("lib", "mod a;"), ("a", "mod child;\npub struct A;"), child]).is_empty());
        let parent = ("a/mod", "mod child;\npub struct A;\nfn g() { child::f() }");
        let by_name = found(&[("lib", "mod a;"), parent, child]);
        assert!(by_name[0].contains("a -> a::child -> a"), "{by_name:?}");
        let glob = ("a/child", "use super::*;");
        let by_glob = found(&[("lib", "mod a;"), parent, glob]);
        assert!(by_glob[0].contains("a -> a::child -> a"), "{by_glob:?}");
    }
}
