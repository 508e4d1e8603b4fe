//! The files of one of Triton's keys, and the groups that they form.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use opkeep_artifact::Artifact;
use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileKind, FileRead};
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_validator::{Report, Validator};
use serde_json::Value;

use super::find::{KeyDir, listed_name, recorded_name};
use super::metadata::TritonMetadata;

/// The files of a key.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KeyFiles {
    /// The groups, in the order of their names.
    pub groups: Vec<TritonGroup>,
    /// Files that are in no list, in order: launchers, results of tuning, and what an unfinished compile wrote.
    pub others: Vec<TritonFile>,
}

/// The files of one kernel.
#[derive(Debug)]
#[non_exhaustive]
pub struct TritonGroup {
    /// The path of its metadata.
    pub path: PathBuf,
    /// The framework's key of the group in a store.
    pub framework_key: Digest,
    /// The name of the group: that of its metadata.
    pub name: String,
    /// The name of the kernel; empty if its metadata cannot be read.
    pub kernel: String,
    /// The name of its target in a store; empty if its metadata cannot be read.
    pub target: String,
    /// The files of its list that could be read.
    pub files: Vec<TritonFile>,
    /// Why it is not intact, as far as that is no finding of the validator.
    pub problems: Vec<String>,
    /// The validator's report about the kernel. `None` if no rules are known for it, or its files cannot be read.
    pub report: Option<Report>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TritonFile {
    /// Its name.
    pub name: String,
    /// The digest of its bytes.
    pub digest: Digest,
}

impl TritonGroup {
    /// Whether no problem was found.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty() && self.report.as_ref().is_none_or(Report::is_valid)
    }
}

impl KeyDir {
    /// Reads all files of the key, and judges its kernels. No link is followed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn judge(&self) -> io::Result<KeyFiles> {
        let dir = Dir::open_quietly(&self.path)?;
        let names: BTreeSet<String> = dir
            .entries()?
            .into_iter()
            .filter(|name| name.kind != FileKind::Dir)
            .filter_map(|name| name.name.into_string().ok())
            .collect();
        let mut files = KeyFiles::default();
        let mut listed = BTreeSet::new();
        for name in names.iter().filter_map(|name| listed_name(name)) {
            let group = self.group(&dir, name, &mut listed);
            files.groups.push(group);
        }
        let is_other = |name: &&String| {
            let is_ours = recorded_name(name).is_some_and(|group| listed.contains(group));
            listed_name(name).is_none() && !listed.contains(*name) && !name.ends_with(".lock") && !is_ours
        };
        for name in names.iter().filter(is_other) {
            files.others.extend(read(&dir, name).ok().map(|bytes| TritonFile::new(name, &bytes)));
        }
        Ok(files)
    }

    fn group(&self, dir: &Dir, name: &str, listed: &mut BTreeSet<String>) -> TritonGroup {
        let mut group = TritonGroup {
            path: self.path.join(name),
            framework_key: self.framework_key(),
            name: name.to_owned(),
            kernel: String::new(),
            target: String::new(),
            files: Vec::new(),
            problems: Vec::new(),
            report: None,
        };
        listed.insert(name.to_owned());
        let mut contents = BTreeMap::new();
        let names = list(dir, &format!("__grp__{name}")).unwrap_or_else(|problem| {
            group.problems.push(problem);
            Vec::new()
        });
        if !group.problems.is_empty() {
            group.describe(read(dir, name).ok().as_deref());
            return group;
        }
        for file in names {
            match read(dir, &file) {
                Ok(bytes) => {
                    group.files.push(TritonFile::new(&file, &bytes));
                    contents.insert(file.clone(), bytes);
                }
                Err(problem) => group.problems.push(format!("`{file}` {problem}")),
            }
            listed.insert(file);
        }
        let metadata = group.describe(contents.get(name).map(Vec::as_slice));
        match (metadata, contents.get(name)) {
            (Some(metadata), Some(json)) => group.judge(self, &metadata, json, &contents),
            (None, Some(_)) => group.problems.push(format!("`{name}` is no metadata of a kernel")),
            (_, None) if group.problems.is_empty() => {
                group.problems.push(format!("`{name}` is not in the list"));
            }
            _ => {}
        }
        group
    }
}

impl TritonGroup {
    /// Takes what the metadata states.
    fn describe(&mut self, json: Option<&[u8]>) -> Option<TritonMetadata> {
        let metadata = TritonMetadata::read(json?)?;
        metadata.kernel().clone_into(&mut self.kernel);
        self.target = metadata.target();
        Some(metadata)
    }

    fn judge(
        &mut self,
        dir: &KeyDir,
        metadata: &TritonMetadata,
        json: &[u8],
        contents: &BTreeMap<String, Vec<u8>>,
    ) {
        if !metadata.is_of(&dir.key) {
            self.problems.push(format!("`{}` is of another key than the directory", self.name));
        }
        let Some((suffix, rules)) = metadata.rules() else { return };
        let object = contents.iter().find(|(name, _)| name.rsplit_once('.').is_some_and(|it| it.1 == suffix));
        match object {
            Some((_, object)) => {
                let artifact =
                    Artifact { metadata: json.to_vec(), object: object.clone(), extra: Vec::new() };
                self.report = Some(Validator::builtin().validate(&artifact, &rules));
            }
            None if self.problems.is_empty() => {
                self.problems.push(format!("the list names no .{suffix} file"));
            }
            None => {}
        }
    }
}

impl TritonFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        Self { name: name.to_owned(), digest: Digest::of(bytes) }
    }
}

/// The names in a list of files.
fn list(dir: &Dir, name: &str) -> Result<Vec<String>, String> {
    let bytes = read(dir, name).map_err(|problem| format!("`{name}` {problem}"))?;
    let json: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("`{name}` cannot be read: {error}"))?;
    let Some(names) = json["child_paths"].as_object() else {
        return Err(format!("`{name}` is no list of files"));
    };
    match names.keys().find(|name| name.contains('/') || matches!(name.as_str(), "" | "." | "..")) {
        Some(other) => Err(format!("`{name}` names {other:?}, which is no file beside it")),
        None => Ok(names.keys().cloned().collect()),
    }
}

/// Reads a file. The error follows its name in a sentence.
fn read(dir: &Dir, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    match dir.read(name, MAX_ENTRY_BYTES, &mut bytes) {
        FileRead::Complete(_) if bytes.is_empty() => Err("is empty".to_owned()),
        FileRead::Complete(_) => Ok(bytes),
        FileRead::Missing => Err("is missing".to_owned()),
        FileRead::Link => Err("is a link".to_owned()),
        other => {
            Err(other.complete().err().map_or_else(String::new, |error| format!("cannot be read: {error}")))
        }
    }
}
