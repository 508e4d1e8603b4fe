//! `opkeep explain DIR` for Triton's directory: which of its kernels are stored, and whether their files are as stored.

use std::collections::BTreeSet;

use opkeep_digest::Digest;
use opkeep_framework_cache::triton::{
    Compared, ComparedFile, KeyDir, StoredGroup, TRITON, TritonDir, TritonGroup,
};
use opkeep_store::Access;
use serde::Serialize;

use super::groups::{GroupOutput, differences, group_output, group_text};
use crate::flags::compile::CompileArgs;
use crate::input::groups::stored_groups;
use crate::input::store::{StorePath, threads};
use crate::ui::hints::TRITON_MANAGER;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, counted};

/// The maximum number of files of a kernel that are listed in text.
const MAX_FILES: usize = 8;

/// The result as JSON.
#[derive(Serialize)]
struct TritonOutput {
    groups: Vec<GroupOutput>,
    directories: Vec<GroupDirOutput>,
}

/// A kernel in Triton's directory.
#[derive(Serialize)]
struct GroupDirOutput {
    file: String,
    kernel: String,
    target: String,
    #[serde(serialize_with = "json::as_text")]
    framework_key: Digest,
    outcome: &'static str,
    /// The key of the entry that the files should be; if that is not known, of the one that they differ from least. None for
    /// a miss.
    key: Option<String>,
    files: Vec<ComparedFile>,
    problems: Vec<String>,
    /// For a miss: the differences of the newest stored group of the kernel.
    differences: Vec<String>,
}

/// Reports each kernel in `dirs`.
pub(super) fn explain(dirs: &[TritonDir], args: &CompileArgs, output: &Output) -> anyhow::Result<ExitStatus> {
    let store_path = StorePath::default_store(&args.store)?;
    let store = store_path.open(Access::ReadOnly, &args.store, output)?;
    let cancel = output.cancel_token();
    let mut found = Vec::new();
    for key in dirs.iter().flat_map(|dir| &dir.keys) {
        match key.judge() {
            Ok(files) => found.push((key, files)),
            Err(error) => output.print_warning(&format!("cannot read `{}`: {error}", key.path.display())),
        }
    }
    let groups = || found.iter().flat_map(|(_, files)| &files.groups);
    let kernels: BTreeSet<String> = opkeep_order::set(groups().map(|group| group.kernel.clone()));
    let keys: BTreeSet<Digest> = opkeep_order::set(found.iter().map(|(key, _)| key.framework_key()));
    let stored = store.map(|store| {
        stored_groups(&store, None, threads(args.jobs()), &cancel, |record| {
            let is_wanted =
                keys.contains(&record.key.framework_key) || kernels.contains(record.kernel_or_name());
            record.key.framework == TRITON && is_wanted
        })
    });
    let stored = stored.transpose()?.unwrap_or_default();
    for (key, files) in &mut found {
        if let Err(error) = key.add_stored(files, &stored) {
            output.print_warning(&format!("cannot read `{}`: {error}", key.path.display()));
        }
    }
    let (mut text, mut directories, mut is_stored) = (Text::default(), Vec::new(), BTreeSet::new());
    for (key, group) in
        found.iter().flat_map(|(key, files)| files.groups.iter().map(move |group| (key, group)))
    {
        let (of_group, output) = explained(key, group, &stored, &mut is_stored);
        text.append(&of_group);
        directories.push(output);
    }
    let hits = directories.iter().filter(|directory| directory.outcome == "hit").count();
    let misses = directories.len() - hits;
    let root = store_path.root;
    text.line(format_args!(
        "{} in Triton's directory: {hits} stored in {}, {misses} not stored",
        counted(directories.len(), "kernel"),
        root.display()
    ));
    let is_reported = |group: &StoredGroup| is_stored.contains(&group.key);
    let groups =
        stored.into_iter().filter(is_reported).map(|group| group_output(group, Vec::new())).collect();
    output.print_result(&text, &TritonOutput { groups, directories })?;
    if misses > 0 {
        output.print_help(TRITON_MANAGER);
    }
    Ok(if cancel.is_cancelled() { ExitStatus::Interrupted } else { ExitStatus::Success })
}

