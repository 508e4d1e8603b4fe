//! The stored kernel that is nearest to a missing one. The difference between them explains the miss.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opkeep_descriptor::{Diff, Job, ResolvedSpec, read_info};
use opkeep_digest::{Digest, PartChange};
use opkeep_kernel_entry::Header;
use opkeep_kernel_entry::member::{HEADER, INFO};
use opkeep_store::{Entry, Lookup, TargetStore};

use crate::plan::{KeyedKernel, PlannedKernel};

/// The maximum number of bytes of a difference's text.
const SHOWN_BYTES: usize = 160;

/// A stored kernel, and its differences from a missing one.
#[derive(Debug)]
#[non_exhaustive]
pub struct NearestEntry {
    /// The stored kernel's name.
    pub name: String,
    /// Differences in the job.
    pub job: Diff,
    /// Differences in the resolved spec.
    pub spec: Diff,
    /// The parts of the toolchain that changed.
    pub toolchain: Vec<PartChange>,
    /// The parts of the operator's own sources that changed.
    pub op_sources: Vec<PartChange>,
}

impl NearestEntry {
    /// Returns the number of differences.
    pub fn distance(&self) -> usize {
        let Self { name: _, job, spec, toolchain, op_sources } = self;
        job.changes.len() + spec.changes.len() + toolchain.len() + op_sources.len()
    }

    /// Returns the order of kernels: by their number of differences, then by how much longer or shorter the changed
    /// values are (`[3, 5]` is nearer to `[3, 7]` than `[3]` is), then by name, so that the result does not depend on
    /// the order of the search.
    fn rank(&self) -> (usize, usize, &str) {
        let changes = self.job.changes.iter().chain(&self.spec.changes);
        let lengths = changes.map(|change| change.old.len().abs_diff(change.new.len()));
        (self.distance(), lengths.sum(), &self.name)
    }
}

impl fmt::Display for NearestEntry {
    /// Writes the first difference, and the number of further ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, job, spec, toolchain, op_sources } = self;
        let fields = job.changes.iter().chain(&spec.changes).map(ToString::to_string);
        let toolchain = toolchain.iter().map(|change| format!("toolchain part {change}"));
        let sources = op_sources.iter().map(|change| format!("source {change}"));
        let Some(first) = fields.chain(toolchain).chain(sources).next() else {
            return write!(f, "nearest is `{name}`");
        };
        let end = first.floor_char_boundary(SHOWN_BYTES);
        let cut = if end < first.len() { "..." } else { "" };
        write!(f, "nearest is `{name}`, which differs in {}{cut}", &first[..end])?;
        match self.distance() - 1 {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A search for stored kernels near to the missing kernels of one target, with the nearest entries so far.
pub(crate) struct NearestSearch<'a> {
    store: &'a TargetStore,
    missing: Vec<MissingKernel<'a>>,
    /// The keys of the missing kernels: a build stores these during the search, and they explain no miss of it.
    keys: HashSet<Digest>,
    by_op_type: HashMap<String, Vec<usize>>,
}

struct MissingKernel<'a> {
    /// The caller's number for the kernel.
    id: usize,
    job: &'a Job,
    keyed: &'a KeyedKernel,
    nearest: Option<NearestEntry>,
}

impl<'a> NearestSearch<'a> {
    pub(crate) fn new(store: &'a TargetStore) -> Self {
        Self { store, missing: Vec::new(), keys: HashSet::new(), by_op_type: HashMap::new() }
    }

    /// Adds `planned` to the missing kernels.
    pub(crate) fn add(&mut self, id: usize, planned: &'a PlannedKernel<'_>, keyed: &'a KeyedKernel) {
        self.by_op_type.entry(planned.op_type()).or_default().push(self.missing.len());
        self.missing.push(MissingKernel { id, job: planned.job, keyed, nearest: None });
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
                if !self.keys.contains(&key)
                    && let Lookup::Hit(entry) = store.peek(&key)
                {
                    self.look_at(&entry);
                }
            }
        }
    }

    /// Compares a stored kernel with the missing ones of the same operators.
    fn look_at(&mut self, entry: &Entry) -> Option<()> {
        let header = Header::parse(entry.lazy_member(HEADER).ok()??)?;
        let candidates = self.by_op_type.get(&header.op_type)?;
        let stored = read_info(entry.lazy_member(INFO).ok()??).ok()?.job;
        for at in candidates {
            let missing = &mut self.missing[*at];
            if header.backend != missing.keyed.parts.backend {
                continue;
            }
            let found = difference(&header, &stored, missing);
            if missing.nearest.as_ref().is_none_or(|nearest| found.rank() < nearest.rank()) {
                missing.nearest = Some(found);
            }
        }
        Some(())
    }

    /// Returns the nearest entries that were found, each with the caller's number for the missing kernel.
    pub(crate) fn found(self) -> impl Iterator<Item = (usize, NearestEntry)> + use<'a> {
        self.missing.into_iter().filter_map(|missing| Some((missing.id, missing.nearest?)))
    }
}

/// Returns the differences of a missing kernel from a stored one.
fn difference(header: &Header, stored: &Job, missing: &MissingKernel<'_>) -> NearestEntry {
    let Header { name, target, options, toolchain, op_sources, .. } = header;
    let spec = ResolvedSpec { target: target.clone(), options: options.clone(), debug: false };
    let keyed = missing.keyed;
    NearestEntry {
        name: name.clone(),
        job: Diff::of_jobs(stored, missing.job),
        spec: Diff::of_specs(&spec, &keyed.spec),
        toolchain: toolchain.diff(&keyed.parts.toolchain),
        op_sources: op_sources.diff(&keyed.parts.op_sources),
    }
}

/// Runs `work` and searches at the same time, at most for `limit`. Returns the result of `work`, and the nearest
/// entries by the callers' numbers.
pub(crate) fn search_while<T>(
    mut searches: Vec<NearestSearch<'_>>,
    limit: Duration,
    work: impl FnOnce() -> T,
) -> (T, HashMap<usize, NearestEntry>) {
    if searches.is_empty() {
        return (work(), HashMap::new());
    }
    let (began, done) = (Instant::now(), AtomicBool::new(false));
    let ensure_running = || !done.load(Ordering::Relaxed) && began.elapsed() < limit;
    let searches = &mut searches;
    let (result, found) = std::thread::scope(|scope| {
        let search = move || {
            searches.iter_mut().for_each(|search| search.run(ensure_running));
            std::mem::take(searches)
        };
        // If no thread can be started, the search finds nothing.
        let searcher = std::thread::Builder::new().spawn_scoped(scope, search);
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, searcher.ok().and_then(|searcher| searcher.join().ok()).unwrap_or_default())
    });
    (result, found.into_iter().flat_map(NearestSearch::found).collect())
}
