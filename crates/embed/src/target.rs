//! The files of one framework and one target.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_cache::{CancelToken, Digest, Source, TargetCache, WaitBudget};
use opkeep_kernel_entry::{GroupKey, StoredExpectations, group_file_heads};
use opkeep_store::{Entry, KeyLock, LockOutcome, MemberHead, WaitOptions};

use crate::accept::Judge;
use crate::claim::GroupClaim;
use crate::error::EmbedError;
use crate::group::FileGroup;
use crate::key::FileKey;
use crate::new_group::{NewGroup, check_target};
use crate::options::Options;
use crate::process::{Opened, Process};
use crate::request::Request;
use crate::texts::check_key;

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

    /// Returns the files, if they are there, or in the remote cache. Takes no lock.
    ///
    /// # Errors
    /// The store cannot be used in this process, although the mode requires it.
    pub fn get(&self, key: &FileKey) -> Result<Option<FileGroup>, EmbedError> {
        self.get_with(key, &Options::default())
    }

    /// Returns the same under conditions, of which those of waits do not apply: nothing is waited for but the remote cache.
    ///
    /// # Errors
    /// As [`get`](Self::get), and the rules are for another target.
    pub fn get_with(&self, key: &FileKey, options: &Options<'_>) -> Result<Option<FileGroup>, EmbedError> {
        let (state, target) = self.current()?;
        let judge = self.judge(self.rules(options)?);
        let digest = self.entry_key(key);
        let accept = |entry: &Entry| judge.accept(entry);
        let request = self.request(&state, &target, &judge, options);
        let query = request.query(&accept);
        if let Some(entry) = target.find(&digest, &query) {
            return Ok(Some(FileGroup::new(entry, Source::Local)));
        }
        Ok(target.get_remote(&digest, &query).map(|entry| FileGroup::new(entry, Source::Remote)))
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

    /// Waits until no other caller on this host holds `key`, and holds it until the result is dropped: for work on something else than the files
    /// of a group, such as a path outside the store, that must not be done twice at once. It is no ticket: a thread may hold several keys,
    /// and callers that do take them in one order. No group should have the same key.
    ///
    /// # Errors
    /// The store cannot be used in this process, although the mode requires it.
    pub fn hold(&self, key: &FileKey, deadline: Instant, cancel: &CancelToken) -> Result<Held, EmbedError> {
        let (_, target) = self.current()?;
        let Some(store) = target.written_store() else { return Ok(Held::Unsupported) };
        let cancelled = || cancel.is_cancelled();
        let options = WaitOptions::new(&cancelled).with_deadline(deadline);
        Ok(match store.lock(&self.entry_key(key), options) {
            Ok(LockOutcome::Acquired(lock)) => Held::Held(HeldKey(Box::new(lock))),
            Ok(LockOutcome::Cancelled) => Held::Cancelled,
            Ok(LockOutcome::Unsupported) => Held::Unsupported,
            Ok(LockOutcome::TimedOut | LockOutcome::HolderFailed(_)) | Err(_) => Held::NotHeld,
        })
    }

    /// Returns the files, or a ticket to make them. Waits while another caller makes them.
    ///
    /// # Errors
    /// The rules are for another target; a text of the key is too long; the mode forbids making the files, and they are not
    /// there; or the store cannot be used in this process, although the mode requires it.
    pub fn get_or_begin(&self, key: &FileKey, options: &Options<'_>) -> Result<GroupClaim, EmbedError> {
        let (state, target) = self.current()?;
        check_key(key)?;
        let judge = self.judge(self.rules(options)?);
        self.request(&state, &target, &judge, options).get_or_begin(self.group_key(key))
    }

    /// Returns the files of many groups, or tickets to make them, in the order of `keys`: for a caller that knows what it will need.
    /// Those that the store lacks are requested from the remote cache in one call. The caller gets at most `max_tickets` tickets: as
    /// many as it makes at a time, so that other hosts can make the rest. Nothing is waited for but the remote cache.
    /// The result of all other groups that are missing is [`GroupClaim::Pending`]: the caller requests these with
    /// [`get_or_begin`](Self::get_or_begin) when it has ended its tickets.
    ///
    /// # Errors
    /// As [`get_or_begin`](Self::get_or_begin). Then the caller has no ticket.
    pub fn get_or_begin_many(
        &self,
        keys: &[FileKey],
        max_tickets: usize,
        options: &Options<'_>,
    ) -> Result<Vec<GroupClaim>, EmbedError> {
        let (state, target) = self.current()?;
        keys.iter().try_for_each(check_key)?;
        let judge = self.judge(self.rules(options)?);
        let request = self.request(&state, &target, &judge, options);
        request.get_or_begin_many(keys.iter().map(|key| self.group_key(key)).collect(), max_tickets)
    }

    /// Publishes files without a ticket, in place of those that are there. For a caller that made them without asking. In the remote
    /// cache, files that are there stay. Returns whether they were written here.
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
        let published = target.publish(encoded.key(), &encoded.builder());
        published
            .map(|published| published.local.is_some())
            .map_err(|error| EmbedError::Publish(error.into()))
    }

    /// Whether [`GroupTicket::keep_found`](crate::GroupTicket::keep_found) keeps files: not with a signing key, nor where only signed files
    /// are taken.
    ///
    /// # Errors
    /// The store cannot be used in this process, although the mode requires it.
    pub fn keeps_found(&self) -> Result<bool, EmbedError> {
        Ok(self.current()?.1.keeps_found())
    }

    /// Writes the counts of hits and misses to the store. Best effort.
    pub fn flush(&self) {
        if let Ok((_, target)) = self.current() {
            target.flush();
        }
    }

    /// Returns the rules of a request.
    fn rules<'a>(&self, options: &Options<'a>) -> Result<Option<&'a StoredExpectations>, EmbedError> {
        let rules = options.expectations;
        rules.map_or(Ok(()), |rules| check_target(rules.expectations(), &self.name))?;
        Ok(rules)
    }

    fn request<'a>(
        &self,
        state: &'a Process,
        target: &'a TargetCache,
        judge: &'a Judge<'a>,
        options: &'a Options<'a>,
    ) -> Request<'a> {
        let budget = WaitBudget::new(self.opened.config.remote_limit);
        Request { state, target, judge, options, budget }
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

/// The result of [`TargetFiles::hold`].
#[derive(Debug)]
pub enum Held {
    /// The key is held.
    Held(HeldKey),
    /// The deadline passed while another caller held the key, or the lock's file cannot be opened.
    NotHeld,
    /// The token was cancelled during the wait.
    Cancelled,
    /// There is no store that is written, or its file system has no locks.
    Unsupported,
}

/// A key that this process holds, until it is dropped or the process ends.
#[derive(Debug)]
pub struct HeldKey(Box<KeyLock>);

impl HeldKey {
    /// Whether this process holds it: a forked child does not hold the keys of its parent.
    pub fn is_own(&self) -> bool {
        self.0.is_own()
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
