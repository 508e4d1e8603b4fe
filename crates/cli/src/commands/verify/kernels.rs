//! Kernels in files, and the result of `verify`.

use std::path::Path;

use opkeep_framework_cache::triton::TritonDir;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::{EntryFile, GroupRecord};
use opkeep_validator::{Finding, Report};
use serde::Serialize;

use super::caches::{
    CacheOutput, CheckedCaches, RanksOutput, Sums, missing_advice, ranks_outputs, repairable,
};
use super::findings::{FindingOutput, finding_outputs, is_benign, line};
use super::store::{CheckedStores, StoreOutput};
use super::triton::{CheckedTriton, TritonOutput};
use crate::flags::store::StoreArgs;
use crate::input::pairs::CheckedKernel;
use crate::ui::json::{self, FileError, OrError};
use crate::ui::output::{ExitStatus, Output, chain};
use crate::ui::text::{Text, counted, quoted_path};

/// The result of `verify` as JSON.
#[derive(Serialize)]
struct VerifyOutput {
    checked: usize,
    valid: usize,
    refused: usize,
    unusable: usize,
    rests: usize,
    in_progress: usize,
    passed_over: Vec<String>,
    passed_over_count: usize,
    files: Vec<OrError<KernelOutput>>,
    stores: Vec<StoreOutput>,
    caches: Vec<OrError<CacheOutput>>,
    ranks: Vec<RanksOutput>,
    triton: Vec<TritonOutput>,
}

/// A kernel in a file, as JSON.
#[derive(Serialize)]
pub(crate) struct KernelOutput {
    file: String,
    object: Option<String>,
    target: String,
    valid: bool,
    #[serde(flatten)]
    entry: Option<EntryOutput>,
    findings: Vec<FindingOutput>,
}

/// The fields of a store entry.
#[derive(Serialize)]
struct EntryOutput {
    problems: Vec<String>,
    unverifiable: Option<String>,
}

/// Files that belong to no kernel: their number, and a text for each of the first ones.
#[derive(Default)]
pub(crate) struct Skipped {
    count: usize,
    first: Vec<String>,
}

impl Skipped {
    /// The maximum length of `first`: a check of `/` skips every other file of the system.
    const MAX_LISTED: usize = 100;

    pub(crate) fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < Self::MAX_LISTED {
            self.first.push(text());
        }
    }

    fn append(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(Self::MAX_LISTED);
    }
}

/// The results so far.
#[derive(Default)]
pub(crate) struct VerifyTally {
    pub(crate) text: Text,
    pub(crate) files: Vec<OrError<KernelOutput>>,
    pub(crate) valid: usize,
    pub(crate) refused: usize,
    pub(crate) unusable: usize,
    /// Files named by the user that belong to no kernel, with the reason.
    pub(crate) skipped_arguments: Skipped,
    /// Files that belong to no kernel, found in directories.
    pub(crate) skipped_below: Skipped,
    /// Whether notes, which are no problems, have lines. Nearly every kernel of MindSpore has one.
    pub(crate) shows_notes: bool,
    /// The number of notes without lines.
    pub(crate) hidden_notes: usize,
    pub(crate) stores: CheckedStores,
    pub(crate) caches: CheckedCaches,
    pub(crate) triton: CheckedTriton,
}

impl VerifyTally {
    pub(crate) fn fail(&mut self, path: &Path, error: &anyhow::Error, output: &Output) {
        output.print_error(error);
        self.unusable += 1;
        self.files.push(OrError::Failed(FileError::new(path, chain(error))));
    }

    pub(crate) fn add(&mut self, kernel: &CheckedKernel) {
        let CheckedKernel { file, object, target, report } = kernel;
        let suffix = object
            .as_ref()
            .map(|object| format!(" and {}", object.file_name().unwrap_or_default().to_string_lossy()));
        self.line(file, &suffix.unwrap_or_default(), target, report.is_valid());
        self.finish(file, object.as_deref(), target, report.is_valid(), None, Some(report));
    }

    pub(crate) fn add_triton(
        &mut self,
        dirs: Vec<TritonDir>,
        store: &StoreArgs,
        cancel: &CancelToken,
        output: &Output,
    ) {
        for (path, error) in self.triton.add(dirs, store, cancel, output) {
            self.fail(&path, &error, output);
        }
    }

    /// Adds a store entry whose file the user named.
    pub(crate) fn add_entry(&mut self, file: &Path, stored: &EntryFile) {
        let group = stored.entry.as_ref().and_then(GroupRecord::of);
        let suffix = group.map_or_else(String::new, |group| format!(" ({group})"));
        self.line(file, &suffix, &stored.target, stored.is_valid());
        for problem in &stored.problems {
            self.text.line(format_args!("  {:<8} {problem}", "error"));
        }
        if let Some(why) = &stored.unverifiable {
            self.text.line(format_args!("  {:<8} the entry cannot be checked completely: {why}", "note"));
        }
        let EntryFile { problems, unverifiable, .. } = stored;
        let entry = EntryOutput { problems: problems.clone(), unverifiable: unverifiable.clone() };
        self.finish(file, None, &stored.target, stored.is_valid(), Some(entry), stored.report.as_ref());
    }

