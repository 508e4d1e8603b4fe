//! The record of a kernel.

use std::time::Duration;

use opkeep_descriptor::{Job, KernelName, Key, KeyParts, ResolvedSpec};

use crate::provenance::Provenance;

/// The record of a kernel in an entry, beside its files.
#[derive(Clone, Copy, Debug)]
pub struct KernelRecord<'a> {
    /// The job that the kernel computes.
    pub job: &'a Job,
    /// The effective spec that it was built for.
    pub spec: &'a ResolvedSpec,
    /// The key of the entry.
    pub key: Key,
    /// The origin of the kernel.
    pub origin: Origin<'a>,
}

/// The origin of a kernel.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Origin<'a> {
    /// Compiled by a backend.
    Compiled {
        /// The backend's name.
        name: &'a KernelName,
        /// The parts of the kernel's key.
        parts: &'a KeyParts,
        /// The compile time, if known.
        compile_time: Option<Duration>,
    },
    /// Imported from the cache of a framework.
    Imported(&'a Provenance),
}
