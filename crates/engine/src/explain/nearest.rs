//! The stored kernel that is nearest to a missing one. The difference between them explains the miss.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::SystemTime;

use opkeep_backend::Backend;
use opkeep_descriptor::{Change, Diff, Job, KEY_SCHEMA, Key, ResolvedSpec, read_info};
use opkeep_digest::{Digest, Fingerprint, PartChange};
use opkeep_kernel_entry::Header;
use opkeep_kernel_entry::member::{HEADER, INFO};
use opkeep_store::{OpenEntry, Store, TargetStore};

use super::causes::MissExplanation;
use super::former::StoreHistory;
use super::nearest_entry::NearestEntry;
use super::other_targets::{self, OtherTargets};
use super::rank::Rank;
use crate::plan::{KeyedKernel, PlannedKernel};

/// Fields of tensors that follow from others, each with the other.
const FOLLOWING: [(&str, &str); 3] = [("ori_shape", "shape"), ("ori_format", "format"), ("range", "shape")];
/// Fields in which several tensors change at once.
const TENSOR_FIELDS: [&str; 6] = ["shape", "ori_shape", "range", "format", "ori_format", "dtype"];

/// A search for stored kernels near to the missing kernels of one target, with the nearest entries so far.
pub(crate) struct NearestSearch<'a> {
    store: &'a TargetStore,
    /// The backend of the missing kernels.
    backend: &'a dyn Backend,
    missing: Vec<MissingKernel<'a>>,
    /// The keys of the missing kernels: a build stores these during the search, and they explain no miss of it.
    keys: HashSet<Digest>,
    by_op_type: HashMap<String, Vec<usize>>,
    /// The toolchains and specs of the missing kernels: mostly one.
    configurations: Vec<Configuration<'a>>,
    /// Whether all entries were compared.
    is_complete: bool,
    /// Whether the target has an entry.
    has_entries: bool,
    /// What the store has of operators for other targets, by their types, if that was looked up.
    elsewhere: BTreeMap<String, OtherTargets>,
}

/// What the missing kernels are built with.
struct Configuration<'a> {
    backend: &'a str,
    toolchain: &'a Fingerprint,
    spec: &'a ResolvedSpec,
    /// The time when the first of its other kernels was stored that the store has.
    first_stored: Option<SystemTime>,
}

impl Configuration<'_> {
    fn is_of(&self, keyed: &KeyedKernel) -> bool {
        self.backend == keyed.parts.backend
            && self.spec == &keyed.spec
            && has_content(self.toolchain, &keyed.parts.toolchain)
    }

    fn is_in(&self, header: &Header) -> bool {
        let Header { backend, key_schema, target, options, toolchain, .. } = header;
        self.backend == backend
            && *key_schema == KEY_SCHEMA
            && self.spec.target == *target
            && self.spec.options == *options
            && has_content(self.toolchain, toolchain)
    }
}

/// Whether two fingerprints are of the same content. It computes no digest: of many kernels, most differ in a first part.
fn has_content(one: &Fingerprint, other: &Fingerprint) -> bool {
    let [one, other] = [one, other].map(|of| of.parts().iter().map(|part| (&part.name, &part.digest)));
    one.eq(other)
}

struct MissingKernel<'a> {
    /// The index of its configuration.
    configuration: usize,
    /// The caller's number for the kernel.
    id: usize,
    job: &'a Job,
    keyed: &'a KeyedKernel,
    nearest: Option<NearestEntry>,
}

impl<'a> NearestSearch<'a> {
    pub(crate) fn new(store: &'a TargetStore, backend: &'a dyn Backend) -> Self {
        Self {
            store,
            backend,
            missing: Vec::new(),
            keys: HashSet::new(),
            by_op_type: HashMap::new(),
            configurations: Vec::new(),
            is_complete: false,
            has_entries: false,
            elsewhere: BTreeMap::new(),
        }
    }

    /// Adds `planned` to the missing kernels.
    pub(crate) fn add(&mut self, id: usize, planned: &'a PlannedKernel<'_>, keyed: &'a KeyedKernel) {
        self.by_op_type.entry(planned.op_type()).or_default().push(self.missing.len());
        let known = self.configurations.iter().position(|configuration| configuration.is_of(keyed));
        let configuration = known.unwrap_or_else(|| {
            let (backend, toolchain, spec) = (&keyed.parts.backend, &keyed.parts.toolchain, &keyed.spec);
            self.configurations.push(Configuration { backend, toolchain, spec, first_stored: None });
            self.configurations.len() - 1
        });
        self.missing.push(MissingKernel { configuration, id, job: planned.job, keyed, nearest: None });
        self.keys.insert(*keyed.key.digest());
    }

