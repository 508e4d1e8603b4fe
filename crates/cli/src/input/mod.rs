//! Reads the files that the command line names.

pub(crate) mod dims;
pub(crate) mod entries;
pub(crate) mod groups;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod pairs;
pub(crate) mod pattern;
pub(crate) mod replaced;
pub(crate) mod store;
pub(crate) mod stored_kernel;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use opkeep_descriptor::{Descriptor, MAX_INFO_BYTES, read_info};
use opkeep_framework_cache::{Links, Tree};
use opkeep_fs::{FileId, Fs};

use crate::ui::text::{counted, quotable};

/// Reads a file of at most `limit` bytes. Of a larger one, such as a sparse file, nothing is read.
pub(crate) fn read_file(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let (file, length) = open_file(path)?;
    let too_long = |found: String| {
        let most = counted(limit, "byte");
        anyhow::anyhow!("`{}` has {found}, expected at most {most}", path.display())
    };
    if length > limit {
        return Err(too_long(counted(length, "byte")));
    }
    let bytes = start_of(file, path, limit.saturating_add(1))?;
    match bytes.len() as u64 > limit {
        // It grew, or has no length, as files of /proc.
        true => Err(too_long(format!("more than {}", counted(limit, "byte")))),
        false => Ok(bytes),
    }
}

/// Reads the first `limit` bytes of a file.
pub(crate) fn read_some(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    start_of(open_file(path)?.0, path, limit)
}

/// Opens a regular file. Returns its length as well.
fn open_file(path: &Path) -> anyhow::Result<(File, u64)> {
    let cannot = || format!("cannot read `{}`", path.display());
    let file = Fs::new().open(path).with_context(cannot)?;
    let metadata = file.metadata().with_context(cannot)?;
    anyhow::ensure!(!metadata.is_dir(), "`{}` is a directory, expected a file", path.display());
    anyhow::ensure!(metadata.is_file(), "`{}` is not a regular file", path.display());
    Ok((file, metadata.len()))
}

fn start_of(file: File, path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(bytes)
}

/// Whether `path` exists, as a file of any type.
pub(crate) fn exists(path: &Path) -> bool {
    Fs::new().look(path).is_ok()
}

/// Checks that a file exists at `path`, or a directory that can be listed.
///
/// # Errors
/// Nothing exists at `path`, or the directory cannot be listed.
pub(crate) fn can_read(path: &Path) -> anyhow::Result<()> {
    let fs = Fs::new();
    let found = fs.metadata(path);
    let opened = found.and_then(|found| if found.is_dir() { fs.open_dir(path).map(drop) } else { Ok(()) });
    opened.with_context(|| format!("cannot read `{}`", quotable(path)))
}

/// Reads an operator descriptor.
pub(crate) fn read_descriptor(path: &Path) -> anyhow::Result<Descriptor> {
    let bytes = read_file(path, MAX_INFO_BYTES)?;
    read_info(&bytes).with_context(|| format!("`{}`", quotable(path)))
}

/// Whether the file at `path` holds a network: by the extension; without a known one, by the content, since descriptors
/// are JSON objects.
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

/// Returns an error about the file `path` whose text contains the path.
pub(crate) fn with_path(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    let shown = path.display().to_string();
    let has_path = error.to_string().contains(&shown);
    let error = anyhow::Error::new(error);
    if has_path { error } else { error.context(format!("`{}`", quotable(&shown))) }
}

/// Returns the path without links to the file at `path`; `path` itself if it cannot be resolved.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    Fs::new().real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// The files that the arguments name.
#[derive(Default)]
pub(crate) struct InputFiles {
    /// The files. The files of a directory are in the order of their paths.
    pub(crate) files: Vec<PathBuf>,
    /// Paths that could not be read, with the errors. A directory with several paths is listed once.
    pub(crate) unreadable: Vec<(PathBuf, anyhow::Error)>,
    /// Links to directories above the named ones.
    pub(crate) not_followed: Vec<PathBuf>,
    seen: HashSet<FileId>,
}

impl InputFiles {
    fn unreadable(&mut self, path: &Path, error: anyhow::Error) {
        let is_new = Fs::new().metadata(path).map(|found| self.seen.insert(FileId::of(&found)));
        if is_new.unwrap_or(true) {
            self.unreadable.push((path.to_owned(), error));
        }
    }
}

/// Returns every file that `inputs` name; for a directory, the `.onnx` and `.info` files below it.
pub(crate) fn model_files(inputs: &[PathBuf]) -> InputFiles {
    files(inputs, ".onnx or .info", Links::Leave, |path| {
        // MindSpore's `Initialize.info` and the `version.info` of operator packages describe no operator.
        let is_other = ["Initialize.info", "version.info"].iter().any(|name| path.ends_with(name));
        !is_other && path.extension().is_some_and(|extension| extension == "info" || extension == "onnx")
    })
}

/// Returns every file that `inputs` name; for a directory, the files below it that satisfy `is_wanted`. `kind` names such
/// files in errors.
pub(crate) fn files(
    inputs: &[PathBuf],
    kind: &str,
    links: Links,
    is_wanted: impl Fn(&Path) -> bool,
) -> InputFiles {
    let mut found = InputFiles::default();
    for input in inputs {
        if !Fs::new().is_dir(input) {
            found.files.push(input.clone());
            continue;
        }
        let tree = match Tree::below(input, links, &is_wanted) {
            Ok(tree) => tree,
            Err(error) => {
                found.unreadable(input, cannot_read(input, error));
                continue;
            }
        };
        let is_empty = tree.files.is_empty() && tree.unreadable_dirs.is_empty() && tree.too_deep.is_empty();
        found.files.extend(tree.files);
        tree.unreadable_dirs
            .into_iter()
            .for_each(|(path, error)| found.unreadable(&path, cannot_read(&path, error)));
        for path in tree.too_deep {
            let error =
                anyhow::anyhow!("`{}` is nested too deep; name it on the command line", quotable(&path));
            found.unreadable(&path, error);
        }
        found.not_followed.extend(tree.not_followed);
        if is_empty {
            let error = anyhow::anyhow!("there is no {kind} file in `{}`", quotable(input));
            found.unreadable(input, error);
        }
    }
    found
}

fn cannot_read(directory: &Path, error: std::io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("cannot read the directory `{}`", quotable(directory)))
}
