//! `opkeep inspect` for a directory: what it is, how many kernels are in it, and in which state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::bail;
use opkeep_framework_cache::scan::{CacheDir, Item, ItemKind, Kind, find};
use opkeep_framework_cache::triton::{TritonDir, take as take_triton};
use opkeep_framework_cache::{Links, Tree};
use opkeep_fs::{CancelToken, Fs};
use opkeep_store::{Access, GcOptions};
use serde::Serialize;

use super::inspected_file::InspectedFile;
use crate::commands::import::would_import;
use crate::commands::verify::caches::scan_with_progress;
use crate::config::Settings;
use crate::flags::store::StoreArgs;
use crate::input::store::{StorePath, open_existing, threads};
use crate::setup;
use crate::ui::output::Output;
use crate::ui::text::{bytes, duration, quotable, quoted_path};

/// A directory with kernels, as JSON.
#[derive(Default, Serialize)]
struct DirectoryOutput {
    /// `store`, `mindspore`, `akg`, `cann`, `package`, `work` or `triton`.
    what: &'static str,
    /// The target or the chip, if the directory states one.
    target: Option<String>,
    rank: Option<String>,
    kernels: usize,
    /// The number of kernels and other items of each state, such as `intact` and `damaged`. Entries of a store are not
    /// judged, and neither are kernels of Triton.
    states: BTreeMap<&'static str, usize>,
    files: usize,
    bytes: u64,
    /// The seconds since the oldest and the newest file were written.
    oldest_seconds: Option<u64>,
    newest_seconds: Option<u64>,
    /// The command that comes next.
    next: String,
}

/// Returns the fields of each store and cache at and below the directory `path`.
pub(super) fn directory(
    path: &Path,
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Vec<(PathBuf, InspectedFile)>> {
    let cancel = output.cancel_on_signal();
    let mut all = Vec::new();
    if let Some(store) = StorePath::of(path) {
        all.extend(targets(&store, settings, output)?);
    }
    let mut found = find(path)?;
    for triton in take_triton(&mut found) {
        all.push((triton.path.clone(), described("directory of Triton", of_triton(&triton))));
    }
    for root in &found.stores {
        // That of the path itself is listed.
        if let Some(store) = StorePath::of(root).filter(|store| StorePath::of(path).as_ref() != Some(store)) {
            all.extend(targets(&store, settings, output)?);
        }
    }
    for cache in &found.caches {
        all.push((
            cache.path.clone(),
            described(name_of(cache.kind), of_cache(cache, settings, output, &cancel)?),
        ));
    }
    if all.is_empty() {
        bail!(
            "there are no kernels in `{}`: expected a store, kernel_meta, akg_kernel_meta, kernel_cache/<soc>, Triton's \
             directory, or a directory above one",
            path.display()
        );
    }
    Ok(all)
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::MindSpore => "kernel_meta of MindSpore",
        Kind::Akg => "akg_kernel_meta of AKG",
        Kind::Cann => "kernel_cache of CANN",
        Kind::Package => "kernels of an operator package",
        Kind::Work => "work directory of CANN",
        _ => "cache",
    }
}

