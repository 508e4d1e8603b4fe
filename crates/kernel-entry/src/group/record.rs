//! The record of a group: the parts of its key, and what reports state.

use std::fmt;
use std::time::Duration;

use opkeep_digest::{Digest, Fingerprint};
use opkeep_store::{Entry, EntryHead};
use serde_json::{Value, json};

use crate::error::EntryError;
use crate::group::key::{GROUP_SCHEMA, GroupKey};
use crate::member::GROUP;

/// The record of a group, beside its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The parts of the entry's key.
    pub key: GroupKey,
    /// The release of the framework; empty if unknown.
    pub framework_version: String,
    /// The name of the kernel; empty if unknown.
    pub kernel: String,
    /// The name of the file with the kernel's object, if there is one.
    pub object: Option<String>,
    /// The name of the file with the kernel's metadata, if there is one.
    pub metadata: Option<String>,
    /// The compile time, if known.
    pub compile_time: Option<Duration>,
    /// Whether the files work on this machine only, such as a launcher that is linked to its C library.
    pub is_local: bool,
}

impl GroupRecord {
    /// The record of a group of which only the key is known.
    pub fn new(key: GroupKey) -> Self {
        Self {
            key,
            framework_version: String::new(),
            kernel: String::new(),
            object: None,
            metadata: None,
            compile_time: None,
            is_local: false,
        }
    }

    /// The name of the kernel; if it is unknown, that of the group. Empty if neither is known.
    pub fn kernel_or_name(&self) -> &str {
        if self.kernel.is_empty() { &self.key.name } else { &self.kernel }
    }

    /// Whether the entry holds a group: whether it has a record, readable or not.
    pub fn is_in(entry: &EntryHead) -> bool {
        entry.member_digest(GROUP).is_some()
    }

    /// The record in an entry. `None` if the entry holds no group, or if its record cannot be read.
    pub fn of(entry: &Entry) -> Option<Self> {
        Self::read(entry).ok().flatten()
    }

    /// The record in the entry of a group. `None` if a later version wrote it.
    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, EntryError> {
        let bytes = entry.lazy_member(GROUP).map_err(|damage| EntryError::Damaged(damage.to_string()))?;
        Self::decode(bytes.unwrap_or_default())
    }

    /// The record in the bytes of the member `group`. `None` if it cannot be read.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok().flatten()
    }

    fn decode(bytes: &[u8]) -> Result<Option<Self>, EntryError> {
        let json: Value = serde_json::from_slice(bytes).map_err(|_| EntryError::Record)?;
        match json["schema"].as_u64() {
            Some(GROUP_SCHEMA) => Self::from_json(&json).map(Some).ok_or(EntryError::Record),
            Some(later) if later > GROUP_SCHEMA => Ok(None),
            _ => Err(EntryError::Record),
        }
    }

    fn from_json(json: &Value) -> Option<Self> {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let optional_text = |name: &str| if json[name].is_null() { Some(None) } else { text(name).map(Some) };
        let mut toolchain = Fingerprint::new();
        for part in json["toolchain"].as_array()? {
            let digest = part["digest"].as_str()?.parse().ok()?;
            toolchain.add(part["name"].as_str()?, digest, part["note"].as_str()?);
        }
        let key = GroupKey {
            framework: text("framework")?,
            target: text("target")?,
            framework_key: text("framework_key")?.parse().ok()?,
            name: text("name")?,
            toolchain,
        };
        let compile_time = match &json["compile_us"] {
            Value::Null => None,
            micros => Some(Duration::from_micros(micros.as_u64()?)),
        };
        let record = Self {
            framework_version: text("framework_version")?,
            kernel: text("kernel")?,
            object: optional_text("object")?,
            metadata: optional_text("metadata")?,
            compile_time,
            is_local: json["local"].as_bool()?,
            key,
        };
        Some(record).filter(|record| json["key"] == record.key.digest().to_string())
    }

    /// The bytes of the member.
    pub(crate) fn render(&self, entry_key: &Digest) -> String {
        let Self { key, framework_version, kernel, object, metadata, compile_time, is_local } = self;
        let GroupKey { framework, target, framework_key, name, toolchain } = key;
        let part = |part: &opkeep_digest::Part| json!({ "name": part.name, "digest": part.digest.to_string(), "note": part.note });
        json!({
            "schema": GROUP_SCHEMA,
            "key": entry_key.to_string(),
            "framework": framework,
            "framework_version": framework_version,
            "framework_key": framework_key.to_string(),
            "kernel": kernel,
            "target": target,
            "name": name,
            "toolchain": toolchain.parts().iter().map(part).collect::<Vec<_>>(),
            "object": object,
            "metadata": metadata,
            "compile_us": compile_time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            "local": is_local,
            "made_by": concat!("opkeep ", env!("CARGO_PKG_VERSION")),
        })
        .to_string()
    }
}

impl fmt::Display for GroupRecord {
    /// Writes the framework and the kernel: `triton add_kernel`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key.framework)?;
        match self.kernel_or_name() {
            "" => Ok(()),
            name => write!(f, " {name}"),
        }
    }
}
