//! The kernel that ranks are filled with, and the target in its descriptor.

use opkeep_descriptor::Descriptor;
use opkeep_digest::Digest;
use serde_json::{Map, Value};

/// The fields of `SocInfo` about a device or a directory, which do not affect the bytes.
const OWN: [&str; 3] = ["deviceId", "op_debug_dir", "kernel_meta_temp_dir"];
/// The fields that a precompile decides for each operator.
const BY_OPERATOR: [&str; 1] = ["coreType"];
/// The largest descriptor that is read.
pub(crate) const MAX_TEXT: u64 = opkeep_descriptor::MAX_INFO_BYTES;
/// The largest object that CANN loads.
pub(crate) const MAX_OBJECT: u64 = i32::MAX as u64;

/// The kernel that ranks are filled with: that of the first rank that has it, if all agree.
#[derive(Clone, Debug)]
pub(crate) struct SourceKernel {
    /// The rank's index.
    pub(crate) rank: usize,
    pub(crate) stem: String,
    pub(crate) sha256: Digest,
    pub(crate) descriptor: Descriptor,
    pub(crate) soc: Option<Soc>,
}

/// The target in a descriptor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Soc(Map<String, Value>);

impl Soc {
    /// Of a compile request, or of what MindSpore writes when it starts.
    pub(crate) fn of(document: &Value) -> Option<Self> {
        document.get("job_content")?.get("SocInfo")?.as_object().cloned().map(Self)
    }

    pub(crate) fn all(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The first field that differs, with both values: of one operator, or of two; a field that one lacks counts if both
    /// are whole.
    pub(crate) fn differs(&self, other: &Self, same_operator: bool, both_whole: bool) -> Option<String> {
        let counts = |name: &str| !OWN.contains(&name) && (same_operator || !BY_OPERATOR.contains(&name));
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        for name in names.filter(|name| counts(name)) {
            match (self.0.get(name), other.0.get(name)) {
                (Some(one), Some(two)) if one == two => {}
                (None, _) | (_, None) if !both_whole => {}
                (one, two) => {
                    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), shown);
                    return Some(format!("SocInfo.{name} is {} there and {} here", shown(one), shown(two)));
                }
            }
        }
        None
    }

    pub(crate) fn alike(&self, other: &Self) -> bool {
        self.differs(other, true, true).is_none()
    }
}

/// A value, or its beginning.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}
