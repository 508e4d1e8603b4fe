//! A directory with one outdated kernel of ours, or of a framework, and the files of a framework around it.

#![expect(clippy::disallowed_methods, reason = "tests make and damage files by hand")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use opkeep_digest::Digest;
use opkeep_framework_cache::FrameworkFiles;
use opkeep_fs::{Fs, Watcher};
use opkeep_kernel_meta::{
    FileContent, ForeignFiles, KernelFiles, LeaveForeign, RetiredKernel, StoredKernel, StoredKernels, View,
    ViewError, ViewReport,
};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::caches::{CachedKernelFiles, Rank};
use tempfile::TempDir;

/// The kernels of a framework: one with the name of ours, one with another name, and one that replaces the first.
static THEIRS: LazyLock<[CachedKernelFiles; 3]> = LazyLock::new(|| {
    let [first, second] = [1, 2].map(|elements| Rank::new(0).square(elements));
    let newer = Kernel::new(Chip::Ascend910, &first.stem).stamp("theirs, newer").build();
    let newer = CachedKernelFiles { object: newer.object, json: newer.json, ..first.clone() };
    [first, second, newer]
});
/// Three versions of our kernel, each an object and a description.
static OURS: LazyLock<[[Vec<u8>; 2]; 3]> = LazyLock::new(|| {
    [1, 2, 3].map(|version| {
        let kernel = Kernel::new(Chip::Ascend910, stem()).stamp(&format!("ours, version {version}")).build();
        [kernel.object, kernel.json]
    })
});

/// The name of the kernel.
pub(crate) fn stem() -> &'static str {
    &THEIRS[0].stem
}

/// The files of the framework's newer kernel.
pub(crate) fn newer() -> [&'static [u8]; 2] {
    [&THEIRS[2].object, &THEIRS[2].json]
}

/// A description with additions of MindSpore.
pub(crate) fn extended(json: &[u8], addition: &str) -> Vec<u8> {
    let text = String::from_utf8(json.to_vec()).unwrap();
    text.replacen('{', &format!(r#"{{"build_result": "{addition}", "#), 1).into_bytes()
}

/// The state of the files under the kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Ours.
    Ours,
    /// Ours, and MindSpore extended the description.
    Extended,
    /// Written by a framework with the bytes that a build then found right.
    Adopted,
    /// Extended, and another program damaged the object.
    DamagedObject,
    /// Extended, with a link in the place of the descriptor.
    LinkedInfo,
    /// The object is a link to its bytes.
    LinkedObject,
    /// The description is a link to its bytes.
    LinkedJson,
    /// A framework's.
    Foreign,
}

pub(crate) const STARTS: [Start; 8] = [
    Start::Ours,
    Start::Extended,
    Start::Adopted,
    Start::DamagedObject,
    Start::LinkedInfo,
    Start::LinkedObject,
    Start::LinkedJson,
    Start::Foreign,
];

/// The quarantine of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// There is none.
    None,
    Works,
    /// A file has the name of its directory.
    Blocked,
}

pub(crate) const KEEPERS: [Keeper; 3] = [Keeper::None, Keeper::Works, Keeper::Blocked];

/// The store of the first version.
struct Store;

impl StoredKernels for Store {
    fn named(&self, _: &str) -> Vec<StoredKernel> {
        let [object, json] = &OURS[0];
        vec![StoredKernel { object: Digest::of(object), json: json.clone() }]
    }
}

/// A directory, and the state from which each build starts.
pub(crate) struct Scene {
    base: TempDir,
    pub(crate) keeper: Keeper,
    start: Start,
    before: DirSnapshot,
    /// The bytes that other programs wrote.
    pub(crate) precious: Vec<Vec<u8>>,
}

