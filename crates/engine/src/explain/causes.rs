//! The causes of misses, and the kernels that each of them hits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use opkeep_descriptor::{Change, Diff};
use opkeep_digest::PartChange;
use opkeep_fs::utc;

use super::former::{BuildEnd, FormerEntry, StoredBy, UnfinishedBuild};
use super::kind::kind_of;
use super::nearest_entry::NearestEntry;
use super::other_targets::OtherTargets;
use super::toolchain_text::toolchain_text;
use super::untrusted::UntrustedEntries;

/// The maximum number of names in one line.
const MAX_NAMES: usize = 3;
/// The maximum number of characters of a value in one line.
const MAX_VALUE: usize = 40;

/// A miss, and what explains it.
#[derive(Debug)]
#[non_exhaustive]
pub struct MissExplanation {
    /// The reason why the kernel is not taken from the store.
    pub why: String,
    /// Whether the store has no entry of the kernel and was searched for the nearest one.
    pub is_searched: bool,
    /// The stored kernel of the same operators that explains the miss best: one of the same job, if there is one. `None` if there is no
    /// kernel of these operators, or none was searched for.
    pub nearest: Option<Box<NearestEntry>>,
    /// What the store knows of the entry that it lacks. Then this is the cause, whatever else is stored.
    pub former: Option<FormerEntry>,
    /// Whether the toolchain and the options of the kernel were in use before the nearest kernel was stored: other kernels of them were
    /// stored earlier, or a build had this kernel. Then a difference in these is no cause. Kernels that were stored later show nothing: an
    /// upgrade is the cause of the misses also when a part of the kernels is stored again.
    pub was_in_use: bool,
    /// Whether the entry is damaged or invalid.
    pub is_damaged: bool,
    /// Why the entry is not used, if an untrusted user could have written it.
    pub untrusted: Option<Box<UntrustedEntries>>,
    /// What the store has of the kernel's operators for other targets, if it has no kernel of them for this one and was searched.
    pub elsewhere: Option<Box<OtherTargets>>,
}

impl MissExplanation {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_searched: false,
            nearest: None,
            former: None,
            was_in_use: false,
            is_damaged: false,
            untrusted: None,
            elsewhere: None,
        }
    }

    /// Returns the cause of the miss.
    pub fn cause(&self) -> MissCause {
        match (&self.former, &self.nearest) {
            (Some(FormerEntry::Quarantined { at_ms, reason }), _) => {
                let reason = reason.clone().unwrap_or_else(|| "no reason was written".to_owned());
                MissCause::Quarantined { reason, last_ms: *at_ms }
            }
            (Some(FormerEntry::Removed { stored, evictions, cleared }), _) => {
                let (last, evictions, cleared) = (stored.clone(), *evictions, *cleared);
                MissCause::Removed(RemovedEntries { last, kernels: 1, evictions, cleared })
            }
            (Some(FormerEntry::NotKept { compiled }), _) => {
                MissCause::NotKept { last: compiled.clone(), kernels: 1 }
            }
            (Some(FormerEntry::Unfinished(last)), nearest) => {
                // What an upgrade made necessary, and an interrupted build did not complete, has both causes. From a kernel that was stored
                // beside it, or of another job, the missing one only differs.
                let nearest = nearest.as_deref().filter(|nearest| nearest.job.is_empty());
                let changes = nearest.map(|nearest| KeyChanges::of(nearest, self.was_in_use));
                let unfinished = UnfinishedKernels { last: last.clone(), kernels: 1 };
                match changes.filter(|changes| !changes.is_comparison) {
                    Some(changes) => {
                        MissCause::KeyChanged(KeyChanges { unfinished: Some(unfinished), ..changes })
                    }
                    None => MissCause::Unfinished(unfinished),
                }
            }
            (None, Some(nearest)) if nearest.job.is_empty() => {
                MissCause::KeyChanged(KeyChanges::of(nearest, self.was_in_use))
            }
            (None, Some(_)) => MissCause::NewJob,
            (None, None) if self.is_searched => {
                MissCause::NewOperators(self.elsewhere.as_deref().cloned().unwrap_or_default())
            }
            (None, None) if self.is_damaged => MissCause::Damaged(self.why.clone()),
            (None, None) => match &self.untrusted {
                Some(untrusted) => MissCause::Untrusted((**untrusted).clone()),
                None => MissCause::Other(self.why.clone()),
            },
        }
    }
}

