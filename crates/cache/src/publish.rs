//! The publication of an entry that this host built: in the local store, and for the remote tier.
//!
//! The mark by which a later process sends the entry is written before the entry, so there is no moment at which a killed process
//! leaves an entry that is never sent. A mark whose entry is missing costs nothing: a push removes it
//! ([`TargetCache::push_unsent`](crate::TargetCache::push_unsent)), or the store, as a stale file.

use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_store::{EntryBuilder, KeyLock, Overwrite, PutOutcome, StoreError};

use crate::plan_lease::PlanLease;
use crate::remote::RemoteTarget;
use crate::signing::OwnSignatures;
use crate::tiers::Target;
use crate::upload::{Upload, UploadState};

/// What became of an entry.
pub(crate) struct Publication {
    /// The outcome in the local store; `None` if that is not written.
    pub(crate) local: Result<Option<PutOutcome>, StoreError>,
    /// The upload to the remote tier. `None`: the entry is not sent.
    pub(crate) upload: Option<Arc<UploadState>>,
}

impl Target {
    /// Writes an entry to the local store, releases `lock`, and has the entry sent to the remote tier if other hosts can use it. `lease`
    /// is released after that.
    pub(crate) fn publish(
        &self,
        key: &Digest,
        members: &EntryBuilder<'_>,
        overwrite: Overwrite,
        lock: Option<KeyLock>,
        lease: Option<PlanLease>,
    ) -> Publication {
        let is_for_others = self.trust.is_for_others(members);
        // An entry with the stamp 0 was not validated, and other hosts could not validate it either.
        let is_shared = is_for_others && members.validation() > 0;
        let signatures = self.trust.sign(key, members, is_shared);
        let remote = self.remote.as_ref().filter(|_| is_shared && self.written_remote().is_some());
        let takes_none = !self.shared.mode.reads() || !self.shared.keys.takes_own();
        let to_send = remote.map(|remote| (remote, takes_none || remote.is_refused(key)));
        to_send.inspect(|(remote, replaces)| self.mark(remote, key, *replaces));
        let local = self.put(key, &signatures.for_store(members), overwrite);
        if let (Some((remote, replaces)), Ok(Some(_))) = (to_send, &local) {
            // Another process may have sent the entry that this one replaces, and removed the mark.
            self.mark(remote, key, replaces);
        }
        drop(lock);
        if !is_for_others {
            self.keep_here(key);
        }
        let upload = match to_send {
            Some((remote, replaces)) => self.upload(remote, replaces, key, members, &signatures, lease),
            None => {
                self.release_soon(lease);
                None
            }
        };
        Publication { local, upload }
    }

    /// Marks an entry in the local store as one that is to be sent. Best effort: without the mark, the entry is sent once, or never.
    fn mark(&self, remote: &RemoteTarget, key: &Digest, replaces: bool) {
        if let Some(store) = self.written_store() {
            let _ = store.mark_unsent(key, remote.client().destination(), replaces);
        }
    }

    /// Has an entry sent to the remote tier. `None`: it cannot be sent.
    fn upload(
        &self,
        remote: &Arc<RemoteTarget>,
        replaces: bool,
        key: &Digest,
        members: &EntryBuilder<'_>,
        signatures: &OwnSignatures,
        lease: Option<PlanLease>,
    ) -> Option<Arc<UploadState>> {
        let unmark = || {
            let destination = Some(remote.client().destination());
            self.written_store().inspect(|store| store.mark_sent(key, destination, true));
        };
        let Some(entry) = self.trust.sendable_now(key, members, signatures) else {
            unmark();
            self.release_soon(lease);
            return None;
        };
        if !remote.takes(entry.file().len()) {
            unmark();
            remote.not_sent(1, false, "the remote cache stores no objects of this size");
            self.release_soon(lease);
            return None;
        }
        let state = Arc::new(UploadState::default());
        self.shared.uploads().add(Upload {
            remote: Arc::clone(remote),
            store: self.store.clone(),
            key: *key,
            entry,
            replaces,
            lease,
            state: Arc::clone(&state),
        });
        self.warn_of_pause(remote);
        Some(state)
    }

    /// Has another thread release the lease of an entry that is not sent. The caller waits for no call.
    fn release_soon(&self, lease: Option<PlanLease>) {
        lease.into_iter().for_each(|lease| self.shared.uploads().release_soon(lease));
    }

    /// Drops the marks by which an earlier entry of `key` was to be sent: they would send the one that stays here.
    pub(crate) fn keep_here(&self, key: &Digest) {
        self.written_store().iter().for_each(|store| store.unmark_unsent(key));
    }
}
