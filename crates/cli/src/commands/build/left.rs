//! Kernels in `kernel_meta` that a build left unchanged.

use std::collections::BTreeMap;

use opkeep::{ForeignKernel, LeftKernel, LeftReason, STAYS_DISPLACED, ViewPlacement};
use serde::Serialize;

use crate::ui::hints::{self, OTHER_VIEW};
use crate::ui::output::Output;
use crate::ui::text::{counted, first_names, quoted_path};

/// The maximum number of kernels that have a line each.
const MAX_LISTED: usize = 3;

/// Reports the kernels that were left, with the reasons. Returns whether that is no problem; `chose_target` is whether the
/// user chose the target.
pub(crate) fn print_report(placed: &ViewPlacement, chose_target: bool, output: &Output) -> bool {
    if let Some(risk) = &placed.risk {
        output.print_warning(&risk.to_string());
        output.print_help(OTHER_VIEW);
    }
    if let Some(quarantine) = &placed.quarantine {
        output.print_note(&format!(
            "the replaced files are in `{}`; `opkeep repair --undo {}` restores them",
            quarantine.display(),
            quoted_path(&placed.directory)
        ));
    }
    for file in &placed.displaced {
        output.print_warning(&format!("`{}`: {STAYS_DISPLACED}", placed.directory.join(file).display()));
    }
    let mut by_reason: BTreeMap<&str, Vec<&LeftKernel>> = BTreeMap::new();
    for left in &placed.left {
        by_reason.entry(left.reason.name()).or_default().push(left);
    }
    for kernels in by_reason.into_values() {
        let is_about_directory = matches!(
            kernels[0].reason,
            LeftReason::ForeignDirectory { .. } | LeftReason::UnreadableDirectory { .. }
        );
        if is_about_directory || kernels.len() > MAX_LISTED {
            output.print_warning(&several(placed, &kernels));
        } else {
            let line = |kernel: &&LeftKernel| line(placed, &format!("`{}`", kernel.stem), kernel);
            kernels.iter().for_each(|kernel| output.print_warning(&line(kernel)));
        }
    }
    placed.left.iter().all(|left| is_harmless(&left.reason, chose_target))
}

/// Whether it is no problem that a kernel is left, since the user did not choose this target.
fn is_harmless(why: &LeftReason, chose_target: bool) -> bool {
    match why {
        LeftReason::Release => true,
        LeftReason::NotAFile { .. } | LeftReason::Unreadable { .. } | LeftReason::NotQuarantined { .. } => {
            false
        }
        _ => !chose_target,
    }
}

/// Returns one line for kernels of `placed` that were left for the same reason, with the text of the first.
fn several(placed: &ViewPlacement, kernels: &[&LeftKernel]) -> String {
    let names = first_names(kernels.iter().map(|kernel| format!("`{}`", kernel.stem)), MAX_LISTED);
    line(placed, &format!("{} ({names})", counted(kernels.len(), "kernel")), kernels[0])
}

fn line(placed: &ViewPlacement, what: &str, LeftKernel { reason, .. }: &LeftKernel) -> String {
    let hint = hints::left_kernel(reason, &placed.directory);
    format!("kernel_meta is left as it is for {what}: {reason}; {hint}")
}

/// A kernel that was left, as JSON.
#[derive(Serialize)]
pub(crate) struct LeftOutput {
    name: String,
    reason: &'static str,
    why: String,
    #[serde(flatten)]
    foreign: Option<ForeignOutput>,
}

/// The target of a foreign kernel, as JSON.
#[derive(Serialize)]
struct ForeignOutput {
    machine: Option<String>,
    e_flags: Option<u32>,
    architecture: Option<&'static str>,
    chip: Option<String>,
}

pub(crate) fn left_outputs(placed: &ViewPlacement) -> Vec<LeftOutput> {
    let one = |LeftKernel { stem, reason, .. }: &LeftKernel| {
        let foreign = match reason {
            LeftReason::Foreign(ForeignKernel { machine, flags, architecture, chip, .. }) => {
                Some(ForeignOutput {
                    machine: machine.clone(),
                    e_flags: *flags,
                    architecture: *architecture,
                    chip: chip.clone(),
                })
            }
            _ => None,
        };
        LeftOutput { name: stem.clone(), reason: reason.name(), why: reason.to_string(), foreign }
    };
    placed.left.iter().map(one).collect()
}
