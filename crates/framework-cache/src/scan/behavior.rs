//! What the frameworks make of what lies in their caches. From their sources, as read for MindSpore 2.0 and for CANN's
//! compile adapter of 2026.

use std::borrow::Cow;

use opkeep_cann_meta::Effect as Reads;
use opkeep_validator::Code;

use crate::scan::cache_dir::Kind;
use crate::scan::file_set::is_skipped;
use crate::scan::item::{Effect, FrameworkBehavior, ItemKind, ItemProblem, ItemState, Note, Orphan};
use opkeep_cann_meta::file_names::FileSet;

/// What both frameworks compare before they take a kernel. Nothing else keeps them from loading it.
const COMPARED: [Code; 2] = [Code::SHA256, Code::MISSING];

/// The fields that CANN's cache reads itself, before it gives a kernel out.
const CACHE_READS: [&str; 5] = ["binFileName", "binFileSuffix", "headerFileSuffix", "kernelName", "sha256"];
const FIELD_ABORTS: &str =
    "MindSpore 2.0 would abort at start-up because of a field of this file, whatever network it runs";

fn outcome(effect: Effect, text: impl Into<Cow<'static, str>>) -> FrameworkBehavior {
    FrameworkBehavior { effect, text: text.into() }
}

/// What the framework whose cache is of `kind` would do.
pub(crate) fn of(
    kind: Kind,
    what: ItemKind,
    stem: &str,
    verdict: &ItemState,
    notes: &[Note],
    members: FileSet,
) -> FrameworkBehavior {
    if matches!(kind, Kind::MindSpore | Kind::Akg) && is_skipped(stem) && members.has(FileSet::JSON) {
        return outcome(
            Effect::CompiledAgain,
            "MindSpore passes over names with `_loc` or `_compute`: it would compile this kernel in every run",
        );
    }
    if matches!(verdict, ItemState::Unreadable { .. }) {
        let text = "what the framework makes of it is not known; if it cannot read it either, it compiles the kernel again";
        return outcome(Effect::Unknown, text);
    }
    if matches!(verdict, ItemState::OtherChip(_)) {
        return outcome(
            Effect::FailsLater,
            "the framework would take it, since its name and its digest are right, and fail when it registers or launches \
             it on that chip: move it away, and the kernel is compiled again",
        );
    }
    match (kind, what) {
        (_, ItemKind::Temp) => outcome(Effect::Ignored, "no program reads or removes it; it takes space"),
        (_, ItemKind::Lock) => outcome(Effect::Ignored, "no program removes it"),
        (Kind::MindSpore | Kind::Akg, _) => mindspore(kind, what, verdict, notes),
        (Kind::Cann, _) => cann(what, verdict, members),
        (Kind::Package, _) => package(verdict),
        (Kind::Work, _) => work(verdict),
    }
}

fn mindspore(kind: Kind, what: ItemKind, verdict: &ItemState, notes: &[Note]) -> FrameworkBehavior {
    let aborts = match kind {
        Kind::Akg => {
            "MindSpore with AKG would abort with a JSON parse error on every run that needs this kernel"
        }
        _ => {
            "MindSpore 2.0 would abort at start-up because of this file, whatever network it runs; r1.0 to r1.5 \
              when a network needs this kernel"
        }
    };
    match verdict {
        ItemState::Damaged(flaws) => match flaws.first() {
            Some(ItemProblem::EmptyJson | ItemProblem::TornJson { .. }) => outcome(Effect::Aborts, aborts),
            Some(ItemProblem::Invalid(_)) => damaged_pair(flaws, notes),
            Some(ItemProblem::Field { .. }) => match worst_lint(notes) {
                Some(Reads::Abort) => outcome(Effect::Aborts, FIELD_ABORTS),
                _ => outcome(
                    Effect::FailsLater,
                    "MindSpore would load it, and fail or misread the field when it registers or launches the kernel",
                ),
            },
            _ => outcome(Effect::CompiledAgain, "MindSpore would log an error and compile this kernel again"),
        },
        ItemState::Orphan(Orphan::InfoOnly | Orphan::ObjectOnly | Orphan::HeaderOnly) => {
            outcome(Effect::CompiledAgain, "MindSpore would compile this kernel again")
        }
        ItemState::Intact if what == ItemKind::OtherJson => {
            outcome(Effect::Ignored, "MindSpore would read it at start-up, and find no kernel in it")
        }
        ItemState::Intact => match worst_lint(notes) {
            Some(Reads::Abort) => outcome(Effect::Aborts, aborts),
            Some(Reads::Refuse) => {
                outcome(Effect::FailsLater, "MindSpore 2.0 would not take this kernel; a later one may")
            }
            _ => outcome(Effect::Used, "MindSpore would use it"),
        },
        _ => outcome(Effect::Used, "MindSpore would read it once it is written"),
    }
}

