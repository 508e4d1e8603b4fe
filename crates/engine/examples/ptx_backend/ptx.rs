//! A backend that writes PTX text for `sm_90` from a template. A new device needs nothing else: no table of the workspace
//! knows this target, this format or this check.

use std::sync::Arc;

use opkeep::{
    Arg, Artifact, ArtifactCheck, Backend, BackendError, CheckId, CheckInput, CompileRequest, Context,
    Digest, Expectations, Fingerprint, Format, Job, MetadataRules, OpaqueRules, ResolvedSpec, Severity,
    Support, Unsupported,
};

/// The only target.
pub(crate) const TARGET: &str = "sm_90";

/// Operators, and the instruction that computes `%f2` from `%f1`.
const OPERATORS: [(&str, &str); 3] =
    [("Square", "mul.f32 %f2, %f1, %f1"), ("Neg", "neg.f32 %f2, %f1"), ("Abs", "abs.f32 %f2, %f1")];

/// The kernel. `NAME`, `COUNT` and `INSTRUCTION` are replaced.
const TEMPLATE: &str = include_str!("elementwise.ptx");

/// Writes PTX.
pub(crate) struct Ptx {
    /// Whether the backend has the check that its expectations name.
    pub(crate) has_check: bool,
}

impl Backend for Ptx {
    fn name(&self) -> &'static str {
        "ptx"
    }

    fn toolchain(&self, _: &Context<'_>) -> Result<Fingerprint, BackendError> {
        let mut fingerprint = Fingerprint::new();
        fingerprint.add("template", Digest::of(TEMPLATE.as_bytes()), "elementwise.ptx");
        Ok(fingerprint)
    }

    fn op_sources(&self, _: &Context<'_>, job: &Job, _: &ResolvedSpec) -> Result<Fingerprint, BackendError> {
        let mut fingerprint = Fingerprint::new();
        fingerprint.text("PTX", text(job, "kernel")?);
        Ok(fingerprint)
    }

    fn supports(&self, job: &Job, _: &ResolvedSpec) -> Support {
        text(job, "kernel").map_or_else(Support::No, |_| Support::Yes)
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        let rules = OpaqueRules::new(*b".version", 1 << 20).with_check(PtxText.id());
        Expectations::new(spec.target.as_str(), Format::Opaque(rules), MetadataRules::None)
    }

    fn checks(&self) -> Vec<Arc<dyn ArtifactCheck>> {
        if self.has_check { vec![Arc::new(PtxText)] } else { Vec::new() }
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        cx.check_running("the template")?;
        let object = text(request.job, request.name.as_str())?.into_bytes();
        Ok(Artifact { metadata: Vec::new(), object, extra: Vec::new() })
    }
}

/// Checks that a kernel is for the target and has an entry point.
pub(crate) struct PtxText;

impl ArtifactCheck for PtxText {
    fn id(&self) -> CheckId {
        CheckId::new("ptx-text", 1)
    }

    fn check(&self, input: &CheckInput<'_>, found: &mut dyn FnMut(Severity, String)) {
        let Ok(text) = std::str::from_utf8(&input.artifact.object) else {
            return found(Severity::Error, "it is no text".to_owned());
        };
        let target = &input.expectations.target;
        let has = |words: [&str; 2]| text.lines().any(|line| line.split_whitespace().take(2).eq(words));
        if !has([".target", target]) {
            found(Severity::Error, format!("expected `.target {target}`, found no such line"));
        }
        if !has([".visible", ".entry"]) {
            found(Severity::Error, "expected `.visible .entry`, found no such line".to_owned());
        }
    }
}

/// Returns the PTX of `job`, or the reason why there is none.
fn text(job: &Job, name: &str) -> Result<String, Unsupported> {
    let backend = "ptx";
    let [op] = &job.ops[..] else { return Err(Unsupported::Fused { backend, ops: job.ops.len() }) };
    let op_type = op.op_type.clone();
    let Some((_, instruction)) = OPERATORS.iter().find(|(known, _)| *known == op_type) else {
        return Err(Unsupported::Op { backend, op_type });
    };
    let output = op.outputs.iter().flat_map(Arg::iter).find(|output| output.dtype == "float32");
    let product = |n: u32, dim: &i64| n.checked_mul(u32::try_from(*dim).ok()?);
    let Some(count) = output.and_then(|output| output.shape.iter().try_fold(1, product)) else {
        return Err(Unsupported::Other { backend, op_type, problem: "it is not static float32".into() });
    };
    let text = TEMPLATE.replace("NAME", name).replace("COUNT", &count.to_string());
    Ok(text.replace("INSTRUCTION", instruction))
}
