//! The preparation of a compile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opkeep_process::Declared;

use crate::probe::reach::Extra;
use crate::probe::record::Record;
use crate::worker::pool::WorkerConfig;

/// The help for a read that no key covers.
pub(crate) const HELP: &str = "neither importing the toolkit nor an import in the operator's sources leads there: import \
    it by its name, keep it beside the operators, or declare it as an input of the toolchain: then the \
    key covers it";

/// The preparation of a compile.
pub(crate) struct Ready {
    pub(crate) config: Arc<WorkerConfig>,
    pub(crate) record: Arc<Record>,
    pub(crate) extra: Extra,
}

/// A configuration of workers, and the values from which it is derived.
pub(crate) struct KnownConfig {
    pub(crate) record: Arc<Record>,
    pub(crate) declared: Vec<Declared>,
    pub(crate) config: Arc<WorkerConfig>,
}

/// A unique part of a fingerprint, so that no lookup finds kernels of such a toolchain.
pub(crate) fn unrepeatable(why: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{why} ({}-{})", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
