//! The kernels of `explain` as JSON.

use opkeep::RemoteStatus;
use serde::Serialize;

use crate::commands::build::output::ImportedOutput;
use crate::commands::misses::output::{FormerOutput, NearestOutput};

/// The maximum number of characters of a compiler's version in text.
pub(super) const MAX_CHARACTERS: usize = 200;

#[derive(Serialize)]
pub(super) struct KernelOutput {
    pub(super) name: String,
    pub(super) key: Option<String>,
    pub(super) op_type: String,
    pub(super) operators: Vec<String>,
    pub(super) outcome: &'static str,
    /// The reason for a miss, or why an operator is not supported; unset for hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The nearest stored kernel, for a miss only; null if the store has no similar kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nearest: Option<Option<NearestOutput>>,
    /// What is known of the entry, for a miss only; null if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Option<FormerOutput>>,
    pub(super) imported: Option<ImportedOutput>,
    pub(super) imported_problem: Option<String>,
    /// Unset unless a miss, and without a remote cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remote: Option<RemoteOutput>,
}

/// What the remote cache has of a kernel.
#[derive(Serialize)]
pub(super) struct RemoteOutput {
    /// `available`, `refused`, `absent` or `unknown`.
    state: &'static str,
    /// The size of the entry, if there is one.
    bytes: Option<u64>,
    /// Why it is refused, in a word.
    refusal: Option<&'static str>,
    /// Why it is refused, or why nothing is known.
    reason: Option<String>,
}

impl From<&RemoteStatus> for RemoteOutput {
    fn from(status: &RemoteStatus) -> Self {
        let (state, bytes, refusal, reason) = match status {
            RemoteStatus::Available { bytes, .. } => ("available", Some(*bytes), None, None),
            RemoteStatus::Refused { bytes, kind, reason, .. } => {
                ("refused", Some(*bytes), Some(kind.name()), Some(reason.clone()))
            }
            RemoteStatus::Absent => ("absent", None, None, None),
            RemoteStatus::Unknown { reason, .. } => ("unknown", None, None, Some(reason.clone())),
            _ => ("unknown", None, None, None),
        };
        Self { state, bytes, refusal, reason }
    }
}
