//! Entries of the local store that are sent to the remote tier outside of a build's uploads.

use std::collections::HashSet;
use std::mem;

use opkeep_digest::Digest;
use opkeep_store::{Destination, Entry, Lookup, TargetStore, TryLockOutcome, UnsentEntry};

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
    /// The number of entries that are not sent: no other host can use them, none would take them, or it is not known that they are valid.
    pub skipped: usize,
    /// The number of entries that are not sent, since the remote tier takes none of their size.
    pub too_large: usize,
    /// The number of entries that are not sent, since they are of another namespace and another host built them: this host signs only what
    /// it built.
    pub other_namespace: usize,
    /// The number of entries that are to be sent to another engine or namespace, and stay marked.
    pub elsewhere: usize,
    /// The reason why no entry is sent at all, whatever the store has.
    pub nothing_sent: Option<NothingSent>,
}

impl PushReport {
    fn nothing(reason: NothingSent) -> Self {
        Self { nothing_sent: Some(reason), ..Self::default() }
    }

    /// Adds the outcome of another target.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { sent, left, skipped, too_large, other_namespace, elsewhere, nothing_sent } = other;
        self.sent += sent;
        self.left += left;
        self.skipped += skipped;
        self.too_large += too_large;
        self.other_namespace += other_namespace;
        self.elsewhere += elsewhere;
        self.nothing_sent = self.nothing_sent.or(nothing_sent);
    }
}

/// The marks whose entries are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Those that name this remote tier and namespace.
    Own,
    /// Those, and the ones that name none.
    OwnAndUnnamed,
}

impl Marks {
    fn include(self, mark: &UnsentEntry, own: &Destination) -> bool {
        mark.destination.as_ref().map_or(self == Self::OwnAndUnnamed, |destination| destination == own)
    }
}

impl Target {
    /// Returns the number of entries that are still to be sent to the remote tier, 0 if nothing is sent.
    pub(crate) fn count_unsent(&self) -> usize {
        let remote = self.sending_remote().ok().zip(self.written_store());
        remote.map_or(0, |(remote, store)| {
            let own = remote.client().destination();
            store.unsent().iter().filter(|mark| Marks::Own.include(mark, own)).count()
        })
    }

    /// Sends the marked entries of the local store. An entry replaces the one in the remote tier if a reader refused that as wrong.
    pub(crate) fn push_unsent(&self, marks: Marks, limits: Limits<'_>) -> PushReport {
        let mut push = match Push::new(self, marks, limits) {
            Ok(push) => push,
            Err(reason) => return PushReport::nothing(reason),
        };
        let own = push.remote.client().destination();
        let unsent = push.store.unsent();
        for of_key in unsent.chunk_by(|one, next| one.key == next.key) {
            let mut chosen = of_key.iter().filter(|mark| marks.include(mark, own)).peekable();
            match chosen.peek() {
                Some(first) => push.add(first.key, chosen.any(|mark| mark.replaces)),
                None => push.report.elsewhere += 1,
            }
        }
        push.end()
    }

    /// Sends all entries of the local store that other hosts can use, and that were validated, or that `validate` finds to be valid.
    pub(crate) fn push_all(&self, validate: &dyn Fn(&Entry) -> bool, limits: Limits<'_>) -> PushReport {
        let mut push = match Push::new(self, Marks::OwnAndUnnamed, limits) {
            Ok(push) => Push { validate, ..push },
            Err(reason) => return PushReport::nothing(reason),
        };
        let own = push.remote.client().destination();
        let unsent = push.store.unsent();
        let replacing = unsent.iter().filter(|mark| mark.replaces && push.marks.include(mark, own));
        let replacing: HashSet<Digest> = replacing.map(|mark| mark.key).collect();
        for key in (0..=u8::MAX).flat_map(|first| push.store.keys_from(first)) {
            push.add(key, replacing.contains(&key));
        }
        push.end()
    }
}

