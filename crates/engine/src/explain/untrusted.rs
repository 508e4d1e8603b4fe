//! Stored entries that are not used since another user could have written them.

use std::fmt;

use opkeep_store::StoreError;

/// Entries that are stored and not used, since an untrusted user could have written them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UntrustedEntries {
    /// The owner of the files, if the owner is the reason.
    pub owner: Option<u32>,
    /// The reason why they are not trusted.
    pub problem: String,
    /// A hint for the user, with the path of the first file.
    pub help: String,
}

impl UntrustedEntries {
    /// `None`, if the error has another reason.
    pub(crate) fn of(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Untrusted { owner, problem, help, .. } => {
                Some(Self { owner: *owner, problem: problem.clone(), help: help.clone() })
            }
            _ => None,
        }
    }

    /// Whether one answer of the user helps with both.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner && (self.owner.is_some() || self.problem == other.problem)
    }
}

impl fmt::Display for UntrustedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner {
            Some(owner) => write!(f, "stored by user {owner}, which is not a trusted owner"),
            None => write!(f, "stored, and not trusted: {}", self.problem),
        }
    }
}
