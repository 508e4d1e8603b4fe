//! Quarantining what a build is about to replace, in a run of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opbuild_digest::Digest;

use crate::disk::Identity;
use crate::quarantine::aside::{Taken, move_judged, put_back};
use crate::quarantine::dir::Quarantine;
use crate::quarantine::ground::Ground;
use crate::quarantine::journal::{Entry, Made, Role};
use crate::quarantine::partners::partners;
use crate::quarantine::{RepairError, Run, Why, io};
use crate::survey::Busy;
use crate::survey::look::{Dir, OpenFiles};

/// What a build is about to replace of one kernel.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// The files to quarantine, in this order: the description first.
    pub(crate) files: Vec<ReplacedFile>,
    /// Files that the build writes under free names, and the digests of what it writes.
    pub(crate) made: Vec<(String, Digest)>,
    /// The object and its digest, if it stays.
    pub(crate) stays: Option<(String, Digest)>,
    /// The kernel's line in the manifest until now.
    pub(crate) listed: Option<String>,
    pub(crate) why: String,
}

/// A file that a build replaces.
#[derive(Debug)]
pub(crate) struct ReplacedFile {
    pub(crate) file: String,
    /// The state in which it was judged.
    pub(crate) seen: Identity,
    /// The digest of what is written in its place.
    pub(crate) wrote: Option<Digest>,
}

impl Replaced {
    /// The lines of the journal for the set, which is in `dir`.
    fn entries(&self, number: u64, dir: &Dir) -> Vec<Entry> {
        let replaced = move |ReplacedFile { file, seen, wrote }: &ReplacedFile| {
            let wrote = wrote.as_ref().map(Digest::to_string);
            let role = Role::Replaced { listed: self.listed.clone(), wrote };
            Entry { role, ..Entry::new(number, file, None, seen, &self.why) }
        };
        let unseen = move |file: &str, role| Entry::unseen(number, file, role, &self.why);
        let made = move |(file, it): &(String, Digest)| unseen(file, Role::Made { sha256: it.to_string() });
        let stays =
            move |(file, it): &(String, Digest)| unseen(file, Role::Stays { sha256: Some(it.to_string()) });
        let beside = self.beside(dir).into_iter().map(|(file, seen)| {
            let entry = Entry::new(number, &file, None, &seen, &self.why);
            Entry { role: Role::Stays { sha256: None }, ..entry }
        });
        let own = self.files.iter().map(replaced).chain(self.made.iter().map(made));
        own.chain(self.stays.iter().map(stays)).chain(beside).collect()
    }

    /// Libraries of the kernel's name, which the build does not touch.
    fn beside(&self, dir: &Dir) -> Vec<(String, Identity)> {
        let json = self.files.iter().map(|it| &it.file).find(|file| file.ends_with(".json"));
        let libraries = json.into_iter().flat_map(|json| partners(json)).filter(|file| !file.ends_with(".o"));
        libraries.filter_map(|file| dir.identity(&file).map(|seen| (file, seen))).collect()
    }

    /// The files in the state in which they were judged; the object that stays, as it is now.
    fn judged(&self, dir: &Dir) -> Vec<(String, Identity)> {
        let stays = self.stays.as_ref().filter(|(file, digest)| {
            dir.open_file(OsStr::new(file)).and_then(Digest::of_reader).is_ok_and(|found| found == *digest)
        });
        let stays = stays.and_then(|(file, _)| Some((file.clone(), dir.identity(file)?)));
        let own = self.files.iter().map(|it| (it.file.clone(), it.seen)).chain(stays);
        own.chain(self.beside(dir)).collect()
    }

    /// Whether one of its files is in quarantine.
    fn is_in(&self, quarantine: &Dir) -> bool {
        self.files.iter().any(|it| io::exists(quarantine, &it.file))
    }
}

/// The outcome of each set, and the directory of those that were moved.
pub(crate) type Kept = (Vec<Result<(), Why>>, Option<PathBuf>);

/// Moves the files of `sets` out of the cache at `path`, whose build lock the caller holds. For each set, whether all of
/// its files were moved; the other sets are unchanged.
///
/// Unless `force`, files that a process has open are restored: it may still write to them.
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
    let entries: Vec<Entry> =
        (0..).zip(sets).flat_map(|(number, set)| set.entries(number, &ground.folder)).collect();
    let quarantine = Quarantine::open(&ground, run, &entries, Made::default())?;
    let mut done: Vec<Result<Taken, Why>> =
        sets.iter().map(|set| take(&ground, &quarantine, set, observe)).collect();
    let open = if force { OpenFiles::default() } else { OpenFiles::look() };
    for (moved, set) in done.iter_mut().zip(sets) {
        let Ok(taken) = moved else { continue };
        let Some(why) = disturbed(&quarantine, taken, &open) else { continue };
        let astray = put_back(&ground.folder, quarantine.folder(None), taken, &set.judged(&ground.folder));
        *moved = Err(astray.unwrap_or(why));
    }
    // What was restored is no part of the run. If this cannot be written, an undo finds it in its place.
    let in_run =
        |number: u64| sets.get(number as usize).is_some_and(|set| set.is_in(quarantine.folder(None)));
    let moved: Vec<Entry> = entries.iter().filter(|entry| in_run(entry.set)).cloned().collect();
    if !moved.is_empty() && moved.len() < entries.len() {
        let _ = quarantine.record_anew(&moved, Made::default());
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
    for ReplacedFile { file, seen: judged, .. } in &set.files {
        if let Err(why) = move_judged(from, to, file, judged, || observe(file)) {
            return Err(put_back(from, to, &mut taken, &set.judged(from)).unwrap_or(why));
        }
        taken.push((file.clone(), *judged));
        observe(file);
    }
    Ok(taken)
}

/// Why files that were moved have to be restored: a process changed them meanwhile, or may.
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