    /// Whether no kernel is missing.
    pub(crate) fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }

    /// Compares every entry of the target with the missing kernels, while `ensure_running` returns true. Unreadable
    /// entries are skipped.
    pub(crate) fn run(&mut self, ensure_running: impl Fn() -> bool) {
        let store = self.store;
        for first in 0..=u8::MAX {
            // One directory at a time: there may be very many entries.
            for key in if ensure_running() { store.keys_from(first) } else { return } {
                if !ensure_running() {
                    return;
                }
                // What a build stores meanwhile says nothing of the store before it.
                if self.keys.contains(&key) {
                    continue;
                }
                self.has_entries = true;
                if let Ok(entry) = store.open_entry(&key) {
                    self.look_at(&entry);
                }
            }
        }
        self.is_complete = true;
    }

    /// Looks up for which other targets `store` has kernels of operators of which this one has none, while `goes_on` returns true.
    pub(crate) fn look_elsewhere(&mut self, store: &Store, goes_on: impl Fn() -> bool) {
        let has_none = |missing: &usize| self.missing[*missing].nearest.is_none();
        let unknown = self.by_op_type.iter().filter(|(_, missing)| missing.iter().any(has_none));
        let unknown: BTreeSet<&str> = opkeep_order::set(unknown.map(|(op_type, _)| op_type.as_str()));
        let target = self.missing.first().map(|missing| missing.keyed.spec.target.as_str());
        let Some(target) = target.filter(|_| self.is_complete && !unknown.is_empty()) else { return };
        let found = other_targets::look(store, target, !self.has_entries, &unknown, &goes_on);
        self.elsewhere = found.unwrap_or_default();
    }

    /// Compares a stored kernel with the missing ones of the same operators. Its object, which is the largest part of the entry, is
    /// not read.
    fn look_at(&mut self, entry: &OpenEntry<'_>) -> Option<()> {
        let header = Header::parse(&entry.read_member(HEADER).ok()??)?;
        let created = entry.head().created();
        for configuration in &mut self.configurations {
            if configuration.first_stored.is_none_or(|first| created < first) && configuration.is_in(&header)
            {
                configuration.first_stored = Some(created);
            }
        }
        let candidates = self.by_op_type.get(&header.op_type)?;
        let stored = read_info(&entry.read_member(INFO).ok()??).ok()?.job;
        for at in candidates {
            let missing = &mut self.missing[*at];
            if header.backend != missing.keyed.parts.backend {
                continue;
            }
            let mut found = difference(entry, &header, &stored, missing);
            found.toolchain = self.backend.align_changes(std::mem::take(&mut found.toolchain));
            found.find_consequences(|change| self.backend.is_consequence(change));
            if missing.nearest.as_ref().is_none_or(|nearest| Rank::of(&found) < Rank::of(nearest)) {
                missing.nearest = Some(found);
            }
        }
        Some(())
    }

    /// Returns the keys of the missing kernels.
    pub(crate) fn keys(&self) -> &HashSet<Digest> {
        &self.keys
    }

    /// Returns the caller's numbers for the missing kernels.
    pub(crate) fn ids(&self) -> impl Iterator<Item = usize> {
        self.missing.iter().map(|missing| missing.id)
    }

    /// Returns the explanations of the missing kernels, each with the caller's number for it, and without the reason of the look-up. Unless
    /// all entries were compared, only kernels of the same job are named: one of another job says nothing while one of the same may
    /// follow.
    pub(crate) fn explained(self, history: &StoreHistory) -> Vec<(usize, MissExplanation)> {
        let Self {
            store, backend, missing, keys, configurations, is_complete, by_op_type, elsewhere, ..
        } = self;
        let op_types: HashMap<usize, &String> =
            by_op_type.iter().flat_map(|(op_type, all)| all.iter().map(move |at| (*at, op_type))).collect();
        let mut former = history.of_target(store, &keys);
        let explained = missing.into_iter().enumerate().map(
            |(at, MissingKernel { configuration, id, job, keyed, nearest })| {
                let elsewhere =
                    op_types.get(&at).and_then(|op_type| elsewhere.get(*op_type)).cloned().map(Box::new);
                let nearest =
                    nearest.filter(|nearest| is_complete || nearest.job.is_empty()).map(|mut nearest| {
                        nearest.main_changes = main_changes(&nearest.job, job);
                        nearest.descriptions = descriptions(backend, &nearest.toolchain);
                        Box::new(nearest)
                    });
                let key = keyed.key.digest();
                let first_stored = configurations[configuration].first_stored;
                let is_after =
                    |nearest: &NearestEntry| first_stored.is_some_and(|first| first < nearest.created);
                let was_in_use = history.was_made(key) || nearest.as_deref().is_some_and(is_after);
                let explanation = MissExplanation {
                    is_searched: is_complete,
                    nearest,
                    former: former.remove(key),
                    was_in_use,
                    elsewhere,
                    ..MissExplanation::new(String::new())
                };
                (id, explanation)
            },
        );
        explained.collect()
    }
}

