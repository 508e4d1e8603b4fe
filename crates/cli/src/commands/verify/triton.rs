//! The check of Triton's directory: its kernels by themselves, and by the entries of the store.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_framework_cache::triton::{
    Compared, FileState, KeyDir, KeyFiles, StoredGroup, TRITON, TritonDir, TritonGroup,
};
use opkeep_fs::CancelToken;
use opkeep_store::Access;
use serde::Serialize;

use super::findings::{FindingOutput, finding_outputs, line};
use crate::flags::store::StoreArgs;
use crate::input::groups::stored_groups;
use crate::input::real_path;
use crate::input::store::{StorePath, threads};
use crate::ui::json;
use crate::ui::output::{Output, chain};
use crate::ui::text::{Text, counted, quotable, quoted_path};

/// The maximum number of damaged kernels of a directory that are listed in text.
const MAX_LISTED: usize = 50;

/// Triton's directories that were checked.
#[derive(Default)]
pub(crate) struct CheckedTriton {
    pub(crate) text: Text,
    pub(crate) dirs: Vec<TritonOutput>,
    pub(crate) intact: usize,
    pub(crate) refused: usize,
    /// The directories of the keys that were checked.
    seen: HashSet<PathBuf>,
}

/// Triton's directory as JSON.
#[derive(Serialize)]
pub(crate) struct TritonOutput {
    folder: String,
    /// The directories of its keys.
    directories: usize,
    /// The kernels, each counted in each directory that has its files.
    kernels: usize,
    intact: usize,
    /// How many of the intact ones have the bytes of an entry of the store.
    stored: usize,
    other_files: usize,
    damaged: Vec<DamagedOutput>,
}

#[derive(Serialize)]
struct DamagedOutput {
    file: String,
    kernel: String,
    target: String,
    /// The key of the entry that its files should be, if there is one.
    stored: Option<String>,
    problems: Vec<String>,
    findings: Vec<FindingOutput>,
}

/// The files of one of Triton's directories.
#[derive(Default)]
struct Found {
    directories: usize,
    /// Whether a kernel lies in the directory of its key, and another one in that of a toolchain.
    is_twofold: bool,
    groups: Vec<TritonGroup>,
    others: usize,
}

impl CheckedTriton {
    /// Checks each directory once, and changes nothing. Returns the directories that cannot be read, each with the error.
    pub(crate) fn add(
        &mut self,
        dirs: Vec<TritonDir>,
        store: &StoreArgs,
        cancel: &CancelToken,
        output: &Output,
    ) -> Vec<(PathBuf, anyhow::Error)> {
        let mut unreadable = Vec::new();
        for dir in dirs {
            let mut new = |path: &Path| !cancel.is_cancelled() && self.seen.insert(real_path(path));
            let keys: Vec<_> = dir.keys.into_iter().filter(|key| new(&key.path)).collect();
            if keys.is_empty() {
                continue;
            }
            let stored = stored_of(&keys, store, cancel, output);
            let is_of_toolchain = |key: &KeyDir| key.toolchain.is_some();
            let is_twofold = keys.iter().any(is_of_toolchain) && !keys.iter().all(is_of_toolchain);
            let mut found = Found { is_twofold, ..Found::default() };
            for key in keys {
                let judge = || -> std::io::Result<KeyFiles> {
                    let mut files = key.judge()?;
                    key.add_stored(&mut files, &stored)?;
                    Ok(files)
                };
                match judge() {
                    Ok(files) => {
                        found.directories += 1;
                        found.groups.extend(files.groups);
                        found.others += files.others.len();
                    }
                    Err(error) => {
                        let error = anyhow::Error::new(error);
                        unreadable.push((
                            key.path.clone(),
                            error.context(format!("cannot read `{}`", quotable(&key.path))),
                        ));
                    }
                }
            }
            self.judge(&dir.path, &found, &stored);
        }
        unreadable
    }

