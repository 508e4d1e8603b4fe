//! Directories that only this user can write to.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use thiserror::Error;

/// The reason why a directory is not private.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotPrivate {
    /// Another user may change its content.
    #[error(
        "`{}` belongs to user {owner} and has mode {mode:04o}, expected user {user} and a mode in which only the owner \
         writes, such as 0700; remove it, or give it this owner and mode",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// This user.
        user: u32,
    },
    /// It cannot be created or opened, or is not a directory.
    #[error("`{}` cannot be used: {source}; put a directory of this user there", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<NotPrivate> for io::Error {
    fn from(error: NotPrivate) -> Self {
        match error {
            NotPrivate::Io { source, .. } => source,
            error => Self::other(error),
        }
    }
}

/// Creates the directory `path` for this user, or accepts an existing one that belongs to this user and that no other
/// can write to.
///
/// # Errors
/// [`NotPrivate`].
pub fn private_dir(path: &Path) -> Result<(), NotPrivate> {
    let cannot = |source| NotPrivate::Io { path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let found = opened.and_then(|dir| dir.metadata()).map_err(cannot)?;
    let (owner, user) = (found.uid(), geteuid().as_raw());
    if owner != user || found.mode() & 0o022 != 0 {
        return Err(NotPrivate::Foreign { path: path.to_owned(), owner, mode: found.mode() & 0o7777, user });
    }
    Ok(())
}

/// The directory of this user in `base`, which several users share: `<base>/opkeep-<uid>`, created by [`private_dir`].
///
/// # Errors
/// [`NotPrivate`].
pub fn private_user_dir(base: &Path) -> Result<PathBuf, NotPrivate> {
    let path = base.join(format!("opkeep-{}", geteuid().as_raw()));
    private_dir(&path).map(|()| path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_that_another_user_could_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = private_user_dir(base.path()).unwrap();
        assert_eq!(private_user_dir(base.path()).unwrap(), path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).unwrap();
        let error = private_user_dir(base.path()).unwrap_err();
        assert!(matches!(error, NotPrivate::Foreign { mode: 0o770, .. }), "{error}");
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let (file, link) = (base.path().join("file"), base.path().join("link"));
        std::fs::File::create(&file).unwrap();
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        for path in [file, link, base.path().join("missing/dir")] {
            assert!(matches!(private_dir(&path), Err(NotPrivate::Io { .. })), "{path:?}");
        }
    }
}