/// Whether one of the flaws is what frameworks compare.
fn is_refused(flaws: &[ItemProblem]) -> bool {
    flaws
        .iter()
        .any(|flaw| matches!(flaw, ItemProblem::Invalid(finding) if COMPARED.contains(&finding.code())))
}

/// What the gravest remark says that MindSpore's reader would do.
fn worst_lint(notes: &[Note]) -> Option<Reads> {
    let effect = |note: &Note| match note {
        Note::Lint(lint) => Some(lint.effect),
        _ => None,
    };
    notes.iter().filter_map(effect).max()
}

/// What MindSpore makes of a `.json` and an object that do not go together. It compares their digest and nothing else.
fn damaged_pair(flaws: &[ItemProblem], notes: &[Note]) -> FrameworkBehavior {
    match worst_lint(notes) {
        Some(Reads::Abort) => outcome(Effect::Aborts, FIELD_ABORTS),
        _ if is_refused(flaws) => {
            outcome(Effect::CompiledAgain, "MindSpore would log an error and compile this kernel again")
        }
        _ => outcome(
            Effect::FailsLater,
            "MindSpore would load it, since its digest is right, and fail when it registers or launches the kernel",
        ),
    }
}

fn cann(what: ItemKind, verdict: &ItemState, members: FileSet) -> FrameworkBehavior {
    let blocks = "CANN would compile this kernel in every process and never keep it, since it does not replace \
                  files that exist; only op_compiler_cache_mode=force or an upgrade ends that";
    match verdict {
        ItemState::Damaged(_) if what == ItemKind::Precompile => {
            outcome(Effect::CompiledAgain, "CANN would run the trial compile again in every process")
        }
        ItemState::Damaged(flaws) => match flaws.first() {
            Some(ItemProblem::JsonOfOtherKernel { .. }) => outcome(
                Effect::FailsLater,
                "CANN would run another kernel in its place, which fails or computes something else",
            ),
            Some(ItemProblem::Invalid(_)) if !is_refused(flaws) => outcome(
                Effect::FailsLater,
                "CANN would load it, since its digest is right, and fail when it registers or launches the kernel",
            ),
            Some(ItemProblem::Field { field, .. }) if !CACHE_READS.contains(&field.as_str()) => outcome(
                Effect::FailsLater,
                "CANN's cache would give it out, and its graph engine fail or misread the field",
            ),
            _ => outcome(Effect::RecompiledEveryTime, blocks),
        },
        ItemState::Orphan(Orphan::ObjectOnly) if members.has(FileSet::O.with(FileSet::SO)) => {
            outcome(Effect::RecompiledEveryTime, blocks)
        }
        ItemState::Orphan(_) => outcome(Effect::Ignored, "CANN passes over it, and never removes it"),
        ItemState::Intact if what == ItemKind::OtherJson => outcome(Effect::Ignored, "CANN does not read it"),
        _ => outcome(Effect::Used, "CANN would use it"),
    }
}

/// What comes of what a compiler left where it works.
fn work(verdict: &ItemState) -> FrameworkBehavior {
    match verdict {
        ItemState::Damaged(_) => outcome(
            Effect::FailsLater,
            "the process that had it compiled takes it as it is; no later one reads it",
        ),
        ItemState::Orphan(_) => outcome(Effect::Ignored, "no process reads it"),
        _ => outcome(
            Effect::Used,
            "the process that had it compiled takes it from here; no later one reads it",
        ),
    }
}

fn package(verdict: &ItemState) -> FrameworkBehavior {
    match verdict {
        ItemState::Damaged(_) => outcome(
            Effect::FailsLater,
            "CANN cannot use this kernel of the package as it should: the operator fails, computes something else, or is \
             compiled anew if that is allowed; install the package again",
        ),
        ItemState::Orphan(_) => outcome(Effect::Ignored, "CANN does not read it"),
        _ => outcome(Effect::Used, "CANN would use it"),
    }
}
