//! The conformance suite, which every backend must pass.
//!
//! A backend's test is a program with `harness = false` that passes its backend and a few cases to [`main`]. Tests of
//! optional features that the backend lacks, such as a loader, show as ignored, never as passed.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use opkeep_artifact::Artifact;
use opkeep_backend::{Backend, BackendError, Buffer, CompileRequest, Context, LoadedKernel, Support};
use opkeep_cann_meta::KernelMeta;
use opkeep_descriptor::{BuildSpec, Job, KernelName, KeyParts, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_ops::Graph;
use opkeep_validator::{Finding, Report, Validator};

use crate::{TestContext, job};

/// A job that the backend must compile, with the results of its kernel.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The job.
    pub job: Job,
    /// The inputs.
    pub inputs: Vec<Vec<f32>>,
    /// The output, with varied values, so that a kernel that does nothing, or too little, fails.
    pub expected: Vec<f32>,
}

/// A backend under test.
#[derive(Clone)]
pub struct Subject {
    /// Creates the backend again.
    pub backend: Arc<dyn Fn() -> Arc<dyn Backend> + Send + Sync>,
    /// The target and options.
    pub spec: BuildSpec,
    /// The jobs that it must compile; at least two different ones.
    pub cases: Vec<Case>,
    /// Options that the backend must warn about, if it has warnings.
    pub warning_case: Option<WarningCase>,
}

/// A backend, and options that must cause a warning.
#[derive(Clone)]
pub struct WarningCase {
    /// Creates the backend.
    pub backend: Arc<dyn Fn() -> Arc<dyn Backend> + Send + Sync>,
    /// The target and options.
    pub spec: BuildSpec,
    /// A part of the warning's text.
    pub warning: &'static str,
}

/// The maximum number of findings in a failure.
const SHOWN: usize = 5;

/// A check. An error is the rule that the backend breaks.
type Check = fn(&Subject) -> Result<(), Failed>;

/// Every check, by name.
const CHECKS: [(&str, Check); 12] = [
    ("name_is_a_stable_lower_case_word", name),
    ("toolchain_is_repeatable_and_its_parts_have_names", toolchain),
    ("resolving_fills_in_defaults", resolving),
    ("unknown_operators_are_refused_with_a_reason", refusing),
    ("op_sources_are_repeatable_and_differ_between_jobs", op_sources),
    ("compiled_kernels_are_as_expected", compiling),
    ("compiling_again_elsewhere_gives_the_same_bytes", repeating),
    ("many_threads_compile_at_once", crowding),
    ("a_cancelled_compile_ends_as_cancelled", cancelling),
    ("every_call_can_be_cancelled_and_called_again", cancelling_every_call),
    ("a_compile_past_its_deadline_ends_as_timed_out", timing_out),
    ("warnings_reach_the_caller_of_each_call", warning),
];

/// Runs the suite as a test program.
pub fn main(subject: &Subject) -> ExitCode {
    finish(trials("", subject))
}

/// Runs the suite for each subject, as [`trials_for`] lists them.
pub fn main_for(subjects: &[(&str, Subject)], ignored: bool) -> ExitCode {
    finish(trials_for(subjects, ignored))
}

/// The suite for each subject, with its name. With `ignored`, every trial shows as ignored, since this machine lacks a
/// requirement.
pub fn trials_for(subjects: &[(&str, Subject)], ignored: bool) -> Vec<Trial> {
    let all = subjects.iter().flat_map(|(name, subject)| match ignored {
        true => CHECKS
            .iter()
            .map(|(check, _)| Trial::test(format!("{name}/{check}"), || Ok(())).with_ignored_flag(true))
            .collect(),
        false => trials(&format!("{name}/"), subject),
    });
    all.collect()
}

