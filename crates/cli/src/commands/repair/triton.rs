//! What a repair of Triton's directories would do.
//!
//! Nothing in them is changed. A process may write a file at the moment at which it is replaced, files of one kernel are replaced one
//! after the other, and in the directory of Triton's own key nothing proves whose an intact file is that differs from an entry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_framework_cache::quarantine::{RepairError, RunId};
use opkeep_framework_cache::triton::{
    KeyDir, QuarantinedGroup, RepairedDir, SkippedGroup, StoredGroup, TRITON, TritonDir, TritonRepairOptions,
    WrittenGroup, repair,
};
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::verify_entry;
use opkeep_store::{Access, Entry, Lookup, Store};
use opkeep_validator::Validator;
use serde::Serialize;

use super::args::Args;
use super::causes::{cause_name, list};
use crate::input::groups::stored_groups;
use crate::input::real_path;
use crate::input::store::{StorePath, threads};
use crate::ui::hints;
use crate::ui::json;
use crate::ui::output::{Output, chain};
use crate::ui::text::{Text, counted};

/// The repair of one of Triton's directories.
pub(crate) struct RepairedTriton {
    path: PathBuf,
    keys: Vec<(KeyDir, Result<RepairedDir, RepairError>)>,
}

impl RepairedTriton {
    /// Returns the number of remaining problems.
    pub(crate) fn left(&self) -> usize {
        let left = |dir: &RepairedDir| dir.skipped.len() + dir.written.len() + dir.quarantined.len();
        self.keys.iter().map(|(_, repaired)| repaired.as_ref().map_or(1, left)).sum()
    }

    fn done(&self) -> impl Iterator<Item = &RepairedDir> {
        self.keys.iter().filter_map(|(_, repaired)| repaired.as_ref().ok())
    }
}

/// Repairs Triton's directories, each directory of a key once; all those of a key together.
pub(crate) fn repair_dirs(
    dirs: Vec<TritonDir>,
    args: &Args,
    run: &RunId,
    cancel: &CancelToken,
    output: &Output,
) -> Vec<RepairedTriton> {
    if dirs.is_empty() {
        return Vec::new();
    }
    let keys: BTreeSet<Digest> =
        opkeep_order::set(dirs.iter().flat_map(|dir| &dir.keys).map(KeyDir::framework_key));
    let (store, stored) = stored_of(&keys, args, cancel, output);
    let entry = |group: &StoredGroup| store.as_ref().and_then(|store| valid_entry(store, group));
    let mut options = TritonRepairOptions::new(run, &entry);
    (options.force, options.dry_run) = (args.force, true);
    let (mut repaired, mut seen) = (Vec::new(), BTreeSet::new());
    for TritonDir { path, keys, .. } in dirs {
        let mut of_key: BTreeMap<String, Vec<KeyDir>> = BTreeMap::new();
        for dir in keys {
            if seen.insert(real_path(&dir.path)) {
                of_key.entry(dir.key.clone()).or_default().push(dir);
            }
        }
        let mut done = Vec::new();
        for dirs in of_key.into_values().take_while(|_| !cancel.is_cancelled()) {
            done.extend(repair(&dirs, &stored, &options));
        }
        repaired.push(RepairedTriton { path, keys: done });
    }
    repaired
}

/// Returns the store, and its groups of `keys`.
fn stored_of(
    keys: &BTreeSet<Digest>,
    args: &Args,
    cancel: &CancelToken,
    output: &Output,
) -> (Option<Store>, Vec<StoredGroup>) {
    let read = || {
        let store = StorePath::default_store(&args.store)?.open(Access::ReadOnly, &args.store, output)?;
        let Some(store) = store else { return Ok((None, Vec::new())) };
        let stored = stored_groups(&store, None, threads(args.jobs), cancel, |record| {
            record.key.framework == TRITON && keys.contains(&record.key.framework_key)
        })?;
        Ok((Some(store), stored))
    };
    read().unwrap_or_else(|error: anyhow::Error| {
        output.print_warning(&format!("kernels of Triton are repaired without the store: {}", chain(&error)));
        (None, Vec::new())
    })
}

/// Returns the entry of a group if it is still there, with all its bytes, and holds the kernel of its key.
fn valid_entry(store: &Store, group: &StoredGroup) -> Option<Entry> {
    let target = &group.record.key.target;
    let Lookup::Hit(entry) = store.target(target).ok()?.peek(&group.key) else { return None };
    let is_valid = verify_entry(&entry, target, &Validator::builtin()).into_result().is_ok();
    let is_same = || StoredGroup::of(&entry).is_some_and(|now| now.files == group.files);
    let is_used = is_valid && is_same();
    is_used.then_some(*entry)
}

