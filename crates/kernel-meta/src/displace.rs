//! Displacing a file before it is removed: renamed, so that the file that is compared is the one that is removed, and
//! nothing is lost whenever the process ends.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opbuild_digest::Digest;
use rustix::fs::{FileType, Mode, OFlags};

use crate::disk::Folder;
use crate::quarantine::io::{self as tools, rename_new};
use crate::{Part, ViewError};

/// The name of a displaced file, until its content shows whether it is ours: this, a process, a number, the name it had,
/// and a suffix that no framework reads.
const OLD: &str = ".opbuild-old-";
const OLD_END: &str = ".old";

/// The outcome of displacing a file.
#[derive(Debug)]
pub(crate) enum Displaced {
    /// There is no such file.
    Gone,
    /// It has this name now, and is the expected one.
    As(String),
    /// It is another one, and its name is restored.
    Other,
}

impl Folder {
    /// Displaces the file called `name`, if its digest satisfies `is_expected`. Nothing is lost whenever the process ends:
    /// [`settle_displaced`](Self::settle_displaced) finds what was left.
    pub(crate) fn displace(
        &self,
        name: &str,
        is_expected: impl Fn(&Digest) -> bool,
    ) -> Result<Displaced, ViewError> {
        self.watch().tell(name);
        let displaced = displace(self.fd(), name, || self.watch().tell(name), is_expected);
        displaced.map_err(|source| ViewError::io("rename", self.path().join(name), source))
    }

    /// Removes the file called `name` if its digest satisfies `is_expected`; whether nothing bears the name then.
    pub(crate) fn remove_if(
        &self,
        name: &str,
        is_expected: impl Fn(&Digest) -> bool,
    ) -> Result<bool, ViewError> {
        match self.displace(name, is_expected)? {
            Displaced::Gone => Ok(true),
            Displaced::As(old) => self.unlink(&old).map(|()| true),
            Displaced::Other => Ok(false),
        }
    }

    /// Gives a displaced file its name again. If the name was taken meanwhile, the file stays displaced, and is never
    /// removed.
    pub(crate) fn restore(&self, old: &str, name: &str) {
        self.watch().tell(name);
        let _ = rename_new(self.fd(), old, self.fd(), name);
    }

    /// Settles those of the files with these names that writers that died displaced, by `is_ours` as [`settle`] does.
    /// Without a lock, only what has rested for `alive` is known to be theirs.
    pub(crate) fn settle_displaced(
        &self,
        names: &[String],
        now: SystemTime,
        alive: Duration,
        is_ours: impl Fn(&str, &Digest) -> bool,
    ) {
        let is_left =
            |old: &str| self.is_locked() || self.identity(old).is_some_and(|file| file.rested(now, alive));
        settle(self.fd(), names, |old, _| is_left(old), |name| self.watch().tell(name), is_ours);
    }
}

/// Settles the displaced files among `names` of `dir` that satisfy `is_left`, by their names now and before: the process
/// that displaced them has died. A file that satisfies `is_ours`, by the name it had and its digest, is removed; every other gets its
/// name again, unless that was taken. `observe` is called with each name before it changes.
pub(crate) fn settle(
    dir: BorrowedFd<'_>,
    names: &[String],
    is_left: impl Fn(&str, &str) -> bool,
    observe: impl Fn(&str),
    is_ours: impl Fn(&str, &Digest) -> bool,
) {
    let left =
        names.iter().filter_map(|old| Some((old, displaced_name(old).filter(|name| is_left(old, name))?)));
    let (descriptions, others): (Vec<_>, Vec<_>) =
        left.partition(|(_, name)| Part::Json.stem_of(name).is_some());
    // Objects whose names were taken: their descriptions would stand beside other objects.
    let mut taken = HashSet::new();
    // Best effort: what cannot be changed now stays displaced until the next time.
    for (old, name) in others.into_iter().chain(descriptions) {
        if digest_of(dir, old).is_some_and(|digest| is_ours(name, &digest)) {
            observe(old);
            let _ = tools::remove(dir, old);
        } else if Part::Json.stem_of(name).is_none_or(|stem| !taken.contains(stem)) {
            observe(name);
            if rename_new(dir, old, dir, name).is_err() {
                taken.extend(Part::Object.stem_of(name));
            }
        }
    }
}

/// The name that a displaced file had.
fn displaced_name(old: &str) -> Option<&str> {
    let mut parts = old.strip_prefix(OLD)?.strip_suffix(OLD_END)?.splitn(3, '-');
    let is_number =
        |part: Option<&str>| part.is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let numbered = is_number(parts.next()) && is_number(parts.next());
    parts.next().filter(|name| numbered && !name.is_empty())
}

/// Renames the file called `name`, so that it is not replaced while it is looked at, and gives it its name again unless
/// its digest satisfies `is_expected`. `renamed` is called between the two.
pub(crate) fn displace(
    dir: impl AsFd,
    name: &str,
    renamed: impl Fn(),
    is_expected: impl Fn(&Digest) -> bool,
) -> io::Result<Displaced> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let dir = dir.as_fd();
    let old = loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let old = format!("{OLD}{}-{number}-{name}{OLD_END}", std::process::id());
        match rename_new(dir, name, dir, &old) {
            Ok(()) => break old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Displaced::Gone),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    };
    renamed();
    if digest_of(dir, &old).is_some_and(|digest| is_expected(&digest)) {
        return Ok(Displaced::As(old));
    }
    // If the name was taken meanwhile, it stays as it is called: nothing removes what is not ours.
    let _ = rename_new(dir, &old, dir, name);
    Ok(Displaced::Other)
}

/// The digest of the regular file called `name`; none if it is something else, or cannot be read.
fn digest_of(dir: BorrowedFd<'_>, name: &str) -> Option<Digest> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).map(File::from).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_regular { Digest::of_reader(&file).ok() } else { None }
}
