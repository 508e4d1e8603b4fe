//! One kernel's way: look up, and if it is missing, take its lock, look again, compile, publish.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use opkeep_artifact::Artifact;
use opkeep_backend::BackendError;
use opkeep_descriptor::ResolvedSpec;
use opkeep_digest::Digest;
use opkeep_kernel_entry::member::IMPORTED;
use opkeep_kernel_entry::{KernelFiles, Provenance, StoredExpectations, artifact};
use opkeep_store::{CacheMode, Entry, KeyLock, LockWaiter, Lookup, Miss, TargetStore, TryLockOutcome};

use crate::event::Event;
use crate::plan::{KeyState, KeyedKernel, PlannedKernel};
use crate::queue::Step;
use crate::report::KernelReport;
use crate::tokens::JobToken;
use crate::warnings::WarningKind;
use crate::workshop::Runtime;
use crate::{BuildError, Builder, KernelError, Outcome, handover};

/// Who waits for a token says every so often that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Besides its compile, a maker may have waited for a token since, and has the kernel to check and to keep.
const GRACE: Duration = Duration::from_secs(3);

/// Makes kernels.
pub(crate) struct KernelPipeline<'a> {
    pub(crate) builder: &'a Builder,
    pub(crate) shop: &'a Runtime,
    /// The store's part for each target, where there is one that can be used.
    shelves: Vec<(String, Arc<TargetStore>)>,
    /// The first kernel that failed, if that ends the build.
    failed: OnceLock<String>,
}

/// Why a kernel was not found, and what is to be done about the entry.
pub(crate) struct MissReason {
    pub(crate) reason: String,
    pub(crate) damaged: bool,
    /// There is a store, and the kernel is not in it.
    pub(crate) absent: bool,
}

/// A kernel that is there.
pub(crate) struct ReadyKernel {
    pub(crate) artifact: Arc<Artifact>,
    /// Of the object and of the `.json`.
    pub(crate) digests: (Digest, Digest),
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    pub(crate) compile_time: Option<Duration>,
    /// Where it came from, if somebody else compiled it.
    pub(crate) imported: Option<Provenance>,
}

/// Whose turn it is to make a kernel.
enum Turn {
    /// Ours; under its lock, where there is one.
    Ours(Option<KeyLock>),
    /// Another process makes it.
    Theirs(LockWaiter),
}

impl<'a> KernelPipeline<'a> {
    pub(crate) fn new(
        builder: &'a Builder,
        shop: &'a Runtime,
        targets: Vec<String>,
    ) -> Result<Self, BuildError> {
        let mut shelves = Vec::with_capacity(targets.len());
        for target in targets {
            if let Some(shelf) = shop.shelves.of(&target, &shop.warnings)? {
                shelves.push((target, shelf));
            }
        }
        Ok(Self { builder, shop, shelves, failed: OnceLock::new() })
    }

    /// The kernel, if it is in the store and may be taken from there; else an imported one, if such are trusted.
    pub(crate) fn look_up(&self, planned: &PlannedKernel<'_>) -> Result<KernelReport, MissReason> {
        let missing = |reason: &str| MissReason { reason: reason.to_owned(), damaged: false, absent: false };
        let Some(keyed) = planned.keyed() else {
            return self.look_up_imported(planned, missing("refused by the backend"));
        };
        if keyed.spec.debug {
            return Err(missing("debug options are on"));
        }
        let mode = self.builder.mode;
        if !mode.reads() {
            return Err(missing(&format!("cache mode is {mode}")));
        }
        let shelf = self.shelf(keyed).ok_or_else(|| missing("there is no store that can be used"))?;
        // What is not ours may be there as an imported one: then nothing was missed.
        let (mut uncounted, trusts) = (None, self.builder.trust_imported);
        let key = keyed.key.digest();
        let missing = match if trusts { shelf.get_uncounted(key) } else { shelf.get(key) } {
            Lookup::Hit(entry) => match self.take_entry(keyed, &entry, Outcome::Reused) {
                Ok(made) => {
                    self.builder.tell(Event::Hit { kernel: planned.name(), artifact: &made.artifact });
                    return Ok(KernelReport::new(planned, Ok(made)));
                }
                Err(error) => MissReason {
                    reason: format!("the stored kernel is not valid: {error}"),
                    damaged: true,
                    absent: false,
                },
            },
            Lookup::Miss(miss) => {
                if let Miss::Untrusted(_) | Miss::Io(_) = &miss {
                    self.shop.warnings.tell(WarningKind::Reading, &miss.to_string());
                }
                let miss = uncounted.insert(miss);
                MissReason {
                    reason: miss.to_string(),
                    damaged: matches!(miss, Miss::Damaged(_)),
                    absent: matches!(miss, Miss::Absent),
                }
            }
        };
        let found = match missing.damaged && mode != CacheMode::Require {
            // It is set aside and compiled again, or nobody would ever hear of it.
            true => Err(missing),
            false => self.look_up_imported(planned, missing),
        };
        if let (true, Err(_), Some(miss)) = (trusts, &found, &uncounted) {
            shelf.count_miss(miss);
        }
        found
    }

