//! The entries of one target: look up, put, quarantine, lock.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use opkeep_digest::Digest;

use super::mark_destinations::MarkDestinations;
use super::{Store, directories};
use crate::entry::{Entry, EntryBuilder};
use crate::layout::{PUT, entry_name, entry_path};
use crate::lock::{self, KeyLock, LockOutcome, LockWaiter, TryLockOutcome, WaitOptions};
use crate::marker::Level;
use crate::outcome::{DamagedEntry, Found, Lookup, Miss, Overwrite, PutOutcome};
use crate::size::Known;
use crate::stats::Counter;
use crate::usage_tracker::UsageTracker;
use crate::{SizeEstimate, Statistics, StoreError, files};
use opkeep_fs::{Dir, TempFile};

/// The entries of one target. Clones share statistics and the checks of directories.
#[derive(Clone, Debug)]
pub struct TargetStore {
    pub(super) store: Store,
    dir: PathBuf,
    pub(super) exists: bool,
    /// The state of each of the 256 directories of entries: [`UNKNOWN`] or [`TRUSTED`]. The first put in each creates it.
    shards: Arc<[AtomicU8; 256]>,
    pub(super) tracker: Arc<UsageTracker>,
    pub(super) mark_destinations: Arc<MarkDestinations>,
}

/// The state of a directory that was not checked yet.
const UNKNOWN: u8 = 0;
const TRUSTED: u8 = 1;

/// The directories that writes need, and look-ups do not.
const FOR_WRITES: [&str; 3] = ["locks", "tmp", "quarantine"];

impl Store {
    /// Opens the part of the store for `target`.
    ///
    /// # Errors
    /// The name is not valid, or a directory cannot be created, is not trusted, or belongs to another program. Something else in place of
    /// a directory that only writes need is an error only if the store is [written](crate::Access::ReadWrite): the
    /// [reader](Self::reader) still has the target's entries.
    pub fn target(&self, target: &str) -> Result<TargetStore, StoreError> {
        if !directories::is_target_name(target) {
            return Err(StoreError::TargetName { target: target.to_owned() });
        }
        TargetStore::open(self, self.version_dir().join(target))
    }
}

impl TargetStore {
    fn open(store: &Store, dir: PathBuf) -> Result<Self, StoreError> {
        let creates = store.config().access.creates();
        // An existing directory of entries may have some, whose size is not known without a record.
        let fresh = creates
            && matches!(store.fs().look(&dir.join("entries")), Err(error) if error.kind() == io::ErrorKind::NotFound);
        let exists = store.owned(&dir, Level::Target, creates)?.is_some()
            && store.directory(&dir.join("entries"), creates)?.is_some();
        if creates {
            for name in FOR_WRITES {
                store.directory(&dir.join(name), true)?;
            }
        }
        let shards = Arc::new([const { AtomicU8::new(UNKNOWN) }; 256]);
        let (tracker, known) = UsageTracker::open(store, &dir, fresh);
        let (store, tracker, mark_destinations) = (store.clone(), Arc::new(tracker), Arc::default());
        let opened = Self { store, dir, exists, shards, tracker, mark_destinations };
        if matches!(known, Known::Totals(_)) {
            // If the size is unknown, the files are counted at the first put, not here.
            opened.evict_if_due(known);
        }
        Ok(opened)
    }

    /// Returns this target's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether entries may be written.
    pub fn is_writable(&self) -> bool {
        self.store.config().access.writes()
    }

    /// Checks the directories that writes need, and look-ups do not. Missing ones are created by the next write.
    ///
    /// # Errors
    /// Something else is in the place of one, or it is not trusted: then the store is opened for reading only.
    pub fn check_directories(&self) -> Result<(), StoreError> {
        FOR_WRITES.iter().try_for_each(|name| self.store.directory(&self.dir.join(name), false).map(drop))
    }