/// Returns the entries of a group, first the one that its files should be, and whether that is known.
fn entries_of<'a>(group: &TritonGroup, stored: &'a [StoredGroup]) -> (Vec<Compared<'a>>, bool) {
    let mut compared = group.compare(stored);
    let Some(meant) = group.meant(stored) else {
        if group.toolchain.is_some() {
            // Those of other toolchains have directories of their own.
            compared.clear();
        }
        return (compared, false);
    };
    compared.retain(|compared| group.toolchain.is_none() && compared.stored.key != meant.stored.key);
    compared.insert(0, meant);
    (compared, true)
}

fn explained(
    dir: &KeyDir,
    group: &TritonGroup,
    stored: &[StoredGroup],
    is_stored: &mut BTreeSet<Digest>,
) -> (Text, GroupDirOutput) {
    let (compared, is_known) = entries_of(group, stored);
    let outcome = if compared.is_empty() { "miss" } else { "hit" };
    let name = if group.kernel.is_empty() { &group.name } else { &group.kernel };
    let target = if group.target.is_empty() { String::new() } else { format!(" for {}", group.target) };
    let mut text = Text::of(format_args!("{outcome:5} {name}{target}: {}", group.path.display()));
    for compared in &compared {
        is_stored.insert(compared.stored.key);
        text.append(&group_text(compared.stored, &[]));
    }
    let mut changes = Vec::new();
    match compared.first() {
        Some(best) => {
            match (best.differing(), is_known, &dir.toolchain) {
                (0, ..) => text.line("  its files have the bytes of that entry"),
                (_, false, _) => text.line(
                    "  its files have the bytes of no entry, and no record says of which they are: Triton's own manager may have \
                     written them",
                ),
                (_, true, Some(_)) => {
                    text.line("  Triton's next hit writes the files again that are not as stored:");
                }
                (_, true, None) => text.line(
                    "  these files are not as stored; delete the directory when no program uses it, and it is made again:",
                ),
            }
            if best.differing() > 0 {
                let more = |more| format!("    and {}", counted(more, "other file"));
                text.list(best.differences().map(|line| format!("    {line}")), MAX_FILES, more);
            }
            if compared.len() > 1 {
                text.line("  the compilers that run decide which of these entries is a hit");
            }
        }
        None => {
            text.line(match &dir.toolchain {
                Some(_) => "  nothing is stored for these compilers: the entry was evicted, deleted or quarantined",
                None => "  nothing is stored under its key: Triton compiled it without opkeep, or the entry was evicted",
            });
            let of_kernel = |stored: &&StoredGroup| {
                let record = &stored.record;
                record.kernel == group.kernel && record.key.target == group.target
            };
            let newest = stored.iter().filter(of_kernel).max_by_key(|stored| stored.created);
            if let Some(newest) = newest {
                // Its own toolchain is not known, only its key.
                let mut record = newest.record.clone();
                record.key.framework_key = group.framework_key;
                record.key.name.clone_from(&group.name);
                changes = differences(&record, &newest.record);
                text.line(format_args!("  the newest stored entry of this kernel is {}", newest.key));
                text.extend(changes.iter().map(|change| Text::of(format_args!("    {change}"))));
            }
        }
    }
    text.extend(group.problems.iter().map(|problem| Text::of(format_args!("  damaged: {problem}"))));
    let best = compared.into_iter().next();
    let output = GroupDirOutput {
        file: json::path(&group.path),
        kernel: group.kernel.clone(),
        target: group.target.clone(),
        framework_key: group.framework_key,
        outcome,
        key: best.as_ref().map(|best| best.stored.key.to_string()),
        files: best.map(|best| best.files).unwrap_or_default(),
        problems: group.problems.clone(),
        differences: changes,
    };
    (text, output)
}
