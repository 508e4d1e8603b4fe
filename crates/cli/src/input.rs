//! Reading what the command line names.
#![expect(clippy::disallowed_methods, reason = "this is the command's I/O module")]

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use opbuild_descriptor::{Descriptor, MAX_INFO_BYTES, read_info};
use opbuild_kernel_meta::{pseudo_below, pseudo_file_system};
use rustix::fs::OFlags;

/// Folders nested deeper than this are not looked into.
const MAX_DEPTH: usize = 128;

/// A file of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let bytes = read_some(path, limit + 1)?;
    let too_long = bytes.len() as u64 > limit;
    anyhow::ensure!(!too_long, "`{}` has more than the {limit} bytes that are read", path.display());
    Ok(bytes)
}

/// The first `limit` bytes of a file.
pub(crate) fn read_some(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot read `{}`", path.display());
    // A pipe without a writer would have us wait for ever.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).with_context(cannot)?;
    let metadata = file.metadata().with_context(cannot)?;
    anyhow::ensure!(!metadata.is_dir(), "`{}` is a folder, expected a file", path.display());
    anyhow::ensure!(metadata.is_file(), "`{}` is not a regular file", path.display());
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).with_context(cannot)?;
    Ok(bytes)
}

/// Whether something is at `path`, be it of use or not.
pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether there is a file or folder at `path`, and a folder is open to us.
///
/// # Errors
/// Why not.
pub(crate) fn can_read(path: &Path) -> anyhow::Result<()> {
    let is_folder = path.metadata().map(|found| found.is_dir());
    let opened = is_folder.and_then(|is_folder| if is_folder { path.read_dir().map(drop) } else { Ok(()) });
    opened.with_context(|| format!("cannot read `{}`", path.display()))
}

/// Reads an operator descriptor.
pub(crate) fn read_descriptor(path: &Path) -> anyhow::Result<Descriptor> {
    let bytes = read_file(path, MAX_INFO_BYTES)?;
    read_info(&bytes).with_context(|| format!("`{}`", path.display()))
}

/// Whether the file at `path` holds a network; by its name, else by its content: descriptors are JSON objects.
pub(crate) fn is_network(path: &Path) -> anyhow::Result<bool> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("onnx") => Ok(true),
        Some("info") => Ok(false),
        _ => {
            let begin = read_some(path, 64)?;
            Ok(begin.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte != b'{'))
        }
    }
}

/// An error about the file `path`, which is named in it.
pub(crate) fn named(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    let shown = path.display().to_string();
    let tells = error.to_string().contains(&shown);
    let error = anyhow::Error::new(error);
    if tells { error } else { error.context(format!("`{shown}`")) }
}

/// Makes a folder, and those it is in.
pub(crate) fn make_folder(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make the folder `{}`", path.display()))
}

/// What the inputs come to.
#[derive(Default)]
pub(crate) struct Found {
    /// Files, folders opened, each folder's in order of their paths.
    pub(crate) files: Vec<PathBuf>,
    /// What could not be looked into, and why; each directory once, by whatever paths it was met.
    pub(crate) unreadable: Vec<(PathBuf, anyhow::Error)>,
    seen: HashSet<(u64, u64)>,
}

impl Found {
    fn unreadable(&mut self, path: &Path, error: anyhow::Error) {
        let is_new = path.metadata().map(|found| self.seen.insert((found.dev(), found.ino())));
        if is_new.unwrap_or(true) {
            self.unreadable.push((path.to_owned(), error));
        }
    }
}

/// Every file that `inputs` name; folders give the `.onnx` and `.info` files below them.
pub(crate) fn model_files(inputs: &[PathBuf]) -> Found {
    files(inputs, ".onnx or .info", |path| {
        // MindSpore's record of its own start, and the version notes of op packages, describe no operator.
        let is_other = ["Initialize.info", "version.info"].iter().any(|name| path.ends_with(name));
        !is_other && path.extension().is_some_and(|extension| extension == "info" || extension == "onnx")
    })
}

/// Every file that `inputs` name; folders give the files below them that are `meant`, which are called `kind`.
pub(crate) fn files(inputs: &[PathBuf], kind: &str, meant: impl Fn(&Path) -> bool) -> Found {
    let mut found = Found::default();
    for input in inputs {
        if !input.is_dir() {
            found.files.push(input.clone());
            continue;
        }
        let (files, problems) = (found.files.len(), found.unreadable.len());
        walk(input, None, MAX_DEPTH, &meant, &mut found);
        if found.files.len() == files && found.unreadable.len() == problems {
            let error = anyhow::anyhow!("there is no {kind} file in `{}`", input.display());
            found.unreadable(input, error);
        }
        found.files[files..].sort_unstable();
    }
    found
}

/// Looks through `folder`, which is in `above`, or was named. Links are not followed, pseudo file systems not entered.
fn walk(
    folder: &Path,
    above: Option<&File>,
    depth: usize,
    meant: &impl Fn(&Path) -> bool,
    found: &mut Found,
) {
    let cannot = |error: std::io::Error| {
        anyhow::Error::new(error).context(format!("cannot read the directory `{}`", folder.display()))
    };
    let dir = match File::open(folder) {
        Ok(dir) => dir,
        Err(error) => return found.unreadable(folder, cannot(error)),
    };
    match above.map_or_else(|| pseudo_file_system(&dir), |above| pseudo_below(above, &dir)) {
        None => {}
        Some(_) if above.is_some() => return,
        Some(name) => {
            let path = folder.display();
            let error =
                anyhow::anyhow!("`{path}` is on the pseudo file system {name}: it is not looked through");
            return found.unreadable(folder, error);
        }
    }
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) => return found.unreadable(folder, cannot(error)),
    };
    for entry in entries {
        let (path, kind) = match entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) {
            Ok(entry) => entry,
            // What is gone since is none of what there is.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return found.unreadable(folder, cannot(error)),
        };
        if kind.is_dir() && depth > 0 {
            walk(&path, Some(&dir), depth - 1, meant, found);
        } else if kind.is_dir() {
            let error =
                anyhow::anyhow!("`{}` is nested too deep; name it on the command line", path.display());
            found.unreadable(&path, error);
        } else if meant(&path) {
            found.files.push(path);
        }
    }
}