    /// Returns the path of the entry for `key`.
    pub fn path(&self, key: &Digest) -> PathBuf {
        self.dir.join(entry_path(key))
    }

    /// Looks up `key`. Takes no lock, and writes only the time of the last use, at most every ten minutes.
    pub fn get(&self, key: &Digest) -> Lookup {
        let found = self.get_if(key, |_| true);
        if let Lookup::Miss(miss) = &found {
            self.tracker.missed(miss);
        }
        found
    }

    /// Looks up `key` again, under its lock. A second miss is not counted.
    pub fn get_uncounted(&self, key: &Digest) -> Lookup {
        self.refresh(key);
        self.get_if(key, |_| true)
    }

    /// Opens the directory of the entry for `key` again: until then a network file system may report a new entry as
    /// missing.
    pub fn refresh(&self, key: &Digest) {
        let open = || matches!(self.store.directory(&self.shard_dir(key.as_bytes()[0]), false), Ok(None));
        // The directory may be as new as the entry.
        if open() && self.store.directory(&self.dir.join("entries"), false).is_ok() {
            open();
        }
    }

    /// Counts the miss of a [repeated look-up](Self::get_uncounted).
    pub fn count_miss(&self, miss: &Miss) {
        self.tracker.missed(miss);
    }

    /// Looks up `key` for a caller that does not use the entry: neither statistics nor the last use change.
    pub fn peek(&self, key: &Digest) -> Lookup {
        self.get_if(key, |_| false)
    }

    /// Looks up `key` for a caller that uses the entry only if `is_used` returns true. Otherwise, and on a miss, neither
    /// statistics nor the last use change.
    pub fn get_if(&self, key: &Digest, is_used: impl FnOnce(&Entry) -> bool) -> Lookup {
        match self.read(key) {
            Ok(Found { entry, file, path, last_used }) => {
                if is_used(&entry) {
                    self.tracker.hit(&entry, &file, &path, last_used);
                }
                Lookup::Hit(entry)
            }
            Err(miss) => Lookup::Miss(miss),
        }
    }

    fn read(&self, key: &Digest) -> Result<Found, Miss> {
        match self.exists {
            true => self.read_at(self.path(key), key),
            false => Err(Miss::Absent),
        }
    }

    /// Returns the keys of up to `limit` entries, in order. The entries are not checked: [`get`](Self::get) checks
    /// them.
    pub fn keys(&self, limit: usize) -> Vec<Digest> {
        let mut keys: Vec<Digest> =
            (0..=u8::MAX).flat_map(|first| self.keys_from(first)).take(limit).collect();
        keys.sort_unstable();
        keys
    }

    /// Returns the keys whose first byte is `first`, in no order: for a caller that visits all entries and may stop.
    pub fn keys_from(&self, first: u8) -> Vec<Digest> {
        self.list_keys(first).unwrap_or_default()
    }

    /// Returns the same keys: for a caller to which a directory that cannot be read is not an empty one.
    ///
    /// # Errors
    /// The directory of these entries exists, and cannot be read or is not trusted.
    pub fn list_keys(&self, first: u8) -> Result<Vec<Digest>, StoreError> {
        let path = self.shard_dir(first);
        let Some(directory) = self.store.directory(&path, false)? else { return Ok(Vec::new()) };
        let names = directory.list().map_err(|source| StoreError::Io { action: "list", path, source })?;
        let key = |name: &str| name.strip_suffix(".kern")?.parse().ok();
        Ok(names.utf8().filter_map(key).collect())
    }

    /// Publishes an entry, unless a valid one exists.
    ///
    /// # Errors
    /// The entry could not be written. No part of it remains, and an existing entry stays.
    pub fn put(&self, key: &Digest, entry: &EntryBuilder<'_>) -> Result<PutOutcome, StoreError> {
        self.put_replacing(key, entry, Overwrite::Never)
    }

