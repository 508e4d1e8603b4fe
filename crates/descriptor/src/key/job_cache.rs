//! A per-process cache of values by job.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::model::job::Job;

/// A cache of values by job, for a process that builds the same jobs many times.
///
/// A job is copied at the second insertion under its hash, since most processes build once and would never use the
/// copies. So the third build finds the second build's value. Jobs are compared as a whole.
#[derive(Debug)]
pub struct JobCache<V> {
    /// Empty for a hash that was inserted once.
    by_hash: HashMap<u64, Vec<(Job, V)>>,
    jobs: usize,
}

impl<V> Default for JobCache<V> {
    fn default() -> Self {
        Self { by_hash: HashMap::new(), jobs: 0 }
    }
}

impl<V: Copy> JobCache<V> {
    /// The largest number of jobs, and of hashes. An insertion above it clears the cache.
    pub const MAX: usize = 1024;

    /// The value of `job`. The caller computes `hash` by one fixed function.
    pub fn get(&self, hash: u64, job: &Job) -> Option<V> {
        let (_, value) = self.by_hash.get(&hash)?.iter().find(|(known, _)| known == job)?;
        Some(*value)
    }

    /// Inserts the value of `job`.
    pub fn insert(&mut self, hash: u64, job: &Job, value: V) {
        // Another thread may have inserted it meanwhile.
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
