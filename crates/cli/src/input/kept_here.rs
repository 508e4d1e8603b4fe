//! Entries that do not leave this host: for every command that gives kernels to other hosts, or takes them from there.

use opkeep_kernel_entry::GroupRecord;
use opkeep_kernel_entry::member::IMPORTED;
use opkeep_store::Entry;

/// The reason why an entry stays on the host that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptHere {
    /// It was taken from a framework: its toolchain is unknown.
    Imported,
    /// Its files work only on the machine that made them.
    Local,
    /// The record of its files cannot be read, so it is unknown whether they are local.
    Unknown,
}

impl KeptHere {
    /// Returns the reason; `None` if other hosts may use the entry.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        if entry.member(IMPORTED).is_some() {
            return Some(Self::Imported);
        }
        if !GroupRecord::is_in(entry) {
            return None;
        }
        match GroupRecord::of(entry) {
            Some(record) => record.is_local.then_some(Self::Local),
            None => Some(Self::Unknown),
        }
    }
}
