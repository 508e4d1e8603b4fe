//! Finds the calls that ended before they were observed, or before they were answered.
//!
//! The kernel counts the calls that it reports, so a number that never arrives is a call that a signal ended, or the end
//! of its process. Kernels before 5.19 report waiting calls in any order. From 5.19 on, a call that was received ends only
//! with its process; before, a signal may end it then, too, and it may start anew.
//!
//! Two calls are not found: the last one of a program before it ends or before its observation is taken, if it was never
//! received, and, on kernels without the correction of 2025 ("Fix a race with `WAIT_KILLABLE_RECV`"), one that a signal
//! ends in the moment in which its answer arrives.

use std::collections::BTreeSet;

use crate::ffi::Waiting;

/// The calls of one observed program.
#[derive(Debug, Default)]
pub(super) struct ReportedCalls {
    /// The lowest number, and the one after the highest.
    range: Option<(u64, u64)>,
    /// The numbers in the range of calls that have not arrived.
    absent: BTreeSet<u64>,
    /// Calls that were received and took no answer.
    pub(super) unanswered: Vec<Waiting>,
    /// A call was lost of which no number is known.
    pub(super) has_lost: bool,
}

/// The maximum number of calls that wait at the same time, which is that of threads; more absent ones are lost.
const MAX_WAITING: u64 = 1 << 16;

impl ReportedCalls {
    /// Adds a call that was received.
    pub(super) fn add(&mut self, call: &Waiting) {
        self.unanswered.retain(|before| !before.is_repeated_by(call));
        self.add_number(call.id);
    }

    fn add_number(&mut self, id: u64) {
        let (low, end) = self.range.unwrap_or((id, id));
        let between = if id >= end { end..id } else { id.saturating_add(1)..low.max(id.saturating_add(1)) };
        if between.end - between.start > MAX_WAITING {
            self.has_lost = true;
        } else {
            self.absent.extend(between);
        }
        self.absent.remove(&id);
        self.range = Some((low.min(id), end.max(id.saturating_add(1))));
    }

    /// Whether a call ended without being observed since the last time.
    pub(super) fn take_incomplete(&mut self) -> bool {
        let is_incomplete = self.has_lost || !self.absent.is_empty() || !self.unanswered.is_empty();
        (self.has_lost, self.absent, self.unanswered) = (false, BTreeSet::new(), Vec::new());
        is_incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::ReportedCalls;

    #[test]
    fn numbers_that_never_arrive_are_found_in_any_order() {
        for (numbers, is_incomplete) in [
            (&[7, 8, 9][..], false),
            (&[7, 9, 8], false),
            (&[9, 8, 7], false),
            (&[7, 10, 9, 8, 11], false),
            (&[7, 9], true),
            (&[7, 10, 8], true),
            (&[9, 7], true),
            (&[u64::MAX - 1, u64::MAX], false),
        ] {
            let mut calls = ReportedCalls::default();
            numbers.iter().for_each(|number| calls.add_number(*number));
            assert_eq!(calls.take_incomplete(), is_incomplete, "{numbers:?}");
            assert!(!calls.take_incomplete(), "{numbers:?}");
        }
    }
}
