//! Verification that a stored entry holds the kernel of its key.
//!
//! The store checks that the bytes are those that were written under the key. This module checks that they are the
//! kernel of that key: an entry under another entry's key, or with another entry's bytes, is intact but wrong, and
//! would be a hit.
//!
//! No backend is called, so a host without a compiler can verify a store. A kernel is judged by the expectations that
//! are stored with it, in the member `expectations`, and by those of the target if that is a built-in one. An entry
//! whose check is unavailable, or whose expectations a later version wrote, is unverifiable: it is reported, and a
//! repair does not change it. A verification of a whole store judges each kernel by the validator, as when it was
//! published, and by [`verify_entry`].

use opkeep_artifact::Expectations;
use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_descriptor::{
    IMPORT_SCHEMA, KEY_SCHEMA, KernelName, Key, KeyParts, ResolvedSpec, import_key, read_info,
};
use opkeep_store::Entry;
use opkeep_validator::{CheckStatus, Validator};
use serde_json::Value;

use crate::bundle::KernelBundle;
use crate::error::EntryError;
use crate::group::{GroupRecord, verify_group};
use crate::header::{Header, IMPORTED_PROVENANCE};
use crate::member::{EXPECTATIONS, HEADER, IMPORTED, INFO};
use crate::provenance::Provenance;
use crate::texts::texts;

/// The result of verifying a stored entry.
#[derive(Debug)]
#[must_use]
pub enum EntryVerdict {
    /// It holds the kernel of its key, and the kernel satisfies the expectations.
    Valid,
    /// No error was found, but the verification is incomplete: a check is unavailable, or this version cannot read the
    /// expectations of a newer version.
    Unverifiable {
        /// The missing part.
        why: String,
    },
    /// It must not be used as the kernel of its key.
    Invalid(EntryError),
}

impl EntryVerdict {
    /// The error, if there is one.
    ///
    /// # Errors
    /// That of [`Invalid`](Self::Invalid).
    pub fn into_result(self) -> Result<(), EntryError> {
        match self {
            Self::Valid | Self::Unverifiable { .. } => Ok(()),
            Self::Invalid(error) => Err(error),
        }
    }
}

/// Verifies an entry of `target` without a backend and without a compiler.
///
/// `validator` validates the kernel again, whatever its stamp: by the stored expectations and, for a built-in target,
/// by those of the target as well, since an entry must not weaken its own rules. In addition, its names, its header and
/// the job that it was compiled from must belong to its key. Only certain errors make it invalid; an entry without a
/// header is verified by its kernel alone.
pub fn verify_entry(entry: &Entry, target: &str, validator: &Validator) -> EntryVerdict {
    match judge(entry, target, validator) {
        Ok(None) => EntryVerdict::Valid,
        Ok(Some(why)) => EntryVerdict::Unverifiable { why },
        Err(error) => EntryVerdict::Invalid(error),
    }
}

/// Verifies that an entry of `target` with a compiled kernel belongs to its key, by its names, its header and its job.
/// The kernel itself is not validated; `expect` only states its format. This is for an entry that no local rules have
/// judged.
///
/// # Errors
/// The entry belongs to another key or another target, or has nothing that shows its key.
pub fn verify_binding(entry: &Entry, target: &str, expect: &Expectations) -> Result<(), EntryError> {
    let files = KernelBundle::of_entry(entry).map_err(|member| EntryError::Incomplete { member })?;
    if let Some(Ok(stored)) = lazy(entry, EXPECTATIONS).map(Expectations::decode)
        && stored.target != target
    {
        return Err(header_mismatch("target", target, &stored.target));
    }
    // Other formats have no names in their metadata.
    let meta = KernelMeta::parse(files.json()).ok().filter(|_| targets::is_cann_kernel(expect));
    let names: Vec<&str> = meta.iter().flat_map(KernelMeta::entry_names).collect();
    judge_names(entry, &names)?;
    match lazy(entry, HEADER).and_then(Header::parse) {
        Some(header) => judge_header(entry, &header, target, &names),
        None if names.is_empty() => Err(EntryError::Incomplete { member: HEADER }),
        None => Ok(()),
    }
}

