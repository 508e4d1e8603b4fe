//! Builds of several backends that put their kernels into one directory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use opkeep_kernel_meta::RunId;

use crate::request::Request;

/// Builds that put their kernels into one directory.
///
/// One restore undoes the replacements of all these builds. A name under which frameworks would look for kernels of two
/// builds is given to no kernel, as within one build.
#[derive(Clone, Debug)]
pub struct ViewGroup {
    pub(crate) run: RunId,
    pub(crate) conflicting_names: Arc<BTreeSet<String>>,
}

impl ViewGroup {
    /// Creates a group that begins now, with one build for each slice of requests.
    pub fn of<'a>(builds: impl IntoIterator<Item = &'a [Request]>) -> Self {
        let builds: Vec<&[Request]> = builds.into_iter().collect();
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        let mut conflicting_names = BTreeSet::new();
        // A single build finds its conflicts itself.
        for (at, requests) in builds.iter().enumerate().filter(|_| builds.len() > 1) {
            for name in requests.iter().map(Request::framework_name) {
                if *first.entry(name.clone()).or_insert(at) != at {
                    conflicting_names.insert(name);
                }
            }
        }
        Self { run: RunId::now(), conflicting_names: Arc::new(conflicting_names) }
    }
}