impl fmt::Display for MissExplanation {
    /// Writes the cause in a few words; of a new job, the first difference from the nearest one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = self.nearest.as_deref().filter(|nearest| !nearest.job.is_empty());
        let Some(nearest) = nearest.filter(|_| self.former.is_none()) else {
            return self.cause().fmt(f);
        };
        if !nearest.is_similar() {
            return f.write_str("new job");
        }
        write!(f, "new job, like {}", nearest.name)?;
        let changes = nearest.main_changes();
        let Some(Change { path, old, new, .. }) = changes.first() else { return Ok(()) };
        write!(f, " but for {path}: {} -> {}", cut(old), cut(new))?;
        match changes.len() - 1 {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The cause of a miss. Displays as one line, without the kernels that it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissCause {
    /// A kernel of the same job is stored, and other parts of its key differ.
    KeyChanged(KeyChanges),
    /// The entries were stored, and are evicted or deleted.
    Removed(RemovedEntries),
    /// The kernels were compiled, and could not be stored, or the toolchain changed meanwhile.
    #[non_exhaustive]
    NotKept {
        /// The last of the builds that compiled them.
        last: StoredBy,
        /// The number of kernels.
        kernels: usize,
    },
    /// The last build that was to compile the kernels ended without them.
    Unfinished(UnfinishedKernels),
    /// The entries are in quarantine.
    #[non_exhaustive]
    Quarantined {
        /// The reason for the quarantine.
        reason: String,
        /// The time of the last quarantine, in Unix milliseconds.
        last_ms: u64,
    },
    /// The entries are damaged or invalid, for this reason.
    Damaged(String),
    /// Kernels of the same operators are stored, but none of the same job.
    NewJob,
    /// The entries are stored, and an untrusted user could have written them.
    Untrusted(UntrustedEntries),
    /// No kernel of the same operators is stored for the target.
    NewOperators(OtherTargets),
    /// Another reason, which may concern the whole store: it does not exist, or cannot be read.
    Other(String),
}

/// Kernels that a build was to compile, and ended without.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedKernels {
    /// The last of the builds.
    pub last: UnfinishedBuild,
    /// The number of kernels.
    pub kernels: usize,
}

impl UnfinishedKernels {
    /// Whether the builds of `other` ended in the same way.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.last.end, &other.last.end) {
            (BuildEnd::Failed(one), BuildEnd::Failed(other)) => kind_of(one) == kind_of(other),
            (one, other) => one == other,
        }
    }

    fn merge(&mut self, Self { last, kernels }: Self) {
        self.last.keep_later(last);
        self.kernels += kernels;
    }
}

impl fmt::Display for UnfinishedKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.last.text(self.kernels))
    }
}

/// Entries that a store had, and has no more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedEntries {
    /// The last of the builds that stored them.
    pub last: StoredBy,
    /// The number of kernels.
    pub kernels: usize,
    /// The number of evictions from their targets that the store has counted. It does not list the entries, and the counter may have been
    /// reset.
    pub evictions: u64,
    /// The number of entries of their targets that a user cleared, counted in the same way.
    pub cleared: u64,
}

impl RemovedEntries {
    fn merge(&mut self, other: Self) {
        let Self { last, kernels, evictions, cleared } = other;
        self.last.keep_later(last);
        self.kernels += kernels;
        self.evictions = self.evictions.max(evictions);
        self.cleared = self.cleared.max(cleared);
    }
}

impl fmt::Display for RemovedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, and no longer stored", made_text(&self.last, self.kernels))
    }
}

/// `compiled 2026-11-28 12:31:05 UTC on this host`, of one or more kernels.
fn made_text(last: &StoredBy, kernels: usize) -> String {
    let (verb, last) = last.texts();
    match kernels {
        1 => format!("{verb} {last}"),
        _ => format!("{verb} before (the last {last})"),
    }
}

/// The differences between the keys of stored and missing kernels of the same jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyChanges {
    /// The versions of the key's algorithm, the stored one first, if they differ.
    pub key_schema: Option<(u64, u64)>,
    /// The parts of the toolchain that differ.
    pub toolchain: Vec<PartChange>,
    /// The differences of the resolved specs: target and options.
    pub spec: Diff,
    /// The names of the parts of the operators' own sources that differ, each with the number of its kernels.
    pub op_sources: BTreeMap<String, usize>,
    /// The names of the changed parts of toolchain and sources that follow from other changes.
    pub consequences: BTreeSet<String>,
    /// Changes of the toolchain in words, by the names of the parts: those whose names do not say what they are.
    pub descriptions: BTreeMap<String, String>,
    /// The programs that stored the kernels, with their versions, if it was not this version.
    pub made_by: BTreeSet<String>,
    /// Whether the differences are those from the nearest kernel, and not the cause: the toolchain and the options of the missing
    /// kernels were in use before.
    pub is_comparison: bool,
    /// What is known of builds that were to compile the kernels after the change, and ended without them.
    pub unfinished: Option<UnfinishedKernels>,
}