    fn judge(&mut self, path: &Path, found: &Found, stored: &[StoredGroup]) {
        let (mut lines, mut damaged, mut as_stored, mut as_stored_files) = (Vec::new(), Vec::new(), 0, 0);
        let (mut kernels, mut intact) = (0, 0);
        for group in &found.groups {
            let meant = group.meant(stored);
            let is_as_stored = meant.as_ref().is_some_and(|meant| meant.differing() == 0);
            let is_intact = group.is_intact() && (is_as_stored || meant.is_none());
            kernels += usize::from(group.is_kernel);
            if !is_intact {
                let (text, output) = damaged_group(group, meant.as_ref());
                lines.push(text);
                damaged.push(output);
            } else if group.is_kernel {
                intact += 1;
                as_stored += usize::from(is_as_stored);
            } else {
                as_stored_files += group.files.len();
            }
        }
        self.text.line(format_args!(
            "Triton's directory {}: {} in {}, {intact} intact, {} damaged; {as_stored} as in the store, {} not stored",
            path.display(),
            counted(kernels, "kernel"),
            counted(found.directories, "directory"),
            damaged.len(),
            intact - as_stored,
        ));
        if found.is_twofold {
            self.text.line(
                "  a kernel is counted in each directory: Triton opens KEY.opkeep-*, and KEY has copies",
            );
        }
        let more = lines.len().saturating_sub(MAX_LISTED);
        self.text.extend(lines.into_iter().take(MAX_LISTED));
        if more > 0 {
            self.text.line(format_args!("  and {}", counted(more, "other")));
        }
        let files = found.others + as_stored_files;
        if files > 0 {
            let of_these = if as_stored_files > 0 {
                format!("{as_stored_files} as in the store, {} which nothing describes", found.others)
            } else {
                "which nothing describes".to_owned()
            };
            self.text.line(format_args!("  beside the kernels, {}, {of_these}", counted(files, "file")));
        }
        if !damaged.is_empty() {
            self.text.line(format_args!("  `opkeep repair {}` {HELP}", quoted_path(path)));
        }
        self.intact += intact;
        self.refused += damaged.len();
        self.dirs.push(TritonOutput {
            folder: json::path(path),
            directories: found.directories,
            kernels,
            intact,
            stored: as_stored,
            other_files: files,
            damaged,
        });
    }
}

/// What a repair does about damage in Triton's directory.
const HELP: &str = "says which directories to delete, so that they are made again";

/// Returns the entries of the keys, if there is a store that can be used.
fn stored_of(keys: &[KeyDir], args: &StoreArgs, cancel: &CancelToken, output: &Output) -> Vec<StoredGroup> {
    let keys: BTreeSet<Digest> = opkeep_order::set(keys.iter().map(KeyDir::framework_key));
    let read = || {
        let store = StorePath::default_store(args)?.open(Access::ReadOnly, args, output)?;
        let Some(store) = store else { return Ok(Vec::new()) };
        stored_groups(&store, None, threads(None), cancel, |record| {
            record.key.framework == TRITON && keys.contains(&record.key.framework_key)
        })
    };
    read().unwrap_or_else(|error: anyhow::Error| {
        output.print_warning(&format!("kernels of Triton are judged without the store: {}", chain(&error)));
        Vec::new()
    })
}

fn damaged_group(group: &TritonGroup, meant: Option<&Compared<'_>>) -> (Text, DamagedOutput) {
    let TritonGroup { path, kernel, target, problems, report, .. } = group;
    let of_kernel = if kernel.is_empty() { String::new() } else { format!(" ({kernel} for {target})") };
    let mut text = Text::of(format_args!("  damaged  {}{of_kernel}", path.display()));
    let mut problems = problems.clone();
    // A file that is missing is a problem of the group already.
    let is_new = |state| problems.is_empty() || state == FileState::Differs;
    let differences: Vec<String> = meant
        .iter()
        .flat_map(|meant| meant.files.iter().zip(meant.texts()))
        .filter(|(file, _)| is_new(file.state))
        .filter_map(|(_, text)| text)
        .collect();
    match meant {
        Some(meant) if !differences.is_empty() => {
            problems.push(format!("{}; the entry is {}", differences.join(", "), meant.stored.key));
        }
        _ => {
            problems.extend(group.unlike_record.iter().map(|name| {
                format!("`{name}` has other bytes than the record `{}.opkeep` states", group.name)
            }))
        }
    }
    text.extend(problems.iter().map(|problem| Text::of(format_args!("    error    {problem}"))));
    text.extend(report.iter().flat_map(|report| report.errors()).map(line));
    let output = DamagedOutput {
        file: json::path(path),
        kernel: kernel.clone(),
        target: target.clone(),
        stored: meant.map(|meant| meant.stored.key.to_string()),
        problems,
        findings: report.as_ref().map(finding_outputs).unwrap_or_default(),
    };
    (text, output)
}
