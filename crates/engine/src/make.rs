//! One kernel's way: look up, and if it is missing, take its lock, look again, compile, publish.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use opkeep_artifact::Artifact;
use opkeep_backend::BackendError;
use opkeep_descriptor::EffectiveSpec;
use opkeep_digest::Digest;
use opkeep_store::{Entry, KeyLock, KeyWait, LockAttempt, Lookup, Miss, Mode, TargetStore};

use crate::event::Event;
use crate::expected::Expected;
use crate::imported::{self, IMPORTED, Imported};
use crate::plan::{Keyed, Planned, State};
use crate::queue::Step;
use crate::report::KernelReport;
use crate::tokens::Token;
use crate::warnings::Cause;
use crate::workshop::Workshop;
use crate::{BuildError, Builder, JobError, Outcome, handover};

/// Names of an entry's members.
pub(crate) const JSON: &str = "json";
pub(crate) const OBJECT: &str = "object";
pub(crate) const INFO: &str = "info";
pub(crate) const HEADER: &str = "header";

/// Who waits for a token says every so often that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Besides its compile, a maker may have waited for a token since, and has the kernel to check and to keep.
const GRACE: Duration = Duration::from_secs(3);

/// Makes kernels.
pub(crate) struct Maker<'a> {
    pub(crate) builder: &'a Builder,
    pub(crate) shop: &'a Workshop,
    /// The store's part for each target, where there is one that can be used.
    shelves: Vec<(String, Arc<TargetStore>)>,
    /// The first kernel that failed, if that ends the build.
    failed: OnceLock<String>,
}

/// Why a kernel was not found, and what is to be done about the entry.
pub(crate) struct Missing {
    pub(crate) reason: String,
    pub(crate) damaged: bool,
    /// There is a store, and the kernel is not in it.
    pub(crate) absent: bool,
}

/// A kernel that is there.
pub(crate) struct Made {
    pub(crate) artifact: Arc<Artifact>,
    /// Of the object and of the `.json`.
    pub(crate) digests: (Digest, Digest),
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    pub(crate) compile_time: Option<Duration>,
    /// Where it came from, if somebody else compiled it.
    pub(crate) imported: Option<Imported>,
}

/// Whose turn it is to make a kernel.
enum Turn {
    /// Ours; under its lock, where there is one.
    Ours(Option<KeyLock>),
    /// Another process makes it.
    Theirs(KeyWait),
}

