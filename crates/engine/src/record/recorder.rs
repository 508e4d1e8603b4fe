//! The times of a build's steps, as they happen.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant, SystemTime};

use opkeep_cache::PendingKey;

use super::{BuildPhases, BuildRecord, LostTime, RecordedKernel, cut, host_name};
use crate::report::{BuildReport, KernelReport};
use crate::{Outcome, RecordConfig};

/// The times of a build's steps.
pub(crate) struct Recorder<'a> {
    config: &'a RecordConfig,
    began: Instant,
    began_at: SystemTime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phases: BuildPhases,
    /// The threads that finished kernels.
    threads: Vec<ThreadId>,
    /// The attempts at the kernels that were not in the store, by their index in the plan.
    attempts: HashMap<usize, Attempts>,
}

#[derive(Clone, Copy, Default)]
struct Attempts {
    first: Duration,
    last: Duration,
    waited_for_host: bool,
    worker: Option<usize>,
    end: Duration,
}

/// The end of a phase.
#[derive(Clone, Copy)]
pub(crate) enum Phase {
    Planned,
    LookedUp,
    Fetched,
    Made,
}

impl<'a> Recorder<'a> {
    /// Begins the record of a build that began at `began`.
    pub(crate) fn new(config: &'a RecordConfig, began: Instant) -> Self {
        let now = SystemTime::now();
        let began_at = now.checked_sub(began.elapsed()).unwrap_or(now);
        Self { config, began, began_at, state: Mutex::default() }
    }

    /// Notes the end of a phase.
    pub(crate) fn ended(&self, phase: Phase) {
        let now = micros(self.began.elapsed());
        let phases = &mut self.locked().phases;
        *match phase {
            Phase::Planned => &mut phases.planned_us,
            Phase::LookedUp => &mut phases.looked_up_us,
            Phase::Fetched => &mut phases.fetched_us,
            Phase::Made => &mut phases.made_us,
        } = now;
    }

    /// Notes an attempt at the kernel `at` of the plan; `pending`, if another process or host had it at the last one.
    pub(crate) fn attempt(&self, at: usize, pending: Option<&PendingKey>) {
        let now = self.began.elapsed();
        let waits_for_host = pending.is_some_and(PendingKey::waits_for_host);
        let mut state = self.locked();
        let attempts = state.attempts.entry(at).or_insert(Attempts { first: now, ..Attempts::default() });
        attempts.last = now;
        attempts.waited_for_host |= waits_for_host;
    }

    /// Notes the end of the kernel `at` of the plan, on a thread of the build.
    pub(crate) fn done(&self, at: usize) {
        let (now, thread) = (self.began.elapsed(), thread::current().id());
        let mut state = self.locked();
        let known = state.threads.iter().position(|known| *known == thread);
        let worker = known.unwrap_or_else(|| {
            state.threads.push(thread);
            state.threads.len() - 1
        });
        let attempts = state.attempts.entry(at).or_default();
        (attempts.worker, attempts.end) = (Some(worker), now);
    }

    /// Notes that the kernel `at` of the plan came from the remote tier.
    pub(crate) fn fetched(&self, at: usize) {
        let now = self.began.elapsed();
        let arrived = Attempts { first: now, last: now, end: now, ..Attempts::default() };
        self.locked().attempts.insert(at, arrived);
    }

    /// Returns the record of a build on `threads` threads, whose report is complete.
    pub(crate) fn record(self, report: &BuildReport, threads: usize) -> BuildRecord {
        let began = self.began;
        let State { phases, attempts, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut hits: BTreeMap<String, super::RecordedHits> = BTreeMap::new();
        let mut kernels = Vec::new();
        for (at, kernel) in report.kernels.iter().enumerate() {
            if kernel.outcome == Outcome::Reused && !kernel.from_remote {
                let hits = hits.entry(cut(&kernel.op_type)).or_default();
                hits.kernels += 1;
                hits.saved_us = hits.saved_us.saturating_add(kernel.saved_time.map_or(0, micros));
            } else {
                kernels.push(recorded(kernel, attempts.get(&at).copied().unwrap_or_default(), began));
            }
        }
        opkeep_order::by_key(&mut kernels, |kernel| kernel.begin_us);
        let counts = report.counts().into_iter().filter(|(_, count)| *count > 0);
        let record = BuildRecord {
            began_ms: u64::try_from(opkeep_fs::unix(self.began_at).as_millis()).unwrap_or(u64::MAX),
            elapsed_us: micros(report.elapsed),
            host: host_name(),
            process: std::process::id(),
            label: cut(&self.config.label),
            backend: report.backend.to_owned(),
            targets: report.targets.iter().take(16).map(|target| cut(target)).collect(),
            operators: report.requests,
            threads,
            counts: counts.map(|(outcome, count)| (outcome.name().to_owned(), count)).collect(),
            from_remote: report.count_from_remote(),
            cancelled: report.cancelled,
            phases,
            lost: LostTime {
                process_us: report.activity.lost_process_micros,
                host_us: report.activity.lost_host_micros,
                remote_us: report.activity.lost_remote_micros,
            },
            hits,
            kernels,
            omitted: 0,
        };
        record.bounded()
    }

    /// The state. A panic elsewhere leaves it consistent.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn recorded(kernel: &KernelReport, attempts: Attempts, began: Instant) -> RecordedKernel {
    let Attempts { first, last, waited_for_host, worker, end } = attempts;
    RecordedKernel {
        op_type: cut(&kernel.op_type),
        name: cut(&kernel.name),
        key: kernel.key.map(|key| key.to_string()),
        outcome: kernel.outcome.name().to_owned(),
        from_remote: kernel.from_remote,
        worker,
        begin_us: micros(first),
        last_us: micros(last),
        compile_us: kernel.compile_began.map(|compile| micros(compile.saturating_duration_since(began))),
        end_us: micros(end),
        compile_time_us: kernel.compile_time.map(micros),
        saved_us: kernel.saved_time.map(micros),
        waited_for_host,
        bytes: kernel.bytes,
        kept: kernel.kept,
        failure: kernel.error.as_ref().and_then(|error| error.failure()).map(|failure| cut(&failure)),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
