//! The kernels of a process, kept for repeated requests.
//!
//! There are two maps: from requests to keys, and from keys to kernels or their errors. The first map makes a second
//! request cheap: no key is computed and no file is read. An item of this map is valid for [`FRESH`] only; then the key
//! is computed again, so that a replaced compiler is noticed.
//!
//! Kernels are kept up to a number of bytes; the least recently used are dropped. If several threads request one
//! kernel, one of them builds it; if that thread panics or is cancelled, the others try. A remembered kernel is written
//! to the view again if another kernel has been written since for its operator or under the framework's name for it
//! (`PlacementCache`). If the holder of the view's lock keeps it beyond the wait timeout, the wait is not repeated:
//! later requests only try the lock, until another holder takes it (`ContendedLock`).

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use foldhash::fast::RandomState;
use opkeep_artifact::Artifact;
use opkeep_descriptor::{Arg, BuildSpec, Job, Key, Tensor};
use opkeep_digest::Digest;
use opkeep_fs::{FileClock, unix};

use crate::memory::size;
use crate::{KernelError, Outcome, Request};

/// The time for which the toolchain counts as unchanged.
const FRESH: Duration = Duration::from_secs(2);
/// The estimated number of bytes that a remembered kernel takes in addition to its content.
const OVERHEAD: usize = 2048;

/// A kernel that can be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltKernel {
    /// The kernel's name.
    pub name: String,
    /// The kernel's key.
    pub key: Key,
    /// The kernel.
    pub artifact: Arc<Artifact>,
    /// The outcome of the first request for the kernel.
    pub outcome: Outcome,
    /// The SHA-256 digests of the object and of the `.json`.
    pub(crate) digests: (Digest, Digest),
}

/// The answer to a request.
pub(crate) type KernelResult = Result<Arc<BuiltKernel>, Arc<KernelError>>;

/// A cache of kernels by request, up to a number of bytes; the least recently used are dropped.
pub(crate) struct MemoryCache {
    limit: usize,
    hasher: RandomState,
    clock: FileClock,
    /// The number of uses so far.
    uses: AtomicU64,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// The requests, by hash; different requests may have the same hash.
    requests: HashMap<u64, Vec<KnownRequest>, RandomState>,
    kernels: HashMap<Key, Slot, RandomState>,
    /// The number of bytes of all kernels and requests.
    bytes: usize,
}

/// A request, and its key.
struct KnownRequest {
    job: Job,
    spec: BuildSpec,
    key: Key,
    /// The number of bytes that the remembered request takes.
    bytes: usize,
    /// The time at which the key was computed, in milliseconds since 1970.
    at: AtomicU64,
}

enum Slot {
    Known {
        answer: KernelResult,
        /// The number of bytes of the kernel and of its requests.
        bytes: usize,
        used: AtomicU64,
    },
    /// A thread builds the kernel.
    InFlight(Arc<Pending>),
}

/// A kernel that a thread builds and others wait for.
#[derive(Default)]
struct Pending {
    /// The result; `None` while the kernel is being built.
    completed: Mutex<Option<Completed>>,
    changed: Condvar,
}

#[derive(Clone)]
enum Completed {
    Answer(KernelResult),
    /// There is no answer: the thread was cancelled or panicked, or its error may not occur the next time.
    Nothing,
}

/// The result of a look-up.
pub(crate) enum MemoryLookup<'a> {
    Known(KernelResult),
    /// No thread builds the kernel: the caller must build it.
    Build(InFlight<'a>),
    /// There is no answer: another thread failed to build the kernel, or the caller was cancelled.
    Again,
}

/// The duty to build a kernel. If the duty is dropped, with or without a panic, a waiter builds the kernel.
pub(crate) struct InFlight<'a> {
    memory: &'a MemoryCache,
    key: Key,
    pending: Arc<Pending>,
}

impl MemoryCache {
    pub(crate) fn new(limit: usize, clock: FileClock) -> Self {
        Self {
            limit,
            hasher: RandomState::default(),
            clock,
            uses: AtomicU64::new(0),
            known: RwLock::default(),
        }
    }

    /// Returns the answer to a request that was made before, if its key was computed less than [`FRESH`] ago.
    pub(crate) fn get(&self, request: &Request) -> Option<KernelResult> {
        let hash = self.hash(request);
        let known = self.read();
        let found = known.requests.get(&hash)?.iter().find(|known| known.is(request))?;
        if self.now().saturating_sub(found.at.load(Ordering::Relaxed)) > FRESH.as_millis() as u64 {
            return None;
        }
        self.answer(&known, &found.key)
    }

    /// Remembers that `request` has the key `key`.
    pub(crate) fn insert(&self, request: &Request, key: Key) {
        let (hash, now) = (self.hash(request), self.now());
        let mut known = self.write();
        if !matches!(known.kernels.get(&key), Some(Slot::Known { .. })) {
            return;
        }
        let same_hash = known.requests.entry(hash).or_default();
        let (request_bytes, old_key) = match same_hash.iter_mut().find(|known| known.is(request)) {
            Some(known) => {
                known.at = now.into();
                (known.bytes, Some(std::mem::replace(&mut known.key, key)))
            }
            None => {
                let (job, spec) = (request.descriptor.job.clone(), request.spec.clone());
                let bytes = size::of(&job, &spec) + size_of::<KnownRequest>();
                same_hash.push(KnownRequest { job, spec, key, bytes, at: now.into() });
                (bytes, None)
            }
        };
        if old_key != Some(key) {
            old_key.inspect(|old_key| known.count(old_key, |bytes| bytes - request_bytes));
            known.count(&key, |bytes| bytes + request_bytes);
            known.evict(self.limit);
        }
    }

