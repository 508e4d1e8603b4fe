//! The entries of a directory and of all directories below it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use opkeep_fs::{FileId, FileKind, Fs};

use crate::error::ToolkitError;

/// More files than any toolkit has in one directory: a bank that is named `/` is a mistake.
const MAX_FILES: usize = 200_000;

/// The names in a directory, in order, and whether each is a directory, links followed; only files and directories. None
/// if there is no such directory.
pub fn names(dir: &Path) -> Result<Option<Vec<(OsString, bool)>>, ToolkitError> {
    let listed = match Fs::new().list(dir) {
        Ok(listed) => listed,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(source) => return Err(ToolkitError::io("list", dir, source)),
    };
    let mut names = Vec::new();
    for (name, kind) in listed {
        let is_dir = match kind {
            FileKind::Dir => true,
            FileKind::File => false,
            FileKind::Link => match Fs::new().metadata(&dir.join(&name)) {
                Ok(found) if found.is_dir() || found.is_file() => found.is_dir(),
                // One that leads nowhere is nothing.
                _ => continue,
            },
            FileKind::Other => continue,
        };
        names.push((name, is_dir));
    }
    opkeep_order::sort(&mut names);
    Ok(Some(names))
}

/// All files below `dir` that `counts` (a name, and whether it is a directory's) lets through, as paths relative to it,
/// in order. Links are followed, except back to a directory that is being walked. None if there is no such directory.
pub fn files_below(
    dir: &Path,
    counts: impl Fn(&OsStr, bool) -> bool,
) -> Result<Option<Vec<PathBuf>>, ToolkitError> {
    let mut walk = Walk { root: dir, counts: &counts, within: Vec::new(), found: Vec::new() };
    if !walk.enter(Path::new(""))? {
        return Ok(None);
    }
    let mut found = walk.found;
    opkeep_order::sort(&mut found);
    Ok(Some(found))
}

/// A walk through a tree.
struct Walk<'a> {
    root: &'a Path,
    counts: &'a dyn Fn(&OsStr, bool) -> bool,
    /// The directories that lead to where the walk is.
    within: Vec<FileId>,
    found: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Goes through `dir`; false if there is none.
    fn enter(&mut self, dir: &Path) -> Result<bool, ToolkitError> {
        let path = if dir.as_os_str().is_empty() { self.root.to_owned() } else { self.root.join(dir) };
        let Some(names) = names(&path)? else { return Ok(false) };
        let metadata =
            Fs::new().metadata(&path).map_err(|source| ToolkitError::io("look at", &path, source))?;
        let here = FileId::of(&metadata);
        if self.within.contains(&here) {
            return Ok(true);
        }
        self.within.push(here);
        for (name, is_dir) in names {
            if !(self.counts)(&name, is_dir) {
                continue;
            }
            if is_dir {
                self.enter(&dir.join(name))?;
            } else if self.found.len() < MAX_FILES {
                self.found.push(dir.join(name));
            } else {
                let source = io::Error::other(format!("there are more than {MAX_FILES} files in it"));
                return Err(ToolkitError::io("list", self.root, source));
            }
        }
        self.within.pop();
        Ok(true)
    }
}

/// Where the symbolic links below a directory lead that is not below it: the same files, by the system's own paths. A
/// link that is followed leads to further ones.
pub fn links_out(dir: &Path) -> Vec<PathBuf> {
    let fs = Fs::new();
    let root = fs.resolved(dir);
    let (mut found, mut todo, mut entered) = (Vec::new(), vec![root.clone()], HashSet::new());
    while let Some(within) = todo.pop() {
        if !entered.insert(within.clone()) {
            continue;
        }
        for (name, kind) in fs.list(&within).unwrap_or_default() {
            let path = within.join(name);
            match kind {
                FileKind::Dir => todo.push(path),
                FileKind::Link => {
                    let target = fs.resolved(&path);
                    if !target.starts_with(&root) && fs.exists(&target) {
                        todo.extend(fs.is_dir(&target).then(|| target.clone()));
                        found.push(target);
                    }
                }
                FileKind::File | FileKind::Other => {}
            }
        }
    }
    found
}
