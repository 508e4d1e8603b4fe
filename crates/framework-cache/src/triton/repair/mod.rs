//! The repair of Triton's directory. The command uses its dry run only: three cases are open.
//!
//! - The record and the second names of files can be older than an intact group of Triton's own manager.
//! - A group of several files is replaced file by file, and a process may begin in between.
//! - A file that another process writes between its look and its replacement is replaced, too.
//!
//! A file that is damaged, missing or another one than in the entry of the store is written again from the entry; a damaged
//! kernel without an entry is quarantined, so that Triton compiles it again. Nothing is deleted: a file that is replaced is
//! in the [quarantine](crate::quarantine) afterwards, and [`restore`](crate::restore::restore) undoes both.
//!
//! - **No file is written into.** The directories share files by second names, and a process may have one open. A new file
//!   gets the name by one rename ([`GroupDir`]), which follows no link and trusts only directories that Triton could use.
//! - **No entry is guessed** ([`TritonGroup::meant`]): without evidence which entry the files should be, an intact group stays,
//!   and a damaged one is quarantined.
//! - All directories of a key are judged before one of them is changed: second names are evidence.

mod plan;
mod report;
mod write;

use std::io;

use opkeep_fs::{Dir, FileState};
use opkeep_kernel_meta::rename_new;

use super::find::KeyDir;
use super::group::KeyFiles;
use super::stored::StoredGroup;
use crate::quarantine::dir::Quarantine;
use crate::quarantine::journal::{Created, Entry as Line};
use crate::quarantine::locked_cache::LockedCache;
use crate::quarantine::mover::{MovedFiles, move_judged, restore_moved};
use crate::quarantine::{RepairError, SkipCause};
pub use report::{QuarantinedGroup, RepairedDir, SkippedGroup, TritonRepairOptions, WrittenGroup};

use plan::{Action, Planned, plan};
use write::{Target, write};

/// Repairs the directories of one key, which are `dirs`, in order. Returns the outcome for each.
pub fn repair(
    dirs: &[KeyDir],
    stored: &[StoredGroup],
    options: &TritonRepairOptions<'_>,
) -> Vec<(KeyDir, Result<RepairedDir, RepairError>)> {
    let judge = |dir: &KeyDir| -> io::Result<KeyFiles> {
        let mut files = dir.judge()?;
        dir.add_stored(&mut files, stored)?;
        Ok(files)
    };
    let judged: Vec<_> = dirs.iter().map(|dir| (dir, judge(dir))).collect();
    let repaired = |(dir, files): (&KeyDir, io::Result<KeyFiles>)| {
        let files = files.map_err(|source| RepairError::io("read", &dir.path, source));
        (dir.clone(), files.and_then(|files| repair_dir(dir, &files, stored, options)))
    };
    judged.into_iter().map(repaired).collect()
}

fn repair_dir(
    dir: &KeyDir,
    files: &KeyFiles,
    stored: &[StoredGroup],
    options: &TritonRepairOptions<'_>,
) -> Result<RepairedDir, RepairError> {
    let target = Target::of(dir)?;
    let (mut planned, skipped) = plan(files, stored, &target, options);
    let mut repaired = RepairedDir {
        dir: dir.clone(),
        groups: files.groups.len(),
        intact: files.groups.len() - planned.len() - skipped.len(),
        written: Vec::new(),
        quarantined: Vec::new(),
        skipped,
        quarantine: None,
    };
    if planned.is_empty() || options.dry_run {
        planned.iter().for_each(|planned| repaired.add_done(planned, planned.names()));
        return Ok(repaired);
    }
    let locked = LockedCache::enter(&dir.path)?;
    planned.iter_mut().for_each(|planned| planned.refresh(&locked.dir));
    let mut lines: Vec<Line> = (0..).zip(&planned).flat_map(|(number, one)| one.lines(2 * number)).collect();
    let quarantine = Quarantine::open(&locked, options.run, &lines, Created::default())?;
    let mut added = Vec::new();
    for (number, planned) in (0..).zip(&planned) {
        match carry_out(planned, &locked.dir, quarantine.dir(None), &target) {
            Ok(files) => {
                if let Action::Write(_) = planned.action {
                    added.extend(planned.added(2 * number + 1, &locked.dir));
                }
                repaired.add_done(planned, files);
            }
            Err(cause) => repaired.skipped.push(planned.skipped(cause)),
        }
    }
    if !added.is_empty() {
        lines.extend(added);
        // Without these lines, an undo leaves the new files, and reports them.
        let _ = quarantine.rewrite_journal(&lines, Created::default());
    }
    repaired.quarantine = quarantine.close(&locked);
    Ok(repaired)
}

impl RepairedDir {
    fn add_done(&mut self, planned: &Planned<'_>, files: Vec<String>) {
        let name = planned.group.name.clone();
        match &planned.action {
            Action::Write(new) => self.written.push(WrittenGroup { name, files, entry: new.entry }),
            Action::Quarantine => {
                self.quarantined.push(QuarantinedGroup { name, files, reason: planned.reason.clone() });
            }
        }
    }
}

/// Does what is planned for a group in the directory `from`. Returns the names of the files that were written or moved.
fn carry_out(planned: &Planned<'_>, from: &Dir, to: &Dir, target: &Target) -> Result<Vec<String>, SkipCause> {
    match &planned.action {
        Action::Write(new) => {
            let kept = planned.taken.iter().try_for_each(|(file, judged)| keep(from, to, file, judged));
            let written = kept.and_then(|()| write(new, target));
            if let Err(cause) = written {
                planned.taken.iter().for_each(|(file, judged)| give_back(from, to, file, judged));
                return Err(cause);
            }
            Ok(planned.names())
        }
        Action::Quarantine => {
            let mut moved = MovedFiles::new();
            for (file, judged) in &planned.taken {
                match move_judged(from, to, file, judged, || ()) {
                    Ok(()) => moved.push((file.clone(), *judged)),
                    Err(why) => {
                        return Err(restore_moved(from, to, &mut moved, &planned.taken).unwrap_or(why));
                    }
                }
            }
            Ok(planned.names())
        }
    }
}

/// Gives a file that is about to be replaced a second name in quarantine, so that its own name never leads nowhere. Where there
/// are no second names, the file is moved.
fn keep(from: &Dir, to: &Dir, file: &str, judged: &FileState) -> Result<(), SkipCause> {
    if from.link(file, to, file).is_err() {
        return move_judged(from, to, file, judged, || ());
    }
    if to.file_state(file).is_some_and(|found| found.is_same_content(judged)) {
        return Ok(());
    }
    let _ = to.remove(file);
    Err(SkipCause::Changed { file: file.to_owned() })
}

/// Gives a file back that was kept, because it was not replaced.
fn give_back(from: &Dir, to: &Dir, file: &str, judged: &FileState) {
    if from.file_state(file).is_some_and(|found| found.is_same_content(judged)) {
        // It has its own name still.
        let _ = to.remove(file);
    } else if !from.may_exist(file) {
        // If that fails, it stays in quarantine, from which an undo restores it.
        let _ = rename_new(to, file, from, file);
    }
}
