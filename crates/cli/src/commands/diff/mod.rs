//! `opkeep diff`: how two files, two directories of kernels, or two stores differ.

mod contents;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_fs::Fs;
use serde::Serialize;

use self::contents::{Content, Contents, of_files, of_store};
use crate::commands::inspect::{FieldKind, fields_of};
use crate::commands::ls::{ListedOutput, table};
use crate::config::Settings;
use crate::input::store::StorePath;
use crate::input::{can_read, read_file};
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, counted, quotable, quoted_path, shortened};

/// The details of diff.
const DETAILS: &str = "\
The direction is from A to B: - is what A has, + is what B has. (`opkeep explain A --against B` is
from B to A.)

Two files are compared field by field, as `opkeep inspect` shows them: networks (.onnx), descriptors
(.info), kernel descriptions (.json), objects (.o, .so) and entries (.kern); objects also section by
section and symbol by symbol, by size and digest; networks also by the nodes and attributes, and by
the digest of each weight in the file. Of two directories, the files of kernels are compared by name
and bytes; of two stores, or two targets of stores, the entries by key and by the digests of what is
in them. Pipes, sockets and devices are not compared, but listed.

Exit code 0: they are the same; 1: they differ, or something was not compared; 2: one cannot be
read, or they are of different kinds.

Examples:
  opkeep diff rank_0/kernel_meta/a.info rank_1/kernel_meta/a.info
    shows which fields of two descriptors differ
  opkeep diff old.onnx new.onnx
    shows which operators, attributes, weights, inputs and outputs of two networks differ
  opkeep diff rank_0/kernel_meta rank_1/kernel_meta
    shows which kernels one rank lacks, and which have other bytes
  opkeep diff ~/.cache/opkeep /shared/opkeep
    shows which keys only one store has";

/// Show how two files, directories of kernels, or stores differ
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The first file or directory
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second one, of the same kind
    #[arg(value_name = "B")]
    b: PathBuf,
    #[command(flatten)]
    config: Settings,
}

/// The result as JSON.
#[derive(Default, Serialize)]
struct DiffOutput {
    /// `files`, `directories` or `stores`.
    kind: &'static str,
    a: String,
    b: String,
    same: bool,
    /// The fields of two files that differ.
    changes: Vec<ChangeOutput>,
    /// The number of files or entries that are the same.
    equal: usize,
    only_a: Vec<String>,
    only_b: Vec<String>,
    differing: Vec<String>,
    /// What is in a directory and was not compared.
    not_compared: Vec<NotComparedOutput>,
}

/// A file that was not compared.
#[derive(Serialize)]
struct NotComparedOutput {
    name: String,
    reason: &'static str,
}

/// A field that differs. A value is null in the file that lacks it.
#[derive(Serialize)]
struct ChangeOutput {
    field: String,
    /// A descriptor may have a field whose name begins as that of a section.
    #[serde(skip)]
    kind: FieldKind,
    a: Option<String>,
    b: Option<String>,
}

/// The fields of a file by their names.
type Fields = BTreeMap<String, (FieldKind, String)>;

/// The maximum number of names of each kind, and of characters of a value, in text.
const MAX_LISTED: usize = 50;
/// The maximum number of changed fields in text: an object may have any number of symbols.
const MAX_CHANGES: usize = 200;
const MAX_VALUE: usize = 160;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let (a, b) = (args.a.as_path(), args.b.as_path());
    can_read(a)?;
    can_read(b)?;
    let is_dir = |path: &Path| Fs::new().is_dir(path);
    let (mut diff, text) = match (is_dir(a), is_dir(b)) {
        (false, false) => files(a, b)?,
        (true, true) => match (StorePath::of(a), StorePath::of(b)) {
            (Some(one), Some(other)) => directories(
                "stores",
                &of_store(&one, &args.config, output)?,
                &of_store(&other, &args.config, output)?,
                a,
                b,
            ),
            (None, None) => directories("directories", &of_files(a)?, &of_files(b)?, a, b),
            (Some(_), None) => bail!("`{}` is a store, and `{}` is none", quotable(a), quotable(b)),
            (None, Some(_)) => bail!("`{}` is a store, and `{}` is none", quotable(b), quotable(a)),
        },
        _ => {
            bail!("`{}` and `{}` are a file and a directory; give two of one kind", quotable(a), quotable(b))
        }
    };
    (diff.a, diff.b) = (json::path(a), json::path(b));
    output.print_result(&text, &diff)?;
    Ok(if diff.same { ExitStatus::Success } else { ExitStatus::Problems })
}

