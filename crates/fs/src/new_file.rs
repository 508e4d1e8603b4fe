//! A new file that gets its name when it is complete.
//!
//! It has no name until then (`O_TMPFILE`), so that a kill leaves nothing beside the final name. A name that is free is given by one
//! link. An existing file is replaced by a rename, for which the complete file has a temporary name between two system calls: a kill
//! between them leaves it.
//!
//! A file system without such files, as NFS, and a system without `/proc`, through which a name is given, have a temporary name from the
//! beginning: see [`remove_temporaries`](crate::remove_temporaries). Where the file can be made and not linked, as under a security
//! policy without links, its bytes are copied to a file with a temporary name: only creating and renaming must be possible.

use std::fs::{File, Permissions};
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use tempfile::NamedTempFile;

use crate::state::{FileId, FileStat};
use crate::temp::unique_name;
use crate::temporaries::{Listed, begin};

/// The prefix of temporary names.
pub(crate) const TEMP: &str = ".new-";

pub(crate) enum NewFile {
    Unnamed {
        file: File,
        dir: PathBuf,
    },
    Named {
        file: NamedTempFile,
        /// Dropped after the file.
        _listed: Listed,
    },
}

impl NewFile {
    /// Creates it in `dir`, to get a name there later. Its mode is `mode` less the umask.
    ///
    /// # Errors
    /// That of the system.
    pub(crate) fn create(dir: &Path, mode: u32) -> io::Result<Self> {
        if let Some(file) = unnamed(dir, mode) {
            begin();
            return Ok(Self::Unnamed { file, dir: dir.to_owned() });
        }
        Self::named(dir, mode)
    }

    fn named(dir: &Path, mode: u32) -> io::Result<Self> {
        let permissions = Permissions::from_mode(mode);
        let file = tempfile::Builder::new().prefix(TEMP).permissions(permissions).tempfile_in(dir)?;
        let _listed = Listed::file(file.path());
        Ok(Self::Named { file, _listed })
    }

    pub(crate) fn file(&self) -> &File {
        match self {
            Self::Unnamed { file, .. } => file,
            Self::Named { file, .. } => file.as_file(),
        }
    }

    /// The path for a watcher: without a name, one that stands for it.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Unnamed { dir, .. } => dir.join(TEMP),
            Self::Named { file, .. } => file.path().to_owned(),
        }
    }

    /// Gives it the name `path` in its directory, where it replaces a file or a link.
    ///
    /// # Errors
    /// That of the system. What has the name stays.
    pub(crate) fn publish(self, path: &Path) -> io::Result<()> {
        self.publish_by(path, link)
    }

    /// The same, with `link` for the system call that gives a file its first name.
    fn publish_by(self, path: &Path, link: impl Fn(&File, &Path) -> io::Result<()>) -> io::Result<()> {
        let (file, dir) = match self {
            Self::Named { file, .. } => return file.persist(path).map(drop).map_err(|error| error.error),
            Self::Unnamed { file, dir } => (file, dir),
        };
        match link(&file, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return Self::copy(&file, &dir)?.publish(path),
            Ok(()) => return Ok(()),
        }
        loop {
            let temporary = dir.join(unique_name(TEMP));
            match link(&file, &temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(_) => return Self::copy(&file, &dir)?.publish(path),
                Ok(()) => {}
            }
            let _listed = Listed::file(&temporary);
            let renamed = std::fs::rename(&temporary, path);
            if renamed.is_err() {
                let _ = std::fs::remove_file(&temporary);
            }
            return renamed;
        }
    }

    /// Copies a file that cannot get a name to one with a temporary name, with its mode, and makes the bytes durable.
    fn copy(mut file: &File, dir: &Path) -> io::Result<Self> {
        let permissions = file.metadata()?.permissions();
        let copy = Self::named(dir, permissions.mode() & 0o7777)
            // The text of the error has the temporary name, which helps no user.
            .map_err(|error| io::Error::from(error.kind()))?;
        copy.file().set_permissions(permissions)?;
        file.rewind()?;
        io::copy(&mut file, &mut copy.file())?;
        copy.file().sync_data()?;
        Ok(copy)
    }

    /// Removes nothing when dropped: for the copy in a forked child.
    pub(crate) fn leave(&mut self) {
        if let Self::Named { file, .. } = self {
            file.disable_cleanup(true);
        }
    }
}

/// Returns a new file without a name, if it can get one later.
fn unnamed(dir: &Path, mode: u32) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(dir, flags, Mode::from_raw_mode(mode)).ok()?);
    let id = |stat: rustix::fs::Stat| -> FileId { FileStat::of(&stat).state.id };
    let own = rustix::fs::fstat(&file).map(id).ok()?;
    (rustix::fs::stat(in_proc(&file)).map(id).ok()? == own).then_some(file)
}

fn in_proc(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(CWD, in_proc(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::io::Errno;

    use super::*;

    /// The names in `dir`, sorted.
    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_is_given_at_the_end_with_and_without_a_temporary_one() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("page");
        type Create = fn(&Path, u32) -> io::Result<NewFile>;
        for create in [NewFile::create as Create, NewFile::named] {
            for text in ["first", "second"] {
                let new = create(temp.path(), 0o640).unwrap();
                new.file().write_all(text.as_bytes()).unwrap();
                new.publish(&path).unwrap();
                assert_eq!(
                    (std::fs::read_to_string(&path).unwrap(), names(temp.path()).len()),
                    (text.to_owned(), 1)
                );
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
            }
            std::fs::remove_file(&path).unwrap();
            // A directory is not replaced, and nothing temporary is left.
            std::fs::create_dir(&path).unwrap();
            create(temp.path(), 0o640).unwrap().publish(&path).unwrap_err();
            assert_eq!(names(temp.path()), ["page"]);
            std::fs::remove_dir(&path).unwrap();
        }
    }

    /// A file without a name, also where the file system has no `O_TMPFILE`.
    fn without_name(dir: &Path) -> NewFile {
        NewFile::Unnamed { file: tempfile::tempfile_in(dir).unwrap(), dir: dir.to_owned() }
    }

    #[test]
    fn a_file_that_cannot_be_linked_is_copied() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("page");
        let errors = [Errno::PERM, Errno::XDEV, Errno::ACCESS, Errno::MLINK, Errno::NOSYS, Errno::NOENT];
        // The first link fails, or only the second one, after the name was found to exist.
        for (errno, is_first) in errors.into_iter().flat_map(|errno| [(errno, true), (errno, false)]) {
            let fails = |_: &File, linked: &Path| {
                let is_taken = !is_first && linked == path;
                Err(if is_taken { Errno::EXIST } else { errno }.into())
            };
            for text in ["first", "the second"] {
                // A mode that the umask does not allow for new files.
                let new = without_name(temp.path());
                new.file().write_all(text.as_bytes()).unwrap();
                new.file().set_permissions(Permissions::from_mode(0o666)).unwrap();
                new.publish_by(&path, fails).unwrap();
                assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{errno}");
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o666);
                assert_eq!(names(temp.path()), ["page"]);
            }
            std::fs::remove_file(&path).unwrap();
        }
        // What has the name stays if it cannot be replaced.
        std::fs::create_dir(&path).unwrap();
        let new = without_name(temp.path());
        new.publish_by(&path, |_, _| Err(Errno::PERM.into())).unwrap_err();
        assert_eq!(names(temp.path()), ["page"]);
    }
}