/// Entries that are being sent, in batches.
struct Push<'a> {
    target: &'a Target,
    remote: &'a RemoteTarget,
    store: &'a TargetStore,
    /// The marks that a sent entry no longer needs.
    marks: Marks,
    /// Whether an entry is valid that no caller has validated.
    validate: &'a dyn Fn(&Entry) -> bool,
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
    fn new(target: &'a Target, marks: Marks, limits: Limits<'a>) -> Result<Self, NothingSent> {
        let remote = target.sending_remote()?;
        let store = target.written_store().ok_or(NothingSent::StoreNotWritten)?;
        let (batches, report) = Default::default();
        let validate = &|_: &Entry| false;
        Ok(Self { target, remote, store, marks, validate, limits, batches, report, has_ended: false })
    }

    /// Sends an entry with the next call, if it is to be sent.
    fn add(&mut self, key: Digest, replaces: bool) {
        let takes_own = self.target.shared.keys.takes_own();
        let replaces = replaces || self.remote.is_refused(&key) || !takes_own;
        if self.has_ended || self.limits.are_over() {
            self.report.left += 1;
            return;
        }
        let Some(found) = self.look(&key) else {
            self.report.left += 1;
            return;
        };
        let sendable = match found {
            Lookup::Hit(entry) if entry.validation() > 0 || (self.validate)(&entry) => {
                self.target.trust.sendable(&entry)
            }
            // Evicted, or not valid as far as is known.
            Lookup::Hit(_) | Lookup::Miss(opkeep_store::Miss::Absent) => Ok(None),
            Lookup::Miss(_) => {
                self.report.left += 1;
                return;
            }
        };
        let sendable = match sendable {
            Ok(Some(sendable)) if self.remote.takes(sendable.file().len()) => sendable,
            Ok(Some(_)) => {
                self.unmark(&key, true);
                self.report.too_large += 1;
                return;
            }
            Ok(None) => {
                self.unmark(&key, true);
                self.report.skipped += 1;
                return;
            }
            Err(why) => {
                // A mark that names no namespace may be for another one.
                self.store.mark_sent(&key, Some(self.remote.client().destination()), true);
                match why {
                    NotSendable::OtherNamespace => self.report.other_namespace += 1,
                    NotSendable::Invalid(why) => {
                        let path = self.store.path(&key);
                        let text = format_args!("the entry `{}` is not sent: {why}", path.display());
                        self.target.warn(WarningKind::Reading, text);
                        self.report.skipped += 1;
                    }
                }
                return;
            }
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

    /// Looks up an entry. `None`: it is missing, and a caller that publishes it has marked it before, and holds the lock of its key.
    /// Without such a caller, the marks of a missing entry are removed.
    fn look(&self, key: &Digest) -> Option<Lookup> {
        let is_missing = |found: &Lookup| matches!(found, Lookup::Miss(opkeep_store::Miss::Absent));
        let found = self.store.peek(key);
        if !is_missing(&found) {
            return Some(found);
        }
        let lock = match self.store.try_lock(key) {
            Ok(TryLockOutcome::Acquired(lock)) => Some(lock),
            Ok(TryLockOutcome::Held(_) | TryLockOutcome::HolderFailed(_)) => return None,
            // Such a caller has no lock, either, and marks the entry again.
            Ok(TryLockOutcome::Unsupported) | Err(_) => None,
        };
        let found = self.store.peek(key);
        if is_missing(&found) {
            self.unmark(key, true);
        }
        drop(lock);
        Some(found)
    }

    /// Removes the marks by which this push, or a later one, would send the entry again.
    fn unmark(&self, key: &Digest, replaced: bool) {
        self.store.mark_sent(key, Some(self.remote.client().destination()), replaced);
        if self.marks == Marks::OwnAndUnnamed {
            self.store.mark_sent(key, None, replaced);
        }
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
                entries.iter().for_each(|(key, _)| self.unmark(key, replaces));
                self.remote.bundles().note_sent();
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
