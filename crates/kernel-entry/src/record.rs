//! What is recorded of a kernel.

use std::time::Duration;

use opkeep_descriptor::{Job, KernelName, Key, KeyParts, ResolvedSpec};

use crate::provenance::Provenance;

/// What an entry records of its kernel besides the kernel's files.
#[derive(Clone, Copy, Debug)]
pub struct KernelRecord<'a> {
    /// What the kernel computes.
    pub job: &'a Job,
    /// The effective spec that it was built for.
    pub spec: &'a ResolvedSpec,
    /// The key of the entry.
    pub key: Key,
    /// How the kernel came to be.
    pub origin: Origin<'a>,
}

/// How a kernel came to be.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// It was compiled by a backend.
    Compiled {
        /// Its name.
        name: &'a KernelName,
        /// The parts of its key.
        parts: &'a KeyParts,
        /// How long the compile took, if known.
        compile_time: Option<Duration>,
    },
    /// It was taken from the cache of a framework.
    Imported(&'a Provenance),
}
