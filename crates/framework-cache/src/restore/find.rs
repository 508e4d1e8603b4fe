//! The search for quarantines.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::quarantine::locked_cache::beside;
use opkeep_fs::descend;

use opkeep_fs::{Dir, FileKind, Fs};
use opkeep_kernel_meta::{MAX_DEPTH, QUARANTINE, RunId};

/// The quarantine of one run and one cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuarantineRun {
    /// The run's name: later ones are greater.
    pub run: OsString,
    /// The cache.
    pub cache: PathBuf,
}

impl QuarantineRun {
    /// The directory with the files.
    pub fn path(&self) -> PathBuf {
        let name = beside(self.cache.file_name().unwrap_or_default());
        self.cache.with_file_name(name).join(&self.run)
    }
}

/// The quarantines: the run at `path`, or all runs of the cache at `path` and of those below.
///
/// # Errors
/// `path` cannot be read.
pub fn quarantines(path: &Path) -> io::Result<Vec<QuarantineRun>> {
    // The cache itself may have been deleted since.
    let real_path = match Fs::new().real_path(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let absolute = std::path::absolute(path)?;
            let (Some(above), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(error);
            };
            Fs::new().real_path(above)?.join(name)
        }
        real_path => real_path?,
    };
    let mut found = Vec::new();
    if let Some(top) = real_path.parent().filter(|top| cache_of(top).is_some()) {
        let run = real_path.file_name().unwrap_or_default().to_owned();
        let exists = RunId::is_dir_name(&run) && Dir::open_quietly(&real_path).is_ok();
        let cache = cache_of(top).filter(|_| exists);
        return Ok(cache.map(|cache| QuarantineRun { run, cache }).into_iter().collect());
    }
    if let (Some(above), Some(name)) = (real_path.parent(), real_path.file_name()) {
        let quarantine = if cache_of(&real_path).is_some() { name.to_owned() } else { beside(name) };
        if let Some(top) = open_quarantine(&Dir::open_quietly(above)?, &quarantine)? {
            add_runs(&top, &mut found)?;
        }
    }
    if cache_of(&real_path).is_none() {
        match Dir::open_quietly(&real_path) {
            Ok(dir) => walk(&dir, 0, &mut found)?,
            Err(error) if found.is_empty() => return Err(error),
            Err(_) => {}
        }
    }
    opkeep_order::sort(&mut found);
    Ok(found)
}

/// The quarantines of the newest run, in the order of the undo: the last one first.
pub fn newest(mut found: Vec<QuarantineRun>) -> Vec<QuarantineRun> {
    let order = |one: &QuarantineRun| RunId::order_of(&one.run);
    let last = found.iter().map(|one| order(one).0).max();
    found.retain(|one| Some(order(one).0) == last);
    opkeep_order::by_key(&mut found, |one| std::cmp::Reverse(order(one)));
    found
}

/// The cache that the quarantine `path` belongs to.
fn cache_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(QUARANTINE)?;
    (!name.is_empty()).then(|| path.with_file_name(name))
}

/// The quarantine called `name`, if it exists. One that this user may not open is an error.
fn open_quarantine(above: &Dir, name: &OsStr) -> io::Result<Option<Dir>> {
    match above.below(name) {
        Ok(top) => Ok(Some(top)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let path = above.path().join(name);
            let problem =
                format!("`{}`: {error}; run it as the user who owns that directory", path.display());
            Err(io::Error::new(error.kind(), problem))
        }
        Err(_) => Ok(None),
    }
}

fn add_runs(top: &Dir, found: &mut Vec<QuarantineRun>) -> io::Result<()> {
    let Some(cache) = cache_of(top.path()) else { return Ok(()) };
    let dirs = top.entries()?.into_iter().filter(|name| name.kind == FileKind::Dir);
    found.extend(
        dirs.filter(|name| RunId::is_dir_name(&name.name))
            .map(|name| QuarantineRun { run: name.name, cache: cache.clone() }),
    );
    Ok(())
}

fn walk(dir: &Dir, depth: usize, found: &mut Vec<QuarantineRun>) -> io::Result<()> {
    for entry in dir.entries()?.into_iter().filter(|name| name.kind == FileKind::Dir) {
        if cache_of(Path::new(&entry.name)).is_some() {
            if let Some(top) = open_quarantine(dir, &entry.name)? {
                add_runs(&top, found)?;
            }
        } else if depth < MAX_DEPTH
            // Nothing can be restored into directories that this user may not open.
            && let Ok(Some(below)) = descend(dir, &entry.name)
        {
            walk(&below, depth + 1, found)?;
        }
    }
    Ok(())
}
