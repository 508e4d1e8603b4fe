//! A cache of the digests of generated C: frameworks ask for the same jobs again and again, and generating the C of a job
//! takes as long as a look-up in the store.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use opkeep_descriptor::{Arg, Job, JobCache};
use opkeep_digest::Digest;

use crate::codegen::expression::calls_libm;
use crate::codegen::generate::Generated;

/// The properties of a kernel's C that its key needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) digest: Digest,
    pub(crate) lines: usize,
    pub(crate) calls_libm: bool,
}

impl Source {
    pub(crate) fn of(generated: &Generated) -> Self {
        let text = &generated.text;
        Self {
            digest: Digest::of(text.as_bytes()),
            lines: text.lines().count(),
            calls_libm: calls_libm(text),
        }
    }
}

/// Sources by their jobs.
#[derive(Default)]
pub(crate) struct SourceCache {
    hasher: RandomState,
    sources: Mutex<JobCache<Source>>,
}

impl SourceCache {
    pub(crate) fn get(&self, job: &Job) -> Option<Source> {
        let hash = self.hash(job);
        self.locked().get(hash, job)
    }

    pub(crate) fn note(&self, job: &Job, source: Source) {
        let hash = self.hash(job);
        self.locked().insert(hash, job, source);
    }

    fn hash(&self, job: &Job) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        let tensors = job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter);
        tensors.for_each(|tensor| tensor.shape.hash(&mut hasher));
        job.ops.first().map(|op| (&op.op_type, &op.attrs)).hash(&mut hasher);
        hasher.finish()
    }

    /// The cache; a panic elsewhere cannot leave it inconsistent.
    fn locked(&self) -> MutexGuard<'_, JobCache<Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::job;

    use super::*;

    #[test]
    fn a_source_is_that_of_its_own_job_only() {
        let source = |lines| Source { digest: Digest::of(b"c"), lines, calls_libm: false };
        let known = SourceCache::default();
        let one = job("Square", &[&[3]]);
        // One that has the same hash, and is another.
        let mut alike = one.clone();
        alike.ops[0].module_path = Some("elsewhere".to_owned());
        assert_eq!(known.hash(&one), known.hash(&alike));
        // The first time only says that it was asked for.
        known.note(&one, source(1));
        assert_eq!((known.get(&one), known.get(&alike)), (None, None));
        known.note(&one, source(1));
        assert_eq!((known.get(&one), known.get(&alike)), (Some(source(1)), None));
        known.note(&alike, source(2));
        assert_eq!((known.get(&one), known.get(&alike)), (Some(source(1)), Some(source(2))));
    }
}
