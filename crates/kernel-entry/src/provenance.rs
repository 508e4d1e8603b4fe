//! The provenance of imported kernels.
//!
//! The compiler of an imported kernel is unknown, so the kernel must never pass for one that a backend compiled:
//!
//! - Its key is in a domain of its own ([`import_key`](opkeep_descriptor::import_key)), and is computed from
//!   its descriptor, without names, device and directories.
//! - Its entry has a member, `imported`, that no other entry has. A look-up for a compiled kernel refuses an entry with
//!   it, and a look-up for an imported kernel refuses an entry without it, whatever the key.
//!   [`verify_entry`](crate::verify_entry) requires that its key is that of its job and its options.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_store::Entry;
use serde_json::{Value, json};

use crate::member::IMPORTED;
use crate::texts::texts;

/// The origin of an imported kernel, and what is known of its compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The directory that held it.
    pub directory: String,
    /// Its name in that directory.
    pub name: String,
    /// The framework that requested it, and the framework's release.
    pub framework: String,
    /// The toolchain versions in its descriptor, by name; usually empty.
    pub toolchain: BTreeMap<String, String>,
    /// Whether its descriptor states the compile options.
    pub has_options: bool,
    /// The time of the import, stored in whole seconds.
    pub imported_at: SystemTime,
}

impl Provenance {
    /// The provenance in an entry. `None` if the entry has no imported kernel.
    pub fn of(entry: &Entry) -> Option<Self> {
        let json: Value = serde_json::from_slice(entry.member(IMPORTED)?).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        Some(Self {
            directory: text("folder")?,
            name: text("name")?,
            framework: text("framework")?,
            toolchain: texts(&json["said"])?,
            has_options: json["has_options"].as_bool()?,
            imported_at: UNIX_EPOCH.checked_add(Duration::from_secs(json["at"].as_u64()?))?,
        })
    }

    /// The inverse of [`of`](Self::of).
    pub(crate) fn to_json(&self) -> Value {
        let Self { directory, name, framework, toolchain, has_options, imported_at } = self;
        let at = imported_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        json!({
            "folder": directory, "name": name, "framework": framework, "said": toolchain,
            "has_options": has_options, "at": at,
        })
    }

    /// Whether the import is older than a kernel of the same job with the file date `compiled_at`. A date after `now`
    /// comes from a wrong clock and decides nothing.
    pub fn is_older(&self, compiled_at: SystemTime, now: SystemTime) -> bool {
        let second_ends = self.imported_at.checked_add(Duration::from_secs(1));
        second_ends.is_some_and(|end| compiled_at > end) && compiled_at <= now
    }

    /// The unknown facts of its compilation, as text.
    pub fn unknown(&self) -> &'static str {
        match self.has_options {
            true => "its toolchain and its sources are unknown",
            false => "its toolchain, its sources and its options are unknown",
        }
    }

    /// The first toolchain version that contradicts `wanted`, as text.
    pub fn contradicts(&self, wanted: &BTreeMap<String, String>) -> Option<String> {
        self.toolchain.iter().find_map(|(name, value)| {
            let wanted = wanted.get(name).filter(|wanted| *wanted != value)?;
            Some(format!("an imported kernel was compiled with `{name}` {value}, but {wanted} is requested"))
        })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, name, framework, toolchain, .. } = self;
        write!(f, "imported from `{directory}` ({name}, of {framework}")?;
        toolchain.iter().try_for_each(|(name, value)| write!(f, ", {name} {value}"))?;
        write!(f, "); {}", self.unknown())
    }
}