impl Scene {
    /// Builds the first version, and lets other programs act on it. `is_lost` is whether the manifest is lost then.
    pub(crate) fn new(start: Start, keeper: Keeper, is_lost: bool) -> Self {
        let base = tempfile::tempdir().unwrap();
        let mut scene = Self { base, keeper, start, before: DirSnapshot::default(), precious: Vec::new() };
        let [object, json] = &OURS[0];
        let [theirs, other, _] = &*THEIRS;
        fs::create_dir_all(scene.dir()).unwrap();
        match start {
            Start::Adopted => {
                fs::write(scene.path("o"), object).unwrap();
                fs::write(scene.path("json"), json).unwrap();
                scene.precious = vec![object.clone(), json.clone()];
            }
            Start::Foreign => {
                theirs.write(&scene.dir()).unwrap();
                scene.precious = vec![theirs.object.clone(), theirs.json.clone()];
            }
            _ => {}
        }
        scene.build(1, None).unwrap();
        let extended = extended(json, "{}");
        if matches!(start, Start::Extended | Start::DamagedObject | Start::LinkedInfo) {
            fs::write(scene.path("json"), &extended).unwrap();
            scene.precious.push(extended);
        }
        match start {
            Start::DamagedObject => {
                fs::write(scene.path("o"), &object[..200]).unwrap();
                scene.precious.push(object[..200].to_vec());
            }
            Start::LinkedInfo => scene.link("info"),
            Start::LinkedObject => scene.link("o"),
            Start::LinkedJson => scene.link("json"),
            _ => {}
        }
        other.write(&scene.dir()).unwrap();
        scene.precious.extend([other.object.clone(), other.json.clone()]);
        if is_lost {
            fs::remove_file(scene.dir().join(".opkeep-manifest")).unwrap();
        }
        if keeper == Keeper::Blocked {
            fs::write(scene.dir().with_extension("opkeep-quarantine"), "in the way").unwrap();
        }
        scene.before = DirSnapshot::of(scene.base.path()).unwrap();
        scene
    }

    /// Replaces a file by a link to its bytes.
    fn link(&mut self, suffix: &str) {
        let target = self.base.path().join(format!("linked.{suffix}"));
        fs::rename(self.path(suffix), &target).unwrap();
        symlink(&target, self.path(suffix)).unwrap();
        self.precious.push(fs::read(target).unwrap());
    }

    pub(crate) fn restore(&self) {
        self.before.restore(self.base.path()).unwrap();
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta")
    }

    pub(crate) fn root(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn path(&self, suffix: &str) -> PathBuf {
        self.dir().join(format!("{}.{suffix}", stem()))
    }

    fn view(&self, watcher: Option<Arc<dyn Watcher>>) -> View {
        let foreign: Arc<dyn ForeignFiles> = match self.keeper {
            Keeper::None => Arc::new(LeaveForeign),
            Keeper::Works | Keeper::Blocked => Arc::new(FrameworkFiles),
        };
        let view = View::at(&self.dir()).unwrap().with_foreign_files(foreign);
        match watcher {
            Some(watcher) => view.with_fs(Fs::new().with_watcher(watcher)),
            None => view,
        }
    }

    /// Builds a version from 1 to 3. In place of version 0, which cannot be built, the kernel is withdrawn.
    pub(crate) fn build(
        &self,
        version: usize,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<ViewReport, ViewError> {
        let view = self.view(watcher);
        let Some(version) = version.checked_sub(1) else {
            let retired = RetiredKernel { stem: stem(), keep: Some("another") };
            return view.replace_adopting(&[], &[retired], &Store);
        };
        let [object, json] = &OURS[version];
        let kernel = KernelFiles {
            slot: "Default/op",
            stem: stem(),
            object: FileContent::of(object),
            json: FileContent::of(json),
            info: FileContent::of(THEIRS[0].info.as_ref().unwrap()),
            for_chip: true,
            debug: false,
        };
        view.replace_adopting(&[kernel], &[], &Store)
    }

    /// Returns whether a framework finds a kernel of ours other than `version`: the description states the digest of the
    /// object.
    pub(crate) fn finds_outdated(&self, version: usize) -> bool {
        let Some([object, json]) = self.files() else { return false };
        let stated: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
        let is_ours = (1..=3).filter(|it| *it != version).any(|it| object == OURS[it - 1][0]);
        is_ours && stated["sha256"] == Digest::of(&object).to_string()
    }

    /// Returns whether the kernel of the version, and no other, is found.
    pub(crate) fn is_current(&self, version: usize) -> bool {
        match version.checked_sub(1) {
            Some(version) => self.files().is_some_and(|files| files == OURS[version]),
            None => !self.finds_outdated(0),
        }
    }

    /// Returns whether another program's files or links keep the kernel from its name.
    pub(crate) fn is_taken(&self) -> bool {
        match self.start {
            Start::LinkedObject | Start::LinkedJson | Start::Foreign => true,
            Start::DamagedObject => self.keeper != Keeper::Works,
            _ => false,
        }
    }

    fn files(&self) -> Option<[Vec<u8>; 2]> {
        Some([fs::read(self.path("o")).ok()?, fs::read(self.path("json")).ok()?])
    }
}

/// The contents of all files below `root`.
pub(crate) fn contents(root: &Path) -> Vec<Vec<u8>> {
    let snapshot = DirSnapshot::of(root).unwrap();
    snapshot.files().map(|path| fs::read(root.join(path)).unwrap()).collect()
}
