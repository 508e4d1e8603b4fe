//! The files of one of Triton's keys, and the groups that they form.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use opkeep_artifact::Artifact;
use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileKind, FileRead, FileState};
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_validator::{Report, Validator};
use serde_json::Value;

use super::find::{KeyDir, MARK, listed_name, recorded_name};
use super::metadata::TritonMetadata;
use super::record::{TritonRecord, is_name, list_name};
use super::stored::StoredGroup;

/// The files in a directory of a key.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KeyFiles {
    /// The groups, in the order of their names.
    pub groups: Vec<TritonGroup>,
    /// The names of files that are in no list, in order: launchers, results of tuning, and what an unfinished compile wrote.
    pub others: BTreeSet<String>,
}

/// The files of one kernel in one directory; or a launcher or the like, which has no metadata.
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
    /// The files of its list and of its record that could be read.
    pub files: Vec<TritonFile>,
    /// Whether it is a kernel: whether it has a list or a record. Launchers and results of tuning have neither.
    pub is_kernel: bool,
    /// Why it is not intact, as far as that is no finding of the validator.
    pub problems: Vec<String>,
    /// The names of files that have other bytes than the record beside the group states.
    pub unlike_record: Vec<String>,
    /// The validator's report about the kernel. `None` if no rules are known for it, or its files cannot be read.
    pub report: Option<Report>,
    /// The toolchain, if the directory is that of one.
    pub toolchain: Option<String>,
    /// The record of opkeep beside the group, if there is one.
    pub record: Option<TritonRecord>,
    /// In the directory of the key: the toolchains in whose directories the same files have a second name.
    pub linked: Vec<String>,
    /// The regular files that have the names of the group, with its list and its record, in the states in which they were read.
    pub(super) states: BTreeMap<String, FileState>,
    /// Whether there is a record that cannot be read, and is not of a later version.
    pub(super) has_damaged_record: bool,
    /// The names in its list, if that can be read.
    pub(super) listed: Option<BTreeSet<String>>,
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
        let is_valid = self.report.as_ref().is_none_or(Report::is_valid);
        self.problems.is_empty() && self.unlike_record.is_empty() && is_valid
    }
}

impl KeyDir {
    /// Reads all files in the directory, and judges its kernels. No link is followed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn judge(&self) -> io::Result<KeyFiles> {
        let dir = Dir::open_quietly(&self.path)?;
        let names: BTreeSet<String> = opkeep_order::set(
            dir.entries()?
                .into_iter()
                .filter(|name| name.kind != FileKind::Dir)
                .filter_map(|name| name.name.into_string().ok()),
        );
        let groups: BTreeSet<&str> = opkeep_order::set(
            names.iter().filter_map(|name| listed_name(name).or_else(|| recorded_name(name))),
        );
        let beside = self.toolchains_beside();
        let mut files = KeyFiles::default();
        let mut known = BTreeSet::new();
        for name in groups {
            let group = self.group(&dir, name, &names, &beside, &mut known);
            files.groups.push(group);
        }
        files.others =
            names.into_iter().filter(|name| !known.contains(name) && !name.ends_with(".lock")).collect();
        Ok(files)
    }

    /// Makes groups of the other files that are of an entry: such as launchers, which have neither a list nor metadata.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn add_stored(&self, files: &mut KeyFiles, stored: &[StoredGroup]) -> io::Result<()> {
        if files.others.is_empty() || stored.is_empty() {
            return Ok(());
        }
        let (dir, framework_key) = (Dir::open_quietly(&self.path)?, self.framework_key());
        let beside = self.toolchains_beside();
        for stored in stored {
            let names = || stored.files.iter().map(|(name, _)| name);
            if files.groups.iter().any(|group| group.name == stored.record.key.name)
                || !names().any(|name| files.others.contains(name))
            {
                continue;
            }
            let mut group = self.new_group(&stored.record.key.name);
            group.read_states(&dir, names());
            group.find_second_names(&beside);
            let toolchain = self.toolchain.as_deref().or(match group.linked.as_slice() {
                [toolchain] => Some(toolchain),
                _ => None,
            });
            if !toolchain.is_some_and(|toolchain| stored.is_in(&framework_key, toolchain)) {
                continue;
            }
            group.target.clone_from(&stored.record.key.target);
            group.is_kernel = false;
            for name in names() {
                files.others.remove(name);
                match read(&dir, name) {
                    Ok(bytes) => group.files.push(TritonFile::new(name, &bytes)),
                    Err(problem) => group.problems.push(format!("`{name}` {problem}")),
                }
            }
            files.groups.push(group);
        }
        Ok(())
    }

    fn new_group(&self, name: &str) -> TritonGroup {
        TritonGroup {
            path: self.path.join(name),
            framework_key: self.framework_key(),
            name: name.to_owned(),
            kernel: String::new(),
            target: String::new(),
            files: Vec::new(),
            is_kernel: true,
            problems: Vec::new(),
            unlike_record: Vec::new(),
            report: None,
            toolchain: self.toolchain.clone(),
            record: None,
            linked: Vec::new(),
            states: BTreeMap::new(),
            has_damaged_record: false,
            listed: None,
        }
    }

    /// Opens the directories of the toolchains beside this one.
    fn toolchains_beside(&self) -> Vec<(String, Dir)> {
        let Ok(base) = self.base() else { return Vec::new() };
        let open = |toolchain: &String| {
            let path = base.join(format!("{}{MARK}{toolchain}", self.key));
            Some((toolchain.clone(), Dir::open_quietly(&path).ok()?))
        };
        self.toolchains.iter().filter_map(open).collect()
    }

    /// Judges the group called `name`, and adds the names of its files to `known`.
    fn group(
        &self,
        dir: &Dir,
        name: &str,
        names: &BTreeSet<String>,
        beside: &[(String, Dir)],
        known: &mut BTreeSet<String>,
    ) -> TritonGroup {
        let mut group = self.new_group(name);
        let listed = list(dir, &list_name(name));
        group.read_record(dir, names);
        let mut files: BTreeSet<String> = opkeep_order::set([name.to_owned()]);
        match &listed {
            Ok(listed) => files.extend(listed.iter().cloned()),
            Err(problem) => {
                group.problems.push(problem.clone());
                files.extend(names.iter().filter(|file| is_of_stem(file, name)).cloned());
            }
        }
        files
            .extend(group.record.iter().flat_map(|record| record.files.iter().map(|(name, _)| name.clone())));
        let own = [list_name(name), TritonRecord::name(name)];
        group.read_states(dir, files.iter().chain(&own));
        group.find_second_names(beside);
        let is_expected = |file: &str| {
            let of_record = group.record.iter().flat_map(|record| &record.files);
            listed.iter().flatten().any(|name| name == file)
                || of_record.into_iter().any(|(name, _)| name == file)
        };
        let (mut contents, mut problems) = (BTreeMap::new(), Vec::new());
        for file in &files {
            match read(dir, file) {
                Ok(bytes) => {
                    group.files.push(TritonFile::new(file, &bytes));
                    contents.insert(file.clone(), bytes);
                }
                Err(problem) if is_expected(file) => problems.push(format!("`{file}` {problem}")),
                Err(_) => {}
            }
        }
        group.problems.extend(problems);
        group.compare_with_record();
        let metadata = group.describe(contents.get(name).map(Vec::as_slice));
        group.listed = listed.as_ref().ok().map(|names| opkeep_order::set(names.iter().cloned()));
        match (metadata, contents.get(name)) {
            (Some(metadata), Some(json)) if listed.is_ok() => group.judge(self, &metadata, json, &contents),
            (None, Some(_)) => group.problems.push(format!("`{name}` is no metadata of a kernel")),
            (_, None) if group.problems.is_empty() => {
                group.problems.push(format!("`{name}` is not in the list"));
            }
            _ => {}
        }
        known.extend(files);
        known.extend(own);
        group
    }
}

