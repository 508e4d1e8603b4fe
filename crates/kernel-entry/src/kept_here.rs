//! Entries that stay on the machine that has them: for every part that gives kernels to other hosts, or takes them from there.

use opkeep_store::EntryMembers;

use crate::group::GroupRecord;
use crate::member::{GROUP, IMPORTED};

/// The reason why an entry stays on the machine that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptHere {
    /// It was taken from a framework: its toolchain is unknown.
    Imported,
    /// Its files work only on the machine that made them.
    Local,
    /// The record of its files cannot be read, so it is unknown whether they are local.
    Unknown,
}

impl KeptHere {
    /// Returns the reason; `None` if other hosts may use the entry. Entries of every version state it.
    pub fn of(entry: &dyn EntryMembers) -> Option<Self> {
        if entry.has_member(IMPORTED) {
            return Some(Self::Imported);
        }
        if !entry.has_member(GROUP) {
            return None;
        }
        match entry.member_bytes(GROUP).and_then(GroupRecord::parse) {
            Some(record) => record.is_local.then_some(Self::Local),
            None => Some(Self::Unknown),
        }
    }
}

/// Whether other hosts may use an entry.
pub fn is_for_others(entry: &dyn EntryMembers) -> bool {
    KeptHere::of(entry).is_none()
}

#[cfg(test)]
mod tests {
    use opkeep_digest::{Digest, Fingerprint};
    use opkeep_store::{Entry, EntryBuilder};

    use super::*;
    use crate::group::{GroupKey, encode_group};

    /// Checks an entry before it is stored, and after that.
    fn assert_kept(builder: &EntryBuilder<'_>, expected: Option<KeptHere>) {
        assert_eq!((KeptHere::of(builder), is_for_others(builder)), (expected, expected.is_none()));
        let key = Digest::of(b"key");
        let entry = Entry::decode(builder.encode(&key).unwrap(), Some(&key)).unwrap();
        assert_eq!(KeptHere::of(&entry), expected);
    }

    #[test]
    fn an_entry_states_whether_it_is_for_other_hosts() {
        assert_kept(&EntryBuilder::new(1).eager("object", b"o"), None);
        assert_kept(
            &EntryBuilder::new(1).eager("object", b"o").eager(IMPORTED, b"{}"),
            Some(KeptHere::Imported),
        );
        assert_kept(
            &EntryBuilder::new(1).eager("x/a", b"a").lazy(GROUP, b"damaged"),
            Some(KeptHere::Unknown),
        );
        for is_local in [false, true] {
            let key = GroupKey {
                framework: "f".to_owned(),
                target: "t".to_owned(),
                framework_key: Digest::of(b"f"),
                name: String::new(),
                toolchain: Fingerprint::new(),
            };
            let record = GroupRecord { is_local, ..GroupRecord::new(key) };
            let group = encode_group([("launcher.so", &b"elf"[..])], &record, None, 1);
            assert_kept(&group.builder(), is_local.then_some(KeptHere::Local));
        }
    }
}
