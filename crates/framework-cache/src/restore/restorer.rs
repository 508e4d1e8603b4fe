//! Restoring the files of one kernel.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};

use opkeep_digest::Digest;

use crate::quarantine::QuarantineProgress;
use crate::quarantine::journal::{Entry, Role};
use crate::quarantine::locked_cache::LockedCache;
use crate::quarantine::locks::Locks;
use crate::quarantine::mover::{lock_message, move_judged};
use crate::quarantine::partners::{is_object, is_pair, partners};
use crate::restore::location::{Location, locate};
use crate::restore::report::{RestoreOptions, RestoreReport, UnrestoredFile};
use opkeep_fs::Dir;
use opkeep_kernel_meta::displace::{Displaced, digest_of, displace, displaced, fits, is_needless, settle};
use opkeep_kernel_meta::manifest::Manifest;
use opkeep_kernel_meta::rename_new;

/// The state of restoring one quarantine run.
pub(super) struct Restorer<'a> {
    pub(super) locked_cache: &'a LockedCache,
    pub(super) run: &'a Dir,
    pub(super) options: &'a RestoreOptions<'a>,
    /// The cache's manifest.
    pub(super) manifest: &'a Manifest<'a>,
    /// The paths of all files in the journal.
    pub(super) known: HashSet<String>,
    /// In a dry run, the displaced files that would be restored first: their current names by their original names.
    pub(super) returning: HashMap<String, String>,
    /// The number of files moved so far.
    pub(super) moved: u64,
    pub(super) report: RestoreReport,
}

/// Settles those of the `known` files that an earlier, killed call displaced.
pub(super) fn settle_known(
    locked_cache: &LockedCache,
    manifest: &Manifest<'_>,
    known: &HashSet<String>,
    entries: &[Entry],
) {
    let remaining = left_displaced(locked_cache, known);
    let remaining = remaining.iter().map(|(displaced_name, name)| (displaced_name.as_str(), name.as_str()));
    settle(&locked_cache.dir, remaining, |displaced_name, name, digest| {
        is_ours(locked_cache, manifest, entries, (displaced_name, name), digest)
    });
}

/// The result that a dry run predicts for [`settle_known`].
#[derive(Default)]
pub(super) struct Settled {
    /// The files that would be restored: their current names by their original names.
    pub(super) returning: HashMap<String, String>,
    /// The current names of the files that would stay displaced.
    pub(super) staying: Vec<String>,
}

pub(super) fn would_settle(
    locked_cache: &LockedCache,
    manifest: &Manifest<'_>,
    known: &HashSet<String>,
    entries: &[Entry],
) -> Settled {
    let dir = &locked_cache.dir;
    let mut remaining = left_displaced(locked_cache, known);
    // Descriptions come after their objects.
    opkeep_order::by_key(&mut remaining, |(_, name)| name.ends_with(".json"));
    let mut settled = Settled::default();
    for (displaced_name, name) in remaining {
        let is_ours =
            |digest: &Digest| is_ours(locked_cache, manifest, entries, (&displaced_name, &name), digest);
        if is_needless(dir, &displaced_name, &name, is_ours) {
            continue;
        }
        let is_object_of = |other: &String| is_pair((dir, &displaced_name), (dir, other));
        let mut objects = partners(&name).into_iter().filter_map(|object| settled.returning.get(&object));
        let is_free = !dir.may_exist(&name) && !settled.returning.contains_key(&name);
        if is_free && fits(dir, &displaced_name, &name) && objects.all(is_object_of) {
            settled.returning.insert(name, displaced_name);
        } else {
            settled.staying.push(displaced_name);
        }
    }
    settled
}

/// Whether opkeep wrote a displaced file; `displaced_name` is its current name, `name` its original name.
fn is_ours(
    locked_cache: &LockedCache,
    manifest: &Manifest<'_>,
    entries: &[Entry],
    (displaced_name, name): (&str, &str),
    digest: &Digest,
) -> bool {
    let is_filled = |entry: &Entry| entry.file == name && is_filled(entry, &locked_cache.dir, displaced_name);
    manifest.is_ours(name, digest) || entries.iter().any(is_filled)
}

