//! Verification that an entry holds the group of its key.

use std::collections::HashSet;

use opkeep_artifact::{Expectations, is_plain_file_name};
use opkeep_descriptor::Key;
use opkeep_store::Entry;
use opkeep_validator::{CheckStatus, Validator};

use crate::error::EntryError;
use crate::group::files::GroupFiles;
use crate::group::record::GroupRecord;
use crate::member::{EXPECTATIONS, EXTRA_PREFIX, GROUP, HEADER, IMPORTED, INFO, JSON, OBJECT, SIGNATURES};

/// The members that entries with the kernel of a job have, and entries with a group never have.
const MEMBERS_OF_KERNELS: [&str; 5] = [JSON, OBJECT, INFO, HEADER, IMPORTED];

/// Verifies the group in an entry of `target`: it belongs to the entry's key and to the target, and the kernel among its
/// files satisfies the stored expectations. Returns the part that could not be verified, if any.
pub(crate) fn verify_group(
    entry: &Entry,
    target: &str,
    validator: &Validator,
) -> Result<Option<String>, EntryError> {
    let Some((record, unknown)) = verify_binding(entry, target)? else {
        return Ok(Some("a later version wrote its record".to_owned()));
    };
    let files = GroupFiles::of(entry);
    for name in record.object.iter().chain(&record.metadata) {
        if files.get(name).is_none() {
            return Err(EntryError::MissingFile { name: name.clone() });
        }
    }
    Ok(verify_kernel(entry, files, &record, validator)?.or(unknown))
}

/// Verifies that the group in an entry of `target` belongs to the entry's key, by its record, and that the names of its files
/// lead out of no directory. The bytes of the files are not judged. This is for an entry that no local rules have judged.
/// Returns the record; `None` if a later version wrote it, so that it cannot be judged.
///
/// # Errors
/// The entry holds no group, one without files, or that of another key or another target; a file has another name.
pub fn verify_group_binding(entry: &Entry, target: &str) -> Result<Option<GroupRecord>, EntryError> {
    Ok(verify_binding(entry, target)?.map(|(record, _)| record))
}

/// Returns the record and the member that a later version may have added, if any.
fn verify_binding(entry: &Entry, target: &str) -> Result<Option<(GroupRecord, Option<String>)>, EntryError> {
    if !GroupRecord::is_in(entry) {
        return Err(EntryError::Incomplete { member: GROUP });
    }
    let Some(record) = GroupRecord::read(entry)? else { return Ok(None) };
    if record.key.target != target {
        return Err(mismatch("target", target, &record.key.target));
    }
    match record.key.digest() {
        found if found == *entry.key() => Ok(Some((record, verify_members(entry)?))),
        found => Err(EntryError::KeyMismatch { expected: Key::from(*entry.key()), found: Key::from(found) }),
    }
}

/// Verifies the names of all members. Returns the member that a later version may have added, if any.
fn verify_members(entry: &Entry) -> Result<Option<String>, EntryError> {
    let (mut names, mut has_files, mut unknown) = (HashSet::new(), false, None);
    for (name, _, is_eager) in entry.members() {
        let file = name.strip_prefix(EXTRA_PREFIX);
        if let Some(file) = file.filter(|file| !is_plain_file_name(file)) {
            return Err(EntryError::FileName { name: file.to_owned() });
        }
        // A hit would not return a file that is read on demand only.
        let is_other = file.is_some() && !is_eager || MEMBERS_OF_KERNELS.contains(&name);
        if is_other || !names.insert(name) {
            return Err(EntryError::OtherMember { member: name.to_owned() });
        }
        has_files |= file.is_some();
        if file.is_none() && ![GROUP, EXPECTATIONS, SIGNATURES].contains(&name) {
            unknown = Some(format!("its member `{name}` is not known"));
        }
    }
    if has_files { Ok(unknown) } else { Err(EntryError::Incomplete { member: EXTRA_PREFIX }) }
}

fn verify_kernel(
    entry: &Entry,
    files: GroupFiles<'_>,
    record: &GroupRecord,
    validator: &Validator,
) -> Result<Option<String>, EntryError> {
    let stored = entry.lazy_member(EXPECTATIONS).map_err(|damage| EntryError::Damaged(damage.to_string()))?;
    let Some(stored) = stored else {
        let object = record.object.as_ref();
        return Ok(object.map(|name| format!("no rules are stored for its kernel `{name}`")));
    };
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
