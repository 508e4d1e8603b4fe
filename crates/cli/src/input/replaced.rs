//! Files that a command's output may replace: only those that it wrote itself.

use std::io::Read;
use std::path::Path;

use crate::ui::text::quotable;
use anyhow::{Context, ensure};
use opkeep_fs::Fs;

/// Checks that an output at `path` is a new file, or replaces a file whose first `head_bytes` bytes are those of `noun` by `is_own`, or an
/// empty one. What is no file is for the function that creates the output.
///
/// # Errors
/// It would replace another file, or one that cannot be read.
pub(crate) fn check_replaced(
    path: &Path,
    noun: &str,
    head_bytes: u64,
    is_own: impl FnOnce(&[u8]) -> bool,
) -> anyhow::Result<()> {
    let shown = quotable(path);
    let is_file = Fs::new().metadata(path).is_ok_and(|found| found.is_file());
    let file = match Fs::new().open_file(path) {
        Ok((file, _)) => file,
        Err(error) if is_file => {
            return Err(error).with_context(|| format!("`{shown}` cannot be read, so it is not replaced"));
        }
        Err(_) => return Ok(()),
    };
    let mut head = Vec::new();
    file.take(head_bytes).read_to_end(&mut head).with_context(|| format!("cannot read `{shown}`"))?;
    ensure!(
        head.is_empty() || is_own(&head),
        "`{shown}` is no {noun}, so it is not replaced; remove it, or give the {noun} another name"
    );
    Ok(())
}
