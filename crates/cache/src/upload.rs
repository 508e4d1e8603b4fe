//! The upload of built entries to the remote tier, by one thread of the process.
//!
//! The lease of an entry goes with its upload and is released after it. If it were released before, a host that waits would find
//! neither the lease nor the entry, and build the same again. The caller waits for neither: for the other callers on its host the
//! entry is there, and its lock is released.
//!
//! Each entry that is to be sent has a mark in the local store until it is sent, so an entry that a killed process, a full queue or a
//! failure leaves is sent later ([`TargetCache::push_unsent`](crate::TargetCache::push_unsent)). The mark names the engine and the
//! namespace, so that a later process which uses others does not send it there.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_store::TargetStore;

use crate::plan_lease::PlanLease;
use crate::remote::{Limits, RemoteTarget, SentEntry, guarded};
use crate::running_time::RunningTime;
use crate::signing::Sendable;

/// The maximum number and size of the entries of one call.
pub(crate) const MAX_BATCH: (usize, u64) = (64, 8 << 20);
/// The time between two checks of a caller's token.
const POLL: Duration = Duration::from_millis(10);

/// An entry that is to be sent.
pub(crate) struct Upload {
    pub(crate) remote: Arc<RemoteTarget>,
    pub(crate) store: Option<TargetStore>,
    pub(crate) key: Digest,
    pub(crate) entry: Sendable,
    /// Whether the entry replaces an existing one.
    pub(crate) replaces: bool,
    pub(crate) lease: Option<PlanLease>,
    pub(crate) state: Arc<UploadState>,
}

/// What became of an upload.
#[derive(Debug, Default)]
pub(crate) struct UploadState {
    has_ended: AtomicBool,
    is_sent: AtomicBool,
}

impl UploadState {
    pub(crate) fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::SeqCst)
    }

    fn end(&self, is_sent: bool) {
        self.is_sent.store(is_sent, Ordering::SeqCst);
        self.has_ended.store(true, Ordering::SeqCst);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Whether the entry was sent, or may still be.
    pub(crate) fn is_sent_or_waits(&self) -> bool {
        self.is_sent() || !self.has_ended()
    }
}

/// The uploads of one process that have not ended.
pub(crate) struct Uploads {
    /// The maximum size of all entries that wait, if there are several.
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<Upload>,
    bytes: u64,
    /// The number of uploads in progress.
    sending: usize,
    /// The target of the last upload, which counts the waits for all. The thread keeps no store open.
    last: Weak<RemoteTarget>,
    has_thread: bool,
    /// The leases of entries that are not sent.
    ended: Vec<PlanLease>,
    /// Whether a thread releases these.
    is_releasing: bool,
}

impl Uploads {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Sends an entry soon. If too much waits, or no thread can be started, the upload ends at once. An entry that is larger than all that
    /// may wait, waits alone: if none were sent, each host would build it.
    pub(crate) fn add(self: &Arc<Self>, upload: Upload) {
        let bytes = upload.entry.file().len() as u64;
        let mut state = self.locked();
        if state.bytes > 0 && state.bytes.saturating_add(bytes) > self.limit {
            drop(state);
            upload.remote.not_sent(1, false, "too many kernels wait for their upload");
            let Upload { lease, state, .. } = upload;
            lease.into_iter().for_each(|lease| self.release_soon(lease));
            return state.end(false);
        }
        state.bytes += bytes;
        state.last = Arc::downgrade(&upload.remote);
        state.queue.push(upload);
        if !state.has_thread {
            let own = Arc::clone(self);
            let thread = thread::Builder::new().name("remote-upload".to_owned()).spawn(move || own.run());
            state.has_thread = thread.is_ok();
        }
        if !state.has_thread {
            let queue = mem::take(&mut state.queue);
            state.bytes = 0;
            drop(state);
            queue.iter().for_each(|upload| upload.remote.not_sent(1, false, "no thread can be started"));
            drop(Batch::unsent(queue));
        }
    }

    /// Releases soon a lease whose entry is not sent: by a thread of its own, since an upload may take long, while other hosts wait. What
    /// ends during a call is released by the next one together. If no thread can be started, the caller releases it.
    pub(crate) fn release_soon(self: &Arc<Self>, lease: PlanLease) {
        let mut state = self.locked();
        state.ended.push(lease);
        if state.is_releasing {
            return;
        }
        let own = Arc::clone(self);
        let thread = thread::Builder::new().name("remote-release".to_owned()).spawn(move || own.release());
        state.is_releasing = thread.is_ok();
        let left = if state.is_releasing { Vec::new() } else { mem::take(&mut state.ended) };
        drop(state);
        PlanLease::release_each(left);
    }

