//! Entries of the remote tier that arrive before a caller begins their keys: they are judged and stored at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use opkeep_store::Counter;

use crate::miss::Miss;
use crate::query::{Accept, Query};
use crate::remote::{Arrival, RemoteTarget};
use crate::tiers::Target;

/// Does `work`, and stores the entries that arrive meanwhile for keys of the targets' plans.
pub(crate) fn storing_arrivals<'t, T>(
    targets: impl Iterator<Item = &'t Target>,
    query: &Query<'_>,
    work: impl FnOnce() -> T,
) -> T {
    // Without a store that keeps them, each is taken by the caller that begins its key.
    let keep = targets.filter(|target| target.written_store().is_some());
    let receivers: Vec<_> = keep.filter_map(|target| Some((target, target.read_remote()?))).collect();
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = End { receivers: &receivers, has_ended: &has_ended };
        for (target, remote) in &receivers {
            let receive = || target.store_arrivals(remote, query, &has_ended);
            // Without a thread, they wait in memory.
            let _ = thread::Builder::new().name("remote-store".to_owned()).spawn_scoped(scope, receive);
        }
        work()
    })
}

/// Ends the threads, also if the work panics.
struct End<'a> {
    receivers: &'a [(&'a Target, &'a RemoteTarget)],
    has_ended: &'a AtomicBool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.receivers.iter().for_each(|(_, remote)| remote.end_receiving());
    }
}

impl Target {
    fn store_arrivals(&self, remote: &RemoteTarget, query: &Query<'_>, has_ended: &AtomicBool) {
        while let Some(arrival) = remote.next_arrival(has_ended) {
            self.store_arrival(arrival, query);
        }
    }

    fn store_arrival(&self, mut arrival: Arrival, query: &Query<'_>) {
        while let Some(entry) = arrival.next() {
            let verdict = (query.accept)(&entry);
            let is_ignored = verdict == Accept::Ignore;
            if matches!(verdict, Accept::Take | Accept::Validated { .. }) {
                arrival.used();
            }
            let is_fetched = match self.store_judged(&entry, verdict, &Miss::Absent) {
                Some(true) => {
                    arrival.stored();
                    true
                }
                // The caller that judges it counts it.
                Some(false) => !arrival.put_back(entry),
                None if is_ignored => {
                    arrival.put_back(entry);
                    false
                }
                // What is wrong is reported, and another signer's entry may be right.
                None => continue,
            };
            return self.tally.add(Counter::RemoteHits, is_fetched.into());
        }
    }
}
