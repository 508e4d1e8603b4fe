//! Which entries go when there is no room, and how they go.
//!
//! Of the entries that nobody used for half an hour, only the prefixes of the idlest are read, as many as are worth twice
//! what must go. Of those the ones go first that are cheapest to make again for their size, the more so the longer they
//! were idle.
//!
//! They go without harm to anybody; what those in one directory share is opened and checked once.
//!
//! An entry goes under its key's lock: whoever holds that makes the entry, or has just found it again. To make a lock's
//! file for each entry, and to remove it, would take longer than all the rest. So there is one file, whose lock is held
//! all the time, and which is [moved](KeyLock::moved_to) from key to key by a rename that replaces nothing. At any time it
//! excludes others from one key, as a file of that key's own does; one who came meanwhile and waits at the open file
//! waits until it is released, so that is done after each directory, and after [`MOVES`] entries.
//!
//! A put needs no lock, and a hit touches the file. So an entry is looked at under its lock, moved to `tmp`, where nobody
//! finds it, looked at again, and brought back if it is not the file that was judged. The file is known by its inode,
//! its length and when it was last used, all three, and need not be open for that: another file that gets the inode of
//! one that was removed meanwhile has the time at which it was put, and what is judged was not used for long by then.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use crate::entry::prefix::Prefix;
use crate::inventory::{EvictionCandidate, FileTotals};
use crate::layout::{EVICT, entry_name};
use crate::lock::{self, KeyLock, LockOutcome};
use crate::{StoreError, TargetStore, files};
use opkeep_fs::{Dir, FileStat, idle, unique_name};

/// What must go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvictionGoal {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl EvictionGoal {
    pub(crate) fn is_reached_by(&self, gone: &FileTotals) -> bool {
        gone.bytes >= self.bytes && gone.files >= self.entries
    }

    fn left_after(&self, gone: &FileTotals) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(gone.bytes),
            entries: self.entries.saturating_sub(gone.files),
        }
    }

    fn twice(&self) -> Self {
        Self { bytes: self.bytes.saturating_mul(2), entries: self.entries.saturating_mul(2) }
    }
}

/// Deletes entries.
pub(crate) struct Eviction<'a> {
    pub(crate) target: &'a TargetStore,
    pub(crate) now: SystemTime,
    pub(crate) dry: bool,
    /// What went.
    pub(crate) gone: FileTotals,
    /// What should have gone and could not be deleted, and why the first of it could not.
    pub(crate) failed: u64,
    pub(crate) failure: Option<StoreError>,
}

