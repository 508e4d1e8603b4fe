//! The verdict: what was seen, and what was found about it.

use std::cmp::Reverse;
use std::fmt;

use opkeep_artifact::CheckId;
use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;

use crate::claims::is_short_form;
use crate::code::{Code, RULES, Rule, Severity};
use crate::facts::{ElfFacts, ElfType};
use crate::problem::Problem;
use crate::second::CrossCheck;
use crate::shown::shown;

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
    pub fn add(&mut self, problem: Problem) {
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
            self.add(Problem::Type { expected, found: 1 });
        }
        let Some(stem) = self.meta.as_ref().and_then(|meta| meta.bin_file_name.as_deref()) else { return };
        let suffix = self.meta.as_ref().and_then(|meta| meta.bin_file_suffix.as_deref()).unwrap_or(".o");
        let expected = format!("{stem}{suffix}");
        if name != expected && name.strip_prefix("lib") != Some(expected.as_str()) {
            let (expected, found) = (shown(expected.as_bytes()), shown(name.as_bytes()));
            self.add(Problem::FileName { expected, found });
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub problem: Problem,
    /// How many more of the same code there are that are not listed. Only the last of a code has any.
    pub more: usize,
}

impl Finding {
    /// The problem's code.
    pub fn code(&self) -> Code {
        self.problem.code()
    }

    /// What the code stands for, and what to do about it.
    pub fn rule(&self) -> &'static Rule {
        self.code().rule()
    }

    /// How much it weighs.
    pub fn severity(&self) -> Severity {
        self.rule().severity
    }

    /// What was found, in one line, with nothing in it that a terminal obeys.
    pub fn message(&self) -> String {
        let text = self.problem.to_string();
        if !text.contains(char::is_control) {
            return text;
        }
        let plain = |letter: char| match letter.is_control() {
            true => letter.escape_default().to_string(),
            false => letter.to_string(),
        };
        text.chars().map(plain).collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())?;
        if self.more > 0 {
            write!(f, " (and {} more)", self.more)?;
        }
        write!(f, "; {}", self.rule().remedy)
    }
}

/// So many findings of a code are kept: a hostile object could have as many as it has bytes.
const KEPT: usize = 8;

/// Collects findings.
pub(crate) struct Findings {
    list: Vec<Finding>,
    counts: [usize; RULES.len()],
}

impl Findings {
    pub(crate) fn new() -> Self {
        Self { list: Vec::new(), counts: [0; RULES.len()] }
    }

    /// Adds a problem, which must have the code `code`. Beyond the first few of a code it is only counted.
    pub(crate) fn add(&mut self, code: Code, problem: impl FnOnce() -> Problem) {
        let count = &mut self.counts[code.index()];
        *count += 1;
        if *count <= KEPT {
            let problem = problem();
            debug_assert_eq!(problem.code(), code);
            self.list.push(Finding { problem, more: 0 });
        }
    }

    /// Adds what was found elsewhere, behind what is here. Both must not have findings of one code.
    pub(crate) fn extend(&mut self, others: Self) {
        self.list.extend(others.list);
        self.counts.iter_mut().zip(others.counts).for_each(|(count, other)| *count += other);
    }

    /// The findings, the gravest first, else as they were found.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        for at in (0..self.list.len()).rev() {
            // The last one of its code takes what was not kept.
            let count = &mut self.counts[self.list[at].code().index()];
            self.list[at].more = count.saturating_sub(KEPT);
            *count = 0;
        }
        self.list.sort_by_key(|finding| Reverse(finding.severity()));
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_alike_the_first_are_kept_and_the_rest_counted() {
        let mut findings = Findings::new();
        findings.add(Code::ALONE, || Problem::Alone);
        for section in 0..1000 {
            findings.add(Code::LINK, || Problem::Link { section, found: 9, sections: 3 });
        }
        findings.add(Code::NO_SECTIONS, || Problem::NoSections);
        let list = findings.finish();
        assert_eq!((list.len(), list[0].code(), list[9].code()), (10, Code::NO_SECTIONS, Code::ALONE));
        assert_eq!(
            list[1..9].iter().map(|finding| finding.more).collect::<Vec<_>>(),
            [0, 0, 0, 0, 0, 0, 0, 992]
        );
        let last = list[8].to_string();
        assert!(
            last.starts_with("OPV029: `sh_link` of section 7:") && last.contains("(and 992 more); build"),
            "{last}"
        );
    }
}
