//! `opkeep explain KEY`: what is stored under the key of an entry, or under a framework's own key.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use opkeep_digest::Digest;
use opkeep_framework_cache::triton::{StoredGroup, framework_key};
use opkeep_kernel_entry::member::HEADER;
use opkeep_kernel_entry::{GroupRecord, Header, Provenance};
use opkeep_store::{Access, Entry, Lookup, Store};
use serde::Serialize;

use super::groups::{GroupOutput, age, group_output, group_text};
use super::not_stored::NotStored;
use super::output::{KernelOutput, MAX_CHARACTERS};
use crate::commands::build::output::ImportedOutput;
use crate::flags::compile::CompileArgs;
use crate::input::groups::stored_groups;
use crate::input::store::{StorePath, target_stores, threads};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes};

/// The minimum length of the start of a key.
const MIN_PREFIX: usize = 4;

/// The result as JSON.
#[derive(Serialize)]
struct KeysOutput {
    kernels: Vec<KernelOutput>,
    groups: Vec<GroupOutput>,
}

/// Returns the hexadecimal digits of a key, or of its start, if `text` can be one. Triton's own key is that of a framework.
pub(super) fn key_of(text: &str) -> Option<String> {
    let is_key =
        (MIN_PREFIX..=64).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let of_triton = || framework_key(text).map(|key| key.to_string());
    if is_key { Some(text.to_ascii_lowercase()) } else { of_triton() }
}

/// What is stored under a key: the entry, or the reason why it cannot be read.
type Found = (String, Digest, Result<Box<Entry>, String>);

/// Reports what is stored under each of `keys`.
pub(super) fn explain(keys: &[String], args: &CompileArgs, output: &Output) -> anyhow::Result<ExitStatus> {
    let store_path = StorePath::default_store(&args.store)?;
    let store = store_path.open(Access::ReadOnly, &args.store, output)?;
    let (mut text, mut kernels, mut groups) = (Text::default(), Vec::new(), Vec::new());
    for prefix in keys {
        let found = store.as_ref().map(|store| entries(store, prefix, args)).transpose()?.unwrap_or_default();
        let of_framework = match (&store, found.is_empty()) {
            (Some(store), true) => of_framework(store, prefix, args, output)?,
            _ => Vec::new(),
        };
        if found.is_empty() && of_framework.is_empty() {
            let not_stored = NotStored::new(&store_path.root, "keys", BTreeSet::new(), "");
            return not_stored.print(&format!("nothing is stored under the key {prefix}"), output);
        }
        for (target, key, entry) in found {
            match entry.map(|entry| (StoredGroup::of(&entry), entry)) {
                Ok((Some(group), _)) => add_group(group, &mut text, &mut groups),
                Ok((None, entry)) => kernels.push(kernel(&target, &entry, &mut text)),
                Err(why) => kernels.push(unreadable(&target, &key, why, &mut text)),
            }
        }
        of_framework.into_iter().for_each(|group| add_group(group, &mut text, &mut groups));
    }
    output.print_result(&text, &KeysOutput { kernels, groups })?;
    Ok(ExitStatus::Success)
}

/// Returns the entry whose key begins with `prefix`.
fn entries(store: &Store, prefix: &str, args: &CompileArgs) -> anyhow::Result<Vec<Found>> {
    let mut keys: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    let targets: BTreeMap<_, _> = opkeep_order::map(target_stores(store)?);
    // A prefix has at least two digits, and the entries of the same two are in one directory.
    let first = u8::from_str_radix(&prefix[..2], 16).unwrap_or_default();
    for (name, target) in targets.iter().filter(|(name, _)| !args.chooses_target() || args.target() == *name)
    {
        for key in target.keys_from(first) {
            if key.to_string().starts_with(prefix) {
                keys.entry(key).or_default().push(name.clone());
            }
        }
    }
    if keys.len() > 1 {
        let keys: Vec<String> = keys.keys().take(5).map(ToString::to_string).collect();
        bail!("`{prefix}` is the start of several keys: {}; give more digits", keys.join(", "));
    }
    let found = keys.into_iter().flat_map(|(key, names)| names.into_iter().map(move |name| (name, key)));
    let read = |(name, key): (String, Digest)| {
        let entry = match targets.get(&name)?.peek(&key) {
            Lookup::Hit(entry) => Ok(entry),
            Lookup::Miss(miss) => Err(miss.to_string()),
        };
        Some((name, key, entry))
    };
    Ok(found.filter_map(read).collect())
}

