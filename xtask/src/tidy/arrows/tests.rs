use serde_json::json;

use super::*;

fn package(name: &str, directory: &str, dependencies: &[(&str, &str)]) -> Value {
    let dependency = |(name, kind): &(&str, &str)| {
        let kind = if *kind == "normal" { Value::Null } else { json!(kind) };
        json!({"name": name, "kind": kind, "req": "*", "path": format!("/w/crates/{name}")})
    };
    let dependencies: Vec<Value> = dependencies.iter().map(dependency).collect();
    let manifest = format!("/w/{directory}/{name}/Cargo.toml");
    json!({"name": name, "manifest_path": manifest, "dependencies": dependencies})
}

fn found(document: &str, list: &[Value]) -> Vec<String> {
    let mut packages = packages(&json!({"workspace_root": "/w", "packages": list})).unwrap();
    for package in &mut packages {
        package.text = package
            .dependencies
            .iter()
            .map(|it| format!("dependencies.{}.workspace = true\n", it.name))
            .collect();
    }
    check(document, &packages).iter().map(Finding::to_string).collect()
}

const BLOCK: &str = "# Map\n```arrows\n# a note\na ->\n\nb -> a\n```\ntext -> text\n";

#[test]
fn agreement_is_silent() {
    let list = [package("a", "crates", &[]), package("b", "crates", &[("a", "normal"), ("serde", "normal")])];
    assert_eq!(found(BLOCK, &list), [""; 0]);
    assert_eq!(found(&BLOCK.replace("a ->\n", "a\n"), &list), [""; 0]);
}

#[test]
fn an_arrow_that_is_not_listed_is_found_where_it_stands() {
    for kind in ["normal", "build"] {
        let list = [
            package("a", "crates", &[("serde", "normal"), ("b", kind)]),
            package("b", "crates", &[("a", "normal")]),
        ];
        let problem = "crates/a/Cargo.toml:2: a -> b is an arrow that ARCHITECTURE.md does not list";
        let findings = found(BLOCK, &list);
        assert!(findings.len() == 1 && findings[0].starts_with(problem), "{findings:?}");
    }
    let list = [package("a", "crates", &[("b", "dev")]), package("b", "crates", &[("a", "normal")])];
    assert_eq!(found(BLOCK, &list), [""; 0]);
}

#[test]
fn a_listed_arrow_must_be_in_a_manifest() {
    let list = [package("a", "crates", &[]), package("b", "crates", &[("a", "dev")])];
    let problem = "ARCHITECTURE.md:6: ARCHITECTURE.md lists b -> a, which no manifest has; remove the arrow";
    assert_eq!(found(BLOCK, &list), [problem]);
}

#[test]
fn every_crate_is_listed_and_everything_listed_is_a_member() {
    let list =
        [package("b", "crates", &[]), package("c", "crates", &[("b", "normal")]), package("x", "tools", &[])];
    assert_eq!(
        found("```arrows\na ->\nb ->\n```", &list),
        [
            "ARCHITECTURE.md:2: `a` is no member of the workspace; remove or correct the line",
            "crates/c/Cargo.toml:1: `c` is missing from ARCHITECTURE.md; add `c -> b` to its arrows, if that is the design",
        ]
    );
}

#[test]
fn a_crate_without_arrows_is_listed_too() {
    let findings = found("```arrows\n```", &[package("a", "crates", &[])]);
    assert!(findings.len() == 1 && findings[0].contains("add `a ->` to its arrows"), "{findings:?}");
}

#[test]
fn a_member_outside_crates_needs_a_line_only_for_its_arrows() {
    let list = [package("a", "crates", &[]), package("x", ".", &[("a", "normal")])];
    let findings = found("```arrows\na ->\n```", &list);
    assert!(findings.len() == 1 && findings[0].contains("add `x -> a`"), "{findings:?}");
    assert_eq!(found("```arrows\na ->\nx -> a\n```", &list), [""; 0]);
}

#[test]
fn a_missing_block_and_malformed_lines_are_findings() {
    let list = [package("a", "crates", &[])];
    assert!(found("", &list)[0].starts_with("ARCHITECTURE.md:1: there is no block"));
    assert!(found("```text\na ->\n```", &list)[0].starts_with("ARCHITECTURE.md:1: there is no block"));
    let findings = found("```arrows\na ->\na -> b -> c\na b\n-> a\na ->\n```", &list);
    let starts: Vec<&str> = findings.iter().map(|it| it.split(';').next().unwrap_or_default()).collect();
    assert_eq!(
        starts,
        [
            "ARCHITECTURE.md:3: `a -> b -> c` is no arrow",
            "ARCHITECTURE.md:4: `a b` is no arrow",
            "ARCHITECTURE.md:5: `-> a` is no arrow",
            "ARCHITECTURE.md:6: `a` has two lines",
        ]
    );
}

#[test]
fn test_support_is_a_path_only_dev_dependency() {
    for name in TEST_SUPPORT {
        let block = format!("```arrows\na ->\n{name} ->\n```");
        let with = |dependency: Value| {
            let mut a = package("a", "crates", &[]);
            a["dependencies"] = json!([dependency]);
            found(&block, &[a, package(name, "crates", &[])])
        };
        let path = "/w/crates/x";
        assert_eq!(with(json!({"name": name, "kind": "dev", "req": "*", "path": path})), [""; 0]);
        let findings = with(json!({"name": name, "kind": "dev", "req": "^0.1.0", "path": path}));
        assert!(findings.len() == 1 && findings[0].contains("is not path-only"), "{findings:?}");
        for kind in [Value::Null, json!("build")] {
            let findings = with(json!({"name": name, "kind": kind, "req": "*", "path": path}));
            let problem = format!("`{name}` is more than a dev-dependency");
            assert!(findings.len() == 1 && findings[0].contains(&problem), "{findings:?}");
        }
    }
}

#[test]
fn test_support_uses_test_support_by_an_arrow() {
    let [used, user] = TEST_SUPPORT;
    let list = [package(used, "crates", &[]), package(user, "crates", &[(used, "normal")])];
    assert_eq!(found(&format!("```arrows\n{used} ->\n{user} -> {used}\n```"), &list), [""; 0]);
    let findings = found(&format!("```arrows\n{used} ->\n{user} ->\n```"), &list);
    assert!(findings.len() == 1 && findings[0].contains("is an arrow that"), "{findings:?}");
}

#[test]
fn metadata_that_lacks_something_is_refused() {
    for broken in
        [json!({}), json!({"workspace_root": "/w"}), json!({"workspace_root": "/w", "packages": [{}]})]
    {
        assert!(packages(&broken).unwrap_err().contains("`cargo metadata` has no"));
    }
}

#[test]
fn a_dependency_is_found_by_its_whole_name() {
    assert_eq!(line_of("[dependencies]\nab.workspace = true\na-b = \"1\"\n  \"a\" = \"1\"\n", "a"), 4);
    assert_eq!(line_of("[package]\n", "a"), 1);
}
