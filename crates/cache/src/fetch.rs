//! Many entries of the remote tier in one call: they are checked, judged and written to the local store as they arrive.

use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;

use opkeep_digest::Digest;
use opkeep_store::Lookup;

use crate::miss::Miss;
use crate::query::{Accept, Query};
use crate::remote::checked;
use crate::tiers::Target;

/// The maximum number of entries of one call: all of them may be in memory at once.
const MAX_ENTRIES: usize = 1024;
/// The maximum number of threads that check entries during a call.
const MAX_THREADS: usize = 4;

/// The outcome of [`TargetCache::fetch`](crate::TargetCache::fetch).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchReport {
    /// The keys whose entries are in the local store now, in no order. If the local store is not written, the caller has seen the
    /// entries when it judged them.
    pub fetched: Vec<Digest>,
    /// The size of the entries that arrived, in bytes.
    pub bytes: u64,
    /// The keys whose entries are not valid, or that the caller replaces, with the reason for people. A build of this process
    /// replaces the entry in the remote tier.
    pub refused: Vec<(Digest, String)>,
    /// The keys that neither the local store nor the remote tier has, as far as the engine answered.
    pub missing: Vec<Digest>,
}

/// What became of one entry.
enum Arrival {
    Fetched,
    Refused(String),
    /// The caller ignored it.
    Ignored,
}

impl Target {
    /// Fetches the entries of `keys` that the local store lacks, and makes `keys` the plan for which other hosts are waited for.
    pub(crate) fn fetch(&self, keys: &[Digest], query: &Query<'_>) -> FetchReport {
        let mut report = FetchReport::default();
        let is_local =
            |key: &Digest| self.store.as_ref().is_some_and(|store| matches!(store.peek(key), Lookup::Hit(_)));
        let lacking: Vec<Digest> = keys.iter().copied().filter(|key| !is_local(key)).collect();
        if let Some(remote) = self.used_remote() {
            remote.plan(keys, &lacking);
        }
        for lacking in lacking.chunks(MAX_ENTRIES) {
            self.fetch_some(lacking, query, &mut report);
        }
        if let Some(remote) = self.leases()
            && !report.missing.is_empty()
            && let Err(why) = remote.look_for_leases(&report.missing, query.limits())
        {
            self.remote_failed(why);
        }
        report
    }

    fn fetch_some(&self, keys: &[Digest], query: &Query<'_>, report: &mut FetchReport) {
        let Some(remote) = self.read_remote() else {
            return report.missing.extend(keys);
        };
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
        let (sender, receiver) = mpsc::channel::<(usize, Vec<u8>)>();
        let receiver = Mutex::new(receiver);
        let mut bytes = 0;
        let (answer, arrivals) = thread::scope(|scope| {
            let work = || {
                let mut arrivals = Vec::new();
                while let Some((at, content)) = next(&receiver) {
                    arrivals.push((at, self.arrived(&keys[at], content, query)));
                }
                arrivals
            };
            let start =
                |_| thread::Builder::new().name("remote-fetch".to_owned()).spawn_scoped(scope, work).ok();
            let helpers: Vec<_> = (0..threads.min(keys.len())).map_while(start).collect();
            let answer = remote.get_entries(keys, query.limits(), &mut |at, content| {
                bytes += content.len() as u64;
                let _ = sender.send((at, content));
            });
            drop(sender);
            // If no thread can be started, this one does the work.
            let mut arrivals = work();
            for helper in helpers {
                match helper.join() {
                    Ok(more) => arrivals.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            (answer, arrivals)
        });
        self.warn_of_pause(remote);
        if let Err(why) = answer {
            self.remote_failed(why);
        }
        report.bytes += bytes;
        let mut is_missing = vec![true; keys.len()];
        for (at, arrival) in arrivals {
            is_missing[at] = false;
            match arrival {
                Arrival::Fetched => report.fetched.push(keys[at]),
                Arrival::Refused(why) => report.refused.push((keys[at], why)),
                Arrival::Ignored => is_missing[at] = true,
            }
        }
        report
            .missing
            .extend(keys.iter().zip(is_missing).filter(|(_, missing)| *missing).map(|(key, _)| *key));
    }

    fn arrived(&self, key: &Digest, content: Vec<u8>, query: &Query<'_>) -> Arrival {
        let entry = match checked(content, key) {
            Ok(entry) => Box::new(entry),
            Err(why) => {
                if self.remote.as_ref().is_some_and(|remote| remote.refuse(key)) {
                    self.remote_failed(why.clone());
                }
                return Arrival::Refused(why);
            }
        };
        let verdict = (query.accept)(&entry);
        let refused = match &verdict {
            Accept::Replace(reason) => Some(reason.clone()),
            Accept::Take | Accept::Validated { .. } | Accept::Ignore => None,
        };
        match (self.judged(entry, verdict, &Miss::Absent), refused) {
            (Some(_), _) => Arrival::Fetched,
            (None, Some(why)) => Arrival::Refused(why),
            (None, None) => Arrival::Ignored,
        }
    }
}

/// Waits for the next content; `None` at the end of the call.
fn next(receiver: &Mutex<Receiver<(usize, Vec<u8>)>>) -> Option<(usize, Vec<u8>)> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
