//! The lints of the vendors' readers of a `.json`.

use opkeep_artifact::ElfLayout;
use opkeep_cann_meta::{Effect, Lint, fe_lints, mindspore_lints};

use crate::problem::Problem;

/// The lints of the readers that may read such a `.json`: CANN reads none of a host kernel.
pub(crate) fn of(json: &[u8], layout: ElfLayout) -> Vec<Problem> {
    let fe = if layout == ElfLayout::SharedObject { Vec::new() } else { fe_lints(json) };
    let of_fe = |lint: Lint| match lint.effect {
        Effect::Refuse | Effect::Abort => Problem::FeRefuses(lint),
        _ => Problem::FeLint(lint),
    };
    fe.into_iter().map(of_fe).chain(mindspore_lints(json).into_iter().map(Problem::MindsporeLint)).collect()
}
