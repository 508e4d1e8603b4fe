//! `opkeep gc DIR`: eviction from the caches of CANN.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opkeep_cann_cache::{
    FileGroupKind, GcOptions, GcProgress, GcReport, IDLE_FOR, InUseCounts, Usage, gc as evict,
};
use opkeep_framework_cache::scan::{CacheDir, Kind, find, is_in_quarantine};
use opkeep_fs::Fs;
use serde::Serialize;

use super::args::Args;
use crate::input::{can_read, real_path, with_path};
use crate::ui::env;
use crate::ui::json::{self, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::{Text, bytes, counted, first_names};

pub(crate) fn gc(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let mut run =
        GcRun { output, text: Text::default(), caches: Vec::new(), exit_status: ExitStatus::Success };
    if args.older_than.is_some_and(|age| age < IDLE_FOR) {
        output.print_warning(
            "--older-than counts as 30m: in CANN's cache what was used in the last half hour stays",
        );
    }
    let caches = run.find(&args.dirs);
    let environment = env::limits();
    let cancel = output.cancel_on_signal();
    let progress = output.progress();
    for cache in caches {
        let name = cache.path.to_string_lossy();
        progress.start(&name);
        let report_progress = |step: GcProgress<'_>| match step {
            GcProgress::Listed { files } => progress.start(&format!("{name}: {}", counted(files, "file"))),
            GcProgress::Done { done, of } => progress.update(done, of),
            _ => {}
        };
        let is_cancelled = || cancel.is_cancelled();
        let mut options = GcOptions::new(&environment);
        (options.dry_run, options.max_bytes, options.older_than) =
            (args.dry_run, args.max_size, args.older_than);
        (options.progress, options.is_cancelled) = (&report_progress, &is_cancelled);
        match evict(&cache.path, &options) {
            Ok(report) => run.add(&cache, &report, args),
            Err(error) => run.failed(&cache.path, &error),
        }
        if cancel.is_cancelled() {
            run.exit_status = ExitStatus::Interrupted;
            break;
        }
    }
    progress.done();
    let GcRun { text, caches, exit_status, .. } = run;
    output.print_result(&text, &GcOutput { dry_run: args.dry_run, caches })?;
    Ok(exit_status)
}

/// The results so far.
struct GcRun<'a> {
    output: &'a Output<'a>,
    text: Text,
    caches: Vec<OrError<CacheOutput, PathError>>,
    exit_status: ExitStatus,
}

