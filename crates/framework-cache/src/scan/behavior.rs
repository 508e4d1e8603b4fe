//! The reactions of frameworks to the files in their caches, by the sources of MindSpore 2.0 and of CANN's compile
//! adapter of 2026.

use std::borrow::Cow;

use opkeep_cann_meta::Effect as ReaderEffect;
use opkeep_validator::Code;

use crate::scan::cache_dir::Kind;
use crate::scan::file_set::is_skipped;
use crate::scan::item::{Effect, FrameworkBehavior, Item, ItemKind, ItemProblem, ItemState, Note, Orphan};
use opkeep_cann_meta::file_names::FileSet;

/// The codes of the findings for which both frameworks reject a kernel. They check nothing else.
const COMPARED: [Code; 2] = [Code::SHA256, Code::MISSING];

/// The fields of a `.json` that CANN's cache reads before it returns a kernel.
const CACHE_READS: [&str; 5] = ["binFileName", "binFileSuffix", "headerFileSuffix", "kernelName", "sha256"];
const FIELD_ABORTS: &str =
    "MindSpore 2.0 would abort at start-up because of a field of this file, for every network";

fn behavior(effect: Effect, text: impl Into<Cow<'static, str>>) -> FrameworkBehavior {
    FrameworkBehavior { effect, text: text.into() }
}

/// Sets the framework's reaction to an item whose state has changed.
pub(crate) fn update(cache: Kind, item: &mut Item) {
    item.behavior = of(cache, item.kind, &item.name, &item.state, &item.notes, item.members);
}

/// Returns the reaction of a cache's framework to an item.
pub(crate) fn of(
    cache: Kind,
    kind: ItemKind,
    stem: &str,
    state: &ItemState,
    notes: &[Note],
    members: FileSet,
) -> FrameworkBehavior {
    if matches!(cache, Kind::MindSpore | Kind::Akg) && is_skipped(stem) && members.has(FileSet::JSON) {
        return behavior(
            Effect::CompiledAgain,
            "MindSpore ignores names with `_loc` or `_compute`: it would compile this kernel in every run",
        );
    }
    if matches!(state, ItemState::Unreadable { .. }) {
        let text = "the framework's reaction is unknown; if the framework cannot read it either, it compiles the kernel again";
        return behavior(Effect::Unknown, text);
    }
    if matches!(state, ItemState::OtherChip(_)) {
        return behavior(
            Effect::FailsLater,
            "the framework would use it, since its name and its digest match, and fail when it registers or launches \
             it on that chip: move it away, and the kernel is compiled again",
        );
    }
    match (cache, kind) {
        (_, ItemKind::Temp) => behavior(Effect::Ignored, "no program reads or removes it; it takes space"),
        (_, ItemKind::Lock) => behavior(Effect::Ignored, "no program removes it"),
        (Kind::MindSpore | Kind::Akg, _) => mindspore(cache, kind, state, notes),
        (Kind::Cann, _) => cann(kind, state, members),
        (Kind::Package, _) => package(state),
        (Kind::Work, _) => work(state),
    }
}

fn mindspore(cache: Kind, kind: ItemKind, state: &ItemState, notes: &[Note]) -> FrameworkBehavior {
    let aborts = match cache {
        Kind::Akg => {
            "MindSpore with AKG would abort with a JSON parse error on every run that needs this kernel"
        }
        _ => {
            "MindSpore 2.0 would abort at start-up because of this file, for every network; r1.0 to r1.5 only when a \
             network needs this kernel"
        }
    };
    match state {
        ItemState::Damaged(problems) => match problems.first() {
            Some(ItemProblem::EmptyJson | ItemProblem::InvalidJson { .. }) => {
                behavior(Effect::Aborts, aborts)
            }
            Some(ItemProblem::Invalid(_)) => damaged_pair(problems, notes),
            Some(ItemProblem::Field { .. }) => match worst_lint(notes) {
                Some(ReaderEffect::Abort) => behavior(Effect::Aborts, FIELD_ABORTS),
                _ => behavior(
                    Effect::FailsLater,
                    "MindSpore would load it, and fail or misread the field when it registers or launches the kernel",
                ),
            },
            _ => {
                behavior(Effect::CompiledAgain, "MindSpore would log an error and compile this kernel again")
            }
        },
        ItemState::Orphan(Orphan::InfoOnly | Orphan::ObjectOnly | Orphan::HeaderOnly) => {
            behavior(Effect::CompiledAgain, "MindSpore would compile this kernel again")
        }
        ItemState::Intact if kind == ItemKind::OtherJson => {
            behavior(Effect::Ignored, "MindSpore would read it at start-up, and find no kernel in it")
        }
        ItemState::Intact => match worst_lint(notes) {
            Some(ReaderEffect::Abort) => behavior(Effect::Aborts, aborts),
            Some(ReaderEffect::Refuse) => behavior(
                Effect::FailsLater,
                "MindSpore 2.0 would reject this kernel; a later release may accept it",
            ),
            _ => behavior(Effect::Used, "MindSpore would use it"),
        },
        _ => behavior(Effect::Used, "MindSpore would read it once it is written"),
    }
}

