//! Entries with groups of files: those that are valid, and those that are not.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(test)]
mod entry_file;
#[cfg(test)]
mod group_mutations;
#[cfg(test)]
mod groups;

use opkeep_artifact::{Expectations, Format, MetadataRules, OpaqueRules};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_kernel_entry::{
    EntryError, EntryVerdict, GroupKey, GroupRecord, StoredExpectations, encode_group, verify_entry,
};
use opkeep_store::{Entry, EntryBuilder};
use opkeep_validator::Validator;

const TARGET: &str = "cuda-sm_90";
const FILES: [(&str, &[u8]); 3] =
    [("add.json", br#"{"name":"add"}"#), ("add.ptx", b".version 8.0"), ("add.ttir", b"module {}")];

fn record() -> GroupRecord {
    let mut toolchain = Fingerprint::new();
    toolchain.add("ptxas", Digest::of(b"ptxas"), "12.8");
    let key = GroupKey {
        framework: "triton".to_owned(),
        target: TARGET.to_owned(),
        framework_key: Digest::of(b"source and options"),
        name: "add.json".to_owned(),
        toolchain,
    };
    let mut record = GroupRecord::new(key);
    (record.kernel, record.framework_version) = ("add".to_owned(), "3.9.0".to_owned());
    (record.object, record.metadata) = (Some("add.ptx".to_owned()), Some("add.json".to_owned()));
    record
}

/// Rules for the object of [`FILES`].
fn rules(target: &str) -> Expectations {
    let format = Format::Opaque(OpaqueRules::new(*b".version", 1 << 20));
    Expectations::new(target, format, MetadataRules::Json)
}

/// A member of an entry: its name, its bytes, and whether it is eager.
type NamedMember = (String, Vec<u8>, bool);

/// The members of a valid group of `record` and [`FILES`].
fn members(record: &GroupRecord) -> Vec<NamedMember> {
    let expectations = StoredExpectations::new(rules(&record.key.target), &Validator::builtin());
    let encoded = encode_group(FILES, record, Some(&expectations), 1);
    let file = encoded.builder().encode(encoded.key()).unwrap();
    let entry = Entry::decode(file, Some(encoded.key())).unwrap();
    entry.members().map(|(name, bytes, eager)| (name.to_owned(), bytes.to_vec(), eager)).collect()
}

/// The entry with `members` under `key`.
fn entry(key: &Digest, members: &[NamedMember]) -> Entry {
    let entry = members.iter().fold(EntryBuilder::new(1), |entry, (name, bytes, eager)| match eager {
        true => entry.eager(name, bytes),
        false => entry.lazy(name, bytes),
    });
    Entry::decode(entry.encode(key).unwrap(), Some(key)).unwrap()
}

fn verdict(entry: &Entry) -> EntryVerdict {
    verify_entry(entry, TARGET, &Validator::builtin())
}

/// The error of the group of [`record`] after a change of its members.
#[track_caller]
fn error_after(change: impl FnOnce(&mut Vec<NamedMember>)) -> EntryError {
    match verdict_after(change) {
        EntryVerdict::Invalid(error) => error,
        other => panic!("expected an invalid entry: {other:?}"),
    }
}

/// The missing part of the verification of the group of [`record`] after a change of its members.
#[track_caller]
fn unverifiable_after(change: impl FnOnce(&mut Vec<NamedMember>)) -> String {
    match verdict_after(change) {
        EntryVerdict::Unverifiable { why } => why,
        other => panic!("expected an unverifiable entry: {other:?}"),
    }
}

fn verdict_after(change: impl FnOnce(&mut Vec<NamedMember>)) -> EntryVerdict {
    let record = record();
    let mut members = members(&record);
    change(&mut members);
    verdict(&entry(&record.key.digest(), &members))
}

/// The bytes of the member `name`.
#[track_caller]
fn bytes<'a>(members: &'a mut [NamedMember], name: &str) -> &'a mut Vec<u8> {
    members.iter_mut().find_map(|(found, bytes, _)| (found == name).then_some(bytes)).unwrap()
}
