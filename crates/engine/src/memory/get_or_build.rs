//! Requests of single kernels, from any number of threads.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use opkeep_cache::Cache;
use opkeep_kernel_meta::{LeftKernel, ViewError};

use crate::engine::EngineState;
use crate::memory::cache::{BuiltKernel, KernelResult, MemoryLookup};
use crate::pipeline::KernelPipeline;
use crate::plan::{BuildPlan, KeyState};
use crate::ready::ReadyKernel;
use crate::report::KernelReport;
use crate::runtime::Runtime;
use crate::schedule::compile_times::CompileTimes;
use crate::schedule::queue::TaskPoll;
use crate::schedule::remote_wait::longest_wait;
use crate::view::writer::ViewWriter;
use crate::warning::WarningKind;
use crate::{BuildError, Engine, KernelError, Outcome, Request};

/// The pause between two polls of another process.
const PAUSE: Duration = Duration::from_millis(10);

impl Engine {
    /// Returns the kernel of `request`: from memory, from the cache, or compiled as by [`build`](Self::build). For
    /// frameworks that request their operators one by one.
    ///
    /// If several threads request the same kernel, one of them builds it. Repeated requests are answered from memory,
    /// also with failures that would repeat, until the memory is full
    /// ([`Config::memory_bytes`](crate::Config::memory_bytes)) or [`reset`](Self::reset) is called. A changed toolchain
    /// is noticed within two seconds. Events are sent for kernels that are not in memory. The store's limits and the
    /// view apply as in [`build`](Self::build). Kernels with debug options are compiled each time.
    ///
    /// # Errors
    /// The kernel cannot be built.
    pub fn get_or_build(&self, request: &Request) -> Result<Arc<BuiltKernel>, Arc<KernelError>> {
        if let Some(answer) = self.state.memory.get(request) {
            self.place_known(request, &answer)?;
            return answer;
        }
        let runtime = self.runtime()?;
        let requests = std::slice::from_ref(request);
        let plan = BuildPlan::new(&self.state.setup, requests, &runtime.context(&self.cancel))
            .map_err(KernelError::from)?;
        runtime.file_digests.save();
        let keyed = match &plan.kernels[0].state {
            // A framework may have compiled the kernel.
            KeyState::Refused(_) if self.state.setup.config.trust_imported => {
                return self.make_one(&runtime, requests, &plan).0;
            }
            KeyState::Refused(refused) => return Err(Arc::clone(&refused.error)),
            KeyState::Keyed(keyed) => keyed,
        };
        if keyed.spec.debug {
            return self.make_one(&runtime, requests, &plan).0;
        }
        loop {
            let answer = match self.state.memory.get_or_reserve(keyed.key, &|| self.cancel.is_cancelled()) {
                MemoryLookup::Known(answer) => answer,
                MemoryLookup::Build(in_flight) => {
                    let (answer, remembered) = self.make_one(&runtime, requests, &plan);
                    if remembered {
                        in_flight.complete(answer.clone());
                    }
                    answer
                }
                MemoryLookup::Again if self.cancel.is_cancelled() => {
                    return Err(Arc::new(KernelError::Cancelled));
                }
                MemoryLookup::Again => continue,
            };
            self.state.memory.insert(request, keyed.key);
            self.place_known(request, &answer)?;
            return answer;
        }
    }

    /// Clears the memory of [`get_or_build`](Self::get_or_build). The next request opens the store anew, later requests
    /// look kernels up again, and failed ones are retried; with [`CacheMode::Force`](crate::CacheMode::Force) each
    /// kernel is compiled once more.
    pub fn reset(&self) {
        self.state.memory.clear();
        self.state.shared_runtime.close();
        self.state.placements.clear();
    }

    /// Returns the cache that [`get_or_build`](Self::get_or_build) uses. The first call of either function opens it.
    /// [`build`](Self::build) opens a cache of its own each time.
    ///
    /// # Errors
    /// The cache cannot be used as its mode requires.
    pub fn cache(&self) -> Result<Arc<Cache>, BuildError> {
        let EngineState { setup, shared_runtime, .. } = &*self.state;
        Ok(Arc::clone(&shared_runtime.get_or_open(setup)?.cache))
    }

