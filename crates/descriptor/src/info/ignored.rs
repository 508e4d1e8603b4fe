//! Fields that do not count in a key.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::info::fields::Fields;
use crate::model::generation::Generation;

/// A field of `.info` files that does not count in any key. Reading keeps it, and writing restores it.
///
/// Unknown fields count, since a wrong hit is worse than a lost one. Only fields in [`IGNORED_FIELDS`] are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredField {
    /// The generations that may write it.
    pub generations: &'static [Generation],
    /// The object that contains it; empty for the document.
    pub object: &'static str,
    /// Its name.
    pub field: &'static str,
    /// The reason why it does not affect the code.
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

/// Every ignored field without its own field in [`Envelope`](crate::Envelope).
pub const IGNORED_FIELDS: &[IgnoredField] = &[
    row(
        WITH_SOC_INFO,
        "SocInfo",
        "deviceId",
        "the requesting device; the kernel runs on every device of its kind",
    ),
    row(WITH_SOC_INFO, "SocInfo", "op_debug_dir", "the directory of the requesting rank"),
    row(WITH_SOC_INFO, "SocInfo", "kernel_meta_temp_dir", "the work directory of the requesting rank"),
    row(R1_2, "", "impl_path", "an install directory, like `py_module_path`"),
    row(R1_2, "op_info", "gen_model", "the framework's writer of the file"),
    row(R1_2, "op_info", "graph_id", "the number of the graph in the requesting process"),
    row(R1_2, "op_info", "dynamic_index", "a counter of the requesting process, never the same twice"),
    row(AKG, "", "id", "a number of the requesting process"),
    row(AKG, "", "composite_graph", "the name of the graph, from a counter of the requesting process"),
    row(AKG, "", "node_name", "the name of the requesting node"),
    row(AKG, "", "op_full_name", "a repetition of the operators' types"),
    row(AKG, "op_desc[]", "ptr_address", "the name of the requesting node, and a counter"),
];

/// Takes the ignored fields of `object` out of `fields`.
pub(crate) fn take(fields: &mut Fields<'_>, generation: Generation, object: &str) -> BTreeMap<String, Value> {
    let rows = IGNORED_FIELDS.iter();
    let rows = rows.filter(|row| row.generations.contains(&generation) && row.object == object);
    let mut taken = BTreeMap::new();
    for row in rows {
        if let Some(value) = fields.raw(row.field) {
            taken.insert(row.field.to_owned(), value.into());
        }
    }
    taken
}