    /// Publishes an entry; `replace` decides whether it replaces a valid one.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_replacing(
        &self,
        key: &Digest,
        entry: &EntryBuilder<'_>,
        replace: Overwrite,
    ) -> Result<PutOutcome, StoreError> {
        self.must_be_writable()?;
        let mut is_there = true;
        if replace == Overwrite::Never {
            match self.read(key) {
                Ok(_) => return Ok(PutOutcome::Existing),
                Err(miss) => is_there = !matches!(miss, Miss::Absent),
            }
        }
        let trouble = |source| StoreError::Io { action: "write", path: self.path(key), source };
        // The write uses the directory that was checked, even if its path names another one by then.
        let shard = self.dir_to_write(&self.shard_dir(key.as_bytes()[0]))?;
        let (fs, name) = (self.store.fs(), entry_name(key));
        let before = is_there.then(|| shard.look(&name).ok()).flatten();
        let file = entry.encode(key).ok_or_else(|| entry.too_large())?;
        let temps = self.own_dir("tmp")?;
        // Processes of the group record the last use, for which they need write access.
        let mode = if self.store.trust().is_shared() { 0o664 } else { 0o644 };
        files::publish(temps, &shard, &name, &file, mode).map_err(trouble)?;
        opkeep_trace::debug!("entry published", key = key, bytes = file.len(), store = self.dir.display());
        if self.tracker.put(file.len() as u64, before.map(|seen| seen.state.len)) {
            self.evict_if_due(self.tracker.size.flush(fs));
        }
        Ok(PutOutcome::Published)
    }

    /// Whether the next write would fail for the same reason as the one that failed with `error`. If only a path is missing or
    /// denied, a new file in the directory for temporary files decides: a shared store may have one directory that this user
    /// cannot write, and another process may remove a directory at any moment.
    pub fn stops_every_write(&self, error: &StoreError) -> bool {
        let can_write = || self.own_dir("tmp").is_ok_and(|temps| TempFile::create(temps, PUT, 0o600).is_ok());
        error.stops_every_write() || error.denies_a_path() && !can_write()
    }

    /// Marks `entry` as validated by the caller's rules `validation`. The rest of the entry is unchanged: see
    /// [`restamp_with`](Self::restamp_with).
    ///
    /// # Errors
    /// The errors of [`restamp_with`](Self::restamp_with).
    pub fn restamp(&self, entry: &Entry, validation: u32) -> Result<(), StoreError> {
        self.restamp_with(entry, validation, &[])
    }

    /// Marks `entry` as validated by the caller's rules `validation`, and adds the lazy members `renewed`, which
    /// replace members of the same names. The rest of the entry is unchanged. If another process holds the key's lock,
    /// or the entry was replaced, the store is not changed. An entry that is put without the lock at the same moment
    /// may be replaced by this one: both are valid entries of one key.
    ///
    /// # Errors
    /// As [`put`](Self::put), or the entry cannot be read. It stays as it was.
    pub fn restamp_with(
        &self,
        entry: &Entry,
        validation: u32,
        renewed: &[(&str, &[u8])],
    ) -> Result<(), StoreError> {
        self.must_be_writable()?;
        let _held = match self.lock_if_free(entry.key())? {
            LockOutcome::Acquired(lock) => Some(lock),
            LockOutcome::Unsupported => None,
            _ => return Ok(()),
        };
        match self.read(entry.key()) {
            Ok(found) if found.entry.is_same(entry) => {}
            // The entry may still exist.
            Err(Miss::Io(error) | Miss::Untrusted(error)) => return Err(error),
            _ => return Ok(()),
        }
        // The new digests must not cover up damage in a lazy member.
        if entry.names().any(|name| entry.member(name).is_none() && entry.lazy_member(name).is_err()) {
            return Ok(());
        }
        let stamped = entry.revalidated(validation, renewed);
        self.put_replacing(entry.key(), &stamped, Overwrite::Always).map(drop)
    }

    /// Moves a damaged entry to `quarantine/`, and writes the reason beside it. Returns false if the entry was removed
    /// or replaced: a new entry was not checked, and stays.
    ///
    /// # Errors
    /// The entry could not be moved. It stays, and is still a miss.
    pub fn quarantine(&self, key: &Digest, entry: &DamagedEntry, lock: &KeyLock) -> Result<bool, StoreError> {
        let _held = lock;
        let reason = entry.corruption.to_string();
        opkeep_trace::debug!("damaged entry to quarantine", key = key, reason = reason);
        self.quarantine_file(key, &self.path(key), &entry.file, &reason).map(|place| place.is_some())
    }

    /// Takes the lock on `key`, and waits for it as `options` allow. A read-only store has no locks, since no holder could
    /// publish an entry.
    ///
    /// # Errors
    /// The lock file cannot be created or opened.
    pub fn lock(&self, key: &Digest, options: WaitOptions<'_>) -> Result<LockOutcome, StoreError> {
        if !self.is_writable() {
            return Ok(LockOutcome::Unsupported);
        }
        let began = Instant::now();
        let waits = AtomicBool::new(false);
        let on_wait = || {
            waits.store(true, Ordering::Relaxed);
            options.on_wait.inspect(|call| call());
        };
        let options = WaitOptions { on_wait: Some(&on_wait), ..options };
        let shared = self.store.trust().is_shared();
        let outcome = lock::acquire(self.store.fs(), &self.lock_path(key)?, shared, options);
        if waits.load(Ordering::Relaxed) {
            self.count_wait(began.elapsed());
        }
        outcome
    }

    /// Tries to take the lock on `key`, without waiting: for a caller that has other work meanwhile.
    ///
    /// # Errors
    /// The lock file cannot be created or opened.
    pub fn try_lock(&self, key: &Digest) -> Result<TryLockOutcome, StoreError> {
        if !self.is_writable() {
            return Ok(TryLockOutcome::Unsupported);
        }
        lock::attempt(self.store.fs(), &self.lock_path(key)?, self.store.trust().is_shared())
    }

    /// Tries again to take a lock. Call it every 1 to 20 ms.
    ///
    /// # Errors
    /// The lock file cannot be created or opened.
    pub fn poll(&self, wait: LockWaiter) -> Result<TryLockOutcome, StoreError> {
        let waited = wait.waited();
        // The directory may have been deleted during the wait.
        self.own_dir("locks")?;
        let attempt = wait.poll()?;
        if !matches!(attempt, TryLockOutcome::Held(_)) {
            self.count_wait(waited);
        }
        Ok(attempt)
    }

    /// Ends the wait for a lock.
    pub fn cancel_wait(&self, wait: LockWaiter) {
        self.count_wait(wait.waited());
    }

    fn count_wait(&self, waited: Duration) {
        opkeep_trace::debug!("wait for a lock ended", seconds = waited.as_secs_f64());
        self.tracker.counters.add(Counter::Waits, 1);
        self.tracker.counters.add_time(Counter::WaitMicros, waited);
    }

    /// Takes the lock on `key`, if it is free.
    pub(crate) fn lock_if_free(&self, key: &Digest) -> Result<LockOutcome, StoreError> {
        let options = WaitOptions { deadline: Some(Instant::now()), cancelled: &|| false, on_wait: None };
        let shared = self.store.trust().is_shared();
        lock::acquire(self.store.fs(), &self.lock_path(key)?, shared, options)
    }

    /// Counts the compile of an entry's content, which took `time`.
    pub fn count_compile(&self, time: Duration) {
        self.tracker.counters.add(Counter::Compiles, 1);
        self.tracker.counters.add_time(Counter::CompileMicros, time);
    }

    /// Adds to a counter, for a cache that also uses a remote store.
    pub fn count(&self, counter: Counter, number: u64) {
        self.tracker.counters.add(counter, number);
    }

    /// Returns the statistics of this target, with those of this process.
    pub fn statistics(&self) -> Statistics {
        self.tracker.counters.all(self.store.fs())
    }

    /// Resets the statistics.
    ///
    /// # Errors
    /// The counters file could not be written.
    pub fn reset_statistics(&self) -> Result<(), StoreError> {
        self.must_be_writable()?;
        let trouble = |source| StoreError::Io { action: "write", path: self.dir.join("stats"), source };
        self.tracker.counters.reset(self.store.fs(), self.tracker.clock.now()).map_err(trouble)
    }

    /// Returns an estimate of the size, if it is known. [`gc`](Self::gc) returns the exact size, even in a dry run.
    pub fn estimate(&self) -> Option<SizeEstimate> {
        self.tracker.size.estimate(self.store.fs())
    }

    /// Writes the statistics and the size to their files. The last of several clones also writes them when it is
    /// dropped.
    ///
    /// # Errors
    /// The files could not be written. The counts are kept for the next time.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.tracker.flush().map_err(|source| StoreError::Io {
            action: "write statistics in",
            path: self.dir.clone(),
            source,
        })
    }

    /// Syncs the directories of `keys`, so that their entries survive a power cut. Best effort.
    pub fn sync(&self, keys: &[Digest]) {
        let mut shards: Vec<u8> = keys.iter().map(|key| key.as_bytes()[0]).collect();
        opkeep_order::sort(&mut shards);
        shards.dedup();
        let sync = |dir: &Path| {
            let _ = self.store.fs().open_dir(dir).and_then(|directory| directory.sync());
        };
        shards.iter().for_each(|shard| sync(&self.shard_dir(*shard)));
        // Some of the directories may be new.
        if !shards.is_empty() {
            sync(&self.dir.join("entries"));
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn tracker(&self) -> &UsageTracker {
        &self.tracker
    }

    fn lock_path(&self, key: &Digest) -> Result<PathBuf, StoreError> {
        Ok(self.own_dir("locks")?.path().join(key.to_string()))
    }

    /// Opens a directory of this target to write to it.
    pub(crate) fn own_dir(&self, name: &str) -> Result<Dir, StoreError> {
        self.dir_to_write(&self.dir.join(name))
    }

    /// Opens a directory to write to it. A removed one is created again, and so is the whole store, since a process may
    /// outlive both; a directory that became a link is an error.
    fn dir_to_write(&self, path: &Path) -> Result<Dir, StoreError> {
        let mut opened = self.store.directory(path, true);
        if opened.as_ref().is_err_and(StoreError::is_missing) && self.create_again().is_ok() {
            opened = self.store.directory(path, true);
        }
        let missing = || StoreError::Io {
            action: "open",
            path: path.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        };
        opened?.ok_or_else(missing)
    }

    fn create_again(&self) -> Result<(), StoreError> {
        Self::open(&self.store.open_again()?, self.dir.clone())?;
        // Other processes may have created the directories.
        self.shards.iter().for_each(|shard| shard.store(UNKNOWN, Ordering::Relaxed));
        Ok(())
    }

    pub(crate) fn must_be_writable(&self) -> Result<(), StoreError> {
        match self.is_writable() {
            true => Ok(()),
            false => Err(StoreError::ReadOnly { path: self.dir.clone() }),
        }
    }

    pub(crate) fn shard_dir(&self, shard: u8) -> PathBuf {
        self.dir.join(format!("entries/{shard:02x}"))
    }

    /// Checks owner and mode of the directory of the entry for `key`, once for each directory: a look-up must be fast.
    pub(super) fn shard_is_trusted(&self, key: &Digest) -> Result<(), StoreError> {
        let shard = key.as_bytes()[0];
        let known = &self.shards[usize::from(shard)];
        if known.load(Ordering::Relaxed) != TRUSTED
            && self.store.directory(&self.shard_dir(shard), false)?.is_some()
        {
            known.store(TRUSTED, Ordering::Relaxed);
        }
        Ok(())
    }
}
