//! A build: plans, looks up, builds the missing kernels, and writes them to the view.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use opkeep_cache::{PendingKey, RemotePolicy};
use opkeep_store::Statistics;

use crate::engine::EngineState;
use crate::event::{Event, MissingKernel};
use crate::explain::in_build::BuildExplainer;
use crate::pipeline::{KernelPipeline, MissReason};
use crate::plan::BuildPlan;
use crate::record::BuildRecord;
use crate::record::recorder::{Phase, Recorder};
use crate::report::{BuildReport, KernelReport};
use crate::runtime::Runtime;
use crate::schedule::compile_times::{CompileTime, CompileTimes};
use crate::schedule::queue::{self, WorkerOptions};
use crate::schedule::remote_wait::longest_wait;
use crate::schedule::spread::shuffle_windows;
use crate::setup::Setup;
use crate::view::writer::ViewWriter;
use crate::{BuildError, Config, Engine, Outcome, Request, ViewConfig};

impl Engine {
    /// Builds `requests`. Equal requests share one kernel.
    ///
    /// # Errors
    /// Nothing could be built at all. The failure of a single kernel is in the report.
    pub fn build(&self, requests: &[Request]) -> Result<BuildReport, BuildError> {
        let began = Instant::now();
        let runtime = Runtime::open(&self.state.setup)?;
        let plan = BuildPlan::new(&self.state.setup, requests, &runtime.context(&self.cancel))?;
        let recorder = self.state.setup.config.record.as_ref().map(|config| Recorder::new(config, began));
        let recorder = recorder.inspect(|recorder| recorder.ended(Phase::Planned));
        self.state.setup.notify(Event::Planned { operators: requests.len(), kernels: plan.kernels.len() });
        let pipeline =
            KernelPipeline::new(&self.state.setup, &self.cancel, &runtime, self.cached_targets(&plan))?;
        let EngineState { infos, view_lock_timeout, .. } = &*self.state;
        let writer = |config: &ViewConfig| {
            ViewWriter::new(
                config.clone(),
                (runtime.cache.store(), infos),
                *view_lock_timeout,
                requests,
                &plan,
            )
        };
        let writer = self.state.setup.config.view.as_ref().map(writer);
        let executor = BuildExecutor {
            setup: &self.state.setup,
            runtime: &runtime,
            plan: &plan,
            pipeline,
            writer,
            recorder: recorder.as_ref(),
            share: OnceLock::new(),
        };
        let threads = executor.threads().get();
        let has_store = executor.pipeline.writes_a_store();
        let Executed { kernels, unsent, remote_absent, view, activity } = executor.run();
        runtime.save();
        let cancelled = kernels.iter().any(|kernel| kernel.outcome == Outcome::Cancelled);
        let mut report = BuildReport {
            backend: self.state.setup.backend.name(),
            targets: plan.targets(),
            requests: requests.len(),
            kernel_of: plan.kernel_of,
            kernels,
            warnings: runtime.warnings.all(),
            view,
            elapsed: began.elapsed(),
            cancelled,
            activity,
            unsent,
            remote_absent,
            records: Vec::new(),
        };
        report.records.extend(recorder.map(|recorder| recorder.record(&report, threads)));
        if has_store {
            self.store_records(&runtime, &report.records);
        }
        Ok(report)
    }

    /// Adds records to the store, if they are kept there.
    fn store_records(&self, runtime: &Runtime, records: &[BuildRecord]) {
        let Config { record, mode, .. } = &self.state.setup.config;
        let is_stored = mode.writes() && record.as_ref().is_some_and(|record| record.is_stored);
        if let Some(store) = runtime.cache.store().filter(|_| is_stored) {
            records.iter().for_each(|record| record.add_to(store));
        }
    }

    /// Returns the targets whose entries the build looks up.
    pub(crate) fn cached_targets(&self, plan: &BuildPlan<'_>) -> Vec<String> {
        if self.state.setup.config.trust_imported { plan.stored_targets() } else { plan.targets() }
    }
}

/// The number of hosts that are assumed to build at the same time through a remote tier. With more, some begin with the same
/// kernels, and each of these costs a call.
const OTHER_HOSTS: usize = 8;

/// Counts a time in which no thread of the build had anything to do but to wait for the `pending` kernels: for other hosts, if
/// one of the kernels is built by one.
fn count_lost(pending: &[&PendingKey], time: Duration) {
    let counted = pending.iter().find(|pending| pending.waits_for_host()).or(pending.first());
    counted.inspect(|pending| pending.count_lost(time));
}

/// The number of open files of one compile: locks, a token, a pipe, the store, the compiler's sandbox.
const FILES_PER_COMPILE: usize = 14;
/// The number of all other open files of the process.
const OTHER_FILES: usize = 16;