/// The displaced files among the `known` ones: their current and their original names. Empty if there are no locks:
/// a call in progress could be mistaken for a killed one.
pub(super) fn left_displaced(locked_cache: &LockedCache, known: &HashSet<String>) -> Vec<(String, String)> {
    if locked_cache.locks.unsupported {
        return Vec::new();
    }
    let listed = locked_cache.dir.entries().unwrap_or_default().into_iter();
    let names: Vec<String> = listed.filter_map(|name| name.name.into_string().ok()).collect();
    let remaining = displaced(&names).filter(|(_, name)| known.contains(*name));
    remaining.map(|(displaced_name, name)| (displaced_name.to_owned(), name.to_owned())).collect()
}

impl Restorer<'_> {
    fn add_unrestored(&mut self, entry: &Entry, why: impl Into<String>) {
        self.report.unrestored.push(UnrestoredFile { file: entry.path(), reason: why.into() });
    }

    /// Whether a file has the entry's name or, in a dry run, would have it.
    fn exists(&self, dir: &Dir, entry: &Entry) -> bool {
        self.returning.contains_key(&entry.path()) || dir.may_exist(&entry.file)
    }

    /// Restores the files of one kernel, the description last. Returns whether all are restored.
    pub(super) fn restore(&mut self, entries: &[Entry]) -> bool {
        let unrestored = self.report.unrestored.len();
        let (mut others, mut quarantined) = (Others::default(), Vec::new());
        for entry in entries {
            match entry.role {
                Role::Made => others.written.push(entry),
                Role::Stays { .. } => others.stay.push(entry),
                _ => quarantined.push(entry),
            }
        }
        match self.directories(&quarantined) {
            Ok((from, to)) => {
                let is_below = to.is_some();
                let from = from.as_ref().or_else(|| (!is_below).then_some(self.run));
                self.restore_into(to.as_ref().unwrap_or(&self.locked_cache.dir), from, &quarantined, &others);
            }
            Err(why) => quarantined.iter().for_each(|entry| self.add_unrestored(entry, why.clone())),
        }
        self.report.unrestored.len() == unrestored
    }

    /// The subdirectories of one kernel's files in quarantine and in the cache; None for a top directory, and for a
    /// subdirectory that is missing in quarantine.
    fn directories(&self, entries: &[&Entry]) -> Result<(Option<Dir>, Option<Dir>), String> {
        let Some(below) = entries.first().and_then(|entry| entry.below.as_deref()) else {
            return Ok((None, None));
        };
        let opened = self.locked_cache.dir.below(OsStr::new(below)).and_then(|to| {
            match self.run.below(OsStr::new(below)) {
                Ok(from) => Ok((Some(from), Some(to))),
                // All its files were restored already.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok((None, Some(to))),
                Err(error) => Err(error),
            }
        });
        opened.map_err(|error| {
            format!(
                "its directory cannot be opened: {error}; give this user write access to it, and repeat the command"
            )
        })
    }

    /// Restores the `quarantined` files of one kernel, after removing the files that a build wrote in their place and
    /// beside them.
    fn restore_into(&mut self, to: &Dir, from: Option<&Dir>, quarantined: &[&Entry], others: &Others<'_>) {
        let _locks = match Locks::of_kernel(to, &lock_names(quarantined)) {
            Ok(locks) => locks,
            Err(error) => {
                return quarantined.iter().for_each(|entry| self.add_unrestored(entry, lock_message(&error)));
            }
        };
        let locations: Vec<Location> = quarantined.iter().map(|entry| locate(entry, from, to)).collect();
        let waiting = quarantined
            .iter()
            .zip(&locations)
            .filter(|(_, location)| matches!(location, Location::InQuarantine));
        let waiting: Vec<&Entry> = waiting.map(|(entry, _)| *entry).collect();
        let blocked = if waiting.is_empty() {
            None
        } else {
            self.free_names((to, from), quarantined, &locations, &waiting, others)
        };
        let (mut failed, mut restored) = (None::<String>, Vec::new());
        for (entry, location) in quarantined.iter().zip(&locations).rev() {
            match (location, &blocked) {
                (Location::InPlace | Location::OtherInPlace, _) => {}
                (Location::Unrestorable(why), _) => {
                    self.add_unrestored(entry, why.clone());
                    if is_object(&entry.file) {
                        failed = Some(entry.path());
                    }
                }
                (Location::InQuarantine, Some(why)) => self.add_unrestored(entry, why.clone()),
                (Location::InQuarantine, None) => match (&failed, from) {
                    // A description comes last: it must not stand beside an object that another program writes now.
                    (Some(file), _) => {
                        let why = format!("`{file}` of the same kernel cannot be restored");
                        self.add_unrestored(entry, why);
                    }
                    (None, Some(from)) if self.restore_file(entry, from, to) => restored.push(*entry),
                    (None, _) => {
                        failed = Some(entry.path());
                        if !is_object(&entry.file) {
                            self.quarantine_again(&mut restored, from, to, &entry.path());
                        }
                    }
                },
            }
        }
        if self.options.dry_run {
            return;
        }
        // Another program may have written the object or its description while they were restored.
        if let Some(other) = self.misfit(to, &restored, quarantined, others) {
            self.quarantine_again(&mut restored, from, to, &other);
        }
    }

    /// A file that another program wrote while the `restored` ones were missing: an object that a restored description does
    /// not describe, or a description of another object. Files that the journal lists stood together before, and are not
    /// compared.
    fn misfit(
        &self,
        to: &Dir,
        restored: &[&Entry],
        quarantined: &[&Entry],
        others: &Others<'_>,
    ) -> Option<String> {
        let is_known = |path: String, file: &str| {
            if let Some(entry) = quarantined.iter().find(|entry| entry.file == file) {
                // The description is restored last: a different one was written after the kernel was complete.
                let is_last = is_description(entry) && restored.iter().any(|it| it.file == file);
                return is_last || to.file_state(file).is_some_and(|found| entry.is(&found));
            }
            match others.stay.iter().find(|entry| entry.file == file) {
                Some(entry) => is_unchanged(entry, to),
                None => self.known.contains(&path) && !others.written.iter().any(|entry| entry.file == file),
            }
        };
        restored.iter().find_map(|entry| {
            let is_misfit = |file: &String| {
                let is_pair = || is_pair((to, &entry.file), (to, file));
                to.may_exist(file) && !is_known(entry.path_of(file), file) && !is_pair()
            };
            partners(&entry.file).into_iter().find(is_misfit).map(|file| entry.path_of(&file))
        })
    }

    /// Quarantines `restored` files again, since another program wrote `file` of the same kernel: an object must not
    /// stand beside the description of another object.
    fn quarantine_again(&mut self, restored: &mut Vec<&Entry>, from: Option<&Dir>, to: &Dir, file: &str) {
        for entry in restored.drain(..).rev() {
            // If another program wrote the object, too, its object stays.
            let own = to.file_state(&entry.file).filter(|found| entry.is(found));
            let move_back = |(own, from)| move_judged(to, from, &entry.file, &own, || {}).is_ok();
            let is_moved = own.zip(from).is_some_and(move_back);
            self.report.restored.retain(|path| *path != entry.path());
            let why = if is_moved { replaced_since(file) } else { replaced_since(&entry.path()) };
            self.add_unrestored(entry, why);
        }
    }

    /// Removes the files that a build wrote under the names of the `waiting` files, and beside them. Returns the reason
    /// if the `waiting` files, which are in quarantine, cannot be restored.
    fn free_names(
        &mut self,
        (to, from): (&Dir, Option<&Dir>),
        quarantined: &[&Entry],
        locations: &[Location],
        waiting: &[&Entry],
        others: &Others<'_>,
    ) -> Option<String> {
        let unavailable = quarantined
            .iter()
            .zip(locations)
            .find(|(_, location)| matches!(location, Location::OtherInPlace));
        let changed = others.stay.iter().find(|entry| !is_unchanged(entry, to));
        if let Some(entry) = unavailable.map(|(entry, _)| entry).or(changed) {
            return Some(lost_since(&entry.path()));
        }
        let is_replaced_meanwhile = |location: &Location, entry: &Entry| {
            matches!(location, Location::Unrestorable(_)) && to.may_exist(&entry.file)
        };
        if let Some((entry, _)) =
            quarantined.iter().zip(locations).find(|(entry, location)| is_replaced_meanwhile(location, entry))
        {
            return Some(replaced_since(&entry.path()));
        }
        if let Some(unknown) = self.unknown_part((to, from), quarantined) {
            return Some(replaced_since(&unknown));
        }
        let names: Vec<&Entry> = waiting.iter().chain(&others.written).copied().collect();
        let is_replaced = waiting.iter().any(|entry| matches!(entry.role, Role::Replaced { .. }));
        let mut freed = Vec::new();
        if is_replaced {
            if locations.iter().any(|location| matches!(location, Location::Unrestorable(_))) {
                return Some("another file of the same kernel cannot be restored".to_owned());
            }
            let manifest = self.manifest;
            let is_ours = |entry: &Entry, name: &str| {
                let Some(digest) = digest_of(to, name) else { return false };
                // A file that equals the one restored in its place is removed, too. Only the manifest shows which files
                // a build wrote: another program may have written the same bytes.
                let is_equal = |from: &Dir| digest_of(from, &entry.file) == Some(digest);
                manifest.is_ours(&entry.file, &digest) || from.is_some_and(is_equal)
            };
            match self.remove_ours(to, &names, is_ours) {
                Ok(names) => freed = names,
                Err(Blocked::Changed(path)) => return Some(replaced_since(&path)),
                Err(Blocked::Failed(why)) => return Some(why),
            }
        }
        let is_occupied = |entry: &&&Entry| !freed.contains(&entry.file) && self.exists(to, entry);
        names.iter().find(is_occupied).map(|entry| replaced_since(&entry.path()))
    }

    /// The description of a `quarantined` object, or an object of a description, that exists and is not in the journal:
    /// it may be another kernel's.
    fn unknown_part(&self, (to, from): (&Dir, Option<&Dir>), quarantined: &[&Entry]) -> Option<String> {
        quarantined.iter().find_map(|entry| {
            // Without its description, an object is no kernel: a description that stays in quarantine does no harm.
            let from = from.filter(|_| is_description(entry));
            let exists = |file: &str| to.may_exist(file) || from.is_some_and(|from| from.may_exist(file));
            let mut partners = partners(&entry.file).into_iter();
            partners.find(|other| !self.known.contains(&entry.path_of(other)) && exists(other))
        })
    }

    /// Removes the files of one kernel, the description first, if all of them satisfy `is_ours`, which gets an
    /// entry and the file's current name. Stops at a file that another program wrote meanwhile. Returns the names that
    /// became free.
    fn remove_ours(
        &mut self,
        to: &Dir,
        entries: &[&Entry],
        is_ours: impl Fn(&Entry, &str) -> bool,
    ) -> Result<Vec<String>, Blocked> {
        let is_foreign = |entry: &&&Entry| {
            let name = self.returning.get(&entry.path()).unwrap_or(&entry.file);
            self.exists(to, entry) && !is_ours(entry, name)
        };
        if let Some(foreign) = entries.iter().find(is_foreign) {
            return Err(Blocked::Changed(foreign.path()));
        }
        let mut in_order = entries.to_vec();
        opkeep_order::by_key(&mut in_order, |entry| !is_description(entry));
        let mut freed = Vec::new();
        for entry in in_order {
            match self.remove_written(to, &entry.file, |name| is_ours(entry, name)) {
                Ok(true) => freed.push(entry.file.clone()),
                // The object must not be removed without its description.
                Ok(false) if to.may_exist(&entry.file) => return Err(Blocked::Changed(entry.path())),
                Ok(false) => {}
                Err(error) => {
                    let why = format!("the new file `{}` cannot be removed: {error}", entry.path());
                    return Err(Blocked::Failed(why));
                }
            }
        }
        Ok(freed)
    }

    /// Removes the file called `name` if it satisfies `is_ours`, which gets the file's current name. Returns whether
    /// the file was removed or displaced or, in a dry run, would be.
    fn remove_written(&mut self, dir: &Dir, name: &str, is_ours: impl Fn(&str) -> bool) -> io::Result<bool> {
        if self.options.dry_run {
            let is_own = is_ours(name);
            if is_own {
                self.report.deleted.push(name.to_owned());
            }
            return Ok(is_own);
        }
        (self.options.progress)(QuarantineProgress::Moving(self.moved));
        let Displaced::As(displaced_file) = displace(dir, name, |displaced_name| {
            (self.options.progress)(QuarantineProgress::Checking);
            is_ours(displaced_name)
        })?
        else {
            return Ok(false);
        };
        if !displaced_file.remove(dir)? {
            let why = format!(
                "a process that had `{name}` open wrote to this file: inspect it, and remove it if it is not needed"
            );
            self.report.unrestored.push(UnrestoredFile { file: displaced_file.name, reason: why });
            return Ok(true);
        }
        (self.options.progress)(QuarantineProgress::Moved(self.moved));
        self.moved += 1;
        self.report.deleted.push(name.to_owned());
        Ok(true)
    }

    /// Removes the files that the run added for one kernel, the description first, or none if one was changed.
    pub(super) fn delete_added(&mut self, entries: &[Entry]) {
        let to = &self.locked_cache.dir;
        let all: Vec<&Entry> = entries.iter().collect();
        let why = match self.remove_ours(to, &all, |entry, name| is_filled(entry, to, name)) {
            Ok(_) => return,
            Err(Blocked::Changed(path)) => {
                format!("`{path}` was changed since it was filled in: the existing files stay")
            }
            Err(Blocked::Failed(why)) => why,
        };
        let remaining = entries.iter().filter(|entry| to.may_exist(&entry.file));
        remaining.for_each(|entry| self.add_unrestored(entry, why.clone()));
    }

    /// Restores one file. Returns whether it succeeded.
    fn restore_file(&mut self, entry: &Entry, from: &Dir, to: &Dir) -> bool {
        if !self.options.dry_run {
            (self.options.progress)(QuarantineProgress::Moving(self.moved));
            if let Err(error) = rename_new(from, &entry.file, to, &entry.file) {
                let why = match error.kind() {
                    ErrorKind::AlreadyExists => replaced_since(&entry.path()),
                    _ => error.to_string(),
                };
                self.add_unrestored(entry, why);
                return false;
            }
            (self.options.progress)(QuarantineProgress::Moved(self.moved));
            self.moved += 1;
        }
        self.report.restored.push(entry.path());
        true
    }
}

