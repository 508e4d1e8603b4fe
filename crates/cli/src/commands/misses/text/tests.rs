//! The texts of what happens most: each is read at a glance, for any number of kernels.

use std::path::Path;
use std::sync::Arc;

use opkeep::{CacheStatus, Config, Engine, Request, StoreConfig};
use opkeep_testkit::{NullBackend, descriptor};
use tempfile::TempDir;

use super::*;

/// A network of 60 kernels, one of each shape.
fn network() -> Vec<Request> {
    let one = |(op_type, shape): (&str, i64)| {
        Request::new(descriptor(&format!("net/{op_type}_{shape}"), op_type, &[&[shape, 4]]))
    };
    (1..=20).flat_map(|shape| ["Square", "Abs", "Relu"].map(|op_type| one((op_type, shape)))).collect()
}

struct Bench {
    dir: TempDir,
    backend: Arc<NullBackend>,
}

impl Bench {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), backend: Arc::default() }
    }

    fn engine(&self) -> Engine {
        let config = Config::with_store(StoreConfig::new(self.dir.path().join("store")));
        let work_dir = Some(self.dir.path().to_owned());
        Engine::new(Arc::<NullBackend>::clone(&self.backend), config)
            .with_config(|config| config.work_dir = work_dir)
    }

    /// The engine with a store that has the kernels of the network.
    fn filled() -> Self {
        let bench = Self::new();
        assert_eq!(bench.engine().build(&network()).unwrap().count(opkeep::Outcome::Compiled), 60);
        bench
    }

    /// The lines of an explanation, with `#` for numbers that no person reads.
    fn lines(&self, requests: &[Request], all: bool) -> Vec<String> {
        let kernels = self.engine().explain(requests).unwrap();
        let misses = kernels.iter().map(|kernel| match &kernel.status {
            CacheStatus::Miss(miss) => Some(miss),
            _ => None,
        });
        let misses: Vec<Option<&MissExplanation>> = misses.collect();
        let missed = |at: usize| {
            let opkeep::Explanation { name, op_type, requested_by, .. } = &kernels[at];
            Some(MissedKernel { name, op_type, requested_by, miss: misses[at]? })
        };
        let groups = MissGroup::of(misses.iter().enumerate().filter_map(|(at, miss)| Some((at, (*miss)?))));
        let text = causes_text(&groups, missed, Detail { all, flag: "--all" });
        text.as_str().lines().map(|line| shown(line, self.dir.path())).collect()
    }
}

fn shown(line: &str, dir: &Path) -> String {
    let line = line.replace(&dir.display().to_string(), "DIR");
    let mut shown = String::new();
    for word in line.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        shown.push_str(&if digits >= 12 { format!("#{}", &word[digits..]) } else { word.to_owned() });
    }
    shown
}

#[test]
fn an_upgraded_compiler() {
    let bench = Bench::filled();
    bench.backend.upgrade("gcc version 13.1,2,3");
    let lines = bench.lines(&network(), false);
    assert_eq!(
        lines,
        [
            "60 misses: compiler 1 -> gcc version 13.1",
            "    version: 1 -> gcc version 13.1",
            "    tool0: (none) -> 2",
            "    tool1: (none) -> 3",
            "    square_#, abs_#, relu_# and 57 more",
        ]
    );
    bench.backend.upgrade("2");
    assert_eq!(
        bench.lines(&network()[..2], false),
        ["2 misses: compiler 1 -> 2", "    square_#, abs_#"],
        "a single change has no second line"
    );
}

#[test]
fn another_source_or_option() {
    let bench = Bench::filled();
    let mut requests = network();
    for request in requests.iter_mut().take(40) {
        request.spec.options.insert("precision".to_owned(), "high".into());
    }
    let lines = bench.lines(&requests, false);
    assert_eq!(
        lines,
        ["40 misses: option precision: (none) -> high", "    square_#, abs_#, relu_# and 37 more"]
    );
    bench.backend.edit("another");
    let lines = bench.lines(&requests, false);
    assert_eq!(lines[0], "40 misses: option precision: (none) -> high");
    assert!(
        lines[1].starts_with("    sources that differ with it: abs.c (of 13 kernels), relu.c"),
        "{lines:#?}"
    );
    // Each operator has a source of its own.
    assert_eq!(lines[3], "7 misses: source abs.c");
    assert_eq!(lines.len(), 9, "{lines:#?}");
}

#[test]
fn a_changed_layer() {
    let bench = Bench::filled();
    let mut requests = network();
    requests[0] = Request::new(descriptor("net/Square_1", "Square", &[&[1, 7]]));
    let lines = bench.lines(&requests, false);
    assert_eq!(
        lines,
        [
            "1 miss: no kernel of this job is stored",
            "    square_# (Square) for net/Square_1, like square_# but for",
            "      inputs[0].shape: [1, 4] -> [1, 7]",
        ]
    );
    // Of many, few have lines.
    let many: Vec<Request> = (30..80)
        .map(|shape| Request::new(descriptor("net/any", ["Square", "Abs"][shape % 2], &[&[shape as i64, 5]])))
        .collect();
    let lines = bench.lines(&many, false);
    assert_eq!(
        (lines.len(), lines[9].as_str()),
        (10, "    and 46 more: Abs (23), Square (23)"),
        "{lines:#?}"
    );
    assert_eq!(bench.lines(&many, true).len(), 101);
}

#[test]
fn an_empty_store_and_none() {
    let bench = Bench::new();
    assert_eq!(bench.lines(&network(), false), ["60 misses: there is no store at `DIR/store`"]);
    let other = Request::new(descriptor("net/other", "Neg", &[&[3]]));
    bench.engine().build(&[other]).unwrap();
    assert_eq!(
        bench.lines(&network(), false),
        ["60 misses: no kernel of these operators is stored for cpu", "    Abs (20), Relu (20), Square (20)",]
    );
}

/// All that can happen at once still fits on a screen.
#[test]
fn many_causes_are_few_lines() {
    let bench = Bench::filled();
    let mut requests = network();
    for (at, request) in requests.iter_mut().enumerate() {
        request.spec.options.insert("precision".to_owned(), format!("p{}", at % 12).into());
    }
    requests.push(Request::new(descriptor("net/other", "Neg", &[&[3]])));
    bench.backend.upgrade("2,3,4,5,6,7,8,9");
    let lines = bench.lines(&requests, false);
    assert!(lines.len() <= 24, "{lines:#?}");
    assert_eq!(lines.last().unwrap(), "41 misses of 9 other causes: --all lists them", "{lines:#?}");
    let all = bench.lines(&requests, true);
    assert_eq!(
        all.iter().filter(|line| line.contains("misses: ") || line.starts_with("1 miss: ")).count(),
        13
    );
}