/// A planned build.
struct BuildExecutor<'a> {
    setup: &'a Setup,
    runtime: &'a Runtime,
    plan: &'a BuildPlan<'a>,
    pipeline: KernelPipeline<'a>,
    writer: Option<ViewWriter<'a>>,
    recorder: Option<&'a Recorder<'a>>,
    /// The part of a processor that each compile has, once the missing kernels are known.
    share: OnceLock<f64>,
}

type View = Option<Result<crate::ViewPlacement, opkeep_kernel_meta::ViewError>>;

/// What became of the kernels.
struct Executed {
    kernels: Vec<KernelReport>,
    /// The number that is still to be sent.
    unsent: usize,
    /// The number that the remote tier had not.
    remote_absent: usize,
    view: View,
    activity: Statistics,
}

/// The reports of the kernels, each in its kernel's place in the plan: for many kernels, a vector that grows takes twice the memory.
struct Reports(Mutex<Vec<Option<KernelReport>>>);

impl Reports {
    /// The reports. A panic elsewhere leaves them consistent.
    fn locked(&self) -> MutexGuard<'_, Vec<Option<KernelReport>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_vec(self) -> Vec<KernelReport> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
    }
}

impl BuildExecutor<'_> {
    fn run(self) -> Executed {
        let mut missing = Vec::new();
        let found = |(at, looked_up): (usize, Result<KernelReport, MissReason>)| match looked_up {
            Ok(report) => Some(report),
            Err(miss) => {
                missing.push((at, miss));
                None
            }
        };
        let reports = Reports(Mutex::new(self.look_up().into_iter().enumerate().map(found).collect()));
        self.ended(Phase::LookedUp);
        if !missing.is_empty() && self.pipeline.reads_remote() {
            self.fetch(&missing, &reports);
            let fetched = reports.locked();
            missing.retain(|(at, _)| fetched[*at].is_none());
            self.ended(Phase::Fetched);
        }
        self.make(&missing, &reports);
        self.ended(Phase::Made);
        let mut kernels = reports.into_vec();
        if self.recorder.is_some() {
            self.pipeline.note_kept(self.plan, &mut kernels);
        }
        let unsent = self.pipeline.finish(self.plan, &kernels);
        let view = self.writer.map(ViewWriter::finish);
        let activity = self.pipeline.activity();
        let was_answered = self.pipeline.reads_remote()
            && activity.remote_failures == 0
            && !self.runtime.cache.is_remote_paused();
        let compiled = kernels.iter().filter(|kernel| kernel.outcome == Outcome::Compiled).count();
        let remote_absent = if was_answered { compiled } else { 0 };
        Executed { kernels, unsent, remote_absent, view, activity }
    }

    /// Notes the end of a phase.
    fn ended(&self, phase: Phase) {
        self.recorder.inspect(|recorder| recorder.ended(phase));
    }

    /// Looks up every kernel.
    fn look_up(&self) -> Vec<Result<KernelReport, MissReason>> {
        let kernels = &self.plan.kernels;
        let look_up = |at: usize| Ok(self.done(at, self.pipeline.look_up(&kernels[at])?));
        opkeep_fs::map(kernels.len(), self.setup.lookup_threads(kernels.len()), || false, look_up).results
    }

    /// Takes missing kernels from the remote tier.
    fn fetch(&self, missing: &[(usize, MissReason)], reports: &Reports) {
        let expected = self.expected(missing).into_iter().map(|expected| expected.map(|one| one.time));
        let longest = longest_wait(expected, self.threads());
        self.pipeline.fetch(self.plan, missing, (longest, self.threads()), &|at, report| {
            let report = self.done(at, report);
            self.recorder.inspect(|recorder| recorder.fetched(at));
            reports.locked()[at] = Some(report);
        });
    }

    /// Builds the missing kernels. At the same time, explains the misses.
    fn make(&self, missing: &[(usize, MissReason)], reports: &Reports) {
        if missing.is_empty() {
            return;
        }
        let expected = self.expected(missing);
        self.share.get_or_init(|| self.processor_share(missing.len()));
        self.notify_missing(missing, &expected);
        let options = WorkerOptions { threads: self.threads(), nice: self.setup.config.nice.min(19) };
        let make = |index: usize, wait: Option<PendingKey>| {
            let (at, miss) = &missing[index];
            self.recorder.inspect(|recorder| recorder.attempt(*at, wait.as_ref()));
            let expected = expected[index].map(|expected| expected.time);
            self.pipeline.make(&self.plan.kernels[*at], miss, expected, wait)
        };
        let done = |index: usize, report| {
            let at = missing[index].0;
            let report = self.done(at, report);
            self.recorder.inspect(|recorder| recorder.done(at));
            reports.locked()[at] = Some(report);
        };
        let explainer = BuildExplainer::new(self.setup, self.plan, &self.pipeline, missing);
        explainer.explain_while(|| {
            let run = || queue::run_to_completion(self.order(&expected), options, make, done, count_lost);
            self.pipeline.storing_arrivals(self.plan, missing, run);
        });
        explainer.add_to(&mut reports.locked());
    }

    fn notify_missing(&self, missing: &[(usize, MissReason)], expected: &[Option<CompileTime>]) {
        if self.setup.observer.is_none() {
            return;
        }
        let kernel = |((at, _), expected): (&(usize, MissReason), &Option<CompileTime>)| {
            let name = self.plan.kernels[*at].name();
            let is_measured = expected.is_some_and(|expected| expected.is_measured);
            MissingKernel { name, expected: expected.map(|expected| expected.time), is_measured }
        };
        let missing: Vec<_> = missing.iter().zip(expected).map(kernel).collect();
        self.setup.notify(Event::LookedUp { missing: &missing, threads: self.threads().get() });
    }

    /// Returns the number of threads that build. It is limited by the number of files that the process may have open:
    /// with more threads, each could have some files open and wait for others.
    fn threads(&self) -> NonZeroUsize {
        let most = opkeep_fs::max_open_files().saturating_sub(OTHER_FILES) / FILES_PER_COMPILE;
        self.setup.threads().min(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))
    }

    /// Returns the order in which the missing kernels are begun: the longest compile first, so that no long compile runs
    /// alone at the end.
    ///
    /// The first kernels, of which there are as many as compilers may run at once, are rotated by a random number: so
    /// processes that start together begin with different kernels, and none of these kernels is delayed. (Process
    /// numbers are alike in containers.) Through a remote tier many more hosts may build, so all others are shuffled, too, in
    /// windows that grow.
    fn order(&self, expected: &[Option<CompileTime>]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..expected.len()).collect();
        if order.len() < 2 {
            return order;
        }
        opkeep_order::by_key(&mut order, |index| {
            std::cmp::Reverse(expected[*index].map(|expected| expected.time))
        });
        let hosts = self.hosts();
        let at_once = self.runtime.tokens.count().get().saturating_mul(hosts).min(order.len());
        if hosts > 1 {
            shuffle_windows(&mut order, at_once);
        } else {
            let random = RandomState::new().hash_one(0);
            order[..at_once].rotate_left(usize::try_from(random).unwrap_or_default() % at_once);
        }
        order
    }

    /// Returns the time that each compile of a missing kernel is expected to take, if any is known.
    fn expected(&self, missing: &[(usize, MissReason)]) -> Vec<Option<CompileTime>> {
        let kind = |(at, _): &(usize, MissReason)| {
            let planned = &self.plan.kernels[*at];
            let keyed = planned.keyed()?;
            CompileTimes::timing_key(self.setup.backend.name(), &keyed.spec.target, &planned.op_type())
        };
        let kinds: Vec<_> = missing.iter().map(kind).collect();
        let mut expected = self.runtime.compile_times.expected(kinds.iter().map(Option::as_ref));
        let share = self.processor_share(missing.len());
        for expected in expected.iter_mut().flatten() {
            // A file may state any time.
            let shared = Duration::try_from_secs_f64(expected.time.as_secs_f64() / share);
            expected.time = shared.unwrap_or(expected.time);
        }
        expected
    }

    /// Returns the part of a processor that each compile has if as many run as may run at once, of `missing` kernels. Recorded times are
    /// those of a whole processor: the times of a build with more compilers than processors say nothing about others.
    fn processor_share(&self, missing: usize) -> f64 {
        let at_once = self.threads().min(self.runtime.tokens.count()).get().min(missing.max(1));
        (self.setup.processors().get() as f64 / at_once as f64).min(1.0)
    }

    /// Returns the number of hosts that are assumed to compile the same kernels at the same time.
    fn hosts(&self) -> usize {
        let remote = self.setup.config.remote.as_ref();
        if remote.is_some_and(|remote| remote.policy == RemotePolicy::ReadWrite) { OTHER_HOSTS } else { 1 }
    }

    /// Writes a kernel to the view, and records its compile time. The artifact stays in memory only if
    /// [`Config::keep_artifacts`](crate::Config::keep_artifacts) is set.
    fn done(&self, at: usize, mut report: KernelReport) -> KernelReport {
        if let Some(writer) = &self.writer {
            writer.place(at, &report);
        }
        if let Some(time) = report.compile_time {
            let keyed = self.plan.kernels[at].keyed();
            let kind = keyed.and_then(|keyed| {
                CompileTimes::timing_key(self.setup.backend.name(), &keyed.spec.target, &report.op_type)
            });
            self.runtime.compile_times.note(kind, time.mul_f64(self.share.get().copied().unwrap_or(1.0)));
        }
        if !self.setup.config.keep_artifacts {
            report.artifact = None;
        }
        report
    }
}
