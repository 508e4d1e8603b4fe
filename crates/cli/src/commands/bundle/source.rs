//! The file of a bundle that the command line names, or its standard input.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use opkeep_bundle::BundleReader;
use opkeep_fs::Fs;

use crate::ui::output::Output;

/// The name of the standard input and the standard output.
pub(crate) const STANDARD: &str = "-";

/// Opens the bundle at `path`. What comes from the standard input is copied to a file first: the index is at the end, and nothing is
/// taken of an incomplete bundle.
///
/// # Errors
/// It cannot be read, or it is no bundle.
pub(crate) fn open(path: &Path, output: &Output) -> anyhow::Result<BundleReader<File>> {
    let fs = Fs::new();
    let file = match path == Path::new(STANDARD) {
        false => fs.open_file(path).with_context(|| format!("cannot read `{}`", path.display()))?.0,
        true => {
            if !output.has_standard_streams() {
                bail!("the standard input is the caller's; give the name of a file");
            }
            let dir = std::env::temp_dir();
            let cannot = || format!("cannot copy the standard input to a file in `{}`", dir.display());
            let mut file = fs.unnamed_file(&dir).with_context(cannot)?;
            io::copy(&mut io::stdin().lock(), &mut file).with_context(cannot)?;
            file
        }
    };
    BundleReader::open(file).with_context(|| format!("`{}`", path.display()))
}
