//! The client of a shared directory.

mod faults;
mod in_place;

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_cache::{Capabilities, ExclusiveCreate, RemoteEngine};
use opkeep_remote::{OpenOptions, open};
use tempfile::TempDir;

use crate::contract::{self, Subject};

pub(crate) fn trials() -> (Vec<Trial>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let mut capabilities = Capabilities::new(ExclusiveCreate::Unproven);
    capabilities.has_counters = true;
    capabilities.has_listing = true;
    capabilities.max_object_bytes = 1 << 31;
    let subject = Subject {
        name: "file",
        open: Arc::new(move || engine(&path)),
        capabilities,
        rounds: 100,
        secrets: &[],
    };
    let mut trials = contract::trials(&subject);
    trials.extend(faults::trials());
    trials.extend(in_place::trials());
    (trials, directory)
}

fn engine(directory: &Path) -> Arc<dyn RemoteEngine> {
    open(&format!("file://{}", directory.display()), &OpenOptions::default()).unwrap()
}