/// Returns the targets of a store.
fn targets(
    path: &StorePath,
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Vec<(PathBuf, InspectedFile)>> {
    let config = setup::store_at(path.root.clone(), &StoreArgs::of(settings));
    let Some(store) = open_existing(config, Access::ReadOnly, output)? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (name, target) in path.target_stores(&store)? {
        let target = target?;
        let usage = target.gc(&GcOptions::default().with_dry_run(true))?.before;
        let dir = path.root.join("v1").join(&name);
        let mut found = DirectoryOutput { what: "store", target: Some(name), ..DirectoryOutput::default() };
        found.measure(&dir.join("entries"));
        found.kernels = usize::try_from(usage.entries.files).unwrap_or(usize::MAX);
        if usage.quarantined_entries > 0 {
            let count = usize::try_from(usage.quarantined_entries).unwrap_or(usize::MAX);
            found.states.insert("quarantined", count);
        }
        let root = quoted_path(&path.root);
        found.next = format!("opkeep ls --op_compiler_cache_dir {root}");
        all.push((dir, described("target in a store of opkeep", found)));
    }
    Ok(all)
}

fn of_triton(triton: &TritonDir) -> DirectoryOutput {
    let mut found = DirectoryOutput { what: "triton", ..DirectoryOutput::default() };
    found.measure(&triton.path);
    found.kernels = triton.keys.len();
    found.next = format!("opkeep verify {}", quoted_path(&triton.path));
    found
}

/// Judges a cache of a framework.
fn of_cache(
    cache: &CacheDir,
    settings: &Settings,
    output: &Output,
    cancel: &CancelToken,
) -> anyhow::Result<DirectoryOutput> {
    let progress = output.progress();
    let scan = scan_with_progress(cache, threads(None), &progress, cancel);
    progress.done();
    let scan = scan?;
    let mut found = DirectoryOutput { what: cache.kind.name(), ..DirectoryOutput::default() };
    (found.target, found.rank) = (cache.soc.clone(), cache.rank.clone());
    found.measure(&cache.path);
    found.kernels = scan.items.iter().filter(|item| item.kind == ItemKind::Kernel).count();
    for item in &scan.items {
        *found.states.entry(item.state_name()).or_default() += 1;
    }
    let has_finding = scan.items.iter().any(Item::is_finding);
    let path = quoted_path(&cache.path);
    // Those that are in no store, and have descriptors.
    let is_importable = || {
        would_import(cache, &scan, &StoreArgs::of(settings), cancel).unwrap_or_else(|error| {
            let dir = quotable(&cache.path);
            output.print_warning(&format!(
                "it is not known whether `{dir}` has kernels for an import: {error:#}"
            ));
            false
        })
    };
    found.next = match (has_finding, cache.kind) {
        (true, _) => format!("opkeep verify {path}"),
        (false, Kind::Cann) => format!("opkeep gc {path} --dry-run"),
        (false, _) if is_importable() => format!("opkeep import {path} --dry-run"),
        // A directory whose kernels are all in the store, or have no descriptors.
        (false, _) => format!("opkeep verify {path}"),
    };
    Ok(found)
}

impl DirectoryOutput {
    /// Measures the files below `dir`.
    fn measure(&mut self, dir: &Path) {
        let (fs, now) = (Fs::new(), SystemTime::now());
        let files = Tree::below(dir, Links::Leave, |_| true).map(|tree| tree.files).unwrap_or_default();
        for file in files.iter().filter_map(|path| fs.look(path).ok()) {
            self.files += 1;
            self.bytes += file.state.len;
            let age = now.duration_since(file.modified()).unwrap_or_default().as_secs();
            self.oldest_seconds = self.oldest_seconds.max(Some(age));
            self.newest_seconds = Some(self.newest_seconds.map_or(age, |newest| newest.min(age)));
        }
    }
}

fn described(kind: &'static str, found: DirectoryOutput) -> InspectedFile {
    let mut file = InspectedFile::new(kind);
    for (name, value) in [("target", &found.target), ("rank", &found.rank)] {
        value.iter().for_each(|value| file.field(name, value));
    }
    file.field(if found.what == "triton" { "keys" } else { "kernels" }, found.kernels);
    found.states.iter().for_each(|(state, count)| file.field(*state, count));
    file.field("files", format!("{}, {}", found.files, bytes(found.bytes)));
    if let (Some(oldest), Some(newest)) = (found.oldest_seconds, found.newest_seconds) {
        file.field("written", format!("{} to {} ago", duration(newest), duration(oldest)));
    }
    file.field("next", format!("`{}`", found.next));
    file.detail("directory", &found);
    file
}
