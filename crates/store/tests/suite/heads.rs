//! Entries of which only the head is read.
#![expect(clippy::disallowed_methods, reason = "these tests damage files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use opkeep_digest::Digest;
use opkeep_store::{Corruption, Miss};

use crate::common::{Created, fresh, key};

#[test]
fn the_head_states_the_members_and_reads_none() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    assert!(matches!(store.open_entry(&key), Err(Miss::Absent)));
    store.put(&key, &made.entry()).unwrap();
    let entry = store.open_entry(&key).unwrap();
    let head = entry.head();
    assert_eq!(
        (head.key(), head.validation(), head.file_bytes()),
        (&key, 7, fs::metadata(store.path(&key)).unwrap().len())
    );
    let twin = head.member_heads().find(|member| member.name == "x/twin").unwrap();
    assert_eq!((twin.bytes, twin.is_eager, *twin.digest), (4, true, Digest::of(b"twin")));
    assert!(!head.member_heads().find(|member| member.name == "header").unwrap().is_eager);
    assert_eq!(entry.read_member("header").unwrap().unwrap(), b"for people");
    assert_eq!(entry.read_member("other").unwrap(), None);
    assert_eq!(store.statistics().hits, 0);
    entry.count_hit();
    assert_eq!(store.statistics().hits, 1);
}

/// Each byte is in the head, or in a member that is damaged then; no other member is.
#[test]
fn any_changed_byte_is_found_where_it_is_read() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let path = store.path(&key);
    let bytes = fs::read(&path).unwrap();
    let head_bytes = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        fs::write(&path, bad).unwrap();
        let entry = match store.open_entry(&key) {
            Ok(entry) => entry,
            Err(Miss::Damaged(_)) if at < head_bytes => continue,
            Err(miss) => panic!("byte {at}: {miss}"),
        };
        assert!(at >= head_bytes, "byte {at}");
        let damaged: Vec<_> = entry.head().names().filter_map(|name| entry.read_member(name).err()).collect();
        assert!(
            matches!(&damaged[..], [Miss::Damaged(entry)] if matches!(entry.corruption, Corruption::MemberDigest { .. })),
            "byte {at}: {damaged:?}"
        );
    }
    for end in [0, 11, head_bytes, bytes.len() - 1] {
        fs::write(&path, &bytes[..end]).unwrap();
        assert!(matches!(store.open_entry(&key), Err(Miss::Damaged(_))), "{end} bytes");
    }
    fs::write(&path, &bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(store.open_entry(&key), Err(Miss::Untrusted(_))));
}
