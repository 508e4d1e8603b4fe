//! Writes the files of an entry into a directory of Triton.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_embed::{DirectoryError, FileContent, GroupDir};
use opkeep_fs::FileState as SeenState;
use opkeep_kernel_entry::{GroupFiles, original_file_name};
use opkeep_store::Entry;

use crate::quarantine::{RepairError, SkipCause};
use crate::triton::compare::{Compared, FileState};
use crate::triton::find::{KeyDir, MARK};
use crate::triton::group::TritonGroup;
use crate::triton::record::{TritonRecord, list_name, render_list};

/// A directory of a key, as its files are written.
pub(super) struct Target {
    /// Triton's directory, as the user named it.
    base: PathBuf,
    name: String,
    key: String,
}

impl Target {
    pub(super) fn of(dir: &KeyDir) -> Result<Self, RepairError> {
        let failed = |source| RepairError::io("find", &dir.path, source);
        let base = dir.base().and_then(std::path::absolute).map_err(failed)?;
        Ok(Self { base, name: dir.name(), key: dir.key.clone() })
    }
}

/// The files of an entry, and those that lie beside them.
pub(super) struct NewFiles {
    /// The key of the entry.
    pub(super) entry: Digest,
    /// The names of the files that have to be written.
    pub(super) changed: Vec<String>,
    /// The files of the entry.
    files: Vec<(String, Vec<u8>)>,
    /// The record, and the list if that has to be written.
    further: Vec<(String, Vec<u8>)>,
    /// The toolchain of the entry.
    toolchain: String,
}

impl NewFiles {
    pub(super) fn of(group: &TritonGroup, meant: &Compared<'_>, entry: &Entry, target: &Target) -> Self {
        let files: Vec<(String, Vec<u8>)> = GroupFiles::of(entry)
            .iter()
            .filter_map(|(stored, bytes)| Some((original_file_name(stored)?.into_owned(), bytes.to_vec())))
            .collect();
        let stored = meant.stored;
        let is_other = |state| matches!(state, FileState::Differs | FileState::Missing);
        let changed = meant.files.iter().filter(|file| is_other(file.state)).map(|file| file.name.clone());
        let mut new = Self {
            entry: stored.key,
            changed: changed.collect(),
            files,
            further: Vec::new(),
            toolchain: stored.toolchain(),
        };
        // Launchers and results of tuning have neither.
        if stored.record.metadata.is_some() {
            new.add_further(group, meant, target);
        }
        new
    }

    fn add_further(&mut self, group: &TritonGroup, meant: &Compared<'_>, target: &Target) {
        let names: BTreeSet<String> = opkeep_order::set(self.files.iter().map(|(name, _)| name.clone()));
        let record = TritonRecord { entry: meant.stored.key, files: meant.stored.files.clone() };
        let is_known_record = group.record.is_some() || group.has_damaged_record;
        let name = TritonRecord::name(&group.name);
        if group.record.as_ref() != Some(&record) && (is_known_record || !group.states.contains_key(&name)) {
            self.further.push((name, record.render().into_bytes()));
        }
        if group.listed.as_ref() != Some(&names) {
            // The paths are those in the directory of the key, also in the copy beside.
            let list =
                render_list(&target.base.join(&target.key), self.files.iter().map(|(name, _)| &**name));
            self.further.push((list_name(&group.name), list.into_bytes()));
        }
        self.changed.extend(self.further.iter().map(|(name, _)| name.clone()));
    }

    /// The files of the group that are replaced, with their states.
    pub(super) fn replaced(&self, group: &TritonGroup) -> Vec<(String, SeenState)> {
        let state = |name: &String| Some((name.clone(), *group.states.get(name)?));
        self.changed.iter().filter_map(state).collect()
    }

    pub(super) fn bytes_of(&self, name: &str) -> Option<&[u8]> {
        self.all().find(|(file, _)| *file == name).map(|(_, bytes)| bytes)
    }

    fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (&**name, &**bytes))
    }

    /// The files, and then the others: the list comes last, since Triton looks for it.
    fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files().chain(self.further.iter().map(|(name, bytes)| (&**name, &**bytes)))
    }
}

/// Makes the files lie in the directory; in that of the key as second names of the files of the toolchain, if these are intact.
pub(super) fn write(new: &NewFiles, target: &Target) -> Result<(), SkipCause> {
    let written = || -> Result<bool, DirectoryError> {
        let contents = || new.all().map(|(name, bytes)| (name, FileContent::Bytes(bytes)));
        let own = GroupDir::new(&target.base, &target.name)?;
        if target.name == target.key {
            let beside = GroupDir::new(&target.base, &format!("{}{MARK}{}", target.key, new.toolchain))?;
            if beside.has(contents()) {
                // If that fails, they are written below.
                let _ = beside.with_copies(&target.key)?.place(new.all());
            }
        }
        own.place(new.all())?;
        Ok(own.has(contents()))
    };
    let failed = |problem: String| SkipCause::Failed { file: target.path().display().to_string(), problem };
    match written() {
        Ok(true) => Ok(()),
        Ok(false) => Err(SkipCause::Changed { file: target.name.clone() }),
        Err(error) => Err(failed(error.to_string())),
    }
}

impl Target {
    fn path(&self) -> PathBuf {
        Path::new(&self.base).join(&self.name)
    }
}
