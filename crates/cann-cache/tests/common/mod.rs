//! A cache of CANN that a test writes file by file, with ages.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![expect(clippy::disallowed_methods, reason = "tests make caches by hand")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_cann_cache::{GcOptions, GcReport, gc};
use opkeep_store::LimitSettings;

/// A cache in a temporary directory.
pub(crate) struct Cache {
    base: tempfile::TempDir,
}

impl Cache {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("kernel_cache/Ascend910B2")).unwrap();
        Self { base }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.base.path().join("kernel_cache/Ascend910B2")
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    /// A file that was written and used `minutes` ago.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>, minutes: u64) {
        let path = self.dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        set_age(&path, minutes, minutes);
    }

    /// A kernel with an object of `bytes`, last used `minutes` ago and written a day ago.
    pub(crate) fn kernel(&self, stem: &str, bytes: usize, minutes: u64) {
        self.put(&format!("{stem}.o"), vec![1; bytes], 1440);
        self.put(&format!("{stem}.json"), json(stem), 1440);
        set_age(&self.dir().join(format!("{stem}.json")), minutes, 1440);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.dir().join(name)).is_ok()
    }

    /// All files, also in directories below, without the lock of evictions.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        self.sizes().into_keys().collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sizes().values().sum()
    }

    fn sizes(&self) -> BTreeMap<String, u64> {
        let mut sizes = BTreeMap::new();
        collect(&self.dir(), "", &mut sizes);
        sizes.remove("op_cache_file_del.lock");
        sizes
    }

    pub(crate) fn gc<'a>(&self, change: impl FnOnce(&mut GcOptions<'a>)) -> GcReport {
        run(&self.dir(), change)
    }
}

pub(crate) fn run<'a>(dir: &Path, change: impl FnOnce(&mut GcOptions<'a>)) -> GcReport {
    let mut options = GcOptions::new(&UNSET);
    change(&mut options);
    gc(dir, &options).unwrap()
}

/// An environment without limits.
pub(crate) static UNSET: LimitSettings = LimitSettings::new();

/// The description of a kernel whose object has the same name.
pub(crate) fn json(stem: &str) -> String {
    format!(r#"{{"binFileName":"{stem}","binFileSuffix":".o","kernelName":"{stem}__kernel0","sha256":""}}"#)
}

/// Sets the times of the last use and of writing, in minutes before now.
pub(crate) fn set_age(path: &Path, used: u64, written: u64) {
    let ago = |minutes: u64| SystemTime::now() - Duration::from_secs(60 * minutes);
    let times = fs::FileTimes::new().set_accessed(ago(used)).set_modified(ago(written));
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

fn collect(dir: &Path, before: &str, sizes: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), sizes);
        } else {
            sizes.insert(name, entry.metadata().unwrap().len());
        }
    }
}
