//! Directory trees: removing, moving, shrinking.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::call::FsOp;
use crate::state::FileKind;
use crate::system::Fs;

impl Fs {
    /// Removes the directory `path` with its content; links in it are removed, not followed. A missing one is fine.
    /// Directories that this user may not enter, as a compiler may have left them, are made accessible first.
    ///
    /// # Errors
    /// That of the system.
    pub fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.watch().may(FsOp::RemoveTree, path)?;
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.open_up(path);
                std::fs::remove_dir_all(path)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Lets this user enter a directory, and those in it.
    fn open_up(&self, path: &Path) {
        let mut open = vec![path.to_owned()];
        while let Some(dir) = open.pop() {
            if std::fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
                let _ = std::fs::set_permissions(&dir, Permissions::from_mode(0o700));
                let names = self.list(&dir).unwrap_or_default();
                open.extend(names.into_iter().map(|(name, _)| dir.join(name)));
            }
        }
    }

    /// Moves a directory to `to`, which must be missing, to another file system if necessary.
    ///
    /// # Errors
    /// That of the system.
    pub fn move_tree(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            moved => return moved,
        }
        self.copy_tree(from, to)?;
        self.remove_tree(from)
    }

    /// Copies files, directories and links, but no pipes, devices and sockets.
    fn copy_tree(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.create_dir(to, 0o777)?;
        for (name, kind) in self.list(from)? {
            let (from, to) = (from.join(&name), to.join(&name));
            match kind {
                FileKind::Dir => self.copy_tree(&from, &to)?,
                FileKind::File => {
                    self.watch().permit(FsOp::Copy, &from, Some(&to), 0)?;
                    std::fs::copy(from, to)?;
                }
                FileKind::Link => std::os::unix::fs::symlink(std::fs::read_link(from)?, to)?,
                FileKind::Other => {}
            }
        }
        Ok(())
    }

    /// Removes the largest files below the directory `path` until at most `bytes` are left. Best effort.
    pub fn shrink_tree(&self, path: &Path, bytes: u64) {
        let (mut files, mut open) = (Vec::new(), vec![path.to_owned()]);
        while let Some(dir) = open.pop() {
            for (path, found) in self.list_stats(&dir).unwrap_or_default() {
                match found.is_dir() {
                    true => open.push(path),
                    false => files.push((found.state.len, path)),
                }
            }
        }
        opkeep_order::sort(&mut files);
        let mut room = bytes;
        for (length, path) in files {
            match room.checked_sub(length) {
                Some(left) => room = left,
                None => {
                    room = 0;
                    let _ = self.remove(&path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use rustix::process::{Uid, geteuid};

    use super::*;

    /// Runs `act` in a thread whose user is bound by permissions.
    fn as_a_user(act: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if geteuid().is_root() {
                    let other = Uid::from_raw(65534);
                    rustix::thread::set_thread_res_uid(other, other, other).unwrap();
                }
                act();
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_tree_with_closed_directories_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let (work, others) = (base.path().join("work"), base.path().join("others"));
        if geteuid().is_root() {
            chown(base.path(), Some(65534), None).unwrap();
        }
        as_a_user(|| {
            fs::create_dir(&others).unwrap();
            fs::write(others.join("file"), "").unwrap();
            for (name, mode) in [("a/b", 0o500), ("a", 0o500), ("c", 0), ("d", 0o600)] {
                fs::create_dir_all(work.join(name)).unwrap();
                fs::write(work.join(name).join("file"), "").unwrap();
                symlink(&others, work.join(name).join("link")).unwrap();
                fs::set_permissions(work.join(name), Permissions::from_mode(mode)).unwrap();
            }
            fs::set_permissions(&others, Permissions::from_mode(0o500)).unwrap();
            assert!(fs::remove_dir_all(&work).is_err());
            Fs::new().remove_tree(&work).unwrap();
        });
        assert!(!work.exists());
        // The targets of links are unchanged.
        assert!(others.join("file").exists());
        assert_eq!(fs::metadata(&others).unwrap().mode() & 0o777, 0o500);
        assert!(Fs::new().remove_tree(&work).is_ok(), "a missing one is fine");
    }

    #[test]
    fn a_directory_that_cannot_be_entered_is_listed() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("file"), "").unwrap();
        if geteuid().is_root() {
            chown(base.path(), Some(65534), None).unwrap();
        }
        fs::set_permissions(base.path(), Permissions::from_mode(0o400)).unwrap();
        as_a_user(|| {
            assert!(fs::metadata(base.path().join("file")).is_err());
            assert_eq!(Fs::new().list(base.path()).unwrap(), [("file".into(), FileKind::File)]);
        });
        fs::set_permissions(base.path(), Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_copied_tree_has_files_directories_and_links() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/file"), "x").unwrap();
        symlink("a/file", from.join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, from.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        Fs::new().copy_tree(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("a/file")).unwrap(), b"x");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("a/file"));
        assert!(!to.join("pipe").exists());
    }

    #[test]
    fn the_largest_files_go_first() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("a")).unwrap();
        for (name, bytes) in [("small", 10), ("a/large", 100), ("a/middle", 50)] {
            fs::write(base.path().join(name), vec![0; bytes]).unwrap();
        }
        Fs::new().shrink_tree(base.path(), 60);
        assert!(base.path().join("small").exists() && base.path().join("a/middle").exists());
        assert!(!base.path().join("a/large").exists());
    }
}
