//! The verdict: what was seen, and what was found about it.

use std::cmp::Reverse;

use opkeep_artifact::CheckId;
use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;

use crate::cann::claims::is_short_form;
use crate::code::{Code, Severity};
use crate::cross_check::CrossCheck;
use crate::display::shown;
use crate::elf::facts::{ElfFacts, ElfType};
use crate::findings::Finding;
use crate::problem::{DescriptionProblem, ObjectProblem, Problem};

/// What was seen in a kernel, and what was found about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The `.json`, if there is one and it can be read.
    pub meta: Option<KernelMeta>,
    /// The SHA-256 of the object, if there is one.
    pub sha256: Option<Digest>,
    /// The object, as far as it can be read; the first, if there are several.
    pub object: Option<ElfFacts>,
    /// Of a fat binary, the other objects.
    pub others: Vec<ElfFacts>,
    /// In what two ELF parsers agree, if both were asked and do.
    pub cross_check: Option<CrossCheck>,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
    /// Whether all was checked that the target expects.
    pub status: CheckStatus,
}

/// Whether a kernel was checked by all that its target expects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckStatus {
    /// It was.
    Complete,
    /// A backend's own check is not known here.
    Unavailable(CheckId),
}

impl Report {
    /// Whether the kernel is what it says it is: no finding is an error.
    pub fn is_valid(&self) -> bool {
        self.errors().next().is_none()
    }

    /// The findings that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity() == Severity::Error)
    }

    /// The gravest severity among the findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    /// The first finding with a code.
    pub fn find(&self, code: Code) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.code() == code)
    }

    /// Adds what was found outside of the two files: there is no object, the file has another name.
    pub fn add(&mut self, problem: impl Into<Problem>) {
        let problem = problem.into();
        self.findings.push(Finding { problem, more: 0 });
        self.findings.sort_by_key(|finding| Reverse(finding.severity()));
    }

    /// Compares the object's own file name with the one in the `.json`, of which a difference is a note; and in AKG's short
    /// form, which has none, with what the object is: a `.so` that is no shared object cannot be loaded.
    pub fn compare_file_name(&mut self, name: &str) {
        let is_relocatable =
            self.object.as_ref().is_some_and(|object| object.elf_type == Some(ElfType::Relocatable));
        if name.ends_with(".so") && is_relocatable && self.meta.as_ref().is_some_and(is_short_form) {
            let expected = "3 (shared object), which a file that ends in `.so` is";
            self.add(ObjectProblem::Type { expected, found: 1 });
        }
        let Some(stem) = self.meta.as_ref().and_then(|meta| meta.bin_file_name.as_deref()) else { return };
        let suffix = self.meta.as_ref().and_then(|meta| meta.bin_file_suffix.as_deref()).unwrap_or(".o");
        let expected = format!("{stem}{suffix}");
        if name != expected && name.strip_prefix("lib") != Some(expected.as_str()) {
            let (expected, found) = (shown(expected.as_bytes()), shown(name.as_bytes()));
            self.add(DescriptionProblem::FileName { expected, found });
        }
    }
}
