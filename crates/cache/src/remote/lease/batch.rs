//! One call that asks for entries and leases of several keys.

use std::time::Instant;

use opkeep_digest::Digest;

use super::observer::LeaseReading;

/// One call for several keys: its questions, and the answers so far.
#[derive(Clone, Debug)]
pub struct LeaseBatch {
    pub(super) asked: Instant,
    pub(super) keys: Vec<Digest>,
    pub(super) questions: Vec<Question>,
    pub(super) readings: Vec<Vec<LeaseReading>>,
    /// Whether the entry of a key was in the answer, and was not kept.
    pub(super) is_dropped: Vec<bool>,
}

/// An object that a batch asks for. `key` is the index of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// The entry.
    #[non_exhaustive]
    Entry {
        /// The index of the key.
        key: usize,
    },
    /// A lease.
    #[non_exhaustive]
    Lease {
        /// The index of the key.
        key: usize,
        /// The generation.
        generation: u64,
    },
}

impl LeaseBatch {
    /// Returns the keys.
    pub fn keys(&self) -> &[Digest] {
        &self.keys
    }

    /// Returns the keys whose entries the call asks for.
    pub fn asked_keys(&self) -> impl Iterator<Item = &Digest> {
        self.questions.iter().filter_map(|question| match question {
            Question::Entry { key } => self.keys.get(*key),
            Question::Lease { .. } => None,
        })
    }

    /// Returns what the call asks for.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Records the content of the lease that the question at `at` asks for. A lease that is not recorded does not exist.
    pub fn found_lease(&mut self, at: usize, content: &[u8]) {
        let Some(Question::Lease { key, .. }) = self.questions.get(at).copied() else { return };
        let first = self.questions[..at].iter().rposition(|question| !question.is_lease_of(key));
        let above = at - first.map_or(0, |before| before + 1);
        self.readings[key][above] = LeaseReading::new(Some(content));
    }
}

impl LeaseBatch {
    /// Records that the entry that the question at `at` asks for was in the answer, and was not kept: it is asked for again.
    pub fn dropped_entry(&mut self, at: usize) {
        if let Some(Question::Entry { key }) = self.questions.get(at) {
            self.is_dropped[*key] = true;
        }
    }
}

impl Question {
    fn is_lease_of(self, wanted: usize) -> bool {
        matches!(self, Self::Lease { key, .. } if key == wanted)
    }
}
