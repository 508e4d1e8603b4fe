//! Kernels in the caller's store, which show which kernels are ours after the loss of the manifest.

use std::io;

use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;

use crate::compare::same_json;
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, LeftReason};

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

/// Returns whether `json` is the description of a stored kernel.
pub(crate) fn is_description_stored(json: &[u8], stored: &dyn StoredKernels) -> bool {
    described_by(json, stored).next().is_some()
}

/// Returns the stored kernels that `json` describes.
fn described_by(json: &[u8], stored: &dyn StoredKernels) -> impl Iterator<Item = StoredKernel> {
    let name = KernelMeta::parse(json).ok().and_then(|meta| meta.bin_file_name);
    let named = name.map(|name| stored.named(&name)).unwrap_or_default();
    named.into_iter().filter(move |kernel| same_json(json, &kernel.json))
}

/// Returns whether the description and the object with this stem are those of a stored kernel.
pub(crate) fn is_stored(dir: &ViewDir, stem: &str, stored: &dyn StoredKernels) -> bool {
    matches!(stored_digests(dir, stem, stored), Ok(Some(_)))
}

/// Returns the digests of the object and the description with this stem, if they are those of a stored kernel. If that
/// cannot be known because the system does not read a file, returns the reason.
pub(crate) fn stored_digests(
    dir: &ViewDir,
    stem: &str,
    stored: &dyn StoredKernels,
) -> Result<Option<[Digest; 2]>, LeftReason> {
    let [object, json] = [KernelFileKind::Object, KernelFileKind::Json].map(|kind| kind.of(stem));
    let Some((bytes, _)) = readable(&json, dir.read(&json))? else { return Ok(None) };
    let alike: Vec<StoredKernel> = described_by(&bytes, stored).collect();
    // Usually no stored kernel has this description, and the object need not be read.
    if alike.is_empty() {
        return Ok(None);
    }
    let Some((digest, _)) = readable(&object, dir.digest(&object))? else { return Ok(None) };
    Ok(alike.iter().any(|kernel| kernel.object == digest).then(|| [digest, Digest::of(&bytes)]))
}

/// Returns `read`, or nothing if there is no regular file called `name`.
fn readable<T>(name: &str, read: io::Result<T>) -> Result<Option<T>, LeftReason> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.raw_os_error().is_none() || error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LeftReason::Unreadable { file: name.to_owned(), problem: error.to_string() }),
    }
}
