//! `opkeep remote gc`: evicts kernels from a remote cache.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use opkeep_cache::{ObjectName, RemoteError};
use serde::Serialize;

use super::contents::{Contents, RemoteCache, RemoteUrl, Stored, Totals};
use crate::commands::gc::{age, size};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, counted};

/// The details of gc.
const DETAILS: &str = "\
Without --max-size and --older-than, only what killed hosts left is deleted: leases and plans that
nothing changed for an hour, and objects of checks; and, in a shared directory, links, pipes and
empty directories with the names of objects. Only objects of this namespace that are named as those
of a remote cache, and those of checks, are ever deleted. Kernels that were used in the last half
hour stay, whatever the size, unless --older-than is less. A kernel is used when it is fetched from
Redis, and when it is stored in any other engine: an old one may still be fetched each day.

The sizes of a target are those of its kernels, of what else is left there (bundles, leases and
plans), and of all that is deleted. --max-size is a limit on all objects.

Most engines have limits of their own, which need no command: Redis maxmemory with maxmemory-policy
allkeys-lru, S3 a lifecycle rule of the bucket, a server of the Remote Execution API its eviction. A
kernel that is gone is compiled again. A shared directory has no limit: run this from time to time.
See docs/remote.md.

Exit code 0: done; 1: something could not be deleted; 2: the engine cannot be reached, refuses these
credentials, or has no listing.

Examples:
  opkeep remote gc file:///shared/opkeep --max-size 20G
    evicts from a shared directory";

/// Evict the longest unused kernels of a remote cache, and delete stale leases
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteUrl,
    /// Report what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// The size that may remain of all objects of each target: 300M, 2G
    ///
    /// The letters K, M and G are powers of 1024; without one it is a number of bytes. [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Delete kernels that were not used for this long: 30d, 12h, 45m, 10s
    ///
    /// Even within the size.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
}

/// The time after which nothing that is in use is unchanged: leases are renewed every few seconds.
const STALE_AFTER: Duration = Duration::from_secs(3600);
/// The time for which a kernel stays that was used.
const IDLE_FOR: Duration = Duration::from_secs(1800);
/// The number of objects that one call deletes.
const MAX_REMOVED: usize = 100;

/// The result as JSON.
#[derive(Serialize)]
struct GcOutput {
    url: String,
    namespace: String,
    dry_run: bool,
    not_recognised: u64,
    /// The number of objects of killed checks that are gone.
    left_by_checks: u64,
    /// The number of what had the name of an object and was none, and is gone.
    in_place_of_objects: u64,
    targets: Vec<TargetOutput>,
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    before: Totals,
    removed: Totals,
    after: Totals,
    stale: u64,
    still_over: bool,
    failed: u64,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let remote = RemoteCache::open(&args.remote, output)?;
    let contents = remote.contents(output)?;
    let (mut text, mut targets, mut exit_status) =
        (Text::of(remote.title()), Vec::new(), ExitStatus::Success);
    for (name, stored) in &contents.targets {
        let unknown = stored.iter().filter(|stored| stored.has_kernels() && stored.idle.is_none()).count();
        if unknown > 0 && (args.older_than.is_some() || args.max_size.is_some()) {
            output.print_warning(&format!(
                "{name}: the engine does not know the age of {}, which stay",
                counted(unknown, "object")
            ));
        }
        let evicted = evicted(stored, args);
        let removed = match args.dry_run {
            true => evicted.clone(),
            false => {
                let names = evicted.iter().map(|at| (*at, stored[*at].name.clone())).collect();
                remove(&remote, names, output, &mut exit_status)?
            }
        };
        let target = target_output(name, stored, &evicted, &removed, args);
        text.line(summary(&target, args.dry_run));
        targets.push(target);
    }
    if contents.targets.is_empty() {
        text.line(remote.nothing());
    }
    let left_by_checks = remove_left_by_checks(&remote, &contents, args.dry_run, output, &mut exit_status)?;
    if left_by_checks > 0 {
        let deleted = if args.dry_run { "would delete" } else { "deleted" };
        text.line(format_args!("checks that were killed: {deleted} {}", counted(left_by_checks, "object")));
    }
    let in_place_of_objects = remove_in_place(&remote, &contents, args.dry_run, output, &mut exit_status);
    if in_place_of_objects > 0 {
        let deleted = if args.dry_run { "would delete" } else { "deleted" };
        text.line(format_args!("{deleted} {} in the place of objects", counted(in_place_of_objects, "file")));
    }
    if contents.foreign > 0 {
        output.print_note(&format!(
            "{} not those of a remote cache, left alone",
            counted(contents.foreign, "object")
        ));
    }
    let json = GcOutput {
        url: remote.engine.location().to_owned(),
        namespace: remote.namespace.to_string(),
        dry_run: args.dry_run,
        not_recognised: contents.foreign,
        left_by_checks,
        in_place_of_objects,
        targets,
    };
    output.print_result(&text, &json)?;
    Ok(if remote.cancel.is_cancelled() { ExitStatus::Interrupted } else { exit_status })
}