/// Compares two files field by field.
fn files(a: &Path, b: &Path) -> anyhow::Result<(DiffOutput, Text)> {
    let suffix = |path: &Path| path.extension().unwrap_or_default().to_os_string();
    if suffix(a) != suffix(b) {
        bail!("`{}` and `{}` are files of different kinds", quotable(a), quotable(b));
    }
    let limit = opkeep_store::MAX_ENTRY_BYTES;
    let (one, other) = (read_file(a, limit)?, read_file(b, limit)?);
    let mut diff = DiffOutput { kind: "files", same: one == other, ..DiffOutput::default() };
    let mut text = Text::default();
    if diff.same {
        text.line(format_args!("the same: {}", counted(one.len(), "byte")));
        return Ok((diff, text));
    }
    diff.changes = changes(&fields_of(a)?, &fields_of(b)?);
    text.line(format_args!("- {}, {}", a.display(), counted(one.len(), "byte")));
    text.line(format_args!("+ {}, {}", b.display(), counted(other.len(), "byte")));
    for ChangeOutput { field, a, b, .. } in diff.changes.iter().take(MAX_CHANGES) {
        text.line(field);
        a.iter().for_each(|value| text.line(format_args!("  - {}", shortened(value, MAX_VALUE))));
        b.iter().for_each(|value| text.line(format_args!("  + {}", shortened(value, MAX_VALUE))));
    }
    if let Some(more @ 1..) = diff.changes.len().checked_sub(MAX_CHANGES) {
        text.line(format_args!("and {}: --format json lists them", counted(more, "more field")));
    }
    if diff.changes.is_empty() {
        let at = one.iter().zip(&other).position(|(one, other)| one != other);
        let at = at.unwrap_or(one.len().min(other.len()));
        text.line(format_args!("different: all fields are the same; the bytes differ from byte {at} on"));
    } else {
        let is_network = suffix(a) == "onnx";
        text.line(format_args!("different: {}", kinds(&diff.changes, is_network)));
    }
    Ok((diff, text))
}

/// `2 sections, 1 symbol and 3 other fields`.
fn kinds(changes: &[ChangeOutput], is_network: bool) -> String {
    const OF_NETWORKS: [&str; 6] = ["operator", "node", "attribute", "weight", "input", "output"];
    let named = |kind: &str| {
        let is_of = |change: &&ChangeOutput| {
            change.field.strip_prefix(kind).is_some_and(|name| name.starts_with(' '))
        };
        changes.iter().filter(is_of).count()
    };
    let of = |kind: FieldKind| changes.iter().filter(|change| change.kind == kind).count();
    let mut counts: Vec<(usize, &str)> = match is_network {
        true => OF_NETWORKS.iter().map(|kind| (named(kind), *kind)).collect(),
        false => vec![(of(FieldKind::Section), "section"), (of(FieldKind::Symbol), "symbol")],
    };
    let others = changes.len() - counts.iter().map(|(count, _)| count).sum::<usize>();
    counts.push((others, if others == changes.len() { "field" } else { "other field" }));
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(*count, what)).collect();
    match counts.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        counts => counts.join(""),
    }
}

