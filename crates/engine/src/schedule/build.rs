//! One build: plan, look up, build the missing kernels, put them into the view.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use opkeep_cache::PendingKey;

use crate::engine::EngineState;
use crate::event::Event;
use crate::explain::nearest::{self, NearestSearch};
use crate::pipeline::{KernelPipeline, MissReason};
use crate::plan::BuildPlan;
use crate::report::{BuildReport, KernelReport};
use crate::runtime::Runtime;
use crate::schedule::compile_times::CompileTimes;
use crate::schedule::queue::{self, TaskPoll, WorkerOptions};
use crate::setup::Setup;
use crate::view::writer::ViewWriter;
use crate::{BuildError, Engine, Outcome, Request, ViewConfig};

impl Engine {
    /// Builds `requests`. Equal ones are one kernel.
    ///
    /// # Errors
    /// Nothing could be built at all. A kernel that fails is in the report.
    pub fn build(&self, requests: &[Request]) -> Result<BuildReport, BuildError> {
        let began = Instant::now();
        let runtime = Runtime::open(&self.state.setup)?;
        let plan = BuildPlan::new(&self.state.setup, requests, &runtime.context(&self.cancel))?;
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
        let run =
            BuildExecutor { setup: &self.state.setup, runtime: &runtime, plan: &plan, pipeline, writer };
        let (kernels, view) = run.run();
        runtime.save();
        let cancelled = kernels.iter().any(|kernel| kernel.outcome == Outcome::Cancelled);
        Ok(BuildReport {
            backend: self.state.setup.backend.name(),
            targets: plan.targets(),
            requests: requests.len(),
            kernel_of: plan.kernel_of,
            kernels,
            warnings: runtime.warnings.all(),
            view,
            elapsed: began.elapsed(),
            cancelled,
        })
    }
}

impl Engine {
    /// The targets whose part of the store is needed.
    pub(crate) fn cached_targets(&self, plan: &BuildPlan<'_>) -> Vec<String> {
        if self.state.setup.config.trust_imported { plan.stored_targets() } else { plan.targets() }
    }
}

/// How long the search for explanations may take: a store may be large, and an explanation is no reason to wait.
const SEARCH_LIMIT: Duration = Duration::from_millis(200);

/// Open files of a compile: locks, a token, a pipe, the store, the compiler's sandbox; and those of the process besides.
const FILES_EACH: usize = 14;
const FILES_BESIDE: usize = 16;

/// A build that is planned.
struct BuildExecutor<'a> {
    setup: &'a Setup,
    runtime: &'a Runtime,
    plan: &'a BuildPlan<'a>,
    pipeline: KernelPipeline<'a>,
    writer: Option<ViewWriter<'a>>,
}

type View = Option<Result<crate::ViewPlacement, opkeep_kernel_meta::ViewError>>;