/// Returns whether frameworks reject the kernel for one of the problems.
fn is_refused(problems: &[ItemProblem]) -> bool {
    problems
        .iter()
        .any(|problem| matches!(problem, ItemProblem::Invalid(finding) if COMPARED.contains(&finding.code())))
}

/// Returns the worst reaction of MindSpore's reader to a field.
fn worst_lint(notes: &[Note]) -> Option<ReaderEffect> {
    let effect = |note: &Note| match note {
        Note::Lint(lint) => Some(lint.effect),
        _ => None,
    };
    notes.iter().filter_map(effect).max()
}

/// Returns MindSpore's reaction to a `.json` and an object that do not match. MindSpore compares only the digest.
fn damaged_pair(problems: &[ItemProblem], notes: &[Note]) -> FrameworkBehavior {
    match worst_lint(notes) {
        Some(ReaderEffect::Abort) => behavior(Effect::Aborts, FIELD_ABORTS),
        _ if is_refused(problems) => {
            behavior(Effect::CompiledAgain, "MindSpore would log an error and compile this kernel again")
        }
        _ => behavior(
            Effect::FailsLater,
            "MindSpore would load it, since its digest matches, and fail when it registers or launches the kernel",
        ),
    }
}

fn cann(kind: ItemKind, state: &ItemState, members: FileSet) -> FrameworkBehavior {
    let blocks = "CANN would compile this kernel in every process and never store it, since it does not replace existing files; only op_compiler_cache_mode=force or an upgrade ends that";
    match state {
        ItemState::Damaged(_) if kind == ItemKind::Precompile => {
            behavior(Effect::CompiledAgain, "CANN would run the trial compile again in every process")
        }
        ItemState::Damaged(problems) => match problems.first() {
            Some(ItemProblem::JsonOfOtherKernel { .. }) => behavior(
                Effect::FailsLater,
                "CANN would run another kernel in its place, which fails or returns wrong results",
            ),
            Some(ItemProblem::Invalid(_)) if !is_refused(problems) => behavior(
                Effect::FailsLater,
                "CANN would load it, since its digest matches, and fail when it registers or launches the kernel",
            ),
            Some(ItemProblem::Field { field, .. }) if !CACHE_READS.contains(&field.as_str()) => behavior(
                Effect::FailsLater,
                "CANN's cache would return it, and its graph engine would fail or misread the field",
            ),
            _ => behavior(Effect::RecompiledEveryTime, blocks),
        },
        ItemState::Orphan(Orphan::ObjectOnly) if members.has(FileSet::O.with(FileSet::SO)) => {
            behavior(Effect::RecompiledEveryTime, blocks)
        }
        ItemState::Orphan(_) => behavior(Effect::Ignored, "CANN ignores it, and never removes it"),
        ItemState::Intact if kind == ItemKind::OtherJson => {
            behavior(Effect::Ignored, "CANN does not read it")
        }
        _ => behavior(Effect::Used, "CANN would use it"),
    }
}

/// Returns the use of a file in a compiler's work directory.
fn work(state: &ItemState) -> FrameworkBehavior {
    match state {
        ItemState::Damaged(_) => behavior(
            Effect::FailsLater,
            "the process that requested the compile uses it unchecked; no later process reads it",
        ),
        ItemState::Orphan(_) => behavior(Effect::Ignored, "no process reads it"),
        _ => behavior(
            Effect::Used,
            "the process that requested the compile uses it from here; no later process reads it",
        ),
    }
}

fn package(state: &ItemState) -> FrameworkBehavior {
    match state {
        ItemState::Damaged(_) => behavior(
            Effect::FailsLater,
            "CANN cannot use this kernel of the package correctly: the operator fails, returns wrong results, or is \
             compiled again if that is allowed; install the package again",
        ),
        ItemState::Orphan(_) => behavior(Effect::Ignored, "CANN does not read it"),
        _ => behavior(Effect::Used, "CANN would use it"),
    }
}
