//! A reader's behaviour for a field, and the list of such lints.

use std::borrow::Cow;
use std::fmt;

use crate::json::short;

/// A vendor's reader of the `.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vendor {
    /// FE, the front end of CANN's graph engine, as of August 2026.
    Fe,
    /// MindSpore 2.0.
    MindSpore,
}

/// A reader's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It continues as if the field were missing.
    Ignore,
    /// It reads another value than intended.
    Misread,
    /// It reports a failure; the operator does not run, or is compiled again.
    Refuse,
    /// An uncaught exception ends the process.
    Abort,
}

/// One reader's behaviour for one field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lint {
    /// The reader.
    pub vendor: Vendor,
    /// Its behaviour.
    pub effect: Effect,
    /// The field, such as `kernelList[1].taskRation`.
    pub field: String,
    /// The expected value.
    pub expected: &'static str,
    /// The value found, truncated to 80 characters; `nothing` if the field is missing.
    pub found: String,
    /// The consequence, where the effect alone does not state it; may be empty.
    pub outcome: Cow<'static, str>,
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fe => "CANN's FE",
            Self::MindSpore => "MindSpore 2.0",
        })
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ignore => "ignore",
            Self::Misread => "misread",
            Self::Refuse => "refuse",
            Self::Abort => "abort",
        })
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, effect, field, expected, found, outcome } = self;
        write!(f, "{vendor} would {effect}: field `{field}`: expected {expected}, found {found}")?;
        if outcome.is_empty() { Ok(()) } else { write!(f, "; {outcome}") }
    }
}

/// The largest number of lints for one reader: a hostile file may contain a million errors.
const MAX_LINTS: usize = 100;

/// The lints of one reader, in the order in which it reads.
pub(super) struct Lints {
    vendor: Vendor,
    pub(super) list: Vec<Lint>,
}

impl Lints {
    pub(super) fn of(vendor: Vendor) -> Self {
        Self { vendor, list: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        effect: Effect,
        field: impl Into<String>,
        expected: &'static str,
        found: Option<&str>,
        outcome: impl Into<Cow<'static, str>>,
    ) {
        if self.list.len() == MAX_LINTS {
            return;
        }
        self.list.push(Lint {
            vendor: self.vendor,
            effect,
            field: field.into(),
            expected,
            found: found.map_or_else(|| "nothing".to_owned(), short),
            outcome: outcome.into(),
        });
    }

    pub(super) fn refuse(&mut self, field: impl Into<String>, expected: &'static str, found: Option<&str>) {
        self.add(Effect::Refuse, field, expected, found, "");
    }

    pub(super) fn ignore(
        &mut self,
        field: impl Into<String>,
        expected: &'static str,
        found: Option<&str>,
        outcome: &'static str,
    ) {
        self.add(Effect::Ignore, field, expected, found, outcome);
    }
}