    /// Takes the kernel from the store, or builds it. Returns whether the answer holds for later requests.
    fn make_one(
        &self,
        runtime: &Arc<Runtime>,
        requests: &[Request],
        plan: &BuildPlan<'_>,
    ) -> (KernelResult, bool) {
        let pipeline =
            match KernelPipeline::new(&self.state.setup, &self.cancel, runtime, self.cached_targets(plan)) {
                Ok(pipeline) => pipeline,
                Err(error) => return (Err(Arc::new(error.into())), false),
            };
        let planned = &plan.kernels[0];
        let backend = self.state.setup.backend.name();
        let kind = || {
            let target = &planned.keyed()?.spec.target;
            CompileTimes::timing_key(backend, target, &planned.op_type())
        };
        let report = pipeline.look_up(planned).unwrap_or_else(|missing| {
            let mut expected = None;
            if pipeline.reads_remote() {
                expected = runtime.compile_times.expected_one(kind().as_ref());
                pipeline.limit_waits(longest_wait([expected].into_iter(), NonZeroUsize::MIN));
            }
            let mut wait = None;
            loop {
                match pipeline.make(planned, &missing, expected, wait.take()) {
                    TaskPoll::Ready(report) => break report,
                    TaskPoll::Pending(busy) => wait.insert(busy).count_lost(PAUSE),
                }
                std::thread::sleep(PAUSE);
            }
        });
        pipeline.sync_entry(&report);
        if let Some(time) = report.compile_time {
            runtime.compile_times.note(kind(), time);
            runtime.compile_times.save();
        }
        self.place(runtime, requests, plan, &report);
        answer(report)
    }

    /// Puts a known kernel into the view for `request`, unless this engine has done so.
    fn place_known(&self, request: &Request, answer: &KernelResult) -> Result<(), Arc<KernelError>> {
        let (Some(_), Ok(built)) = (&self.state.setup.config.view, answer) else { return Ok(()) };
        if self.state.placements.has(request, built.key) {
            return Ok(());
        }
        let runtime = self.runtime()?;
        let requests = std::slice::from_ref(request);
        let plan = BuildPlan::new(&self.state.setup, requests, &runtime.context(&self.cancel))
            .map_err(KernelError::from)?;
        let made = ReadyKernel {
            artifact: Arc::clone(&built.artifact),
            digests: built.digests,
            outcome: built.outcome,
            reason: None,
            compile_time: None,
            compile_began: None,
            saved_time: None,
            imported: None,
            from_remote: false,
            kept: None,
        };
        self.place(&runtime, requests, &plan, &KernelReport::new(&plan.kernels[0], Ok(made)));
        Ok(())
    }

    fn place(&self, runtime: &Runtime, requests: &[Request], plan: &BuildPlan<'_>, report: &KernelReport) {
        let Some(setting) = self.state.setup.config.view.clone() else { return };
        // There is no second wait for a contended lock, which was reported before.
        let contended = self.state.contended.is_known();
        let lock_timeout = if contended { Duration::ZERO } else { self.state.view_lock_timeout };
        let placed = self.state.placements.place(&requests[0], report.key, || {
            let writer = ViewWriter::new(
                setting,
                (runtime.cache.store(), &self.state.infos),
                lock_timeout,
                requests,
                plan,
            );
            writer.place(0, report);
            writer.finish().map(|placed| {
                let risk = placed.risk.iter().map(ToString::to_string);
                let left = placed.left.iter().map(|LeftKernel { stem, reason, .. }| {
                    format!("the kernel `{stem}` was not put where the framework reads it: {reason}")
                });
                risk.for_each(|text| runtime.warnings.warn_once(WarningKind::ViewDirectory, &text));
                left.for_each(|text| runtime.warnings.warn_once(WarningKind::ForeignFiles, &text));
            })
        });
        if contended && matches!(placed, Err(ViewError::Locked { .. })) {
            return;
        }
        self.state.contended.note(&placed);
        if let Err(error) = placed {
            runtime.warnings.warn_once(WarningKind::View, &error.to_string());
        }
    }

