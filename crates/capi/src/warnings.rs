//! Warnings that wait to be fetched.

use std::collections::VecDeque;
use std::ffi::CString;

use crate::code::WarningKind;
use crate::last_error::c_text;

/// The largest number of warnings that are kept for a cache.
const MAX_WARNINGS: usize = 64;

/// A warning.
pub(crate) struct Warning {
    pub(crate) kind: WarningKind,
    pub(crate) text: CString,
}

impl Warning {
    pub(crate) fn new(kind: opkeep_embed::WarningKind, text: &str) -> Self {
        use opkeep_embed::WarningKind as Kind;
        let kind = match kind {
            Kind::Store => WarningKind::Store,
            Kind::Keeping => WarningKind::Keeping,
            Kind::Reading => WarningKind::Reading,
            Kind::Corruption => WarningKind::Corruption,
            Kind::Limits => WarningKind::Limits,
            Kind::Locks => WarningKind::Locks,
            Kind::Remote => WarningKind::Remote,
            _ => WarningKind::Other,
        };
        Self { kind, text: c_text(text) }
    }
}

/// The warnings of a cache, oldest first. If there are too many, the oldest are dropped and counted.
#[derive(Default)]
pub(crate) struct Warnings {
    kept: VecDeque<Warning>,
    dropped: u64,
}

impl Warnings {
    pub(crate) fn push(&mut self, warning: Warning) {
        if self.kept.len() == MAX_WARNINGS {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(warning);
    }

    /// The oldest warning, and the number of those that were dropped before it.
    pub(crate) fn next(&mut self) -> Option<(Warning, u64)> {
        let warning = self.kept.pop_front()?;
        Some((warning, std::mem::take(&mut self.dropped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_counts_what_it_drops() {
        let mut warnings = Warnings::default();
        for number in 0..MAX_WARNINGS + 3 {
            warnings.push(Warning::new(opkeep_embed::WarningKind::Store, &number.to_string()));
        }
        let (first, dropped) = warnings.next().unwrap();
        assert_eq!((first.text.to_str().unwrap(), dropped), ("3", 3));
        assert_eq!(warnings.next().unwrap().1, 0);
        assert_eq!(std::iter::from_fn(|| warnings.next()).count(), MAX_WARNINGS - 2);
    }
}
