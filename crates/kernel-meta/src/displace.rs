//! Displaces files: a file is renamed, then compared, then removed, so that the removed file is the compared one. After
//! a kill at any instant, every file exists under one of its two names.
//!
//! Displaced and quarantined files are restored by one rule: an object and a description that another program wrote get
//! the same stem only if the description states the object's digest. A file that does not fit stays where it is, is not
//! removed, and is reported.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileRead, FileState};

use crate::compare::{MAX_TEXT, described};
use crate::own_name::{displaced_as, displaced_name, outdated_as};
use crate::rename::rename_new;
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, ViewError};

/// The message about a file that stays displaced, with help.
pub const STAYS_DISPLACED: &str = "it could not get its name back: it is of an outdated kernel, the name is taken, or the \
                                   kernel's other file does not fit; move it elsewhere, or remove it";

/// The outcome of displacing a file.
#[derive(Debug)]
pub enum Displaced {
    /// The file is missing.
    Gone,
    /// The file is the expected one, and is displaced now.
    As(OldFile),
    /// The file is another one, or cannot be read. It has its name again, unless another program took the name, or the
    /// file cannot be read and does not fit.
    Other,
}

/// A displaced file that is the expected one.
#[derive(Debug)]
pub struct OldFile {
    /// The current name of the file.
    pub name: String,
    /// The state of the file just before it was compared; `None` if that is unknown.
    seen: Option<FileState>,
}

impl OldFile {
    /// Removes the file, unless a process that had it open has written to it since; then the file stays displaced.
    /// Returns whether the file was removed.
    pub fn remove(&self, dir: &Dir) -> io::Result<bool> {
        let is_written = state(dir, &self.name)
            .is_some_and(|found| self.seen.as_ref().is_none_or(|seen| !found.is_as_long_and_old(seen)));
        if !is_written {
            dir.remove(&self.name)?;
        }
        Ok(!is_written)
    }
}

impl ViewDir {
    /// Displaces the file called `name` if its digest satisfies `is_expected`. After a kill,
    /// [`settle_displaced`](Self::settle_displaced) finds the displaced file.
    pub fn displace(
        &self,
        name: &str,
        is_expected: impl Fn(&Digest) -> bool,
    ) -> Result<Displaced, ViewError> {
        self.displace_file(name, |old| digest_of(self.dir(), old).is_some_and(|digest| is_expected(&digest)))
    }

    /// Displaces the file called `name`, if `is_expected` accepts it by its new name.
    pub(crate) fn displace_file(
        &self,
        name: &str,
        is_expected: impl Fn(&str) -> bool,
    ) -> Result<Displaced, ViewError> {
        let displaced = displace(self.dir(), name, is_expected);
        displaced.map_err(|source| ViewError::io("rename", self.path().join(name), source))
    }

    /// Removes the file called `name` if its digest satisfies `is_expected`. Returns whether the name is free now.
    pub(crate) fn remove_if(
        &self,
        name: &str,
        is_expected: impl Fn(&Digest) -> bool,
    ) -> Result<bool, ViewError> {
        match self.displace(name, is_expected)? {
            Displaced::Gone => Ok(true),
            Displaced::As(old) => self.remove_displaced(&old).map(|()| true),
            Displaced::Other => Ok(false),
        }
    }

    /// Removes the file called `name` if it is the `published` one with this digest. An equal file that another program
    /// wrote stays.
    pub(crate) fn remove_published(
        &self,
        name: &str,
        published: &FileState,
        digest: &Digest,
    ) -> Result<(), ViewError> {
        let is_published = |old: &str| {
            FileState::are_of([self.file_state(old), self.file_state(old)], published)
                && digest_of(self.dir(), old) == Some(*digest)
        };
        match self.displace_file(name, is_published)? {
            Displaced::As(old) => self.remove_displaced(&old),
            Displaced::Gone | Displaced::Other => Ok(()),
        }
    }

    /// Removes a displaced file, as [`OldFile::remove`] does.
    pub(crate) fn remove_displaced(&self, old: &OldFile) -> Result<(), ViewError> {
        match old.remove(self.dir()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ViewError::io("remove", self.path().join(&old.name), source))
            }
            _ => Ok(()),
        }
    }

    /// Renames a displaced file so that [`settle`] does not restore it, and returns its new name.
    pub(crate) fn keep_displaced(&self, old: &OldFile) -> Result<String, ViewError> {
        let kept = outdated_as(&old.name);
        let renamed = rename_new(self.dir(), &old.name, self.dir(), &kept);
        renamed.map_err(|source| ViewError::io("rename", self.path().join(&old.name), source))?;
        Ok(kept)
    }

    /// Gives the displaced file `old` its former name `name`, if that is free and [`fits`] allows it.
    pub(crate) fn restore(&self, old: &str, name: &str) {
        restore(self.dir(), old, name);
    }

    /// Settles the files among `names` that dead writers displaced, as [`settle`] does. If this process holds no lock,
    /// a writer is dead if its file has rested for `alive`.
    pub fn settle_displaced(
        &self,
        names: &[String],
        now: SystemTime,
        alive: Duration,
        is_ours: impl Fn(&str, &Digest) -> bool,
    ) {
        let left = self.displaced(names, now, alive);
        settle(self.dir(), left, |_, name, digest| is_ours(name, digest));
    }

    /// Returns the displaced files that are not ours and could not be restored: their names are taken, or they do not
    /// fit.
    pub fn stay_displaced(
        &self,
        now: SystemTime,
        alive: Duration,
        is_ours: impl Fn(&str, &Digest) -> bool,
    ) -> Vec<String> {
        let names = self.own_names();
        let is_theirs = |(old, name): &(&str, &str)| {
            digest_of(self.dir(), old).is_none_or(|digest| !is_ours(name, &digest))
        };
        let left = self.displaced(&names, now, alive).filter(is_theirs);
        let mut left: Vec<String> = left.map(|(old, _)| old.to_owned()).collect();
        opkeep_order::sort(&mut left);
        left
    }

    /// Returns the displaced files among `names` whose writers are dead, each with its former name.
    fn displaced<'n>(
        &self,
        names: &'n [String],
        now: SystemTime,
        alive: Duration,
    ) -> impl Iterator<Item = (&'n str, &'n str)> {
        let is_left =
            move |old: &str| self.is_locked() || self.file_state(old).is_some_and(|it| it.rested(now, alive));
        displaced(names).filter(move |(old, _)| is_left(old))
    }
}

