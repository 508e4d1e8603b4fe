//! The file of a group, judged by itself.

use std::path::{Path, PathBuf};

use opkeep_artifact::{Format, OpaqueRules};
use opkeep_digest::Digest;
use opkeep_kernel_entry::EntryFile;
use opkeep_store::EntryBuilder;

use crate::{NamedMember, TARGET, bytes, members, record, rules};

/// The path in a store, and the content of the file with `members`.
fn file(target: &str, key: &Digest, members: &[NamedMember]) -> (PathBuf, Vec<u8>) {
    let entry = members.iter().fold(EntryBuilder::new(1), |entry, (name, bytes, eager)| match eager {
        true => entry.eager(name, bytes),
        false => entry.lazy(name, bytes),
    });
    let path = format!("/store/v1/{target}/entries/00/{key}.kern");
    (PathBuf::from(path), entry.encode(key).unwrap())
}

#[test]
fn a_valid_file_has_a_report_and_no_problem() {
    let record = record();
    let (key, members) = (record.key.digest(), members(&record));
    let (path, content) = file(TARGET, &key, &members);
    let outside = PathBuf::from(format!("/tmp/{key}.kern"));
    for path in [&path, &outside, Path::new("/tmp/renamed.kern")] {
        let judged = EntryFile::judge(path, content.clone(), None);
        assert!(judged.is_valid() && judged.unverifiable.is_none(), "{judged:?}");
        assert_eq!(judged.target, TARGET);
        assert!(judged.report.is_some(), "its kernel was validated");
        assert!(judged.header().is_null());
    }
}

#[test]
fn a_file_in_the_wrong_place_or_with_a_bad_kernel_has_a_problem() {
    let record = record();
    let (key, mut members) = (record.key.digest(), members(&record));
    let problem = |path: &Path, content: Vec<u8>| {
        let judged = EntryFile::judge(path, content, None);
        assert!(!judged.is_valid(), "{judged:?}");
        judged.problems.join("; ")
    };
    let (path, content) = file("cuda-sm_80", &key, &members);
    assert!(problem(&path, content.clone()).contains("target"));
    // The name of the file has another key.
    let other = path.with_file_name(format!("{}.kern", Digest::of(b"other")));
    assert!(!problem(&other, content).is_empty());
    // Another entry's content.
    let (path, content) = file(TARGET, &Digest::of(b"other"), &members);
    assert!(problem(&path, content).contains("expected"));

    *bytes(&mut members, "x/add.ptx") = b"ELF".to_vec();
    let (path, content) = file(TARGET, &key, &members);
    let judged = EntryFile::judge(&path, content, None);
    assert!(judged.report.as_ref().is_some_and(|report| !report.is_valid()), "{judged:?}");
    assert!(judged.problems.is_empty(), "the findings say it: {judged:?}");
}

#[test]
fn the_rules_of_the_caller_come_first() {
    let record = record();
    let (path, content) = file(TARGET, &record.key.digest(), &members(&record));
    let mut other = rules(TARGET);
    other.format = Format::Opaque(OpaqueRules::new(*b"ELF", 1 << 20));
    let judged = EntryFile::judge(&path, content, Some(&other));
    assert!(!judged.is_valid() && judged.report.is_some(), "{judged:?}");
}

#[test]
fn a_file_that_cannot_be_judged_in_full_says_so() {
    let record = record();
    let (key, mut members) = (record.key.digest(), members(&record));
    members.retain(|(name, ..)| name != "expectations");
    let (path, content) = file(TARGET, &key, &members);
    let judged = EntryFile::judge(&path, content, None);
    assert!(judged.is_valid() && judged.unverifiable.is_some_and(|why| why.contains("no rules")));

    *bytes(&mut members, "group") = br#"{"schema":2}"#.to_vec();
    let (path, content) = file(TARGET, &key, &members);
    let judged = EntryFile::judge(&path, content, None);
    assert!(judged.is_valid() && judged.unverifiable.is_some_and(|why| why.contains("later version")));
}
