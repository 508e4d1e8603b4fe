//! A framework's kernel and an own one under the same name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_framework_cache::FrameworkFiles;
use opkeep_kernel_meta::{FileContent, KernelFileKind, KernelFiles, View};
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::caches::CachedKernelFiles;
use opkeep_testkit::elf::host_object;

/// An own kernel, different in each version.
#[derive(Clone, Debug)]
pub(crate) struct OwnKernel {
    pub(crate) slot: String,
    pub(crate) stem: String,
    pub(crate) files: [Vec<u8>; 3],
    pub(crate) for_chip: bool,
    pub(crate) debug: bool,
}

impl OwnKernel {
    /// A kernel for the chip, under the name of `kept`.
    pub(crate) fn of(chip: Chip, kept: &CachedKernelFiles, version: u32) -> Self {
        let pair = Kernel::new(chip, &kept.stem).stamp(&format!("ours, version {version}")).build();
        Self::new(kept, pair.object, pair.json)
    }

    /// A kernel for this host.
    pub(crate) fn on_host(kept: &CachedKernelFiles, version: u32) -> Self {
        let symbol = format!("{}__kernel0", kept.stem);
        let object = host_object(&[&symbol], &format!("ours, version {version}"));
        let json = format!(
            r#"{{"binFileName": "{}", "binFileSuffix": ".o", "blockDim": 1, "kernelName": "{symbol}",
                "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "{}"}}"#,
            kept.stem,
            Digest::of(&object)
        );
        Self { for_chip: false, ..Self::new(kept, object, json.into()) }
    }

    fn new(kept: &CachedKernelFiles, object: Vec<u8>, json: Vec<u8>) -> Self {
        let info = kept.info.clone().unwrap_or_default();
        let slot = format!("Default/{}", kept.stem);
        Self { slot, stem: kept.stem.clone(), files: [object, json, info], for_chip: true, debug: false }
    }

    pub(crate) fn files(&self) -> KernelFiles<'_> {
        let [object, json, info] = self.files.each_ref().map(|bytes| FileContent::of(bytes));
        let (for_chip, debug) = (self.for_chip, self.debug);
        KernelFiles { slot: &self.slot, stem: &self.stem, object, json, info, for_chip, debug }
    }

    /// Whether the directory holds its object and its description.
    pub(crate) fn is_in(&self, dir: &Path) -> bool {
        [KernelFileKind::Object, KernelFileKind::Json].iter().all(|part| {
            let name = format!("{}{}", self.stem, part.suffix());
            fs::read(dir.join(name)).is_ok_and(|found| found == self.files[*part as usize])
        })
    }
}

/// A description with MindSpore's additions.
pub(crate) fn extended(json: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(json.to_vec()).unwrap();
    text.replacen('{', r#"{"build_result": "{}", "#, 1).into_bytes()
}

/// Every file below `top`, by its bytes.
pub(crate) fn all_bytes(top: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(all_bytes(&path));
        } else if kind.is_file() {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found
}

/// The names and bytes of a directory's files that are not our own notes.
pub(crate) fn kernels(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_note = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with(".opkeep");
    let mut files: Vec<_> = all_bytes(dir).into_iter().filter(|(path, _)| !is_note(path)).collect();
    files.sort();
    files
}

/// The view of rank 0 below `base`, which creates nothing yet.
pub(crate) fn view(base: &Path) -> View {
    View::of(base, "0").unwrap().with_foreign_files(Arc::new(FrameworkFiles))
}