impl<'a> Maker<'a> {
    pub(crate) fn new(
        builder: &'a Builder,
        shop: &'a Workshop,
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
    pub(crate) fn look_up(&self, planned: &Planned<'_>) -> Result<KernelReport, Missing> {
        let missing = |reason: &str| Missing { reason: reason.to_owned(), damaged: false, absent: false };
        let Some(keyed) = planned.keyed() else {
            return self.look_up_imported(planned, missing("refused by the backend"));
        };
        if keyed.spec.debug {
            return Err(missing("debug options are on"));
        }
        let mode = self.builder.mode;
        if !mode.takes() {
            return Err(missing(&format!("cache mode is {mode}")));
        }
        let shelf = self.shelf(keyed).ok_or_else(|| missing("there is no store that can be used"))?;
        // What is not ours may be there as an imported one: then nothing was missed.
        let (mut uncounted, trusts) = (None, self.builder.trust_imported);
        let key = keyed.key.digest();
        let missing = match if trusts { shelf.get_again(key) } else { shelf.get(key) } {
            Lookup::Hit(entry) => match self.take_entry(keyed, &entry, Outcome::Reused) {
                Ok(made) => {
                    self.builder.tell(Event::Hit { kernel: planned.name(), artifact: &made.artifact });
                    return Ok(KernelReport::new(planned, Ok(made)));
                }
                Err(error) => Missing {
                    reason: format!("the stored kernel is not valid: {error}"),
                    damaged: true,
                    absent: false,
                },
            },
            Lookup::Miss(miss) => {
                if let Miss::Untrusted(_) | Miss::Trouble(_) = &miss {
                    self.shop.warnings.tell(Cause::Reading, &miss.to_string());
                }
                let miss = uncounted.insert(miss);
                Missing {
                    reason: miss.to_string(),
                    damaged: matches!(miss, Miss::Damaged(_)),
                    absent: matches!(miss, Miss::Absent),
                }
            }
        };
        let found = match missing.damaged && mode != Mode::Require {
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
        planned: &Planned<'_>,
        missing: &Missing,
        wait: Option<KeyWait>,
    ) -> Step<KernelReport, KeyWait> {
        let began = Instant::now();
        let waited = wait.as_ref().map(KeyWait::waited).unwrap_or_default();
        let made = match self.try_make(planned, missing, wait) {
            Ok(Step::Busy(wait)) => return Step::Busy(wait),
            Ok(Step::Done(made)) => Ok(made),
            Err(error) => Err(error),
        };
        let elapsed = began.elapsed() + waited;
        let kernel = planned.name();
        match &made {
            Ok(Made { artifact, outcome, .. }) => {
                self.builder.tell(Event::Finished { kernel, outcome: *outcome, elapsed, artifact });
            }
            Err(error) => {
                if self.builder.fail_fast && !matches!(**error, JobError::Stopped { .. }) {
                    let _ = self.failed.set(kernel.to_owned());
                }
                self.builder.tell(Event::Failed { kernel, error, elapsed });
            }
        }
        Step::Done(KernelReport::new(planned, made))
    }

    fn try_make(
        &self,
        planned: &Planned<'_>,
        missing: &Missing,
        wait: Option<KeyWait>,
    ) -> Result<Step<Made, KeyWait>, Arc<JobError>> {
        let keyed = match &planned.state {
            State::Refused(refused) => return Err(Arc::clone(&refused.error)),
            State::Keyed(keyed) => keyed,
        };
        self.go_on()?;
        if self.builder.mode == Mode::Require {
            let (kernel, why) = (keyed.name.to_string(), missing.reason.clone());
            return Err(JobError::Required { kernel, why }.into());
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
    pub(crate) fn go_on(&self) -> Result<(), JobError> {
        if self.builder.cancel.is_cancelled() {
            return Err(BackendError::Cancelled.into());
        }
        match self.failed.get() {
            Some(first) => Err(JobError::Stopped { first: first.clone() }),
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
        planned: &Planned<'_>,
        keyed: &Keyed,
        shelf: &TargetStore,
        wait: Option<KeyWait>,
    ) -> Result<Turn, JobError> {
        let is_first = wait.is_none();
        let mut attempt = match wait {
            Some(wait) => shelf.poll(wait),
            None => shelf.try_lock(keyed.key.digest()),
        };
        let without = |text: &str| {
            self.shop.warnings.tell(Cause::Locks, text);
            Ok(Turn::Ours(None))
        };
        loop {
            match attempt {
                Ok(LockAttempt::Acquired(lock)) => return Ok(Turn::Ours(Some(lock))),
                Ok(LockAttempt::HolderFailed(left)) => {
                    if let Some(reason) = handover::read(&left, self.builder.deadline) {
                        return Err(JobError::Elsewhere { reason });
                    }
                    // It had less time than we have: its failure is not ours.
                    attempt = shelf.try_lock(keyed.key.digest());
                }
                Ok(LockAttempt::Held(mut wait)) => {
                    if self.patience().is_some_and(|patience| wait.is_silent(patience)) {
                        shelf.give_up(wait);
                        return without(
                            "another process holds a kernel's lock for too long; compiling without it",
                        );
                    }
                    if is_first {
                        self.builder.tell(Event::Waiting { kernel: planned.name() });
                    }
                    return Ok(Turn::Theirs(wait));
                }
                Ok(LockAttempt::Unsupported) => {
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
        planned: &Planned<'_>,
        keyed: &Keyed,
        shelf: &TargetStore,
        missing: &Missing,
        lock: Option<KeyLock>,
    ) -> Result<Made, JobError> {
        if let Some(made) = self.look_again(keyed, shelf, lock.as_ref()) {
            return Ok(made);
        }
        let made = self
            .token(lock.as_ref())
            .and_then(|_token| self.compile(planned, keyed, missing, Outcome::Compiled));
        if let Ok(Made { compile_time: Some(time), .. }) = &made {
            shelf.count_compile(*time);
        }
        match &made {
            Ok(made) => self.publish(planned, keyed, shelf, made, missing),
            Err(error) if error.would_repeat() => {
                if let Some(lock) = lock {
                    let limit = self.builder.deadline.filter(|_| error.is_deadline());
                    lock.release_failed(&handover::write(&error.to_string(), limit));
                }
            }
            Err(_) => {}
        }
        made
    }

    /// Makes a kernel that is not kept.
    fn compile_alone(
        &self,
        planned: &Planned<'_>,
        keyed: &Keyed,
        missing: &Missing,
        outcome: Outcome,
    ) -> Result<Made, JobError> {
        let _token = self.token(None)?;
        self.compile(planned, keyed, missing, outcome)
    }

    /// For how long others may give no sign of life: their compiles end by the same deadline as ours would.
    fn patience(&self) -> Option<Duration> {
        self.builder.deadline.map(|deadline| deadline.saturating_add(GRACE))
    }

    /// Waits until this machine may run one more compiler.
    fn token(&self, lock: Option<&KeyLock>) -> Result<Token, JobError> {
        let mut signed = Instant::now();
        let token = self.shop.tokens.take(self.patience(), || {
            if signed.elapsed() >= SIGN_OF_LIFE {
                lock.inspect(|lock| lock.sign_of_life());
                signed = Instant::now();
            }
            self.go_on().is_ok()
        });
        token.ok_or_else(|| self.go_on().err().unwrap_or(BackendError::Cancelled.into()))
    }

    /// Looks again, now that nobody else makes the kernel; and takes a damaged entry away.
    fn look_again(&self, keyed: &Keyed, shelf: &TargetStore, lock: Option<&KeyLock>) -> Option<Made> {
        let judged = match self.made_by_another(keyed, shelf) {
            Ok(made) => return made,
            Err(Miss::Damaged(judged)) => judged,
            Err(_) => return None,
        };
        let path = shelf.path(keyed.key.digest());
        let text =
            format!("a damaged entry is set aside and built again: `{}`: {}", path.display(), judged.damage);
        self.shop.warnings.tell(Cause::Damage, &text);
        if let Some(lock) = lock
            && let Err(error) = shelf.quarantine(keyed.key.digest(), &judged, lock)
        {
            self.shop.warnings.tell(Cause::Keeping, &error.to_string());
        }
        None
    }

    /// What another process has made since this one looked; none if what is there will not do.
    fn made_by_another(&self, keyed: &Keyed, shelf: &TargetStore) -> Result<Option<Made>, Miss> {
        let found = match self.builder.mode.takes() {
            true => shelf.get_again(keyed.key.digest()),
            false => shelf.peek(keyed.key.digest()),
        };
        let entry = match found {
            Lookup::Hit(entry) => entry,
            Lookup::Miss(miss) => return Err(miss),
        };
        // With `force`, only what was made since this build began is new enough, or one that it overlaps.
        // One that claims to be from the future was made by another clock and says nothing.
        let since = self.shop.group.began()..=SystemTime::now();
        let new_enough = self.builder.mode.takes() || since.contains(&entry.created());
        Ok(new_enough.then(|| self.take_entry(keyed, &entry, Outcome::Shared).ok()).flatten())
    }

    /// The kernel in an entry. Its bytes are checked; one that other rules let in is validated again.
    fn take_entry(&self, keyed: &Keyed, entry: &Entry, outcome: Outcome) -> Result<Made, JobError> {
        let kernel = || keyed.name.to_string();
        if entry.member(IMPORTED).is_some() {
            return Err(JobError::NotOurs { kernel: kernel() });
        }
        let taken = imported::artifact(entry);
        let (artifact, digests) =
            taken.map_err(|member| JobError::Incomplete { kernel: kernel(), member })?;
        let expected = self.expected(&keyed.spec);
        if !expected.covers(entry) {
            self.validate(keyed, &artifact)?;
            // Once is enough. If this cannot be written, it is done again next time.
            if let Some(shelf) = self.shelf(keyed).filter(|shelf| self.shop.shelves.keep_in(shelf)) {
                let _ = expected.record(shelf, entry);
            }
        }
        let artifact = Arc::new(artifact);
        Ok(Made { artifact, digests, outcome, reason: None, compile_time: None, imported: None })
    }

    /// What the backend expects of kernels for `spec`.
    pub(crate) fn expected(&self, spec: &EffectiveSpec) -> Arc<Expected> {
        self.shop.judging.expected(&*self.builder.backend, spec)
    }

    pub(crate) fn shelf(&self, keyed: &Keyed) -> Option<&TargetStore> {
        self.shelf_of(&keyed.spec.target)
    }

    pub(crate) fn shelf_of(&self, target: &str) -> Option<&TargetStore> {
        self.shelves.iter().find(|(known, _)| known == target).map(|(_, shelf)| &**shelf)
    }
}
