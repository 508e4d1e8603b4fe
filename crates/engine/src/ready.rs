//! A kernel that can be used, with its outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_artifact::Artifact;
use opkeep_digest::Digest;
use opkeep_kernel_entry::Provenance;

use crate::outcome::Outcome;

/// A kernel that can be used, with its outcome.
pub(crate) struct ReadyKernel {
    pub(crate) artifact: Arc<Artifact>,
    /// The digests of the object and of the `.json`.
    pub(crate) digests: (Digest, Digest),
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    pub(crate) compile_time: Option<Duration>,
    /// The beginning of the compile, if this build compiled the kernel.
    pub(crate) compile_began: Option<Instant>,
    /// The time that the compile took of which the kernel was found.
    pub(crate) saved_time: Option<Duration>,
    /// The kernel's provenance, if another program compiled it.
    pub(crate) imported: Option<Provenance>,
    /// Whether this build took the kernel from the remote tier.
    pub(crate) from_remote: bool,
    /// Whether the local store has the entry, as far as that is known.
    pub(crate) kept: Option<bool>,
}
