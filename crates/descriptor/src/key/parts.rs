//! The cache key and its parts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use opkeep_digest::{Digest, Fingerprint, Hasher, ParseDigestError};

use crate::model::job::Job;
use crate::model::spec::ResolvedSpec;

/// The version of the key's algorithm. The golden keys in `fixtures/keys/` fail if a key changes without it.
pub const KEY_SCHEMA: u64 = 1;

/// The identity of a kernel: kernels with equal keys are interchangeable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Digest);

impl Key {
    /// The key as a digest.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl From<Digest> for Key {
    fn from(digest: Digest) -> Self {
        Self(digest)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Key {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The parts of a [`Key`]. They are stored with each kernel, so that a miss can name the part that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyParts {
    /// The backend's name.
    pub backend: String,
    /// The digest of the job.
    pub job: Digest,
    /// The digest of the resolved spec.
    pub spec: Digest,
    /// The fingerprint of the toolchain.
    pub toolchain: Arc<Fingerprint>,
    /// The fingerprint of the operator's own sources.
    pub op_sources: Fingerprint,
}

impl KeyParts {
    /// The parts for `job`, compiled by `backend` for `spec`.
    pub fn new(
        backend: &str,
        job: &Job,
        spec: &ResolvedSpec,
        toolchain: impl Into<Arc<Fingerprint>>,
        op_sources: Fingerprint,
    ) -> Self {
        Self::of_digest(backend, job.digest(), spec, toolchain, op_sources)
    }

    /// The parts for a job with a known digest.
    pub fn of_digest(
        backend: &str,
        job: Digest,
        spec: &ResolvedSpec,
        toolchain: impl Into<Arc<Fingerprint>>,
        op_sources: Fingerprint,
    ) -> Self {
        Self {
            backend: backend.to_owned(),
            job,
            spec: spec.digest(),
            toolchain: toolchain.into(),
            op_sources,
        }
    }

    /// The key.
    pub fn key(&self) -> Key {
        let Self { backend, job, spec, toolchain, op_sources } = self;
        let mut hasher = Hasher::new("opkeep key");
        hasher.u64(KEY_SCHEMA);
        hasher.str(backend);
        hasher.digest(job);
        hasher.digest(spec);
        hasher.digest(&toolchain.digest());
        hasher.digest(&op_sources.digest());
        Key(hasher.finish())
    }
}
