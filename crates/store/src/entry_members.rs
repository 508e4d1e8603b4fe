//! The members of an entry, whether it is stored already or not.

use crate::entry::{Entry, EntryBuilder};

/// The members of an entry that is stored, or about to be.
pub trait EntryMembers {
    /// Whether there is a member `name`.
    fn has_member(&self, name: &str) -> bool;

    /// Returns the bytes of the member `name`. `None`: there is none, or it is damaged.
    fn member_bytes(&self, name: &str) -> Option<&[u8]>;
}

impl EntryMembers for Entry {
    fn has_member(&self, name: &str) -> bool {
        self.member_digest(name).is_some()
    }

    fn member_bytes(&self, name: &str) -> Option<&[u8]> {
        self.lazy_member(name).ok().flatten()
    }
}

impl EntryMembers for EntryBuilder<'_> {
    fn has_member(&self, name: &str) -> bool {
        self.member_bytes(name).is_some()
    }

    fn member_bytes(&self, name: &str) -> Option<&[u8]> {
        self.members().find_map(|(other, bytes, _)| (other == name).then_some(bytes))
    }
}
