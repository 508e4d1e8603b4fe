//! Putting back the files of one kernel.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};

use opbuild_digest::Digest;

use crate::Part;
use crate::displace::{Displaced, displace, settle};
use crate::manifest::Manifest;
use crate::quarantine::aside::locked;
use crate::quarantine::ground::Ground;
use crate::quarantine::journal::{Entry, Role};
use crate::quarantine::locks::Locks;
use crate::quarantine::undo::relist::kernel_of;
use crate::quarantine::undo::{Kept, UndoOptions, Undone};
use crate::quarantine::{Step, io as tools};
use crate::survey::look::Dir;

/// A run that is being undone.
pub(super) struct Back<'a> {
    pub(super) ground: &'a Ground,
    pub(super) run: &'a Dir,
    pub(super) options: &'a UndoOptions<'a>,
    /// The text of what we wrote in the cache.
    pub(super) manifest: &'a [u8],
    pub(super) number: u64,
    pub(super) undone: Undone,
}

/// Where a file is.
enum Where {
    InQuarantine,
    /// Where it belongs: it was put back already, or never moved.
    InPlace,
    /// It cannot be put back, and why.
    Stuck(String),
}

impl Back<'_> {
    /// Settles what an earlier call that was killed took out of sight, of these files.
    pub(super) fn settle(&self, entries: &[Entry]) {
        let manifest = Manifest::parse(self.manifest);
        settle(&self.ground.folder, |name, digest| {
            let is_written = |entry: &Entry| entry.file == name && is_written(entry, &manifest, digest);
            entries.iter().any(is_written)
        });
    }

    fn keep(&mut self, entry: &Entry, why: impl Into<String>) {
        self.undone.kept.push(Kept { file: entry.path(), why: why.into() });
    }

    /// Puts back the files of one kernel, its description last; whether all are back.
    pub(super) fn put(&mut self, entries: &[Entry]) -> bool {
        let kept = self.undone.kept.len();
        let (written, taken): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.role == Role::Made);
        match self.folders(&taken) {
            Ok((from, to)) => {
                let is_below = to.is_some();
                let from = from.as_ref().or_else(|| (!is_below).then_some(self.run));
                self.put_into(to.as_ref().unwrap_or(&self.ground.folder), from, &taken, &written);
            }
            Err(why) => taken.iter().for_each(|entry| self.keep(entry, why.clone())),
        }
        self.undone.kept.len() == kept
    }

    /// Where the files of one kernel are in quarantine and in the cache, if not right there.
    fn folders(&self, entries: &[&Entry]) -> Result<(Option<Dir>, Option<Dir>), String> {
        let Some(below) = entries.first().and_then(|entry| entry.below.as_deref()) else {
            return Ok((None, None));
        };
        let opened = self.ground.folder.below(OsStr::new(below)).and_then(|to| {
            match self.run.below(OsStr::new(below)) {
                Ok(from) => Ok((Some(from), Some(to))),
                // All that was in it was put back already.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok((None, Some(to))),
                Err(error) => Err(error),
            }
        });
        opened.map_err(|error| {
            format!(
                "its folder cannot be opened: {error}; make it one that this user may write, and repeat the command"
            )
        })
    }

    /// Puts back the files of one kernel that were `taken`, after removing what a build wrote under their names and those
    /// that it had `written` where there were none.
    fn put_into(&mut self, to: &Dir, from: Option<&Dir>, taken: &[&Entry], written: &[&Entry]) {
        let _locks = match Locks::of_kernel(to, &lock_names(taken)) {
            Ok(locks) => locks,
            Err(error) => return taken.iter().for_each(|entry| self.keep(entry, locked(&error))),
        };
        let places: Vec<Where> = taken.iter().map(|entry| locate(entry, from, to)).collect();
        let waiting = taken.iter().zip(&places).filter(|(_, place)| matches!(place, Where::InQuarantine));
        let waiting: Vec<&Entry> = waiting.map(|(entry, _)| *entry).collect();
        let is_stuck = places.iter().any(|place| matches!(place, Where::Stuck(_)));
        let is_replaced = waiting.iter().any(|entry| matches!(entry.role, Role::Replaced { .. }));
        let names: Vec<&Entry> = waiting.iter().chain(written).copied().collect();
        let freed = if is_replaced && !is_stuck { self.remove_ours(&names, to) } else { Vec::new() };
        let is_occupied = |entry: &&&Entry| !freed.contains(&entry.file) && tools::exists(to, &entry.file);
        let occupied = if waiting.is_empty() { None } else { names.iter().find(is_occupied) };
        let mut failed: Option<String> = None;
        for (entry, place) in taken.iter().zip(&places).rev() {
            match (place, occupied) {
                (Where::InPlace, _) => {}
                (Where::Stuck(why), _) => self.keep(entry, why.clone()),
                (Where::InQuarantine, Some(occupied)) => {
                    let why = format!(
                        "`{}` was made anew since: move that away first, if the old one is what you want",
                        occupied.path()
                    );
                    self.keep(entry, why);
                }
                (Where::InQuarantine, None) => match (&failed, from) {
                    // A description comes last: it must not stand beside what somebody makes meanwhile.
                    (Some(file), _) => {
                        let why = format!("`{file}` of the same kernel could not be put back");
                        self.keep(entry, why);
                    }
                    (None, Some(from)) if self.put_one(entry, from, to) => {}
                    (None, _) => failed = Some(entry.path()),
                },
            }
        }
    }

    /// Removes what a build wrote under the names of `entries`, all of one kernel: files that are as we wrote them, the
    /// description first. Returns the names that are free then.
    fn remove_ours(&mut self, entries: &[&Entry], to: &Dir) -> Vec<String> {
        let manifest = Manifest::parse(self.manifest);
        let is_ours = |entry: &Entry, digest: &Digest| is_written(entry, &manifest, digest);
        let is_taken = |entry: &&Entry| {
            let digest = to.open_file(OsStr::new(&entry.file)).and_then(Digest::of_reader);
            tools::exists(to, &entry.file) && !digest.is_ok_and(|digest| is_ours(entry, &digest))
        };
        // If not all can come back, what is there stays whole.
        if entries.iter().any(is_taken) {
            return Vec::new();
        }
        let mut in_order = entries.to_vec();
        in_order.sort_by_key(|entry| kernel_of(entry).map(|(part, _)| part) != Some(Part::Json));
        let mut freed = Vec::new();
        for entry in in_order {
            match self.remove_written(to, &entry.file, |digest| is_ours(entry, digest)) {
                Ok(true) => freed.push(entry.file.clone()),
                Ok(false) => {}
                // What is left of it keeps the names taken, and the caller says so.
                Err(_) => break,
            }
        }
        freed
    }

    /// Removes the file called `name` if it `is_ours`, by its digest; whether it did, or would.
    fn remove_written(
        &mut self,
        dir: &Dir,
        name: &str,
        is_ours: impl Fn(&Digest) -> bool,
    ) -> io::Result<bool> {
        if self.options.dry_run {
            let ours =
                dir.open_file(OsStr::new(name)).and_then(Digest::of_reader).is_ok_and(|it| is_ours(&it));
            if ours {
                self.undone.withdrawn.push(name.to_owned());
            }
            return Ok(ours);
        }
        (self.options.observe)(Step::Moving(self.number));
        let Displaced::As(old) = displace(dir, name, || (self.options.observe)(Step::Checking), is_ours)?
        else {
            return Ok(false);
        };
        tools::remove(dir, &old)?;
        (self.options.observe)(Step::Moved(self.number));
        self.number += 1;
        self.undone.withdrawn.push(name.to_owned());
        Ok(true)
    }

    /// Removes the files that the run added for one kernel, the description first; all of them, or none if one was
    /// changed since.
    pub(super) fn withdraw(&mut self, entries: &[Entry]) {
        let to = &self.ground.folder;
        let digest = |entry: &Entry| to.open_file(OsStr::new(&entry.file)).and_then(Digest::of_reader);
        let manifest = Manifest::default();
        let is_written = |entry: &Entry, found: &Digest| is_written(entry, &manifest, found);
        let changed = entries.iter().find(|entry| match digest(entry) {
            Ok(found) => !is_written(entry, &found),
            Err(error) => error.kind() != ErrorKind::NotFound,
        });
        if let Some(changed) = changed {
            let why = format!("`{}` was changed since it was filled in: the kernel stays", changed.file);
            let there = entries.iter().filter(|entry| tools::exists(to, &entry.file));
            there.for_each(|entry| self.keep(entry, why.clone()));
            return;
        }
        for entry in entries.iter().rev() {
            if let Err(error) = self.remove_written(to, &entry.file, |found| is_written(entry, found)) {
                return self.keep(entry, error.to_string());
            }
        }
    }

    /// Whether it is back.
    fn put_one(&mut self, entry: &Entry, from: &Dir, to: &Dir) -> bool {
        if !self.options.dry_run {
            (self.options.observe)(Step::Moving(self.number));
            if let Err(error) = tools::rename_new(from, &entry.file, to, &entry.file) {
                self.keep(entry, error.to_string());
                return false;
            }
            (self.options.observe)(Step::Moved(self.number));
            self.number += 1;
        }
        self.undone.restored.push(entry.path());
        true
    }
}

