//! Whether a stored entry is the kernel that its key stands for.
//!
//! The store knows that the bytes are what somebody wrote under that key. Whether that is a kernel, and the right one, is
//! seen here: an entry that was put under another's key, or holds another's bytes, is whole and wrong. It would be a hit.

use opkeep_artifact::Expectations;
use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_descriptor::{KEY_SCHEMA, Key, KeyParts, ResolvedSpec, read_info};
use opkeep_store::Entry;
use opkeep_validator::{CheckStatus, Validator};

use crate::compile::is_of;
use crate::expected::EXPECTATIONS;
use crate::further::Files;
use crate::header::Header;
use crate::imported::IMPORTED;
use crate::make::{HEADER, INFO};
use crate::{EntryError, imported};

/// What can be said of an entry in a store.
#[derive(Debug)]
#[must_use]
pub enum EntryVerdict {
    /// It holds a kernel as its target expects, and the one of its key.
    Valid,
    /// Nothing is wrong that can be seen here, but not all of it can be judged: a check is not there, or a version wrote it
    /// that expects what this one does not know.
    Unverifiable {
        /// What is missing.
        why: String,
    },
    /// It must not be used.
    Invalid(EntryError),
}

impl EntryVerdict {
    /// What is wrong, if anything is.
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

/// Judges an entry that was found among those of `target`, as anew: its kernel by `validator`, whatever rules let it in; and
/// whether it is the kernel of its key, by its names, by what the entry says of itself, and by what it was compiled from. No
/// backend is asked, so no compiler need be there.
///
/// The kernel is judged by the expectations that are stored with it and, where the target's name says what it expects, by
/// those as well: an entry cannot choose a lax judge. Only what is certain is refused. An entry that says nothing of itself
/// is judged by its kernel alone.
pub fn verify_entry(entry: &Entry, target: &str, validator: &Validator) -> EntryVerdict {
    match judge(entry, target, validator) {
        Ok(None) => EntryVerdict::Valid,
        Ok(Some(why)) => EntryVerdict::Unverifiable { why },
        Err(error) => EntryVerdict::Invalid(error),
    }
}

/// Says what could not be judged, if anything.
fn judge(entry: &Entry, target: &str, validator: &Validator) -> Result<Option<String>, EntryError> {
    let files = Files::in_entry(entry).map_err(|member| EntryError::Incomplete { member })?;
    let (stored, mut unknown) = match lazy(entry, EXPECTATIONS).map(Expectations::decode) {
        Some(Ok(stored)) => (Some(stored), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let other_target = stored.as_ref().map(|stored| &stored.target).filter(|found| *found != target).cloned();
    let known = targets::named(target);
    let stored = stored.filter(|stored| known.as_ref() != Some(stored));
    let mut judges: Vec<Expectations> = known.into_iter().chain(stored).collect();
    // Entries of earlier versions say nothing of what was expected. Then the object is for the machine that it says.
    if judges.is_empty() && unknown.is_none() {
        judges.push(files.expectations());
    }
    let mut meta = None;
    for expect in &judges {
        let report = files.judge(None, expect, validator);
        if !report.is_valid() {
            return Err(EntryError::Invalid { errors: report.errors().cloned().collect() });
        }
        if let CheckStatus::Unavailable(check) = report.status {
            unknown = Some(format!("its target asks for the check {check}, which is not there"));
        }
        meta = report.meta.or(meta);
    }
    if let Some(found) = other_target {
        return Err(another("target", target, &found));
    }
    // Neither kind is taken for the other: what is imported says so in a member that nothing else has.
    if entry.member(IMPORTED).is_some() {
        return imported::judge_entry(entry, target).map(|()| unknown);
    }
    let names: Vec<&str> = meta.iter().flat_map(KernelMeta::entry_names).collect();
    let number = entry.key().prefix_u64();
    if let Some(other) = names.iter().find(|name| !has_number(name, number)) {
        return Err(EntryError::NameMismatch { expected: number, found: (*other).to_owned() });
    }
    if let Some(header) = lazy(entry, HEADER).and_then(Header::parse) {
        judge_header(entry, &header, target, &names)?;
    }
    Ok(unknown)
}

fn another(what: &'static str, expected: &str, found: &str) -> EntryError {
    EntryError::HeaderMismatch { what, expected: expected.to_owned(), found: found.to_owned() }
}

/// Whether what an entry says of itself fits its key, the folder it is in, and its kernel.
fn judge_header(entry: &Entry, header: &Header, target: &str, names: &[&str]) -> Result<(), EntryError> {
    let key = entry.key();
    match header.key.as_deref() {
        Some(found) if found != key.to_string() => return Err(another("key", &key.to_string(), found)),
        _ => {}
    }
    if header.target != target {
        return Err(another("target", target, &header.target));
    }
    if let Some(other) = names.iter().find(|name| !is_of(name, &header.name)) {
        return Err(another("kernel", other, &header.name));
    }
    match key_of(entry, header) {
        Some(found) if found.digest() != key => {
            Err(EntryError::KeyMismatch { expected: Key::from(*key), found })
        }
        _ => Ok(()),
    }
}

/// The key of what the entry says it was compiled from, if keys are still made as they were then.
fn key_of(entry: &Entry, header: &Header) -> Option<Key> {
    if header.key_schema != KEY_SCHEMA {
        return None;
    }
    let job = read_info(lazy(entry, INFO)?).ok()?.job;
    let Header { target, options, backend, toolchain, op_sources, .. } = header;
    let spec = ResolvedSpec { target: target.clone(), options: options.clone(), debug: false };
    Some(KeyParts::new(backend, &job, &spec, toolchain.clone(), op_sources.clone()).key())
}

fn lazy<'a>(entry: &'a Entry, name: &str) -> Option<&'a [u8]> {
    entry.lazy_member(name).ok().flatten()
}

/// Whether a kernel has the number of a key in its name.
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
    fn a_number_that_only_begins_or_ends_alike_is_another() {
        for name in ["add_17", "add_17__kernel0", "_1_17_0_mix_aic", "add_170_17"] {
            assert!(has_number(name, 17), "{name}");
        }
        for name in ["add_170", "add_117", "add17", "add", "", "17"] {
            assert!(!has_number(name, 17), "{name}");
        }
    }
}