fn finish(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The suite for one subject, with `prefix` before each trial's name.
pub fn trials(prefix: &str, subject: &Subject) -> Vec<Trial> {
    let mut trials: Vec<Trial> = CHECKS
        .iter()
        .map(|(name, check)| {
            let subject = subject.clone();
            Trial::test(format!("{prefix}{name}"), move || check(&subject))
        })
        .collect();
    let loads = (subject.backend)().loader().is_some();
    for case in subject.cases.clone() {
        let subject = subject.clone();
        let trial = Trial::test(format!("{prefix}runs_{}", case.name), move || running(&subject, &case));
        trials.push(trial.with_ignored_flag(!loads));
    }
    trials
}

/// The names of the checks that `subject` fails.
pub fn failures(subject: &Subject) -> Vec<String> {
    failure_messages(subject).into_iter().map(|(name, _)| name).collect()
}

/// The names of the checks that `subject` fails, each with its message.
pub fn failure_messages(subject: &Subject) -> Vec<(String, String)> {
    let message = |failed: Failed| failed.message().unwrap_or_default().to_owned();
    let checks = CHECKS.iter().filter_map(|(name, check)| Some(((*name).to_owned(), check(subject).err()?)));
    let loads = (subject.backend)().loader().is_some();
    let runs = subject.cases.iter().filter(|_| loads).filter_map(|case| {
        let failed = running(subject, case).err()?;
        Some((format!("runs_{}", case.name), failed))
    });
    checks.chain(runs).map(|(name, failed)| (name, message(failed))).collect()
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn fail(error: impl std::fmt::Display) -> Failed {
    error.to_string().into()
}

fn name(subject: &Subject) -> Result<(), Failed> {
    let (one, two) = ((subject.backend)(), (subject.backend)());
    let plain =
        one.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    ensure(plain && !one.name().is_empty(), || format!("`{}` is no lower-case word", one.name()))?;
    ensure(one.name() == two.name(), || "the name changes".to_owned())
}

fn toolchain(subject: &Subject) -> Result<(), Failed> {
    let caller = TestContext::new();
    let one = (subject.backend)().toolchain(&caller.cx()).map_err(fail)?;
    let two = (subject.backend)().toolchain(&caller.cx()).map_err(fail)?;
    ensure(!one.parts().is_empty(), || "no parts".to_owned())?;
    ensure(one == two, || format!("two probes differ: {:?}", one.diff(&two)))?;
    let nameless = one.parts().iter().find(|part| part.name.is_empty() || part.note.is_empty());
    ensure(nameless.is_none(), || format!("a part says nothing: {nameless:?}"))
}

fn resolving(subject: &Subject) -> Result<(), Failed> {
    let backend = (subject.backend)();
    let mut explicit = subject.spec.clone();
    explicit.options.insert("op_debug_level".into(), "0".into());
    let (absent, explicit) = (resolve(&*backend, &subject.spec)?, resolve(&*backend, &explicit)?);
    ensure(!absent.debug && !explicit.debug, || "level 0 is no debugging".to_owned())?;
    ensure(!absent.target.is_empty(), || "no target".to_owned())?;
    let mut debugging = subject.spec.clone();
    debugging.options.insert("op_debug_level".into(), "1".into());
    let debugging = resolve(&*backend, &debugging)?;
    ensure(debugging.debug && debugging.digest() != absent.digest(), || "level 1 does not count".to_owned())
}

fn refusing(subject: &Subject) -> Result<(), Failed> {
    let backend = (subject.backend)();
    let spec = resolve(&*backend, &subject.spec)?;
    let mut unknown = subject.cases[0].job.clone();
    unknown.ops[0].op_type = "NoSuchOperator".to_owned();
    let support = backend.supports(&unknown, &spec);
    match &support {
        Support::No(reason) => {
            ensure(reason.to_string().contains("NoSuchOperator"), || format!("`{reason}` does not name it"))?;
        }
        Support::Unknown => {}
        Support::Yes => return Err("an operator that does not exist is supported".into()),
    }
    match backend.op_sources(&TestContext::new().cx(), &unknown, &spec) {
        Err(BackendError::Unsupported(reason)) => {
            ensure(reason.to_string().contains("NoSuchOperator"), || format!("`{reason}` does not name it"))?;
        }
        Ok(_) if support == Support::Unknown => {}
        other => return Err(format!("its sources are {other:?}").into()),
    }
    match compile(&*backend, &spec, &unknown) {
        Err(BackendError::Unsupported(_) | BackendError::Compile { .. }) => {}
        other => return Err(format!("compiling it gives {other:?}").into()),
    }
    for case in &subject.cases {
        let answer = backend.supports(&case.job, &spec);
        ensure(!matches!(answer, Support::No(_)), || format!("{}: {answer:?}", case.name))?;
    }
    Ok(())
}

fn op_sources(subject: &Subject) -> Result<(), Failed> {
    let (one, two) = ((subject.backend)(), (subject.backend)());
    let caller = TestContext::new();
    let mut digests = Vec::new();
    for case in &subject.cases {
        let spec = resolve(&*one, &subject.spec)?;
        let first = one.op_sources(&caller.cx(), &case.job, &spec).map_err(fail)?;
        let second = two.op_sources(&caller.cx(), &case.job, &spec).map_err(fail)?;
        ensure(first == second, || format!("{}: two looks differ: {:?}", case.name, first.diff(&second)))?;
        digests.push(first.digest());
    }
    digests.sort_unstable();
    digests.dedup();
    ensure(digests.len() > 1, || "operators of different sources share one fingerprint".to_owned())
}

fn compiling(subject: &Subject) -> Result<(), Failed> {
    let backend = (subject.backend)();
    let spec = resolve(&*backend, &subject.spec)?;
    for case in &subject.cases {
        let (name, artifact) = compile(&*backend, &spec, &case.job).map_err(fail)?;
        let report = valid(&*backend, &spec, case, &artifact)?;
        // A kernel without such metadata has its name where the backend's own check finds it.
        let names = report.entry_names();
        ensure(names.iter().all(|entry| entry.starts_with(name.as_str())), || {
            format!("{}: kernels {names:?} are not called {name}", case.name)
        })?;
    }
    Ok(())
}

/// Judges a kernel as the engine does: by the backend's expectations and by the checks that it brings. Returns the
/// report, which has no finding.
fn valid(
    backend: &dyn Backend,
    spec: &ResolvedSpec,
    case: &Case,
    artifact: &Artifact,
) -> Result<Report, Failed> {
    let validator = backend.checks().into_iter().fold(Validator::builtin(), Validator::with);
    let report = validator.validate(artifact, &backend.expectations(spec));
    let mut findings: Vec<String> = report.findings.iter().take(SHOWN).map(Finding::to_string).collect();
    if let Some(more @ 1..) = report.findings.len().checked_sub(SHOWN) {
        findings.push(format!("and {more} more"));
    }
    ensure(findings.is_empty(), || format!("{}: {}", case.name, findings.join("; ")))?;
    Ok(report)
}

fn repeating(subject: &Subject) -> Result<(), Failed> {
    let spec = resolve(&*(subject.backend)(), &subject.spec)?;
    for case in &subject.cases {
        let (_, one) = compile(&*(subject.backend)(), &spec, &case.job).map_err(fail)?;
        let (_, two) = compile(&*(subject.backend)(), &spec, &case.job).map_err(fail)?;
        ensure(one.object == two.object, || format!("{}: the objects differ", case.name))?;
        // A tool may write its work directory into the `.json`; the fields for a launch must be equal.
        let needed = |artifact: &Artifact| {
            KernelMeta::parse(&artifact.metadata)
                .map(|meta| (meta.kernel_name, meta.block_dim, meta.sha256, meta.magic))
        };
        let same = match (needed(&one), needed(&two)) {
            (Ok(one), Ok(two)) => one == two,
            // Metadata of another form: all of it counts.
            _ => one.metadata == two.metadata,
        };
        ensure(same, || format!("{}: the metadata differ", case.name))?;
    }
    Ok(())
}

fn crowding(subject: &Subject) -> Result<(), Failed> {
    let backend = (subject.backend)();
    let spec = resolve(&*backend, &subject.spec)?;
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|at| {
                let (backend, spec, start) = (&backend, &spec, &start);
                let case = &subject.cases[at % subject.cases.len()];
                scope.spawn(move || {
                    start.wait();
                    let (_, artifact) = compile(&**backend, spec, &case.job).map_err(fail)?;
                    valid(&**backend, spec, case, &artifact).map(drop)
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| Failed::from("a compile panicked"))??;
        }
        Ok(())
    })
}

fn cancelling(subject: &Subject) -> Result<(), Failed> {
    for (backend, spec) in known_and_new(subject)? {
        let job = &subject.cases[0].job;
        match compile_with(&*backend, &spec, job, &cancelled()) {
            Err(BackendError::Cancelled) => {}
            other => return Err(format!("expected Cancelled, found {other:?}").into()),
        }
        // A later call is not affected.
        compile(&*backend, &spec, job).map_err(fail)?;
    }
    Ok(())
}

/// A backend and the effective options.
type Resolved = (Arc<dyn Backend>, ResolvedSpec);

/// A backend that knows its toolchain, and one that must find it first.
fn known_and_new(subject: &Subject) -> Result<[Resolved; 2], Failed> {
    let [known, new] = [(subject.backend)(), (subject.backend)()];
    known.toolchain(&TestContext::new().cx()).map_err(fail)?;
    let (known_spec, new_spec) = (resolve(&*known, &subject.spec)?, resolve(&*new, &subject.spec)?);
    Ok([(known, known_spec), (new, new_spec)])
}

/// A cancelled caller.
fn cancelled() -> TestContext {
    let caller = TestContext::new();
    caller.cancel.cancel();
    caller
}

/// A cancelled call leaves no state: the same call of the same backend succeeds afterwards.
fn cancelling_every_call(subject: &Subject) -> Result<(), Failed> {
    let (backend, job) = ((subject.backend)(), &subject.cases[0].job);
    let spec = resolve(&*backend, &subject.spec)?;
    let mut graph = Graph::new("cancelled");
    let x = graph.input("x", "float32", [3]);
    graph.node("node", "Square", &[x], []).map_err(fail)?;
    type Call<'a> = &'a dyn Fn(&Context<'_>) -> Result<(), BackendError>;
    let calls: [(&str, Call<'_>); 4] = [
        ("resolve", &|cx| backend.resolve(cx, &subject.spec).map(drop)),
        ("rewrite_graph", &|cx| backend.rewrite_graph(cx, graph.clone(), &spec).map(drop)),
        ("toolchain", &|cx| backend.toolchain(cx).map(drop)),
        ("op_sources", &|cx| backend.op_sources(cx, job, &spec).map(drop)),
    ];
    for (name, call) in calls {
        let cancelled = call(&cancelled().cx());
        // A known answer needs no time.
        ensure(matches!(cancelled, Ok(()) | Err(BackendError::Cancelled)), || {
            format!("a cancelled `{name}` gives {cancelled:?}")
        })?;
        call(&TestContext::new().cx())
            .map_err(|error| format!("`{name}` after it was cancelled: {error}"))?;
    }
    backend.warm_up(&cancelled().cx());
    backend.toolchain(&TestContext::new().cx()).map(drop).map_err(fail)
}

fn timing_out(subject: &Subject) -> Result<(), Failed> {
    let job = &subject.cases[0].job;
    for (backend, spec) in known_and_new(subject)? {
        match compile_with(&*backend, &spec, job, &TestContext::new().with_deadline(Some(Instant::now()))) {
            Err(BackendError::TimedOut { .. }) => {}
            other => return Err(format!("expected TimedOut, found {other:?}").into()),
        }
        compile(&*backend, &spec, job).map_err(fail)?;
    }
    Ok(())
}

fn warning(subject: &Subject) -> Result<(), Failed> {
    let job = &subject.cases[0].job;
    let warnings = |backend: &dyn Backend, spec: &BuildSpec| {
        let caller = TestContext::new();
        let spec = backend.resolve(&caller.cx(), spec)?;
        backend.toolchain(&caller.cx())?;
        backend.op_sources(&caller.cx(), job, &spec)?;
        Ok::<_, BackendError>(caller.warnings())
    };
    let none = warnings(&*(subject.backend)(), &subject.spec).map_err(fail)?;
    ensure(none.is_empty(), || format!("warnings without a reason: {none:?}"))?;
    let Some(WarningCase { backend, spec, warning }) = &subject.warning_case else { return Ok(()) };
    let backend = backend();
    // A backend may serve several callers, and each has a user.
    for _ in 0..2 {
        let found = warnings(&*backend, spec).map_err(fail)?;
        ensure(found.iter().any(|text| text.contains(warning)), || format!("no `{warning}` in {found:?}"))?;
    }
    Ok(())
}

/// The effective options of `spec`.
fn resolve(backend: &dyn Backend, spec: &BuildSpec) -> Result<ResolvedSpec, Failed> {
    backend.resolve(&TestContext::new().cx(), spec).map_err(fail)
}

fn running(subject: &Subject, case: &Case) -> Result<(), Failed> {
    let backend = (subject.backend)();
    let spec = resolve(&*backend, &subject.spec)?;
    let (_, artifact) = compile(&*backend, &spec, &case.job).map_err(fail)?;
    let loader = backend.loader().ok_or("no loader")?;
    let kernel = loader.load(&artifact, &case.job).map_err(fail)?;
    let inputs: Vec<Buffer> = case.inputs.iter().map(|values| Buffer::of_f32(values)).collect();
    let input_bytes: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    for threads in [1, 3] {
        let mut output = Buffer::zeroed(case.expected.len() * 4);
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        kernel.launch(&input_bytes, &mut [output.bytes_mut()], threads).map_err(fail)?;
        let found = output.to_f32();
        let differs = found.iter().zip(&case.expected).position(|(found, expected)| found != expected);
        ensure(differs.is_none(), || {
            let at = differs.unwrap_or_default();
            format!("element {at} of the output: expected {}, found {}", case.expected[at], found[at])
        })?;
    }
    misfits(case, &*kernel, &input_bytes)
}

/// Launches with buffers that do not fit: each is refused, and the kernel does not run.
fn misfits(case: &Case, kernel: &dyn LoadedKernel, inputs: &[&[u8]]) -> Result<(), Failed> {
    let bytes = case.expected.len() * 4;
    let mut output = Buffer::zeroed(bytes + 1);
    let shifted = inputs[0].to_vec();
    let mut odd = Buffer::zeroed(shifted.len() + 1);
    odd.bytes_mut()[1..].copy_from_slice(&shifted);
    let mut unaligned = inputs.to_vec();
    unaligned[0] = &odd.bytes()[1..];
    let one = NonZeroUsize::MIN;
    let launches = [
        ("too short an output", kernel.launch(inputs, &mut [&mut output.bytes_mut()[..bytes - 1]], one)),
        ("an unaligned output", kernel.launch(inputs, &mut [&mut output.bytes_mut()[1..]], one)),
        ("no output", kernel.launch(inputs, &mut [], one)),
        ("no input", kernel.launch(&[], &mut [&mut output.bytes_mut()[..bytes]], one)),
        ("an unaligned input", kernel.launch(&unaligned, &mut [&mut output.bytes_mut()[..bytes]], one)),
    ];
    for (what, result) in launches {
        ensure(matches!(result, Err(BackendError::Launch { .. })), || format!("{what} gives {result:?}"))?;
    }
    ensure(output.bytes().iter().all(|byte| *byte == 0), || "something ran".to_owned())
}

fn compile(
    backend: &dyn Backend,
    spec: &ResolvedSpec,
    job: &Job,
) -> Result<(KernelName, Artifact), BackendError> {
    compile_with(backend, spec, job, &TestContext::new())
}

fn compile_with(
    backend: &dyn Backend,
    spec: &ResolvedSpec,
    job: &Job,
    caller: &TestContext,
) -> Result<(KernelName, Artifact), BackendError> {
    let dir = tempfile::tempdir().map_err(|source| BackendError::Io {
        action: "make",
        path: "a work directory".into(),
        source,
    })?;
    let parts = KeyParts::new(backend.name(), job, spec, Fingerprint::new(), Fingerprint::new());
    let name = KernelName::new(job, &parts.key());
    let work_dir = dir.path().join("work");
    #[expect(clippy::disallowed_methods, reason = "a suite for compilers needs directories for them")]
    let made = std::fs::create_dir(&work_dir);
    made.map_err(|source| BackendError::Io { action: "make", path: work_dir.clone(), source })?;
    let request = CompileRequest { job, spec, name: &name, work_dir: &work_dir };
    let artifact = backend.compile(&caller.cx(), &request)?;
    // All files that it wrote are in its directory, none beside it.
    #[expect(clippy::disallowed_methods, reason = "looking at what a compiler left")]
    let beside = std::fs::read_dir(dir.path()).map_or(0, |entries| entries.count());
    if beside != 1 {
        let problem = format!("{} files are beside the work directory", beside - 1);
        let (command, log_tail) = ("compile".to_owned(), String::new());
        return Err(BackendError::MissingOutput { command, problem, log_tail, log: None });
    }
    Ok((name, artifact))
}

/// Elementwise cases for any backend: one input, two inputs, and broadcasting.
pub fn elementwise_cases() -> Vec<Case> {
    vec![
        Case {
            name: "square",
            job: job("Square", &[&[3]]),
            inputs: vec![vec![1.0, 4.0, -9.0]],
            expected: vec![1.0, 16.0, 81.0],
        },
        Case {
            name: "sub_of_a_row",
            job: job("Sub", &[&[2, 3], &[3]]),
            inputs: vec![vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![10.0, 20.0, 30.0]],
            expected: vec![-9.0, -18.0, -27.0, -6.0, -15.0, -24.0],
        },
        Case {
            name: "sub_from_a_column",
            job: job("Sub", &[&[2, 1], &[1, 3]]),
            inputs: vec![vec![1.0, 2.0], vec![10.0, 20.0, 30.0]],
            expected: vec![-9.0, -19.0, -29.0, -8.0, -18.0, -28.0],
        },
    ]
}
