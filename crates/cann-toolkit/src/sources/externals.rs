//! The names of modules from outside the toolkit that its own sources import, found without running them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::disk::files;
use crate::disk::tree;
use crate::error::ToolkitError;
use crate::sources::imports::{self, Import, ImportKind};

/// The modules that sources below `dirs` import and whose first name is not in `own`. A name that is imported from a
/// package counts too, since it may be a module.
pub fn imported_below(dirs: &[PathBuf], own: &BTreeSet<String>) -> Result<BTreeSet<String>, ToolkitError> {
    let mut names = BTreeSet::new();
    for dir in dirs {
        let is_source = |name: &std::ffi::OsStr, is_dir: bool| {
            if is_dir {
                name != "__pycache__"
            } else {
                Path::new(name).extension().is_some_and(|end| end == "py")
            }
        };
        for path in tree::files_below(dir, is_source)?.unwrap_or_default() {
            let text = files::read_text(&dir.join(path))?;
            names.extend(
                imports::scan(&text).imports.iter().flat_map(of).filter(|name| !own.contains(first(name))),
            );
        }
    }
    Ok(names)
}

/// The names that an import may be of; none, if it is relative.
pub(crate) fn of(import: &Import) -> Vec<String> {
    match &import.what {
        ImportKind::Module { path, .. } => vec![path.join(".")],
        ImportKind::Names { level: 0, path, names } => {
            names.iter().map(|(name, _)| format!("{}.{name}", path.join("."))).collect()
        }
        ImportKind::Star { level: 0, path } => vec![path.join(".")],
        ImportKind::Names { .. } | ImportKind::Star { .. } | ImportKind::Late(_) | ImportKind::NotAscii => {
            Vec::new()
        }
    }
}

/// The first name of a dotted one.
pub fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}
