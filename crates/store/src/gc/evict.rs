//! Eviction: the choice of entries, and their removal.
//!
//! Of the entries that were idle for half an hour, only the prefixes of the idlest are read, as many as hold twice the bytes
//! to evict. Of those, the entries with the lowest cost per byte and idle second are evicted first.
//!
//! Entries are visited in the order of the 256 directories, each of which is opened and checked once. A second thread gains
//! nothing: a rename from one directory to another locks the file system.
//!
//! An entry is evicted under its key's lock: a holder creates the entry, or has just found it. Creating and removing a lock
//! file for each entry would take longer than all the rest. So one lock file is held all the time, and is
//! [moved](KeyLock::moved_to) from key to key by a rename that replaces no file. At any time it excludes other processes from
//! one key, as a lock file of that key does. A waiter that has opened the file meanwhile waits until it is released, which
//! happens after [`MOVES`] entries.
//!
//! The calls for each evicted entry, and the promises that they keep:
//!
//! | call | promise |
//! |---|---|
//! | a look, in the inventory | totals are exact, and an entry that was used within half an hour stays |
//! | open, read, close | of idle entries, the cheapest per byte go first |
//! | a look at the lock file | only the holder of a lock moves its file |
//! | a rename of the lock file | no entry is evicted while another process creates it |
//! | a look before, and one after the rename | an entry that was used or replaced since it was chosen stays |
//! | a rename to `tmp` | no process finds the entry while it is checked; the previous one is removed |
//!
//! The first two are made for entries that stay, too. In memory, they all take three to four times as long as a plain
//! removal, which is one call.
//!
//! A put needs no lock, and a hit touches the file. So an entry is checked under its lock, moved to `tmp`, where no process
//! finds it, checked again, and restored if it is not the chosen file. The next entry replaces the one in `tmp`, which removes
//! it. A file is identified by its inode, its length and its last use, without being open: another file that gets the
//! inode of a removed one was put later, while the chosen file was idle for long.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use super::preview::NextEviction;
use crate::entry::prefix::Prefix;
use crate::inventory::{EvictionCandidate, FileTotals};
use crate::layout::{EVICT, entry_name};
use crate::lock::{self, KeyLock, LockOutcome};
use crate::{StoreError, TargetStore, files};
use opkeep_fs::{Dir, FileStat, idle, unique_name};

/// An amount of entries: a limit, or how much to evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Amount {
    pub(crate) fn is_reached_by(&self, evicted: &FileTotals) -> bool {
        evicted.bytes >= self.bytes && evicted.files >= self.entries
    }

    fn left_after(&self, evicted: &FileTotals) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(evicted.bytes),
            entries: self.entries.saturating_sub(evicted.files),
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
    /// The totals of the evicted entries.
    pub(crate) evicted: FileTotals,
    /// The number of entries that could not be deleted, and the error of the first.
    pub(crate) failed: u64,
    pub(crate) failure: Option<StoreError>,
}

