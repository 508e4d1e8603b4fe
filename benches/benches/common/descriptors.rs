//! Descriptors for reading and for making keys.

use std::sync::Arc;

use opkeep_descriptor::{Descriptor, Key, KeyParts, ResolvedSpec};
use opkeep_digest::Fingerprint;

/// The vendor's own example: one operator, 6 KB.
pub(crate) const SQUARE: &[u8] =
    include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");

/// The inputs of keys other than descriptors.
pub(crate) struct Rest {
    spec: ResolvedSpec,
    toolchain: Arc<Fingerprint>,
}

impl Rest {
    pub(crate) fn new() -> Self {
        let mut toolchain = Fingerprint::new();
        toolchain.text("version", "7.7.0.1.238");
        let spec = ResolvedSpec { target: "Ascend910A".into(), ..ResolvedSpec::default() };
        Self { spec, toolchain: Arc::new(toolchain) }
    }

    pub(crate) fn key(&self, descriptor: &Descriptor) -> Key {
        let sources = Fingerprint::new();
        KeyParts::new("bench", &descriptor.job, &self.spec, self.toolchain.clone(), sources).key()
    }
}
