//! What the frameworks make of what lies in their caches. From their sources, as read for MindSpore 2.0 and for CANN's
//! compile adapter of 2026.

use std::borrow::Cow;

use opkeep_cann_meta::Effect as Reads;
use opkeep_validator::Code;

use crate::scan::names::{Members, is_skipped};
use crate::scan::place::Kind;
use crate::scan::verdict::{Effect, Flaw, Note, Orphan, Outcome, Verdict, What};

/// What both frameworks compare before they take a kernel. Nothing else keeps them from loading it.
const COMPARED: [Code; 2] = [Code::SHA256, Code::MISSING];

/// The fields that CANN's cache reads itself, before it gives a kernel out.
const CACHE_READS: [&str; 5] = ["binFileName", "binFileSuffix", "headerFileSuffix", "kernelName", "sha256"];
const FIELD_ABORTS: &str =
    "MindSpore 2.0 would abort at start-up because of a field of this file, whatever network it runs";

fn outcome(effect: Effect, text: impl Into<Cow<'static, str>>) -> Outcome {
    Outcome { effect, text: text.into() }
}

/// What the framework whose cache is of `kind` would do.
pub(crate) fn of(
    kind: Kind,
    what: What,
    stem: &str,
    verdict: &Verdict,
    notes: &[Note],
    members: Members,
) -> Outcome {
    if matches!(kind, Kind::MindSpore | Kind::Akg) && is_skipped(stem) && members.has(Members::JSON) {
        return outcome(
            Effect::CompiledAgain,
            "MindSpore passes over names with `_loc` or `_compute`: it would compile this kernel in every run",
        );
    }
    if matches!(verdict, Verdict::Unreadable { .. }) {
        let text = "what the framework makes of it is not known; if it cannot read it either, it compiles the kernel again";
        return outcome(Effect::Unknown, text);
    }
    if matches!(verdict, Verdict::OtherChip(_)) {
        return outcome(
            Effect::FailsLater,
            "the framework would take it, since its name and its digest are right, and fail when it registers or launches \
             it on that chip: move it away, and the kernel is compiled again",
        );
    }
    match (kind, what) {
        (_, What::Temp) => outcome(Effect::Ignored, "nobody reads it or removes it; it takes space"),
        (_, What::Lock) => outcome(Effect::Ignored, "nobody removes it"),
        (Kind::MindSpore | Kind::Akg, _) => mindspore(kind, what, verdict, notes),
        (Kind::Cann, _) => cann(what, verdict, members),
        (Kind::Package, _) => package(verdict),
        (Kind::Work, _) => work(verdict),
    }
}

fn mindspore(kind: Kind, what: What, verdict: &Verdict, notes: &[Note]) -> Outcome {
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
        Verdict::Damaged(flaws) => match flaws.first() {
            Some(Flaw::EmptyJson | Flaw::TornJson { .. }) => outcome(Effect::Aborts, aborts),
            Some(Flaw::Invalid(_)) => damaged_pair(flaws, notes),
            Some(Flaw::Field { .. }) => match worst_lint(notes) {
                Some(Reads::Abort) => outcome(Effect::Aborts, FIELD_ABORTS),
                _ => outcome(
                    Effect::FailsLater,
                    "MindSpore would load it, and fail or misread the field when it registers or launches the kernel",
                ),
            },
            _ => outcome(Effect::CompiledAgain, "MindSpore would log an error and compile this kernel again"),
        },
        Verdict::Orphan(Orphan::InfoOnly | Orphan::ObjectOnly | Orphan::HeaderOnly) => {
            outcome(Effect::CompiledAgain, "MindSpore would compile this kernel again")
        }
        Verdict::Intact if what == What::Record => {
            outcome(Effect::Ignored, "MindSpore would read it at start-up, and find no kernel in it")
        }
        Verdict::Intact => match worst_lint(notes) {
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
fn is_refused(flaws: &[Flaw]) -> bool {
    flaws.iter().any(|flaw| matches!(flaw, Flaw::Invalid(finding) if COMPARED.contains(&finding.code())))
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
fn damaged_pair(flaws: &[Flaw], notes: &[Note]) -> Outcome {
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

fn cann(what: What, verdict: &Verdict, members: Members) -> Outcome {
    let blocks = "CANN would compile this kernel in every process and never keep it, since it does not replace \
                  files that exist; only op_compiler_cache_mode=force or an upgrade ends that";
    match verdict {
        Verdict::Damaged(_) if what == What::Trial => {
            outcome(Effect::CompiledAgain, "CANN would run the trial compile again in every process")
        }
        Verdict::Damaged(flaws) => match flaws.first() {
            Some(Flaw::AnothersJson { .. }) => outcome(
                Effect::FailsLater,
                "CANN would run another kernel in its place, which fails or computes something else",
            ),
            Some(Flaw::Invalid(_)) if !is_refused(flaws) => outcome(
                Effect::FailsLater,
                "CANN would load it, since its digest is right, and fail when it registers or launches the kernel",
            ),
            Some(Flaw::Field { field, .. }) if !CACHE_READS.contains(&field.as_str()) => outcome(
                Effect::FailsLater,
                "CANN's cache would give it out, and its graph engine fail or misread the field",
            ),
            _ => outcome(Effect::Blocks, blocks),
        },
        Verdict::Orphan(Orphan::ObjectOnly) if members.has(Members::O.with(Members::SO)) => {
            outcome(Effect::Blocks, blocks)
        }
        Verdict::Orphan(_) => outcome(Effect::Ignored, "CANN passes over it, and never removes it"),
        Verdict::Intact if what == What::Record => outcome(Effect::Ignored, "CANN does not read it"),
        _ => outcome(Effect::Used, "CANN would use it"),
    }
}

/// What comes of what a compiler left where it works.
fn work(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Damaged(_) => outcome(
            Effect::FailsLater,
            "the process that had it compiled takes it as it is; no later one reads it",
        ),
        Verdict::Orphan(_) => outcome(Effect::Ignored, "no process reads it"),
        _ => outcome(
            Effect::Used,
            "the process that had it compiled takes it from here; no later one reads it",
        ),
    }
}

fn package(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Damaged(_) => outcome(
            Effect::FailsLater,
            "CANN cannot use this kernel of the package as it should: the operator fails, computes something else, or is \
             compiled anew if that is allowed; install the package again",
        ),
        Verdict::Orphan(_) => outcome(Effect::Ignored, "CANN does not read it"),
        _ => outcome(Effect::Used, "CANN would use it"),
    }
}