impl Eviction<'_> {
    /// Deletes the entries that were not used for `age`, and leaves the others in `candidates`, in their order.
    pub(crate) fn older_than(&mut self, age: Duration, candidates: &mut Vec<EvictionCandidate>) {
        let is_old = |entry: &EvictionCandidate| idle(entry.used, self.now) >= age;
        let old: Vec<EvictionCandidate> = candidates.extract_if(.., |entry| is_old(entry)).collect();
        self.evict(old.iter().collect());
    }

    /// Deletes entries until `goal` is reached, or no candidate is left.
    pub(crate) fn reach(&mut self, goal: Amount, candidates: &[EvictionCandidate]) {
        let before = self.evicted;
        let gained = |evicted: FileTotals| {
            let mut gained = evicted;
            gained -= before;
            gained
        };
        let candidates = idlest_first(candidates);
        let mut candidates = candidates.as_slice();
        while !goal.is_reached_by(&gained(self.evicted)) && !candidates.is_empty() {
            let pool = take(&mut candidates, &goal.left_after(&gained(self.evicted)).twice());
            let mut order = self.cheapest_first(&pool).into_iter();
            // Chooses as many entries as suffice if each can be deleted. The next round replaces those that cannot be
            // deleted.
            while !goal.is_reached_by(&gained(self.evicted)) {
                let (wanted, mut worth) = (goal.left_after(&gained(self.evicted)), FileTotals::default());
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

    /// Returns the first `count` entries that [`reach`](Self::reach) would delete for `goal`, in its order.
    pub(crate) fn first(
        &self,
        goal: Amount,
        candidates: &[EvictionCandidate],
        count: usize,
    ) -> Vec<NextEviction> {
        let candidates = idlest_first(candidates);
        let (mut candidates, mut first) = (candidates.as_slice(), Vec::new());
        while first.len() < count && !candidates.is_empty() {
            let pool = take(&mut candidates, &goal.twice());
            if pool.is_empty() {
                break;
            }
            first.extend(self.cheapest_first(&pool));
        }
        first.truncate(count);
        let costs = self.costs(&first);
        let next = |(entry, cost): (&EvictionCandidate, Option<f64>)| NextEviction {
            key: entry.key,
            bytes: entry.bytes,
            last_used: entry.used,
            cost: cost.and_then(|cost| Duration::try_from_secs_f64(cost).ok()),
        };
        first.into_iter().zip(costs).map(next).collect()
    }

    /// Orders entries by the loss if they are deleted: cost per byte, divided by the idle time. An entry of unknown
    /// cost counts as the most expensive of them, since it may be impossible to compile again.
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

    /// Returns the cost of each entry in seconds, in the order of `pool`.
    fn costs(&self, pool: &[&EvictionCandidate]) -> Vec<Option<f64>> {
        let mut order: Vec<usize> = (0..pool.len()).collect();
        order.sort_by_key(|at| shard_of(pool[*at]));
        let (mut costs, mut batch) = (vec![None; pool.len()], Batch::new(self.target));
        for at in order {
            costs[at] = batch.cost(pool[at]);
        }
        costs
    }

    /// Evicts these entries.
    fn evict(&mut self, mut entries: Vec<&EvictionCandidate>) {
        entries.sort_by_key(|entry| shard_of(entry));
        let mut batch = Batch::new(self.target);
        for entry in entries {
            match if self.dry { Ok(self.would_evict(entry)) } else { batch.remove(entry) } {
                Ok(true) => self.evicted.add(entry.bytes),
                Ok(false) => {}
                Err(error) => self.fail(error),
            }
        }
        if let Err((bytes, error)) = batch.finish() {
            self.evicted -= FileTotals { files: 1, bytes };
            self.fail(error);
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.failed += 1;
        self.failure.get_or_insert(error);
    }

    /// Whether an entry would be evicted: its key is not locked, and the file is still the chosen one.
    fn would_evict(&self, entry: &EvictionCandidate) -> bool {
        let (store, path) = (self.target.store(), self.target.path(&entry.key));
        let is_held = lock::is_held(store.fs(), &self.target.dir().join("locks").join(entry.key.to_string()));
        !is_held && store.fs().id_at(&path) == Some(entry.inode)
    }
}

/// Returns the entries in the order of their last uses; by the key, too, so that the order is the same in each process even if times
/// are equal.
fn idlest_first(candidates: &[EvictionCandidate]) -> Vec<&EvictionCandidate> {
    let mut candidates: Vec<&EvictionCandidate> = candidates.iter().collect();
    candidates.sort_unstable_by(|one, other| one.used.cmp(&other.used).then_with(|| one.key.cmp(&other.key)));
    candidates
}

/// Takes as many of the first candidates as hold `wanted`.
fn take<'e>(candidates: &mut &[&'e EvictionCandidate], wanted: &Amount) -> Vec<&'e EvictionCandidate> {
    let (mut pool, mut worth) = (Vec::new(), FileTotals::default());
    while !wanted.is_reached_by(&worth)
        && let Some((entry, others)) = candidates.split_first()
    {
        worth.add(entry.bytes);
        pool.push(*entry);
        *candidates = others;
    }
    pool
}

/// Returns the number, from 0 to 255, of the directory that contains an entry.
fn shard_of(entry: &EvictionCandidate) -> u8 {
    entry.key.as_bytes()[0]
}

/// The number of entries after which the lock file is removed, so that its waiters continue.
const MOVES: usize = 64;

/// The eviction of entries one after the other. Each directory is opened and checked once.
struct Batch<'a> {
    target: &'a TargetStore,
    /// The last directory of entries and its number; `None` if it is missing.
    shard: Option<(u8, Option<Dir>)>,
    /// The directory `tmp`.
    temps: Option<Dir>,
    /// The name in `tmp` to which entries are moved. Each entry replaces, and so removes, the previous one.
    temp: String,
    /// The number of bytes of the entry that has this name now.
    moved: Option<u64>,
    lock: LockInTurn<'a>,
}