/// Returns the indices of the objects that are to be deleted.
fn evicted(stored: &[Stored], args: &Args) -> BTreeSet<usize> {
    let idle = |at: &usize| stored[*at].idle;
    let is_older = |at: &usize, age: Duration| idle(at).is_some_and(|idle| idle >= age);
    let (kernels, others): (Vec<usize>, Vec<usize>) =
        (0..stored.len()).partition(|at| stored[*at].has_kernels());
    let mut evicted: BTreeSet<usize> =
        opkeep_order::set(others.into_iter().filter(|at| is_older(at, STALE_AFTER)));
    if let Some(age) = args.older_than {
        evicted.extend(kernels.iter().filter(|at| is_older(at, age)));
    }
    let Some(max) = args.max_size else { return evicted };
    let all: u64 = stored.iter().map(|stored| stored.bytes).sum();
    let mut left = all - evicted.iter().map(|at| stored[*at].bytes).sum::<u64>();
    let idle_for = args.older_than.map_or(IDLE_FOR, |age| age.min(IDLE_FOR));
    let mut candidates: Vec<_> =
        kernels.into_iter().filter(|at| !evicted.contains(at) && is_older(at, idle_for)).collect();
    opkeep_order::by_key(&mut candidates, |at| Reverse(idle(at)));
    for at in candidates {
        if left <= max {
            break;
        }
        left -= stored[at].bytes;
        evicted.insert(at);
    }
    evicted
}

/// Deletes what killed checks left. Returns the number of objects.
fn remove_left_by_checks(
    remote: &RemoteCache,
    contents: &Contents,
    dry_run: bool,
    output: &Output,
    exit_status: &mut ExitStatus,
) -> anyhow::Result<u64> {
    let (left, error) = remote.left_by_checks(contents, STALE_AFTER);
    if remote.cancel.is_cancelled() {
        return Ok(0);
    }
    if let Some(error) = error {
        // Credentials may be those of a namespace.
        output.print_note(&format!("what killed checks left is not deleted: {error}"));
    }
    let left: Vec<_> = left.into_iter().enumerate().collect();
    Ok(match dry_run {
        true => left.len() as u64,
        false => remove(remote, left, output, exit_status)?.len() as u64,
    })
}

/// Deletes what has the name of an object and is none, such as a link in a directory. Returns the number of what is gone.
fn remove_in_place(
    remote: &RemoteCache,
    contents: &Contents,
    dry_run: bool,
    output: &Output,
    exit_status: &mut ExitStatus,
) -> u64 {
    let mut removed = 0;
    for name in contents.stale_in_place(STALE_AFTER) {
        if remote.cancel.is_cancelled() {
            break;
        }
        let answer = match dry_run {
            true => Ok(()),
            false => remote.engine.remove(std::slice::from_ref(name), &remote.context()),
        };
        match answer {
            Ok(()) => removed += 1,
            Err(_) if remote.cancel.is_cancelled() => break,
            // It is a directory with another program's files.
            Err(error @ (RemoteError::Refused { .. } | RemoteError::Invalid { .. })) => {
                output.print_warning(&format!("`{name}` is not deleted: {error}"));
                *exit_status = ExitStatus::Problems;
            }
            Err(error) => {
                output.print_warning(&format!("what is in the place of objects is not deleted: {error}"));
                *exit_status = ExitStatus::Problems;
                break;
            }
        }
    }
    removed
}