    /// Returns the answer for `key`, or the duty to build the kernel. If another thread builds the kernel, waits for
    /// the result.
    pub(crate) fn get_or_reserve(&self, key: Key, cancelled: &dyn Fn() -> bool) -> MemoryLookup<'_> {
        if let Some(answer) = self.answer(&self.read(), &key) {
            return MemoryLookup::Known(answer);
        }
        let pending = {
            let mut known = self.write();
            if let Some(answer) = self.answer(&known, &key) {
                return MemoryLookup::Known(answer);
            }
            match known.kernels.get(&key) {
                Some(Slot::InFlight(pending)) => Arc::clone(pending),
                _ => {
                    let pending = Arc::<Pending>::default();
                    known.kernels.insert(key, Slot::InFlight(Arc::clone(&pending)));
                    return MemoryLookup::Build(InFlight { memory: self, key, pending });
                }
            }
        };
        match pending.wait(cancelled) {
            Some(Completed::Answer(answer)) => MemoryLookup::Known(answer),
            Some(Completed::Nothing) | None => MemoryLookup::Again,
        }
    }

    /// Forgets everything but the kernels that are being built.
    pub(crate) fn clear(&self) {
        let mut known = self.write();
        known.requests.clear();
        known.kernels.retain(|_, slot| matches!(slot, Slot::InFlight(_)));
        known.bytes = 0;
    }

    fn answer(&self, known: &Known, key: &Key) -> Option<KernelResult> {
        let Slot::Known { answer, used, .. } = known.kernels.get(key)? else { return None };
        used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(answer.clone())
    }

    /// Returns a hash of the fields in which most requests differ. Hashing all fields would take longer than the rest
    /// of a look-up; requests with the same hash are compared.
    fn hash(&self, request: &Request) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for op in &request.descriptor.job.ops {
            op.op_type.hash(&mut hasher);
            op.attrs.iter().flatten().for_each(|attr| attr.value.hash(&mut hasher));
            let inputs = op.inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor);
            for Tensor { dtype, shape, const_value, .. } in
                inputs.chain(op.outputs.iter().flat_map(Arg::iter))
            {
                (dtype, shape, const_value).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn now(&self) -> u64 {
        unix(self.clock.now()).as_millis() as u64
    }

    /// The maps. A panic elsewhere leaves them consistent.
    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownRequest {
    fn is(&self, request: &Request) -> bool {
        self.job == request.descriptor.job && self.spec == request.spec
    }
}

impl Known {
    /// Changes the counted bytes of a kernel.
    fn count(&mut self, key: &Key, change: impl Fn(usize) -> usize) {
        if let Some(Slot::Known { bytes, .. }) = self.kernels.get_mut(key) {
            let before = std::mem::replace(bytes, change(*bytes));
            self.bytes = self.bytes - before + *bytes;
        }
    }

    /// Drops the least recently used kernels until an eighth of `limit` is free, so that not every new kernel costs a
    /// search.
    fn evict(&mut self, limit: usize) {
        if self.bytes <= limit {
            return;
        }
        let mut by_use: Vec<(u64, Key, usize)> = Vec::new();
        for (key, slot) in &self.kernels {
            if let Slot::Known { bytes, used, .. } = slot {
                by_use.push((used.load(Ordering::Relaxed), *key, *bytes));
            }
        }
        by_use.sort_unstable_by_key(|(used, ..)| *used);
        for (_, key, bytes) in by_use {
            if self.bytes <= limit - limit / 8 {
                break;
            }
            self.kernels.remove(&key);
            self.bytes -= bytes;
        }
        let Self { requests, kernels, .. } = self;
        requests.retain(|_, same_hash| {
            same_hash.retain(|request| matches!(kernels.get(&request.key), Some(Slot::Known { .. })));
            !same_hash.is_empty()
        });
    }
}

impl InFlight<'_> {
    /// Completes the build: waiters and later requests get the same answer.
    pub(crate) fn complete(self, answer: KernelResult) {
        let bytes = OVERHEAD + answer.as_ref().map(|built| bytes(&built.artifact)).unwrap_or_default();
        let used = self.memory.uses.fetch_add(1, Ordering::Relaxed).into();
        let mut known = self.memory.write();
        known.bytes += bytes;
        known.kernels.insert(self.key, Slot::Known { answer: answer.clone(), bytes, used });
        known.evict(self.memory.limit);
        drop(known);
        self.pending.complete(Completed::Answer(answer));
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut known = self.memory.write();
        if matches!(known.kernels.get(&self.key), Some(Slot::InFlight(pending)) if Arc::ptr_eq(pending, &self.pending))
        {
            known.kernels.remove(&self.key);
        }
        drop(known);
        self.pending.complete(Completed::Nothing);
    }
}

impl Pending {
    /// Sets the result; only the first one counts.
    fn complete(&self, completed: Completed) {
        self.completed().get_or_insert(completed);
        self.changed.notify_all();
    }

    /// Waits for the result. Returns `None` if the caller is cancelled first.
    fn wait(&self, cancelled: &dyn Fn() -> bool) -> Option<Completed> {
        let mut completed = self.completed();
        while completed.is_none() && !cancelled() {
            let pause = Duration::from_millis(20);
            let woken = self.changed.wait_timeout(completed, pause);
            completed = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        completed.clone()
    }

    fn completed(&self) -> MutexGuard<'_, Option<Completed>> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of bytes of a kernel in memory.
fn bytes(artifact: &Artifact) -> usize {
    let Artifact { metadata, object, extra } = artifact;
    metadata.len() + object.len() + extra.iter().map(|member| member.bytes.len()).sum::<usize>()
}