/// The reason why files of one kernel were not removed.
enum Blocked {
    /// Another program wrote the file with this path.
    Changed(String),
    Failed(String),
}

/// Files of a kernel besides those that a run quarantined.
#[derive(Default)]
struct Others<'e> {
    /// Files that a build wrote under free names.
    written: Vec<&'e Entry>,
    /// Files that a build left unchanged.
    stay: Vec<&'e Entry>,
}

/// Whether a file that a build left in place is unchanged.
fn is_unchanged(entry: &Entry, to: &Dir) -> bool {
    let digest = || to.open_file(OsStr::new(&entry.file)).and_then(Digest::of_reader);
    match &entry.role {
        Role::Stays { sha256: Some(sha256) } => digest().is_ok_and(|digest| digest.to_string() == *sha256),
        _ => to.file_state(&entry.file).is_some_and(|found| entry.is(&found)),
    }
}

fn replaced_since(path: &str) -> String {
    format!("`{path}` was written again since then: to restore the old file, move the new one away first")
}

/// The reason if the old file is no longer in quarantine, or never was.
fn lost_since(path: &str) -> String {
    format!(
        "`{path}` of the same kernel was written again since then, and the old file is lost: remove this file from \
         quarantine if it is not needed"
    )
}

fn is_description(entry: &Entry) -> bool {
    entry.file.ends_with(".json")
}

/// Whether the file called `name` in `dir` is the one that `--fill` wrote. The digest alone does not show this: another
/// program may have written the same bytes.
fn is_filled(entry: &Entry, dir: &Dir, name: &str) -> bool {
    let Role::Added { sha256 } = &entry.role else { return false };
    let is_same = dir.file_state(name).is_some_and(|found| entry.is(&found));
    is_same && digest_of(dir, name).is_some_and(|digest| digest.to_string() == *sha256)
}

/// CANN's names for the locks of these files.
fn lock_names(entries: &[&Entry]) -> Vec<String> {
    let stem = |entry: &&Entry| {
        [".json", ".o", ".h"].iter().find_map(|suffix| Some(entry.file.strip_suffix(suffix)?.to_owned()))
    };
    let names: BTreeSet<String> =
        opkeep_order::set(entries.iter().filter_map(stem).map(|stem| format!("{stem}.lock")));
    names.into_iter().collect()
}
