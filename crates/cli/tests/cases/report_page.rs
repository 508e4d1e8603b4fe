//! The page of a report in a browser: what it shows is what `stats` and the JSON result say.
#![expect(clippy::disallowed_methods, reason = "tests make files")]
#![expect(clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::program_of_system;
use serde_json::Value;

use crate::common::{Place, square_of};

/// The names of files, which are labels of builds.
const HOSTILE: &str =
    "\"><img src=x onerror=document.title=1><script>document.title=1<\\script>'\u{202e}.info";

pub(crate) fn trials() -> Vec<Trial> {
    let chromium = program_of_system("chromium");
    let is_missing = chromium.is_err();
    let run = move || {
        let chromium = chromium.map_err(Failed::from)?;
        page_shows_what_stats_says(&chromium);
        Ok(())
    };
    vec![Trial::test("report_page::a_browser_shows_the_figures", run).with_ignored_flag(is_missing)]
}

/// Returns the page as a browser reads it.
fn dom(chromium: &Path, place: &Place, page: &Path) -> String {
    let profile = place.path("profile");
    let output = Command::new(chromium)
        // A container has neither the right to make a sandbox nor, often, shared memory for one.
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .env("HOME", place.dir.path())
        .output()
        .expect("the browser runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("the page is UTF-8")
}

/// Returns the values of the figures with this name, in the order of the page.
fn figures(dom: &str, name: &str) -> Vec<u64> {
    let values = dom.split("<data value=\"").skip(1).filter_map(|text| {
        let (value, rest) = text.split_once('"')?;
        let (attribute, _) = rest.split_once('>')?;
        attribute.contains(&format!("data-figure=\"{name}\"")).then(|| value.parse().ok()).flatten()
    });
    values.collect()
}

fn page_shows_what_stats_says(chromium: &Path) {
    let place = Place::new();
    let model: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/networks/lenet/model.onnx");
    let hostile = place.write(HOSTILE, square_of(7));
    let [model, hostile] = [&model, &hostile].map(|path| path.to_str().expect("the path is UTF-8"));
    for input in [model, hostile, model] {
        place.run(&["build", input, "--target", "cpu", "--no-kernel-meta", "-q"]).ended_with(0);
    }
    // A damaged entry is quarantined and compiled again.
    let entry = &place.entries()[0];
    let mut bytes = std::fs::read(entry).expect("the entry is there");
    *bytes.last_mut().expect("an entry is not empty") ^= 1;
    std::fs::write(entry, bytes).expect("the entry is written");
    place.run(&["build", model, hostile, "--target", "cpu", "--no-kernel-meta", "-q"]).ended_with(0);

    let stats = place.run(&["stats", "--by", "kernel", "--format", "json"]).ended_with(0).json();
    let report = place.run(&["report", "--html", "page.html", "--format", "json"]).ended_with(0).json();
    let dom = dom(chromium, &place, &place.path("page.html"));

    let target = &stats["targets"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is a number"));
    let micros = |value: &Value| {
        (value.as_f64().unwrap_or_else(|| panic!("{value} is a number")) * 1e3).round() as u64
    };
    let statistics = &target["statistics"];
    let misses =
        ["absent", "damaged", "untrusted", "trouble"].map(|kind| number(&statistics[kind])).iter().sum();
    for (figure, expected) in [
        ("target-kernels", number(&target["store"]["kernels"])),
        ("target-files", number(&target["store"]["files"])),
        ("target-bytes", number(&target["store"]["bytes"])),
        ("target-hits", number(&statistics["hits"])),
        ("target-misses", misses),
        ("target-compiles", number(&statistics["compiles"])),
        ("target-saved", micros(&statistics["saved_ms"])),
        ("total-kernels", number(&target["store"]["kernels"])),
        ("total-hits", number(&statistics["hits"])),
        ("total-builds", 4),
        ("total-quarantined", 1),
    ] {
        assert_eq!(figures(&dom, figure), [expected], "{figure}");
    }
    // By framework, operator, last use and age; each list adds up.
    let contents = target["contents"].as_array().expect("a list");
    let bytes: Vec<u64> = contents.iter().map(|content| number(&content["bytes"])).collect();
    let shares = figures(&dom, "share-bytes");
    assert_eq!(shares[1..=bytes.len()], bytes);
    assert_eq!(shares[0], bytes.iter().sum::<u64>());

    let builds = report["builds"].as_array().expect("a list");
    let of_builds = |field: &str| builds.iter().map(|build| number(&build[field])).collect::<Vec<_>>();
    assert_eq!(
        (figures(&dom, "build-kernels"), figures(&dom, "build-hits")),
        (of_builds("kernels"), of_builds("hits"))
    );
    let (found, kernels) = (of_builds("hits").iter().sum::<u64>(), of_builds("kernels").iter().sum::<u64>());
    assert_eq!(figures(&dom, "total-build-hits"), [found]);
    // The text has the same rates.
    let text = place.run(&["report"]).ended_with(0).stdout;
    let hits = number(&statistics["hits"]);
    for (before, part, all) in [(" were in the store (", found, kernels), ("look-ups: ", hits, hits + misses)]
    {
        let percent = format!("{:.1} %", part as f64 * 100.0 / all as f64);
        assert!(dom.contains(&format!(">{percent}<")), "{percent}");
        let line = text.lines().find(|line| line.contains(before)).expect("a line with the rate");
        assert!(line.contains(&part.to_string()) && line.ends_with(&format!("({percent})")), "{line}");
    }
    let durations: Vec<u64> = builds.iter().map(|build| micros(&build["elapsed_ms"])).collect();
    assert_eq!(figures(&dom, "build-duration"), durations);
    let results = |build: &Value| build["results"].as_array().expect("a list").clone();
    let compiled: u64 = builds.iter().flat_map(results).map(|kernel| micros(&kernel["compile_ms"])).sum();
    assert_eq!(figures(&dom, "kernel-compile").iter().sum::<u64>(), compiled);
    assert_eq!(figures(&dom, "operator-time").iter().sum::<u64>(), compiled);

    // The names became text, and nothing ran.
    assert!(dom.contains("img src=x onerror") && !dom.contains("<img") && !dom.contains("<script"), "{dom}");
    assert!(
        dom.contains(&format!("<title>opkeep report: {}</title>", report["root"].as_str().expect("a text")))
    );
}
