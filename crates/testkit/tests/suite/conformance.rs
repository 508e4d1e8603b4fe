//! Each check of the conformance suite fails for a backend that breaks its rule.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use opkeep_artifact::{Artifact, Expectations};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context, LoadedKernel, Loader, Slot, Support};
use opkeep_descriptor::{Arg, BuildSpec, Job, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_ops::Graph;
use opkeep_testkit::conformance::{Subject, WarningCase, elementwise_cases, failures};
use opkeep_testkit::{NullBackend, TestContext};

/// A rule that a backend breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    UpperCaseName,
    NoParts,
    PartWithoutNote,
    OtherToolchainEachTime,
    NeverDebug,
    AlwaysDebug,
    SupportsAnything,
    SourcesOfAnything,
    CompilesAnything,
    OneFingerprint,
    OtherSourcesEachTime,
    OtherName,
    WritesBeside,
    OtherBytesEachTime,
    OneAtATime,
    IgnoresCancel,
    CancelIsAnError(Call),
    StaysCancelled(Call),
    StaysCancelledByWarmUp,
    IgnoresDeadline,
    StaysTimedOut,
    WarnsOfNothing,
    NeverWarns,
    WarnsOnce,
    WrongResult,
    DependsOnThreads,
    TakesAnyBuffer,
    RunsBeforeItRefuses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Resolve,
    RewriteGraph,
    Toolchain,
    OpSources,
    Compile,
}

/// The null backend with a flaw, and with a loader.
struct Flawed {
    null: NullBackend,
    flaw: Flaw,
    is_odd: bool,
    is_stuck: AtomicBool,
    running: AtomicUsize,
}

/// How many backends and compiles there were.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn next() -> String {
    COUNT.fetch_add(1, Ordering::SeqCst).to_string()
}

impl Flawed {
    fn new(flaw: Flaw, is_odd: bool) -> Self {
        let null = NullBackend::default();
        if is_odd {
            null.warn_of("something is odd");
        }
        Self { null, flaw, is_odd, is_stuck: AtomicBool::new(false), running: AtomicUsize::new(0) }
    }

    /// The part of each call that has to do with cancelling.
    fn enter(&self, cx: &Context<'_>, call: Call) -> Result<(), BackendError> {
        let is_cancelled = cx.cancel.is_cancelled();
        if self.flaw == Flaw::StaysCancelled(call) && self.is_stuck.fetch_or(is_cancelled, Ordering::SeqCst) {
            return Err(BackendError::Cancelled);
        }
        match self.flaw == Flaw::CancelIsAnError(call) && is_cancelled {
            true => Err(failure("interrupted")),
            false => Ok(()),
        }
    }
}

fn failure(text: &str) -> BackendError {
    BackendError::Toolchain { problem: text.to_owned(), help: String::new(), tool: None }
}