/// Whether a file with this digest that bears the entry's name is what the run wrote there.
fn is_written(entry: &Entry, manifest: &Manifest<'_>, digest: &Digest) -> bool {
    let record = kernel_of(entry).and_then(|(part, stem)| Some((part, manifest.kernels.get(stem)?)));
    match &entry.role {
        Role::Taken => false,
        // What was there before is in quarantine.
        Role::Replaced { .. } => record.is_some_and(|(part, record)| record.wrote(part, digest)),
        Role::Made => record.is_some_and(|(part, record)| record.is_ours(part, digest)),
        Role::Added { sha256 } => *sha256 == digest.to_string(),
    }
}

/// How CANN calls the locks of what has these files.
fn lock_names(entries: &[&Entry]) -> Vec<String> {
    let stem = |entry: &&Entry| {
        [".json", ".o", ".h"].iter().find_map(|suffix| Some(entry.file.strip_suffix(suffix)?.to_owned()))
    };
    let names: BTreeSet<String> =
        entries.iter().filter_map(stem).map(|stem| format!("{stem}.lock")).collect();
    names.into_iter().collect()
}

fn locate(entry: &Entry, from: Option<&Dir>, to: &Dir) -> Where {
    match (from.and_then(|from| from.identity(&entry.file)), to.identity(&entry.file)) {
        (Some(found), _) if entry.is(&found) => Where::InQuarantine,
        (Some(_), _) => Where::Stuck("it was changed since it was set aside".to_owned()),
        (None, Some(found)) if entry.is(&found) => Where::InPlace,
        // The kernel was never taken: somebody made it anew before its turn came.
        (None, Some(_)) if from.is_none_or(|from| !tools::exists(from, &entry.file)) => Where::InPlace,
        (None, _) => {
            Where::Stuck("it is neither in quarantine nor in the cache: somebody removed it".to_owned())
        }
    }
}
