//! What a host knows of one key.

use std::time::Instant;

use super::observer::LeaseObserver;

#[derive(Clone, Debug)]
pub(super) struct Row<E> {
    pub(super) leases: LeaseObserver,
    /// The time until which what is known of the key is fresh.
    pub(super) fresh_until: Option<Instant>,
    /// The number of claims by other hosts that the table knew of when that was set.
    pub(super) claims_then: u64,
    pub(super) entry: EntryState<E>,
    /// The number of callers that wait for the key.
    pub(super) watches: usize,
    /// Whether the key belongs to the plan, and no caller has finished it.
    pub(super) is_planned: bool,
    /// Whether the local store had no entry when a caller began the key: one that is there now is new.
    pub(super) was_absent: bool,
}

/// What a host knows of the entry of one key.
#[derive(Clone, Debug)]
pub(super) enum EntryState<E> {
    /// It is missing, as far as the host knows.
    Missing,
    /// A call asks for it.
    Asked,
    /// It arrived, and is in memory. Once it is judged, it is for a caller that begins the key.
    Arrived { entry: E, bytes: u64, is_judged: bool },
    /// It is being judged before it is stored. `is_used`: it is accepted, so the local store may have it at any moment.
    Judged { is_used: bool },
    /// It is in the local store, and no caller has begun the key since. `is_own`: this process has fetched it.
    Stored { is_own: bool },
    /// A caller has it, or builds it.
    Finished,
}

impl<E> Row<E> {
    /// Whether a caller waits for the entry, and it is asked for. If one of several callers has it, the others may have no store to
    /// find it in.
    pub(super) fn is_awaited(&self) -> bool {
        match self.entry {
            EntryState::Missing => self.watches > 0,
            EntryState::Finished => self.watches > 1,
            _ => false,
        }
    }

    pub(super) fn begin_asking(&mut self) -> bool {
        let begins = matches!(self.entry, EntryState::Missing | EntryState::Finished);
        if begins {
            self.entry = EntryState::Asked;
        }
        begins
    }

    /// Whether there is an entry for a caller that begins the key.
    pub(super) fn has_entry(&self) -> bool {
        matches!(self.entry, EntryState::Arrived { .. } | EntryState::Stored { .. })
    }

    /// Whether the host has the entry, or builds it.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.entry, EntryState::Stored { .. } | EntryState::Finished)
    }

    pub(super) fn is_judged(&self) -> bool {
        matches!(self.entry, EntryState::Judged { .. })
    }

    /// Whether no caller needs the row once it is not fresh any more.
    pub(super) fn is_idle(&self) -> bool {
        // A caller may have asked for the key, and act on the answer at this moment.
        let is_asked = matches!(self.entry, EntryState::Asked) || self.is_judged();
        !self.is_planned && self.watches == 0 && !is_asked
    }
}

impl<E> Default for Row<E> {
    fn default() -> Self {
        Self {
            leases: LeaseObserver::default(),
            fresh_until: None,
            claims_then: 0,
            entry: EntryState::Missing,
            watches: 0,
            is_planned: false,
            was_absent: false,
        }
    }
}
