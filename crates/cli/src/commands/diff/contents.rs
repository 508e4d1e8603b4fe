//! What is in a directory or a store, by name.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use opkeep_digest::Digest;
use opkeep_framework_cache::{Links, Tree};
use opkeep_store::{Access, OpenEntry};

use crate::config::Settings;
use crate::flags::store::StoreArgs;
use crate::input::entries::{ReadHeads, read_heads};
use crate::input::read_file;
use crate::input::store::{StorePath, open_existing, threads};
use crate::setup;
use crate::ui::output::Output;
use crate::ui::text::quotable;

/// The size and the digest of a file, or of what is in an entry.
pub(super) struct Content {
    pub(super) bytes: u64,
    pub(super) digest: Digest,
}

/// Returns the files of kernels below `dir`, by their paths in it.
pub(super) fn of_files(dir: &Path) -> anyhow::Result<BTreeMap<String, Content>> {
    const SUFFIXES: [&str; 7] = ["o", "json", "info", "so", "cubin", "hsaco", "kern"];
    let is_kernels =
        |path: &Path| path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    let tree = Tree::below(dir, Links::Leave, is_kernels)?;
    let content = |path: &Path| -> anyhow::Result<(String, Content)> {
        let bytes = read_file(path, opkeep_store::MAX_ENTRY_BYTES)?;
        let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy().into_owned();
        Ok((name, Content { bytes: bytes.len() as u64, digest: Digest::of(&bytes) }))
    };
    if let Some((_, error)) = tree.unreadable_dirs.into_iter().next() {
        return Err(error.into());
    }
    if let Some(path) = tree.too_deep.first() {
        bail!("`{}` is nested too deep", quotable(path));
    }
    tree.files.iter().map(|path| content(path)).collect()
}

/// Returns the entries of a store, or of one target in it, by target and key.
///
/// # Errors
/// An entry cannot be read, or it was cancelled: what was not read is not the same.
pub(super) fn of_store(
    path: &StorePath,
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<BTreeMap<String, Content>> {
    let config = setup::store_at(path.root.clone(), &StoreArgs::of(settings));
    let mut all = BTreeMap::new();
    let Some(store) = open_existing(config, Access::ReadOnly, output)? else { return Ok(all) };
    let cancel = output.cancel_token();
    for (name, target) in path.target_stores(&store)? {
        let target = target?;
        // The header has the time of the compile, and the version that wrote it.
        let read = |entry: &OpenEntry<'_>| {
            let head = entry.head();
            let names = head.names().filter(|name| *name != opkeep_kernel_entry::member::HEADER);
            let digests: String = names
                .map(|name| {
                    let digest = head.member_digest(name).map(Digest::to_string).unwrap_or_default();
                    format!("{name} {digest}\n")
                })
                .collect();
            let content = Content { bytes: head.file_bytes(), digest: Digest::of(digests.as_bytes()) };
            Some((*head.key(), content))
        };
        let ReadHeads { read, unread } = read_heads(&target, threads(None), &cancel, read)?;
        if let Some(problem) = unread.problem() {
            bail!("cannot compare target {name} of `{}`: {problem}", quotable(&path.root));
        }
        for (key, content) in read {
            let name = match path.target {
                Some(_) => key.to_string(),
                None => format!("{name}/{key}"),
            };
            all.insert(name, content);
        }
    }
    Ok(all)
}
