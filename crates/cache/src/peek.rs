//! What the remote tier has of keys, for a report. Nothing is taken, stored or recorded.

use opkeep_digest::Digest;

use crate::query::{Accept, Query};
use crate::refusal::{Refusal, RefusalKind};
use crate::tiers::Target;

/// What the remote tier has of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeekedEntry {
    /// An entry that the caller would use.
    #[non_exhaustive]
    Usable {
        /// Its size in bytes.
        bytes: u64,
    },
    /// An entry that is not used.
    #[non_exhaustive]
    Refused {
        /// Its size in bytes.
        bytes: u64,
        /// The kind of reason.
        kind: RefusalKind,
        /// The reason for people.
        reason: String,
    },
    /// No entry.
    Absent,
    /// The engine did not answer.
    Unknown,
}

/// The outcome of [`TargetCache::peek_remote`](crate::TargetCache::peek_remote).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeekReport {
    /// What the remote tier has of each key, in the order of the keys.
    pub entries: Vec<PeekedEntry>,
    /// The reason why the engine did not answer, for people.
    pub problem: Option<String>,
}

impl PeekedEntry {
    /// Of the entries of several signers, the one with the highest rank counts.
    fn rank(&self) -> u8 {
        match self {
            Self::Absent | Self::Unknown => 0,
            Self::Refused { .. } => 1,
            Self::Usable { .. } => 2,
        }
    }
}

impl Target {
    pub(crate) fn peek_remote(&self, keys: &[Digest], query: &Query<'_>) -> PeekReport {
        let mut found: Vec<_> = keys.iter().map(|_| PeekedEntry::Absent).collect();
        let Some(remote) = self.read_remote() else {
            return PeekReport { entries: found, problem: None };
        };
        let answer = remote.get_entries(keys, query.limits(), &mut |at, content, name| {
            let bytes = content.len() as u64;
            let judged = match remote.entries().checked(content, &keys[at], name) {
                Ok(entry) => match (query.accept)(&entry) {
                    Accept::Take | Accept::Validated { .. } => Ok(()),
                    Accept::Replace(reason) => Err(Refusal::invalid(reason)),
                    Accept::Ignore => Err(Refusal::invalid("the stored entry is not for this caller")),
                },
                Err(refusal) => Err(refusal),
            };
            let peeked = match judged {
                Ok(()) => PeekedEntry::Usable { bytes },
                Err(Refusal { kind, reason }) => PeekedEntry::Refused { bytes, kind, reason },
            };
            if peeked.rank() > found[at].rank() {
                found[at] = peeked;
            }
        });
        let problem = match answer {
            Ok(true) => None,
            Ok(false) => Some("the remote cache did not answer".to_owned()),
            Err(why) => Some(why.to_string()),
        };
        if problem.is_some() {
            // Of a part of an answer, only what arrived is known.
            for peeked in found.iter_mut().filter(|peeked| **peeked == PeekedEntry::Absent) {
                *peeked = PeekedEntry::Unknown;
            }
        }
        PeekReport { entries: found, problem }
    }
}
