//! Repair of a store.

use opkeep_store::{
    Access, RepairAction, RepairActionKind, RepairOptions, RepairReport, SizeEstimate, UnrepairedItem,
    UnrepairedReason,
};
use serde_json::{Value, json};

use super::args::Args;
use super::outcome::Repaired;
use crate::commands::verify::store::{beside_json, flaw_json, flaw_text, judged_as};
use crate::input::store::{Place, threads};
use crate::ui::interrupt;
use crate::ui::output::{Output, Verdict, chain};
use crate::ui::progress::Progress;
use crate::ui::text::{Text, bytes, counted};

pub(crate) fn repair(args: &Args, place: Option<Place>, output: &Output) -> anyhow::Result<Repaired> {
    let place = place.map_or_else(|| Place::usual(&args.store), Ok)?;
    let access = if args.dry_run { Access::ReadOnly } else { Access::ReadWrite };
    let root = place.root.to_string_lossy();
    let Some(store) = place.open(access, &args.store, output)? else {
        let text = Text::of(format_args!("there is no store at {root}"));
        let json = json!({ "root": root, "dry_run": args.dry_run, "left": 0, "targets": [] });
        return Ok(Repaired { text, json, verdict: Verdict::Good });
    };
    let (cancel, progress) = (interrupt::cancel(), Progress::new(output.is_text()));
    let (mut text, mut targets, mut left) = (Text::of(format_args!("store {root}")), Vec::new(), 0);
    for (name, shelf) in place.shelves(&store)? {
        let repaired = shelf.and_then(|shelf| {
            judged_as(&name, threads(args.jobs), &progress, &cancel, |verify| {
                shelf.repair(&RepairOptions { verify, dry_run: args.dry_run })
            })
            .0
        });
        match repaired {
            Ok(report) => {
                left += report.unrepaired.len();
                text.append(&report_text(&name, &report, args.dry_run));
                targets.push(report_json(&name, &report));
            }
            Err(error) => {
                left += 1;
                let error = error.into();
                output.error(&error);
                targets.push(json!({ "target": name, "error": chain(&error) }));
            }
        }
    }
    progress.done();
    match (left, args.dry_run) {
        (0, false) => text.line("all is in order"),
        (0, true) => text.line("all would be in order; nothing was changed"),
        (left, _) => text.line(format_args!("not all is in order: {left} left")),
    }
    let verdict = match left {
        _ if cancel.is_cancelled() => Verdict::Interrupted,
        0 => Verdict::Good,
        _ => Verdict::Problems,
    };
    let json = json!({ "root": root, "dry_run": args.dry_run, "left": left, "targets": targets });
    Ok(Repaired { text, json, verdict })
}

fn report_text(target: &str, report: &RepairReport, dry_run: bool) -> Text {
    let number = |files: u64| usize::try_from(files).unwrap_or(usize::MAX);
    let mut text = Text::of(format_args!(
        "{target}: {} checked, {} whole",
        counted(number(report.checked.files), "kernel"),
        report.valid.files
    ));
    let made = report.actions.iter().filter(|deed| matches!(deed.kind, RepairActionKind::Created)).count();
    let would = if dry_run { "would be " } else { "" };
    for deed in &report.actions {
        deed_line(&mut text, deed, would);
    }
    if made > 0 {
        text.line(format_args!("  {would}made: {}", counted(made, "missing folder")));
    }
    for left in &report.unrepaired {
        let what = flaw_text(&left.problem.path, &left.problem.kind);
        text.line(format_args!("  left: {what}{}", why_text(left)));
    }
    if let Some((before, now)) = &report.counted {
        let before = before.as_ref().map_or("unknown".to_owned(), size_text);
        text.line(format_args!("  size: {}; it was taken for {before}", size_text(now)));
    }
    if report.busy {
        text.line("  another process makes room: it counts, and deletes what the dead left");
    }
    if report.cancelled {
        text.line("  interrupted; run it again to go on");
    }
    text
}

fn deed_line(text: &mut Text, deed: &RepairAction, would: &str) {
    let path = deed.path.to_string_lossy();
    match &deed.kind {
        RepairActionKind::Quarantined { problem: flaw, moved_to: place, .. } => {
            let what = flaw_text(&deed.path, flaw);
            text.line(format_args!("  {would}set aside, {}: {what}", flaw.name()));
            if let Some(place) = place {
                text.line(format_args!("    now {}", place.display()));
            }
        }
        RepairActionKind::Pruned(kind) => {
            text.line(format_args!("  {would}deleted, {}: {path}", kind.name()))
        }
        RepairActionKind::CountersReset => {
            text.line(format_args!("  {would}begun anew: {path}: its numbers did not check"));
        }
        // Told together: there are hundreds.
        RepairActionKind::Created => {}
        _ => text.line(format_args!("  {would}mended: {path}")),
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
    let kernels = usize::try_from(size.entries).unwrap_or(usize::MAX);
    format!("{}, {}", counted(kernels, "kernel"), bytes(size.bytes))
}

fn report_json(target: &str, report: &RepairReport) -> Value {
    let size = |size: &SizeEstimate| json!({ "kernels": size.entries, "bytes": size.bytes });
    let left = |left: &UnrepairedItem| {
        let mut json = flaw_json(&left.problem);
        json["why"] = match &left.reason {
            UnrepairedReason::InProgress => "in-the-making".into(),
            UnrepairedReason::Failed(error) => error.to_string().into(),
            _ => "not-ours".into(),
        };
        json
    };
    json!({
        "target": target,
        "kernels": report.checked.files,
        "whole": report.valid.files,
        "done": report.actions.iter().map(deed_json).collect::<Vec<_>>(),
        "left": report.unrepaired.iter().map(left).collect::<Vec<_>>(),
        "besides": report.other_files.iter().map(beside_json).collect::<Vec<_>>(),
        "size_before": report.counted.and_then(|(before, _)| before).as_ref().map(size),
        "size": report.counted.map(|(_, now)| now).as_ref().map(size),
        "busy": report.busy,
        "interrupted": report.cancelled,
    })
}

fn deed_json(deed: &RepairAction) -> Value {
    let mut json = json!({ "file": deed.path.to_string_lossy() });
    let what = match &deed.kind {
        RepairActionKind::Quarantined { key, problem: flaw, moved_to: place } => {
            json["key"] = key.to_string().into();
            json["kind"] = flaw.name().into();
            json["problem"] = flaw.to_string().into();
            json["place"] = place.as_ref().map(|place| place.to_string_lossy().into_owned()).into();
            "set-aside"
        }
        RepairActionKind::Pruned(kind) => {
            json["kind"] = kind.name().into();
            "deleted"
        }
        RepairActionKind::Created => "made",
        RepairActionKind::CountersReset => "begun-anew",
        _ => "mended",
    };
    json["what"] = what.into();
    json
}
