//! Digests of jobs, remembered: a framework builds the same network again and again, and to see that a job is one of
//! those takes a fourth of what hashing it does. A job is copied when one of its hash was asked for before: most processes
//! build once and would never use the copies. So it is the third build that finds them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    /// By the hash of what jobs differ in, as a rule; none yet for a hash that was asked for once. They are compared as a
    /// whole.
    by_hash: HashMap<u64, Vec<(Job, Digest)>, RandomState>,
    jobs: usize,
}

impl Known {
    /// Notes that `job` was asked for.
    fn note(&mut self, hash: u64, job: &Job, digest: Digest) {
        let has_hash = self.by_hash.contains_key(&hash);
        if (if has_hash { self.jobs } else { self.by_hash.len() }) >= MAX_KNOWN {
            *self = Self::default();
        }
        match self.by_hash.entry(hash) {
            Entry::Vacant(place) => _ = place.insert(Vec::new()),
            // Another thread may have noted it meanwhile.
            Entry::Occupied(jobs) if jobs.get().iter().any(|(known, _)| known == job) => {}
            Entry::Occupied(jobs) => {
                jobs.into_mut().push((job.clone(), digest));
                self.jobs += 1;
            }
        }
    }
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
        self.known.write().unwrap_or_else(PoisonError::into_inner).note(hash, job, digest);
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
        // The first time only says that it was asked for.
        for (job, kept) in [(&one, 0), (&one, 1), (&one, 1), (&alike, 2), (&one, 2), (&alike, 2)] {
            assert_eq!(digests.of(job), job.digest());
            assert_eq!(digests.known.read().unwrap().jobs, kept);
        }
        assert_ne!(digests.of(&one), digests.of(&alike));
    }

    #[test]
    fn as_many_as_are_remembered_are_known_at_the_third_build_and_no_more() {
        let digests = Digests::default();
        let jobs: Vec<Job> = (1..=MAX_KNOWN as i64).map(|length| job("Abs", &[&[length]])).collect();
        let count = || digests.known.read().unwrap().jobs;
        for kept in [0, MAX_KNOWN, MAX_KNOWN] {
            jobs.iter().for_each(|job| assert_eq!(digests.of(job), job.digest()));
            assert_eq!(count(), kept);
        }
        for length in (1..=2 * MAX_KNOWN as i64).flat_map(|length| [length, length]) {
            let job = job("Relu", &[&[length]]);
            assert_eq!(digests.of(&job), job.digest());
            assert!(count() <= MAX_KNOWN && digests.known.read().unwrap().by_hash.len() <= MAX_KNOWN);
        }
    }
}
