//! A cache that a test writes file by file.
#![expect(clippy::disallowed_methods, reason = "tests lay out caches by hand")]
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use opkeep_framework_cache::scan::{CacheScan, Item, ScanOptions, find, scan};
use opkeep_testkit::ascend::Pair;
use opkeep_testkit::caches::age;

pub(crate) struct Cache {
    pub(crate) base: tempfile::TempDir,
    pub(crate) dir: PathBuf,
}

impl Cache {
    pub(crate) fn new(dir: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join(dir);
        fs::create_dir_all(&dir).unwrap();
        Self { base, dir }
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir.join(name), bytes).unwrap();
        age(&self.dir.join(name)).unwrap();
    }

    pub(crate) fn put(&self, pair: &Pair, json: &str, object: &str) {
        self.write(json, &pair.json);
        self.write(object, &pair.object);
    }

    pub(crate) fn scan_of(&self) -> CacheScan {
        self.scan_observed(&|_, _| {})
    }

    pub(crate) fn scan_observed(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> CacheScan {
        let places = find(self.base.path()).unwrap().caches;
        let mut options = ScanOptions::new(NonZeroUsize::MIN);
        options.progress = progress;
        scan(&places[0], &options).unwrap()
    }

    /// The only item.
    pub(crate) fn only(&self) -> Item {
        let mut scan = self.scan_of();
        assert_eq!(scan.items.len(), 1, "{:?}", scan.items);
        scan.items.remove(0)
    }

    /// All items by name, with their states and files.
    pub(crate) fn states(&self) -> Vec<(String, &'static str, Vec<String>)> {
        let scan = self.scan_of();
        scan.items.iter().map(|item| (item.name.clone(), item.state_name(), item.files())).collect()
    }
}
