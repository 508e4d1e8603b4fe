//! Digests of jobs, remembered: a framework builds the same network again and again, and to see that a job is one of
//! those takes a fourth of what hashing it does.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use foldhash::fast::RandomState;
use opbuild_descriptor::Job;
use opbuild_digest::Digest;

use crate::alike::Alike;

/// So many jobs are remembered.
pub(crate) const MAX_KNOWN: usize = 1024;

/// Digests by their jobs.
#[derive(Default)]
pub(crate) struct Digests {
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// By the hash of what jobs differ in, as a rule. They are compared as a whole.
    by_hash: HashMap<u64, Vec<(Job, Digest)>, RandomState>,
    jobs: usize,
}

impl Digests {
    /// The digest of `job`.
    pub(crate) fn of(&self, job: &Job) -> Digest {
        let hash = self.hasher.hash_one(Alike(job));
        // Also after a panic elsewhere: each change to it is whole.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut alike = known.by_hash.get(&hash).into_iter().flatten();
        if let Some((_, digest)) = alike.find(|(known, _)| known == job) {
            return *digest;
        }
        drop(known);
        let digest = job.digest();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.jobs >= MAX_KNOWN {
            *known = Known::default();
        }
        known.jobs += 1;
        known.by_hash.entry(hash).or_default().push((job.clone(), digest));
        digest
    }
}

#[cfg(test)]
mod tests {
    use opbuild_testkit::job;

    use super::*;

    #[test]
    fn a_digest_is_that_of_its_own_job_only() {
        let digests = Digests::default();
        let one = job("Square", &[&[3]]);
        // One that has the same hash, and is another.
        let mut alike = one.clone();
        alike.ops[0].func_name.push('s');
        assert_eq!(digests.hasher.hash_one(Alike(&one)), digests.hasher.hash_one(Alike(&alike)));
        for job in [&one, &alike, &one, &alike] {
            assert_eq!(digests.of(job), job.digest());
        }
        assert_ne!(digests.of(&one), digests.of(&alike));
        assert_eq!(digests.known.read().unwrap().jobs, 2);
        for length in 1..=2 * MAX_KNOWN {
            let job = job("Abs", &[&[length as i64]]);
            assert_eq!(digests.of(&job), job.digest());
            assert!(digests.known.read().unwrap().jobs <= MAX_KNOWN);
        }
    }
}
