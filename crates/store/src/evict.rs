//! Which entries go when there is no room, and how one goes without harm to anybody.
//!
//! Of the entries that nobody used for half an hour, only the prefixes of the idlest are read, as many as are worth twice
//! what must go. Of those the ones go first that are cheapest to make again for their size, the more so the longer they
//! were idle.

use std::time::{Duration, SystemTime};

use crate::files::{self, EVICT};
use crate::lock::{self, LockOutcome};
use crate::prefix::Prefix;
use crate::walk::{Amount, Idle};
use crate::{StoreError, TargetStore};
use opkeep_fs::{idle, unique_name};

/// What must go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Goal {
    pub(crate) fn is_reached_by(&self, gone: &Amount) -> bool {
        gone.bytes >= self.bytes && gone.files >= self.entries
    }

    fn left_after(&self, gone: &Amount) -> Self {
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
    pub(crate) shelf: &'a TargetStore,
    pub(crate) now: SystemTime,
    pub(crate) dry: bool,
    /// What went.
    pub(crate) gone: Amount,
    /// What should have gone and could not be deleted, and why the first of it could not.
    pub(crate) failed: u64,
    pub(crate) failure: Option<StoreError>,
}

impl Eviction<'_> {
    /// Deletes every entry that was not used for `age`, and leaves the others in `idles`, as they were.
    pub(crate) fn older_than(&mut self, age: Duration, idles: &mut Vec<Idle>) {
        idles.retain(|entry| {
            let is_old = idle(entry.used, self.now) >= age;
            if is_old {
                self.evict(entry);
            }
            !is_old
        });
    }

    /// Deletes entries until `goal` is reached, or none is left.
    pub(crate) fn reach(&mut self, goal: Goal, mut idles: Vec<Idle>) {
        let before = self.gone;
        let gained = |gone: Amount| {
            let mut gained = gone;
            gained -= before;
            gained
        };
        // The key makes the order the same for everybody, should times be equal.
        idles.sort_unstable_by_key(|entry| (entry.used, entry.key));
        let mut idles = idles.as_slice();
        while !goal.is_reached_by(&gained(self.gone)) && !idles.is_empty() {
            let (wanted, mut worth) = (goal.left_after(&gained(self.gone)).twice(), Amount::default());
            let mut pool = Vec::new();
            while !wanted.is_reached_by(&worth)
                && let Some((entry, others)) = idles.split_first()
            {
                worth.add(entry.bytes);
                pool.push((self.cost(entry), entry));
                idles = others;
            }
            for entry in self.cheapest_first(pool) {
                if goal.is_reached_by(&gained(self.gone)) {
                    break;
                }
                self.evict(entry);
            }
        }
    }

    /// Orders entries by what is lost by deleting them: the time it takes to make a byte of one, the less the longer it was
    /// idle. One whose cost nobody knows may be one that nobody can make again: it counts as the dearest of them.
    fn cheapest_first<'e>(&self, pool: Vec<(Option<f64>, &'e Idle)>) -> Vec<&'e Idle> {
        let known = pool.iter().filter_map(|(cost, _)| *cost).filter(|cost| cost.is_finite());
        let dearest = Some(known.fold(0.0, f64::max)).filter(|cost| *cost > 0.0).unwrap_or(1.0);
        let worth = |(cost, entry): (Option<f64>, &'e Idle)| {
            let idle = idle(entry.used, self.now).as_secs_f64().max(1.0);
            (cost.unwrap_or(dearest) / (entry.bytes.max(1) as f64) / idle, entry)
        };
        let mut pool: Vec<(f64, &Idle)> = pool.into_iter().map(worth).collect();
        pool.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        pool.into_iter().map(|(_, entry)| entry).collect()
    }

    /// How long it took to make an entry, in seconds, if that is known. One that is damaged is worth nothing.
    fn cost(&self, entry: &Idle) -> Option<f64> {
        let path = self.shelf.path(&entry.key);
        let fs = self.shelf.store().fs();
        let prefix = fs.open(&path).and_then(|file| Prefix::read(fs, &file, &path, entry.bytes, &entry.key));
        match prefix {
            Ok(Ok(prefix)) => Some(prefix.cost.as_secs_f64()).filter(|cost| *cost > 0.0),
            Ok(Err(_)) => Some(0.0),
            // It may be in order; others go first.
            Err(_) => Some(f64::INFINITY),
        }
    }

    fn evict(&mut self, entry: &Idle) {
        match if self.dry { Ok(self.would_evict(entry)) } else { self.really_evict(entry) } {
            Ok(true) => self.gone.add(entry.bytes),
            Ok(false) => {}
            Err(error) => {
                self.failed += 1;
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Whether an entry would be deleted: it is not being made anew, and it is the one that was judged.
    fn would_evict(&self, entry: &Idle) -> bool {
        let (store, path) = (self.shelf.store(), self.shelf.path(&entry.key));
        let is_held = lock::is_held(store.fs(), &self.shelf.dir().join("locks").join(entry.key.to_string()));
        !is_held && store.fs().id_at(&path) == Some(entry.inode)
    }

    /// Deletes an entry under its lock, if it is still the one that was judged and was not used since. False if not.
    fn really_evict(&self, entry: &Idle) -> Result<bool, StoreError> {
        let (store, path) = (self.shelf.store(), self.shelf.path(&entry.key));
        let fs = store.fs();
        let trouble = |source| StoreError::Io { action: "remove", path: path.clone(), source };
        let _held = match self.shelf.lock_if_free(&entry.key)? {
            LockOutcome::Acquired(lock) => Some(lock),
            // Then nobody locks here, and the looks below are all there is.
            LockOutcome::Unsupported => None,
            // Somebody makes it anew.
            _ => return Ok(false),
        };
        let dir = path.parent().unwrap_or(&path);
        let Some(folder) = store.folder(dir, false)? else { return Ok(false) };
        let name = format!("{}.kern", entry.key);
        // Kept open, so that no other file gets its inode number.
        let file = match folder.open_file(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(trouble)?,
        };
        let is_as_judged = || -> Result<bool, StoreError> {
            let now = fs.stat(&file, &path).map_err(trouble)?;
            Ok((now.state.id, now.state.len, now.modified()) == (entry.inode, entry.bytes, entry.used))
        };
        if !is_as_judged()? {
            return Ok(false);
        }
        // A put needs no lock, and a hit touches the file: so it is moved first, and looked at again.
        let place = self.shelf.own_folder("tmp")?.join(unique_name(EVICT));
        match fs.rename_out(&folder, &name, &place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(trouble)?,
        }
        if fs.id_at(&place) != Some(entry.inode) || !is_as_judged().unwrap_or(false) {
            let _ = files::put_back(fs, &place, &path);
            return Ok(false);
        }
        fs.remove(&place).map_err(trouble)?;
        Ok(true)
    }
}
