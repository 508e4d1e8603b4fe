//! The destinations that a target's marks name. With them, the marks of one key are known by their names, without a listing of all marks
//! for each key.
//!
//! A change by another process shows in the state of the directory, unless it comes within the resolution of the file system's times
//! after one by this process. Then a mark for a destination that is new may stay, as if it had been written a moment later.

use std::collections::BTreeSet;
use std::sync::Mutex;

use opkeep_fs::{Dir, FileState};

use crate::mark::{self, Destination};

/// The destinations in a directory of marks, once they were listed.
#[derive(Debug, Default)]
pub(super) struct MarkDestinations(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// The state of the directory that they were listed in, after the last change by this process.
    state: FileState,
    /// `None`: marks of earlier versions, which name none.
    destinations: BTreeSet<Option<Destination>>,
}

impl MarkDestinations {
    /// Changes a directory of marks, where a mark for `added` appears, if any.
    pub(super) fn while_changing<T>(
        &self,
        directory: &Dir,
        added: Option<&Destination>,
        change: impl FnOnce() -> T,
    ) -> T {
        // While another thread has it, or had it when this process was forked, this change counts as another process's.
        let Ok(mut locked) = self.0.try_lock() else { return change() };
        let current = locked.take().filter(|known| state(directory) == Some(known.state));
        let changed = change();
        if let Some(mut known) = current
            && let Some(state) = state(directory)
        {
            known.destinations.extend(added.map(|added| Some(added.clone())));
            *locked = Some(Known { state, ..known });
        }
        changed
    }

    /// Returns the destinations of the marks in a directory, which is listed if another process has changed it since.
    pub(super) fn of(&self, directory: &Dir) -> BTreeSet<Option<Destination>> {
        let list = || {
            // A change that comes later gives another state.
            let state = state(directory);
            let names = directory.list().unwrap_or_default();
            let destinations =
                opkeep_order::set(names.utf8().filter_map(mark::parse).map(|mark| mark.destination));
            (state, destinations)
        };
        let Ok(mut locked) = self.0.try_lock() else { return list().1 };
        if let Some(known) = locked.as_ref().filter(|known| state(directory) == Some(known.state)) {
            return known.destinations.clone();
        }
        let (state, destinations) = list();
        *locked = state.map(|state| Known { state, destinations: destinations.clone() });
        destinations
    }
}

fn state(directory: &Dir) -> Option<FileState> {
    directory.stat().ok().map(|found| found.state)
}