    /// Adds the findings to the text, and the kernel to `files`.
    fn finish(
        &mut self,
        file: &Path,
        object: Option<&Path>,
        target: &str,
        valid: bool,
        entry: Option<EntryOutput>,
        report: Option<&Report>,
    ) {
        let is_hidden = |finding: &&Finding| is_benign(finding) && !self.shows_notes;
        let findings = || report.into_iter().flat_map(|report| &report.findings);
        self.hidden_notes += findings().filter(is_hidden).count();
        self.text.extend(findings().filter(|finding| !is_hidden(finding)).map(line));
        self.files.push(OrError::Done(KernelOutput {
            file: json::path(file),
            object: object.map(json::path),
            target: target.to_owned(),
            valid,
            entry,
            findings: report.map(finding_outputs).unwrap_or_default(),
        }));
    }

    fn line(&mut self, file: &Path, suffix: &str, target: &str, valid: bool) {
        let (word, count) = match valid {
            true => ("valid", &mut self.valid),
            false => ("refused", &mut self.refused),
        };
        *count += 1;
        let file = file.to_string_lossy();
        self.text.line(format_args!("{word:<8} {file}{suffix} for {target}"));
    }

    pub(crate) fn print_report(self, output: &Output) -> anyhow::Result<ExitStatus> {
        let Self {
            text: tally_text,
            files,
            valid,
            refused,
            unusable,
            skipped_arguments: mut skipped,
            skipped_below,
            shows_notes,
            hidden_notes,
            stores,
            caches,
            triton,
        } = self;
        let Sums { intact, refused: refused_in_caches, other_damaged, in_use } = caches.sums();
        let valid = valid + stores.valid + intact + triton.intact;
        let refused = refused + stores.refused + refused_in_caches + triton.refused;
        let unusable = unusable + stores.unusable + caches.unreadable();
        let ranks = caches.ranks();
        let (checked, mut text) = (valid + refused, stores.text);
        let (caches_text, hidden_in_caches) = caches.text(&ranks, shows_notes);
        let hidden_notes = hidden_notes + hidden_in_caches;
        text.append(&caches_text);
        text.append(&triton.text);
        text.append(&tally_text);
        let has_store_or_cache = !stores.stores.is_empty() || !caches.is_empty();
        // Named files that belong to no kernel are errors only if nothing else was checked.
        if checked == 0 && !has_store_or_cache {
            skipped.first.iter().for_each(|why| output.print_error(&anyhow::anyhow!("{why}")));
        }
        skipped.append(skipped_below);
        let passed_over = match skipped.count {
            0 => String::new(),
            number => format!(", {} of other kinds skipped", counted(number, "file")),
        };
        if hidden_notes > 0 {
            let (notes, shows) = match hidden_notes {
                1 => ("1 note, which is no problem", "it"),
                _ => (&*format!("{}, which are no problems", counted(hidden_notes, "note")), "them"),
            };
            text.line(format_args!("{notes}: -v shows {shows}"));
        }
        text.line(format_args!(
            "{} checked: {valid} valid, {refused} refused; {} could not be checked{passed_over}",
            counted(checked, "kernel"),
            counted(unusable, "file")
        ));
        if other_damaged > 0 {
            text.line(format_args!(
                "beside the kernels, {} damaged or orphaned",
                counted(other_damaged, "file")
            ));
        }
        if in_use > 0 {
            text.line(format_args!(
                "{in_use} with problems not counted, since a build may still be writing: if no build is running, verify \
                 again half an hour after the last write"
            ));
        }
        let has_missing = ranks.iter().flat_map(|ranks| &ranks.ranks).any(|rank| !rank.lacks.is_empty());
        let caches_valid = other_damaged == 0 && in_use == 0 && !has_missing;
        let all_valid = unusable == 0 && refused == 0 && stores.faults == 0 && caches_valid;
        let broken = repairable(&caches.scans);
        if !broken.is_empty() {
            let broken = broken.iter().map(|path| quoted_path(path)).collect::<Vec<_>>().join(" ");
            text.line(format_args!("`opkeep repair {broken}` quarantines what is damaged or orphaned there"));
        }
        text.append(&missing_advice(&ranks));
        for root in &stores.repairable {
            text.line(format_args!(
                "`opkeep repair {}` quarantines what is damaged there",
                quoted_path(root)
            ));
        }
        let cancelled = stores.cancelled || caches.cancelled();
        if cancelled {
            text.line("interrupted before everything was checked");
        }
        let json = VerifyOutput {
            checked,
            valid,
            refused,
            unusable,
            rests: other_damaged,
            in_progress: in_use,
            passed_over_count: skipped.count,
            passed_over: skipped.first,
            files,
            stores: stores.stores,
            caches: caches.outputs(),
            ranks: ranks_outputs(&ranks),
            triton: triton.dirs,
        };
        output.print_result(&text, &json)?;
        Ok(match () {
            () if cancelled => ExitStatus::Interrupted,
            () if unusable > 0 || (checked == 0 && !has_store_or_cache) => ExitStatus::Failed,
            () if !all_valid => ExitStatus::Problems,
            () => ExitStatus::Success,
        })
    }
}
