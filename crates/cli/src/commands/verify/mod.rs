//! `opkeep verify`.

mod caches;
pub(crate) mod store;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use opkeep_artifact::Expectations;
use opkeep_fs::Fs;
use opkeep_kernel_meta::Links;
use opkeep_kernel_meta::survey::find_through_links;
use opkeep_store::is_store;
use opkeep_validator::{Code, Finding, Report};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::commands::verify::caches::{Checked, Sums, mendable, note_links, ranks_json};
use crate::commands::verify::store::{Place, Verified, threads};
use crate::input::entry::{self, Stored};
use crate::input::others::{Skipped, others};
use crate::input::pairs::{CheckOutcome, CheckedKernel, is_kernel_file, judge, of_known_chip};
use crate::input::{self, Found};
use crate::ui::interrupt;
use crate::ui::output::{Output, Verdict, chain};
use crate::ui::text::{Text, counted, typed};

/// What was judged so far.
#[derive(Default)]
struct Tally {
    text: Text,
    files: Vec<Value>,
    valid: usize,
    refused: usize,
    unusable: usize,
    /// Files that were named and are no kernel's, and why not.
    others: Skipped,
    /// Files in directories that are no kernel's.
    beside: Skipped,
    /// Remarks about MindSpore 2.0, which nearly every kernel of today gets.
    remarks: usize,
    stores: Verified,
    caches: Checked,
}

pub(crate) fn verify(args: &VerifyArgs, output: &Output) -> anyhow::Result<Verdict> {
    let expect = args.target.as_deref().map(named).transpose()?;
    let mut tally = Tally::default();
    let mut paths = Vec::new();
    let mut places = Vec::new();
    let (cancel, jobs) = (interrupt::cancel(), threads(args.jobs));
    for path in &args.files {
        match (Place::of(path), input::can_read(path)) {
            (Some(place), _) => {
                // A framework's caches may be beside a store, as where both are in a project's directory.
                if expect.is_none()
                    && is_store(path)
                    && let Ok(found) = find_through_links(path)
                    && !found.places.is_empty()
                {
                    tally.caches.add(found, jobs, &cancel, output);
                }
                places.push(place);
            }
            (None, Err(error)) => tally.fail(path, &error, output),
            (None, Ok(())) => match expect.is_none().then(|| find_through_links(path).ok()).flatten() {
                Some(mut found) => {
                    let files = others(&mut found, &mut tally.beside);
                    let unreadable = tally.caches.unreadable();
                    let kernels = tally.caches.add(found, jobs, &cancel, output);
                    let is_complete = tally.caches.unreadable() == unreadable;
                    if kernels == 0 && files.is_empty() && is_complete && !cancel.is_cancelled() {
                        let nothing = anyhow::anyhow!("there is no kernel file in `{}`", path.display());
                        tally.fail(path, &nothing, output);
                    }
                    paths.extend(files);
                }
                None => paths.push(path.clone()),
            },
        }
    }
    if args.files.is_empty() {
        places.push(Place::usual(&args.store)?);
    }
    anyhow::ensure!(
        places.is_empty() || expect.is_none(),
        "--target is for kernels by themselves: what a store's are for is what their folder is called"
    );
    for place in &places {
        if let Err(error) = tally.stores.add(place, &args.store, jobs, &cancel, output) {
            tally.fail(&place.root, &error, output);
        }
    }
    let Found { mut files, unreadable, not_followed, .. } =
        input::files(&paths, "kernel", Links::Follow, is_kernel_file);
    note_links(&not_followed, output);
    unreadable.iter().for_each(|(path, error)| tally.fail(path, error, output));
    // A pattern such as `*` names both files of a pair, and the `.json` knows which those are.
    files.sort_by_key(|path| path.extension().is_none_or(|extension| extension != "json"));
    let (mut seen, mut objects) = (HashSet::new(), HashSet::new());
    for path in &files {
        if cancel.is_cancelled() {
            tally.stores.cancelled = true;
            break;
        }
        if objects.contains(&real(path)) {
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "kern") {
            match entry::judge(path, expect.as_ref()) {
                Ok(stored) => tally.add_entry(path, &stored),
                Err(error) => tally.fail(path, &error, output),
            }
            continue;
        }
        match judge(path, expect.as_ref()) {
            Ok(CheckOutcome::Kernels(kernels)) => {
                let new = |judged: &CheckedKernel| {
                    seen.insert((real(&judged.file), judged.object.as_deref().map(real)))
                };
                for judged in kernels.into_iter().filter(new) {
                    objects.extend(judged.object.as_deref().map(real));
                    tally.add(&judged);
                }
            }
            Ok(CheckOutcome::Other(why)) => tally.others.add(|| why),
            Err(error) => tally.fail(path, &error, output),
        }
    }
    tally.tell(output)
}

