//! Taking a file out of sight before it is removed: so that what is compared is what goes, and nothing is lost whenever the
//! process ends.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opbuild_digest::Digest;
use rustix::fs::{FileType, Mode, OFlags};

use crate::ViewError;
use crate::disk::Folder;
use crate::quarantine::io::{self as tools, rename_new};
use crate::survey::look::Dir;

/// How a file is called that bore a kernel's name, until its content shows whether it is ours: this, a process, a number,
/// the name it had, and an end that no framework reads.
const OLD: &str = ".opbuild-old-";
const OLD_END: &str = ".old";

/// What became of a file that was to be taken out of sight.
#[derive(Debug)]
pub(crate) enum Displaced {
    /// There is no such file.
    Gone,
    /// It has this name now, and is the expected one.
    As(String),
    /// It is another one, and has its name again.
    Other,
}

impl Folder {
    /// Takes the file called `name` out of sight, if its digest satisfies `is_expected`. Nothing is lost whenever the
    /// process ends: [`settle_displaced`](Self::settle_displaced) finds what was left.
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

    /// Gives a file its name again that was taken out of sight. If the name was taken meanwhile, the file stays as it is
    /// called, and is never removed.
    pub(crate) fn put_back(&self, old: &str, name: &str) {
        self.watch().tell(name);
        let _ = rename_new(self.fd(), old, self.fd(), name);
    }

    /// Settles what writers that died took out of sight: what `is_ours`, by the name it had and its digest, is removed,
    /// and everything else gets its name again.
    pub(crate) fn settle_displaced(
        &self,
        now: SystemTime,
        alive: Duration,
        is_ours: impl Fn(&str, &Digest) -> bool,
    ) {
        for old in self.names() {
            let Some(name) = displaced_name(&old) else { continue };
            if !self.is_locked() && self.identity(&old).is_none_or(|file| !file.rested(now, alive)) {
                continue;
            }
            match self.digest(&old) {
                Ok((digest, _)) if is_ours(name, &digest) => drop(self.unlink(&old)),
                _ => self.put_back(&old, name),
            }
        }
    }
}

/// Settles what a process that died took out of sight in `dir`, of files with these `names`, as
/// [`Folder::settle_displaced`] does. The caller holds the lock of our builds.
pub(crate) fn settle(dir: &Dir, names: &HashSet<&str>, is_ours: impl Fn(&str, &Digest) -> bool) {
    for entry in dir.names().unwrap_or_default() {
        let displaced = entry.name.to_str().and_then(|old| Some((old, displaced_name(old)?)));
        let Some((old, name)) = displaced.filter(|(_, name)| names.contains(name)) else { continue };
        match dir.open_file(&entry.name).and_then(Digest::of_reader) {
            Ok(digest) if is_ours(name, &digest) => drop(tools::remove(dir, old)),
            // As above: it stays as it is called if its name was taken.
            _ => drop(tools::rename_new(dir, old, dir, name)),
        }
    }
}

/// The name that a file had which was taken out of sight.
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
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir, old.as_str(), flags, Mode::empty()).map(File::from);
    let is_file = |file: &File| {
        rustix::fs::fstat(file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    };
    let digest = opened.ok().filter(is_file).and_then(|file| Digest::of_reader(&file).ok());
    if digest.is_some_and(|digest| is_expected(&digest)) {
        return Ok(Displaced::As(old));
    }
    // If the name was taken meanwhile, it stays as it is called: nothing removes what is not ours.
    let _ = rename_new(dir, &old, dir, name);
    Ok(Displaced::Other)
}
