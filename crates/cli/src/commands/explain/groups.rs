//! `opkeep explain --framework`: the stored groups of a framework, and how the keys of each kernel differ.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::SystemTime;

use opkeep_digest::Digest;
use opkeep_fs::unix;
use opkeep_kernel_entry::GroupRecord;
use opkeep_store::{Access, Entry};
use serde::Serialize;

use crate::commands::gc::store::target_stores;
use crate::flags::compile::CompileArgs;
use crate::input::entries::read_entries;
use crate::input::store::{StorePath, threads};
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes};

/// A stored group.
struct StoredGroup {
    record: GroupRecord,
    key: Digest,
    created: SystemTime,
    bytes: u64,
}

/// The result as JSON.
#[derive(Serialize)]
struct GroupsOutput {
    groups: Vec<GroupOutput>,
}

#[derive(Serialize)]
struct GroupOutput {
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
    let mut kernels: BTreeMap<(String, String), Vec<StoredGroup>> = BTreeMap::new();
    let store_path = StorePath::default_store(&args.store)?;
    let store = store_path.open(Access::ReadOnly, &args.store, output)?;
    let cancel = output.cancel_token();
    let read = |entry: &Entry| {
        let record = GroupRecord::of(entry)?;
        let is_kernel = kernel.is_none_or(|kernel| kernel == record.kernel_or_name());
        let (key, created, bytes) = (*entry.key(), entry.created(), entry.file_bytes() as u64);
        let group = StoredGroup { record, key, created, bytes };
        (group.record.key.framework == framework && is_kernel).then_some(group)
    };
    let targets = store.as_ref().map(target_stores).transpose()?.unwrap_or_default();
    for (name, target) in targets {
        if args.chooses_target() && args.target() != name {
            continue;
        }
        for group in read_entries(&target, threads(args.jobs), &cancel, read) {
            let kernel = group.record.kernel_or_name().to_owned();
            kernels.entry((name.clone(), kernel)).or_default().push(group);
        }
    }
    let (mut text, mut outputs) = (Text::default(), Vec::new());
    for ((target, kernel), groups) in kernels {
        let groups = compare(groups);
        text.line(format_args!("{framework} {kernel} for {target}: {} stored", groups.len()));
        for (group, differences) in groups {
            text.append(&group_text(&group, &differences));
            outputs.push(group_output(group, differences));
        }
    }
    if outputs.is_empty() {
        let kernel = kernel.map_or_else(String::new, |kernel| format!(" {kernel}"));
        text.line(format_args!("nothing is stored of {framework}{kernel} in {}", store_path.root.display()));
    }
    output.print_result(&text, &GroupsOutput { groups: outputs })?;
    Ok(if cancel.is_cancelled() { ExitStatus::Interrupted } else { ExitStatus::Success })
}

/// Compares the groups of a kernel with the newest of them, which comes first. Groups of the same key of the framework are next,
/// then those with the fewest differences.
fn compare(mut groups: Vec<StoredGroup>) -> Vec<(StoredGroup, Vec<String>)> {
    groups.sort_by_key(|group| (Reverse(group.created), group.key));
    let Some(newest) = groups.first().map(|group| group.record.clone()) else { return Vec::new() };
    let differences = |group: StoredGroup| {
        let differences = differences(&group.record, &newest);
        (group, differences)
    };
    let mut compared: Vec<_> = groups.into_iter().map(differences).collect();
    let rank = |(group, differences): &(StoredGroup, Vec<String>)| {
        (group.record.key.framework_key != newest.key.framework_key, differences.len())
    };
    compared.sort_by_key(rank);
    compared
}

/// Returns the changes of the key's parts from `old` to `new`, groups of one framework, target and kernel.
fn differences(old: &GroupRecord, new: &GroupRecord) -> Vec<String> {
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

fn group_text(group: &StoredGroup, differences: &[String]) -> Text {
    let StoredGroup { record, key, bytes: size, .. } = group;
    let parts: Vec<String> =
        record.key.toolchain.parts().iter().map(|part| format!("{} {}", part.name, part.note)).collect();
    let made_by = [&record.key.framework, " ", &record.framework_version].concat();
    let made_by = std::iter::once(made_by.trim_end().to_owned()).chain(parts).collect::<Vec<_>>().join(", ");
    let mut text = Text::of(format_args!("  {key}  {}, {made_by}", bytes(*size)));
    text.extend(differences.iter().map(|change| Text::of(format_args!("    to the newest: {change}"))));
    text
}

fn group_output(group: StoredGroup, differences: Vec<String>) -> GroupOutput {
    let StoredGroup { record, key, created, bytes } = group;
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