/// The same for each path to a file, whatever links lead to its directory.
fn real(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = Fs::new().real_path(directory.unwrap_or(Path::new(".")));
    directory
        .map_or_else(|_| path.to_owned(), |directory| directory.join(path.file_name().unwrap_or_default()))
}

fn named(target: &str) -> anyhow::Result<Expectations> {
    of_known_chip(target).with_context(|| {
        format!("the target `{target}` is not known: expected cpu, aicpu, or a chip such as Ascend910B1")
    })
}

impl Tally {
    fn fail(&mut self, path: &Path, error: &anyhow::Error, output: &Output) {
        output.error(error);
        self.unusable += 1;
        self.files.push(json!({ "file": path.to_string_lossy(), "error": chain(error) }));
    }

    fn add(&mut self, judged: &CheckedKernel) {
        let CheckedKernel { file, object, target, report } = judged;
        let beside = object
            .as_ref()
            .map(|object| format!(" and {}", object.file_name().unwrap_or_default().to_string_lossy()));
        self.line(file, &beside.unwrap_or_default(), target, report.is_valid());
        self.findings(report);
        self.files.push(json!({
            "file": file.to_string_lossy(),
            "object": object.as_ref().map(|object| object.to_string_lossy()),
            "target": target,
            "valid": report.is_valid(),
            "findings": findings_json(report),
        }));
    }

    /// An entry of a store, named by itself.
    fn add_entry(&mut self, file: &Path, stored: &Stored) {
        self.line(file, "", &stored.target, stored.is_valid());
        for problem in &stored.problems {
            self.text.line(format_args!("  {:<8} {problem}", "error"));
        }
        if let Some(why) = &stored.unverifiable {
            self.text.line(format_args!("  {:<8} not all of it can be judged: {why}", "note"));
        }
        if let Some(report) = &stored.report {
            self.findings(report);
        }
        self.files.push(json!({
            "file": file.to_string_lossy(),
            "object": null,
            "target": stored.target,
            "valid": stored.is_valid(),
            "problems": stored.problems,
            "unverifiable": stored.unverifiable,
            "findings": stored.report.as_ref().map(findings_json).unwrap_or_else(|| json!([])),
        }));
    }

    fn line(&mut self, file: &Path, beside: &str, target: &str, valid: bool) {
        let (verdict, count) = match valid {
            true => ("valid", &mut self.valid),
            false => ("refused", &mut self.refused),
        };
        *count += 1;
        let file = file.to_string_lossy();
        self.text.line(format_args!("{verdict:<8} {file}{beside} for {target}"));
    }

    fn findings(&mut self, report: &Report) {
        let remark = |finding: &&Finding| finding.code() == Code::MINDSPORE_LINT;
        self.remarks += report.findings.iter().filter(remark).count();
        self.text.extend(report.findings.iter().filter(|finding| !remark(finding)).map(line));
    }