/// Deletes objects, each of which has a number. Returns the numbers of those that are gone.
fn remove(
    remote: &RemoteCache,
    objects: Vec<(usize, ObjectName)>,
    output: &Output,
    exit_status: &mut ExitStatus,
) -> anyhow::Result<BTreeSet<usize>> {
    let mut removed = BTreeSet::new();
    let progress = output.progress();
    progress.start("deleting objects");
    for part in objects.chunks(MAX_REMOVED) {
        let names: Vec<_> = part.iter().map(|(_, name)| name.clone()).collect();
        match remote.engine.remove(&names, &remote.context()) {
            Ok(()) => removed.extend(part.iter().map(|(number, _)| *number)),
            Err(_) if remote.cancel.is_cancelled() => break,
            Err(error @ RemoteError::Unsupported { .. }) => return Err(remote.failed(error)),
            Err(error) => {
                let left = counted(objects.len() - removed.len(), "object");
                output.print_warning(&format!("{left} could not be deleted: {error}"));
                *exit_status = ExitStatus::Problems;
                break;
            }
        }
    }
    progress.done();
    Ok(removed)
}

fn target_output(
    name: &str,
    stored: &[Stored],
    evicted: &BTreeSet<usize>,
    removed: &BTreeSet<usize>,
    args: &Args,
) -> TargetOutput {
    let of = |is_counted: &dyn Fn(usize) -> bool| {
        Totals::of((0..stored.len()).filter(|at| is_counted(*at)).map(|at| &stored[at]))
    };
    let after = of(&|at| !removed.contains(&at));
    TargetOutput {
        target: name.to_owned(),
        before: of(&|_| true),
        removed: of(&|at| removed.contains(&at)),
        stale: removed.iter().filter(|at| !stored[**at].has_kernels()).count() as u64,
        still_over: args.max_size.is_some_and(|max| after.bytes > max),
        after,
        failed: (evicted.len() - removed.len()) as u64,
    }
}

fn summary(target: &TargetOutput, dry_run: bool) -> String {
    let TargetOutput { target, before, removed, after, stale, still_over, failed } = target;
    let would = if dry_run { "would delete" } else { "deleted" };
    let kinds = [(removed.bundles, "bundle"), (*stale, "stale lease or plan")];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0);
    let further: Vec<_> = kinds.map(|(count, kind)| counted(*count, kind)).collect();
    let further = match further.split_last() {
        None => String::new(),
        Some((last, others)) => {
            let others: String = others.iter().map(|count| format!(", {count}")).collect();
            format!("{others} and {last}")
        }
    };
    let over = match (still_over, failed, after.kernels + after.bundles) {
        (false, ..) => "",
        (true, 1.., _) => "; that is more than the limit, since objects could not be deleted",
        (true, 0, 0) => {
            "; that is more than the limit, since leases and plans that changed within an hour stay"
        }
        (true, 0, _) => {
            "; that is more than the limit, since kernels that were used in the last half hour stay (--older-than 0s \
             deletes those, too)"
        }
    };
    let others = after.objects - after.kernel_objects;
    let others = match others {
        0 => String::new(),
        count => {
            format!(", {} ({})", counted(count, "other object"), bytes(after.bytes - after.kernel_bytes))
        }
    };
    format!(
        "{target}: {would} {}{further} ({}) of {}; left: {} ({}){others}{over}",
        counted(removed.kernels, "kernel"),
        bytes(removed.bytes),
        before.kernels,
        counted(after.kernels, "kernel"),
        bytes(after.kernel_bytes)
    )
}