/// Returns the fields that differ, in the order of their names.
fn changes(a: &Fields, b: &Fields) -> Vec<ChangeOutput> {
    let kinds = a.iter().chain(b).map(|(name, (kind, _))| (name, *kind));
    let names: BTreeMap<&String, FieldKind> = opkeep_order::map(kinds);
    let value = |fields: &Fields, name: &String| fields.get(name).map(|(_, value)| value.clone());
    let change = |(name, kind): (&String, FieldKind)| ChangeOutput {
        field: name.clone(),
        kind,
        a: value(a, name),
        b: value(b, name),
    };
    names.into_iter().map(change).filter(|change| change.a != change.b).collect()
}

/// Returns the entries of a store as `opkeep ls` lists them.
fn entries<'a>(contents: impl Iterator<Item = &'a Content>) -> Text {
    let mut listed: Vec<&ListedOutput> = contents.filter_map(|content| content.listed.as_ref()).collect();
    opkeep_order::by(&mut listed, |one, other| one.rank().cmp(&other.rank()));
    let mut text = table("  ", &listed[..listed.len().min(MAX_LISTED)]);
    if let Some(more @ 1..) = listed.len().checked_sub(MAX_LISTED) {
        text.line(format_args!("  and {}: --format json has their keys", counted(more, "more entry")));
    }
    text
}

/// Compares what is in two directories or stores.
fn directories(
    kind: &'static str,
    of_a: &Contents,
    of_b: &Contents,
    a: &Path,
    b: &Path,
) -> (DiffOutput, Text) {
    let not_compared: BTreeMap<&String, &'static str> = opkeep_order::map(
        of_a.not_compared.iter().chain(&of_b.not_compared).map(|(name, reason)| (name, *reason)),
    );
    let (one, other) = (&of_a.compared, &of_b.compared);
    let lacking = |in_one: &BTreeMap<String, Content>, in_other: &BTreeMap<String, Content>| -> Vec<String> {
        let is_only = |name: &&String| !in_other.contains_key(*name) && !not_compared.contains_key(*name);
        in_one.keys().filter(is_only).cloned().collect()
    };
    let both = || one.iter().filter_map(|(name, content)| Some((name, content, other.get(name)?)));
    let differing: Vec<_> = both().filter(|(_, content, other)| content.digest != other.digest).collect();
    let diff = DiffOutput {
        kind,
        only_a: lacking(one, other),
        only_b: lacking(other, one),
        equal: both().count() - differing.len(),
        differing: differing.iter().map(|(name, ..)| (*name).clone()).collect(),
        not_compared: not_compared
            .iter()
            .map(|(name, reason)| NotComparedOutput { name: (*name).clone(), reason })
            .collect(),
        ..DiffOutput::default()
    };
    let mut text = names(&diff, &differing, (a, of_a), (b, of_b));
    let what = if kind == "stores" { "entry" } else { "file" };
    let differ = [diff.only_a.len(), diff.only_b.len(), diff.differing.len()].iter().any(|count| *count > 0);
    let same = !differ && diff.not_compared.is_empty();
    if same {
        text.line(format_args!("the same: {}", counted(diff.equal, what)));
        return (DiffOutput { same, ..diff }, text);
    }
    text.line(format_args!(
        "{}: {} the same, {} only in the first, {} only in the second, {} with different content{}",
        if differ { "different" } else { "not all was compared" },
        counted(diff.equal, what),
        diff.only_a.len(),
        diff.only_b.len(),
        diff.differing.len(),
        match diff.not_compared.len() {
            0 => String::new(),
            count => format!(", {count} not compared"),
        }
    ));
    (diff, text)
}

