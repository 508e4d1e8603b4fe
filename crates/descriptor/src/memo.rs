//! Values by jobs, within a process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::Job;

/// Values by jobs, for a process that is asked for the same jobs again and again.
///
/// A job is copied when one of its hash was noted before: most processes build once and would never use the copies. So
/// the third build finds what the second one noted. Jobs are compared as a whole.
#[derive(Debug)]
pub struct JobMemo<V> {
    /// None yet for a hash that was noted once.
    by_hash: HashMap<u64, Vec<(Job, V)>>,
    jobs: usize,
}

impl<V> Default for JobMemo<V> {
    fn default() -> Self {
        Self { by_hash: HashMap::new(), jobs: 0 }
    }
}

impl<V: Copy> JobMemo<V> {
    /// How many jobs are kept at most, and how many hashes. Beyond, all are dropped.
    pub const MAX: usize = 1024;

    /// The value of `job`, whose hash is of the caller's making, the same each time.
    pub fn get(&self, hash: u64, job: &Job) -> Option<V> {
        let (_, value) = self.by_hash.get(&hash)?.iter().find(|(known, _)| known == job)?;
        Some(*value)
    }

    /// Notes the value of `job`.
    pub fn note(&mut self, hash: u64, job: &Job, value: V) {
        // Another thread may have noted it meanwhile.
        if self.get(hash, job).is_some() {
            return;
        }
        let count = if self.by_hash.contains_key(&hash) { self.jobs } else { self.by_hash.len() };
        if count >= Self::MAX {
            *self = Self::default();
        }
        match self.by_hash.entry(hash) {
            Entry::Vacant(place) => _ = place.insert(Vec::new()),
            Entry::Occupied(jobs) => {
                jobs.into_mut().push((job.clone(), value));
                self.jobs += 1;
            }
        }
    }
}
