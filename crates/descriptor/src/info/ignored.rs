//! Fields that are known not to count.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::info::fields::Fields;
use crate::model::generation::Generation;

/// A field of `.info` files that does not count in any key. It is kept, and written again.
///
/// Fields that nobody knows count: a wrong hit is worse than a lost one. A row in [`IGNORED_FIELDS`] is the only way
/// out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredField {
    /// The generations whose files may have it.
    pub generations: &'static [Generation],
    /// The object in which it stands; empty for the document.
    pub object: &'static str,
    /// Its name.
    pub field: &'static str,
    /// Why it changes no code.
    pub why: &'static str,
}

const fn row(
    generations: &'static [Generation],
    object: &'static str,
    field: &'static str,
    why: &'static str,
) -> IgnoredField {
    IgnoredField { generations, object, field, why }
}

const R1_2: &[Generation] = &[Generation::R1_2];
const WITH_SOC_INFO: &[Generation] =
    &[Generation::R1_2, Generation::R1_5, Generation::R1_6, Generation::R1_7, Generation::R2_1];
const AKG: &[Generation] = &[Generation::Akg];

/// Every field that is ignored, besides those that have a place of their own in [`Envelope`](crate::Envelope).
pub const IGNORED_FIELDS: &[IgnoredField] = &[
    row(
        WITH_SOC_INFO,
        "SocInfo",
        "deviceId",
        "the card that asked; the kernel runs on every one of its kind",
    ),
    row(WITH_SOC_INFO, "SocInfo", "op_debug_dir", "the folder of the rank that asked"),
    row(WITH_SOC_INFO, "SocInfo", "kernel_meta_temp_dir", "the folder in which the rank that asked compiles"),
    row(R1_2, "", "impl_path", "an install folder, as `py_module_path`"),
    row(R1_2, "op_info", "gen_model", "which of the framework's writers made the file"),
    row(R1_2, "op_info", "graph_id", "the number of the graph in the process that asked"),
    row(R1_2, "op_info", "dynamic_index", "a counter of the process that asked: never twice the same"),
    row(AKG, "", "id", "a number of the process that asked"),
    row(AKG, "", "composite_graph", "the name of the graph, from a counter of the process that asked"),
    row(AKG, "", "node_name", "the name of the node that asked"),
    row(AKG, "", "op_full_name", "the operators' types once more"),
    row(AKG, "op_desc[]", "ptr_address", "the name of the node that asked, and a counter"),
];

/// Takes what is ignored in `object` out of `fields`.
pub(crate) fn take(fields: &mut Fields<'_>, generation: Generation, object: &str) -> BTreeMap<String, Value> {
    let rows = IGNORED_FIELDS.iter();
    let rows = rows.filter(|row| row.object == object && row.generations.contains(&generation));
    let mut taken = BTreeMap::new();
    for row in rows {
        if let Some(value) = fields.raw(row.field) {
            taken.insert(row.field.to_owned(), value.into());
        }
    }
    taken
}
