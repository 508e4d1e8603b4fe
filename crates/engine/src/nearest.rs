//! The stored kernel that is nearest to one that is missing: what is different between them is why it is missing.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use opbuild_descriptor::{Diff, EffectiveSpec, Job, read_info};
use opbuild_digest::PartChange;
use opbuild_store::{Entry, Lookup, TargetStore};

use crate::header::Header;
use crate::make::{HEADER, INFO};
use crate::plan::Keyed;

/// More entries than these are not looked into.
const MAX_ENTRIES: usize = 4096;

/// A stored kernel, and what is different in one that is missing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Nearest {
    /// Its name.
    pub name: String,
    /// What is different in the job.
    pub job: Diff,
    /// What is different in the effective spec.
    pub spec: Diff,
    /// Which parts of the toolchain changed.
    pub toolchain: Vec<PartChange>,
    /// Which parts of the operator's own sources changed.
    pub op_sources: Vec<PartChange>,
}

impl Nearest {
    /// How many differences there are.
    pub fn distance(&self) -> usize {
        let Self { name: _, job, spec, toolchain, op_sources } = self;
        job.changes.len() + spec.changes.len() + toolchain.len() + op_sources.len()
    }
}

/// A target's entries, read when the first kernel is missing.
#[derive(Default)]
pub(crate) struct Neighbours(OnceCell<BTreeMap<String, Vec<Neighbour>>>);

struct Neighbour {
    header: Header,
    job: Job,
}

impl Neighbours {
    /// Of the kernels of the same operators by the same backend, the one with the fewest differences.
    pub(crate) fn nearest(
        &self,
        shelf: &TargetStore,
        job: &Job,
        op_type: &str,
        keyed: &Keyed,
    ) -> Option<Nearest> {
        let by_op_type = self.0.get_or_init(|| read(shelf));
        let near = by_op_type.get(op_type)?.iter();
        let near = near.filter(|neighbour| neighbour.header.backend == keyed.parts.backend);
        near.map(|neighbour| neighbour.beside(job, keyed)).min_by_key(Nearest::distance)
    }
}

/// Entries by the types of their operators; what cannot be read is left out.
fn read(shelf: &TargetStore) -> BTreeMap<String, Vec<Neighbour>> {
    let mut by_op_type: BTreeMap<String, Vec<Neighbour>> = BTreeMap::new();
    for key in shelf.keys(MAX_ENTRIES) {
        if let Lookup::Hit(entry) = shelf.peek(&key)
            && let Some(neighbour) = Neighbour::of(&entry)
        {
            by_op_type.entry(neighbour.header.op_type.clone()).or_default().push(neighbour);
        }
    }
    by_op_type
}

impl Neighbour {
    fn of(entry: &Entry) -> Option<Self> {
        let header = Header::parse(entry.lazy_member(HEADER).ok()??)?;
        let stored = read_info(entry.lazy_member(INFO).ok()??).ok()?;
        Some(Self { header, job: stored.job })
    }

    fn beside(&self, job: &Job, keyed: &Keyed) -> Nearest {
        let Header { name, target, options, toolchain, op_sources, .. } = &self.header;
        let spec = EffectiveSpec { target: target.clone(), options: options.clone(), debug: false };
        Nearest {
            name: name.clone(),
            job: Diff::of_jobs(&self.job, job),
            spec: Diff::of_specs(&spec, &keyed.spec),
            toolchain: toolchain.diff(&keyed.parts.toolchain),
            op_sources: op_sources.diff(&keyed.parts.op_sources),
        }
    }
}
