//! The leases of this process, and the thread that renews all of them in one call.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_fs::ProcessId;

use crate::random::random_bytes;
use crate::remote::call::guarded;
use crate::remote::client::RemoteClient;
use crate::remote::object::{LeaseToken, LeaseValue, ObjectName};
use crate::timer::{Timed, Timer};

/// A function that is called with the warning of each failure on another thread than a caller's.
pub(crate) type OnFailure = Arc<dyn Fn(&str, bool) + Send + Sync>;

/// A lease that this process holds. It is released when it is dropped, but not if a forked child drops its copy.
pub(crate) struct HeldLease {
    leases: Arc<HeldLeases>,
    id: u64,
    generation: u64,
    process: ProcessId,
}

/// The leases of one process on the entries of one cache. They have one token, so one call renews all of them.
pub(in crate::remote) struct HeldLeases {
    client: Arc<RemoteClient>,
    token: LeaseToken,
    state: Mutex<State>,
    timer: Arc<Timer<HeldLeases>>,
}

#[derive(Default)]
struct State {
    heartbeats: u64,
    leases: BTreeMap<u64, Lease>,
    last_id: u64,
    /// Whether the thread will renew the leases.
    is_scheduled: bool,
    /// Whether a renewal is in progress. The leases that are dropped meanwhile are released after it: with an engine that cannot
    /// compare and delete in one step, the renewal may create a released lease again.
    is_renewing: bool,
    dropped: Vec<Lease>,
}

struct Lease {
    name: ObjectName,
    /// The leases of lower generations, whose holders are stale.
    below: Vec<(ObjectName, LeaseToken)>,
    /// The end of the renewals; without one, a ticket that is never dropped would keep the lease for ever.
    until: Option<Instant>,
    /// The client whose target counts the renewals.
    client: Arc<RemoteClient>,
    on_failure: OnFailure,
}

impl HeldLeases {
    pub(in crate::remote) fn new(client: Arc<RemoteClient>) -> Arc<Self> {
        let timer = Timer::new(client.renewal_interval());
        let token = LeaseToken::new(random_bytes());
        Arc::new(Self { client, token, state: Mutex::default(), timer })
    }

    /// Returns the value with which leases are claimed.
    pub(in crate::remote) fn value(&self) -> LeaseValue {
        LeaseValue::new(self.token, self.locked().heartbeats)
    }

    /// Renews the lease `name` of this generation, which was granted, for `hold_limit`, or for ever if an [`Instant`] cannot express the end.
    pub(in crate::remote) fn hold(
        self: &Arc<Self>,
        (name, generation): (ObjectName, u64),
        below: Vec<(ObjectName, LeaseToken)>,
        hold_limit: Duration,
        client: Arc<RemoteClient>,
        on_failure: OnFailure,
    ) -> HeldLease {
        let now = Instant::now();
        let mut state = self.locked();
        state.last_id += 1;
        let id = state.last_id;
        let until = now.checked_add(hold_limit);
        state.leases.insert(id, Lease { name, below, until, client, on_failure });
        let is_first = !mem::replace(&mut state.is_scheduled, true);
        drop(state);
        if is_first && !self.timer.add(now + self.client.renewal_interval(), self) {
            self.locked().is_scheduled = false;
        }
        HeldLease { leases: Arc::clone(self), id, generation, process: ProcessId::current() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews all leases, within `time`.
    fn renew(&self, time: Duration) {
        let (ids, names, value, client, on_failure) = {
            let mut state = self.locked();
            let now = Instant::now();
            let is_over = |lease: &Lease| lease.until.is_some_and(|until| now >= until);
            let renewed = state.leases.iter().filter(|(_, lease)| !is_over(lease));
            let (ids, names): (Vec<_>, Vec<_>) = renewed.map(|(id, lease)| (*id, lease.name.clone())).unzip();
            let Some(first) = ids.first() else { return };
            let Lease { client, on_failure, .. } = &state.leases[first];
            let (client, on_failure) = (Arc::clone(client), Arc::clone(on_failure));
            state.is_renewing = true;
            state.heartbeats += 1;
            (ids, names, LeaseValue::new(self.token, state.heartbeats), client, on_failure)
        };
        let renewed = client.renew(&names, &value, time);
        let dropped = {
            let mut state = self.locked();
            state.is_renewing = false;
            if let Ok(Some(renewed)) = &renewed {
                // Another host may build the same entry now: more work, no harm.
                let lost = ids.iter().zip(renewed).filter(|(_, is_renewed)| !**is_renewed);
                lost.for_each(|(id, _)| drop(state.leases.remove(id)));
            }
            mem::take(&mut state.dropped)
        };
        self.release(dropped);
        if let Err(why) = renewed {
            // If the caller's function panics, the thread must still renew the leases.
            let _ = guarded(|| on_failure(&format!("{why}; other hosts may build the same"), why.warn()));
        }
    }

    /// Releases leases: the stale ones below them first, or a newcomer would wait for those. The leases of one holder are released in one
    /// call.
    fn release(&self, leases: Vec<Lease>) {
        let mut stale: Vec<(LeaseToken, Vec<ObjectName>)> = Vec::new();
        let mut names = Vec::with_capacity(leases.len());
        for Lease { name, below, .. } in leases {
            for (name, token) in below {
                match stale.iter_mut().find(|(holder, _)| *holder == token) {
                    Some((_, names)) => names.push(name),
                    None => stale.push((token, vec![name])),
                }
            }
            names.push(name);
        }
        stale.iter().for_each(|(token, names)| self.client.release(names, token));
        self.client.release(&names, &self.token);
    }
}

impl HeldLease {
    /// Returns a text for the next process of this host that locks the key: if this one is dead by then, the lease is stale.
    pub(crate) fn note(&self) -> String {
        format!("lease {} {}", self.generation, LeaseValue::new(self.leases.token, 0))
    }

    /// Returns the generation and the token in a [note](Self::note).
    pub(in crate::remote) fn parse_note(note: &str) -> Option<(u64, LeaseToken)> {
        let (generation, value) = note.strip_prefix("lease ")?.split_once(' ')?;
        Some((generation.parse().ok()?, value.parse::<LeaseValue>().ok()?.token))
    }

    /// Releases several leases in one call.
    pub(crate) fn release_all(leases: impl IntoIterator<Item = Self>) {
        let mut by_process: Vec<(Arc<HeldLeases>, Vec<Lease>)> = Vec::new();
        for lease in leases {
            let Some(taken) = lease.take() else { continue };
            match by_process.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &lease.leases)) {
                Some((_, all)) => all.push(taken),
                None => by_process.push((Arc::clone(&lease.leases), vec![taken])),
            }
        }
        by_process.into_iter().for_each(|(leases, all)| leases.release(all));
    }

    /// Takes the lease out of those that are renewed. `None`: it is lost, or is released after the renewal in progress.
    fn take(&self) -> Option<Lease> {
        if !self.process.is_current() {
            // The lease belongs to the parent process, whose thread may have it locked.
            return None;
        }
        let mut state = self.leases.locked();
        let lease = state.leases.remove(&self.id)?;
        if state.is_renewing {
            state.dropped.push(lease);
            return None;
        }
        Some(lease)
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(lease) = self.take() {
            self.leases.release(vec![lease]);
        }
    }
}

impl Timed for HeldLeases {
    const THREAD: &'static str = "lease-renewal";

    fn visit(&self, share: Duration) -> Option<Instant> {
        self.renew(share);
        let mut state = self.locked();
        state.is_scheduled = !state.leases.is_empty();
        state.is_scheduled.then(|| Instant::now() + self.client.renewal_interval())
    }
}
