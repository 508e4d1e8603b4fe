//! The directories of a store: open, create if missing, and check the owner.

use std::io;
use std::path::Path;

use crate::error::is_link;
use crate::marker::{self, Level, Owner};
use crate::ownership::OwnerPolicy;
use crate::{StoreError, files};
use opkeep_fs::{Dir, RootedFs};

/// Whether `name` is valid as the name of a target: 1 to 100 ASCII letters, digits, `_`, `-` and `.`, and no `.` first.
pub fn is_target_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.bytes().all(plain)
}

/// Opens a directory and checks its owner and mode. If `make`, a missing directory is created. Returns `None` if it is
/// missing.
pub(super) fn open(
    fs: &RootedFs,
    trust: &OwnerPolicy,
    path: &Path,
    make: bool,
) -> Result<Option<Dir>, StoreError> {
    let mut opened = fs.open_dir(path);
    if make && opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let made = files::create_dir(fs, path, trust.is_shared());
        made.map_err(|source| trouble("create", path, source))?;
        opened = fs.open_dir(path);
        // The owner's programs can write in what an administrator's process creates.
        if !trust.is_shared()
            && let (Ok(opened), Some(Ok(parent))) = (&opened, path.parent().map(|parent| fs.open_dir(parent)))
        {
            parent.give(opened);
        }
    }
    match opened.and_then(|directory| Ok((directory.stat()?, directory))) {
        Ok((stat, directory)) => trust.check(path, &stat).map(|()| Some(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(trouble("open", path, source)),
    }
}

/// Opens the directory of a version or a target, and determines whether it belongs to a store. `None` if it is missing.
///
/// # Errors
/// The directory belongs to another program.
pub(super) fn open_owned(
    fs: &RootedFs,
    trust: &OwnerPolicy,
    path: &Path,
    level: Level,
) -> Result<Option<(Dir, Owner)>, StoreError> {
    let Some(directory) = open(fs, trust, path, false)? else { return Ok(None) };
    let owner = marker::owner(fs, &directory, level);
    match owner.map_err(|source| trouble("look into", path, source))? {
        Owner::Foreign => Err(StoreError::Foreign { path: path.to_owned() }),
        owner => Ok(Some((directory, owner))),
    }
}

pub(super) fn trouble(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    use io::ErrorKind::{AlreadyExists, NotADirectory};
    match source.kind() {
        NotADirectory | AlreadyExists => StoreError::NotADirectory { path: path.to_owned() },
        _ if is_link(&source) => StoreError::NotADirectory { path: path.to_owned() },
        _ => StoreError::Io { action, path: path.to_owned(), source },
    }
}
