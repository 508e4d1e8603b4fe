//! A request for many groups.

use std::collections::HashSet;
use std::time::Instant;

use opkeep_cache::{Digest, Source};
use opkeep_kernel_entry::GroupKey;
use opkeep_store::Entry;

use crate::claim::GroupClaim;
use crate::error::EmbedError;
use crate::group::FileGroup;
use crate::request::Request;

impl Request<'_> {
    /// Returns the files of groups, or at most `max_tickets` tickets, without a wait for other callers. The files that the store lacks
    /// are requested from the remote tier in one call, whose answer also says which of them other hosts make. The leases are claimed in
    /// one call as well.
    pub(crate) fn get_or_begin_many(
        &self,
        keys: Vec<GroupKey>,
        max_tickets: usize,
    ) -> Result<Vec<GroupClaim>, EmbedError> {
        let began = Instant::now();
        let fetched = self.fetch(&keys);
        let mut claims = Vec::with_capacity(keys.len());
        for (key, claim) in keys.iter().zip(self.try_begin(&keys, max_tickets, began)?) {
            let claim = claim.unwrap_or_else(|| self.find(key));
            claims.push(match claim {
                GroupClaim::Hit(group) if fetched.contains(group.key()) => GroupClaim::Hit(group.fetched()),
                claim => claim,
            });
        }
        Ok(claims)
    }

    /// Writes the entries that the store lacks and the remote tier has to the store, and returns their keys.
    fn fetch(&self, keys: &[GroupKey]) -> HashSet<Digest> {
        // Without a store that keeps them, each is requested when it is returned.
        let is_kept = self.target.written_store().is_some();
        if self.options.stays_here || !is_kept || !self.target.reads_remote() {
            return HashSet::new();
        }
        let digests: Vec<_> = keys.iter().map(GroupKey::digest).collect();
        let accept = |entry: &Entry| self.judge.accept(entry);
        // The cache warns of what it refuses.
        self.target.fetch(&digests, &self.query(&accept)).fetched.into_iter().collect()
    }

    /// Returns the files of a group that are in the store. A miss is counted when they are requested.
    fn find(&self, key: &GroupKey) -> GroupClaim {
        let accept = |entry: &Entry| self.judge.accept(entry);
        let mut query = self.query(&accept);
        query.counted = false;
        let found = self.target.find(&key.digest(), &query);
        found.map_or(GroupClaim::Pending, |entry| GroupClaim::Hit(FileGroup::new(entry, Source::Local)))
    }
}
