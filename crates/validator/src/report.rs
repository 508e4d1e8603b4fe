//! The report: the facts and the findings.

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

/// The facts of a kernel, and the findings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The `.json`, if present and readable.
    pub meta: Option<KernelMeta>,
    /// The SHA-256 of the object, if present.
    pub sha256: Option<Digest>,
    /// The facts of the object, as far as it can be read; those of the first, if there are several.
    pub object: Option<ElfFacts>,
    /// The facts of the other objects of a fat binary.
    pub others: Vec<ElfFacts>,
    /// The result of the cross check, if it was made and both parsers agree.
    pub cross_check: Option<CrossCheck>,
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
    /// Whether all checks of the target were made.
    pub status: CheckStatus,
}

/// Whether all checks of a target were made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckStatus {
    /// All checks were made.
    Complete,
    /// This check of the backend is not available.
    Unavailable(CheckId),
}

impl Report {
    /// Whether the kernel is valid: no finding is an error.
    pub fn is_valid(&self) -> bool {
        self.errors().next().is_none()
    }

    /// The findings that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity() == Severity::Error)
    }

    /// The highest severity of the findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    /// The names of the kernels in the `.json`; empty for metadata of another form.
    pub fn entry_names(&self) -> Vec<&str> {
        self.meta.iter().flat_map(KernelMeta::entry_names).collect()
    }

    /// The first finding with a code.
    pub fn find(&self, code: Code) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.code() == code)
    }

    /// Adds a problem outside the two files, such as a missing object or another file name.
    pub fn add(&mut self, problem: impl Into<Problem>) {
        let problem = problem.into();
        self.findings.push(Finding { problem, more: 0 });
        opkeep_order::by_key(&mut self.findings, |finding| Reverse(finding.severity()));
    }

    /// Compares the object's file name with the one in the `.json`; a difference is a note. AKG's short form has no
    /// name, but a `.so` must be a shared object to be loaded.
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
