//! Whether a stored entry is the kernel that its key stands for.
//!
//! The store knows that the bytes are what somebody wrote under that key. Whether that is a kernel, and the right one, is
//! seen here: an entry that was put under another's key, or holds another's bytes, is whole and wrong. It would be a hit.

use opkeep_cann_meta::targets;
use opkeep_descriptor::{EffectiveSpec, KEY_SCHEMA, Key, KeyParts, read_info};
use opkeep_store::Entry;

use crate::compile::is_of;
use crate::further::Files;
use crate::header::Header;
use crate::imported::IMPORTED;
use crate::make::{HEADER, INFO};
use crate::{StoredError, imported};

/// Judges an entry that was found among those of `target`, as anew: its kernel by the validator, by what the target
/// expects, whatever rules let it in; and whether it is the kernel of its key, by its names, by what the entry says of
/// itself, and by what it was compiled from. No backend is asked, so no compiler need be there.
///
/// Only what is certain is refused. An entry that says nothing of itself is judged by its kernel alone.
///
/// # Errors
/// The first thing that is wrong.
pub fn judge_stored(entry: &Entry, target: &str) -> Result<(), StoredError> {
    let files = Files::in_entry(entry).map_err(|member| StoredError::Incomplete { member })?;
    let expect = targets::named(target).unwrap_or_else(|| files.expectations());
    let report = files.judge(None, &expect);
    let Some(meta) = report.meta.as_ref().filter(|_| report.is_valid()) else {
        return Err(StoredError::Invalid { errors: report.errors().cloned().collect() });
    };
    // Neither kind is taken for the other: what is imported says so in a member that nothing else has.
    if entry.member(IMPORTED).is_some() {
        return imported::judge_entry(entry, target);
    }
    let number = entry.key().prefix_u64();
    if let Some(other) = meta.entry_names().iter().find(|name| !has_number(name, number)) {
        return Err(StoredError::AnotherKernel { expected: number, found: (*other).to_owned() });
    }
    match lazy(entry, HEADER).and_then(Header::parse) {
        Some(header) => judge_header(entry, &header, target, &meta.entry_names()),
        None => Ok(()),
    }
}

/// Whether what an entry says of itself fits its key, the folder it is in, and its kernel.
fn judge_header(entry: &Entry, header: &Header, target: &str, names: &[&str]) -> Result<(), StoredError> {
    let key = entry.key();
    let another = |what, expected: &str, found: &str| {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        Err(StoredError::AnotherHeader { what, expected, found })
    };
    match header.key.as_deref() {
        Some(found) if found != key.to_string() => return another("key", &key.to_string(), found),
        _ => {}
    }
    if header.target != target {
        return another("target", target, &header.target);
    }
    if let Some(other) = names.iter().find(|name| !is_of(name, &header.name)) {
        return another("kernel", other, &header.name);
    }
    match key_of(entry, header) {
        Some(found) if found.digest() != key => {
            Err(StoredError::AnotherJob { expected: Key::from(*key), found })
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
    let spec = EffectiveSpec { target: target.clone(), options: options.clone(), debug: false };
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