impl GcRun<'_> {
    /// Returns CANN's caches at and below `dirs`, each once.
    fn find(&mut self, dirs: &[PathBuf]) -> Vec<CacheDir> {
        let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
        for dir in dirs {
            let found = can_read(dir).and_then(|()| find(dir).map_err(|error| with_path(dir, error)));
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    self.caches
                        .push(OrError::Failed(PathError { path: json::path(dir), error: chain(&error) }));
                    self.output.print_error(&error);
                    self.exit_status = ExitStatus::Failed;
                    continue;
                }
            };
            for (path, error) in found.unreadable_dirs {
                self.failed(&path, &error);
            }
            for path in found.too_deep {
                self.warning(&path, "it is nested too deep");
            }
            for path in found.links {
                self.warning(&path, "it is a link and was not followed; name it on the command line");
            }
            let caches: Vec<CacheDir> =
                found.caches.into_iter().filter(|cache| cache.kind == Kind::Cann).collect();
            if caches.is_empty() {
                let is_quarantined = Fs::new().real_path(dir).is_ok_and(|dir| is_in_quarantine(&dir));
                self.failed(
                    dir,
                    &match is_quarantined {
                        true => {
                            "files that a repair quarantined stay until they are restored, or deleted by hand"
                        }
                        false => "there is no kernel_cache in it; --op_compiler_cache_dir names a store",
                    },
                );
            }
            let is_new = |cache: &CacheDir| seen.insert(real_path(&cache.path));
            all.extend(caches.into_iter().filter(is_new));
        }
        all
    }

    fn warning(&mut self, path: &Path, text: &str) {
        self.output.print_warning(&format!("{}: {text}", path.to_string_lossy()));
    }

    /// Reports a directory that could not be processed.
    fn failed(&mut self, path: &Path, error: &dyn std::fmt::Display) {
        let name = path.to_string_lossy();
        self.output.print_error(&anyhow::anyhow!("{}: {error}", name));
        self.caches.push(OrError::Failed(PathError { path: name.into_owned(), error: error.to_string() }));
        self.exit_status = ExitStatus::Failed;
    }

    fn add(&mut self, cache: &CacheDir, report: &GcReport, args: &Args) {
        let name = cache.path.to_string_lossy();
        self.text.line(format_args!("{}: {}", name, summary(report, args.dry_run)));
        self.caches.push(OrError::Done(cache_output(cache, report)));
        for warning in &report.warnings {
            self.output.print_warning(&warning.to_string());
        }
        if report.limits.as_ref().is_some_and(|limits| limits.max_bytes.is_none()) && !report.is_locked {
            let text = match args.older_than {
                None => {
                    "there is no aging: max_op_cache_size is -1 or unknown; only what CANN cannot use is deleted"
                }
                Some(_) => {
                    "max_op_cache_size is -1 or unknown: then CANN does not note when a kernel was used, so its age is \
                     that of the file"
                }
            };
            self.output.print_note(&format!("{}: {text}", name));
        }
        self.print_remaining(&cache.path, report);
    }

    /// Reports files that could not be deleted, and files that do not belong to CANN.
    fn print_remaining(&mut self, path: &Path, report: &GcReport) {
        let GcReport { failure, failed, unreadable_dirs, unread, unknown, unknown_count, .. } = report;
        if let Some((file, error)) = failure {
            let failed = counted(*failed, "item");
            let file = file.to_string_lossy();
            self.warning(path, &format!("{failed} could not be deleted: `{}`: {error}", file));
            self.problem();
        }
        for (below, error) in unreadable_dirs {
            let below = below.to_string_lossy();
            self.warning(path, &format!("`{}` cannot be read: {error}", below));
            self.problem();
        }
        if *unread > 0 {
            self.warning(
                path,
                &format!(
                    "{} of another user not read, since that would count as a use of the kernel: files beside them \
                     do not count as orphans; run this as their owner",
                    counted(*unread, "description")
                ),
            );
        }
        if *unknown_count > 0 {
            let first = first_names(unknown.iter().map(|name| format!("`{name}`")), 3);
            let text = format!("{unknown_count} not CANN's, left alone: {first}");
            self.output.print_note(&format!("{}: {text}", path.to_string_lossy()));
        }
    }

    fn problem(&mut self) {
        if self.exit_status == ExitStatus::Success {
            self.exit_status = ExitStatus::Problems;
        }
    }
}

fn summary(report: &GcReport, dry_run: bool) -> String {
    if report.is_locked {
        return "another process evicts kernels there".to_owned();
    }
    let GcReport { before, removed, after, .. } = report;
    let would = if dry_run { "would delete" } else { "deleted" };
    let mut text = format!(
        "{would} {} ({}) of {}; {} left ({})",
        counts_text(removed),
        bytes(removed.total().bytes),
        counts_text(before),
        counts_text(after),
        bytes(after.total().bytes)
    );
    if let Some(in_use) = in_use_text(&report.in_use) {
        text.push_str(&format!("; {in_use}"));
    }
    if report.still_over {
        text.push_str(
            "; that is more than the limit, since files that are not CANN's, or were used in the last half hour, stay",
        );
    }
    if report.cancelled {
        text.push_str("; interrupted");
    }
    text
}

