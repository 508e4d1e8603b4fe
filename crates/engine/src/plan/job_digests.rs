//! A cache of job digests. It is worthwhile since a framework builds the same network many times, and a lookup takes a
//! quarter of the time of hashing the job.

use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use foldhash::fast::RandomState;
use opkeep_descriptor::{Job, JobCache};
use opkeep_digest::Digest;

use crate::plan::job_map::JobMapKey;

/// The digests of jobs, by job.
#[derive(Default)]
pub(crate) struct JobDigestCache {
    hasher: RandomState,
    known: RwLock<JobCache<Digest>>,
}

impl JobDigestCache {
    /// The maximum number of jobs in the cache.
    pub(crate) const MAX_KNOWN: usize = JobCache::<Digest>::MAX;

    /// Returns the digest of `job`, from the cache if possible.
    pub(crate) fn of(&self, job: &Job) -> Digest {
        let hash = self.hasher.hash_one(JobMapKey(job));
        // A panic elsewhere leaves the cache consistent.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(hash, job);
        known.unwrap_or_else(|| {
            let digest = job.digest();
            self.known.write().unwrap_or_else(PoisonError::into_inner).insert(hash, job, digest);
            digest
        })
    }
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::job;

    use super::*;

    #[test]
    fn a_digest_is_that_of_its_own_job_only() {
        let digests = JobDigestCache::default();
        let one = job("Square", &[&[3]]);
        // Another job with the same hash.
        let mut alike = one.clone();
        alike.ops[0].func_name.push('s');
        let hash = digests.hasher.hash_one(JobMapKey(&one));
        assert_eq!(hash, digests.hasher.hash_one(JobMapKey(&alike)));
        let is_kept = |job: &Job| digests.known.read().unwrap().get(hash, job).is_some();
        // The first request of a hash only records the hash.
        for (job, kept) in [(&one, false), (&one, true), (&one, true), (&alike, true), (&one, true)] {
            assert_eq!(digests.of(job), job.digest());
            assert_eq!(is_kept(job), kept);
        }
        assert_ne!(digests.of(&one), digests.of(&alike));
    }
}
