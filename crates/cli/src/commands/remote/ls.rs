//! `opkeep remote ls`: the kernels of a remote cache.

use std::time::Duration;

use opkeep_cache::StoredKind;
use serde::Serialize;

use super::contents::{RemoteCache, RemoteUrl, Stored, Totals};
use crate::ui::json::Milliseconds;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, columns, counted};

/// The details of ls.
const DETAILS: &str = "\
Not every engine lists its objects: see opkeep remote check. The time since a kernel was used is
that since it was stored, except with Redis.

Exit code 0: done; 2: the engine cannot be reached, refuses these credentials, or has no listing.

Examples:
  opkeep remote ls redis://HOST --long
    lists each kernel";

/// List the kernels of a remote cache by target
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteUrl,
    /// List each kernel
    ///
    /// A line has its key, its size, the time since it was used, and the signer.
    #[arg(long)]
    long: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct LsOutput {
    url: String,
    namespace: String,
    not_recognised: u64,
    targets: Vec<TargetOutput>,
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    kernels: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<EntryOutput>>,
}

#[derive(Serialize)]
struct EntryOutput {
    key: String,
    signer: Option<String>,
    bytes: u64,
    idle_ms: Option<Milliseconds>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let remote = RemoteCache::open(&args.remote, output)?;
    let contents = remote.contents(output)?;
    let (mut text, mut targets, mut lines) = (Text::of(remote.title()), Vec::new(), Vec::new());
    for (target, stored) in &contents.targets {
        let entries: Vec<_> = stored.iter().filter_map(entry).collect();
        let entry_objects = || stored.iter().filter(|stored| matches!(stored.kind, StoredKind::Entry { .. }));
        let totals = Totals::of(entry_objects());
        let row = vec![target.clone(), counted(totals.kernels, "kernel"), bytes(totals.bytes)];
        if args.long {
            text.append(&columns("", &[row]));
            let rows: Vec<_> = [heads()].into_iter().chain(entry_objects().filter_map(line)).collect();
            text.append(&columns("  ", &rows));
        } else {
            lines.push(row);
        }
        targets.push(TargetOutput {
            target: target.clone(),
            kernels: totals.kernels,
            bytes: totals.bytes,
            entries: args.long.then_some(entries),
        });
    }
    text.append(&columns("", &lines));
    if contents.targets.is_empty() {
        text.line(format!("namespace {} has no kernels", remote.namespace));
    }
    let not_recognised = contents.others();
    if not_recognised > 0 {
        text.line(counted(not_recognised, "other object"));
    }
    let (url, namespace) = (remote.engine.location().to_owned(), remote.namespace.to_string());
    output.print_result(&text, &LsOutput { url, namespace, not_recognised, targets })?;
    Ok(ExitStatus::Success)
}

fn entry(stored: &Stored) -> Option<EntryOutput> {
    let StoredKind::Entry { key, signer } = &stored.kind else { return None };
    let idle_ms = stored.idle.map(Milliseconds);
    Some(EntryOutput { key: key.to_string(), signer: signer.clone(), bytes: stored.bytes, idle_ms })
}

/// The time is that since the kernel was stored; with Redis, since it was used.
fn heads() -> Vec<String> {
    ["key", "size", "age", "signed by"].map(str::to_owned).to_vec()
}

fn line(stored: &Stored) -> Option<Vec<String>> {
    let StoredKind::Entry { key, signer } = &stored.kind else { return None };
    let idle = stored.idle.map_or_else(|| "-".to_owned(), age);
    let signer = signer.as_deref().unwrap_or("unsigned");
    Some(vec![key.to_string(), bytes(stored.bytes), idle, signer.to_owned()])
}

/// Returns a time with the largest unit of which it has two.
fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
