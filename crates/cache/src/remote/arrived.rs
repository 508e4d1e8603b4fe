//! The entries of one key that an engine has returned.

use std::collections::VecDeque;

use opkeep_store::Entry;

use crate::refusal::Refusal;

/// The entries of one key that arrived, and that no caller has seen, in the order in which they were asked for: one of each signer.
pub(super) type Arrived = VecDeque<Box<Entry>>;

/// The entries of one key in the answer of an engine.
#[derive(Default)]
pub(super) struct Arrivals {
    /// Those that were checked, each with the position of its name.
    entries: Vec<(usize, Box<Entry>)>,
    /// The problem of one that is wrong.
    pub(super) wrong: Option<Refusal>,
}

impl Arrivals {
    pub(super) fn add(&mut self, at: usize, checked: Result<Entry, Refusal>) {
        match checked {
            Ok(entry) => self.entries.push((at, Box::new(entry))),
            Err(why) => self.wrong = Some(why),
        }
    }

    pub(super) fn in_order(mut self) -> Arrived {
        opkeep_order::by_key(&mut self.entries, |(at, _)| *at);
        self.entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// Returns the size of entries.
pub(super) fn bytes_of(arrived: &Arrived) -> u64 {
    arrived.iter().map(|entry| entry.file_bytes()).sum()
}
