//! Damaged caches, and their repair.

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use opkeep_framework_cache::quarantine::{
    QuarantineOptions, QuarantineProgress, QuarantineReport, RepairError, RunId, quarantine,
};
use opkeep_framework_cache::scan::{CacheDir, CacheScan, ScanOptions, find, scan};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::caches::{CachedKernelFiles, Rank, age, cann_kernel};

/// Every kind of cache with intact kernels, damaged kernels and foreign files. All of them are old.
pub(crate) fn broken_caches(base: &Path) {
    let cut = |path: &Path| fs::write(path, &fs::read(path).unwrap()[..100]).unwrap();
    for number in [0, 1] {
        let rank = Rank::new(number);
        let dir = rank.dir(base);
        let kernels: Vec<_> = (1..=6).map(|elements| rank.square(elements)).collect();
        kernels.iter().for_each(|kernel| kernel.write(&dir).unwrap());
        let path = |at: usize, suffix: &str| dir.join(format!("{}.{suffix}", kernels[at].stem));
        cut(&path(0, "json"));
        fs::write(path(1, "json"), "").unwrap();
        cut(&path(2, "o"));
        fs::remove_file(path(3, "o")).unwrap();
        fs::remove_file(path(4, "json")).unwrap();
        fs::remove_file(path(4, "o")).unwrap();
        fs::set_permissions(path(0, "info"), fs::Permissions::from_mode(0o400)).unwrap();
        fs::create_dir(dir.join("tbe_prebuild_res")).unwrap();
        fs::write(dir.join("tbe_prebuild_res/torn.json"), "{\"a\": ").unwrap();
        fs::write(dir.join("tbe_prebuild_res/whole.json"), "{}").unwrap();
        for (name, bytes) in [("file.lock", ""), ("README", "?"), ("x_loc.json", "{"), ("odd name.json", "{")]
        {
            fs::write(dir.join(name), bytes).unwrap();
        }
        fs::write(dir.join(std::ffi::OsStr::from_bytes(b"\xff.json")), "{").unwrap();
        symlink("/etc/passwd", dir.join("link.json")).unwrap();
        symlink("nowhere", dir.join("link.o")).unwrap();
    }
    let akg = base.join("akg_kernel_meta");
    fs::create_dir_all(akg.join("tbe")).unwrap();
    fs::write(akg.join("Fused_Add_1.json"), "").unwrap();
    fs::write(akg.join("tbe/Fused_Mul_1.json"), "{").unwrap();
    fs::write(akg.join("tbe/Fused_Mul_1.o"), "object").unwrap();

    let cann = base.join("kernel_cache/Ascend910B2");
    let kernels: Vec<_> = (0..5).map(|number| cann_kernel("Ascend910B2", number)).collect();
    kernels.iter().for_each(|kernel| kernel.write(&cann).unwrap());
    let path = |at: usize, rest: &str| cann.join(format!("{}{rest}", kernels[at].stem));
    cut(&path(0, ".json"));
    fs::write(path(0, ".h"), "header").unwrap();
    fs::write(path(0, ".lock"), "").unwrap();
    fs::remove_file(path(1, ".json")).unwrap();
    fs::write(path(2, "_pre.json"), "{\"pattern\": ").unwrap();
    fs::write(path(2, "_pre.lock"), "").unwrap();
    fs::write(path(3, ".o_1_2_3.temp"), "half").unwrap();
    fs::write(path(3, ".lock"), "").unwrap();
    fs::write(cann.join("te_gone_0.lock"), "").unwrap();
    fs::write(cann.join("op_cache_file_del.lock"), "").unwrap();
    age_all(base);
}

/// Dates all files an hour ago.
pub(crate) fn age_all(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        if meta.is_dir() {
            age_all(&path);
        } else if meta.is_file() {
            age(&path).unwrap();
        }
    }
}

pub(crate) fn scan_of(place: &CacheDir) -> CacheScan {
    let threads = NonZeroUsize::new(2).unwrap();
    scan(place, &ScanOptions::new(threads)).unwrap()
}

pub(crate) fn scan_all(base: &Path) -> Vec<CacheScan> {
    find(base).unwrap().caches.iter().map(scan_of).collect()
}

/// The number of findings below `base`.
pub(crate) fn findings(base: &Path) -> usize {
    scan_all(base).iter().flat_map(|scan| &scan.items).filter(|item| item.is_finding()).count()
}

/// The options of a test's repair.
pub(crate) struct Repair<'a> {
    pub(crate) run: RunId,
    pub(crate) force: bool,
    pub(crate) dry_run: bool,
    pub(crate) observe: &'a dyn Fn(QuarantineProgress),
}

impl Repair<'_> {
    pub(crate) fn new() -> Self {
        Self { run: RunId::now(), force: false, dry_run: false, observe: &|_| {} }
    }

    pub(crate) fn repair(&self, scan: &CacheScan) -> Result<QuarantineReport, RepairError> {
        let mut options = QuarantineOptions::new(&self.run);
        (options.force, options.dry_run, options.progress) = (self.force, self.dry_run, self.observe);
        quarantine(scan, &options)
    }

    /// Repairs all caches below `base`.
    pub(crate) fn repair_all(&self, base: &Path) -> Vec<QuarantineReport> {
        scan_all(base).iter().map(|scan| self.repair(scan).unwrap()).collect()
    }
}

/// A rank with a kernel whose `.json` is truncated, and an intact one.
pub(crate) struct DamagedRank {
    pub(crate) base: tempfile::TempDir,
    pub(crate) kernel: CachedKernelFiles,
}

impl DamagedRank {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let rank = Rank::new(0);
        let kernel = rank.square(1);
        rank.square(2).write(&rank.dir(base.path())).unwrap();
        kernel.write(&rank.dir(base.path())).unwrap();
        let damaged = Self { base, kernel };
        damaged.put("json", &damaged.kernel.json[..100]);
        damaged
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta")
    }

    pub(crate) fn path(&self, suffix: &str) -> PathBuf {
        self.dir().join(format!("{}.{suffix}", self.kernel.stem))
    }

    pub(crate) fn put(&self, suffix: &str, bytes: &[u8]) {
        fs::write(self.path(suffix), bytes).unwrap();
        age(&self.path(suffix)).unwrap();
    }

    /// Writes as careful frameworks do: another file takes the name.
    pub(crate) fn replace(&self, suffix: &str, bytes: &[u8]) {
        let temp = self.base.path().join(format!("new.{suffix}"));
        fs::write(&temp, bytes).unwrap();
        fs::rename(temp, self.path(suffix)).unwrap();
    }

    pub(crate) fn scan_of(&self) -> CacheScan {
        scan_of(&find(self.base.path()).unwrap().caches[0])
    }

    pub(crate) fn repair_while(&self, observe: &dyn Fn(QuarantineProgress)) -> QuarantineReport {
        Repair { observe, ..Repair::new() }.repair(&self.scan_of()).unwrap()
    }

    pub(crate) fn in_quarantine(&self) -> Vec<PathBuf> {
        let image = DirSnapshot::of(&self.base.path().join("rank_0/kernel_meta.opkeep-quarantine")).unwrap();
        let is_journal = |path: &Path| path.ends_with(".opkeep-journal");
        image.files().filter(|path| !is_journal(path)).map(Path::to_owned).collect()
    }
}
