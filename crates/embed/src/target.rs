//! The files of one framework and one target.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_cache::{Accept, Claim, Digest, Query, Source, TargetCache, Wait};
use opkeep_kernel_entry::{GroupKey, StoredExpectations, group_file_heads};
use opkeep_store::{Entry, MemberHead};

use crate::accept::Judge;
use crate::claim::{GroupClaim, UnsharedReason};
use crate::error::EmbedError;
use crate::group::FileGroup;
use crate::holders::Holders;
use crate::key::FileKey;
use crate::new_group::{NewGroup, check_target};
use crate::options::Options;
use crate::process::{Opened, Process};
use crate::texts::check_key;
use crate::ticket::GroupTicket;

/// The files of one framework for one target. Clones share their state.
#[derive(Clone)]
pub struct TargetFiles {
    opened: Opened,
    name: String,
}

impl TargetFiles {
    pub(crate) fn new(opened: Opened, name: &str) -> Self {
        Self { opened, name: name.to_owned() }
    }

    /// The target's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of the entry under which the files of `key` are kept.
    pub fn entry_key(&self, key: &FileKey) -> Digest {
        self.group_key(key).digest()
    }

    /// Returns the files, if they are there. Takes no lock.
    ///
    /// # Errors
    /// The store cannot be used in this process, although the mode requires it.
    pub fn get(&self, key: &FileKey) -> Result<Option<FileGroup>, EmbedError> {
        let (_, target) = self.current()?;
        let judge = self.judge(None);
        let found = target.get_if(&self.entry_key(key), |entry| matches!(judge.accept(entry), Accept::Take));
        Ok(found.map(|entry| FileGroup::new(entry, false)))
    }

    /// Returns what `placed` returns of the files' names, sizes and digests, if they are there: for a caller that may have the
    /// files elsewhere, such as in a [`GroupDir`](crate::GroupDir), and then needs none of their bytes. Reads only the head of
    /// the entry, and counts a hit if `placed` returns one. In all other cases, which include an entry that has to be judged,
    /// the caller requests the files.
    ///
    /// # Errors
    /// The store cannot be used in this process, although the mode requires it.
    pub fn find_placed<T>(
        &self,
        key: &FileKey,
        expectations: Option<&StoredExpectations>,
        placed: impl FnOnce(&mut dyn Iterator<Item = MemberHead<'_>>) -> Option<T>,
    ) -> Result<Option<T>, EmbedError> {
        let (_, target) = self.current()?;
        let judge = self.judge(expectations);
        let entry = target.open_entry(&self.entry_key(key));
        let Some(entry) = entry.filter(|entry| judge.takes(entry.head())) else { return Ok(None) };
        let found = placed(&mut group_file_heads(entry.head()));
        found.iter().for_each(|_| entry.count_hit());
        Ok(found)
    }

    /// Returns the files, or a ticket to make them. Waits while another caller makes them.
    ///
    /// # Errors
    /// The rules are for another target; a text of the key is too long; the mode forbids making the files, and they are not
    /// there; or the store cannot be used in this process, although the mode requires it.
    pub fn get_or_begin(&self, key: &FileKey, options: &Options<'_>) -> Result<GroupClaim, EmbedError> {
        let (state, target) = self.current()?;
        check_key(key)?;
        let group_key = self.group_key(key);
        let rules = options.expectations;
        rules.map_or(Ok(()), |rules| check_target(rules.expectations(), &self.name))?;
        let judge = self.judge(rules);
        let accept = |entry: &Entry| judge.accept(entry);
        let (digest, holders, began) = (group_key.digest(), Holders::current(), Instant::now());
        let holds_ticket = holders.has_own();
        // A thread that waits for this one may hold that ticket, whenever it got it.
        let other_blocks = || {
            let held = holders.oldest_of_others(&digest).map(|held| held.max(began).elapsed());
            held.is_some_and(|held| held >= options.wait_with_ticket)
        };
        let continues = || {
            options.on_poll.iter().for_each(|on_poll| on_poll());
            let own_blocks = began.elapsed() >= options.wait_in_process && holders.has(&digest);
            !other_blocks() && !own_blocks
        };
        let mut query = Query::new(&accept);
        query.deadline = options.deadline;
        query.cancel = options.cancel;
        query.on_poll = Some(&continues);
        query.stale_after = options.stale_after;
        query.hold_limit = Some(options.hold_limit);
        query.wait = match options.wait && !holds_ticket {
            true => Wait::ForHolder { on_wait: options.on_wait },
            false => Wait::Never,
        };
        let claim = target.get_or_begin(&digest, &query)?;
        let ticket = |ticket, is_shared| {
            GroupTicket::new(&state, group_key, digest, ticket, options.hold_limit, is_shared)
        };
        Ok(match claim {
            Claim::Hit(hit) => GroupClaim::Hit(FileGroup::new(hit.entry, hit.source == Source::Waited)),
            Claim::Build(begun) => GroupClaim::Begin(ticket(begun, true)),
            Claim::Unshared(begun, reason) => {
                GroupClaim::Unshared(ticket(begun, false), UnsharedReason::Cache(reason))
            }
            Claim::Pending(pending) => {
                let reason = match (holds_ticket, options.wait) {
                    (true, _) => UnsharedReason::HoldsTicket,
                    (false, true) if other_blocks() => UnsharedReason::ProcessHoldsTicket,
                    (false, true) => UnsharedReason::ProcessMakesFiles,
                    (false, false) => UnsharedReason::NoWait,
                };
                GroupClaim::Unshared(ticket(pending.into_unshared(), false), reason)
            }
            Claim::HolderFailed(failure) => GroupClaim::HolderFailed(failure.reason),
            Claim::TimedOut(_) => GroupClaim::TimedOut,
            // `Claim` may have more variants later, of which none is a hit or a ticket.
            _ => GroupClaim::Cancelled,
        })
    }

    /// Publishes files without a ticket, in place of those that are there. For a caller that made them without asking.
    /// Returns whether they were written.
    ///
    /// # Errors
    /// The group is not valid, a text of the key is too long, or the store cannot be written.
    pub fn publish(&self, key: &FileKey, group: &NewGroup<'_>) -> Result<bool, EmbedError> {
        let (_, target) = self.current()?;
        check_key(key)?;
        group.validate(&self.name)?;
        let record = group.record(self.group_key(key), None);
        let encoded = group.encode(&record);
        if let Some(store) = target.written_store() {
            store.count_compile(record.compile_time.unwrap_or(Duration::ZERO));
        }
        let put = target.put(encoded.key(), &encoded.builder());
        put.map(|put| put.is_some()).map_err(|error| EmbedError::Publish(error.into()))
    }

    /// Writes the counts of hits and misses to the store. Best effort.
    pub fn flush(&self) {
        if let Ok((_, target)) = self.current() {
            target.flush();
        }
    }

    fn judge<'a>(&'a self, expectations: Option<&'a StoredExpectations>) -> Judge<'a> {
        let Opened { config, opened, .. } = &self.opened;
        Judge { target: &self.name, mode: config.cache.mode, opened: *opened, expectations }
    }

    fn group_key(&self, key: &FileKey) -> GroupKey {
        key.of(&self.opened.config.framework, &self.name)
    }

    /// The state and the target in the calling process.
    fn current(&self) -> Result<(Arc<Process>, TargetCache), EmbedError> {
        let state = self.opened.current()?;
        let target = state.cache.target(&self.name)?;
        Ok((state, target))
    }
}

impl fmt::Debug for TargetFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetFiles")
            .field("framework", &self.opened.config.framework)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