    fn runtime(&self) -> Result<Arc<Runtime>, Arc<KernelError>> {
        let EngineState { setup, shared_runtime, .. } = &*self.state;
        shared_runtime.get_or_open(setup).map_err(|error| Arc::new(error.into()))
    }
}

fn answer(report: KernelReport) -> (KernelResult, bool) {
    let KernelReport { name, key, outcome, error, artifact, digests, .. } = report;
    match (key.zip(artifact).zip(digests), error) {
        (Some(((key, artifact), digests)), _) => {
            let kept = outcome != Outcome::Bypassed;
            (Ok(Arc::new(BuiltKernel { name, key, artifact, outcome, digests })), kept)
        }
        (None, Some(error)) => {
            let repeats = error.would_repeat();
            (Err(error), repeats)
        }
        // This does not occur: a report has a kernel or an error.
        (None, None) => (Err(Arc::new(KernelError::Cancelled)), false),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lock and look at files")]

    use std::fs::File;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::SystemTime;

    use opkeep_testkit::{NullBackend, descriptor};

    use super::*;
    use crate::{Config, Event, ViewConfig};

    /// Longer than any test may last: a wait that must not happen.
    const LONG: Duration = Duration::from_secs(3600);

    fn request(length: i64) -> Request {
        Request::new(descriptor(&format!("net/{length}"), "Square", &[&[length]]))
    }

    fn pairs(dir: &std::path::Path) -> usize {
        let files = std::fs::read_dir(dir).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".json")).count()
    }

    #[test]
    fn a_holder_that_keeps_the_view_locked_is_waited_for_once() {
        let temp = tempfile::tempdir().unwrap();
        let warned = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&warned);
        let config = Config {
            work_dir: Some(temp.path().to_owned()),
            view: Some(ViewConfig::rank(temp.path(), "0")),
            ..Config::default()
        };
        let mut engine = Engine::new(Arc::new(NullBackend::default()), config).with_observer(move |event| {
            count.fetch_add(usize::from(matches!(event, Event::Warning { .. })), Ordering::Relaxed);
        });
        engine.get_or_build(&request(1)).unwrap();
        let view = temp.path().join("rank_0/kernel_meta");
        let take = || {
            let lock = File::options().write(true).open(view.join(".opkeep.lock")).unwrap();
            lock.lock().unwrap();
            lock.set_modified(SystemTime::now()).unwrap();
            lock
        };
        let stopped = take();
        Arc::get_mut(&mut engine.state).unwrap().view_lock_timeout = Duration::from_millis(20);
        engine.get_or_build(&request(2)).unwrap();
        assert_eq!((pairs(&view), warned.load(Ordering::Relaxed)), (1, 1));
        // Neither new kernels nor known ones wait for it again, and nothing more is reported.
        Arc::get_mut(&mut engine.state).unwrap().view_lock_timeout = LONG;
        for length in [3, 2, 3] {
            engine.get_or_build(&request(length)).unwrap();
        }
        assert_eq!((pairs(&view), warned.load(Ordering::Relaxed)), (1, 1));
        // Another holder is waited for.
        drop(stopped);
        let working = take();
        assert!(!engine.state.contended.is_known());
        Arc::get_mut(&mut engine.state).unwrap().view_lock_timeout = Duration::from_millis(20);
        engine.get_or_build(&request(4)).unwrap();
        assert!(engine.state.contended.is_known());
        // Once the lock is free, the view gets the kernels of the meantime, too.
        drop(working);
        Arc::get_mut(&mut engine.state).unwrap().view_lock_timeout = LONG;
        for length in 2..=4 {
            engine.get_or_build(&request(length)).unwrap();
        }
        assert_eq!(pairs(&view), 4);
        assert!(!engine.state.contended.is_known());
    }
}
