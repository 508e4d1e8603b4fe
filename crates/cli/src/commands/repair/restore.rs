//! `opkeep repair --undo`: restores quarantined files.

use anyhow::{Context, bail};
use opkeep_framework_cache::restore::{
    QuarantineRun, RestoreOptions, RestoreReport, UnrestoredFile, newest, quarantines, restore,
};
use serde::Serialize;

use super::args::Args;
use super::causes::list;
use crate::ui::json::{self, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::{Text, counted, quotable};

pub(crate) fn undo(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    if args.paths.is_empty() {
        bail!(
            "--undo needs a framework's cache, a directory above one, or the directory of one run; what `repair` \
             quarantined in a store is not restored: a build compiles it again"
        );
    }
    let mut runs: Vec<QuarantineRun> = Vec::new();
    for path in &args.paths {
        let found = quarantines(path).with_context(|| format!("cannot read `{}`", quotable(path)))?;
        if found.is_empty() {
            bail!(
                "nothing was quarantined at or below `{}`: there is no *.opkeep-quarantine",
                path.display()
            );
        }
        for run in newest(found) {
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
    }
    let (mut text, mut all, mut left) = (Text::default(), Vec::new(), 0);
    for run in &runs {
        let options = RestoreOptions::new(args.dry_run);
        match restore(run, &options) {
            Ok(undone) => {
                left += undone.unrestored.len();
                text.append(&shown(run, &undone, args.dry_run));
                all.push(OrError::Done(run_output(run, &undone)));
            }
            Err(error) => {
                left += 1;
                let error = error.into();
                output.print_error(&error);
                all.push(OrError::Failed(FailedOutput {
                    quarantine: json::path(&run.path()),
                    error: chain(&error),
                }));
            }
        }
    }
    match (left, args.dry_run) {
        (0, false) => text.line("everything is restored"),
        (0, true) => text.line("everything would be restored; nothing was changed"),
        (left, _) => text.line(format_args!("not everything is restored: {left} left")),
    }
    output.print_result(&text, &RestoreOutput { dry_run: args.dry_run, left, undone: all })?;
    Ok(if left == 0 { ExitStatus::Success } else { ExitStatus::Problems })
}

fn shown(run: &QuarantineRun, undone: &RestoreReport, dry_run: bool) -> Text {
    let RestoreReport { restored, deleted, unrestored, .. } = undone;
    let would = if dry_run { "would be " } else { "" };
    let restored = counted(restored.len(), "file");
    let mut text = Text::of(format_args!("{}: {restored} {would}restored", run.cache.display()));
    if !deleted.is_empty() {
        let files = counted(deleted.len(), "file");
        text.line(format_args!("  {files} that opkeep wrote there {would}removed"));
    }
    let line = |UnrestoredFile { file, reason, .. }: &UnrestoredFile| format!("  left: {file}: {reason}");
    list(&mut text, unrestored.iter().map(line));
    if !unrestored.is_empty() {
        text.line(format_args!("  in {}", run.path().to_string_lossy()));
    }
    text
}

/// The result as JSON.
#[derive(Serialize)]
struct RestoreOutput {
    dry_run: bool,
    left: usize,
    undone: Vec<OrError<RunOutput, FailedOutput>>,
}

#[derive(Serialize)]
struct RunOutput {
    folder: String,
    quarantine: String,
    restored: Vec<String>,
    withdrawn: Vec<String>,
    left: Vec<LeftOutput>,
    removed: bool,
}

#[derive(Serialize)]
struct LeftOutput {
    file: String,
    why: String,
}

/// A run that could not be undone, as JSON.
#[derive(Serialize)]
struct FailedOutput {
    quarantine: String,
    error: String,
}

fn run_output(run: &QuarantineRun, undone: &RestoreReport) -> RunOutput {
    let RestoreReport { restored, deleted, unrestored, removed, .. } = undone;
    RunOutput {
        folder: json::path(&run.cache),
        quarantine: json::path(&run.path()),
        restored: restored.clone(),
        withdrawn: deleted.clone(),
        left: unrestored
            .iter()
            .map(|kept| LeftOutput { file: kept.file.clone(), why: kept.reason.clone() })
            .collect(),
        removed: *removed,
    }
}