/// Returns the displaced files among `names`, each with its former name.
pub fn displaced(names: &[String]) -> impl Iterator<Item = (&str, &str)> {
    names.iter().filter_map(|old| Some((old.as_str(), displaced_name(old)?)))
}

/// Settles the files of `dir` that dead processes displaced. `left` has the current and the former name of each file. A
/// file is removed if `is_ours` accepts its two names and its digest, or if an equal file has its former name. Every
/// other file gets its former name back, unless the name is taken or the file does not fit.
pub fn settle<'n>(
    dir: &Dir,
    left: impl Iterator<Item = (&'n str, &'n str)>,
    is_ours: impl Fn(&str, &str, &Digest) -> bool,
) {
    let (descriptions, others): (Vec<_>, Vec<_>) =
        left.partition(|(_, name)| KernelFileKind::Json.stem_of(name).is_some());
    // Best effort: a file that cannot be changed now stays displaced until the next call. Objects are first, so that no
    // description is without its object.
    for (old, name) in others.into_iter().chain(descriptions) {
        if is_needless(dir, old, name, |digest| is_ours(old, name, digest)) {
            let _ = dir.remove(old);
        } else {
            restore(dir, old, name);
        }
    }
}

/// Returns whether a displaced file can be removed: `is_ours` accepts its digest, or an equal file has its former name.
pub fn is_needless(dir: &Dir, old: &str, name: &str, is_ours: impl Fn(&Digest) -> bool) -> bool {
    digest_of(dir, old).is_some_and(|digest| is_ours(&digest) || digest_of(dir, name) == Some(digest))
}

/// Gives the displaced file `old` its former name `name`. The file stays displaced, and is not removed, if the name is
/// taken or the file does not fit.
fn restore(dir: &Dir, old: &str, name: &str) {
    if !fits(dir, old, name) {
        return;
    }
    // Between the check and the rename, another program may have written the kernel's other file.
    if rename_new(dir, old, dir, name).is_ok() && !fits(dir, name, name) {
        let digest = digest_of(dir, name);
        let _ = displace(dir, name, |old| digest_of(dir, old) == digest);
    }
}

/// Returns whether `file` may be called `name`: an object and a description may have the same stem only if the
/// description states the object's digest.
pub fn fits(dir: &Dir, file: &str, name: &str) -> bool {
    if let Some(stem) = KernelFileKind::Json.stem_of(name) {
        let object = KernelFileKind::Object.of(stem);
        return !dir.may_exist(&object)
            || stated(dir, file).is_some_and(|stated| digest_of(dir, &object) == Some(stated));
    }
    let Some(json) = KernelFileKind::Object.stem_of(name).map(|stem| KernelFileKind::Json.of(stem)) else {
        return true;
    };
    !dir.may_exist(&json) || stated(dir, &json).is_some_and(|stated| digest_of(dir, file) == Some(stated))
}

/// Returns the digest of the object that the description `json` states.
pub fn stated(dir: &Dir, json: &str) -> Option<Digest> {
    described(&read(dir, json)?)
}

/// Renames the file called `name`, so that it cannot be replaced during the check by `is_expected`, which is called
/// with the new name. If the check fails, the file gets its name back.
pub fn displace(dir: &Dir, name: &str, is_expected: impl Fn(&str) -> bool) -> io::Result<Displaced> {
    let old = loop {
        let old = displaced_as(name);
        match rename_new(dir, name, dir, &old) {
            Ok(()) => break old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Displaced::Gone),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    };
    let seen = state(dir, &old);
    if is_expected(&old) {
        return Ok(Displaced::As(OldFile { name: old, seen }));
    }
    // A readable file is another program's, so it gets its name back even if it does not fit the kernel's other files.
    // An unreadable file may be ours, so it has to fit. If the name was taken meanwhile, the file stays displaced,
    // since no foreign file is removed.
    if digest_of(dir, &old).is_some() || fits(dir, &old, name) {
        let _ = rename_new(dir, &old, dir, name);
    }
    Ok(Displaced::Other)
}

/// Returns the digest of the regular file called `name`; `None` if it is another type of file, or cannot be read.
pub fn digest_of(dir: &Dir, name: &str) -> Option<Digest> {
    Digest::of_reader(&open(dir, name)?).ok()
}

fn state(dir: &Dir, name: &str) -> Option<FileState> {
    dir.look(name).ok().map(|found| found.state)
}

/// Returns the bytes of the regular file called `name`; `None` if it is larger than a description, or cannot be read.
fn read(dir: &Dir, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    matches!(dir.read(name, MAX_TEXT, &mut bytes), FileRead::Complete(_)).then_some(bytes)
}

fn open(dir: &Dir, name: &str) -> Option<File> {
    let file = dir.open_file(name).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}
