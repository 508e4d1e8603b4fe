//! Verification that an entry holds the group of its key.

use opkeep_artifact::{Expectations, is_plain_file_name};
use opkeep_descriptor::Key;
use opkeep_store::Entry;
use opkeep_validator::{CheckStatus, Validator};

use crate::error::EntryError;
use crate::group::files::GroupFiles;
use crate::group::record::GroupRecord;
use crate::member::{EXPECTATIONS, GROUP};

/// Verifies the group in an entry of `target`: its record belongs to the entry's key and to the target, and the kernel
/// among its files satisfies the stored expectations. Returns the part that could not be verified, if any.
pub(crate) fn verify_group(
    entry: &Entry,
    target: &str,
    validator: &Validator,
) -> Result<Option<String>, EntryError> {
    let files = GroupFiles::of(entry);
    if files.names().next().is_none() {
        return Err(EntryError::Incomplete { member: "x/" });
    }
    if let Some(name) = files.names().find(|name| !is_plain_file_name(name)) {
        return Err(EntryError::FileName { name: name.to_owned() });
    }
    if let Err(damage) = entry.lazy_member(GROUP) {
        return Err(EntryError::Damaged(damage.to_string()));
    }
    let Some(record) = GroupRecord::of(entry) else {
        return Ok(Some("a later version wrote its record".to_owned()));
    };
    if record.key.target != target {
        return Err(mismatch("target", target, &record.key.target));
    }
    let found = record.key.digest();
    if found != *entry.key() {
        return Err(EntryError::KeyMismatch { expected: Key::from(*entry.key()), found: Key::from(found) });
    }
    for name in record.object.iter().chain(&record.metadata) {
        if files.get(name).is_none() {
            return Err(EntryError::MissingFile { name: name.clone() });
        }
    }
    verify_kernel(entry, files, &record, validator)
}

fn verify_kernel(
    entry: &Entry,
    files: GroupFiles<'_>,
    record: &GroupRecord,
    validator: &Validator,
) -> Result<Option<String>, EntryError> {
    let stored = entry.lazy_member(EXPECTATIONS).map_err(|damage| EntryError::Damaged(damage.to_string()))?;
    let Some(stored) = stored else { return Ok(None) };
    let expect = match Expectations::decode(stored) {
        Ok(expect) => expect,
        Err(error) => return Ok(Some(error.to_string())),
    };
    if expect.target != record.key.target {
        return Err(mismatch("target", &record.key.target, &expect.target));
    }
    let Some(artifact) = files.artifact(record) else {
        return Err(EntryError::MissingFile { name: record.object.clone().unwrap_or_default() });
    };
    let report = validator.validate(&artifact, &expect);
    if !report.is_valid() {
        return Err(EntryError::Invalid { errors: report.errors().cloned().collect() });
    }
    Ok(match report.status {
        CheckStatus::Unavailable(check) => Some(format!("the check {check} of its target is not available")),
        _ => None,
    })
}

fn mismatch(field: &'static str, expected: &str, found: &str) -> EntryError {
    EntryError::HeaderMismatch { field, expected: expected.to_owned(), found: found.to_owned() }
}
