//! Kernels that are easy to tell apart, and checks of directories.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![expect(clippy::disallowed_methods, reason = "tests look at what was written")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

pub(crate) mod broken;
pub(crate) mod owned;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_framework_cache::FrameworkFiles;
use opkeep_kernel_meta::{FileContent, KernelFileKind, KernelFiles, View, ViewError};

/// A kernel whose three files agree with each other.
#[derive(Clone, Debug)]
pub(crate) struct TestKernel {
    pub(crate) slot: String,
    pub(crate) stem: String,
    pub(crate) object: Vec<u8>,
    pub(crate) json: Vec<u8>,
    pub(crate) info: Vec<u8>,
}

impl TestKernel {
    /// The kernel `stem`, different in each version. Versions also differ in length.
    pub(crate) fn new(stem: &str, version: usize) -> Self {
        Self::sized(stem, version, 3000 + version)
    }

    pub(crate) fn sized(stem: &str, version: usize, bytes: usize) -> Self {
        let object = format!("object {stem} {version}\n")
            .into_bytes()
            .into_iter()
            .cycle()
            .take(bytes)
            .collect::<Vec<_>>();
        let digest = Digest::of(&object);
        let json = format!(
            "{{\n    \"binFileName\": \"{stem}\",\n    \"binFileSuffix\": \".o\",\n    \"blockDim\": {version},\n    \
             \"kernelName\": \"{stem}__kernel0\",\n    \"sha256\": \"{digest}\"\n}}"
        );
        let info = format!("{{\"full_name\": \"Default/{stem}\", \"version\": {version}}}\n");
        let slot = format!("Default/{stem}");
        Self { slot, stem: stem.to_owned(), object, json: json.into(), info: info.into() }
    }

    pub(crate) fn files(&self) -> KernelFiles<'_> {
        KernelFiles {
            slot: &self.slot,
            stem: &self.stem,
            object: FileContent::of(&self.object),
            json: FileContent::of(&self.json),
            info: FileContent::of(&self.info),
            for_chip: true,
            debug: false,
        }
    }

    pub(crate) fn bytes(&self, part: KernelFileKind) -> &[u8] {
        match part {
            KernelFileKind::Object => &self.object,
            KernelFileKind::Json => &self.json,
            KernelFileKind::Info => &self.info,
        }
    }

    pub(crate) fn name(&self, part: KernelFileKind) -> String {
        format!("{}{}", self.stem, part.suffix())
    }

    /// Asserts that the directory has the three files, byte for byte.
    #[track_caller]
    pub(crate) fn assert_in(&self, dir: &Path) {
        for part in KernelFileKind::ALL {
            let name = self.name(part);
            let found = fs::read(dir.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(found == self.bytes(part), "{name} is {:?}", String::from_utf8_lossy(&found));
        }
    }

    pub(crate) fn is_absent_from(&self, dir: &Path) -> bool {
        KernelFileKind::ALL.iter().all(|&part| fs::symlink_metadata(dir.join(self.name(part))).is_err())
    }
}

pub(crate) fn all(kernels: &[TestKernel]) -> Vec<KernelFiles<'_>> {
    kernels.iter().map(TestKernel::files).collect()
}

/// The identity and the state of a file: device, inode, size, and both times.
pub(crate) type State = (u64, u64, u64, i64, i64, i64, i64);

pub(crate) fn state(path: &Path) -> State {
    try_state(path).unwrap()
}

pub(crate) fn try_state(path: &Path) -> Option<State> {
    let m = fs::symlink_metadata(path).ok()?;
    Some((m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()))
}

/// The kernels' files in the directory: all names without a leading dot.
pub(crate) fn states(dir: &Path) -> BTreeMap<String, State> {
    names(dir)
        .into_iter()
        .filter(|name| !name.starts_with('.'))
        .map(|name| (name.clone(), state(&dir.join(name))))
        .collect()
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that each `.json` is complete and beside the object that it describes, as frameworks expect. Returns their number.
#[track_caller]
pub(crate) fn assert_consistent(dir: &Path) -> usize {
    let names = names(dir);
    let stems: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".json")).collect();
    for stem in &stems {
        assert!(!stem.starts_with('.'), "MindSpore would parse `{stem}.json`");
        let json = fs::read(dir.join(format!("{stem}.json"))).unwrap();
        let object =
            fs::read(dir.join(format!("{stem}.o"))).unwrap_or_else(|error| panic!("{stem}.o: {error}"));
        let json: serde_json::Value =
            serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{stem}.json: {error}"));
        assert_eq!(json["sha256"], Digest::of(&object).to_string(), "{stem}.o is not the one of {stem}.json");
    }
    stems.len()
}

pub(crate) fn temps(dir: &Path) -> Vec<String> {
    names(dir).into_iter().filter(|name| name.starts_with(".opkeep-tmp-")).collect()
}

/// The view of a rank, which judges foreign files as a build does.
pub(crate) fn open_view(base: &Path, rank: &str) -> Result<View, ViewError> {
    Ok(View::open(base, rank)?.with_foreign_files(Arc::new(FrameworkFiles)))
}
