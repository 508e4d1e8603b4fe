//! Lists of objects, a directory of files at a time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opkeep_cache::{ListedObject, Listing, ObjectName};
use opkeep_fs::{FileKind, Fs, idle};

use super::shared_dir::{FILES, files_dir};

/// The number of objects after which a part ends.
const ENOUGH: usize = 1000;

/// Returns the objects below `root` whose names begin with `prefix`, in the directories after `cursor`. The time now is by
/// the clock that stamps files.
pub(super) fn list(root: &Path, prefix: &Path, cursor: &Path, now: SystemTime) -> io::Result<Listing> {
    let fs = Fs::new();
    let mut dirs = Vec::new();
    find_dirs(&fs, root, prefix, &mut dirs)?;
    opkeep_order::sort(&mut dirs);
    let mut listing = Listing::default();
    for dir in dirs.into_iter().filter(|dir| dir.as_path() > cursor) {
        add_files(&fs, root, &dir, now, &mut listing.objects)?;
        if listing.objects.len() >= ENOUGH {
            listing.next = dir.to_str().map(str::to_owned);
            break;
        }
    }
    Ok(listing)
}

/// Adds the directories of files below `dir`, by their paths below `root`.
fn find_dirs(fs: &Fs, root: &Path, dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let names = match fs.list(&root.join(dir)) {
        Err(error) if is_gone(&error) => return Ok(()),
        names => names?,
    };
    for (name, kind) in names {
        let Some(text) = name.to_str().filter(|_| kind == FileKind::Dir) else { continue };
        let path = dir.join(text);
        match text.strip_prefix(FILES) {
            None => find_dirs(fs, root, &path, found)?,
            Some(digits) if digits.len() == 2 => found.push(path),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Adds the objects in a directory of files. A file in another directory than that of its name is the content of no object: it
/// may be a copy of one. What has the name of an object and is no file is listed as such.
fn add_files(
    fs: &Fs,
    root: &Path,
    dir: &Path,
    now: SystemTime,
    objects: &mut Vec<ListedObject>,
) -> io::Result<()> {
    let files = match fs.list_stats(&root.join(dir)) {
        Err(error) if is_gone(&error) => return Ok(()),
        files => files?,
    };
    for (path, stat) in files {
        let name = path.file_name().and_then(|name| dir.parent()?.join(name).to_str().map(str::to_owned));
        let name = name.and_then(|name| ObjectName::new(name).ok());
        if let Some(name) = name.filter(|name| files_dir(name).0 == dir) {
            let mut listed = ListedObject::new(name, stat.state.len, Some(idle(stat.modified(), now)));
            listed.is_object = stat.is_file();
            objects.push(listed);
        }
    }
    Ok(())
}

/// Whether a directory does not exist: another host removed it, or the prefix is that of no object.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
