//! Kernels in the caller's store, which show which kernels are ours after the loss of the manifest.

use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;

use crate::KernelFileKind;
use crate::compare::same_json;
use crate::view_dir::ViewDir;

/// The facts about a kernel in the caller's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKernel {
    /// The SHA-256 of the kernel's object.
    pub object: Digest,
    /// The kernel's `.json`.
    pub json: Vec<u8>,
}

/// A look-up in the store of a [`View`](crate::View)'s caller. Only kernels that opkeep compiled count: an imported
/// kernel stays the framework's.
pub trait StoredKernels {
    /// Returns the kernels whose `.json` has `name` as its `binFileName`.
    fn named(&self, name: &str) -> Vec<StoredKernel>;
}

/// A store without kernels.
pub(crate) struct NoStore;

impl StoredKernels for NoStore {
    fn named(&self, _: &str) -> Vec<StoredKernel> {
        Vec::new()
    }
}

/// Returns whether the description and the object with this stem are those of a stored kernel.
pub(crate) fn is_stored(dir: &ViewDir, stem: &str, stored: &dyn StoredKernels) -> bool {
    let Ok((json, _)) = dir.read(&KernelFileKind::Json.of(stem)) else { return false };
    let Some(name) = KernelMeta::parse(&json).ok().and_then(|meta| meta.bin_file_name) else { return false };
    let alike: Vec<StoredKernel> =
        stored.named(&name).into_iter().filter(|kernel| same_json(&json, &kernel.json)).collect();
    // Usually no stored kernel has this description, and the object need not be read.
    !alike.is_empty()
        && dir
            .digest(&KernelFileKind::Object.of(stem))
            .is_ok_and(|(digest, _)| alike.iter().any(|kernel| kernel.object == digest))
}
