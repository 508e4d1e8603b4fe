//! `opkeep explain --framework`: the stored groups of a framework, and how the keys of each kernel differ.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use opkeep_digest::Digest;
use opkeep_framework_cache::triton::{StoredGroup, TRITON};
use opkeep_fs::unix;
use opkeep_kernel_entry::GroupRecord;
use opkeep_store::Access;
use serde::Serialize;

use super::not_stored::NotStored;
use crate::flags::compile::CompileArgs;
use crate::input::groups::stored_groups;
use crate::input::store::{StorePath, threads};
use crate::ui::hints::TRITON_MANAGER;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, duration};

/// The result as JSON.
#[derive(Serialize)]
struct GroupsOutput {
    groups: Vec<GroupOutput>,
}

#[derive(Serialize)]
pub(super) struct GroupOutput {
    target: String,
    framework: String,
    framework_version: String,
    kernel: String,
    name: String,
    #[serde(serialize_with = "json::as_text")]
    key: Digest,
    #[serde(serialize_with = "json::as_text")]
    framework_key: Digest,
    toolchain: Vec<PartOutput>,
    /// In Unix seconds.
    created: u64,
    bytes: u64,
    /// The differences of the newest group of the kernel from this one.
    differences: Vec<String>,
}

#[derive(Serialize)]
struct PartOutput {
    name: String,
    note: String,
    #[serde(serialize_with = "json::as_text")]
    digest: Digest,
}

/// Reports the groups of `framework`, if given those of `kernel` only.
pub(super) fn explain(
    framework: &str,
    kernel: Option<&str>,
    args: &CompileArgs,
    output: &Output,
) -> anyhow::Result<ExitStatus> {
    let store_path = StorePath::default_store(&args.store)?;
    let store = store_path.open(Access::ReadOnly, &args.store, output)?;
    let cancel = output.cancel_token();
    let target = args.chooses_target().then(|| args.target());
    let mut kernels: BTreeMap<(String, String), Vec<StoredGroup>> = BTreeMap::new();
    let (mut frameworks, mut names) = (BTreeSet::new(), BTreeSet::new());
    let found = store.map(|store| stored_groups(&store, None, threads(args.jobs()), &cancel, |_| true));
    for group in found.transpose()?.into_iter().flatten() {
        let GroupRecord { key, .. } = &group.record;
        let name = group.record.kernel_or_name().to_owned();
        frameworks.insert(key.framework.clone());
        if key.framework != framework {
            continue;
        }
        if target.is_none_or(|target| target == key.target) && kernel.is_none_or(|kernel| kernel == name) {
            kernels.entry((key.target.clone(), name)).or_default().push(group);
        } else {
            names.insert(if kernel == Some(&name) { format!("{name} for {}", key.target) } else { name });
        }
    }
    let (mut text, mut groups) = (Text::default(), Vec::new());
    for ((target, kernel), stored) in kernels {
        let stored = compare(stored);
        text.line(format_args!("{framework} {kernel} for {target}: {} stored", stored.len()));
        for (group, differences) in stored {
            text.append(&group_text(&group, &differences));
            groups.push(group_output(group, differences));
        }
    }
    if !groups.is_empty() || cancel.is_cancelled() {
        output.print_result(&text, &GroupsOutput { groups })?;
        return Ok(if cancel.is_cancelled() { ExitStatus::Interrupted } else { ExitStatus::Success });
    }
    let mut what = kernel.map_or_else(|| framework.to_owned(), |kernel| format!("{framework} {kernel}"));
    what.extend(target.map(|target| format!(" for {target}")));
    if framework == TRITON && names.is_empty() {
        output.print_help(TRITON_MANAGER);
    }
    let not_stored = match (names.is_empty(), kernel) {
        (false, kernel) => NotStored::new(&store_path.root, "kernels", names, kernel.unwrap_or_default()),
        (true, _) => NotStored::new(&store_path.root, "frameworks", frameworks, framework),
    };
    not_stored.print(&format!("nothing is stored of {what}"), output)
}

/// Compares the groups of a kernel with the newest of them, which comes first. Groups of the same key of the framework are next,
/// then those with the fewest differences.
fn compare(mut groups: Vec<StoredGroup>) -> Vec<(StoredGroup, Vec<String>)> {
    opkeep_order::by_key(&mut groups, |group| (Reverse(group.created), group.key));
    let Some(newest) = groups.first().map(|group| group.record.clone()) else { return Vec::new() };
    let differences = |group: StoredGroup| {
        let differences = differences(&group.record, &newest);
        (group, differences)
    };
    let mut compared: Vec<_> = groups.into_iter().map(differences).collect();
    let rank = |(group, differences): &(StoredGroup, Vec<String>)| {
        (group.record.key.framework_key != newest.key.framework_key, differences.len())
    };
    opkeep_order::by_key(&mut compared, rank);
    compared
}

/// Returns the changes of the key's parts from `old` to `new`, groups of one framework, target and kernel.
pub(super) fn differences(old: &GroupRecord, new: &GroupRecord) -> Vec<String> {
    let mut differences = Vec::new();
    if old.key.framework_key != new.key.framework_key {
        differences.push("the framework's own key changed: source, options or environment".to_owned());
    }
    for (part, old, new) in
        [("version", &old.framework_version, &new.framework_version), ("name", &old.key.name, &new.key.name)]
    {
        if old != new {
            differences.push(format!("{part} changed: {old} -> {new}"));
        }
    }
    differences.extend(old.key.toolchain.diff(&new.key.toolchain).iter().map(ToString::to_string));
    differences
}

pub(super) fn group_text(group: &StoredGroup, differences: &[String]) -> Text {
    let StoredGroup { record, key, bytes: size, created, .. } = group;
    let parts: Vec<String> =
        record.key.toolchain.parts().iter().map(|part| format!("{} {}", part.name, part.note)).collect();
    let made_by = [&record.key.framework, " ", &record.framework_version].concat();
    let made_by = std::iter::once(made_by.trim_end().to_owned()).chain(parts).collect::<Vec<_>>().join(", ");
    let mut text = Text::of(format_args!("  {key}  {}, {}, {made_by}", bytes(*size), age(*created)));
    text.extend(differences.iter().map(|change| Text::of(format_args!("    to the newest: {change}"))));
    text
}

/// Returns how long ago an entry was stored.
pub(super) fn age(created: SystemTime) -> String {
    format!("stored {} ago", duration(created.elapsed().unwrap_or_default().as_secs()))
}

pub(super) fn group_output(group: StoredGroup, differences: Vec<String>) -> GroupOutput {
    let StoredGroup { record, key, created, bytes, .. } = group;
    let toolchain = record.key.toolchain.parts().iter().map(|part| PartOutput {
        name: part.name.clone(),
        note: part.note.clone(),
        digest: part.digest,
    });
    GroupOutput {
        toolchain: toolchain.collect(),
        target: record.key.target,
        framework: record.key.framework,
        framework_version: record.framework_version,
        kernel: record.kernel,
        name: record.key.name,
        key,
        framework_key: record.key.framework_key,
        created: unix(created).as_secs(),
        bytes,
        differences,
    }
}
