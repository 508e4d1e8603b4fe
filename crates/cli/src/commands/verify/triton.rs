//! The check of Triton's directory: its kernels by themselves, and by the entries of the store.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_framework_cache::triton::{KeyFiles, TritonDir, TritonGroup};
use opkeep_fs::CancelToken;
use opkeep_store::Access;
use serde::Serialize;

use super::findings::{FindingOutput, finding_outputs, line};
use crate::flags::store::StoreArgs;
use crate::input::groups::{Compared, StoredGroup, TRITON, compare, stored_groups};
use crate::input::real_path;
use crate::input::store::{StorePath, threads};
use crate::ui::json;
use crate::ui::output::{Output, chain};
use crate::ui::text::{Text, counted};

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
    /// The key of the entry that its files differ from least, if there is one.
    stored: Option<String>,
    problems: Vec<String>,
    findings: Vec<FindingOutput>,
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
            let keys: Vec<_> = dir.keys.iter().filter(|key| new(&key.path)).collect();
            if keys.is_empty() {
                continue;
            }
            let mut found = KeyFiles::default();
            for key in keys {
                match key.judge() {
                    Ok(files) => {
                        found.groups.extend(files.groups);
                        found.others.extend(files.others);
                    }
                    Err(error) => {
                        let error = anyhow::Error::new(error);
                        unreadable.push((
                            key.path.clone(),
                            error.context(format!("cannot read `{}`", key.path.display())),
                        ));
                    }
                }
            }
            let stored = stored_of(&found.groups, store, cancel, output);
            self.judge(&dir.path, &found, &stored);
        }
        unreadable
    }

    fn judge(&mut self, path: &Path, found: &KeyFiles, stored: &[StoredGroup]) {
        let (mut lines, mut damaged, mut as_stored) = (Vec::new(), Vec::new(), 0);
        for group in &found.groups {
            let compared = compare(group, stored).into_iter().next();
            let is_as_stored = compared.as_ref().is_some_and(|compared| compared.differing() == 0);
            if group.is_intact() && (is_as_stored || compared.is_none()) {
                as_stored += usize::from(is_as_stored);
                continue;
            }
            let (text, output) = damaged_group(group, compared.as_ref());
            lines.push(text);
            damaged.push(output);
        }
        let (kernels, others) = (found.groups.len(), found.others.len());
        let intact = kernels - damaged.len();
        self.text.line(format_args!(
            "Triton's directory {}: {}, {intact} intact, {} damaged; {as_stored} as in the store, {} not there",
            path.display(),
            counted(kernels, "kernel"),
            damaged.len(),
            intact - as_stored,
        ));
        let more = lines.len().saturating_sub(MAX_LISTED);
        self.text.extend(lines.into_iter().take(MAX_LISTED));
        if more > 0 {
            self.text.line(format_args!("  and {}", counted(more, "other")));
        }
        if others > 0 {
            self.text.line(format_args!(
                "  beside the kernels, {}, which nothing describes",
                counted(others, "file")
            ));
        }
        if !damaged.is_empty() {
            self.text.line(format_args!("  {}", HELP));
        }
        self.intact += intact;
        self.refused += damaged.len();
        self.dirs.push(TritonOutput {
            folder: json::path(path),
            kernels,
            intact,
            stored: as_stored,
            other_files: others,
            damaged,
        });
    }
}

/// What to do about damage in Triton's directory.
pub(crate) const HELP: &str = "with opkeep's manager, Triton's next hit writes what differs again from the store; without it, \
    delete the directory of the key, and Triton compiles its kernels again";

/// Returns the entries for the groups, if there is a store that can be used.
fn stored_of(
    groups: &[TritonGroup],
    args: &StoreArgs,
    cancel: &CancelToken,
    output: &Output,
) -> Vec<StoredGroup> {
    let keys: BTreeSet<Digest> = groups.iter().map(|group| group.framework_key).collect();
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

fn damaged_group(group: &TritonGroup, compared: Option<&Compared<'_>>) -> (Text, DamagedOutput) {
    let TritonGroup { path, kernel, target, problems, report, .. } = group;
    let of_kernel = if kernel.is_empty() { String::new() } else { format!(" ({kernel} for {target})") };
    let mut text = Text::of(format_args!("  damaged  {}{of_kernel}", path.display()));
    let mut problems = problems.clone();
    let stored = compared.map(|compared| compared.stored.key);
    // A file that is missing is a problem of the group already.
    let is_new = |difference: &String| problems.is_empty() || difference.contains("differs");
    let differences: Vec<String> =
        compared.iter().flat_map(|compared| compared.differences()).filter(is_new).collect();
    if let Some(key) = stored.filter(|_| !differences.is_empty()) {
        problems.push(format!("{}; the entry is {key}", differences.join(", ")));
    }
    text.extend(problems.iter().map(|problem| Text::of(format_args!("    error    {problem}"))));
    text.extend(report.iter().flat_map(|report| report.errors()).map(line));
    let output = DamagedOutput {
        file: json::path(path),
        kernel: kernel.clone(),
        target: target.clone(),
        stored: stored.map(|key| key.to_string()),
        problems,
        findings: report.as_ref().map(finding_outputs).unwrap_or_default(),
    };
    (text, output)
}
