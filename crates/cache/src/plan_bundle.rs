//! Bundles of plans in the remote tier: a host that lacks most of a plan fetches one object.
//!
//! A bundle is a second copy of entries, for speed. Each of its entries passes the checks of a single one. What it lacks, and what is
//! wrong in it, is looked up entry by entry. The host that finishes a plan for which it found no bundle stores one; a wrong one it
//! replaces. A lease keeps other hosts from doing the same at the same time, and a counter from doing it a moment later.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Cursor, Write};
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, SystemTime};

use opkeep_bundle::{BundleBlock, BundleReader, BundleWriter, CompressedBlock, Index};
use opkeep_digest::Digest;
use opkeep_fs::map;
use opkeep_store::{Entry, Lookup};
use opkeep_text::counted;

use crate::fetch::FetchReport;
use crate::miss::Miss;
use crate::query::{Accept, Query};
use crate::refusal::Refusal;
use crate::remote::{
    CallFailure, Claimed, ExclusiveCreate, FoundBundle, Limits, ObjectNames, RemoteTarget, UnbundledPlan,
};
use crate::tiers::Target;

/// The number of missing entries from which a bundle is looked up: for few, one call more takes longer than it saves.
const MIN_ENTRIES: usize = 16;
/// The maximum size of a bundle, which is in memory as a whole, and of each of its blocks when it is decompressed.
const MAX_BYTES: usize = 64 << 20;
/// The maximum number of threads that check entries.
const MAX_THREADS: usize = 4;
/// The time for which the lease on a plan is renewed at most, while its bundle is made and sent.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

