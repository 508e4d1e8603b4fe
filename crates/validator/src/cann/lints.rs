//! What the vendors' own readers would make of a `.json`.

use opkeep_artifact::ElfLayout;
use opkeep_cann_meta::{Effect, Lint, fe_lints, mindspore_lints};

use crate::problem::Problem;

/// The lints of the readers that may meet such a `.json`: none of CANN's reads one that is for the host.
pub(crate) fn of(json: &[u8], layout: ElfLayout) -> Vec<Problem> {
    let fe = if layout == ElfLayout::SharedObject { Vec::new() } else { fe_lints(json) };
    let of_fe = |lint: Lint| match lint.effect {
        Effect::Refuse | Effect::Abort => Problem::FeRefuses(lint),
        Effect::Ignore | Effect::Misread => Problem::FeLint(lint),
    };
    fe.into_iter().map(of_fe).chain(mindspore_lints(json).into_iter().map(Problem::MindsporeLint)).collect()
}
