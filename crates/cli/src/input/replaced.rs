//! Files that a command's output may replace: only those that it wrote itself.

use std::io::Read;
use std::path::Path;

use crate::ui::text::quotable;
use anyhow::{Context, ensure};
use opkeep_fs::Fs;

/// Checks that an output at `path` is a new file, or replaces a file whose first `head_bytes` bytes are those of `noun` by `is_own`, or an
/// empty one.
///
/// # Errors
/// It would replace another file, one that cannot be read, a link, or what is no file.
pub(crate) fn check_replaced(
    path: &Path,
    noun: &str,
    head_bytes: u64,
    is_own: impl FnOnce(&[u8]) -> bool,
) -> anyhow::Result<()> {
    let shown = quotable(path);
    let Ok(found) = Fs::new().symlink_metadata(path) else { return Ok(()) };
    // The link itself would be replaced, also one such as /dev/stdout.
    ensure!(
        !found.is_symlink(),
        "`{shown}` is a link, so it is not replaced; name the file that it leads to"
    );
    ensure!(found.is_file(), "cannot write `{shown}`: it is neither a file nor a new name");
    let opened = Fs::new().open_file(path);
    let (file, _) = opened.with_context(|| format!("`{shown}` cannot be read, so it is not replaced"))?;
    let mut head = Vec::new();
    file.take(head_bytes).read_to_end(&mut head).with_context(|| format!("cannot read `{shown}`"))?;
    ensure!(
        head.is_empty() || is_own(&head),
        "`{shown}` is no {noun}, so it is not replaced; remove it, or give the {noun} another name"
    );
    Ok(())
}
