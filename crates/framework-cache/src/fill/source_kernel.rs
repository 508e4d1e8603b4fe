//! The kernel that is copied to ranks, and the target in its descriptor.

use opkeep_descriptor::Descriptor;
use opkeep_digest::Digest;
use serde_json::{Map, Value};

/// The fields of `SocInfo` that hold the device or a directory, and do not affect the compiled bytes.
const OWN: [&str; 3] = ["deviceId", "op_debug_dir", "kernel_meta_temp_dir"];
/// The fields of `SocInfo` that a precompile sets for each operator.
const BY_OPERATOR: [&str; 1] = ["coreType"];
/// The maximum size of a descriptor that is read, in bytes.
pub(crate) const MAX_TEXT: u64 = opkeep_descriptor::MAX_INFO_BYTES;
/// The maximum size of an object that CANN loads, in bytes.
pub(crate) const MAX_OBJECT: u64 = i32::MAX as u64;

/// The kernel that is copied to ranks: that of the first rank that has it with its descriptor, if all ranks agree.
#[derive(Clone, Debug)]
pub(crate) struct SourceKernel {
    /// The index of the source rank.
    pub(crate) rank: usize,
    pub(crate) stem: String,
    pub(crate) sha256: Digest,
    pub(crate) descriptor: Descriptor,
    pub(crate) soc: Soc,
}

/// The target in a descriptor, `SocInfo`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Soc(Map<String, Value>);

impl Soc {
    /// Returns the target in a descriptor, or in the file that MindSpore writes when it starts.
    pub(crate) fn of(document: &Value) -> Option<Self> {
        document.get("job_content")?.get("SocInfo")?.as_object().cloned().map(Self)
    }

    pub(crate) fn all(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the first field that differs, with both values. Fields that a precompile sets count only if
    /// `same_operator`. A field that one of the two lacks counts only if `both_whole`.
    pub(crate) fn difference(&self, other: &Self, same_operator: bool, both_whole: bool) -> Option<String> {
        let counts = |name: &str| !OWN.contains(&name) && (same_operator || !BY_OPERATOR.contains(&name));
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        for name in names.filter(|name| counts(name)) {
            match (self.0.get(name), other.0.get(name)) {
                (Some(one), Some(two)) if one == two => {}
                (None, _) | (_, None) if !both_whole => {}
                (one, two) => {
                    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), shown);
                    return Some(format!(
                        "SocInfo.{name} is {} in the first and {} in the second",
                        shown(one),
                        shown(two)
                    ));
                }
            }
        }
        None
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.difference(other, true, true).is_none()
    }
}

/// Returns the first 80 characters of a value.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}