impl Backend for Flawed {
    fn name(&self) -> &'static str {
        if self.flaw == Flaw::UpperCaseName { "Null" } else { "null" }
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        self.enter(cx, Call::Toolchain)?;
        if self.flaw == Flaw::StaysCancelledByWarmUp && self.is_stuck.load(Ordering::SeqCst) {
            return Err(BackendError::Cancelled);
        }
        if self.flaw == Flaw::WarnsOfNothing && !self.is_odd {
            cx.warn("nothing is odd");
        }
        let silent = TestContext::new();
        let is_silent = self.flaw == Flaw::NeverWarns
            || self.flaw == Flaw::WarnsOnce && self.is_odd && self.is_stuck.swap(true, Ordering::SeqCst);
        let mut fingerprint = self.null.toolchain(&if is_silent { silent.cx() } else { *cx })?;
        match self.flaw {
            Flaw::NoParts => fingerprint = Fingerprint::new(),
            Flaw::PartWithoutNote => fingerprint.text("version", ""),
            Flaw::OtherToolchainEachTime => fingerprint.text("time", next()),
            _ => {}
        }
        Ok(fingerprint)
    }

    fn op_sources(
        &self,
        cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        self.enter(cx, Call::OpSources)?;
        let is_known = self.supports(job, spec) == Support::Yes;
        match self.flaw {
            Flaw::OneFingerprint if is_known => Ok(Fingerprint::new()),
            Flaw::SourcesOfAnything if !is_known => Ok(Fingerprint::new()),
            Flaw::OtherSourcesEachTime => {
                let mut sources = self.null.op_sources(cx, job, spec)?;
                sources.text("time", next());
                Ok(sources)
            }
            _ => self.null.op_sources(cx, job, spec),
        }
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        self.null.expectations(spec)
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        self.enter(cx, Call::Compile)?;
        let is_late = cx.deadline.is_some_and(|deadline| deadline <= Instant::now());
        if self.flaw == Flaw::StaysTimedOut && self.is_stuck.fetch_or(is_late, Ordering::SeqCst) {
            let (command, log_tail) = ("null".to_owned(), String::new());
            return Err(BackendError::TimedOut { command, seconds: 0.0, log_tail, log: None });
        }
        if self.flaw == Flaw::OneAtATime {
            self.running.fetch_add(1, Ordering::SeqCst);
            let began = Instant::now();
            // The checks that compile one after the other find it in order.
            while self.running.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_millis(200) {
                std::thread::yield_now();
            }
            if self.running.fetch_sub(1, Ordering::SeqCst) > 1 {
                return Err(failure("another compile runs"));
            }
        }
        if self.flaw == Flaw::WritesBeside {
            #[expect(clippy::disallowed_methods, reason = "a compiler writes")]
            std::fs::write(request.work_dir.with_extension("log"), "").unwrap();
        }
        let patient = TestContext::new();
        let cx = match self.flaw {
            Flaw::IgnoresCancel => patient.cx().with_deadline(cx.deadline),
            Flaw::IgnoresDeadline => cx.with_deadline(None),
            _ => *cx,
        };
        if self.flaw == Flaw::CompilesAnything {
            let mut known = request.job.clone();
            known.ops.iter_mut().for_each(|op| op.op_type = "Square".to_owned());
            return self.null.compile(&cx, &CompileRequest { job: &known, ..*request });
        }
        if self.flaw == Flaw::OtherBytesEachTime {
            self.null.upgrade(&next());
        }
        let mut artifact = self.null.compile(&cx, request)?;
        if self.flaw == Flaw::OtherName {
            let text = String::from_utf8(artifact.metadata).unwrap();
            artifact.metadata = text.replace(request.name.as_str(), "another").into_bytes();
        }
        Ok(artifact)
    }

    fn resolve(&self, cx: &Context<'_>, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        self.enter(cx, Call::Resolve)?;
        let mut resolved = self.null.resolve(cx, spec)?;
        match self.flaw {
            Flaw::NeverDebug => resolved.debug = false,
            Flaw::AlwaysDebug => resolved.debug = true,
            _ => {}
        }
        Ok(resolved)
    }

    fn supports(&self, job: &Job, spec: &ResolvedSpec) -> Support {
        match self.flaw {
            Flaw::SupportsAnything => Support::Yes,
            _ => self.null.supports(job, spec),
        }
    }

    fn warm_up(&self, cx: &Context<'_>) {
        self.is_stuck.fetch_or(
            self.flaw == Flaw::StaysCancelledByWarmUp && cx.cancel.is_cancelled(),
            Ordering::SeqCst,
        );
    }

    fn rewrite_graph(&self, cx: &Context<'_>, graph: Graph, _: &ResolvedSpec) -> Result<Graph, BackendError> {
        self.enter(cx, Call::RewriteGraph).map(|()| graph)
    }

    fn loader(&self) -> Option<&dyn Loader> {
        Some(self)
    }
}

impl Loader for Flawed {
    fn load(&self, _: &Artifact, job: &Job) -> Result<Box<dyn LoadedKernel>, BackendError> {
        let case = elementwise_cases().into_iter().find(|case| case.job == *job).unwrap();
        let op = &job.ops[0];
        let tensors = op.inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor);
        let inputs = tensors.map(|tensor| Slot::of(tensor, "null")).collect::<Result<Vec<_>, _>>()?;
        let outputs = op.outputs.iter().flat_map(Arg::iter).map(|tensor| Slot::of(tensor, "null"));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Kernel { flaw: self.flaw, inputs, outputs, result: case.expected }))
    }
}

/// A kernel that knows its result.
struct Kernel {
    flaw: Flaw,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    result: Vec<f32>,
}

impl LoadedKernel for Kernel {
    fn inputs(&self) -> &[Slot] {
        &self.inputs
    }

    fn outputs(&self) -> &[Slot] {
        &self.outputs
    }

    fn launch(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        threads: NonZeroUsize,
    ) -> Result<(), BackendError> {
        let checked = Slot::check("null", (&self.inputs, inputs), (&self.outputs, outputs));
        if checked.is_err() && !matches!(self.flaw, Flaw::TakesAnyBuffer | Flaw::RunsBeforeItRefuses) {
            return checked;
        }
        let is_wrong = match self.flaw {
            Flaw::WrongResult => true,
            Flaw::DependsOnThreads => threads.get() > 1,
            _ => false,
        };
        for (place, value) in outputs.iter_mut().flat_map(|it| it.chunks_exact_mut(4)).zip(&self.result) {
            place.copy_from_slice(&(if is_wrong { value + 1.0 } else { *value }).to_ne_bytes());
        }
        if self.flaw == Flaw::RunsBeforeItRefuses { checked } else { Ok(()) }
    }
}