impl Eviction<'_> {
    /// Deletes every entry that was not used for `age`, and leaves the others in `candidates`, as they were.
    pub(crate) fn older_than(&mut self, age: Duration, candidates: &mut Vec<EvictionCandidate>) {
        let is_old = |entry: &EvictionCandidate| idle(entry.used, self.now) >= age;
        let old: Vec<EvictionCandidate> = candidates.extract_if(.., |entry| is_old(entry)).collect();
        self.evict(old.iter().collect());
    }

    /// Deletes entries until `goal` is reached, or none is left.
    pub(crate) fn reach(&mut self, goal: EvictionGoal, mut candidates: Vec<EvictionCandidate>) {
        let before = self.gone;
        let gained = |gone: FileTotals| {
            let mut gained = gone;
            gained -= before;
            gained
        };
        // The key makes the order the same for everybody, should times be equal.
        candidates.sort_unstable_by_key(|entry| (entry.used, entry.key));
        let mut candidates = candidates.as_slice();
        while !goal.is_reached_by(&gained(self.gone)) && !candidates.is_empty() {
            let (wanted, mut worth) = (goal.left_after(&gained(self.gone)).twice(), FileTotals::default());
            let mut pool = Vec::new();
            while !wanted.is_reached_by(&worth)
                && let Some((entry, others)) = candidates.split_first()
            {
                worth.add(entry.bytes);
                pool.push(entry);
                candidates = others;
            }
            let mut order = self.cheapest_first(&pool).into_iter();
            // As many as will do if each can be deleted; for those that cannot, the next in order.
            while !goal.is_reached_by(&gained(self.gone)) {
                let (wanted, mut worth) = (goal.left_after(&gained(self.gone)), FileTotals::default());
                let mut these = Vec::new();
                while !wanted.is_reached_by(&worth)
                    && let Some(entry) = order.next()
                {
                    worth.add(entry.bytes);
                    these.push(entry);
                }
                if these.is_empty() {
                    break;
                }
                self.evict(these);
            }
        }
    }

    /// Orders entries by what is lost by deleting them: the time it takes to make a byte of one, the less the longer it was
    /// idle. One whose cost nobody knows may be one that nobody can make again: it counts as the dearest of them.
    fn cheapest_first<'e>(&self, pool: &[&'e EvictionCandidate]) -> Vec<&'e EvictionCandidate> {
        let costs = self.costs(pool);
        let known = costs.iter().filter_map(|cost| *cost).filter(|cost| cost.is_finite());
        let dearest = Some(known.fold(0.0, f64::max)).filter(|cost| *cost > 0.0).unwrap_or(1.0);
        let worth = |(cost, entry): (Option<f64>, &'e EvictionCandidate)| {
            let idle = idle(entry.used, self.now).as_secs_f64().max(1.0);
            (cost.unwrap_or(dearest) / (entry.bytes.max(1) as f64) / idle, entry)
        };
        let mut pool: Vec<(f64, &EvictionCandidate)> =
            costs.into_iter().zip(pool.iter().copied()).map(worth).collect();
        pool.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        pool.into_iter().map(|(_, entry)| entry).collect()
    }

    /// What each of these took to make, in the same order.
    fn costs(&self, pool: &[&EvictionCandidate]) -> Vec<Option<f64>> {
        let (mut batch, mut costs) = (Batch::new(self.target), vec![None; pool.len()]);
        let mut by_shard: Vec<_> = pool.iter().zip(&mut costs).collect();
        by_shard.sort_by_key(|(entry, _)| Batch::shard_of(entry));
        for (entry, cost) in by_shard {
            *cost = batch.cost(entry);
        }
        costs
    }

    /// Deletes these entries, those in one directory together.
    fn evict(&mut self, mut entries: Vec<&EvictionCandidate>) {
        entries.sort_by_key(|entry| Batch::shard_of(entry));
        let mut batch = Batch::new(self.target);
        for entry in entries {
            match if self.dry { Ok(self.would_evict(entry)) } else { batch.remove(entry) } {
                Ok(true) => self.gone.add(entry.bytes),
                Ok(false) => {}
                Err(error) => {
                    self.failed += 1;
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// Whether an entry would be deleted: it is not being made anew, and it is the one that was judged.
    fn would_evict(&self, entry: &EvictionCandidate) -> bool {
        let (store, path) = (self.target.store(), self.target.path(&entry.key));
        let is_held = lock::is_held(store.fs(), &self.target.dir().join("locks").join(entry.key.to_string()));
        !is_held && store.fs().id_at(&path) == Some(entry.inode)
    }
}

/// How many entries go before the lock's file is removed, and those who wait at it can go on.
const MOVES: usize = 64;

/// Entries that are dealt with in a row, best those of one directory after the other.
struct Batch<'a> {
    target: &'a TargetStore,
    /// The directory of the entry that was last dealt with.
    shard: Option<(u8, Dir)>,
    /// `tmp`, since the first entry of that directory was removed.
    temps: Option<Dir>,
    lock: LockInTurn<'a>,
}

impl<'a> Batch<'a> {
    fn new(target: &'a TargetStore) -> Self {
        Self { target, shard: None, temps: None, lock: LockInTurn { target, held: None } }
    }

    /// Which of the 256 directories an entry is in.
    fn shard_of(entry: &EvictionCandidate) -> u8 {
        entry.key.as_bytes()[0]
    }

    /// How long it took to make an entry, in seconds, if that is known. One that is damaged is worth nothing.
    fn cost(&mut self, entry: &EvictionCandidate) -> Option<f64> {
        let (fs, path) = (self.target.store().fs(), self.target.path(&entry.key));
        let shard = self.enter(Self::shard_of(entry)).ok().flatten();
        let opened = shard.and_then(|shard| shard.open_file(entry_name(&entry.key)).ok());
        let prefix = opened.and_then(|file| Prefix::read(fs, &file, &path, entry.bytes, &entry.key).ok());
        match prefix {
            Some(Ok(prefix)) => Some(prefix.cost.as_secs_f64()).filter(|cost| *cost > 0.0),
            Some(Err(_)) => Some(0.0),
            // It may be in order; others go first.
            None => Some(f64::INFINITY),
        }
    }

    /// Deletes an entry under its lock, if it is still the one that was judged and was not used since. False if not.
    fn remove(&mut self, entry: &EvictionCandidate) -> Result<bool, StoreError> {
        let shard = Self::shard_of(entry);
        if self.shard.as_ref().is_none_or(|(entered, _)| *entered != shard) {
            self.lock.release();
        }
        if !self.lock.take(entry)? {
            return Ok(false);
        }
        if self.enter(shard)?.is_none() {
            return Ok(false);
        }
        let temps = match self.temps.take() {
            Some(temps) => temps,
            None => self.target.own_dir("tmp")?,
        };
        let removed = match &self.shard {
            Some((_, shard)) => self.remove_from(shard, &temps, entry),
            None => Ok(false),
        };
        self.temps = Some(temps);
        removed
    }

    fn remove_from(&self, shard: &Dir, temps: &Dir, entry: &EvictionCandidate) -> Result<bool, StoreError> {
        let (name, temp) = (entry_name(&entry.key), unique_name(EVICT));
        let trouble = |source| StoreError::Io { action: "remove", path: shard.path().join(&name), source };
        let is_as_judged = |found: &FileStat| {
            (found.state.id, found.state.len, found.modified()) == (entry.inode, entry.bytes, entry.used)
        };
        match shard.look(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            found => {
                if !is_as_judged(&found.map_err(trouble)?) {
                    return Ok(false);
                }
            }
        }
        match shard.rename(&name, temps, &temp) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            moved => moved.map_err(trouble)?,
        }
        if !temps.look(&temp).is_ok_and(|found| is_as_judged(&found)) {
            let (from, to) = (temps.path().join(&temp), shard.path().join(&name));
            let _ = files::put_back(self.target.store().fs(), &from, &to);
            return Ok(false);
        }
        match temps.remove(&temp) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(trouble(error)),
            _ => Ok(true),
        }
    }

    /// The directory of entries whose number is `shard`, checked when it was opened. `None` if it is not there.
    fn enter(&mut self, shard: u8) -> Result<Option<&Dir>, StoreError> {
        if self.shard.as_ref().is_none_or(|(entered, _)| *entered != shard) {
            (self.shard, self.temps) = (None, None);
            let opened = self.target.store().directory(&self.target.shard_dir(shard), false)?;
            self.shard = opened.map(|dir| (shard, dir));
        }
        Ok(self.shard.as_ref().map(|(_, dir)| dir))
    }
}

