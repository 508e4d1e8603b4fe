//! Benchmarks and instruction counts are of code that is optimized for speed, as frameworks build it, whatever a release is.

use toml::de::{DeTable, DeValue};

use super::finding::Finding;
use crate::release::MANIFEST;

/// Checks the profiles in the manifest of the workspace.
pub(super) fn check(text: &str) -> Vec<Finding> {
    let manifest = DeTable::parse_recoverable(text).0.into_inner();
    let profile = |name: &str| table(manifest.get("profile")?.get_ref(), name);
    let mut findings = Vec::new();
    let mut found = |problem: &str, help: &str| findings.push(Finding::new(MANIFEST, 1, problem, help));
    let bench = profile("bench");
    if !bench.is_some_and(is_for_speed) {
        found("the profile `bench` is not optimized for speed", "write `opt-level = 3` in [profile.bench]");
    }
    let inherits = profile("guard").and_then(|it| it.get("inherits")?.get_ref().as_str());
    if inherits != Some("bench") {
        found(
            "the profile `guard` is not that of the benchmarks",
            "write `inherits = \"bench\"` in [profile.guard]",
        );
    }
    // What a release says of a package holds for what inherits from it.
    let packages = |name: &str| profile(name).and_then(|it| table_in(it, "package"));
    for (name, settings) in packages("release").into_iter().flatten() {
        let is_own = packages("bench")
            .and_then(|it| it.get(name.get_ref().as_ref()))
            .and_then(|it| it.get_ref().as_table());
        let is_fast =
            settings.get_ref().as_table().is_some_and(is_for_speed) || is_own.is_some_and(is_for_speed);
        if !is_fast {
            let name = name.get_ref();
            let problem = format!("`{name}` is not optimized for speed in the profile `bench`");
            found(&problem, &format!("write `{name} = {{ opt-level = 3 }}` in [profile.bench.package]"));
        }
    }
    findings
}

fn table<'b, 'a>(value: &'b DeValue<'a>, name: &str) -> Option<&'b DeTable<'a>> {
    table_in(value.as_table()?, name)
}

fn table_in<'b, 'a>(table: &'b DeTable<'a>, name: &str) -> Option<&'b DeTable<'a>> {
    table.get(name)?.get_ref().as_table()
}

fn is_for_speed(settings: &DeTable<'_>) -> bool {
    settings
        .get("opt-level")
        .and_then(|it| it.get_ref().as_integer())
        .is_some_and(|level| level.as_str() == "3")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[profile.release]\nopt-level = \"z\"\n[profile.release.package]\na = { opt-level = 3 }\nb = { opt-level = \"s\" }\n\
        [profile.bench]\nopt-level = 3\n[profile.bench.package]\nb = { opt-level = 3 }\n[profile.guard]\ninherits = \"bench\"\n";

    #[test]
    fn each_benchmark_is_of_fast_code() {
        assert_eq!(check(GOOD), []);
        for (from, to, text) in [
            ("bench]\nopt-level = 3\n", "bench]\n", "`bench` is not optimized"),
            ("b = { opt-level = 3 }\n", "", "`b` is not optimized"),
            ("a = { opt-level = 3 }", "a = { opt-level = 2 }", "`a` is not optimized"),
            ("inherits = \"bench\"", "inherits = \"release\"", "`guard` is not"),
        ] {
            let found = check(&GOOD.replace(from, to));
            assert!(found.len() == 1 && found[0].to_string().contains(text), "{to}: {found:?}");
        }
    }
}