impl BuildExecutor<'_> {
    fn run(self) -> (Vec<KernelReport>, View) {
        let mut reports: Vec<Option<KernelReport>> = Vec::new();
        let mut missing = Vec::new();
        for (at, looked_up) in self.look_up().into_iter().enumerate() {
            reports.push(match looked_up {
                Ok(report) => Some(report),
                Err(miss) => {
                    missing.push((at, miss));
                    None
                }
            });
        }
        for (at, report) in self.make(&missing) {
            reports[at] = Some(report);
        }
        let kernels: Vec<KernelReport> = reports.into_iter().flatten().collect();
        self.pipeline.finish(&kernels);
        (kernels, self.writer.map(ViewWriter::finish))
    }

    /// Looks up every kernel.
    fn look_up(&self) -> Vec<Result<KernelReport, MissReason>> {
        let kernels = &self.plan.kernels;
        let look_up = |at: usize| Ok(self.done(at, self.pipeline.look_up(&kernels[at])?));
        opkeep_fs::map(kernels.len(), self.setup.lookup_threads(kernels.len()), || false, look_up).results
    }

    /// Builds the missing kernels, and meanwhile searches the nearest entries that explain the misses.
    fn make(&self, missing: &[(usize, MissReason)]) -> Vec<(usize, KernelReport)> {
        if missing.is_empty() {
            return Vec::new();
        }
        let options = WorkerOptions { threads: self.threads(), nice: self.setup.config.nice.min(19) };
        let (made, mut nearest) = nearest::search_while(self.searches(missing), SEARCH_LIMIT, || {
            let make = |index: usize, wait, before_build: &dyn Fn()| {
                let (at, miss) = &missing[index];
                match self.pipeline.make(&self.plan.kernels[*at], miss, wait, before_build) {
                    TaskPoll::Ready(report) => TaskPoll::Ready(self.done(*at, report)),
                    TaskPoll::Pending(wait) => TaskPoll::Pending(wait),
                }
            };
            queue::run_to_completion(self.order(missing), options, PendingKey::park, make)
        });
        let with_reason = |(index, mut report): (usize, KernelReport)| {
            if let Some(nearest) = nearest.remove(&index)
                && report.outcome == Outcome::Compiled
                && let Some(reason) = &mut report.reason
            {
                reason.push_str(&format!("; {nearest}"));
            }
            (missing[index].0, report)
        };
        made.into_iter().map(with_reason).collect()
    }

    /// How many threads make kernels: no more than the process may open files for, or all of them would hold some and
    /// wait for others.
    fn threads(&self) -> NonZeroUsize {
        let most = opkeep_fs::max_open_files().saturating_sub(FILES_BESIDE) / FILES_EACH;
        self.setup.threads().min(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))
    }

    /// The missing kernels that are simply not in the store.
    fn searches(&self, missing: &[(usize, MissReason)]) -> Vec<NearestSearch<'_>> {
        let mut searches: Vec<(&str, NearestSearch<'_>)> = Vec::new();
        for (index, (at, _)) in missing.iter().enumerate().filter(|(_, (_, miss))| miss.absent) {
            let planned = &self.plan.kernels[*at];
            let Some(keyed) = planned.keyed() else { continue };
            let Some(store) = self.pipeline.store_of(keyed) else { continue };
            let target = keyed.spec.target.as_str();
            match searches.iter_mut().find(|(known, _)| *known == target) {
                Some((_, search)) => search.add(index, planned, keyed),
                None => {
                    let mut search = NearestSearch::new(store);
                    search.add(index, planned, keyed);
                    searches.push((target, search));
                }
            }
        }
        searches.into_iter().map(|(_, search)| search).collect()
    }

    /// In which order the missing kernels are begun: the longest first, so that none is left alone at the end.
    ///
    /// Of several processes that begin at once each begins at another one of those that can run at once, which delays
    /// none of them.
    fn order(&self, missing: &[(usize, MissReason)]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..missing.len()).collect();
        if order.len() < 2 {
            return order;
        }
        let kind = |(at, _): &(usize, MissReason)| {
            let planned = &self.plan.kernels[*at];
            let keyed = planned.keyed()?;
            CompileTimes::timing_key(self.setup.backend.name(), &keyed.spec.target, &planned.op_type())
        };
        let kinds: Vec<_> = missing.iter().map(kind).collect();
        let costs = self.runtime.costs.expected(kinds.iter().map(Option::as_ref));
        order.sort_by_key(|index| std::cmp::Reverse(costs[*index]));
        let at_once = self.runtime.tokens.count().get().min(order.len());
        order[..at_once].rotate_left(std::process::id() as usize % at_once);
        order
    }

    /// Puts a kernel into the view; it stays in memory only if [`Config::keep_artifacts`](crate::Config::keep_artifacts) is set.
    fn done(&self, at: usize, mut report: KernelReport) -> KernelReport {
        if let Some(writer) = &self.writer {
            writer.place(at, &report);
        }
        if let Some(time) = report.compile_time {
            let keyed = self.plan.kernels[at].keyed();
            let kind = keyed.and_then(|keyed| {
                CompileTimes::timing_key(self.setup.backend.name(), &keyed.spec.target, &report.op_type)
            });
            self.runtime.costs.note(kind, time);
        }
        if !self.setup.config.keep_artifacts {
            report.artifact = None;
        }
        report
    }
}