/// Returns the changes for which the backend has words, by the names of the parts.
fn descriptions(backend: &dyn Backend, changes: &[PartChange]) -> BTreeMap<String, String> {
    let described =
        changes.iter().filter_map(|change| Some((change.name.clone(), backend.describe_change(change)?)));
    opkeep_order::map(described)
}

/// Returns the differences of a missing kernel from a stored one.
fn difference(
    entry: &OpenEntry<'_>,
    header: &Header,
    stored: &Job,
    missing: &MissingKernel<'_>,
) -> NearestEntry {
    let Header { name, made_by, key_schema, target, options, toolchain, op_sources, .. } = header;
    let spec = ResolvedSpec { target: target.clone(), options: options.clone(), debug: false };
    let keyed = missing.keyed;
    NearestEntry {
        name: name.clone(),
        key: Key::from(*entry.head().key()),
        created: entry.head().created(),
        last_used: entry.last_used(),
        made_by: made_by.clone(),
        key_schema: (*key_schema != KEY_SCHEMA).then_some((*key_schema, KEY_SCHEMA)),
        job: Diff::of_jobs(stored, missing.job),
        spec: Diff::of_specs(&spec, &keyed.spec),
        toolchain: toolchain.diff(&keyed.parts.toolchain),
        op_sources: op_sources.diff(&keyed.parts.op_sources),
        consequences: BTreeSet::new(),
        descriptions: BTreeMap::new(),
        main_changes: Vec::new(),
    }
}

/// Returns the changes to `job` for people: each once, without those that follow from it.
fn main_changes(diff: &Diff, job: &Job) -> Vec<Change> {
    let follows = |change: &Change| FOLLOWING.iter().any(|(field, _)| field_of(&change.path).1 == *field);
    let mut changes: Vec<Change> =
        diff.changes.iter().filter(|change| !follows_in_tensor(change, &diff.changes)).cloned().collect();
    let order = |change: &Change| {
        (follows(change), change.path.contains("outputs"), change.path.starts_with("data["))
    };
    opkeep_order::by_key(&mut changes, order);
    // An operator's output has the shape of its input, and the data of the network that of the input that takes it.
    let mut known = HashSet::new();
    changes.retain(|change| {
        let (_, field) = field_of(&change.path);
        !TENSOR_FIELDS.contains(&field)
            || known.insert((field.to_owned(), change.old.clone(), change.new.clone()))
    });
    changes.iter_mut().for_each(|change| change.path = plain_path(&change.path, job));
    changes
}

/// Whether a change of a tensor follows from another of the same tensor: that of the original shape from that of the shape.
fn follows_in_tensor(change: &Change, all: &[Change]) -> bool {
    let (tensor, field) = field_of(&change.path);
    let cause = FOLLOWING.iter().find(|(following, _)| *following == field).map(|(_, cause)| *cause);
    cause.is_some_and(|cause| all.iter().any(|other| field_of(&other.path) == (tensor, cause)))
}