/// Returns what only one of them has, what differs, and what was not compared.
fn names(
    diff: &DiffOutput,
    differing: &[(&String, &Content, &Content)],
    (a, of_a): (&Path, &Contents),
    (b, of_b): (&Path, &Contents),
) -> Text {
    let are_stores = diff.kind == "stores";
    let mut text = Text::default();
    let more = |count| format!("  and {count} more");
    for (dir, of, only) in [(a, of_a, &diff.only_a), (b, of_b, &diff.only_b)] {
        if !only.is_empty() {
            text.line(format_args!("only in {}:", dir.display()));
            match are_stores {
                true => text.append(&entries(only.iter().filter_map(|name| of.compared.get(name)))),
                false => text.list(only.iter().map(|name| format!("  {name}")), MAX_LISTED, more),
            }
        }
    }
    if !differing.is_empty() {
        text.line("in both, with different content:");
        let line = |(name, content, other): &(&String, &Content, &Content)| {
            format!("  {name} ({} and {})", bytes(content.bytes), bytes(other.bytes))
        };
        match are_stores {
            true => text.append(&entries(differing.iter().map(|(_, content, _)| *content))),
            false => text.list(differing.iter().map(line), MAX_LISTED, more),
        }
        if diff.kind == "directories" {
            let name = differing[0].0;
            let quoted = |dir: &Path| quoted_path(&dir.join(name));
            text.line(format_args!("`opkeep diff {} {}` shows how", quoted(a), quoted(b)));
        }
    }
    if !diff.not_compared.is_empty() {
        text.line("not compared:");
        let line = |one: &NotComparedOutput| format!("  {} ({})", one.name, one.reason);
        text.list(diff.not_compared.iter().map(line), MAX_LISTED, more);
    }
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make files")]

    use opkeep_digest::Digest;
    use opkeep_fs::CancelToken;
    use opkeep_store::{EntryBuilder, Store, StoreConfig};

    use super::*;
    use crate::ui::caller::Caller;
    use crate::ui::interrupt;

    /// Makes a store with an entry. Returns the entry's file.
    fn store(root: &Path) -> PathBuf {
        let store = Store::open(StoreConfig::new(root)).unwrap();
        let (target, key) = (store.target("cpu").unwrap(), Digest::of(b"key"));
        target.put(&key, &EntryBuilder::new(1).eager("object", b"object")).unwrap();
        target.path(&key)
    }

    #[test]
    fn changes_are_counted_by_their_kind_and_not_by_their_name() {
        let fields = |value: &str, kinds: &[(FieldKind, &str)]| -> Fields {
            kinds.iter().map(|(kind, name)| ((*name).to_owned(), (*kind, value.to_owned()))).collect()
        };
        let all = [
            (FieldKind::Other, "section a"),
            (FieldKind::Other, "symbol a"),
            (FieldKind::Section, "section b"),
            (FieldKind::Symbol, "symbol b"),
        ];
        let count = |a: &Fields, b: &Fields| kinds(&changes(a, b), false);
        assert_eq!(count(&fields("1", &all[..2]), &fields("2", &all[..2])), "2 fields");
        assert_eq!(count(&fields("1", &all), &fields("2", &all)), "1 section, 1 symbol and 2 other fields");
        // Of a field that only one of them has.
        assert_eq!(count(&fields("1", &all[..3]), &fields("1", &all[..2])), "1 section");
        assert_eq!(
            count(&fields("1", &all[..1]), &fields("1", &all)),
            "1 section, 1 symbol and 1 other field"
        );
    }

    #[test]
    fn entries_that_were_not_read_are_not_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let entries = [store(&a), store(&b)];
        let compare = |cancel: &CancelToken| {
            let args = Args { a: a.clone(), b: b.clone(), config: Settings::default() };
            let output = Output::caller(Caller::new(&|_, _| {}, None), cancel);
            run(&args, &output)
        };
        let cancel = CancelToken::new();
        assert_eq!(compare(&cancel).unwrap(), ExitStatus::Success);
        for entry in &entries {
            let mut bytes = std::fs::read(entry).unwrap();
            bytes[40] ^= 1;
            std::fs::write(entry, bytes).unwrap();
        }
        let error = format!("{:#}", compare(&cancel).unwrap_err());
        assert!(error.contains("1 entry could not be read"), "{error}");
        cancel.cancel();
        assert!(interrupt::is_cause_of(&compare(&cancel).unwrap_err()));
    }
}