    fn release(&self) {
        loop {
            let ended = {
                let mut state = self.locked();
                let ended = mem::take(&mut state.ended);
                state.is_releasing = !ended.is_empty();
                self.changed.notify_all();
                ended
            };
            if ended.is_empty() {
                return;
            }
            // A client that panics ends no other releases.
            let _ = guarded(|| PlanLease::release_each(ended));
        }
    }

    /// Waits until all uploads have ended, `deadline` has passed, or `cancel` is cancelled; no longer than there is progress. Returns the
    /// number of those that have not ended.
    pub(crate) fn finish(&self, deadline: Instant, cancel: Option<&CancelToken>) -> usize {
        let last =
            Some(self.locked()).filter(|state| state.left() > 0).and_then(|state| state.last.upgrade());
        let wait = last.as_ref().map(|remote| remote.tally().wait_for_answer());
        let waited = RunningTime::new();
        let is_stuck = || last.as_ref().is_some_and(|remote| remote.client().is_stuck(&waited));
        self.wait(deadline, cancel, |state| state.left() == 0 && !state.is_releasing || is_stuck());
        if let Some(wait) = wait {
            wait.end(Duration::ZERO, waited.suspended());
        }
        self.locked().left()
    }

    /// Whether uploads have not ended.
    pub(crate) fn has_any(&self) -> bool {
        self.locked().left() > 0
    }

    /// Waits in the same way until `upload` has ended.
    pub(crate) fn finish_one(&self, upload: &UploadState, deadline: Instant, cancel: Option<&CancelToken>) {
        self.wait(deadline, cancel, |_| upload.has_ended());
    }

    fn wait(&self, deadline: Instant, cancel: Option<&CancelToken>, done: impl Fn(&State) -> bool) {
        let mut state = self.locked();
        while !done(&state) && !cancel.is_some_and(CancelToken::is_cancelled) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.changed.wait_timeout(state, left.min(POLL));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn run(&self) {
        loop {
            let batch = {
                let mut state = self.locked();
                let batch = state.next_batch();
                state.sending = batch.len();
                state.has_thread = !batch.is_empty();
                self.changed.notify_all();
                batch
            };
            if batch.is_empty() {
                return;
            }
            // A function of the caller that panics ends no other uploads.
            let _ = guarded(|| send(batch));
            self.locked().sending = 0;
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the number of uploads that have not ended.
    fn left(&self) -> usize {
        self.queue.len() + self.sending
    }

    /// Takes uploads of one target that are stored in the same way.
    fn next_batch(&mut self) -> Vec<Upload> {
        let (mut batch, mut bytes) = (Vec::<Upload>::new(), 0);
        let mut later = Vec::new();
        for upload in mem::take(&mut self.queue) {
            let size = upload.entry.file().len() as u64;
            let fits = batch.first().is_none_or(|first| {
                Arc::ptr_eq(&first.remote, &upload.remote)
                    && first.replaces == upload.replaces
                    && batch.len() < MAX_BATCH.0
                    && bytes + size <= MAX_BATCH.1
            });
            if fits {
                bytes += size;
                batch.push(upload);
            } else {
                later.push(upload);
            }
        }
        self.queue = later;
        self.bytes -= bytes;
        batch
    }
}

/// Uploads of one target that end together: their leases are released in one call, and hosts that wait look for the entries. A batch
/// that is dropped has ended, whatever became of it.
struct Batch {
    uploads: Vec<Upload>,
    is_sent: bool,
}

impl Batch {
    fn unsent(uploads: Vec<Upload>) -> Self {
        Self { uploads, is_sent: false }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let uploads = mem::take(&mut self.uploads);
        let Some(remote) = uploads.first().map(|first| Arc::clone(&first.remote)) else { return };
        let (mut leases, mut states) = (Vec::new(), Vec::new());
        for upload in uploads {
            leases.extend(upload.lease);
            states.push(upload.state);
        }
        PlanLease::release_all(leases, &remote, if self.is_sent { states.len() } else { 0 });
        for state in states {
            state.end(self.is_sent);
        }
    }
}

/// Sends uploads in one call.
fn send(uploads: Vec<Upload>) {
    let Some(first) = uploads.first() else { return };
    let (remote, replaces) = (Arc::clone(&first.remote), first.replaces);
    let mut batch = Batch::unsent(uploads);
    let entries = batch.uploads.iter().map(|Upload { key, entry, .. }| SentEntry { key, entry });
    let entries: Vec<_> = entries.collect();
    let sent = remote.put_many(&entries, replaces, Limits::default());
    drop(entries);
    batch.is_sent = matches!(sent, Ok(true));
    if batch.is_sent {
        for upload in &batch.uploads {
            let destination = Some(remote.client().destination());
            upload.store.iter().for_each(|store| store.mark_sent(&upload.key, destination, replaces));
        }
    }
    drop(batch);
    if let Err(why) = sent {
        remote.failed(&why, why.effect());
    }
}