/// `("ops[0].inputs[1]", "shape")` of `ops[0].inputs[1].shape`.
fn field_of(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// Returns a path with the name of an attribute instead of its number, and for a job of one operator without that.
fn plain_path(path: &str, job: &Job) -> String {
    let named = || {
        let (at, rest) = path.strip_prefix("ops[")?.split_once("].attrs[")?;
        let (attr, rest) = rest.split_once(']')?;
        let attrs = job.ops.get(at.parse::<usize>().ok()?)?.attrs.as_ref()?;
        let name = &attrs.get(attr.parse::<usize>().ok()?)?.name;
        Some(format!("ops[{at}].{name}{}", rest.strip_prefix(".value").unwrap_or(rest)))
    };
    let path = named().unwrap_or_else(|| path.to_owned());
    match path.strip_prefix("ops[0].").filter(|_| job.ops.len() == 1) {
        Some(own) => own.to_owned(),
        None => path,
    }
}

/// Runs `work`, and at the same time reads the `history` and searches, while `goes_on` returns true; it gets whether the work is done.
/// Each search is handed to `found` when it ends, with the history. Returns the result of `work`.
pub(crate) fn search_while<'a, T, H>(
    searches: Vec<NearestSearch<'a>>,
    goes_on: impl Fn(bool) -> bool + Sync,
    history: impl Fn(&dyn Fn() -> bool) -> H + Sync,
    found: impl Fn(NearestSearch<'a>, &H) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    if searches.is_empty() {
        return work();
    }
    let (done, searches) = (AtomicBool::new(false), Mutex::new(searches));
    let search = || {
        let searches = std::mem::take(&mut *searches.lock().unwrap_or_else(PoisonError::into_inner));
        let goes_on = || goes_on(done.load(Ordering::Relaxed));
        let history = history(&goes_on);
        for mut search in searches {
            search.run(goes_on);
            found(search, &history);
        }
    };
    beside(Builder::new().name("explain".to_owned()), &search, || {
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Runs `work` in this thread and `other` in one of its own; after `work` in this one, if no thread can be started.
fn beside<T>(thread: Builder, other: &(impl Fn() + Sync), work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let is_started = thread.spawn_scoped(scope, other).is_ok();
        let result = work();
        if !is_started {
            other();
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn changes(changes: &[(&str, &str, &str)]) -> Diff {
        // Only a diff makes changes: that of the options, with other paths.
        let spec = |side: fn(&(&str, &str, &str)) -> String| {
            let options = changes.iter().map(|change| (change.0.to_owned(), side(change))).collect();
            ResolvedSpec { target: String::new(), options, debug: false }
        };
        let mut diff =
            Diff::of_specs(&spec(|change| change.1.to_owned()), &spec(|change| change.2.to_owned()));
        for change in &mut diff.changes {
            change.path = change.path.trim_start_matches("options.").to_owned();
        }
        diff
    }

    /// Each change of a network is one, however many fields have it.
    #[test]
    fn a_change_counts_once() {
        let job = opkeep_testkit::descriptor("node", "Square", &[&[3]]).job;
        for (all, expected) in [
            (
                &[
                    ("data[0].outputs[0].shape", "[3]", "[4]"),
                    ("data[0].outputs[0].ori_shape", "[3]", "[4]"),
                    ("data[0].outputs[0].range", "[[3, 3]]", "[[4, 4]]"),
                    ("ops[0].inputs[0].ori_shape", "[3]", "[4]"),
                    ("ops[0].inputs[0].range", "[[3, 3]]", "[[4, 4]]"),
                    ("ops[0].inputs[0].shape", "[3]", "[4]"),
                    ("ops[0].outputs[0].shape", "[3]", "[4]"),
                    ("ops[0].outputs[0].dtype", "float32", "float16"),
                ][..],
                &["inputs[0].shape: [3] -> [4]", "outputs[0].dtype: float32 -> float16"][..],
            ),
            // A range alone is a change.
            (
                &[("ops[0].inputs[0].range", "[[3, 3]]", "[[1, 9]]")],
                &["inputs[0].range: [[3, 3]] -> [[1, 9]]"],
            ),
            // Two attributes with the same values are two changes.
            (
                &[("ops[0].attrs[0].value[0]", "1", "2"), ("ops[0].attrs[0].value[1]", "1", "2")],
                &["attrs[0].value[0]: 1 -> 2", "attrs[0].value[1]: 1 -> 2"],
            ),
        ] {
            let found: Vec<String> =
                main_changes(&changes(all), &job).iter().map(Change::to_string).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_search_is_made_without_a_thread_too() {
        // No machine has so large a stack.
        for (thread, calls_in_work) in [(Builder::new(), None), (Builder::new().stack_size(1 << 60), Some(0))]
        {
            let calls = AtomicUsize::new(0);
            let other = || {
                calls.fetch_add(1, Ordering::Relaxed);
            };
            let seen = beside(thread, &other, || calls.load(Ordering::Relaxed));
            assert!(calls_in_work.is_none_or(|expected| expected == seen));
            assert_eq!(calls.into_inner(), 1);
        }
    }
}
