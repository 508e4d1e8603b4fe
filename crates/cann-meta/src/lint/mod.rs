//! What the vendors' own parsers would do with a `.json`.
//!
//! Not a verdict: a kernel that MindSpore 2.0 cannot load may be just right for CANN. Each lint names the reader, what
//! it would do, the field, what it expects there and what it found. They look at the bytes themselves, so they also
//! judge a document that [`KernelMeta::parse`](crate::KernelMeta::parse) refuses. Of one reader, the first 100 are listed.
//!
//! Both vendors read JSON with nlohmann's library, which is not strict: it gives a float where a whole number is asked
//! for, cuts it to the width asked for, and gives true as 1 where that width is 32 bits or less.

mod fe;
mod mindspore;
#[cfg(test)]
mod testing;
mod value;

use std::borrow::Cow;
use std::fmt;

pub use fe::fe_lints;
pub use mindspore::mindspore_lints;
pub(crate) use mindspore::of_document;

use crate::json::short;

/// Who reads the `.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// FE, the front end of CANN's graph engine, as of August 2026.
    Fe,
    /// MindSpore 2.0.
    MindSpore,
}

/// What a reader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// It goes on as if the field were not there.
    Ignore,
    /// It takes something else than what is meant.
    Misread,
    /// It reports a failure; the operator does not run, or is compiled anew.
    Refuse,
    /// An exception that nobody catches ends the process.
    Abort,
}

/// What one reader would do with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// Who reads it.
    pub vendor: Vendor,
    /// What he does.
    pub effect: Effect,
    /// The field, such as `kernelList[1].taskRation`.
    pub field: String,
    /// What the reader expects there.
    pub expected: &'static str,
    /// What stands there, cut to 80 characters; `nothing` if the field is missing.
    pub found: String,
    /// What comes of it, where the effect does not say it all; may be empty.
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

/// The most lints that are listed of one reader: a file may have a million things wrong.
const MAX_LINTS: usize = 100;

/// The lints of one reader, in the order in which he reads.
struct Lints {
    vendor: Vendor,
    list: Vec<Lint>,
}

impl Lints {
    fn of(vendor: Vendor) -> Self {
        Self { vendor, list: Vec::new() }
    }

    fn add(
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

    fn refuse(&mut self, field: impl Into<String>, expected: &'static str, found: Option<&str>) {
        self.add(Effect::Refuse, field, expected, found, "");
    }

    fn ignore(
        &mut self,
        field: impl Into<String>,
        expected: &'static str,
        found: Option<&str>,
        outcome: &'static str,
    ) {
        self.add(Effect::Ignore, field, expected, found, outcome);
    }
}
