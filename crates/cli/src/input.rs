//! Reading what the command line names.
#![expect(clippy::disallowed_methods, reason = "this is the command's I/O module")]

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use opbuild_descriptor::{Descriptor, MAX_INFO_BYTES, read_info};
use rustix::fs::OFlags;

/// Folders nested deeper than this are not looked into.
const MAX_DEPTH: usize = 16;

/// A file of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot read `{}`", path.display());
    // A pipe without a writer would have us wait for ever.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).with_context(cannot)?;
    let metadata = file.metadata().with_context(cannot)?;
    anyhow::ensure!(!metadata.is_dir(), "`{}` is a folder, expected a file", path.display());
    anyhow::ensure!(metadata.is_file(), "`{}` is not a regular file", path.display());
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).with_context(cannot)?;
    let too_long = bytes.len() as u64 > limit;
    anyhow::ensure!(!too_long, "`{}` has more than the {limit} bytes that are read", path.display());
    Ok(bytes)
}

/// The file at `path`; `None` if there is nothing.
pub(crate) fn read_beside(path: &Path, limit: u64) -> Option<anyhow::Result<Vec<u8>>> {
    path.symlink_metadata().is_ok().then(|| read_file(path, limit))
}

/// Reads an operator descriptor.
pub(crate) fn read_descriptor(path: &Path) -> anyhow::Result<Descriptor> {
    let bytes = read_file(path, MAX_INFO_BYTES)?;
    read_info(&bytes).with_context(|| format!("`{}`", path.display()))
}

/// What the inputs come to.
#[derive(Default)]
pub(crate) struct Found {
    /// Descriptors, folders opened, each folder's in order of their paths.
    pub(crate) files: Vec<PathBuf>,
    /// What could not be looked into, and why.
    pub(crate) unreadable: Vec<(PathBuf, anyhow::Error)>,
}

/// Every descriptor that `inputs` name; folders give the `.info` files below them.
pub(crate) fn descriptor_files(inputs: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for input in inputs {
        if !input.is_dir() {
            found.files.push(input.clone());
            continue;
        }
        let (files, problems) = (found.files.len(), found.unreadable.len());
        walk(input, MAX_DEPTH, &mut found);
        if found.files.len() == files && found.unreadable.len() == problems {
            let error = anyhow::anyhow!("there is no .info file in `{}`", input.display());
            found.unreadable.push((input.clone(), error));
        }
        found.files[files..].sort_unstable();
    }
    found
}

fn walk(folder: &Path, depth: usize, found: &mut Found) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let error =
                anyhow::Error::new(error).context(format!("cannot read the folder `{}`", folder.display()));
            return found.unreadable.push((folder.to_owned(), error));
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let is_info = path.extension().is_some_and(|extension| extension == "info");
        // MindSpore's record of its own start, and the version notes of op packages, describe no operator.
        let is_other = ["Initialize.info", "version.info"].iter().any(|name| path.ends_with(name));
        if kind.is_dir() && depth > 0 {
            walk(&path, depth - 1, found);
        } else if kind.is_dir() {
            let error =
                anyhow::anyhow!("`{}` is nested too deep; name it on the command line", path.display());
            found.unreadable.push((path, error));
        } else if is_info && !is_other {
            found.files.push(path);
        }
    }
}
