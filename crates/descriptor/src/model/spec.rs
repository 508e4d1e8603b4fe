//! The build spec: the target and options of a job.

use std::collections::BTreeMap;

use opkeep_digest::{Digest, Hasher};
use serde_json::Value;

/// The requested target and options of a job, in the vendor's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BuildSpec {
    /// The SoC version, such as `Ascend910A`, or another backend's target, such as `cpu`.
    pub target: String,
    /// Options by their `SocInfo` names, such as `op_debug_level`. The backend decides which of them affect the code.
    pub options: BTreeMap<String, Value>,
}

impl BuildSpec {
    /// A spec for `target` with no option set.
    pub fn new(target: impl Into<String>) -> Self {
        Self { target: target.into(), options: BTreeMap::new() }
    }

    /// The same options for another target.
    pub fn retarget(&self, target: &str) -> Self {
        Self { target: target.to_owned(), options: self.options.clone() }
    }

    /// The comma-separated words of the option `name`, without blanks. An empty list in any spelling (empty, blank,
    /// `[]`) is like an absent option.
    pub fn words(&self, name: &str) -> Vec<String> {
        let text = self.option(name).filter(|text| text != "[]").unwrap_or_default();
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    }

    /// The option `name` as text; a string without its quotes. `None` if absent or empty.
    pub fn option(&self, name: &str) -> Option<String> {
        match self.options.get(name)? {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// A [`BuildSpec`] resolved by a backend: only the options that affect the code, with all defaults set, so that an
/// absent option and its explicit default have one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedSpec {
    /// The exact target; also the name of its directory in a store.
    pub target: String,
    /// Effective options.
    pub options: BTreeMap<String, String>,
    /// Whether debug options are on: such a kernel is neither looked up nor stored.
    pub debug: bool,
}

impl ResolvedSpec {
    /// The digest that counts in the key.
    pub fn digest(&self) -> Digest {
        let Self { target, options, debug } = self;
        let mut hasher = Hasher::new("spec");
        hasher.str(target);
        hasher.list(options.len());
        for (name, value) in options {
            hasher.str(name);
            hasher.str(value);
        }
        hasher.bool(*debug);
        hasher.finish()
    }
}
