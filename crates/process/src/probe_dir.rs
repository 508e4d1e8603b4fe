//! Work directories of probes, and of workers that serve many jobs: runs of a toolchain that belong to no single
//! kernel.
//!
//! ```text
//! <place>/opkeep-<uid>/        belongs to this user; no other user can write to it
//!   probe-<pid>-<n>/           the directory of one probe, empty at its start
//!   probe-<pid>-<n>.lock       locked while its process lives; after a kill, a later probe removes both
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opkeep_fs::{FileLock, Fs, NotPrivate, TempDir, TryLock, private_user_dir, unique_name};

/// The prefix of the names of probes.
const PREFIX: &str = "probe-";

/// A younger lock file may have been created but not locked yet.
const SETTLED: Duration = Duration::from_secs(60);

/// A directory for one probe or worker, which only this user can enter. Removed when dropped, but not by a forked
/// child.
#[derive(Debug)]
pub struct ProbeDir(Kind);

#[derive(Debug)]
enum Kind {
    /// In the directory of this user.
    Common { dir: PathBuf, lock: PathBuf, held: FileLock },
    /// On its own, because that directory belongs to another user.
    Alone(TempDir),
}

impl ProbeDir {
    /// Creates one below the first of `places` that has enough free space for the files of a small compile.
    ///
    /// # Errors
    /// The error of the last place.
    pub fn create(places: &[&Path]) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match Self::create_in(place).and_then(|dir| dir.has_room().map(|()| dir)) {
                Ok(dir) => return Ok(dir),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match &self.0 {
            Kind::Common { dir, .. } => dir,
            Kind::Alone(dir) => dir.path(),
        }
    }

    fn create_in(place: &Path) -> io::Result<Self> {
        let fs = Fs::new();
        let common = match private_user_dir(place) {
            Ok(common) => common,
            Err(NotPrivate::Io { path, source }) if fs.look(&path).is_err() => return Err(source),
            // Another user's file or directory has this name.
            Err(_) => return Self::create_alone(place),
        };
        prune(&common);
        loop {
            let name = unique_name(PREFIX);
            let lock = common.join(format!("{name}.lock"));
            match fs.create_locked(&lock, 0o600) {
                Ok(held) => {
                    let dir = common.join(name);
                    let _ = fs.remove_tree(&dir);
                    if let Err(error) = fs.create_dir(&dir, 0o700) {
                        let _ = fs.remove(&lock);
                        return Err(error);
                    }
                    return Ok(Self(Kind::Common { dir, lock, held }));
                }
                // A killed process with the same number left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates one with a name that no other user can predict.
    fn create_alone(place: &Path) -> io::Result<Self> {
        TempDir::create_in(place, "opkeep-probe-").map(|dir| Self(Kind::Alone(dir)))
    }

    /// Fails if the files of a small compile cannot be written.
    fn has_room(&self) -> io::Result<()> {
        const ROOM: usize = 2048;
        let file = self.path().join("room");
        Fs::new().write(&file, &[0; ROOM])?;
        Fs::new().remove(&file)
    }
}

impl Drop for ProbeDir {
    fn drop(&mut self) {
        if let Kind::Common { dir, lock, held } = &self.0
            && held.is_own()
        {
            remove(dir, lock);
        }
    }
}

/// Removes the directories of probes whose processes have exited.
fn prune(common: &Path) {
    for (name, _) in Fs::new().list(common).unwrap_or_default() {
        let lock = common.join(&name);
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX)
            && name.ends_with(".lock")
            && let Some(_held) = take_stale(&lock)
        {
            remove(&lock.with_extension(""), &lock);
        }
    }
}

/// Locks a file that is not young and that no process holds.
fn take_stale(lock: &Path) -> Option<FileLock> {
    let file = Fs::new().open_lock(lock, None).ok()?;
    if !file.file().ok()?.metadata().ok()?.modified().ok()?.elapsed().is_ok_and(|age| age >= SETTLED) {
        return None;
    }
    match FileLock::try_exclusive(file).ok()? {
        // Another process may have removed it in between.
        TryLock::Held(held) if held.is_at(lock) => Some(held),
        _ => None,
    }
}

fn remove(dir: &Path, lock: &Path) {
    let _ = Fs::new().remove_tree(dir);
    let _ = Fs::new().remove(lock);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entries(place: &Path) -> Vec<String> {
        let common = place.join(format!("opkeep-{}", rustix::process::geteuid().as_raw()));
        let names = Fs::new().list(&common).unwrap();
        names.iter().map(|(name, _)| name.to_string_lossy().into()).collect()
    }

    #[test]
    fn a_probe_leaves_nothing_and_removes_a_killed_ones_directory() {
        let place = tempfile::tempdir().unwrap();
        let living = ProbeDir::create(&[place.path()]).unwrap();
        std::fs::write(living.path().join("kernel.o"), "x").unwrap();
        // No process holds the lock of a killed one.
        let left = living.path().with_file_name("probe-1-0");
        std::fs::create_dir_all(left.join("plain")).unwrap();
        let lock = left.with_extension("lock");
        std::fs::write(&lock, "").unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::open(&lock).unwrap().set_modified(old).unwrap();
        drop(ProbeDir::create(&[place.path()]).unwrap());
        assert!(!left.exists() && living.path().join("kernel.o").exists());
        drop(living);
        assert!(entries(place.path()).is_empty());
    }

    #[test]
    fn a_lock_that_was_just_made_is_left() {
        let place = tempfile::tempdir().unwrap();
        let first = ProbeDir::create(&[place.path()]).unwrap();
        // The file is created but not locked yet.
        let young = first.path().with_file_name("probe-1-0.lock");
        std::fs::write(&young, "").unwrap();
        drop(ProbeDir::create(&[place.path()]).unwrap());
        assert!(young.exists());
    }

    #[test]
    fn the_next_place_serves_where_one_is_of_no_use() {
        let place = tempfile::tempdir().unwrap();
        let missing = place.path().join("missing");
        let dir = ProbeDir::create(&[&missing, place.path()]).unwrap();
        assert!(dir.path().starts_with(place.path()));
        assert!(ProbeDir::create(&[&missing]).is_err());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let common = place.path().join(format!("opkeep-{}", rustix::process::geteuid().as_raw()));
        std::fs::create_dir(&common).unwrap();
        std::fs::set_permissions(&common, Permissions::from_mode(0o777)).unwrap();
        let dir = ProbeDir::create(&[place.path()]).unwrap();
        assert!(!dir.path().starts_with(&common));
        let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
