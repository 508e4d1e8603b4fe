//! The file of a bundle that the command line names, or its standard input.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use opkeep_bundle::{BundleReader, HEAD_BYTES, may_be_bundle};
use opkeep_fs::Fs;

use crate::ui::output::Output;
use crate::ui::text::quotable;

/// The name of the standard input and the standard output.
pub(crate) const STANDARD: &str = "-";

/// The standard input as a file, which can be taken once. `None` if no argument names it.
pub(crate) type StandardInput = Option<anyhow::Result<File>>;

/// Copies the standard input to a file if one of `paths` names it: the index of a bundle is at the end, and nothing is taken of an
/// incomplete one. Until then, signals end the process, so it is called before they are handled.
pub(crate) fn standard_input<'a>(
    mut paths: impl Iterator<Item = &'a Path>,
    output: &Output,
) -> StandardInput {
    paths.any(|path| path == Path::new(STANDARD)).then(|| copy_standard_input(output))
}

fn copy_standard_input(output: &Output) -> anyhow::Result<File> {
    if !output.has_standard_streams() {
        bail!("the standard input is the caller's; give the name of a file");
    }
    let dir = std::env::temp_dir();
    let cannot = || format!("cannot copy the standard input to a file in `{}`", dir.display());
    let mut file = Fs::new().unnamed_file(&dir).with_context(cannot)?;
    let (mut input, mut head) = (io::stdin().lock(), Vec::new());
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head).with_context(cannot)?;
    file.write_all(&head).with_context(cannot)?;
    // Of what is no bundle, that is enough to say so. It may have no end.
    if may_be_bundle(&head) {
        io::copy(&mut input, &mut file).with_context(cannot)?;
    }
    Ok(file)
}

/// Opens the bundle at `path`.
///
/// # Errors
/// It cannot be read, or it is no bundle, or it is the standard input for a second time.
pub(crate) fn open(path: &Path, standard: &mut StandardInput) -> anyhow::Result<BundleReader<File>> {
    let file = match path == Path::new(STANDARD) {
        false => Fs::new().open_file(path).with_context(|| format!("cannot read `{}`", quotable(path)))?.0,
        true => standard.take().context("the standard input is read once")??,
    };
    BundleReader::open(file).with_context(|| format!("`{}`", quotable(path)))
}