/// The part that could not be verified, if any.
fn judge(entry: &Entry, target: &str, validator: &Validator) -> Result<Option<String>, EntryError> {
    if GroupRecord::is_in(entry) {
        return verify_group(entry, target, validator);
    }
    let files = KernelBundle::of_entry(entry).map_err(|member| EntryError::Incomplete { member })?;
    let (stored, mut unknown) = match lazy(entry, EXPECTATIONS).map(Expectations::decode) {
        Some(Ok(stored)) => (Some(stored), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let other_target = stored.as_ref().map(|stored| &stored.target).filter(|found| *found != target).cloned();
    let known = targets::named(target);
    let stored = stored.filter(|stored| known.as_ref() != Some(stored));
    let mut judges: Vec<Expectations> = known.into_iter().chain(stored).collect();
    // Entries of earlier versions have no expectations. Their object is validated for the machine in its ELF header.
    if judges.is_empty() && unknown.is_none() {
        judges.push(files.expectations());
    }
    let mut meta = None;
    for expect in &judges {
        let report = files.validate(None, expect, validator);
        if !report.is_valid() {
            return Err(EntryError::Invalid { errors: report.errors().cloned().collect() });
        }
        if let CheckStatus::Unavailable(check) = report.status {
            unknown = Some(format!("the check {check} of its target is not available"));
        }
        meta = report.meta.or(meta);
    }
    if let Some(found) = other_target {
        return Err(header_mismatch("target", target, &found));
    }
    // Only imported kernels have this member, so neither kind is accepted as the other.
    if entry.member(IMPORTED).is_some() {
        return judge_imported(entry, target).map(|()| unknown);
    }
    let names: Vec<&str> = meta.iter().flat_map(KernelMeta::entry_names).collect();
    judge_names(entry, &names)?;
    if let Some(header) = lazy(entry, HEADER).and_then(Header::parse) {
        judge_header(entry, &header, target, &names)?;
    }
    Ok(unknown)
}

fn header_mismatch(field: &'static str, expected: &str, found: &str) -> EntryError {
    EntryError::HeaderMismatch { field, expected: expected.to_owned(), found: found.to_owned() }
}

/// Checks that all of the kernel's names contain the number of the entry's key.
fn judge_names(entry: &Entry, names: &[&str]) -> Result<(), EntryError> {
    let number = entry.key().prefix_u64();
    match names.iter().find(|name| !has_number(name, number)) {
        Some(other) => Err(EntryError::NameMismatch { expected: number, found: (*other).to_owned() }),
        None => Ok(()),
    }
}

/// Checks that the header of an entry matches its key, its target and its kernel.
fn judge_header(entry: &Entry, header: &Header, target: &str, names: &[&str]) -> Result<(), EntryError> {
    let key = entry.key();
    match header.key.as_deref() {
        Some(found) if found != key.to_string() => {
            return Err(header_mismatch("key", &key.to_string(), found));
        }
        _ => {}
    }
    if header.target != target {
        return Err(header_mismatch("target", target, &header.target));
    }
    if let Some(other) = names.iter().find(|name| !KernelName::owns(&header.name, name)) {
        return Err(header_mismatch("kernel", other, &header.name));
    }
    match key_of(entry, header) {
        Some(found) if found.digest() != key => {
            Err(EntryError::KeyMismatch { expected: Key::from(*key), found })
        }
        _ => Ok(()),
    }
}

/// The key of the job and the toolchain in the entry, if it has the current schema.
fn key_of(entry: &Entry, header: &Header) -> Option<Key> {
    if header.key_schema != KEY_SCHEMA {
        return None;
    }
    let job = read_info(lazy(entry, INFO)?).ok()?.job;
    let Header { target, options, backend, toolchain, op_sources, .. } = header;
    let spec = ResolvedSpec { target: target.clone(), options: options.clone(), debug: false };
    Some(KeyParts::new(backend, &job, &spec, toolchain.clone(), op_sources.clone()).key())
}

/// Checks that the key of an entry with an imported kernel is that of its job and its options.
fn judge_imported(entry: &Entry, target: &str) -> Result<(), EntryError> {
    let missing = |member| EntryError::Incomplete { member };
    let lazy = |name: &'static str| entry.lazy_member(name).ok().flatten().ok_or(missing(name));
    Provenance::of(entry).ok_or(missing(IMPORTED))?;
    let header: Value = serde_json::from_slice(lazy(HEADER)?).map_err(|_| missing(HEADER))?;
    let key = Key::from(*entry.key());
    let stated = |name: &str| header[name].as_str().unwrap_or_default();
    for (field, expected) in
        [("key", key.to_string().as_str()), ("target", target), ("provenance", IMPORTED_PROVENANCE)]
    {
        if stated(field) != expected {
            let (expected, found) = (expected.to_owned(), stated(field).to_owned());
            return Err(EntryError::HeaderMismatch { field, expected, found });
        }
    }
    if header["import_schema"].as_u64() != Some(IMPORT_SCHEMA) {
        // Keys of other schemas cannot be computed.
        return Ok(());
    }
    let job = read_info(lazy(INFO)?).map_err(|_| missing(INFO))?.job.digest();
    let options = texts(&header["options"]).ok_or(missing(HEADER))?;
    let spec = ResolvedSpec { target: target.to_owned(), options, debug: false };
    match import_key(&job, &spec) {
        found if found == key => Ok(()),
        found => Err(EntryError::KeyMismatch { expected: key, found }),
    }
}

fn lazy<'a>(entry: &'a Entry, name: &str) -> Option<&'a [u8]> {
    entry.lazy_member(name).ok().flatten()
}

/// Whether the name of a kernel contains the number of its key.
fn has_number(name: &str, number: u64) -> bool {
    let mark = format!("_{number}");
    name.match_indices(&mark).any(|(at, _)| {
        let rest = &name[at + mark.len()..];
        rest.is_empty() || rest.starts_with('_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_compared_as_a_whole() {
        for name in ["add_17", "add_17__kernel0", "_1_17_0_mix_aic", "add_170_17"] {
            assert!(has_number(name, 17), "{name}");
        }
        for name in ["add_170", "add_117", "add17", "add", "", "17"] {
            assert!(!has_number(name, 17), "{name}");
        }
    }
}