fn failures_with(flaw: Flaw) -> Vec<String> {
    let backend = move |is_odd| {
        let backend: Arc<dyn Fn() -> Arc<dyn Backend> + Send + Sync> =
            Arc::new(move || Arc::new(Flawed::new(flaw, is_odd)));
        backend
    };
    let spec = BuildSpec::new("null");
    let warning_case =
        WarningCase { backend: backend(true), spec: spec.clone(), warning: "something is odd" };
    failures(&Subject {
        backend: backend(false),
        spec,
        cases: elementwise_cases(),
        warning_case: Some(warning_case),
    })
}

#[test]
fn a_backend_without_a_flaw_passes() {
    assert_eq!(failures_with(Flaw::None), [""; 0]);
}

#[test]
fn each_check_finds_the_flaws_that_it_is_for() {
    let cancelled = "every_call_can_be_cancelled_and_called_again";
    let runs = "runs_square";
    for (flaw, check) in [
        (Flaw::UpperCaseName, "name_is_a_stable_lower_case_word"),
        (Flaw::NoParts, "toolchain_is_repeatable_and_its_parts_have_names"),
        (Flaw::PartWithoutNote, "toolchain_is_repeatable_and_its_parts_have_names"),
        (Flaw::OtherToolchainEachTime, "toolchain_is_repeatable_and_its_parts_have_names"),
        (Flaw::NeverDebug, "resolving_fills_in_defaults"),
        (Flaw::AlwaysDebug, "resolving_fills_in_defaults"),
        (Flaw::SupportsAnything, "unknown_operators_are_refused_with_a_reason"),
        (Flaw::SourcesOfAnything, "unknown_operators_are_refused_with_a_reason"),
        (Flaw::CompilesAnything, "unknown_operators_are_refused_with_a_reason"),
        (Flaw::OneFingerprint, "op_sources_are_repeatable_and_differ_between_jobs"),
        (Flaw::OtherSourcesEachTime, "op_sources_are_repeatable_and_differ_between_jobs"),
        (Flaw::OtherName, "compiled_kernels_are_as_expected"),
        (Flaw::WritesBeside, "compiled_kernels_are_as_expected"),
        (Flaw::OtherBytesEachTime, "compiling_again_elsewhere_gives_the_same_bytes"),
        (Flaw::OneAtATime, "many_threads_compile_at_once"),
        (Flaw::IgnoresCancel, "a_cancelled_compile_ends_as_cancelled"),
        (Flaw::CancelIsAnError(Call::Compile), "a_cancelled_compile_ends_as_cancelled"),
        (Flaw::StaysCancelled(Call::Compile), "a_cancelled_compile_ends_as_cancelled"),
        (Flaw::CancelIsAnError(Call::Resolve), cancelled),
        (Flaw::StaysCancelled(Call::Resolve), cancelled),
        (Flaw::CancelIsAnError(Call::RewriteGraph), cancelled),
        (Flaw::StaysCancelled(Call::RewriteGraph), cancelled),
        (Flaw::CancelIsAnError(Call::Toolchain), cancelled),
        (Flaw::StaysCancelled(Call::Toolchain), cancelled),
        (Flaw::CancelIsAnError(Call::OpSources), cancelled),
        (Flaw::StaysCancelled(Call::OpSources), cancelled),
        (Flaw::StaysCancelledByWarmUp, cancelled),
        (Flaw::IgnoresDeadline, "a_compile_past_its_deadline_ends_as_timed_out"),
        (Flaw::StaysTimedOut, "a_compile_past_its_deadline_ends_as_timed_out"),
        (Flaw::WarnsOfNothing, "warnings_reach_the_caller_of_each_call"),
        (Flaw::NeverWarns, "warnings_reach_the_caller_of_each_call"),
        (Flaw::WarnsOnce, "warnings_reach_the_caller_of_each_call"),
        (Flaw::WrongResult, runs),
        (Flaw::DependsOnThreads, runs),
        (Flaw::TakesAnyBuffer, runs),
        (Flaw::RunsBeforeItRefuses, runs),
    ] {
        let found = failures_with(flaw);
        assert!(found.iter().any(|name| name == check), "{flaw:?}: {found:?}");
    }
}
