//! When a compile is tried again, and when not.

use std::path::{Path, PathBuf};

use opkeep_backend_ascend::Driver;
use opkeep_testkit::toolkit::{Fault, Rule};

use crate::common::Place;
use crate::drivers::{Bench, square};

pub(crate) fn locks() {
    let place = Place::new();
    let bench = Bench::of(place, Driver::Workers);
    bench.rules(&[Rule::new(Fault::Crash).times(1)]);
    let (work, failed) = bench.compile(&square());
    failed.unwrap_err();
    // The same work directory would have the dead one's lock in it; another attempt has directories of its own.
    let left = walk(work.path());
    assert!(left.iter().any(|path| path.ends_with("kernel_meta.lock")), "{left:?}");
    bench.made(&square());
}

pub(crate) fn again() {
    for (driver, bench) in Bench::each() {
        let busy = || {
            let message = "Another process is using this dir, kernel_meta.lock".to_owned();
            Rule::new(Fault::Fail { code: "E00000".to_owned(), message })
        };
        bench.rules(&[busy().times(1)]);
        bench.made(&square());
        assert_eq!(bench.compiles(), 2, "{driver:?}");
        bench.rules(&[busy()]);
        let error = bench.error(&square());
        assert!(error.contains("Another process is using this dir"), "{driver:?}: {error}");
        assert_eq!(bench.compiles(), 4, "{driver:?}: it is tried once more, and not for ever");
        // A compile that cannot succeed is not tried again.
        let fail = Fault::Fail { code: "E80012".to_owned(), message: "no".to_owned() };
        bench.rules(&[Rule::new(fail)]);
        bench.error(&square());
        assert_eq!(bench.compiles(), 5, "{driver:?}");
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
