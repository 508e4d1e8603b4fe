//! `opkeep ls`: lists the kernels of the store.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use opkeep_digest::Digest;
use opkeep_store::{Access, OpenEntry};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::commands::gc::args::{age, size};
use crate::commands::gc::store::no_store;
use crate::flags::store::StoreArgs;
use crate::flags::target_filter::TargetFilter;
use crate::input::entries::{ReadHeads, read_heads};
use crate::input::pattern::is_like;
use crate::input::store::{StorePath, threads};
use crate::input::stored_kernel::{State, StoredKernel};
use crate::ui::help::width;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, columns, counted, duration, quoted_word, shortened};

/// The details of ls.
const DETAILS: &str = "\
A kernel must satisfy all filters. NAME in a filter may have `*` for any characters, and upper or
lower case makes no difference. Entries are listed by target and name, unless --sort has another
order; equal ones by key. Only the start of each entry is read: `opkeep verify` finds damage.

State is compiled, imported (by `opkeep import`), group (files that a framework keeps), or unknown
(nothing in the entry says which of these it is).

Exit code 0: also if no kernel is listed; 1: some entries could not be read, and are not listed; 2:
the store cannot be read.

Examples:
  opkeep ls --target 'cpu*' --operator conv2d --sort size --limit 10
    lists the ten largest kernels of an operator
  opkeep ls --framework triton --unused 7d
    lists kernels of Triton that were not used for a week
  opkeep ls --name 'matmul*' --format json
    has all fields, and whole keys";

/// List the kernels of the store
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    target: TargetFilter,
    /// List kernels of this type of operator only
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// List kernels with this name only
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// List kernels that this framework keeps only, such as triton; opkeep for its own
    #[arg(long, value_name = "NAME")]
    framework: Option<String>,
    /// List kernels of this state only
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
    /// List kernels only that were not used for this long: 30d, 12h, 45m, 10s
    #[arg(long, value_name = "AGE", value_parser = age)]
    unused: Option<Duration>,
    /// List kernels only that are at least this large: 300K, 2M
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_size: Option<u64>,
    /// The order: by name, the largest, the longest unused, or the newest first
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Name)]
    sort: Order,
    /// List at most this many kernels
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Name,
    Size,
    Used,
    Created,
}

/// The result as JSON.
#[derive(Serialize)]
struct ListOutput {
    root: String,
    /// The number and the size of all that satisfy the filters.
    kernels_count: usize,
    bytes: u64,
    /// The number of entries that could not be read, and are not listed.
    unreadable: u64,
    kernels: Vec<ListedOutput>,
}

/// An entry as JSON.
#[derive(Clone, Serialize)]
pub(crate) struct ListedOutput {
    target: String,
    #[serde(serialize_with = "json::as_text")]
    key: Digest,
    name: String,
    /// The types of its operators, joined by `+`. Empty for a group.
    op_type: String,
    framework: String,
    state: State,
    bytes: u64,
    /// The seconds since it was stored and since it was used.
    age_seconds: u64,
    unused_seconds: u64,
}

/// The lengths of the columns that are cut on a narrow terminal.
const NAME_WIDTHS: (usize, usize) = (12, 60);
const KEY_DIGITS: usize = 12;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let store_path = StorePath::default_store(&args.store)?;
    let Some(store) = store_path.open(Access::ReadOnly, &args.store, output)? else {
        let root = json::path(&store_path.root);
        output.print_result(
            &Text::of(no_store(&store_path.root)),
            &ListOutput { root, kernels_count: 0, bytes: 0, unreadable: 0, kernels: Vec::new() },
        )?;
        return Ok(ExitStatus::Success);
    };
    let (now, cancel) = (SystemTime::now(), output.cancel_token());
    let (mut kernels, mut unreadable) = (Vec::new(), 0);
    let targets = args.target.stores(&store)?;
    let reason = if targets.is_empty() { Some(args.target.none_chosen(&store)?.0) } else { None };
    for (name, target) in targets {
        let read = |entry: &OpenEntry<'_>| Some(listed(&name, entry, now)).filter(|one| args.wants(one));
        let ReadHeads { read, unread } = read_heads(&target, threads(None), &cancel, read)?;
        if let Some(problem) = unread.problem() {
            output.print_warning(&format!("the list for target {name} is incomplete: {problem}"));
        }
        unreadable += unread.count;
        kernels.extend(read);
    }
    opkeep_order::by(&mut kernels, |one, other| {
        let by = match args.sort {
            Order::Name => std::cmp::Ordering::Equal,
            Order::Size => Reverse(one.bytes).cmp(&Reverse(other.bytes)),
            Order::Used => Reverse(one.unused_seconds).cmp(&Reverse(other.unused_seconds)),
            Order::Created => one.age_seconds.cmp(&other.age_seconds),
        };
        by.then_with(|| one.rank().cmp(&other.rank()))
    });
    let (count, sum) = (kernels.len(), kernels.iter().map(|one| one.bytes).sum());
    kernels.truncate(args.limit.map_or(usize::MAX, NonZeroUsize::get));
    let mut text = table("", &kernels.iter().collect::<Vec<_>>());
    let is_explained = reason.is_some();
    text.extend(reason.map(Text::of));
    let listed = match kernels.len() {
        some if some < count => format!("{some} of {}", counted(count, "kernel")),
        _ => counted(count, "kernel"),
    };
    text.line(format_args!("{listed}, {} in {}", bytes(sum), store.root().display()));
    if count == 0 && unreadable == 0 && !is_explained {
        output.print_note(&args.none_listed());
    }
    let root = json::path(store.root());
    output
        .print_result(&text, &ListOutput { root, kernels_count: count, bytes: sum, unreadable, kernels })?;
    Ok(if unreadable == 0 { ExitStatus::Success } else { ExitStatus::Problems })
}

