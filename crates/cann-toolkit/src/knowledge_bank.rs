//! Knowledge banks: what tuning has found out about operators. Compilers take it from the first that knows something,
//! so kernels differ by it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use opkeep_digest::FileDigests;
use opkeep_digest::Fingerprint;
use opkeep_fs::Fs;

use crate::disk::dir_digest;
use crate::error::ToolkitError;

pub(crate) const BANK_VARIABLE: &str = "TUNE_BANK_PATH";
pub(crate) const CACHE_VARIABLE: &str = "ASCEND_CACHE_PATH";

/// Options that name a bank for one build.
pub const OPTIONS: [&str; 2] = ["op_bank_path", "mdl_bank_path"];

/// A directory that may be a knowledge bank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnowledgeBank {
    /// The origin of the path.
    pub named_by: &'static str,
    /// The directory.
    pub dir: PathBuf,
}

/// Where banks may be, in their order. One that a variable names and that is not there is only warned about, as the
/// vendor's tools do.
pub(crate) fn find<'a>(
    value: impl Fn(&str) -> Option<&'a OsString>,
    home: Option<&Path>,
    opp: &Path,
    warnings: &mut Vec<String>,
) -> Vec<KnowledgeBank> {
    let mut banks = Vec::new();
    let mut add = |named_by, dir: PathBuf| banks.push(KnowledgeBank { named_by, dir });
    if let Some(dir) = value(BANK_VARIABLE).map(PathBuf::from) {
        if !Fs::new().is_dir(&dir) {
            let dir = dir.display();
            warnings.push(format!(
                "{BANK_VARIABLE} names `{dir}`, and there is no such directory: the bank is not used"
            ));
        }
        add(BANK_VARIABLE, dir);
    }
    if let Some(cache) = value(CACHE_VARIABLE) {
        add(CACHE_VARIABLE, PathBuf::from(cache).join("aoe_data"));
    }
    if let Some(home) = home {
        add("the home folder", home.join("Ascend/latest/data/aoe/custom/op"));
    }
    add("built-in", opp.join("built-in/data/op"));
    banks
}

/// Adds a bank, if it knows anything.
pub(crate) fn fingerprint(
    named_by: &'static str,
    bank: &Path,
    files: &dyn FileDigests,
    fingerprint: &mut Fingerprint,
) -> Result<(), ToolkitError> {
    let digested = dir_digest::digest(bank, |_| true, files).map_err(|error| match error {
        ToolkitError::Io { path, source, .. } => ToolkitError::Bank { path, named_by, source },
        other => other,
    })?;
    if let Some(digested) = digested.filter(|digested| digested.files > 0) {
        digested.add_to(format!("knowledge bank ({named_by})"), fingerprint);
    }
    Ok(())
}
