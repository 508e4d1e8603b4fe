//! Links by which this program takes the place of a compiler on `PATH`.
//!
//! A build that calls `opc` by its bare name then runs this program, which finds the real one behind it. Nothing of the
//! build changes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{FileId, Fs};

use crate::error::LauncherError;

/// Makes a link `name` in `dir`, which is created, to the program at `own`. Returns whether it is new.
///
/// # Errors
/// Something else has the name, and stays; or the link cannot be made.
pub fn install(fs: &Fs, dir: &Path, name: &str, own: &Path) -> Result<bool, LauncherError> {
    let path = dir.join(name);
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| LauncherError::Io { action, path, source }
    };
    fs.create_dirs(dir, 0o755).map_err(failed("create", dir))?;
    let own_id = FileId::of(&fs.metadata(own).map_err(failed("read", own))?);
    match fs.symlink_metadata(&path) {
        Ok(found) if found.is_symlink() && fs.metadata(&path).is_ok_and(|it| FileId::of(&it) == own_id) => {
            Ok(false)
        }
        Ok(_) => Err(LauncherError::Occupied { path }),
        Err(_) => {
            fs.create_link(own, &path).map_err(failed("create", &path))?;
            Ok(true)
        }
    }
}

/// A program on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// Its path as the search finds it.
    pub path: PathBuf,
    /// Whether a link to this program precedes it on `PATH`, so that a search for the name finds this program.
    pub is_hidden: bool,
}

/// Finds the program `name` in the directories of `path`, the value of the variable `PATH`, behind links to the program
/// at `own`. An empty directory is the current one, as for a shell.
///
/// # Errors
/// The file at `own` cannot be read.
pub fn find_real(fs: &Fs, name: &OsStr, path: &OsStr, own: &Path) -> io::Result<Option<Real>> {
    let own = FileId::of(&fs.metadata(own)?);
    let mut is_hidden = false;
    for dir in std::env::split_paths(path) {
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
        let found = dir.join(name);
        match fs.metadata(&found) {
            Ok(it) if FileId::of(&it) == own => is_hidden = true,
            Ok(it) if it.is_file() && it.permissions().mode() & 0o111 != 0 => {
                return Ok(Some(Real { path: found, is_hidden }));
            }
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay files")]
mod tests {
    use super::*;

    fn program(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_real_program_is_behind_our_links() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let fs = Fs::new();
        for name in ["own", "real/opc", "later/opc"] {
            program(&at(name));
        }
        std::fs::create_dir_all(at("directory/opc")).unwrap();
        std::fs::create_dir_all(at("text")).unwrap();
        std::fs::write(at("text/opc"), "no program").unwrap();
        assert!(install(&fs, &at("shims"), "opc", &at("own")).unwrap());
        assert!(!install(&fs, &at("shims"), "opc", &at("own")).unwrap());
        let find = |dirs: &[&str]| {
            let path = std::env::join_paths(dirs.iter().map(|dir| at(dir))).unwrap();
            find_real(&fs, OsStr::new("opc"), &path, &at("own")).unwrap()
        };
        let real = |is_hidden| Some(Real { path: at("real/opc"), is_hidden });
        assert_eq!(find(&["directory", "text", "shims", "real", "later"]), real(true));
        assert_eq!(find(&["real", "shims"]), real(false));
        assert_eq!(find(&["shims", "missing"]), None);
    }

    #[test]
    fn another_file_is_never_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let (own, other) = (temp.path().join("own"), temp.path().join("opc"));
        program(&own);
        program(&other);
        std::os::unix::fs::symlink("nowhere", temp.path().join("asc_opc")).unwrap();
        for name in ["opc", "asc_opc"] {
            let refused = install(&Fs::new(), temp.path(), name, &own);
            assert!(matches!(refused, Err(LauncherError::Occupied { .. })), "{refused:?}");
        }
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "#!/bin/sh\n");
        assert!(temp.path().join("asc_opc").is_symlink());
    }
}
