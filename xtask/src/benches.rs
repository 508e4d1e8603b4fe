//! A part of the benchmarks, a turn of each, as a step of `ci`: one that cannot be set up would show in the next report only.

use crate::disk;

const PACKAGE: &str = "opkeep-benches";
/// The number of commits among which the benchmarks are divided, since all of them take minutes.
const TURNS: usize = 6;
/// These build the command, or take half a minute.
const SLOW: [&str; 4] = ["ascend_drivers", "cli_start", "verify_caches", "warm_build"];

/// The benchmarks that have a turn with this seed.
pub(crate) fn of_turn(seed: u32) -> Result<Vec<String>, String> {
    Ok(chosen(&names()?, seed).map(str::to_owned).collect())
}

fn chosen(names: &[String], seed: u32) -> impl Iterator<Item = &str> {
    let quick = names.iter().map(String::as_str).filter(|name| !SLOW.contains(name));
    quick.skip(seed as usize % TURNS).step_by(TURNS)
}

/// All benchmarks.
fn names() -> Result<Vec<String>, String> {
    let metadata = disk::metadata()?;
    let all = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let package = all(&metadata["packages"]).into_iter().find(|package| package["name"] == PACKAGE);
    let targets = all(&package.ok_or_else(|| format!("there is no package `{PACKAGE}`"))?["targets"]);
    let benches = targets.iter().filter(|target| target["kind"][0] == "bench");
    Ok(benches.filter_map(|bench| bench["name"].as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quick_benchmark_has_one_turn_of_six() {
        let names = names().unwrap();
        assert!(SLOW.iter().all(|slow| names.iter().any(|name| name == slow)), "{names:?}");
        let mut found: Vec<&str> = (60..66).flat_map(|seed| chosen(&names, seed)).collect();
        assert_eq!(found.len(), names.len() - SLOW.len());
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), names.len() - SLOW.len());
    }
}
