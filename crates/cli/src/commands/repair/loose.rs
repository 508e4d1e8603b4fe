//! Kernel files that are in no cache: a repair leaves them, and names those with problems, as `opkeep verify` does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_fs::CancelToken;
use opkeep_kernel_entry::EntryFile;
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_validator::Report;

use super::outcome::UnreadableDirs;
use crate::input::pairs::{CheckOutcome, check_kernels};
use crate::input::read_file;

/// Returns the files with problems, each with the first one.
pub(super) fn problems(files: &[PathBuf], cancel: &CancelToken) -> UnreadableDirs {
    let mut files: Vec<&PathBuf> = files.iter().collect();
    // The `.json` comes first, since it names the objects.
    opkeep_order::by_key(&mut files, |path| path.extension().is_none_or(|extension| extension != "json"));
    let (mut problems, mut checked) = (UnreadableDirs::new(), BTreeSet::new());
    for path in files {
        if cancel.is_cancelled() {
            break;
        }
        if checked.contains(path) {
            continue;
        }
        match problem_of(path, &mut checked) {
            Ok(None) => {}
            Ok(Some(problem)) => problems.push((path.clone(), left(&problem))),
            Err(error) => problems.push((path.clone(), format!("{error:#}"))),
        }
    }
    problems
}

fn left(problem: &str) -> String {
    format!("{problem} (it is in no cache of a framework, where repair moves nothing)")
}

/// Returns the first problem of the kernels that `path` describes, and adds their objects to `checked`.
fn problem_of(path: &Path, checked: &mut BTreeSet<PathBuf>) -> anyhow::Result<Option<String>> {
    if path.extension().is_some_and(|extension| extension == "kern") {
        let entry = EntryFile::judge(path, read_file(path, MAX_ENTRY_BYTES)?, None);
        return Ok(entry.problems.first().cloned().or_else(|| entry.report.as_ref().and_then(error_of)));
    }
    let mut problem = None;
    if let CheckOutcome::Kernels(kernels) = check_kernels(path, None)? {
        for kernel in kernels {
            checked.extend(kernel.object.iter().cloned());
            problem = problem.or_else(|| error_of(&kernel.report));
        }
    }
    Ok(problem)
}

fn error_of(report: &Report) -> Option<String> {
    report.errors().next().map(ToString::to_string)
}
