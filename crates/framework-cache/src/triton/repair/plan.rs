//! What a repair does with each group of a directory.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileState as SeenState};
use opkeep_kernel_meta::InUse;

use super::report::{SkippedGroup, TritonRepairOptions};
use super::write::{NewFiles, Target};
use crate::quarantine::SkipCause;
use crate::quarantine::journal::{Entry as Line, Role};
use crate::scan::in_use::YOUNG;
use crate::triton::compare::{Compared, FileState};
use crate::triton::group::{KeyFiles, TritonGroup};
use crate::triton::record::{TritonRecord, list_name};
use crate::triton::stored::StoredGroup;

/// A group that is repaired.
pub(super) struct Planned<'a> {
    pub(super) group: &'a TritonGroup,
    pub(super) action: Action,
    /// The problem of the group.
    pub(super) reason: String,
    /// The files that are moved or replaced, in this order, with the states in which they were judged.
    pub(super) taken: Vec<(String, SeenState)>,
}

pub(super) enum Action {
    /// The files of an entry are written.
    Write(NewFiles),
    Quarantine,
}

/// Returns what is to be done with the groups that need a repair, and those of them that have to stay.
pub(super) fn plan<'a>(
    files: &'a KeyFiles,
    stored: &[StoredGroup],
    target: &Target,
    options: &TritonRepairOptions<'_>,
) -> (Vec<Planned<'a>>, Vec<SkippedGroup>) {
    let (mut planned, mut skipped) = (Vec::new(), Vec::new());
    for group in &files.groups {
        let meant = group.meant(stored);
        if group.is_intact() && meant.as_ref().is_none_or(|meant| meant.differing() == 0) {
            continue;
        }
        let reason = reason(group, meant.as_ref());
        let skip = |cause| SkippedGroup { name: group.name.clone(), reason: reason.clone(), cause };
        let entry = meant.as_ref().and_then(|meant| Some((meant, (options.entry)(meant.stored)?)));
        match entry {
            Some((meant, entry)) => {
                let new = NewFiles::of(group, meant, &entry, target);
                let taken = new.replaced(group);
                planned.push(Planned { group, action: Action::Write(new), reason, taken });
            }
            // It differs from an entry that is not valid itself.
            None if group.is_intact() => skipped.push(skip(SkipCause::Failed {
                file: group.name.clone(),
                problem: "its entry in the store is damaged".to_owned(),
            })),
            None => match in_progress(group).filter(|_| !options.force) {
                Some(in_use) => skipped.push(skip(SkipCause::InProgress(in_use))),
                None => {
                    let taken = moved(group);
                    planned.push(Planned { group, action: Action::Quarantine, reason, taken });
                }
            },
        }
    }
    (planned, skipped)
}

impl Planned<'_> {
    /// The names of the files that are written or moved.
    pub(super) fn names(&self) -> Vec<String> {
        match &self.action {
            Action::Write(new) => new.changed.clone(),
            Action::Quarantine => self.taken.iter().map(|(name, _)| name.clone()).collect(),
        }
    }

    pub(super) fn skipped(&self, cause: SkipCause) -> SkippedGroup {
        SkippedGroup { name: self.group.name.clone(), reason: self.reason.clone(), cause }
    }

    /// Takes the current states of the files that have the same content: the change of a second name changes the time of the
    /// last change of a file.
    pub(super) fn refresh(&mut self, dir: &Dir) {
        for (name, state) in &mut self.taken {
            if let Some(found) = dir.file_state(&*name).filter(|found| found.is_same_content(state)) {
                *state = found;
            }
        }
    }

    /// The lines of the journal about the files that are moved or replaced, and about those that stay beside them.
    pub(super) fn lines(&self, set: u64) -> Vec<Line> {
        let taken = self.taken.iter().map(|(name, state)| Line::new(set, name, None, state, &self.reason));
        let is_taken = |name: &String| self.taken.iter().any(|(taken, _)| taken == name);
        let stay = self.group.states.iter().filter(|(name, _)| !is_taken(name) && !self.taken.is_empty());
        let stay = stay.map(|(name, state)| Line {
            role: Role::Stays { sha256: None },
            ..Line::new(set, name, None, state, &self.reason)
        });
        taken.chain(stay).collect()
    }

    /// The lines about the files that were written into `dir`.
    pub(super) fn added(&self, set: u64, dir: &Dir) -> Vec<Line> {
        let Action::Write(new) = &self.action else { return Vec::new() };
        let line = |name: &String| {
            let bytes = new.bytes_of(name)?;
            let role = Role::Added { sha256: Digest::of(bytes).to_string() };
            Some(Line { role, ..Line::new(set, name, None, &dir.file_state(name)?, &self.reason) })
        };
        new.changed.iter().filter_map(line).collect()
    }
}

/// The problem of a group in one line.
fn reason(group: &TritonGroup, meant: Option<&Compared<'_>>) -> String {
    let mut reasons = group.problems.clone();
    reasons.extend(group.report.iter().flat_map(|report| report.errors()).map(ToString::to_string));
    if let Some(meant) = meant {
        reasons.extend(
            meant
                .files
                .iter()
                .filter(|file| file.state == FileState::Differs)
                .map(|file| format!("`{}` differs from the entry", file.name)),
        );
    } else {
        let record = TritonRecord::name(&group.name);
        reasons.extend(
            group.unlike_record.iter().map(|name| format!("`{name}` has other bytes than `{record}` states")),
        );
    }
    if reasons.is_empty() {
        reasons.extend(meant.iter().flat_map(|meant| meant.differences()));
        reasons.extend(
            group.unlike_record.iter().map(|name| format!("`{name}` is another file than its record states")),
        );
    }
    reasons.join("; ")
}

/// The regular files of a group in the order in which they are moved: Triton looks for the list first, then for the metadata.
fn moved(group: &TritonGroup) -> Vec<(String, SeenState)> {
    let (list, record) = (list_name(&group.name), TritonRecord::name(&group.name));
    let order = |name: &String| match name {
        name if *name == list => 0,
        name if *name == group.name => 1,
        name if *name == record => 3,
        _ => 2,
    };
    let mut files: Vec<_> = group.states.iter().map(|(name, state)| (name.clone(), *state)).collect();
    opkeep_order::by_key(&mut files, |(name, _)| order(name));
    files
}

/// Whether a process may be compiling the kernel again. Triton does that if it finds no list or no metadata, and writes the list
/// last; other kernels it takes as they are.
fn in_progress(group: &TritonGroup) -> Option<InUse> {
    if group.listed.is_some() && group.files.iter().any(|file| file.name == group.name) {
        return None;
    }
    let now = SystemTime::now();
    let age = |state: &SeenState| {
        let written = UNIX_EPOCH + Duration::from_nanos(u64::try_from(state.mtime).unwrap_or(0));
        now.duration_since(written).unwrap_or_default()
    };
    let age = group.states.values().map(age).min()?;
    (age < YOUNG).then_some(InUse::RecentlyWritten { seconds: age.as_secs() })
}