    /// Makes a kernel that is missing; if another process is at it, says how to ask again.
    pub(crate) fn make(
        &self,
        planned: &PlannedKernel<'_>,
        missing: &MissReason,
        wait: Option<LockWaiter>,
    ) -> Step<KernelReport, LockWaiter> {
        let began = Instant::now();
        let waited = wait.as_ref().map(LockWaiter::waited).unwrap_or_default();
        let made = match self.try_make(planned, missing, wait) {
            Ok(Step::Busy(wait)) => return Step::Busy(wait),
            Ok(Step::Done(made)) => Ok(made),
            Err(error) => Err(error),
        };
        let elapsed = began.elapsed() + waited;
        let kernel = planned.name();
        match &made {
            Ok(ReadyKernel { artifact, outcome, .. }) => {
                self.builder.tell(Event::Finished { kernel, outcome: *outcome, elapsed, artifact });
            }
            Err(error) => {
                if self.builder.fail_fast && !matches!(**error, KernelError::Skipped { .. }) {
                    let _ = self.failed.set(kernel.to_owned());
                }
                self.builder.tell(Event::Failed { kernel, error, elapsed });
            }
        }
        Step::Done(KernelReport::new(planned, made))
    }

    fn try_make(
        &self,
        planned: &PlannedKernel<'_>,
        missing: &MissReason,
        wait: Option<LockWaiter>,
    ) -> Result<Step<ReadyKernel, LockWaiter>, Arc<KernelError>> {
        let keyed = match &planned.state {
            KeyState::Refused(refused) => return Err(Arc::clone(&refused.error)),
            KeyState::Keyed(keyed) => keyed,
        };
        self.ensure_running()?;
        if self.builder.mode == CacheMode::Require {
            let (kernel, why) = (keyed.name.to_string(), missing.reason.clone());
            return Err(KernelError::NotCached { kernel, why }.into());
        }
        if keyed.spec.debug {
            return Ok(Step::Done(self.compile_alone(planned, keyed, missing, Outcome::Bypassed)?));
        }
        let Some(shelf) = self.shelf(keyed).filter(|shelf| self.shop.shelves.keep_in(shelf)) else {
            return Ok(Step::Done(self.compile_alone(planned, keyed, missing, Outcome::Compiled)?));
        };
        // Others may have made most of them while this process made its share: those need no lock.
        if wait.is_none()
            && let Ok(Some(made)) = self.made_by_another(keyed, shelf)
        {
            return Ok(Step::Done(made));
        }
        match self.turn(planned, keyed, shelf, wait)? {
            Turn::Theirs(wait) => Ok(Step::Busy(wait)),
            Turn::Ours(lock) => Ok(Step::Done(self.make_once(planned, keyed, shelf, missing, lock)?)),
        }
    }

    /// Whether anybody still waits for kernels that are not begun.
    pub(crate) fn ensure_running(&self) -> Result<(), KernelError> {
        if self.builder.cancel.is_cancelled() {
            return Err(BackendError::Cancelled.into());
        }
        match self.failed.get() {
            Some(first) => Err(KernelError::Skipped { first: first.clone() }),
            None => Ok(()),
        }
    }

    /// Makes one kernel survive a power cut.
    pub(crate) fn settle(&self, kernel: &KernelReport) {
        if kernel.outcome == Outcome::Compiled
            && let Some(key) = kernel.key
        {
            let shelves = self.shelves.iter().filter(|(_, shelf)| shelf.is_writable());
            shelves.for_each(|(_, shelf)| shelf.sync(&[*key.digest()]));
        }
    }