impl TritonGroup {
    fn read_record(&mut self, dir: &Dir, names: &BTreeSet<String>) {
        let name = TritonRecord::name(&self.name);
        if !names.contains(&name) {
            return;
        }
        match read(dir, &name) {
            Ok(bytes) => {
                self.record = TritonRecord::parse(&bytes);
                if self.record.is_none() && !TritonRecord::is_later(&bytes) {
                    self.has_damaged_record = true;
                    self.problems.push(format!("`{name}` is cut or damaged"));
                }
            }
            Err(problem) => {
                self.has_damaged_record = true;
                self.problems.push(format!("`{name}` {problem}"));
            }
        }
    }

    fn compare_with_record(&mut self) {
        let Some(record) = &self.record else { return };
        let is_other = |file: &&TritonFile| {
            record.files.iter().any(|(name, digest)| *name == file.name && *digest != file.digest)
        };
        self.unlike_record = self.files.iter().filter(is_other).map(|file| file.name.clone()).collect();
    }

    fn read_states<'a>(&mut self, dir: &Dir, names: impl Iterator<Item = &'a String>) {
        self.states = opkeep_order::map(names.filter_map(|name| Some((name.clone(), dir.file_state(name)?))));
    }

    /// Finds the directories of toolchains in which one of the files has a second name.
    fn find_second_names(&mut self, beside: &[(String, Dir)]) {
        let is_same = |dir: &Dir| {
            self.states
                .iter()
                .any(|(name, state)| dir.file_state(name).is_some_and(|found| found.id == state.id))
        };
        self.linked =
            beside.iter().filter(|(_, dir)| is_same(dir)).map(|(toolchain, _)| toolchain.clone()).collect();
    }

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

/// Whether `file` may be of the group `group`, whose list cannot be read: `add.ptx` of `add.json`.
fn is_of_stem(file: &str, group: &str) -> bool {
    let rest = group.strip_suffix(".json").and_then(|stem| file.strip_prefix(stem)?.strip_prefix('.'));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('.'))
}

/// The names in a list of files.
fn list(dir: &Dir, name: &str) -> Result<Vec<String>, String> {
    let bytes = read(dir, name).map_err(|problem| format!("`{name}` {problem}"))?;
    let json: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("`{name}` cannot be read: {error}"))?;
    let Some(names) = json["child_paths"].as_object() else {
        return Err(format!("`{name}` is no list of files"));
    };
    match names.keys().find(|name| !is_name(name)) {
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
