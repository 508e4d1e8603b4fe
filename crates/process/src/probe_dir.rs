//! Work directories for probes, and for workers that serve many jobs: runs of a toolchain that belong to no one kernel.
//!
//! ```text
//! <place>/opkeep-<uid>/        this user's, and no other user can write to it
//!   probe-<pid>-<n>/           one probe's directory, empty when it begins
//!   probe-<pid>-<n>.lock       locked while its process lives; a later probe removes both of one that was killed
//! ```

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk;

/// What the names of probes begin with.
const PREFIX: &str = "probe-";

/// A directory for one probe or worker that only this user can enter. It is removed when this is dropped.
#[derive(Debug)]
pub struct ProbeDir(Kind);

#[derive(Debug)]
enum Kind {
    /// In the directory of this user.
    Common { dir: PathBuf, lock: PathBuf, _held: File },
    /// On its own, where that directory belongs to another user.
    Alone(tempfile::TempDir),
}

impl ProbeDir {
    /// Makes one below the first of `places` that has room for the files of a small compile.
    ///
    /// # Errors
    /// That of the last place.
    pub fn create(places: &[&Path]) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match Self::create_in(place).and_then(|dir| disk::has_room(dir.path()).map(|()| dir)) {
                Ok(dir) => return Ok(dir),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match &self.0 {
            Kind::Common { dir, .. } => dir,
            Kind::Alone(dir) => dir.path(),
        }
    }

    fn create_in(place: &Path) -> io::Result<Self> {
        let common = place.join(format!("opkeep-{}", rustix::process::geteuid().as_raw()));
        match disk::private_directory(&common) {
            Ok(true) => {}
            Ok(false) => return disk::temporary_directory(place).map(|dir| Self(Kind::Alone(dir))),
            Err(error) => return Err(error),
        }
        prune(&common);
        loop {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let lock = common.join(format!("{name}.lock"));
            match disk::create_locked(&lock) {
                Ok(held) => {
                    let dir = common.join(name);
                    disk::remove_directory(&dir);
                    if let Err(error) = disk::create_directory(&dir) {
                        disk::remove_file(&lock);
                        return Err(error);
                    }
                    return Ok(Self(Kind::Common { dir, lock, _held: held }));
                }
                // That of a killed process with the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for ProbeDir {
    fn drop(&mut self) {
        if let Kind::Common { dir, lock, .. } = &self.0 {
            disk::remove_directory(dir);
            disk::remove_file(lock);
        }
    }
}

/// Removes the directories of probes whose processes are gone.
fn prune(common: &Path) {
    for lock in disk::entries(common) {
        let name = lock.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PREFIX)
            && name.ends_with(".lock")
            && let Some(_held) = disk::take_stale_lock(&lock)
        {
            disk::remove_directory(&lock.with_extension(""));
            disk::remove_file(&lock);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

    use super::*;

    fn entries(place: &Path) -> Vec<String> {
        let common = place.join(format!("opkeep-{}", rustix::process::geteuid().as_raw()));
        disk::entries(&common).iter().map(|path| path.file_name().unwrap().to_string_lossy().into()).collect()
    }

    #[test]
    fn a_probe_leaves_nothing_and_removes_what_a_killed_one_left() {
        let place = tempfile::tempdir().unwrap();
        let living = ProbeDir::create(&[place.path()]).unwrap();
        std::fs::write(living.path().join("kernel.o"), "x").unwrap();
        // The lock of a killed process is held by no one.
        let left = living.path().with_file_name("probe-1-0");
        std::fs::create_dir_all(left.join("plain")).unwrap();
        let lock = left.with_extension("lock");
        std::fs::write(&lock, "").unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
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
        // Between making the file and locking it.
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
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let common = place.path().join(format!("opkeep-{}", rustix::process::geteuid().as_raw()));
        std::fs::create_dir(&common).unwrap();
        std::fs::set_permissions(&common, std::fs::Permissions::from_mode(0o777)).unwrap();
        let dir = ProbeDir::create(&[place.path()]).unwrap();
        assert!(!dir.path().starts_with(&common));
        let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
