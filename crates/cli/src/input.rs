//! Reading what the command line names.
#![expect(clippy::disallowed_methods, reason = "this is the command's I/O module")]

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use opbuild_descriptor::{Descriptor, MAX_INFO_BYTES, read_info};

/// Folders nested deeper than this are not looked into.
const MAX_DEPTH: usize = 16;

/// A file of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot read `{}`", path.display());
    let file = std::fs::File::open(path).with_context(cannot)?;
    let metadata = file.metadata().with_context(cannot)?;
    anyhow::ensure!(!metadata.is_dir(), "`{}` is a folder, expected a file", path.display());
    anyhow::ensure!(metadata.is_file(), "`{}` is not a regular file", path.display());
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).with_context(cannot)?;
    let too_long = bytes.len() as u64 > limit;
    anyhow::ensure!(!too_long, "`{}` has more than the {limit} bytes that are read", path.display());
    Ok(bytes)
}

/// The file at `path`, if there is one.
pub(crate) fn read_beside(path: &Path, limit: u64) -> Option<Vec<u8>> {
    path.is_file().then(|| read_file(path, limit).ok()).flatten()
}

/// Reads an operator descriptor.
pub(crate) fn read_descriptor(path: &Path) -> anyhow::Result<Descriptor> {
    let bytes = read_file(path, MAX_INFO_BYTES)?;
    read_info(&bytes).with_context(|| format!("`{}`", path.display()))
}

/// Every descriptor that `inputs` name; folders give the `.info` files below them, in order of their paths.
pub(crate) fn descriptor_files(inputs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        walk(input, MAX_DEPTH, &mut files)?;
        let found = &mut files[before..];
        anyhow::ensure!(!found.is_empty(), "there is no .info file in `{}`", input.display());
        found.sort_unstable();
    }
    Ok(files)
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let cannot = || format!("cannot read the folder `{}`", folder.display());
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(cannot)?);
        let is_info = path.extension().is_some_and(|extension| extension == "info");
        // MindSpore's record of its own start, and the version notes of op packages, describe no operator.
        let is_other = ["Initialize.info", "version.info"].iter().any(|name| path.ends_with(name));
        if kind.is_dir() && depth > 0 {
            walk(&path, depth - 1, files)?;
        } else if is_info && !is_other && (kind.is_file() || kind.is_symlink()) {
            files.push(path);
        }
    }
    Ok(())
}
