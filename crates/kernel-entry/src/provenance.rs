//! The provenance of imported kernels.
//!
//! An entry with an imported kernel has a member that compiled kernels lack, and its key is in a domain of its own
//! ([`import_key`](opkeep_descriptor::import_key)). A look-up under a key of one kind never returns the other kind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_store::Entry;
use serde_json::{Value, json};

use crate::member::IMPORTED;

/// Where an imported kernel came from, and what is known of its making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The directory that it was in.
    pub directory: String,
    /// Its name there.
    pub name: String,
    /// The framework that had it compiled, and which of its releases.
    pub framework: String,
    /// What its descriptor states of the toolchain, by name; mostly empty.
    pub toolchain: BTreeMap<String, String>,
    /// Whether its descriptor states the options that it was compiled with.
    pub has_options: bool,
    /// When it was imported; whole seconds are stored.
    pub imported_at: SystemTime,
}

impl Provenance {
    /// The provenance in an entry. `None` if the entry has no imported kernel.
    pub fn of(entry: &Entry) -> Option<Self> {
        let json: Value = serde_json::from_slice(entry.member(IMPORTED)?).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let toolchain = json["said"].as_object()?.iter();
        Some(Self {
            directory: text("folder")?,
            name: text("name")?,
            framework: text("framework")?,
            toolchain: toolchain
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
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

    /// Whether the import is older than a kernel of the same job with the file date `compiled_at`. A date in the future
    /// comes from a wrong clock and decides nothing.
    pub fn is_older(&self, compiled_at: SystemTime) -> bool {
        let second_ends = self.imported_at.checked_add(Duration::from_secs(1));
        second_ends.is_some_and(|end| compiled_at > end) && compiled_at <= SystemTime::now()
    }

    /// What is unknown of its making, in words.
    pub fn unknown(&self) -> &'static str {
        match self.has_options {
            true => "by which toolchain and from which sources is not known",
            false => "by which toolchain, from which sources and with which options is not known",
        }
    }

    /// The first statement on its toolchain that contradicts `wanted`, in words.
    pub fn contradicts(&self, wanted: &BTreeMap<String, String>) -> Option<String> {
        self.toolchain.iter().find_map(|(name, value)| {
            let wanted = wanted.get(name).filter(|wanted| *wanted != value)?;
            Some(format!("an imported kernel is of `{name}` {value}, and {wanted} is asked for"))
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
