//! The validator: the rules of this crate, and the backends' own checks.

use std::sync::Arc;

use opkeep_artifact::{
    Artifact, ArtifactCheck, CheckId, CheckInput, Expectations, Format, MetadataRules, OpaqueRules, Severity,
};
use opkeep_cann_meta::targets::Magics;
use opkeep_digest::Digest;

use crate::cann::objects::Objects;
use crate::code::Code;
use crate::expected::Expected;
use crate::findings::Findings;
use crate::judge::{RULES_VERSION, judge_objects, report, validate};
use crate::kernel_symbols::KernelSymbols;
use crate::problem::{DescriptionProblem, Problem};
use crate::report::{CheckStatus, Report};

/// The number of rule versions within each version of a check in a stamp.
const RULES_PER_CHECK: u32 = 1000;

/// Validates kernels against their targets' expectations.
///
/// ```
/// use opkeep_artifact::{Artifact, Expectations, Format, MetadataRules, OpaqueRules};
/// use opkeep_validator::{Code, Validator};
///
/// let ptx = Format::Opaque(OpaqueRules::new(*b"//", 1 << 20));
/// let expected = Expectations::new("sm_90", ptx, MetadataRules::None);
/// let artifact = Artifact { metadata: Vec::new(), object: b".version 8.0".to_vec(), extra: Vec::new() };
/// let report = Validator::builtin().validate(&artifact, &expected);
/// assert_eq!(report.errors().next().unwrap().code(), Code::OPAQUE_START);
/// ```
#[derive(Clone, Default)]
pub struct Validator {
    checks: Vec<Arc<dyn ArtifactCheck>>,
}

impl Validator {
    /// The rules of this crate without further checks.
    pub fn builtin() -> Self {
        Self::default()
    }

    /// Adds a backend's own check.
    #[must_use]
    pub fn with(mut self, check: Arc<dyn ArtifactCheck>) -> Self {
        self.checks.push(check);
        self
    }

    /// Validates the kernel and its metadata. If a required check is not available, everything else is validated, and
    /// [`Report::status`] names the check.
    pub fn validate(&self, artifact: &Artifact, expectations: &Expectations) -> Report {
        if Expected::of(expectations).is_some() {
            return validate(&artifact.metadata, &artifact.object, expectations);
        }
        let mut findings = Findings::new();
        let symbols = KernelSymbols::of(expectations);
        let kernel = symbols.as_ref().and_then(|it| it.kernel_name(&artifact.metadata, &mut findings));
        let facts = match &expectations.format {
            Format::Elf(elf) => {
                let expected = Expected { target: &expectations.target, elf, magics: Magics::default() };
                let objects = Objects::read(&artifact.object, None, &expected, &mut findings);
                let facts = judge_objects(&objects, None, &expected, &mut findings);
                if let (Some(symbols), [object, ..]) = (&symbols, objects.list.as_slice())
                    && elf.machines.contains(&object.machine.0)
                {
                    symbols.judge(object, expected.target, kernel.as_deref(), &mut findings);
                }
                facts
            }
            Format::Opaque(rules) => {
                judge_opaque(&artifact.object, &expectations.target, rules, &mut findings);
                Vec::new()
            }
            _ => Vec::new(),
        };
        if symbols.is_none()
            && expectations.metadata != MetadataRules::None
            && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&artifact.metadata)
        {
            findings.add(Code::FIELD, || DescriptionProblem::no_json(&error));
        }
        let mut report = Report { sha256: Some(Digest::of(&artifact.object)), ..report(facts, findings) };
        for check in required(expectations) {
            match self.checks.iter().find(|known| known.id() == *check) {
                Some(known) => run(known.as_ref(), artifact, expectations, &mut report),
                None => {
                    report.add(Problem::Unverified { check: check.clone() });
                    report.status = CheckStatus::Unavailable(check.clone());
                }
            }
        }
        report
    }

    /// The stamp to record with a kernel that these rules validated; later versions have greater stamps. 0 if a
    /// required check is not available: a program with the check must validate the kernel again.
    pub fn stamp(&self, expectations: &Expectations) -> u32 {
        let mut stamp = RULES_VERSION;
        for check in required(expectations) {
            if !self.checks.iter().any(|known| known.id() == *check) {
                return 0;
            }
            stamp = stamp.saturating_add(check.version.saturating_mul(RULES_PER_CHECK));
        }
        stamp
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|check| check.id())).finish()
    }
}

/// The required checks that are no rules of this crate, including its own checks in a version or for a format without
/// rules.
fn required(expectations: &Expectations) -> impl Iterator<Item = &CheckId> {
    let of_object = match &expectations.format {
        Format::Opaque(rules) => rules.check.as_ref(),
        _ => None,
    };
    let of_metadata = match &expectations.metadata {
        MetadataRules::Checked { check, .. } => Some(check)
            .filter(|_| Expected::of(expectations).is_none() && KernelSymbols::of(expectations).is_none()),
        _ => None,
    };
    of_object.into_iter().chain(of_metadata)
}

fn run(check: &dyn ArtifactCheck, artifact: &Artifact, expectations: &Expectations, report: &mut Report) {
    let input = CheckInput::new(artifact, expectations);
    check.check(&input, &mut |severity: Severity, message: String| {
        report.add(Problem::Check { check: check.id(), severity, message });
    });
}

fn judge_opaque(object: &[u8], target: &str, rules: &OpaqueRules, findings: &mut Findings) {
    let OpaqueRules { starts_with, max_bytes, .. } = rules;
    if !object.starts_with(starts_with) {
        findings.add(Code::OPAQUE_START, || Problem::OpaqueStart {
            target: target.to_owned(),
            expected: starts_with.clone(),
            found: object[..object.len().min(starts_with.len())].to_vec(),
        });
    }
    if object.len() as u64 > *max_bytes {
        findings.add(Code::TOO_LONG, || Problem::TooLong {
            target: target.to_owned(),
            expected: *max_bytes,
            found: object.len() as u64,
        });
    }
}