impl KeyChanges {
    fn of(nearest: &NearestEntry, was_in_use: bool) -> Self {
        let is_other = |made_by: &&String| !made_by.is_empty() && *made_by != opkeep_kernel_entry::MADE_BY;
        let mut changes = Self {
            key_schema: nearest.key_schema,
            toolchain: nearest.toolchain.clone(),
            spec: nearest.spec.clone(),
            op_sources: opkeep_order::map(nearest.op_sources.iter().map(|part| (part.name.clone(), 1))),
            consequences: nearest.consequences.clone(),
            descriptions: nearest.descriptions.clone(),
            made_by: opkeep_order::set([&nearest.made_by].into_iter().filter(is_other).cloned()),
            is_comparison: false,
            unfinished: None,
        };
        changes.is_comparison = was_in_use && !changes.only_sources_differ();
        changes
    }

    /// Whether the operators' own sources are all that differs. Otherwise they may differ as a consequence, such as generated code for
    /// another option.
    pub fn only_sources_differ(&self) -> bool {
        self.key_schema.is_none() && self.toolchain.is_empty() && self.spec.is_empty()
    }

    /// Returns the changes of the toolchain that do not follow from others.
    pub fn main_toolchain_changes(&self) -> impl Iterator<Item = &PartChange> {
        self.toolchain.iter().filter(|change| !self.consequences.contains(&change.name))
    }

    /// Whether `other` is the same cause. Sources have other contents in each kernel, so their names count.
    fn is_same(&self, other: &Self) -> bool {
        self.key_schema == other.key_schema
            && self.toolchain == other.toolchain
            && self.spec == other.spec
            && self.is_comparison == other.is_comparison
            && match (&self.unfinished, &other.unfinished) {
                (Some(one), Some(other)) => one.is_same(other),
                (one, other) => one.is_none() && other.is_none(),
            }
            && (!self.only_sources_differ() || self.op_sources.keys().eq(other.op_sources.keys()))
    }

    fn merge(&mut self, other: Self) {
        for (name, count) in other.op_sources {
            *self.op_sources.entry(name).or_default() += count;
        }
        self.consequences.extend(other.consequences);
        self.made_by.extend(other.made_by);
        if let (Some(all), Some(one)) = (&mut self.unfinished, other.unfinished) {
            all.merge(one);
        }
    }
}

impl fmt::Display for KeyChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some((old, new)) = self.key_schema {
            parts.push(format!("keys of version {old} -> {new}"));
        }
        parts.extend(toolchain_text(self.main_toolchain_changes(), &self.descriptions));
        if let Some(first) = self.spec.changes.first() {
            let more = self.spec.changes.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let (old, new) = (cut(&first.old), cut(&first.new));
            parts.push(format!("{}: {old} -> {new}{more}", plain_path(&first.path)));
        }
        if self.only_sources_differ() {
            let names: Vec<&str> = self.op_sources.keys().take(MAX_NAMES).map(String::as_str).collect();
            let more = self.op_sources.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            match names.is_empty() {
                true => parts.push("no difference is recorded".to_owned()),
                false => parts.push(format!("source {}{more}", names.join(", "))),
            }
        }
        if !self.made_by.is_empty() && self.toolchain.is_empty() {
            let made_by: Vec<&str> = self.made_by.iter().map(String::as_str).collect();
            parts.insert(0, format!("{} -> {}", made_by.join(", "), opkeep_kernel_entry::MADE_BY));
        }
        if self.is_comparison {
            let what = if self.toolchain.is_empty() { "options" } else { "toolchain" };
            write!(f, "no kernel of this job is stored for the same {what}; the nearest differs in ")?;
        }
        f.write_str(&parts.join(", "))?;
        match &self.unfinished {
            Some(unfinished) => write!(f, "; {unfinished}"),
            None => Ok(()),
        }
    }
}

/// Returns the first characters of a value.
fn cut(value: &str) -> String {
    match value.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

/// `option precision` for `options.precision`.
fn plain_path(path: &str) -> String {
    path.strip_prefix("options.").map_or_else(|| path.to_owned(), |name| format!("option {name}"))
}

impl fmt::Display for MissCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyChanged(changes) => changes.fmt(f),
            Self::Removed(removed) => removed.fmt(f),
            Self::NotKept { last, kernels } => write!(f, "{}, and not stored", made_text(last, *kernels)),
            Self::Unfinished(unfinished) => unfinished.fmt(f),
            Self::Quarantined { reason, last_ms } => write!(f, "quarantined {}: {reason}", utc(*last_ms)),
            Self::NewJob => f.write_str("no kernel of this job is stored"),
            Self::Untrusted(untrusted) => untrusted.fmt(f),
            Self::NewOperators(elsewhere) => elsewhere.fmt(f),
            Self::Damaged(why) | Self::Other(why) => f.write_str(why),
        }
    }
}