/// The lock of one key after the other.
struct LockInTurn<'a> {
    target: &'a TargetStore,
    held: Option<Held>,
}

/// A lock that is held, if there are locks, the directory it is in, and how often it may still be moved.
struct Held {
    lock: KeyLock,
    dir: Dir,
    moves: usize,
}

impl LockInTurn<'_> {
    /// Takes the lock on the key of `entry`, if nobody holds it, and releases the one before. Whether the entry may go.
    fn take(&mut self, entry: &EvictionCandidate) -> Result<bool, StoreError> {
        if let Some(Held { lock, dir, moves }) = self.held.take()
            && let Some(moves) = moves.checked_sub(1)
            && let Some(lock) = lock.moved_to(&dir, &entry.key.to_string())
        {
            self.held = Some(Held { lock, dir, moves });
            return Ok(true);
        }
        match self.target.lock_if_free(&entry.key)? {
            LockOutcome::Acquired(lock) => {
                let dir = self.target.own_dir("locks")?;
                self.held = Some(Held { lock, dir, moves: MOVES });
                Ok(true)
            }
            // Then nobody locks here, and the looks at the file are all there is.
            LockOutcome::Unsupported => Ok(true),
            // Somebody makes it anew.
            _ => Ok(false),
        }
    }

    fn release(&mut self) {
        self.held = None;
    }
}
