//! Findings and their collection.

use std::cmp::Reverse;
use std::fmt;

use crate::code::{Code, RULES, Rule, Severity};
use crate::problem::Problem;

/// A finding.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// The number of further findings of the code that are not listed; set only for the last one listed.
    pub more: usize,
}

impl Finding {
    /// The problem's code.
    pub fn code(&self) -> Code {
        self.problem.code()
    }

    /// The rule of its code, with advice.
    pub fn rule(&self) -> &'static Rule {
        self.code().rule()
    }

    /// Its severity.
    pub fn severity(&self) -> Severity {
        self.rule().severity
    }

    /// The problem on one line, without control characters.
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

/// The largest number of kept findings of a code: a hostile object could have one for each byte.
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

    /// Adds a problem, which must have the code `code`. After the first few of a code, further ones are only counted.
    pub(crate) fn add<P: Into<Problem>>(&mut self, code: Code, problem: impl FnOnce() -> P) {
        let count = &mut self.counts[code.index()];
        *count += 1;
        if *count <= KEPT {
            let problem = problem().into();
            debug_assert_eq!(problem.code(), code);
            self.list.push(Finding { problem, more: 0 });
        }
    }

    /// Appends other findings. No code may occur in both.
    pub(crate) fn extend(&mut self, others: Self) {
        self.list.extend(others.list);
        self.counts.iter_mut().zip(others.counts).for_each(|(count, other)| *count += other);
    }

    /// The findings, the most severe first, otherwise in the order of discovery.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        for at in (0..self.list.len()).rev() {
            // The last finding of a code gets the number of those that were not kept.
            let count = &mut self.counts[self.list[at].code().index()];
            self.list[at].more = count.saturating_sub(KEPT);
            *count = 0;
        }
        opkeep_order::by_key(&mut self.list, |finding| Reverse(finding.severity()));
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{DescriptionProblem, ObjectProblem};

    #[test]
    fn the_first_findings_of_a_code_are_kept_and_the_rest_counted() {
        let mut findings = Findings::new();
        findings.add(Code::NO_JSON, || DescriptionProblem::NoJson);
        for section in 0..1000 {
            findings.add(Code::LINK, || ObjectProblem::Link { section, found: 9, sections: 3 });
        }
        findings.add(Code::NO_SECTIONS, || ObjectProblem::NoSections);
        let list = findings.finish();
        assert_eq!((list.len(), list[0].code(), list[9].code()), (10, Code::NO_SECTIONS, Code::NO_JSON));
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