impl<'a> Batch<'a> {
    fn new(target: &'a TargetStore) -> Self {
        let lock = LockInTurn { target, held: None };
        Self { target, shard: None, temps: None, temp: unique_name(EVICT), moved: None, lock }
    }

    /// Returns the cost of an entry in seconds, if it is known; zero for a damaged entry.
    fn cost(&mut self, entry: &EvictionCandidate) -> Option<f64> {
        let _ = self.enter(entry);
        let prefix = self.shard().and_then(|shard| {
            let name = entry_name(&entry.key);
            let file = shard.open_file(&name).ok()?;
            Prefix::read(|limit| shard.read_start(&file, &name, limit), entry.bytes, &entry.key).ok()
        });
        match prefix {
            Some(Ok(prefix)) => Some(prefix.cost.as_secs_f64()).filter(|cost| *cost > 0.0),
            Some(Err(_)) => Some(0.0),
            // The entry may be valid: it is evicted last.
            None => Some(f64::INFINITY),
        }
    }

    /// Evicts an entry under its lock, if the file is still the chosen one and was not used since. Returns whether it
    /// was evicted.
    fn remove(&mut self, entry: &EvictionCandidate) -> Result<bool, StoreError> {
        if !self.lock.take(entry)? {
            return Ok(false);
        }
        self.enter(entry)?;
        if self.temps.is_none() {
            self.temps = Some(self.target.own_dir("tmp")?);
        }
        let (Some(shard), Some(temps)) = (self.shard(), &self.temps) else { return Ok(false) };
        let name = entry_name(&entry.key);
        let trouble = |source| StoreError::Io { action: "remove", path: shard.path().join(&name), source };
        let is_as_checked = |found: &FileStat| {
            (found.state.id, found.state.len, found.modified()) == (entry.inode, entry.bytes, entry.used)
        };
        match shard.look(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            found => {
                if !is_as_checked(&found.map_err(trouble)?) {
                    return Ok(false);
                }
            }
        }
        match shard.rename(&name, temps, &self.temp) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            moved => moved.map_err(trouble)?,
        }
        if temps.look(&self.temp).is_ok_and(|found| is_as_checked(&found)) {
            self.moved = Some(entry.bytes);
            return Ok(true);
        }
        let (from, to) = (temps.path().join(&self.temp), shard.path().join(&name));
        let _ = files::restore(self.target.store().fs(), &from, &to);
        // If the restore failed, the next entry must not replace this one.
        (self.temp, self.moved) = (unique_name(EVICT), None);
        Ok(false)
    }

    /// Removes the last entry that was moved, and releases the lock.
    ///
    /// # Errors
    /// The entry could not be removed. The error has the number of its bytes, and the cause.
    fn finish(self) -> Result<(), (u64, StoreError)> {
        let (Some(temps), Some(bytes)) = (self.temps, self.moved) else { return Ok(()) };
        match temps.remove(&self.temp) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                let path = temps.path().join(&self.temp);
                Err((bytes, StoreError::Io { action: "remove", path, source }))
            }
            _ => Ok(()),
        }
    }

    /// Opens and checks the directory of `entry`, unless it is open.
    fn enter(&mut self, entry: &EvictionCandidate) -> Result<(), StoreError> {
        let number = shard_of(entry);
        if self.shard.as_ref().is_none_or(|(open, _)| *open != number) {
            self.shard = None;
            let shard = self.target.store().directory(&self.target.shard_dir(number), false)?;
            self.shard = Some((number, shard.map(Dir::quiet)));
        }
        Ok(())
    }

    fn shard(&self) -> Option<&Dir> {
        self.shard.as_ref()?.1.as_ref()
    }
}

/// A lock that is moved from key to key.
struct LockInTurn<'a> {
    target: &'a TargetStore,
    held: Option<Held>,
}

/// A held lock, its directory, and the number of times that it may still be moved.
struct Held {
    lock: KeyLock,
    dir: Dir,
    moves: usize,
}

impl LockInTurn<'_> {
    /// Takes the lock on the key of `entry`, if it is free, and releases the previous one. Returns whether the entry
    /// may be evicted.
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
            // Without locks only the checks of the file protect the entry.
            LockOutcome::Unsupported => Ok(true),
            // Another process compiles the entry.
            _ => Ok(false),
        }
    }
}
