//! Keeping what a build is about to replace: moved to a run of its own, as a repair does it.

use std::path::{Path, PathBuf};

use crate::disk::Identity;
use crate::quarantine::aside::{Taken, move_judged, put_back};
use crate::quarantine::dir::Quarantine;
use crate::quarantine::ground::Ground;
use crate::quarantine::journal::{Entry, Made, Role};
use crate::quarantine::{RepairError, Run, Why};
use crate::survey::Busy;
use crate::survey::look::OpenFiles;

/// What a build is about to replace of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    /// The files that go, in this order: the description first.
    pub(crate) files: Vec<(String, Identity)>,
    /// Files that the build writes where there is none.
    pub(crate) made: Vec<String>,
    /// The kernel's line in the list of ours until now.
    pub(crate) listed: Option<String>,
    pub(crate) why: String,
}

impl Replaced {
    fn entries(&self, number: u64) -> impl Iterator<Item = Entry> {
        let role = Role::Replaced { listed: self.listed.clone() };
        let of = move |(file, seen): &(String, Identity)| Entry {
            role: role.clone(),
            ..Entry::new(number, file, None, seen, &self.why)
        };
        let made = self.made.iter().map(move |file| Entry::of_written(number, file, Role::Made, &self.why));
        self.files.iter().map(of).chain(made)
    }
}

/// What came of each set, and where the files are that were moved.
pub(crate) type Kept = (Vec<Result<(), Why>>, Option<PathBuf>);

/// Moves the files of `sets` out of the cache at `path`, whose build lock the caller holds. For each set, whether all of
/// its files were moved; a set that was not is where it was.
///
/// Files that a process has open go back unless `force`: it may still write to them.
///
/// # Errors
/// [`RepairError`]: nothing was moved.
pub(crate) fn keep(
    path: &Path,
    run: &Run,
    sets: &[Replaced],
    force: bool,
    observe: &dyn Fn(&str),
) -> Result<Kept, RepairError> {
    let ground = Ground::enter_locked(path)?;
    let entries: Vec<Entry> = (0..).zip(sets).flat_map(|(number, set)| set.entries(number)).collect();
    let quarantine = Quarantine::open(&ground, run, &entries, Made::default())?;
    let mut done: Vec<Result<Taken, Why>> =
        sets.iter().map(|set| take(&ground, &quarantine, set, observe)).collect();
    let open = if force { OpenFiles::default() } else { OpenFiles::look() };
    for moved in &mut done {
        let Ok(taken) = moved else { continue };
        let Some(why) = disturbed(&quarantine, taken, &open) else { continue };
        let astray = put_back(&ground.folder, quarantine.folder(None), taken);
        *moved = Err(astray.unwrap_or(why));
    }
    let done = done.into_iter().map(|moved| moved.map(drop)).collect();
    Ok((done, quarantine.close(&ground)))
}

fn take(
    ground: &Ground,
    quarantine: &Quarantine,
    set: &Replaced,
    observe: &dyn Fn(&str),
) -> Result<Taken, Why> {
    let (from, to) = (&ground.folder, quarantine.folder(None));
    let mut taken = Vec::new();
    for (file, judged) in &set.files {
        if let Err(why) = move_judged(from, to, file, judged, || observe(file)) {
            return Err(put_back(from, to, &mut taken).unwrap_or(why));
        }
        taken.push((file.clone(), *judged));
        observe(file);
    }
    Ok(taken)
}

/// Why files that were moved have to go back: a process changed them meanwhile, or may.
fn disturbed(quarantine: &Quarantine, taken: &Taken, open: &OpenFiles) -> Option<Why> {
    let to = quarantine.folder(None);
    let changed = |(file, judged): &&(String, Identity)| {
        !to.identity(file).is_some_and(|found| found.is_same_file(judged))
    };
    if let Some((file, _)) = taken.iter().find(changed) {
        return Some(Why::Changed { file: file.clone() });
    }
    let holder = taken.iter().find_map(|(_, file)| open.holder(file));
    holder.map(|process| Why::InProgress(Busy::Open { process }))
}