    fn tell(self, output: &Output) -> anyhow::Result<Verdict> {
        let Self {
            text: tally_text,
            files,
            valid,
            refused,
            unusable,
            others: mut skipped,
            beside,
            remarks,
            stores,
            caches,
        } = self;
        let Sums { intact, wrong, rests, busy } = caches.sums();
        let (valid, refused) = (valid + stores.valid + intact, refused + stores.refused + wrong);
        let unusable = unusable + stores.unusable + caches.unreadable();
        let ranks = caches.ranks();
        let (checked, mut text) = (valid + refused, stores.text);
        text.append(&caches.text(&ranks));
        text.append(&tally_text);
        let looked = !stores.stores.is_empty() || !caches.is_empty();
        // Folders hold other files too; but somebody who named nothing else wants to know.
        if checked == 0 && !looked {
            skipped.first.iter().for_each(|why| output.error(&anyhow::anyhow!("{why}")));
        }
        skipped.append(beside);
        let passed_over = match skipped.count {
            0 => String::new(),
            number => format!(", {} of other kinds passed over", counted(number, "file")),
        };
        text.line(format_args!(
            "{} checked: {valid} valid, {refused} refused; {} unusable{passed_over}",
            counted(checked, "kernel"),
            counted(unusable, "file")
        ));
        if rests > 0 {
            text.line(format_args!("besides kernels, {} damaged or left over", counted(rests, "file")));
        }
        if busy > 0 {
            text.line(format_args!(
                "{busy} not judged, since a build may still be writing them: if none is running, verify again half \
                 an hour after the last write"
            ));
        }
        if remarks > 0 {
            text.line(format_args!(
                "{} on how MindSpore 2.0 reads them; inspect tells",
                counted(remarks, "note")
            ));
        }
        let lacking = ranks.iter().flat_map(|ranks| &ranks.ranks).any(|rank| !rank.lacks.is_empty());
        let in_caches = rests == 0 && busy == 0 && !lacking;
        let in_order = unusable == 0 && refused == 0 && stores.faults == 0 && in_caches;
        let broken = mendable(&caches.surveys);
        if !broken.is_empty() {
            let broken = broken.iter().map(|path| typed(path)).collect::<Vec<_>>().join(" ");
            text.line(format_args!(
                "`opkeep repair {broken}` moves aside what is damaged or left over there"
            ));
        }
        if lacking {
            text.line(
                "`opkeep repair --fill DIR` completes ranks from others, where their MindSpore allows it",
            );
        }
        for root in &stores.mendable {
            text.line(format_args!("`opkeep repair {}` sets aside what is damaged there", typed(root)));
        }
        let cancelled = stores.cancelled || caches.cancelled();
        if cancelled {
            text.line("interrupted before everything was checked");
        }
        let json = json!({
            "checked": checked, "valid": valid, "refused": refused, "unusable": unusable,
            "rests": rests, "in_progress": busy,
            "passed_over": skipped.first, "passed_over_count": skipped.count, "files": files, "stores": stores.stores,
            "caches": caches.json(), "ranks": ranks_json(&ranks),
        });
        output.result(&text, &json)?;
        Ok(match () {
            () if cancelled => Verdict::Interrupted,
            () if unusable > 0 || (checked == 0 && !looked) => Verdict::Unusable,
            () if !in_order => Verdict::Problems,
            () => Verdict::Good,
        })
    }
}

/// A line for each finding.
pub(crate) fn findings_text(report: &Report) -> Text {
    report.findings.iter().map(line).collect()
}

fn line(finding: &Finding) -> Text {
    Text::of(format_args!("  {:<8} {finding}", finding.severity()))
}

/// The findings for programs: the code says what it is, the message what was found, the hint what to do.
pub(crate) fn findings_json(report: &Report) -> Value {
    let one = |finding: &Finding| {
        json!({
            "code": finding.code().to_string(),
            "severity": finding.severity().name(),
            "message": finding.message(),
            "hint": finding.rule().remedy,
            "more": finding.more,
        })
    };
    report.findings.iter().map(one).collect()
}
