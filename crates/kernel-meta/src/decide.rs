//! The decisions about all kernels of a call.

use std::collections::BTreeMap;

use crate::checked::Checked;
use crate::content::KernelFiles;
use crate::error::ViewError;
use crate::foreign_files::ForeignFiles;
use crate::left::LeftKernel;
use crate::manifest::Manifest;
use crate::occupant::{Decision, Looker, Placement, Policy};
use crate::report::ViewReport;
use crate::stored::StoredKernels;
use crate::view_dir::ViewDir;

/// Returns the report if kernels are left because the directory holds, or may hold, foreign kernels; `None` otherwise.
/// The directory is only read.
pub(crate) fn leave_all(
    dir: &ViewDir,
    kernels: &Checked<'_>,
    policy: Policy,
    stored: &dyn StoredKernels,
    foreign: &dyn ForeignFiles,
) -> Result<Option<ViewReport>, ViewError> {
    let text = dir.manifest_text()?;
    let mut manifest = Manifest::parse(&text);
    manifest.resolve(|name| dir.file_state(name));
    let mut looker =
        Looker { dir, manifest: &manifest, policy, rested: &|_| false, stored, foreign, read: 0 };
    let Decided { placed, left, has_foreign } = decide(&mut looker, kernels)?;
    let report = ViewReport {
        intact: placed.len(),
        read: looker.read,
        recorded: true,
        left,
        risk: dir.risk(),
        ..ViewReport::default()
    };
    Ok(Some(report).filter(|_| has_foreign))
}

/// The decisions about the kernels of a call.
pub(crate) struct Decided<'a> {
    /// The kernels that are intact or may be written, by stem.
    pub(crate) placed: BTreeMap<&'a str, Placement>,
    pub(crate) left: Vec<LeftKernel>,
    /// Whether kernels for other chips are left because the directory holds, or may hold, foreign kernels.
    pub(crate) has_foreign: bool,
}

/// Decides about every kernel.
pub(crate) fn decide<'a>(
    looker: &mut Looker<'_, '_>,
    kernels: &Checked<'a>,
) -> Result<Decided<'a>, ViewError> {
    let mut decisions = Vec::with_capacity(kernels.distinct.len());
    for kernel in &kernels.distinct {
        decisions.push((*kernel, looker.decide(kernel)?));
    }
    // If the user did not choose a target, kernels for other chips are not written beside foreign kernels.
    let Policy { guessed, replace } = looker.policy;
    let is_guess = |(kernel, it): &(&KernelFiles<'_>, Decision)| !kernel.for_chip && it.writes();
    let foreign = match guessed && !replace && decisions.iter().any(is_guess) {
        true => looker.foreign_kernel(&kernels.by_stem())?,
        false => None,
    };
    let mut decided = Decided { placed: BTreeMap::new(), left: Vec::new(), has_foreign: foreign.is_some() };
    for (kernel, decision) in decisions {
        let is_guess = !kernel.for_chip && decision.writes();
        let why = match (&foreign, decision) {
            (_, Decision::Leave(why)) => why,
            (Some(why), _) if is_guess => why.clone(),
            (_, Decision::Place(placement)) => {
                decided.placed.insert(kernel.stem, *placement);
                continue;
            }
        };
        decided.left.push(LeftKernel { stem: kernel.stem.to_owned(), reason: why });
    }
    Ok(decided)
}
