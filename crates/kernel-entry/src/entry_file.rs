//! An entry of the store, judged as a file by itself.

use std::path::Path;

use opkeep_artifact::{Artifact, DecodeError, Expectations};
use opkeep_cann_meta::{known_target, targets};
use opkeep_digest::Digest;
use opkeep_store::Entry;
use opkeep_validator::{Report, Validator, expectations_of, validate_full};
use serde_json::Value;

use crate::group::{GroupFiles, GroupRecord};
use crate::member::{EXPECTATIONS, HEADER};
use crate::verify::{EntryVerdict, verify_entry};

/// A file of a store, with its problems.
#[derive(Debug)]
#[non_exhaustive]
pub struct EntryFile {
    /// The size of the file.
    pub bytes: usize,
    /// The entry. `None` if it is damaged.
    pub entry: Option<Entry>,
    /// The target that the kernel was judged for.
    pub target: String,
    /// Problems that are not the validator's.
    pub problems: Vec<String>,
    /// The part that cannot be judged without its backend, which is no problem.
    pub unverifiable: Option<String>,
    /// The validator's report. `None` without a kernel, or without expectations to judge it by.
    pub report: Option<Report>,
}

impl EntryFile {
    /// Whether there is no problem.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty() && self.report.as_ref().is_none_or(Report::is_valid)
    }

    /// The header of the entry; null without one.
    pub fn header(&self) -> Value {
        self.entry.as_ref().map_or(Value::Null, header)
    }

    /// Judges the complete content of the file at `path`: its bytes, the kernel in it, and whether that is the kernel of
    /// the key in the file's name. The expectations are `expect`; if unset, those of the target in the path; if there is
    /// none, those in the entry.
    pub fn judge(path: &Path, content: Vec<u8>, expect: Option<&Expectations>) -> Self {
        let target = expect.map_or("any target", |expect| &expect.target).to_owned();
        let (bytes, problems) = (content.len(), Vec::new());
        let mut file = Self { bytes, entry: None, target, problems, unverifiable: None, report: None };
        match Entry::decode(content, key_in_name(path).as_ref()) {
            Ok(entry) => {
                file.judge_entry(path, &entry, expect);
                file.entry = Some(entry);
            }
            Err(damage) => file.problems.push(damage.to_string()),
        }
        file
    }

    fn judge_entry(&mut self, path: &Path, entry: &Entry, expect: Option<&Expectations>) {
        let damage = entry.names().filter_map(|name| entry.lazy_member(name).err());
        self.problems.extend(damage.map(|damage| damage.to_string()));
        match GroupRecord::is_in(entry) {
            true => self.judge_group(path, entry, expect),
            false => self.judge_kernel(path, entry, expect),
        }
    }

    /// Judges a group by `expect`; if unset, by the expectations in the entry.
    fn judge_group(&mut self, path: &Path, entry: &Entry, expect: Option<&Expectations>) {
        let record = GroupRecord::of(entry);
        let stated = record.as_ref().map(|record| record.key.target.clone());
        let target = target_dir_name(path).or(stated);
        let stored = stated_expectations(entry).and_then(Result::ok);
        let artifact = record.and_then(|record| GroupFiles::of(entry).artifact(&record));
        if let (Some(artifact), Some(expect)) = (artifact, expect.or(stored.as_ref())) {
            self.report = Some(Validator::builtin().validate(&artifact, expect));
        }
        self.target = target.unwrap_or(self.target.clone());
        self.judge_binding(entry, &self.target.clone());
    }

    fn judge_kernel(&mut self, path: &Path, entry: &Entry, expect: Option<&Expectations>) {
        let header = header(entry);
        let named = target_dir_name(path).or_else(|| header["target"].as_str().map(str::to_owned));
        let stated = stated_expectations(entry);
        let is_foreign = matches!(stated, Some(Err(_)));
        let own = named.as_deref().and_then(targets::named).or(stated.and_then(Result::ok));
        let expect = expect.or(own.as_ref());
        match (entry.member("json"), entry.member("object"), expect) {
            (Some(json), Some(object), Some(expect)) if !targets::is_cann_kernel(expect) => {
                let artifact =
                    Artifact { metadata: json.to_vec(), object: object.to_vec(), extra: Vec::new() };
                self.target.clone_from(&expect.target);
                self.report = Some(Validator::builtin().validate(&artifact, expect));
            }
            (Some(json), Some(object), expect) if expect.is_some() || !is_foreign => {
                let of_object = || expectations_of(Some(json), object);
                let expect = expect.cloned().unwrap_or_else(of_object);
                self.report = Some(validate_full(json, object, &expect));
                // A kernel for an unknown chip cannot be judged; the report says so.
                let is_known = known_target(&expect.target).is_some();
                self.target = if is_known { expect.target } else { of_object().target };
            }
            _ => {}
        }
        self.judge_binding(entry, &named.unwrap_or_else(|| self.target.clone()));
    }

    /// Adds the reason why an entry of `target` is invalid, unless a problem was found before.
    fn judge_binding(&mut self, entry: &Entry, target: &str) {
        let is_valid = self.is_valid();
        match verify_entry(entry, target, &Validator::builtin()) {
            EntryVerdict::Invalid(error) if is_valid => self.problems.push(error.to_string()),
            EntryVerdict::Unverifiable { why } => self.unverifiable = Some(why),
            _ => {}
        }
    }
}

/// The expectations in the entry, or the reason why they cannot be read.
fn stated_expectations(entry: &Entry) -> Option<Result<Expectations, DecodeError>> {
    entry.lazy_member(EXPECTATIONS).ok().flatten().map(Expectations::decode)
}

fn header(entry: &Entry) -> Value {
    let text = entry.lazy_member(HEADER).ok().flatten();
    text.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or(Value::Null)
}

/// The key in the name of a file: `<key>.kern`, or in a quarantine `<key>-<time>.kern`.
fn key_in_name(path: &Path) -> Option<Digest> {
    path.file_stem()?.to_str()?.split('-').next()?.parse().ok()
}

/// The target in the path of a file in a store: `<target>/entries/<two digits>/<key>.kern`.
fn target_dir_name(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let mut above = path.ancestors().skip(2);
    let is_entries = above.next()?.file_name()? == "entries";
    let target = above.next()?.file_name()?.to_str()?;
    is_entries.then(|| target.to_owned())
}
