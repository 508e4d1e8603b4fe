//! The rows of a table, and what is known of all of them together. Each change of a row keeps that up to date, so that no operation on
//! one key visits all rows.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use opkeep_digest::Digest;

use super::row::{EntryState, Row};

#[derive(Clone, Debug)]
pub(super) struct Rows<E> {
    rows: HashMap<Digest, Row<E>>,
    index: Index,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Index {
    /// The number of keys for which callers wait.
    watched: usize,
    /// The keys whose entries arrived and were not judged.
    arrivals: BTreeSet<Digest>,
    /// The size of the entries that arrived.
    arrived_bytes: u64,
    /// The same of those for which no caller waits.
    unclaimed_bytes: u64,
    /// The keys that no caller needs, each with the time until which it is fresh.
    idle: BTreeSet<(Option<Instant>, Digest)>,
}

impl<E> Rows<E> {
    pub(super) fn new() -> Self {
        Self { rows: HashMap::new(), index: Index::default() }
    }

    pub(super) fn get(&self, key: &Digest) -> Option<&Row<E>> {
        self.rows.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Digest, &Row<E>)> {
        self.rows.iter()
    }

    /// Changes a row, which is created if it is missing.
    pub(super) fn change<T>(&mut self, key: &Digest, change: impl FnOnce(&mut Row<E>) -> T) -> T {
        let row = self.rows.entry(*key).or_insert_with(|| {
            let row = Row::default();
            self.index.add(key, &row);
            row
        });
        self.index.change(key, row, change)
    }

    /// Changes a row, if there is one.
    pub(super) fn change_known<T>(
        &mut self,
        key: &Digest,
        change: impl FnOnce(&mut Row<E>) -> T,
    ) -> Option<T> {
        let row = self.rows.get_mut(key)?;
        Some(self.index.change(key, row, change))
    }

    /// Changes all rows.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Row<E>)) {
        let Self { rows, index } = self;
        rows.iter_mut().for_each(|(key, row)| index.change(key, row, &mut change));
    }

    /// Removes what no caller needs any more.
    pub(super) fn prune(&mut self, now: Instant) {
        while let Some((fresh_until, key)) = self.index.idle.first().copied()
            && fresh_until.is_none_or(|until| now >= until)
        {
            self.index.idle.pop_first();
            if let Some(row) = self.rows.remove(&key) {
                self.index.remove(&key, &row);
            }
        }
    }

    /// Returns a key whose entry arrived and was not judged.
    pub(super) fn first_arrival(&self) -> Option<Digest> {
        self.index.arrivals.first().copied()
    }

    /// Whether callers wait for any key.
    pub(super) fn are_watched(&self) -> bool {
        self.index.watched > 0
    }

    /// Returns the size of the entries that arrived.
    pub(super) fn arrived_bytes(&self) -> u64 {
        self.index.arrived_bytes
    }

    /// Returns the size of the entries that arrived for keys for which no caller waits.
    pub(super) fn unclaimed_bytes(&self) -> u64 {
        self.index.unclaimed_bytes
    }
}

impl Index {
    fn change<E, T>(&mut self, key: &Digest, row: &mut Row<E>, change: impl FnOnce(&mut Row<E>) -> T) -> T {
        self.remove(key, row);
        let changed = change(row);
        self.add(key, row);
        changed
    }

    fn add<E>(&mut self, key: &Digest, row: &Row<E>) {
        self.watched += usize::from(row.watches > 0);
        if let EntryState::Arrived { bytes, is_judged, .. } = row.entry {
            self.arrived_bytes += bytes;
            self.unclaimed_bytes += if row.watches == 0 { bytes } else { 0 };
            if !is_judged {
                self.arrivals.insert(*key);
            }
        }
        if row.is_idle() {
            self.idle.insert((row.fresh_until, *key));
        }
    }

    fn remove<E>(&mut self, key: &Digest, row: &Row<E>) {
        self.watched -= usize::from(row.watches > 0);
        if let EntryState::Arrived { bytes, is_judged, .. } = row.entry {
            self.arrived_bytes -= bytes;
            self.unclaimed_bytes -= if row.watches == 0 { bytes } else { 0 };
            if !is_judged {
                self.arrivals.remove(key);
            }
        }
        if row.is_idle() {
            self.idle.remove(&(row.fresh_until, *key));
        }
    }
}

#[cfg(test)]
impl<E> Rows<E> {
    /// Checks the index by a visit of all rows.
    pub(super) fn check(&self) {
        let mut index = Index::default();
        self.rows.iter().for_each(|(key, row)| index.add(key, row));
        assert_eq!(self.index, index);
    }
}
