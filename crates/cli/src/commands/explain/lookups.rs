//! Where kernels were looked for, and what each place answered.

use std::collections::BTreeMap;
use std::path::Path;

use opkeep::{CacheStatus, Explanation, MissCause, MissGroup, RefusalKind, RemoteConfig, RemoteStatus};
use serde::Serialize;

use crate::ui::json;
use crate::ui::text::{Text, bytes};

/// The places where kernels were looked for.
pub(super) struct Lookups {
    store: Option<Answers>,
    remote: Option<Answers>,
}

/// What a place answered about the kernels for which it was asked.
#[derive(Default)]
struct Answers {
    /// The directory, or the URL without credentials.
    location: String,
    namespace: Option<String>,
    asked: usize,
    found: usize,
    bytes: u64,
    absent: usize,
    /// What is there and is not used, by the reason in a word.
    refused: BTreeMap<&'static str, usize>,
    unknown: usize,
    is_paused: bool,
    /// Why nothing is known.
    reason: Option<String>,
}

/// A place as JSON.
#[derive(Serialize)]
pub(super) struct LookupOutput {
    place: &'static str,
    location: String,
    namespace: Option<String>,
    asked: usize,
    found: usize,
    absent: usize,
    refused: BTreeMap<&'static str, usize>,
    unknown: usize,
    paused: bool,
    reason: Option<String>,
}

impl Lookups {
    /// `root` is the store's directory, and `remote` the remote cache of a build.
    pub(super) fn of(kernels: &[Explanation], root: Option<&Path>, remote: Option<&RemoteConfig>) -> Self {
        let store = root.map(|root| of_store(kernels, root));
        let remote = remote.filter(|_| kernels.iter().any(|kernel| kernel.remote.is_some()));
        Self { store, remote: remote.map(|remote| of_remote(kernels, remote)) }
    }

    /// Returns a line for each place. What concerns the whole store is a cause, which states its directory.
    pub(super) fn text(&self, causes: &[MissGroup]) -> Text {
        let mut text = Text::default();
        let was_searched = |group: &MissGroup| !is_unknown(&group.cause);
        if let Some(store) = &self.store
            && store.asked > 0
            && (causes.is_empty() || store.found > 0 || causes.iter().any(was_searched))
        {
            text.line(format_args!("the store {} has {}", store.location, store.counts("")));
        }
        if let Some(remote) = &self.remote {
            let namespace = remote.namespace.as_deref().unwrap_or_default();
            let place = format!("the remote cache {} (namespace `{namespace}`)", remote.location);
            text.line(match remote.unknown {
                0 => format!("{place} has {}", remote.counts("missing ")),
                _ if remote.is_paused => format!("{place} is paused, so it was not asked"),
                unknown if unknown == remote.asked => format!("{place} did not answer"),
                unknown => {
                    format!("{place} has {}, and did not answer for {unknown}", remote.counts("missing "))
                }
            });
        }
        text
    }

    pub(super) fn outputs(self) -> Vec<LookupOutput> {
        let output = |(place, answers): (&'static str, Answers)| LookupOutput {
            place,
            refused: RefusalKind::ALL.map(|kind| (kind.name(), answers.count_refused(kind))).into(),
            location: answers.location,
            namespace: answers.namespace,
            asked: answers.asked,
            found: answers.found,
            absent: answers.absent,
            unknown: answers.unknown,
            paused: answers.is_paused,
            reason: answers.reason,
        };
        let places = [("store", self.store), ("remote", self.remote)];
        places.into_iter().filter_map(|(place, answers)| Some(output((place, answers?)))).collect()
    }
}

impl Answers {
    fn count_refused(&self, kind: RefusalKind) -> usize {
        self.refused.get(kind.name()).copied().unwrap_or_default()
    }

    /// `2 of 3 missing kernels (24.1 KiB); it has 1 more that a build refuses: damaged`.
    fn counts(&self, which: &str) -> String {
        let kernels = if self.asked == 1 { "kernel" } else { "kernels" };
        let found = if self.found == 0 { "none".to_owned() } else { self.found.to_string() };
        let size = if self.bytes > 0 { format!(" ({})", bytes(self.bytes)) } else { String::new() };
        let refused: Vec<String> = self.refused.iter().map(|(why, count)| format!("{count} {why}")).collect();
        let refused = match refused.is_empty() {
            true => String::new(),
            false => format!("; a build does not use what else is there: {}", refused.join(", ")),
        };
        format!("{found} of {} {which}{kernels}{size}{refused}", self.asked)
    }
}

/// Whether the store did not answer, or has an entry that it cannot return.
fn is_unknown(cause: &MissCause) -> bool {
    matches!(cause, MissCause::Damaged(_) | MissCause::Untrusted(_) | MissCause::Other(_))
}

fn of_store(kernels: &[Explanation], root: &Path) -> Answers {
    let mut answers = Answers { location: json::path(root), ..Answers::default() };
    for kernel in kernels {
        match &kernel.status {
            CacheStatus::Hit => answers.found += 1,
            CacheStatus::Miss(miss) if is_unknown(&miss.cause()) => answers.unknown += 1,
            CacheStatus::Miss(_) => answers.absent += 1,
            _ => continue,
        }
        answers.asked += 1;
    }
    answers
}

fn of_remote(kernels: &[Explanation], remote: &RemoteConfig) -> Answers {
    let (location, namespace) = (remote.engine.location().to_owned(), Some(remote.namespace.to_string()));
    let mut answers = Answers { location, namespace, ..Answers::default() };
    for status in kernels.iter().filter_map(|kernel| kernel.remote.as_ref()) {
        answers.asked += 1;
        match status {
            RemoteStatus::Available { bytes, .. } => {
                answers.found += 1;
                answers.bytes += bytes;
            }
            RemoteStatus::Refused { kind, .. } => *answers.refused.entry(kind.name()).or_default() += 1,
            RemoteStatus::Absent => answers.absent += 1,
            RemoteStatus::Unknown { reason, is_paused, .. } => {
                answers.unknown += 1;
                answers.is_paused |= is_paused;
                answers.reason.get_or_insert_with(|| reason.clone());
            }
            _ => answers.unknown += 1,
        }
    }
    answers
}
