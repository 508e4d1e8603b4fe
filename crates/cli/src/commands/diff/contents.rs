//! What is in a directory or a store, by name.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::SystemTime;

use anyhow::bail;
use opkeep_digest::Digest;
use opkeep_framework_cache::{Links, Tree};
use opkeep_fs::Fs;
use opkeep_store::{Access, OpenEntry};

use crate::commands::ls::{ListedOutput, listed};
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
    /// What `opkeep ls` lists of an entry.
    pub(super) listed: Option<ListedOutput>,
}

/// What is in a directory or a store.
#[derive(Default)]
pub(super) struct Contents {
    /// What is compared, by name.
    pub(super) compared: BTreeMap<String, Content>,
    /// The names of what has no bytes to compare, each with the reason.
    pub(super) not_compared: BTreeMap<String, &'static str>,
}

/// Returns the files of kernels below `dir`, by their paths in it. Nothing waits for a pipe, and no device is read.
pub(super) fn of_files(dir: &Path) -> anyhow::Result<Contents> {
    const SUFFIXES: [&str; 7] = ["o", "json", "info", "so", "cubin", "hsaco", "kern"];
    let is_kernels =
        |path: &Path| path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    let tree = Tree::below(dir, Links::Leave, is_kernels)?;
    if let Some((_, error)) = tree.unreadable_dirs.into_iter().next() {
        return Err(error.into());
    }
    if let Some(path) = tree.too_deep.first() {
        bail!("`{}` is nested too deep", quotable(path));
    }
    let mut contents = Contents::default();
    for path in &tree.files {
        let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy().into_owned();
        if let Some(reason) = special(path) {
            contents.not_compared.insert(name, reason);
            continue;
        }
        let bytes = read_file(path, opkeep_store::MAX_ENTRY_BYTES)?;
        contents
            .compared
            .insert(name, Content { bytes: bytes.len() as u64, digest: Digest::of(&bytes), listed: None });
    }
    Ok(contents)
}

/// Returns what a path leads to, if it has no bytes to compare.
fn special(path: &Path) -> Option<&'static str> {
    let found = match Fs::new().metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some("a link to nothing"),
        // Reading it states why.
        Err(_) => return None,
    };
    let kinds = [
        (found.is_fifo(), "a pipe"),
        (found.is_socket(), "a socket"),
        (found.is_char_device() || found.is_block_device(), "a device"),
        (found.is_dir(), "a link to a directory"),
    ];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind)
}

/// Returns the entries of a store, or of one target in it, by target and key.
///
/// # Errors
/// An entry cannot be read, or it was cancelled: what was not read is not the same.
pub(super) fn of_store(path: &StorePath, settings: &Settings, output: &Output) -> anyhow::Result<Contents> {
    let config = setup::store_at(path.root.clone(), &StoreArgs::of(settings));
    let mut all = Contents::default();
    let Some(store) = open_existing(config, Access::ReadOnly, output)? else { return Ok(all) };
    let (cancel, now) = (output.cancel_token(), SystemTime::now());
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
            let (digest, listed) = (Digest::of(digests.as_bytes()), Some(listed(&name, entry, now)));
            let content = Content { bytes: head.file_bytes(), digest, listed };
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
            all.compared.insert(name, content);
        }
    }
    Ok(all)
}
