//! A package in a temporary directory, to be damaged.
#![allow(dead_code, reason = "each binary uses its own part")]
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use opkeep_cann_package::{Finding, PackageDir, PackageError, VerifiedPackage, VerifyOptions};
use opkeep_fs::CancelToken;
use opkeep_testkit::toolkit::package::VendorPackage;
use serde_json::Value;
use tempfile::TempDir;

/// A vendor's directory.
pub(crate) struct Package {
    dir: TempDir,
    vendor: VendorPackage,
}

impl Package {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let vendor = VendorPackage::write(&dir.path().join("vendors/vendor")).unwrap();
        Self { dir, vendor }
    }

    /// The vendor's directory.
    pub(crate) fn path(&self) -> PathBuf {
        self.vendor.path().to_owned()
    }

    /// A file below `op_impl/ai_core/tbe`.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.vendor.file(path)
    }

    /// A directory beside the vendors.
    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.file(path)).unwrap()
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.read(path)).unwrap()
    }

    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut content = self.json(path);
        change(&mut content);
        self.write(path, serde_json::to_vec_pretty(&content).unwrap());
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.file(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    /// The path of a kernel of `AddCustom`, without an extension.
    pub(crate) fn add(unit: &str, dtype: &str) -> String {
        VendorPackage::add(unit, dtype)
    }

    pub(crate) fn verify(&self) -> VerifiedPackage {
        let mut all = verify(&self.path()).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// The findings, apart from notes.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.verify().findings
    }
}

pub(crate) fn verify(path: &Path) -> Result<Vec<VerifiedPackage>, PackageError> {
    let cancel = CancelToken::new();
    Ok(PackageDir::open(path, &cancel)?.verify(&VerifyOptions::new(NonZeroUsize::new(2).unwrap(), &cancel)))
}

/// The name of a kernel.
pub(crate) fn stem(op_type: &str, dtype: &str) -> String {
    VendorPackage::stem(op_type, dtype)
}
