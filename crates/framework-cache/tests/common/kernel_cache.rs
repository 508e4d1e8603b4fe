//! CANN's cache, file by file, with the ages that a test wants.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![expect(clippy::disallowed_methods, reason = "tests make caches by hand")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_framework_cache::gc::{GcOptions, GcReport, LimitSettings, gc};
use opkeep_framework_cache::scan::{CacheDir, Kind};

/// A cache of its own.
pub(crate) struct Cache {
    base: tempfile::TempDir,
}

impl Cache {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("kernel_cache/Ascend910B2")).unwrap();
        Self { base }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.base.path().join("kernel_cache/Ascend910B2")
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    /// A file that was written and used so many minutes ago.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>, minutes: u64) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        set_age(&path, minutes, minutes);
    }

    /// A kernel with an object of so many bytes, last used so many minutes ago and written a day ago.
    pub(crate) fn kernel(&self, stem: &str, bytes: usize, minutes: u64) {
        self.put(&format!("{stem}.o"), vec![1; bytes], 1440);
        self.put(&format!("{stem}.json"), json(stem), 1440);
        set_age(&self.folder().join(format!("{stem}.json")), minutes, 1440);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.folder().join(name)).is_ok()
    }

    /// All files, those in folders too, but for the lock of those who make room.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        self.sizes().into_keys().collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sizes().values().sum()
    }

    fn sizes(&self) -> BTreeMap<String, u64> {
        let mut sizes = BTreeMap::new();
        collect(&self.folder(), "", &mut sizes);
        sizes.remove("op_cache_file_del.lock");
        sizes
    }

    pub(crate) fn place(&self) -> CacheDir {
        place(&self.folder())
    }

    pub(crate) fn gc<'a>(&self, change: impl FnOnce(&mut GcOptions<'a>)) -> GcReport {
        run(&self.place(), change)
    }
}

pub(crate) fn place(folder: &Path) -> CacheDir {
    CacheDir { path: folder.to_owned(), kind: Kind::Cann, rank: None, soc: Some("Ascend910B2".to_owned()) }
}

pub(crate) fn run<'a>(place: &CacheDir, change: impl FnOnce(&mut GcOptions<'a>)) -> GcReport {
    static UNSET: LimitSettings = LimitSettings { max_op_cache_size: None, remain_cache_size_ratio: None };
    let mut options = GcOptions {
        dry_run: false,
        max_bytes: None,
        older_than: None,
        environment: &UNSET,
        watch: &|_| {},
        cancelled: &|| false,
    };
    change(&mut options);
    gc(place, &options).unwrap()
}

/// The description of a kernel whose object is called after it.
pub(crate) fn json(stem: &str) -> String {
    format!(r#"{{"binFileName":"{stem}","binFileSuffix":".o","kernelName":"{stem}__kernel0","sha256":""}}"#)
}

/// Dates a file: used and written so many minutes ago.
pub(crate) fn set_age(path: &Path, used: u64, written: u64) {
    let ago = |minutes: u64| SystemTime::now() - Duration::from_secs(60 * minutes);
    let times = fs::FileTimes::new().set_accessed(ago(used)).set_modified(ago(written));
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

fn collect(folder: &Path, before: &str, sizes: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), sizes);
        } else {
            sizes.insert(name, entry.metadata().unwrap().len());
        }
    }
}
