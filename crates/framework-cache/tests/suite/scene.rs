//! A directory of one kernel, and another program that writes there.

#![expect(clippy::disallowed_methods, reason = "tests make and damage caches by hand")]

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use opkeep_framework_cache::restore::{RestoreOptions, RestoreReport, newest, quarantines, restore};
use opkeep_fs::FsCall;
use opkeep_kernel_meta::ViewReport;
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::at_each_change;
use opkeep_testkit::caches::{CachedKernelFiles, Rank};
use tempfile::TempDir;

use crate::common::owned::{OwnKernel, all_bytes, extended, kernels, view};

/// A directory of one kernel.
pub(super) struct Scene {
    pub(super) base: TempDir,
    pub(super) foreign: CachedKernelFiles,
}

impl Scene {
    pub(super) fn new() -> Self {
        let scene = Self { base: tempfile::tempdir().unwrap(), foreign: Rank::new(0).square(1) };
        fs::create_dir_all(scene.path("o").parent().unwrap()).unwrap();
        scene
    }

    pub(super) fn starting(start: Start) -> Self {
        let scene = Self::new();
        match start {
            // Foreign files are there from the first call on.
            Start::Nothing => fs::create_dir_all(scene.path("o").parent().unwrap()).unwrap(),
            Start::Foreign => scene.foreign.write(scene.path("o").parent().unwrap()).unwrap(),
            _ => drop(scene.build(1, || {})),
        }
        match start {
            Start::OwnWithoutInfo => fs::remove_file(scene.path("info")).unwrap(),
            // Its own description is missing.
            Start::OwnWithThatObject => {
                scene.build(2, || {});
                fs::remove_file(scene.path("json")).unwrap();
            }
            Start::ThatDescription => {
                scene.build(2, || {});
                fs::write(scene.path("json"), extended(&scene.own(2).files[1])).unwrap();
                fs::remove_file(scene.path("o")).unwrap();
            }
            _ => {}
        }
        scene
    }

    pub(super) fn path(&self, suffix: &str) -> PathBuf {
        self.base.path().join(format!("rank_0/kernel_meta/{}.{suffix}", self.foreign.stem))
    }

    pub(super) fn read(&self, suffix: &str) -> Option<Vec<u8>> {
        fs::read(self.path(suffix)).ok()
    }

    pub(super) fn own(&self, version: u32) -> OwnKernel {
        OwnKernel::of(Chip::Ascend910, &self.foreign, version)
    }

    /// Builds a version, in place of anything; `watch` is called before each change.
    pub(super) fn build(&self, version: u32, watch: impl Fn() + Send + Sync + 'static) -> ViewReport {
        self.build_watched(version, move |_| watch())
    }

    pub(super) fn build_watched(
        &self,
        version: u32,
        watch: impl Fn(&FsCall<'_>) + Send + Sync + 'static,
    ) -> ViewReport {
        let view = view(self.base.path()).with_replace(true).with_fs(at_each_change(watch));
        view.materialise(&[self.own(version).files()]).unwrap()
    }

    pub(super) fn restore(&self, watch: &dyn Fn()) -> RestoreReport {
        let [run] = &newest(quarantines(self.base.path()).unwrap())[..] else { panic!("one run") };
        restore(run, &RestoreOptions::new(false).with_progress(&|_| watch())).unwrap()
    }

    pub(super) fn precious(&self, start: Start) -> Vec<Vec<u8>> {
        match start {
            Start::Foreign => vec![self.foreign.object.clone(), self.foreign.json.clone()],
            Start::ThatDescription => vec![extended(&self.own(2).files[1])],
            _ => Vec::new(),
        }
    }

    pub(super) fn quarantine(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta.opkeep-quarantine")
    }

    /// Nothing can be quarantined from now on.
    pub(super) fn block_quarantine(&self) {
        fs::write(self.quarantine(), "in the way").unwrap();
    }
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        all_bytes(self.base.path()).iter().any(|(_, found)| found == bytes)
    }