impl Target {
    /// Takes entries from the bundle of the plan `keys`, if most of it is `lacking`. Returns the keys that are still lacking.
    pub(crate) fn fetch_bundle(
        &self,
        keys: &[Digest],
        mut lacking: Vec<Digest>,
        query: &Query<'_>,
        report: &mut FetchReport,
    ) -> Vec<Digest> {
        let is_worth_it = lacking.len() >= MIN_ENTRIES && lacking.len() * 2 > keys.len();
        let Some(remote) = self.read_remote().filter(|_| is_worth_it) else { return lacking };
        let plan = ObjectNames::plan(keys);
        let answer = remote.get_bundles(&plan, query.limits());
        let found = match answer {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.warn_of_pause(remote);
                return lacking;
            }
            Err(why) => {
                self.remote_failed(why);
                return lacking;
            }
        };
        let (mut has_valid, mut own_is_wrong) = (false, false);
        for FoundBundle { content, is_own } in found {
            report.bytes += content.len() as u64;
            let mut fetched = HashSet::new();
            let taken = self.take_bundle(&plan, content, &lacking, query, &mut fetched);
            lacking.retain(|key| !fetched.contains(key));
            report.fetched.extend(fetched);
            has_valid |= taken.is_ok();
            if let Err(Refusal { kind, reason }) = taken {
                own_is_wrong |= is_own;
                self.tally.add(kind.counter(), 1);
                let why = format_args!("a bundle of the remote cache is not valid: {reason}");
                self.remote_is_wrong(why, "the kernels that it lacks are fetched one by one");
            }
            if lacking.is_empty() {
                break;
            }
        }
        if own_is_wrong || !has_valid {
            remote.bundles().lacks(plan, keys, own_is_wrong);
        }
        lacking
    }

    /// Takes the wanted entries of a bundle, those before the first error included.
    fn take_bundle(
        &self,
        plan: &Digest,
        content: Vec<u8>,
        wanted: &[Digest],
        query: &Query<'_>,
        fetched: &mut HashSet<Digest>,
    ) -> Result<(), Refusal> {
        let damaged = |reason: String| Err(Refusal::damaged(reason));
        if content.len() > MAX_BYTES {
            return damaged(format!(
                "it has {}, at most {MAX_BYTES} are allowed",
                counted(content.len(), "byte")
            ));
        }
        let mut reader = BundleReader::open(Cursor::new(content)).map_err(Refusal::damaged)?;
        if reader.index().plan() != Some(plan) || reader.index().target() != self.name {
            return damaged("it is that of another plan".to_owned());
        }
        self.trust.check_bundle(&reader)?;
        // Compressed, a block may be 32768 times smaller.
        if let Some(block) = too_large_block(reader.index()) {
            return damaged(format!(
                "it has a block of {block}, at most {MAX_BYTES} are allowed",
                block = counted(block, "byte")
            ));
        }
        let wanted: HashSet<&Digest> = wanted.iter().collect();
        for number in 0..reader.index().block_count() {
            if query.limits().are_over() {
                return Ok(());
            }
            if !reader.index().block_entries(number).any(|entry| wanted.contains(entry.key)) {
                continue;
            }
            let block = reader.read_block(number).and_then(CompressedBlock::decompress);
            let block = block.map_err(Refusal::damaged)?;
            self.take_block(&block, &wanted, query, fetched)?;
        }
        let lacks = wanted.iter().filter(|key| reader.index().find(&self.name, key).is_none()).count();
        match lacks {
            0 => Ok(()),
            _ => damaged(format!("it lacks {lacks} of its plan", lacks = counted(lacks, "entry"))),
        }
    }

    fn take_block(
        &self,
        block: &BundleBlock,
        wanted: &HashSet<&Digest>,
        query: &Query<'_>,
        fetched: &mut HashSet<Digest>,
    ) -> Result<(), Refusal> {
        let places: Vec<usize> = (0..)
            .zip(block.entries())
            .filter_map(|(place, entry)| wanted.contains(entry.key).then_some(place))
            .collect();
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = threads.min(NonZeroUsize::new(MAX_THREADS).unwrap_or(NonZeroUsize::MIN));
        let taken = map(
            places.len(),
            threads,
            || query.limits().are_over(),
            |at| self.take_entry(block, places[at], query),
        );
        let mut wrong = None;
        for taken in taken.results {
            match taken {
                Ok(key) => fetched.extend(key),
                Err(why) => drop(wrong.get_or_insert(why)),
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Takes one entry, as if it had come alone. `None`: the caller ignores it.
    fn take_entry(
        &self,
        block: &BundleBlock,
        place: usize,
        query: &Query<'_>,
    ) -> Result<Option<Digest>, Refusal> {
        let entry = block.entry(place).map_err(Refusal::damaged)?;
        // In a bundle, entries have no time.
        let file = entry.to_builder().created(SystemTime::now()).encode(entry.key());
        let file = file.ok_or_else(|| Refusal::damaged("an entry exceeds the bounds of an entry"))?;
        let entry = Entry::decode(file, Some(entry.key())).map_err(Refusal::damaged)?;
        self.trust.check_remote(&entry)?;
        let (key, verdict) = (*entry.key(), (query.accept)(&entry));
        if let Accept::Replace(reason) = verdict {
            return Err(Refusal::invalid(format_args!("its entry {key} cannot be used: {reason}")));
        }
        Ok(self.judged(Box::new(entry), verdict, &Miss::Absent).map(|_| key))
    }

    /// Records the plan of a build that ends. If entries of it are sent that an earlier build left, its bundle is stored as well.
    pub(crate) fn note_plan(&self, keys: &[Digest]) {
        if keys.len() >= MIN_ENTRIES
            && let Some(remote) = self.read_remote()
        {
            remote.bundles().note_plan(ObjectNames::plan(keys), keys);
        }
    }

    /// Stores bundles of the plans whose entries this process has fetched or built, if there are none. Returns their number. Best
    /// effort.
    pub(crate) fn share_plans(&self, limits: Limits<'_>) -> usize {
        // What this host would not take itself, or may not send, it does not share.
        let keys = &self.shared.keys;
        let remote = self.written_remote().filter(|_| keys.may_send() && keys.takes_own());
        let Some(remote) = remote else { return 0 };
        let mut shared = 0;
        for (plan, unbundled) in remote.bundles().take() {
            match self.share_plan(remote, &plan, &unbundled, limits) {
                Ok(is_shared) => shared += usize::from(is_shared),
                Err(why) => self.remote_failed(why),
            }
        }
        shared
    }

    fn share_plan(
        &self,
        remote: &RemoteTarget,
        plan: &Digest,
        unbundled: &UnbundledPlan,
        limits: Limits<'_>,
    ) -> Result<bool, CallFailure> {
        // The lease is on the digest of the plan, which is no key of an entry. Only one that expires is used, since no host takes
        // over from a killed one. Without leases, an engine may be sent the same twice.
        let lease = match remote.client().capabilities(limits)? {
            None => return Ok(false),
            Some(known) if known.exclusive_create == ExclusiveCreate::None || !known.expires_leases => None,
            Some(_) => match remote.claim(plan, 0, LONGEST_HOLD, limits)? {
                Claimed::Granted(lease) => Some(lease),
                Claimed::Held | Claimed::None => return Ok(false),
            },
        };
        if lease.is_some() && remote.has_new_bundle(plan, limits)? {
            return Ok(false);
        }
        let bundle = self.encode_plan(plan, &unbundled.keys);
        let is_stored = match bundle.filter(|bundle| remote.takes(bundle.len())) {
            Some(bundle) => remote.put_bundle(plan, &bundle, unbundled.replaces, limits),
            None => Ok(false),
        };
        if lease.is_some() && matches!(is_stored, Ok(true)) {
            remote.note_new_bundle(plan);
        }
        drop(lease);
        is_stored
    }

    /// Returns the bundle of a plan. `None`: the local store lacks an entry that other hosts may be given, or the bundle or an entry
    /// is too large. A bundle without that entry would lack one of its plan, so every host would replace it.
    fn encode_plan(&self, plan: &Digest, keys: &[Digest]) -> Option<Vec<u8>> {
        let store = self.store.as_ref()?;
        let signer = self.trust.bundle_signer();
        let mut writer = BundleWriter::new(Bounded::default(), Some(*plan), signer).ok()?;
        for key in keys.iter().collect::<BTreeSet<_>>() {
            let Lookup::Hit(entry) = store.peek(key) else { return None };
            if entry.validation() == 0 {
                return None;
            }
            // With the signatures that other hosts demand. Hosts that trust this one would refuse an unsigned entry.
            let sendable = self.trust.sendable(&entry).ok()??;
            if sendable.signer().is_none() && self.shared.keys.own_signer().is_some() {
                return None;
            }
            if sendable.file().len() > MAX_BYTES {
                return None;
            }
            writer.add(&self.name, &Entry::decode(sendable.into_file(), Some(key)).ok()?).ok()?;
        }
        let written = writer.finish().ok()?;
        too_large_block(&written.index).is_none().then_some(written.out.0)
    }
}

/// Returns the size of a block that readers refuse, if there is one.
fn too_large_block(index: &Index) -> Option<u64> {
    index.blocks().map(|block| block.bytes).find(|bytes| *bytes > MAX_BYTES as u64)
}

/// Bytes in memory, of which there are not too many.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
