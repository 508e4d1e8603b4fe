//! Directories that are far from each other.

use std::io;
use std::path::Path;

use tempfile::TempDir;

/// Makes a directory that has nothing but `/` in common with those of other tests: no short relative path leads from one to the other, as from a
/// project to a toolkit below `/usr`. Programs can run there.
///
/// # Errors
/// There is no such place on this machine.
pub fn far_dir() -> io::Result<TempDir> {
    const PLACES: [&str; 3] = ["/var/tmp", "/tmp", "/dev/shm"];
    let top = |path: &Path| path.components().nth(1).map(|part| part.as_os_str().to_owned());
    let near = top(&std::env::temp_dir());
    let mut places = PLACES.iter().map(Path::new).filter(|place| top(place) != near && place.is_dir());
    let place = places.next().ok_or_else(|| io::Error::other("no second place for temporary files"))?;
    tempfile::tempdir_in(place)
}