    /// Makes what was put survive a power cut, and writes down what was counted.
    pub(crate) fn finish(&self, kernels: &[KernelReport]) {
        let fresh = kernels.iter().filter(|kernel| kernel.outcome == Outcome::Compiled);
        let keys: Vec<_> = fresh.filter_map(|kernel| Some(*kernel.key?.digest())).collect();
        for (_, shelf) in self.shelves.iter().filter(|(_, shelf)| shelf.is_writable()) {
            shelf.sync(&keys);
            // Statistics that another process holds up stay in memory, and are written with the next ones.
            let _ = shelf.flush();
        }
    }

    /// Asks for the kernel's lock, so that of all processes that miss it one compiles. Where there are no locks, and
    /// where whoever holds it seems to hang, it is made without.
    fn turn(
        &self,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        shelf: &TargetStore,
        wait: Option<LockWaiter>,
    ) -> Result<Turn, KernelError> {
        let is_first = wait.is_none();
        let mut attempt = match wait {
            Some(wait) => shelf.poll(wait),
            None => shelf.try_lock(keyed.key.digest()),
        };
        let without = |text: &str| {
            self.shop.warnings.tell(WarningKind::Locks, text);
            Ok(Turn::Ours(None))
        };
        loop {
            match attempt {
                Ok(TryLockOutcome::Acquired(lock)) => return Ok(Turn::Ours(Some(lock))),
                Ok(TryLockOutcome::HolderFailed(left)) => {
                    if let Some(reason) = handover::read(&left, self.builder.deadline) {
                        return Err(KernelError::HolderFailed { reason });
                    }
                    // It had less time than we have: its failure is not ours.
                    attempt = shelf.try_lock(keyed.key.digest());
                }
                Ok(TryLockOutcome::Held(mut wait)) => {
                    if self.patience().is_some_and(|patience| wait.is_stale(patience)) {
                        shelf.cancel_wait(wait);
                        return without(
                            "another process holds a kernel's lock for too long; compiling without it",
                        );
                    }
                    if is_first {
                        self.builder.tell(Event::Waiting { kernel: planned.name() });
                    }
                    return Ok(Turn::Theirs(wait));
                }
                Ok(TryLockOutcome::Unsupported) => {
                    return without(
                        "the store's file system has no locks; processes may compile the same kernel",
                    );
                }
                Err(error) if error.stops_every_write() => {
                    self.shop.shelves.cannot_keep(&error, &self.shop.warnings);
                    return Ok(Turn::Ours(None));
                }
                Err(error) => return without(&format!("compiling without a lock: {error}")),
            }
        }
    }

    /// Makes the kernel, unless another process just has.
    fn make_once(
        &self,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        shelf: &TargetStore,
        missing: &MissReason,
        lock: Option<KeyLock>,
    ) -> Result<ReadyKernel, KernelError> {
        if let Some(made) = self.look_again(keyed, shelf, lock.as_ref()) {
            return Ok(made);
        }
        let made = self
            .token(lock.as_ref())
            .and_then(|_token| self.compile(planned, keyed, missing, Outcome::Compiled));
        if let Ok(ReadyKernel { compile_time: Some(time), .. }) = &made {
            shelf.count_compile(*time);
        }
        match &made {
            Ok(made) => self.publish(planned, keyed, shelf, made, missing),
            Err(error) if error.would_repeat() => {
                if let Some(lock) = lock {
                    let limit = self.builder.deadline.filter(|_| error.is_deadline());
                    lock.release_with_failure(&handover::write(&error.to_string(), limit));
                }
            }
            Err(_) => {}
        }
        made
    }

    /// Makes a kernel that is not kept.
    fn compile_alone(
        &self,
        planned: &PlannedKernel<'_>,
        keyed: &KeyedKernel,
        missing: &MissReason,
        outcome: Outcome,
    ) -> Result<ReadyKernel, KernelError> {
        let _token = self.token(None)?;
        self.compile(planned, keyed, missing, outcome)
    }

    /// For how long others may give no sign of life: their compiles end by the same deadline as ours would.
    fn patience(&self) -> Option<Duration> {
        self.builder.deadline.map(|deadline| deadline.saturating_add(GRACE))
    }