    pub(super) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kernels(self.path("o").parent().unwrap())
    }

    /// The names of displaced files.
    pub(super) fn displaced(&self) -> Vec<String> {
        let dir = fs::read_dir(self.path("o").parent().unwrap()).unwrap();
        let names = dir.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(".opkeep-old-")).collect();
        names.sort();
        names
    }

    /// Fails if a description stands beside another kernel's object, unless `racer` mixed them.
    pub(super) fn is_no_mixture(&self, when: &str, racer: Option<&Racer>) {
        assert!(!self.is_mixture(racer), "{when}");
    }

    pub(super) fn is_mixture(&self, racer: Option<&Racer>) -> bool {
        let (object, json) = (self.read("o"), self.read("json"));
        if racer.is_some_and(|racer| racer.left([&object, &json])) {
            return false;
        }
        let own = [1, 2].map(|version| self.own(version).files).map(|[object, json, _]| (object, json));
        let foreign = (self.foreign.object.clone(), self.foreign.json.clone());
        let (Some(object), Some(json)) = (object, json) else { return false };
        let is_described = |description: &Vec<u8>| json == *description || json == extended(description);
        json == b"{}"
            || own.into_iter().chain([foreign]).any(|(own, json)| object != own && is_described(&json))
    }
}

/// The way in which another program writes a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// If the name is free.
    Create,
    /// In place.
    Truncate,
    /// By another file that gets the name.
    Rename,
    /// After removing what has the name: the new file may get its inode.
    Again,
}

/// Another program, which writes one file at a certain call.
pub(super) struct Racer {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) way: Way,
    pub(super) at: usize,
    pub(super) calls: AtomicUsize,
    /// The object and the description after its write.
    pub(super) wrote: Mutex<Option<[Option<Vec<u8>>; 2]>>,
}

impl Racer {
    pub(super) fn new(path: PathBuf, bytes: &[u8], way: Way, at: usize) -> Arc<Self> {
        let (calls, wrote) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { path, bytes: bytes.to_vec(), way, at, calls, wrote })
    }

    pub(super) fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) != self.at {
            return;
        }
        match self.way {
            Way::Create => match File::create_new(&self.path) {
                Ok(mut file) => file.write_all(&self.bytes).unwrap(),
                Err(_) => return,
            },
            Way::Truncate if !self.path.exists() => return,
            Way::Truncate => fs::write(&self.path, &self.bytes).unwrap(),
            Way::Again => {
                let _ = fs::remove_file(&self.path);
                fs::write(&self.path, &self.bytes).unwrap();
            }
            Way::Rename => {
                let other = self.path.with_extension("other");
                fs::write(&other, &self.bytes).unwrap();
                fs::rename(other, &self.path).unwrap();
            }
        }
        let found = ["o", "json"].map(|suffix| fs::read(self.path.with_extension(suffix)).ok());
        *self.wrote.lock().unwrap() = Some(found);
    }

    /// Whether it wrote; asserts that its file still exists.
    pub(super) fn wrote(&self, when: &str) -> bool {
        let wrote = self.wrote.lock().unwrap().is_some();
        assert!(!wrote || fs::read(&self.path).is_ok_and(|found| found == self.bytes), "{when}: it is lost");
        wrote
    }

    /// Whether these are the object and the description after its write: then it caused the mixture.
    pub(super) fn left(&self, found: [&Option<Vec<u8>>; 2]) -> bool {
        self.wrote.lock().unwrap().as_ref().is_some_and(|left| left.each_ref() == found)
    }

    /// Whether this many calls came after the one at which it writes.
    pub(super) fn is_past(&self, calls: usize) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at + calls
    }
}

/// The content of the directory before the build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Start {
    Nothing,
    OwnKernel,
    OwnWithoutInfo,
    /// Its object is that of the next version, too.
    OwnWithThatObject,
    /// Its description is that of the next version, extended, and its object is missing.
    ThatDescription,
    Foreign,
}

pub(super) const STARTS: [Start; 6] = [
    Start::Nothing,
    Start::OwnKernel,
    Start::OwnWithoutInfo,
    Start::OwnWithThatObject,
    Start::ThatDescription,
    Start::Foreign,
];

/// The file that another program writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Foreign,
    OwnKernel(u32),
    Extended(u32),
    Nonsense,
}

impl Operation {
    pub(super) fn bytes(self, scene: &Scene, suffix: &str) -> Vec<u8> {
        let own = |version| {
            let [object, json, info] = scene.own(version).files;
            match suffix {
                "o" => object,
                "json" => json,
                _ => info,
            }
        };
        match self {
            Self::Foreign if suffix == "o" => scene.foreign.object.clone(),
            Self::Foreign => scene.foreign.json.clone(),
            Self::OwnKernel(version) => own(version),
            Self::Extended(version) => extended(&own(version)),
            Self::Nonsense => b"{}".to_vec(),
        }
    }
}