impl MissCause {
    /// Returns the cause in a word for machine-readable output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::KeyChanged(_) => "key-changed",
            Self::Removed(_) => "removed",
            Self::NotKept { .. } => "not-kept",
            Self::Unfinished(unfinished) => unfinished.last.end.name(),
            Self::Quarantined { .. } => "quarantined",
            Self::Damaged(_) => "damaged",
            Self::NewJob => "new-job",
            Self::Untrusted(_) => "untrusted",
            Self::NewOperators(_) => "new-operators",
            Self::Other(_) => "other",
        }
    }

    fn order(&self) -> u8 {
        match self {
            Self::KeyChanged(_) => 0,
            Self::Removed(_) => 1,
            Self::NotKept { .. } => 2,
            Self::Unfinished(_) => 3,
            Self::Quarantined { .. } => 4,
            Self::Damaged(_) => 5,
            Self::Untrusted(_) => 6,
            Self::NewJob => 7,
            Self::NewOperators(_) => 8,
            Self::Other(_) => 9,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::KeyChanged(one), Self::KeyChanged(other)) => one.is_same(other),
            (Self::Unfinished(one), Self::Unfinished(other)) => one.is_same(other),
            (Self::Untrusted(one), Self::Untrusted(other)) => one.is_same(other),
            (Self::Removed(_), Self::Removed(_)) | (Self::NotKept { .. }, Self::NotKept { .. }) => true,
            (Self::Quarantined { reason: one, .. }, Self::Quarantined { reason: other, .. })
            | (Self::Damaged(one), Self::Damaged(other))
            | (Self::Other(one), Self::Other(other)) => kind_of(one) == kind_of(other),
            (one, other) => one == other,
        }
    }

    /// The reason that has digests and numbers of one kernel, if the cause has one.
    fn reason(&mut self) -> Option<&mut String> {
        match self {
            Self::Quarantined { reason, .. } | Self::Damaged(reason) | Self::Other(reason) => Some(reason),
            _ => None,
        }
    }

    /// Adds the cause of another kernel, which [is the same](Self::is_same). Returns the reason of the first kernel, if the reasons
    /// have different digests or numbers: the cause has none of them then.
    fn merge(&mut self, mut other: Self) -> Option<String> {
        let example = match (self.reason(), other.reason()) {
            (Some(reason), Some(other)) if reason != other => {
                let kind = kind_of(reason);
                Some(std::mem::replace(reason, kind))
            }
            _ => None,
        };
        match (self, other) {
            (Self::KeyChanged(all), Self::KeyChanged(one)) => all.merge(one),
            (Self::Removed(all), Self::Removed(one)) => all.merge(one),
            (Self::Unfinished(all), Self::Unfinished(one)) => all.merge(one),
            (Self::NotKept { last: all, kernels: count }, Self::NotKept { last, kernels }) => {
                all.keep_later(last);
                *count += kernels;
            }
            (Self::Quarantined { last_ms: last, .. }, Self::Quarantined { last_ms, .. }) => {
                *last = last_ms.max(*last)
            }
            _ => {}
        }
        example
    }
}

/// The misses of one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissGroup {
    /// The cause. Its [`op_sources`](KeyChanges::op_sources) are those of all kernels of the group.
    pub cause: MissCause,
    /// The numbers that the caller gave the kernels, in the caller's order.
    pub kernels: Vec<usize>,
    /// The reason of the first kernel, if the kernels' reasons differ in digests or numbers, which the cause leaves out then.
    pub example: Option<String>,
}

impl MissGroup {
    /// Groups misses by their causes: what hits the most kernels comes first, and each miss is in exactly one group. The caller gives
    /// each kernel a number.
    pub fn of<'a>(misses: impl IntoIterator<Item = (usize, &'a MissExplanation)>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (kernel, miss) in misses {
            let cause = miss.cause();
            match groups.iter_mut().find(|group| group.cause.is_same(&cause)) {
                Some(group) => {
                    group.kernels.push(kernel);
                    let example = group.cause.merge(cause);
                    group.example = group.example.take().or(example);
                }
                None => groups.push(Self { cause, kernels: vec![kernel], example: None }),
            }
        }
        opkeep_order::by_key(&mut groups, |group| (group.cause.order(), Reverse(group.kernels.len())));
        groups
    }
}

#[cfg(test)]
mod tests;