pub(crate) fn text(repaired: &RepairedTriton) -> Text {
    let (groups, intact) =
        repaired.done().fold((0, 0), |(groups, intact), dir| (groups + dir.groups, intact + dir.intact));
    let mut text = Text::of(format_args!(
        "Triton's directory {}: {}, {intact} intact",
        json::path(&repaired.path),
        counted(groups, "kernel")
    ));
    let path = |dir: &RepairedDir, name: &str| json::path(&dir.dir.path.join(name));
    let done = || repaired.done().map(|dir| (dir, move |name: &str| path(dir, name)));
    list(
        &mut text,
        done().flat_map(|(dir, path)| {
            dir.written.iter().map(move |WrittenGroup { name, files, entry, .. }| {
                let files = files.join(", ");
                format!("  not as in the store: {}: {files}; the entry is {entry}", path(name))
            })
        }),
    );
    list(
        &mut text,
        done().flat_map(|(dir, path)| {
            let line = move |QuarantinedGroup { name, reason, .. }: &QuarantinedGroup| {
                format!("  damaged: {}: {reason}", path(name))
            };
            dir.quarantined.iter().map(line)
        }),
    );
    list(
        &mut text,
        done().flat_map(|(dir, path)| {
            let line = move |SkippedGroup { name, reason, cause, .. }: &SkippedGroup| {
                format!("  left: {}: {reason}: {cause}", path(name))
            };
            dir.skipped.iter().map(line)
        }),
    );
    let errors = repaired.keys.iter().filter_map(|(dir, repaired)| Some((dir, repaired.as_ref().err()?)));
    list(
        &mut text,
        errors
            .map(|(dir, error)| format!("  left: {}: {}", json::path(&dir.path), hints::repair_error(error))),
    );
    if repaired.left() > 0 {
        text.line("  nothing is changed: delete the directories of these kernels when no program uses them; they are made again");
    }
    text
}

/// One of Triton's directories as JSON.
#[derive(Serialize)]
pub(crate) struct TritonOutput {
    folder: String,
    directories: Vec<KeyDirOutput>,
}

#[derive(Serialize)]
struct KeyDirOutput {
    folder: String,
    kernels: usize,
    intact: usize,
    quarantine: Option<String>,
    written: Vec<WrittenOutput>,
    moved: Vec<MovedOutput>,
    left: Vec<LeftOutput>,
}

#[derive(Serialize)]
struct WrittenOutput {
    name: String,
    files: Vec<String>,
    #[serde(serialize_with = "json::as_text")]
    entry: Digest,
}

#[derive(Serialize)]
struct MovedOutput {
    name: String,
    files: Vec<String>,
    why: String,
}

#[derive(Serialize)]
struct LeftOutput {
    name: String,
    kind: &'static str,
    problem: String,
    why: String,
}

impl From<&RepairedTriton> for TritonOutput {
    fn from(repaired: &RepairedTriton) -> Self {
        let of_dir = |(dir, repaired): &(KeyDir, Result<RepairedDir, RepairError>)| {
            let folder = json::path(&dir.path);
            match repaired {
                Ok(repaired) => dir_output(folder, repaired),
                Err(error) => unread_output(folder, hints::repair_error(error)),
            }
        };
        Self { folder: json::path(&repaired.path), directories: repaired.keys.iter().map(of_dir).collect() }
    }
}

/// A directory that cannot be read.
fn unread_output(folder: String, why: String) -> KeyDirOutput {
    let left = LeftOutput { name: String::new(), kind: "unreadable", problem: why.clone(), why };
    let (written, moved, left) = (Vec::new(), Vec::new(), vec![left]);
    KeyDirOutput { folder, kernels: 0, intact: 0, quarantine: None, written, moved, left }
}

fn dir_output(folder: String, repaired: &RepairedDir) -> KeyDirOutput {
    let RepairedDir { groups, intact, written, quarantined, skipped, quarantine, .. } = repaired;
    let written = written.iter().map(|WrittenGroup { name, files, entry, .. }| WrittenOutput {
        name: name.clone(),
        files: files.clone(),
        entry: *entry,
    });
    let moved = quarantined.iter().map(|QuarantinedGroup { name, files, reason, .. }| MovedOutput {
        name: name.clone(),
        files: files.clone(),
        why: reason.clone(),
    });
    let left = skipped.iter().map(|SkippedGroup { name, reason, cause, .. }| LeftOutput {
        name: name.clone(),
        kind: cause_name(cause),
        problem: reason.clone(),
        why: cause.to_string(),
    });
    KeyDirOutput {
        folder,
        kernels: *groups,
        intact: *intact,
        quarantine: quarantine.as_deref().map(json::path),
        written: written.collect(),
        moved: moved.collect(),
        left: left.collect(),
    }
}

/// Adds Triton's directories at and below `path`; those of the same key, if `path` is that of one.
pub(crate) fn add_dirs(path: &Path, found: Vec<TritonDir>, dirs: &mut Vec<TritonDir>) {
    for mut dir in found {
        let own = dir.keys.iter().find(|key| real_path(&key.path) == real_path(path));
        if let Some(all) = own.and_then(|key| key.all_of_key().ok()) {
            dir.keys = all;
        }
        dirs.push(dir);
    }
}
