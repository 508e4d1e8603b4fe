//! The stored kernel that is nearest to one that is missing: what is different between them is why it is missing.

use opbuild_descriptor::{Diff, EffectiveSpec, Job, KeyParts, read_info};
use opbuild_digest::{Digest, Fingerprint};
use opbuild_store::{Entry, Lookup, TargetStore};
use serde_json::{Value, json};

use crate::explain::changes;
use crate::input;
use crate::output::one_line;

/// More entries than these are not looked into.
const MAX_ENTRIES: usize = 4096;

/// More differences than these are not told to people, and no more characters of each.
const TOLD: usize = 8;
const TOLD_CHARACTERS: usize = 200;

/// The entries of a target, by key.
pub(crate) struct Neighbours(Vec<Digest>);

/// An entry, and what is different in the kernel that is missing.
pub(crate) struct Nearest {
    name: String,
    job: Diff,
    spec: Diff,
    toolchain: Vec<String>,
    op_sources: Vec<String>,
}

impl Neighbours {
    pub(crate) fn new(target: &TargetStore) -> Self {
        let stems = input::stems(&target.dir().join("entries"), MAX_ENTRIES);
        let mut keys: Vec<Digest> = stems.iter().filter_map(|stem| stem.parse().ok()).collect();
        keys.sort_unstable();
        Self(keys)
    }

    /// Of the kernels of the same operators, the one with the fewest differences.
    pub(crate) fn nearest(
        &self,
        target: &TargetStore,
        job: &Job,
        op_type: &str,
        spec: &EffectiveSpec,
        parts: &KeyParts,
    ) -> Option<Nearest> {
        let entries = self.0.iter().filter_map(|key| match target.get(key) {
            Lookup::Hit(entry) => Some(entry),
            Lookup::Miss(_) => None,
        });
        let near = entries.filter_map(|entry| Nearest::of(&entry, job, op_type, spec, parts));
        near.min_by_key(Nearest::distance)
    }
}

impl Nearest {
    fn of(entry: &Entry, job: &Job, op_type: &str, spec: &EffectiveSpec, parts: &KeyParts) -> Option<Self> {
        let header: Value = serde_json::from_slice(entry.lazy_member("header").ok()??).ok()?;
        if header["op_type"] != op_type || header["backend"] != parts.backend.as_str() {
            return None;
        }
        let stored = read_info(entry.lazy_member("info").ok()??).ok()?;
        let options = header["options"].as_object()?.iter();
        let old_spec = EffectiveSpec {
            target: header["target"].as_str()?.to_owned(),
            options: options
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
            debug: false,
        };
        let told = |part: &str, new: &Fingerprint| {
            let changes = fingerprint(&header["parts"][part]).diff(new);
            changes.iter().map(ToString::to_string).collect()
        };
        Some(Self {
            name: header["name"].as_str()?.to_owned(),
            job: Diff::of_jobs(&stored.job, job),
            spec: Diff::of_specs(&old_spec, spec),
            toolchain: told("toolchain", &parts.toolchain),
            op_sources: told("op_sources", &parts.op_sources),
        })
    }

    fn distance(&self) -> usize {
        let Self { name: _, job, spec, toolchain, op_sources } = self;
        job.changes.len() + spec.changes.len() + toolchain.len() + op_sources.len()
    }

    /// What moved, by part of the key.
    fn parts(&self) -> [(&'static str, Vec<String>); 4] {
        let lines = |diff: &Diff| diff.changes.iter().map(ToString::to_string).collect();
        [
            ("job", lines(&self.job)),
            ("spec", lines(&self.spec)),
            ("toolchain", self.toolchain.clone()),
            ("op sources", self.op_sources.clone()),
        ]
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("  the nearest is {}; different are\n", one_line(&self.name));
        for (part, lines) in self.parts() {
            for line in lines.iter().take(TOLD) {
                let told: String = line.chars().take(TOLD_CHARACTERS).collect();
                let more = if told.len() < line.len() { "..." } else { "" };
                text.push_str(&format!("    {part:10}  {}{more}\n", one_line(&told)));
            }
            if let Some(more) = lines.len().checked_sub(TOLD + 1) {
                text.push_str(&format!("    {part:10}  and {} more\n", more + 1));
            }
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "job": changes(&self.job),
            "spec": changes(&self.spec),
            "toolchain": self.toolchain,
            "op_sources": self.op_sources,
        })
    }
}

/// A fingerprint as an entry's header has it.
fn fingerprint(json: &Value) -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    for part in json["parts"].as_array().into_iter().flatten() {
        let text = |name: &str| part[name].as_str().unwrap_or_default();
        if let Ok(digest) = text("digest").parse::<Digest>() {
            fingerprint.add(text("name"), digest, text("note"));
        }
    }
    fingerprint
}
