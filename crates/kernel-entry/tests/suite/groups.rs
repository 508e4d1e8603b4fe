//! Groups that are valid, and entries that hold something else.

use opkeep_digest::Digest;
use opkeep_kernel_entry::{
    EntryError, EntryVerdict, GroupFiles, GroupRecord, KernelBundle, artifact, encode_group, verify_binding,
    verify_group_binding,
};
use opkeep_store::Entry;

use crate::{FILES, TARGET, bytes, entry, members, record, rules, verdict, verdict_after};

#[test]
fn a_group_is_valid_and_read_as_it_was_written() {
    let record = record();
    let entry = entry(&record.key.digest(), &members(&record));
    assert!(matches!(verdict(&entry), EntryVerdict::Valid), "{:?}", verdict(&entry));
    assert_eq!(GroupRecord::of(&entry), Some(record.clone()));
    assert_eq!(GroupFiles::of(&entry).iter().collect::<Vec<_>>(), FILES);
    let artifact = GroupFiles::of(&entry).artifact(&record).unwrap();
    assert_eq!((&artifact.metadata[..], &artifact.object[..]), (FILES[0].1, FILES[1].1));
    assert_eq!(artifact.extra.len(), 1);
}

/// What reports state may be unknown, and the files may be of no known kind.
#[test]
fn a_group_of_unknown_files_is_valid_by_its_digests() {
    let record = GroupRecord::new(record().key);
    let encoded = encode_group(FILES, &record, None, 1);
    let file = encoded.builder().encode(encoded.key()).unwrap();
    let entry = Entry::decode(file, Some(encoded.key())).unwrap();
    assert!(matches!(verdict(&entry), EntryVerdict::Valid));
    assert_eq!(GroupRecord::of(&entry), Some(record));
}

/// Whatever its key and its other members are: the engine looks up kernels by these functions.
#[test]
fn a_group_is_the_kernel_of_no_job() {
    let record = record();
    let mut members = members(&record);
    for (name, content) in [("json", FILES[0].1), ("object", FILES[1].1)] {
        members.push((name.to_owned(), content.to_vec(), true));
        let entry = entry(&record.key.digest(), &members);
        assert_eq!(artifact(&entry).err(), Some("json"));
        assert_eq!(KernelBundle::of_entry(&entry).err(), Some("json"));
        let bound = verify_binding(&entry, TARGET, &rules(TARGET));
        assert!(matches!(bound, Err(EntryError::Incomplete { member: "json" })), "{bound:?}");
    }
}

/// An entry of a remote tier, whose stamp says nothing here.
#[test]
fn a_group_is_bound_to_the_key_and_the_target_of_its_record() {
    let record = record();
    let (key, members) = (record.key.digest(), members(&record));
    let bound = entry(&key, &members);
    assert_eq!(verify_group_binding(&bound, TARGET).unwrap(), Some(record.clone()));
    let other_target = verify_group_binding(&bound, "cuda-sm_80");
    assert!(
        matches!(other_target, Err(EntryError::HeaderMismatch { field: "target", .. })),
        "{other_target:?}"
    );
    let moved = verify_group_binding(&entry(&Digest::of(b"another key"), &members), TARGET);
    assert!(matches!(moved, Err(EntryError::KeyMismatch { .. })), "{moved:?}");
    let kernel =
        [("json", &b"{}"[..]), ("object", b"")].map(|(name, it)| (name.to_owned(), it.to_vec(), true));
    let other = verify_group_binding(&entry(&key, &kernel), TARGET);
    assert!(matches!(other, Err(EntryError::Incomplete { member: "group" })), "{other:?}");

    let mut later = members.clone();
    let text = String::from_utf8(bytes(&mut later, "group").clone()).unwrap();
    *bytes(&mut later, "group") = text.replace(r#""schema":1"#, r#""schema":2"#).into_bytes();
    assert_eq!(verify_group_binding(&entry(&key, &later), TARGET).unwrap(), None);
}

#[test]
fn the_target_of_an_entry_is_that_of_its_directory() {
    let record = record();
    let entry = entry(&record.key.digest(), &members(&record));
    let elsewhere =
        opkeep_kernel_entry::verify_entry(&entry, "cuda-sm_80", &opkeep_validator::Validator::builtin());
    assert!(
        matches!(elsewhere, EntryVerdict::Invalid(EntryError::HeaderMismatch { field: "target", .. })),
        "{elsewhere:?}"
    );
    assert!(matches!(verdict_after(|_| {}), EntryVerdict::Valid));
}
