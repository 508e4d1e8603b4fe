//! Entries of the local store that are sent to the remote tier outside of a build's uploads.

use std::mem;

use opkeep_digest::Digest;
use opkeep_store::{Lookup, TargetStore, UnsentEntry};

use crate::nothing_sent::NothingSent;
use crate::remote::{Limits, RemoteTarget, SentEntry};
use crate::signing::{NotSendable, Sendable};
use crate::tiers::Target;
use crate::upload::MAX_BATCH;
use crate::warning::WarningKind;

/// The outcome of [`TargetCache::push_unsent`](crate::TargetCache::push_unsent) and
/// [`TargetCache::push_all`](crate::TargetCache::push_all).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushReport {
    /// The number of entries that are in the remote tier now.
    pub sent: usize,
    /// The number of entries that are still to be sent.
    pub left: usize,
    /// The number of entries that are not sent: no other host can use them, or none would take them.
    pub skipped: usize,
    /// The number of entries that are not sent, since the remote tier takes none of their size.
    pub too_large: usize,
    /// The number of entries that are not sent, since they are of another namespace and another host built them: this host signs only what
    /// it built.
    pub other_namespace: usize,
    /// The reason why no entry is sent at all, whatever the store has.
    pub nothing_sent: Option<NothingSent>,
}

impl PushReport {
    fn nothing(reason: NothingSent) -> Self {
        Self { nothing_sent: Some(reason), ..Self::default() }
    }
}

impl Target {
    /// Sends the marked entries of the local store. An entry replaces the one in the remote tier if a reader refused that as wrong.
    pub(crate) fn push_unsent(&self, limits: Limits<'_>) -> PushReport {
        let mut push = match Push::new(self, limits) {
            Ok(push) => push,
            Err(reason) => return PushReport::nothing(reason),
        };
        for UnsentEntry { key, replaces, .. } in push.store.unsent() {
            push.add(key, replaces);
        }
        push.end()
    }

    /// Sends all entries of the local store that other hosts can use.
    pub(crate) fn push_all(&self, limits: Limits<'_>) -> PushReport {
        let mut push = match Push::new(self, limits) {
            Ok(push) => push,
            Err(reason) => return PushReport::nothing(reason),
        };
        let unsent = push.store.unsent();
        let replaces =
            |key| unsent.binary_search_by_key(&key, |mark| mark.key).is_ok_and(|at| unsent[at].replaces);
        for key in (0..=u8::MAX).flat_map(|first| push.store.keys_from(first)) {
            push.add(key, replaces(key));
        }
        push.end()
    }
}

/// Entries that are being sent, in batches.
struct Push<'a> {
    target: &'a Target,
    remote: &'a RemoteTarget,
    store: &'a TargetStore,
    limits: Limits<'a>,
    /// The entries of the next call that keep existing ones, and of the one that replaces them.
    batches: [Batch; 2],
    report: PushReport,
    /// Whether the engine is paused, after several calls failed, or the caller ended a call.
    has_ended: bool,
}

#[derive(Default)]
struct Batch {
    entries: Vec<(Digest, Sendable)>,
    bytes: u64,
}

impl<'a> Push<'a> {
    fn new(target: &'a Target, limits: Limits<'a>) -> Result<Self, NothingSent> {
        let remote = target.sending_remote()?;
        let store = target.written_store().ok_or(NothingSent::StoreNotWritten)?;
        let (batches, report) = Default::default();
        Ok(Self { target, remote, store, limits, batches, report, has_ended: false })
    }

    /// Sends an entry with the next call, if it is to be sent.
    fn add(&mut self, key: Digest, replaces: bool) {
        let takes_own = self.target.shared.keys.takes_own();
        let replaces = replaces || self.remote.is_refused(&key) || !takes_own;
        if self.has_ended || self.limits.are_over() {
            self.report.left += 1;
            return;
        }
        let sendable = match self.store.peek(&key) {
            Lookup::Hit(entry) if entry.validation() > 0 => {
                let sendable = self.target.trust.sendable(&entry);
                match &sendable {
                    Ok(_) => {}
                    Err(NotSendable::OtherNamespace) => {
                        self.store.mark_sent(&key, true);
                        self.report.other_namespace += 1;
                        return;
                    }
                    Err(NotSendable::Invalid(why)) => {
                        let path = self.store.path(&key);
                        let text = format_args!("the entry `{}` is not sent: {why}", path.display());
                        self.target.warn(WarningKind::Reading, text);
                    }
                }
                match sendable {
                    Ok(Some(sendable)) if !self.remote.takes(sendable.file().len()) => {
                        self.store.mark_sent(&key, true);
                        self.report.too_large += 1;
                        return;
                    }
                    sendable => sendable.ok().flatten(),
                }
            }
            Lookup::Hit(_) | Lookup::Miss(opkeep_store::Miss::Absent) => None,
            Lookup::Miss(_) => {
                self.report.left += 1;
                return;
            }
        };
        let Some(sendable) = sendable else {
            // The entry was evicted, or no host could use it.
            self.store.mark_sent(&key, true);
            self.report.skipped += 1;
            return;
        };
        let bytes = sendable.file().len() as u64;
        let batch = &self.batches[usize::from(replaces)];
        if batch.entries.len() >= MAX_BATCH.0 || batch.bytes + bytes > MAX_BATCH.1 {
            self.send(replaces);
        }
        let batch = &mut self.batches[usize::from(replaces)];
        batch.entries.push((key, sendable));
        batch.bytes += bytes;
    }

    /// Sends a batch in one call.
    fn send(&mut self, replaces: bool) {
        let Batch { entries, .. } = mem::take(&mut self.batches[usize::from(replaces)]);
        if entries.is_empty() {
            return;
        }
        let sent = entries.iter().map(|(key, entry)| SentEntry { key, entry });
        match self.remote.put_many(&sent.collect::<Vec<_>>(), replaces, self.limits) {
            Ok(true) => {
                self.report.sent += entries.len();
                for (key, _) in &entries {
                    self.store.mark_sent(key, replaces);
                }
                // Hosts that wait for entries of the same plan look for them.
                self.remote.advance(entries.len() as u64);
            }
            Ok(false) => {
                self.report.left += entries.len();
                self.has_ended = true;
            }
            Err(why) => {
                self.report.left += entries.len();
                self.target.remote_failed(why);
            }
        }
    }

    fn end(mut self) -> PushReport {
        [false, true].into_iter().for_each(|replaces| self.send(replaces));
        self.target.warn_of_pause(self.remote);
        self.report
    }
}
