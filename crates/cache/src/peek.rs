//! What the remote tier has of keys, for a report. Nothing is taken, stored or recorded.

use opkeep_digest::Digest;

use crate::query::{Accept, Query};
use crate::refusal::{Refusal, RefusalKind};
use crate::remote::RemoteTarget;
use crate::tiers::Target;

/// What the remote tier has of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteStatus {
    /// An entry that the caller would use.
    #[non_exhaustive]
    Available {
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
    #[non_exhaustive]
    Unknown {
        /// The reason for people.
        reason: String,
        /// Whether the engine was not asked, since earlier calls of this or another process failed.
        is_paused: bool,
    },
}

impl RemoteStatus {
    /// Of the entries of several signers, the one with the highest rank counts.
    fn rank(&self) -> u8 {
        match self {
            Self::Absent | Self::Unknown { .. } => 0,
            Self::Refused { .. } => 1,
            Self::Available { .. } => 2,
        }
    }
}

impl Target {
    pub(crate) fn peek_remote(&self, keys: &[Digest], query: &Query<'_>) -> Vec<RemoteStatus> {
        let Some(remote) = self.read_remote() else {
            return keys.iter().map(|_| RemoteStatus::Absent).collect();
        };
        let (mut found, mut rest) = (Vec::with_capacity(keys.len()), keys);
        while !rest.is_empty() {
            let (part, later) = rest.split_at(remote.entries().keys_of_call(0).min(rest.len()));
            found.extend(Self::peek_some(remote, part, query));
            rest = later;
        }
        found
    }

    fn peek_some(remote: &RemoteTarget, keys: &[Digest], query: &Query<'_>) -> Vec<RemoteStatus> {
        let mut found: Vec<_> = keys.iter().map(|_| RemoteStatus::Absent).collect();
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
                Ok(()) => RemoteStatus::Available { bytes },
                Err(Refusal { kind, reason }) => RemoteStatus::Refused { bytes, kind, reason },
            };
            if peeked.rank() > found[at].rank() {
                found[at] = peeked;
            }
        });
        let problem = match answer {
            Ok(true) => return found,
            Ok(false) => match remote.client().pause() {
                Some(pause) => format!("it is not called for a while: {}", pause.reason),
                None => "the remote cache did not answer".to_owned(),
            },
            Err(ref why) => why.to_string(),
        };
        let is_paused = matches!(answer, Ok(false)) && remote.client().is_paused();
        // Of a part of an answer, only what arrived is known.
        for status in found.iter_mut().filter(|status| **status == RemoteStatus::Absent) {
            *status = RemoteStatus::Unknown { reason: problem.clone(), is_paused };
        }
        found
    }
}
