//! What the file of a project that is not trusted may set: it may have come with a clone or an archive.
//!
//! Each setting has a [`ProjectRule`], and is created from one: none gets a rule by default.

use std::num::NonZeroUsize;

use opkeep_store::CacheMode;

use super::checks;

/// What the file of a project may say of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProjectRule {
    /// Nothing, whether the project is trusted or not.
    Never,
    /// Nothing, unless the project is trusted: the value decides which code runs (which compiler, which kernels, whose keys), or what
    /// is deleted: limits evict kernels of all projects.
    IfTrusted,
    /// A value that permits no more than the user's, unless the project is trusted.
    Narrower(Bound),
    /// Any value: none of them gives the project something that the user withholds.
    Any,
}

/// How far a project that is not trusted may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Whether a value permits no more than the one that is in force without the project's file; `None` for the default. All values
    /// are valid.
    is_within: fn(&str, Option<&str>) -> bool,
    /// The values that count.
    pub(crate) words: &'static str,
}

impl ProjectRule {
    /// A number that is at most the user's.
    pub(super) const JOBS: Self = Self::Narrower(Bound {
        is_within: |value, limit| {
            let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            let number = |text: &str| checks::job_count(text).unwrap_or(NonZeroUsize::MIN);
            number(value) <= limit.map_or_else(processors, number)
        },
        words: "not more than the user's",
    });

    /// A higher niceness leaves more to other programs.
    pub(super) const NICE: Self = Self::Narrower(Bound {
        is_within: |value, limit| {
            number(checks::niceness(value)) >= limit.map_or(0, |it| number(checks::niceness(it)))
        },
        words: "not less than the user's",
    });

    pub(super) const DEADLINE: Self = Self::Narrower(Bound {
        is_within: |value, limit| {
            number(checks::seconds(value))
                <= limit.map_or(checks::DEFAULT_DEADLINE, |it| number(checks::seconds(it)))
        },
        words: "not more than the user's",
    });

    pub(super) const MODE: Self = Self::Narrower(Bound {
        is_within: |value, limit| {
            let mode = |text: &str| checks::mode(text).unwrap_or_default();
            permits_no_more(mode(value), limit.map(mode).unwrap_or_default())
        },
        words: "a mode that permits no more than the user's",
    });

    pub(super) const OFF: Self = Self::Narrower(Bound {
        is_within: |value, limit| value == "off" || limit.is_none_or(|limit| limit == "on"),
        words: "off, or the user's",
    });

    /// What is chosen automatically permits both others.
    pub(super) const DRIVER: Self = Self::Narrower(Bound {
        is_within: |value, limit| limit.is_none_or(|limit| limit == "auto" || limit == value),
        words: "the user's, unless that is auto",
    });

    /// Returns what a project that is not trusted may set, for the documentation.
    #[cfg(test)]
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Never => "nothing, nor may a trusted one",
            Self::IfTrusted => "nothing",
            Self::Narrower(bound) => bound.words,
            Self::Any => "any value",
        }
    }
}

impl Bound {
    /// Whether `value` permits no more than `limit`, without one than the default.
    pub(super) fn has(self, value: &str, limit: Option<&str>) -> bool {
        (self.is_within)(value, limit)
    }
}

/// A value that its check has accepted.
fn number<T: Default>(checked: Result<T, String>) -> T {
    checked.unwrap_or_default()
}

/// Whether a build with the mode `one` does nothing that a build with `other` does not.
fn permits_no_more(one: CacheMode, other: CacheMode) -> bool {
    // In the order: read entries, write new ones, replace existing ones, compile.
    let permits =
        |mode: CacheMode| [mode.reads(), mode.writes(), mode == CacheMode::Force, mode != CacheMode::Require];
    permits(one).iter().zip(permits(other)).all(|(one, other)| !one || other)
}
