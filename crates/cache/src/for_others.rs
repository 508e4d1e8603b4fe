//! Which entries other hosts can use.

use opkeep_store::EntryMembers;

/// Decides whether other hosts can use an entry, by its members.
pub type IsForOthers = fn(&dyn EntryMembers) -> bool;
