//! An entry of the store, judged as a file by itself.

use std::path::Path;

use opkeep_artifact::{Artifact, Expectations};
use opkeep_cann_meta::targets;
use opkeep_digest::Digest;
use opkeep_kernel_entry::{EntryVerdict, verify_entry};
use opkeep_store::{Entry, MAX_ENTRY_BYTES};
use opkeep_validator::{Report, Validator, expectations_of};
use serde_json::Value;

use crate::input::pairs::{judge_bytes, of_known_chip};
use crate::input::read_file;

/// A file of the store, and what is to be said of it.
pub(crate) struct EntryFile {
    pub(crate) bytes: usize,
    /// None if it is damaged.
    pub(crate) entry: Option<Entry>,
    /// What it was judged for.
    pub(crate) target: String,
    /// What is wrong beside what the validator says of the kernel.
    pub(crate) problems: Vec<String>,
    /// What cannot be judged here, if anything: that is no error.
    pub(crate) unverifiable: Option<String>,
    /// What the validator says of the kernel, if there is one and it is known how to judge it.
    pub(crate) report: Option<Report>,
}

impl EntryFile {
    pub(crate) fn is_valid(&self) -> bool {
        self.problems.is_empty() && self.report.as_ref().is_none_or(Report::is_valid)
    }

    /// What the entry says of itself; null if it says nothing.
    pub(crate) fn header(&self) -> Value {
        let header = self.entry.as_ref().and_then(|entry| entry.lazy_member("header").ok().flatten());
        header.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or(Value::Null)
    }
}

/// Reads and judges the entry at `path`, in full: every byte of it, the kernel in it, and whether that is the kernel of
/// the key that the file is called by.
pub(crate) fn judge(path: &Path, expect: Option<&Expectations>) -> anyhow::Result<EntryFile> {
    let file = read_file(path, MAX_ENTRY_BYTES)?;
    let target = expect.map_or("any target", |expect| &expect.target).to_owned();
    let (bytes, problems) = (file.len(), Vec::new());
    let mut stored = EntryFile { bytes, entry: None, target, problems, unverifiable: None, report: None };
    let entry = match Entry::decode(file, key_in_name(path).as_ref()) {
        Ok(entry) => entry,
        Err(damage) => {
            stored.problems.push(damage.to_string());
            return Ok(stored);
        }
    };
    let damage = entry.names().filter_map(|name| entry.lazy_member(name).err());
    stored.problems.extend(damage.map(|damage| damage.to_string()));
    stored.entry = Some(entry);
    let header = stored.header();
    let Some(entry) = &stored.entry else { return Ok(stored) };
    // Where it stands says what it is for; else what it says itself.
    let named = target_dir_name(path).or_else(|| header["target"].as_str().map(str::to_owned));
    let said = entry.lazy_member("expectations").ok().flatten().map(Expectations::decode);
    let is_foreign = matches!(said, Some(Err(_)));
    let own = named.as_deref().and_then(targets::named).or(said.and_then(Result::ok));
    let expect = expect.or(own.as_ref());
    match (entry.member("json"), entry.member("object"), expect) {
        (Some(json), Some(object), Some(expect)) if !targets::is_cann_kernel(expect) => {
            let artifact = Artifact { metadata: json.to_vec(), object: object.to_vec(), extra: Vec::new() };
            stored.target.clone_from(&expect.target);
            stored.report = Some(Validator::builtin().validate(&artifact, expect));
        }
        (Some(json), Some(object), expect) if expect.is_some() || !is_foreign => {
            let (report, target) = judge_bytes(json, object, expect);
            // Whether it is one for a chip that is not known, nobody can say; the report does.
            stored.target = if of_known_chip(&target).is_some() { target } else { guess(json, object) };
            stored.report = Some(report);
        }
        _ => {}
    }
    let whole = stored.is_valid();
    match verify_entry(entry, named.as_deref().unwrap_or(&stored.target), &Validator::builtin()) {
        EntryVerdict::Invalid(error) if whole => stored.problems.push(error.to_string()),
        EntryVerdict::Unverifiable { why } => stored.unverifiable = Some(why),
        _ => {}
    }
    Ok(stored)
}

/// What the pair is for, by itself.
fn guess(json: &[u8], object: &[u8]) -> String {
    expectations_of(Some(json), object).target
}

/// The key that a file is called by: `<key>.kern`, or in a quarantine `<key>-<when>.kern`.
fn key_in_name(path: &Path) -> Option<Digest> {
    path.file_stem()?.to_str()?.split('-').next()?.parse().ok()
}

/// The target of a file in a store: `<target>/entries/<two digits>/<key>.kern`.
fn target_dir_name(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let mut above = path.ancestors().skip(2);
    let is_entries = above.next()?.file_name()? == "entries";
    let target = above.next()?.file_name()?.to_str()?;
    is_entries.then(|| target.to_owned())
}
