//! The reason why there is no usable entry.

use std::fmt;

use opkeep_store::{Corruption, Overwrite};

/// The reason why the caller gets no entry.
#[derive(Debug)]
#[non_exhaustive]
pub enum Miss {
    /// There is no local store.
    NoStore,
    /// The local store has no entry.
    Absent,
    /// The entry is damaged. It is quarantined if the key is locked.
    Damaged(Corruption),
    /// The entry cannot be read or is not trusted. It is not changed.
    Unreadable(opkeep_store::StoreError),
    /// The caller ignored the entry.
    Ignored,
    /// The caller replaces the entry, for this reason.
    Replaced(String),
}

impl Miss {
    /// Whether a build replaces a valid entry.
    pub(crate) fn overwrite(&self) -> Overwrite {
        match self {
            Self::Replaced(_) => Overwrite::Always,
            Self::NoStore | Self::Absent | Self::Damaged(_) | Self::Unreadable(_) | Self::Ignored => {
                Overwrite::Never
            }
        }
    }
}

impl From<opkeep_store::Miss> for Miss {
    fn from(miss: opkeep_store::Miss) -> Self {
        match miss {
            opkeep_store::Miss::Absent => Self::Absent,
            // The entry's file is closed, since a ticket lives as long as a build.
            opkeep_store::Miss::Damaged(entry) => Self::Damaged(entry.corruption),
            opkeep_store::Miss::Untrusted(error @ opkeep_store::StoreError::Unsigned { .. }) => {
                Self::Replaced(error.to_string())
            }
            opkeep_store::Miss::Untrusted(error) | opkeep_store::Miss::Io(error) => Self::Unreadable(error),
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStore => f.write_str("no usable store"),
            Self::Absent => f.write_str("not in the store"),
            Self::Damaged(corruption) => write!(f, "damaged: {corruption}"),
            Self::Unreadable(error) => error.fmt(f),
            Self::Ignored => f.write_str("the stored entry is not for this caller"),
            Self::Replaced(reason) => f.write_str(reason),
        }
    }
}
