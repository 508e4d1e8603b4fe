//! The conformance suite judges kernels of any format by the backend's own expectations and checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opkeep_artifact::{
    Artifact, ArtifactCheck, CheckId, CheckInput, Expectations, Format, MetadataRules, OpaqueRules, Severity,
};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context};
use opkeep_descriptor::{BuildSpec, Job, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_testkit::NullBackend;
use opkeep_testkit::conformance::{Subject, elementwise_cases, failures, trials};

/// A rule that the backend breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Its kernels begin with something else than its expectations say.
    OtherStart,
    /// It names a check and does not bring it.
    NoCheck,
    /// Its own check refuses its kernels.
    CheckRefuses,
    /// Its check has more findings than a failure can show.
    ManyFindings,
    OtherBytesEachTime,
    OtherMetadataEachTime,
    OnlyChecksCancelled,
}

/// Compiles each job to a text without metadata.
struct Text(Flaw);

/// How many kernels there were.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Backend for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        NullBackend::default().toolchain(cx)
    }

    fn op_sources(
        &self,
        cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        NullBackend::default().op_sources(cx, job, spec)
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        let start: &[u8] = if self.0 == Flaw::OtherStart { b"binary" } else { b"text" };
        let rules = OpaqueRules::new(start, 1 << 20).with_check(HasEnd(self.0).id());
        Expectations::new(spec.target.as_str(), Format::Opaque(rules), MetadataRules::None)
    }

    fn checks(&self) -> Vec<Arc<dyn ArtifactCheck>> {
        if self.0 == Flaw::NoCheck { Vec::new() } else { vec![Arc::new(HasEnd(self.0))] }
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        match self.0 {
            Flaw::OnlyChecksCancelled => cx.check_cancelled()?,
            _ => cx.check_running("a text")?,
        }
        self.op_sources(cx, request.job, request.spec)?;
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let text = match self.0 {
            Flaw::OtherBytesEachTime => format!("text {number} end"),
            Flaw::CheckRefuses => format!("text {} of {}", "x".repeat(1 << 20), request.name),
            _ => format!("text of {} end", request.name),
        };
        let metadata = if self.0 == Flaw::OtherMetadataEachTime { number.to_string() } else { String::new() };
        Ok(Artifact { metadata: metadata.into_bytes(), object: text.into_bytes(), extra: Vec::new() })
    }
}

struct HasEnd(Flaw);

impl ArtifactCheck for HasEnd {
    fn id(&self) -> CheckId {
        CheckId::new("has-end", 1)
    }

    fn check(&self, input: &CheckInput<'_>, found: &mut dyn FnMut(Severity, String)) {
        if !input.artifact.object.ends_with(b" end") {
            found(Severity::Error, "expected an end, found none".to_owned());
        }
        if self.0 == Flaw::ManyFindings {
            (0..1000).for_each(|number| found(Severity::Warning, format!("finding {number}")));
        }
    }
}

fn subject(flaw: Flaw) -> Subject {
    Subject {
        backend: Arc::new(move || Arc::new(Text(flaw))),
        spec: BuildSpec::new("text"),
        cases: elementwise_cases(),
        warning_case: None,
    }
}

#[test]
fn a_backend_of_another_format_passes() {
    assert_eq!(failures(&subject(Flaw::None)), [""; 0]);
    assert!(trials("", &subject(Flaw::None)).iter().any(|trial| trial.has_ignored_flag()));
}

#[test]
fn its_flaws_are_found() {
    let (compiled, crowd) = ("compiled_kernels_are_as_expected", "many_threads_compile_at_once");
    for (flaw, checks) in [
        (Flaw::OtherStart, &[compiled, crowd][..]),
        (Flaw::NoCheck, &[compiled, crowd]),
        (Flaw::CheckRefuses, &[compiled, crowd]),
        (Flaw::ManyFindings, &[compiled, crowd]),
        (Flaw::OtherBytesEachTime, &["compiling_again_elsewhere_gives_the_same_bytes"]),
        (Flaw::OtherMetadataEachTime, &["compiling_again_elsewhere_gives_the_same_bytes"]),
        (Flaw::OnlyChecksCancelled, &["a_compile_past_its_deadline_ends_as_timed_out"]),
    ] {
        assert_eq!(failures(&subject(flaw)), checks, "{flaw:?}");
    }
}

/// Whatever fails, its message has sizes and hashes in place of the bytes of kernels.
#[test]
fn a_failure_is_short() {
    for flaw in [Flaw::OtherStart, Flaw::CheckRefuses, Flaw::ManyFindings, Flaw::OnlyChecksCancelled] {
        let messages = opkeep_testkit::conformance::failure_messages(&subject(flaw));
        assert!(!messages.is_empty(), "{flaw:?}");
        for (name, message) in messages {
            assert!(message.len() < 1000, "{flaw:?} {name}: {} bytes", message.len());
        }
    }
}