/// Returns the numbers of what stays, by reason: `2 open and 1 locked stay`.
fn in_use_text(in_use: &InUseCounts) -> Option<String> {
    let InUseCounts { open, locked, changed, .. } = in_use;
    let reasons = [(open, "open"), (locked, "locked"), (changed, "used or written meanwhile")].into_iter();
    let reasons: Vec<String> =
        reasons.filter(|(count, _)| **count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    let stay = if open + locked + changed == 1 { "stays" } else { "stay" };
    (!reasons.is_empty()).then(|| format!("{} {stay}", reasons.join(", ")))
}

/// Returns a text with the number of each kind.
fn counts_text(usage: &Usage) -> String {
    let word = |what| match what {
        FileGroupKind::Kernel => "kernel",
        FileGroupKind::Precompile => "trial compile",
        FileGroupKind::Orphan => "orphan",
        FileGroupKind::Temp => "temporary file",
        _ => "stray lock",
    };
    let all = FileGroupKind::ALL
        .into_iter()
        .filter(|what| *what == FileGroupKind::Kernel || usage.count(*what) > 0);
    let all = all.map(|what| counted(usage.count(what), word(what)));
    all.collect::<Vec<_>>().join(", ")
}

/// The result as JSON.
#[derive(Serialize)]
struct GcOutput {
    dry_run: bool,
    caches: Vec<OrError<CacheOutput, PathError>>,
}

/// A directory that could not be processed, as JSON.
#[derive(Serialize)]
struct PathError {
    path: String,
    error: String,
}

#[derive(Serialize)]
struct CacheOutput {
    path: String,
    soc: Option<String>,
    busy: bool,
    max_bytes: Option<u64>,
    remain_percent: Option<u8>,
    notices: Vec<String>,
    before: UsageOutput,
    removed: UsageOutput,
    after: UsageOutput,
    still_over: bool,
    in_use: InUseOutput,
    failed: u64,
    failure: Option<ProblemOutput>,
    unread: u64,
    not_recognised: UnknownOutput,
    closed: Vec<ProblemOutput>,
    interrupted: bool,
}

/// The content of a cache as JSON: in total, and by kind.
#[derive(Serialize)]
struct UsageOutput {
    files: u64,
    bytes: u64,
    #[serde(flatten)]
    kinds: BTreeMap<&'static str, KindOutput>,
    other: OtherOutput,
}

#[derive(Serialize)]
struct KindOutput {
    count: u64,
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct OtherOutput {
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct InUseOutput {
    open: u64,
    locked: u64,
    changed: u64,
}

/// Files that do not belong to CANN, as JSON.
#[derive(Serialize)]
struct UnknownOutput {
    count: u64,
    first: Vec<String>,
}

#[derive(Serialize)]
struct ProblemOutput {
    path: String,
    problem: String,
}

fn cache_output(cache: &CacheDir, report: &GcReport) -> CacheOutput {
    let problem = |(path, error): &(PathBuf, std::io::Error)| ProblemOutput {
        path: json::path(path),
        problem: error.to_string(),
    };
    let in_use = &report.in_use;
    CacheOutput {
        path: json::path(&cache.path),
        soc: cache.soc.clone(),
        busy: report.is_locked,
        max_bytes: report.limits.as_ref().and_then(|limits| limits.max_bytes),
        remain_percent: report.limits.as_ref().map(|limits| limits.remain_percent),
        notices: report.warnings.iter().map(ToString::to_string).collect(),
        before: usage_output(&report.before),
        removed: usage_output(&report.removed),
        after: usage_output(&report.after),
        still_over: report.still_over,
        in_use: InUseOutput { open: in_use.open, locked: in_use.locked, changed: in_use.changed },
        failed: report.failed,
        failure: report.failure.as_ref().map(problem),
        unread: report.unread,
        not_recognised: UnknownOutput { count: report.unknown_count, first: report.unknown.clone() },
        closed: report.unreadable_dirs.iter().map(problem).collect(),
        interrupted: report.cancelled,
    }
}

fn usage_output(usage: &Usage) -> UsageOutput {
    let kind = |what: FileGroupKind| {
        let amount = usage.totals(what);
        (what.name(), KindOutput { count: usage.count(what), files: amount.files, bytes: amount.bytes })
    };
    UsageOutput {
        files: usage.total().files,
        bytes: usage.total().bytes,
        kinds: opkeep_order::map(FileGroupKind::ALL.into_iter().map(kind)),
        other: OtherOutput { files: usage.other.files, bytes: usage.other.bytes },
    }
}