impl Args {
    /// Returns why no kernel of the chosen targets is listed.
    fn none_listed(&self) -> String {
        let names = [("operator", &self.operator), ("name", &self.name), ("framework", &self.framework)];
        let whole = names.into_iter().find_map(|(flag, filter)| Some((flag, filter.as_ref()?)));
        match whole.filter(|(_, filter)| !filter.contains('*')) {
            Some((flag, filter)) => {
                let pattern = quoted_word(&format!("*{filter}*"));
                format!(
                    "--{flag} {} is the whole name; --{flag} {pattern} lists all names with these letters in them",
                    quoted_word(filter)
                )
            }
            None => "no kernel for the chosen targets satisfies all filters".to_owned(),
        }
    }

    fn wants(&self, one: &ListedOutput) -> bool {
        let is = |filter: &Option<String>, value: &str| {
            filter.as_ref().is_none_or(|filter| is_like(value, filter))
        };
        is(&self.name, &one.name)
            && is(&self.framework, &one.framework)
            && self
                .operator
                .as_ref()
                .is_none_or(|filter| one.op_type.split('+').any(|op| is_like(op, filter)))
            && self.state.is_none_or(|state| state == one.state)
            && self.unused.is_none_or(|age| one.unused_seconds >= age.as_secs())
            && self.min_size.is_none_or(|size| one.bytes >= size)
    }
}

impl ListedOutput {
    /// Returns the order by name.
    pub(crate) fn rank(&self) -> (&str, &str, &Digest) {
        (&self.target, &self.name, &self.key)
    }
}

/// Returns what is listed of an entry.
pub(crate) fn listed(target: &str, entry: &OpenEntry<'_>, now: SystemTime) -> ListedOutput {
    let since = |time| now.duration_since(time).unwrap_or_default().as_secs();
    let (head, kernel) = (entry.head(), StoredKernel::of(entry));
    ListedOutput {
        target: target.to_owned(),
        key: *head.key(),
        framework: kernel.framework().to_owned(),
        name: kernel.name,
        op_type: kernel.op_type,
        state: kernel.state,
        bytes: head.file_bytes(),
        age_seconds: since(head.created()),
        unused_seconds: since(entry.last_used()),
    }
}

/// Returns the columns after `indent`, which fit into the terminal: long names are cut.
pub(crate) fn table(indent: &str, kernels: &[&ListedOutput]) -> Text {
    if kernels.is_empty() {
        return Text::default();
    }
    let row = |one: &ListedOutput, longest: usize| {
        let op_type = if one.op_type.is_empty() { &one.framework } else { &one.op_type };
        vec![
            shortened(&one.name, longest),
            shortened(op_type, NAME_WIDTHS.1),
            one.target.clone(),
            bytes(one.bytes),
            duration(one.unused_seconds),
            shortened(&one.key.to_string(), KEY_DIGITS).replace("...", ""),
        ]
    };
    let head = ["name", "operator", "target", "size", "unused", "key"].map(str::to_owned).to_vec();
    let rows = |longest| -> Vec<Vec<String>> {
        std::iter::once(head.clone()).chain(kernels.iter().map(|one| row(one, longest))).collect()
    };
    let longest_line = |text: &Text| text.as_str().lines().map(|line| line.width()).max().unwrap_or(0);
    let whole = columns(indent, &rows(NAME_WIDTHS.1));
    match longest_line(&whole).checked_sub(width()) {
        None | Some(0) => whole,
        Some(over) => {
            let longest = kernels.iter().map(|one| one.name.width()).max().unwrap_or(0);
            let longest = longest.min(NAME_WIDTHS.1).saturating_sub(over + 3).max(NAME_WIDTHS.0);
            columns(indent, &rows(longest))
        }
    }
}