    /// Waits until this machine may run one more compiler.
    fn token(&self, lock: Option<&KeyLock>) -> Result<JobToken, KernelError> {
        let mut signed = Instant::now();
        let token = self.shop.tokens.take(self.patience(), || {
            if signed.elapsed() >= SIGN_OF_LIFE {
                lock.inspect(|lock| lock.heartbeat());
                signed = Instant::now();
            }
            self.ensure_running().is_ok()
        });
        token.ok_or_else(|| self.ensure_running().err().unwrap_or(BackendError::Cancelled.into()))
    }

    /// Looks again, now that nobody else makes the kernel; and takes a damaged entry away.
    fn look_again(
        &self,
        keyed: &KeyedKernel,
        shelf: &TargetStore,
        lock: Option<&KeyLock>,
    ) -> Option<ReadyKernel> {
        let judged = match self.made_by_another(keyed, shelf) {
            Ok(made) => return made,
            Err(Miss::Damaged(judged)) => judged,
            Err(_) => return None,
        };
        let path = shelf.path(keyed.key.digest());
        let text = format!(
            "a damaged entry is set aside and built again: `{}`: {}",
            path.display(),
            judged.corruption
        );
        self.shop.warnings.tell(WarningKind::Corruption, &text);
        if let Some(lock) = lock
            && let Err(error) = shelf.quarantine(keyed.key.digest(), &judged, lock)
        {
            self.shop.warnings.tell(WarningKind::Keeping, &error.to_string());
        }
        None
    }

    /// What another process has made since this one looked; none if what is there will not do.
    fn made_by_another(&self, keyed: &KeyedKernel, shelf: &TargetStore) -> Result<Option<ReadyKernel>, Miss> {
        let found = match self.builder.mode.reads() {
            true => shelf.get_uncounted(keyed.key.digest()),
            false => shelf.peek(keyed.key.digest()),
        };
        let entry = match found {
            Lookup::Hit(entry) => entry,
            Lookup::Miss(miss) => return Err(miss),
        };
        // With `force`, only what was made since this build began is new enough, or one that it overlaps.
        // One that claims to be from the future was made by another clock and says nothing.
        let since = self.shop.group.began()..=SystemTime::now();
        let new_enough = self.builder.mode.reads() || since.contains(&entry.created());
        Ok(new_enough.then(|| self.take_entry(keyed, &entry, Outcome::Shared).ok()).flatten())
    }

    /// The kernel in an entry. Its bytes are checked; one that other rules let in is validated again.
    fn take_entry(
        &self,
        keyed: &KeyedKernel,
        entry: &Entry,
        outcome: Outcome,
    ) -> Result<ReadyKernel, KernelError> {
        let kernel = || keyed.name.to_string();
        if entry.member(IMPORTED).is_some() {
            return Err(KernelError::UnexpectedImport { kernel: kernel() });
        }
        let KernelFiles { artifact, object_digest, json_digest, .. } =
            artifact(entry).map_err(|member| KernelError::Incomplete { kernel: kernel(), member })?;
        let digests = (object_digest, json_digest);
        let expected = self.expected(&keyed.spec);
        if !expected.covers(entry) {
            self.validate(keyed, &artifact)?;
            // Once is enough. If this cannot be written, it is done again next time.
            if let Some(shelf) = self.shelf(keyed).filter(|shelf| self.shop.shelves.keep_in(shelf)) {
                let _ = expected.record(shelf, entry);
            }
        }
        let artifact = Arc::new(artifact);
        Ok(ReadyKernel { artifact, digests, outcome, reason: None, compile_time: None, imported: None })
    }

    /// What the backend expects of kernels for `spec`.
    pub(crate) fn expected(&self, spec: &ResolvedSpec) -> Arc<StoredExpectations> {
        self.shop.judging.expected(&*self.builder.backend, spec)
    }

    pub(crate) fn shelf(&self, keyed: &KeyedKernel) -> Option<&TargetStore> {
        self.shelf_of(&keyed.spec.target)
    }

    pub(crate) fn shelf_of(&self, target: &str) -> Option<&TargetStore> {
        self.shelves.iter().find(|(known, _)| known == target).map(|(_, shelf)| &**shelf)
    }
}