/// Returns the groups whose framework's key begins with `prefix`: one for each toolchain and target.
fn of_framework(
    store: &Store,
    prefix: &str,
    args: &CompileArgs,
    output: &Output,
) -> anyhow::Result<Vec<StoredGroup>> {
    let target = args.chooses_target().then(|| args.target());
    let is_wanted = |record: &GroupRecord| record.key.framework_key.to_string().starts_with(prefix);
    let mut groups = stored_groups(store, target, threads(args.jobs()), &output.cancel_token(), is_wanted)?;
    opkeep_order::by_key(&mut groups, |group| (group.record.key.framework_key, group.created));
    let differ = |pair: &[StoredGroup]| pair[0].record.key.framework_key != pair[1].record.key.framework_key;
    if groups.windows(2).any(differ) {
        bail!("`{prefix}` is the start of several keys of frameworks; give more digits");
    }
    Ok(groups)
}

fn add_group(group: StoredGroup, text: &mut Text, groups: &mut Vec<GroupOutput>) {
    text.line(format_args!("hit   {} for {}", group.record, group.record.key.target));
    text.append(&group_text(&group, &[]));
    text.line(format_args!("  the framework's own key is {}", group.record.key.framework_key));
    groups.push(group_output(group, Vec::new()));
}

/// Reports a kernel that opkeep compiled or imported.
fn kernel(target: &str, entry: &Entry, text: &mut Text) -> KernelOutput {
    let header = entry.lazy_member(HEADER).ok().flatten().and_then(Header::parse);
    let imported = Provenance::of(entry);
    let (name, op_type) = match (&header, &imported) {
        (Some(header), _) => (header.name.clone(), header.op_type.clone()),
        (None, Some(imported)) => (imported.name.clone(), String::new()),
        (None, None) => (String::new(), String::new()),
    };
    text.line(format_args!("hit   {name} ({op_type}) for {target}"));
    let (size, age) = (bytes(entry.file_bytes()), age(entry.created()));
    text.line(format_args!("  {}  {size}, {age}", entry.key()));
    text.extend(imported.iter().map(|imported| Text::of(format_args!("  {imported}"))));
    for part in header.iter().flat_map(|header| header.toolchain.parts()) {
        let note: String = part.note.chars().take(MAX_CHARACTERS).collect();
        text.line(format_args!("    toolchain   {} {note}", part.name));
    }
    output_of(entry.key(), "hit", name, op_type, imported.as_ref().map(ImportedOutput::from))
}

fn unreadable(target: &str, key: &Digest, why: String, text: &mut Text) -> KernelOutput {
    text.line(format_args!("miss  {key} for {target}"));
    text.line(format_args!("  {why}"));
    KernelOutput {
        reason: Some(why),
        nearest: Some(None),
        former: Some(None),
        ..output_of(key, "miss", String::new(), String::new(), None)
    }
}

fn output_of(
    key: &Digest,
    outcome: &'static str,
    name: String,
    op_type: String,
    imported: Option<ImportedOutput>,
) -> KernelOutput {
    KernelOutput {
        name,
        key: Some(key.to_string()),
        op_type,
        operators: Vec::new(),
        outcome,
        reason: None,
        nearest: None,
        former: None,
        imported,
        imported_problem: None,
        remote: None,
    }
}
