//! The repair of a store.

use opkeep_store::{
    Access, RepairAction, RepairActionKind, RepairOptions, RepairReport, SizeEstimate, UnrepairedItem,
    UnrepairedReason,
};
use serde::Serialize;

use super::args::Args;
use super::outcome::Repaired;
use crate::commands::verify::store::{
    OtherFileOutput, ProblemOutput, TargetError, problem_text, with_kernel_check,
};
use crate::input::store::{StorePath, threads};
use crate::ui::json::{self, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::{Text, bytes, counted};

/// More bytes than the store's own files of a target have: its counters, its lock files, the marks of what is to be sent.
const OWN_FILES: u64 = 64 << 10;

pub(crate) fn repair(
    args: &Args,
    store_path: &StorePath,
    output: &Output,
) -> anyhow::Result<Repaired<StoreOutput>> {
    let access = if args.dry_run { Access::ReadOnly } else { Access::ReadWrite };
    let root = store_path.root.to_string_lossy();
    let Some(store) = store_path.open(access, &args.store, output)? else {
        let text = Text::of(format_args!("there is no store at {root}; the first build creates it"));
        let json =
            StoreOutput { root: root.into_owned(), dry_run: args.dry_run, left: 0, targets: Vec::new() };
        return Ok(Repaired { text, json, exit_status: ExitStatus::Success });
    };
    let (cancel, progress) = (output.cancel_on_signal(), output.progress());
    let (mut text, mut targets, mut left) = (Text::of(format_args!("store {root}")), Vec::new(), 0);
    for (name, target_store) in store_path.target_stores(&store)? {
        let repaired = target_store.and_then(|target_store| {
            with_kernel_check(&name, threads(args.jobs), &progress, &cancel, |verify| {
                target_store.repair(&RepairOptions::new(verify).with_dry_run(args.dry_run))
            })
            .done
        });
        match repaired {
            Ok(report) => {
                left += report.unrepaired.len();
                text.append(&report_text(&name, &report, args.dry_run));
                targets.push(OrError::Done(target_output(&name, &report)));
            }
            Err(error) => {
                left += 1;
                let error = error.into();
                output.print_error(&error);
                targets.push(OrError::Failed(TargetError { target: name, error: chain(&error) }));
            }
        }
    }
    progress.done();
    match (left, args.dry_run) {
        (0, false) => text.line("no problem is left"),
        (0, true) => text.line("no problem would be left; nothing was changed"),
        (left, _) => text.line(format_args!("problems are left: {left}")),
    }
    let exit_status = match left {
        _ if cancel.is_cancelled() => ExitStatus::Interrupted,
        0 => ExitStatus::Success,
        _ => ExitStatus::Problems,
    };
    let json = StoreOutput { root: root.into_owned(), dry_run: args.dry_run, left, targets };
    Ok(Repaired { text, json, exit_status })
}

fn report_text(target: &str, report: &RepairReport, dry_run: bool) -> Text {
    let mut text = Text::of(format_args!(
        "{target}: {} checked, {} valid",
        counted(report.checked.files, "kernel"),
        report.valid.files
    ));
    let created =
        report.actions.iter().filter(|action| matches!(action.kind, RepairActionKind::Created)).count();
    let would = if dry_run { "would be " } else { "" };
    for action in &report.actions {
        action_line(&mut text, action, would);
    }
    if created > 0 {
        text.line(format_args!("  {would}created: {}", counted(created, "missing directory")));
    }
    for left in &report.unrepaired {
        let what = problem_text(&left.problem.path, &left.problem.kind);
        text.line(format_args!("  left: {what}{}", why_text(left)));
    }
    if let Some((before, now)) = &report.counted
        && before.as_ref().is_none_or(|before| is_wrong(before, now))
    {
        let before = before.as_ref().map_or("unknown".to_owned(), size_text);
        text.line(format_args!(
            "  size: {}; the recorded size was {before}, and is corrected",
            size_text(now)
        ));
    }
    if report.busy {
        text.line("  another process evicts entries: it counts the size and deletes stale files");
    }
    if report.cancelled {
        text.line("  interrupted; run it again to continue");
    }
    text
}

/// Whether a recorded size differs by more than the growth of the store's own files, which only a count sees.
fn is_wrong(recorded: &SizeEstimate, found: &SizeEstimate) -> bool {
    recorded.entries != found.entries || recorded.bytes.abs_diff(found.bytes) > OWN_FILES
}

fn action_line(text: &mut Text, action: &RepairAction, would: &str) {
    let path = action.path.to_string_lossy();
    match &action.kind {
        RepairActionKind::Quarantined { problem, moved_to, .. } => {
            let what = problem_text(&action.path, problem);
            text.line(format_args!("  {would}quarantined, {}: {what}", problem.name()));
            if let Some(moved_to) = moved_to {
                text.line(format_args!("    now {}", moved_to.display()));
            }
        }
        RepairActionKind::Pruned(kind) => {
            text.line(format_args!("  {would}deleted, {}: {path}", kind.name()))
        }
        RepairActionKind::CountersReset => {
            text.line(format_args!("  {would}reset: {path}: its counters were corrupt"));
        }
        // Reported in one line, since there may be hundreds.
        RepairActionKind::Created => {}
        _ => text.line(format_args!("  {would}repaired: {path}")),
    }
}

fn why_text(left: &UnrepairedItem) -> String {
    match &left.reason {
        UnrepairedReason::NotOurs => String::new(),
        UnrepairedReason::InProgress => {
            " (a build is making it; run repair again when it is done)".to_owned()
        }
        UnrepairedReason::Failed(error) => format!(" (it could not be changed: {error})"),
        _ => String::new(),
    }
}

fn size_text(size: &SizeEstimate) -> String {
    format!("{}, {}", counted(size.entries, "kernel"), bytes(size.bytes))
}

/// The result as JSON.
#[derive(Serialize)]
pub(crate) struct StoreOutput {
    root: String,
    dry_run: bool,
    pub(crate) left: usize,
    targets: Vec<OrError<TargetOutput, TargetError>>,
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    kernels: u64,
    whole: u64,
    done: Vec<ActionOutput>,
    left: Vec<LeftOutput>,
    besides: Vec<OtherFileOutput>,
    size_before: Option<SizeOutput>,
    size: Option<SizeOutput>,
    busy: bool,
    interrupted: bool,
}

/// An action on a file, as JSON.
#[derive(Serialize)]
struct ActionOutput {
    file: String,
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    quarantined: Option<QuarantinedOutput>,
}

#[derive(Serialize)]
struct QuarantinedOutput {
    key: String,
    problem: String,
    /// The new path of the file; null in a dry run.
    place: Option<String>,
}

/// A remaining problem, as JSON.
#[derive(Serialize)]
struct LeftOutput {
    #[serde(flatten)]
    problem: ProblemOutput,
    why: String,
}

#[derive(Serialize)]
struct SizeOutput {
    kernels: u64,
    bytes: u64,
}

impl From<&SizeEstimate> for SizeOutput {
    fn from(size: &SizeEstimate) -> Self {
        Self { kernels: size.entries, bytes: size.bytes }
    }
}

fn target_output(target: &str, report: &RepairReport) -> TargetOutput {
    TargetOutput {
        target: target.to_owned(),
        kernels: report.checked.files,
        whole: report.valid.files,
        done: report.actions.iter().map(action_output).collect(),
        left: report.unrepaired.iter().map(left_output).collect(),
        besides: report.other_files.iter().map(OtherFileOutput::from).collect(),
        size_before: report.counted.as_ref().and_then(|(before, _)| before.as_ref()).map(SizeOutput::from),
        size: report.counted.as_ref().map(|(_, now)| now.into()),
        busy: report.busy,
        interrupted: report.cancelled,
    }
}

fn left_output(left: &UnrepairedItem) -> LeftOutput {
    let why = match &left.reason {
        UnrepairedReason::InProgress => "in-the-making".to_owned(),
        UnrepairedReason::Failed(error) => error.to_string(),
        _ => "not-ours".to_owned(),
    };
    LeftOutput { problem: (&left.problem).into(), why }
}

fn action_output(action: &RepairAction) -> ActionOutput {
    let (what, kind) = match &action.kind {
        RepairActionKind::Quarantined { problem, .. } => ("set-aside", Some(problem.name())),
        RepairActionKind::Pruned(kind) => ("deleted", Some(kind.name())),
        RepairActionKind::Created => ("made", None),
        RepairActionKind::CountersReset => ("begun-anew", None),
        _ => ("mended", None),
    };
    let quarantined = match &action.kind {
        RepairActionKind::Quarantined { key, problem, moved_to } => Some(QuarantinedOutput {
            key: key.to_string(),
            problem: problem.to_string(),
            place: moved_to.as_deref().map(json::path),
        }),
        _ => None,
    };
    ActionOutput { file: json::path(&action.path), what, kind, quarantined }
}
