//! The limits of a target's directory: their sources and values.
//!
//! CANN's own cache has the same file and variables, read by other rules: see [`LimitRules`].

use std::path::Path;

use thiserror::Error;

use crate::limits_file::LimitsFile;
use opkeep_fs::RootedFs;

/// The maximum number of characters of a value that a message shows.
const SHOWN: usize = 60;

/// The limits of each target's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The limit in bytes. If unset, nothing is evicted, and the last use of an entry is not recorded.
    pub max_bytes: Option<u64>,
    /// The part of a limit, in percent, that an eviction leaves.
    pub remain_percent: u8,
    /// The limit of the number of entries. If unset, the number is not limited.
    pub max_entries: Option<u64>,
}

/// The limits from the environment, as text. The caller reads the environment. `op_cache.ini` overrides them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitSettings {
    /// `ASCEND_MAX_OP_CACHE_SIZE`, in MB.
    pub max_op_cache_size: Option<String>,
    /// `ASCEND_REMAIN_CACHE_SIZE_RATIO`, in percent.
    pub remain_cache_size_ratio: Option<String>,
    /// The number of entries, which CANN does not limit.
    pub max_entries: Option<String>,
    /// The name under which the caller reads `max_entries`; a warning names it.
    pub max_entries_name: &'static str,
}

impl LimitSettings {
    /// Creates settings with all values unset.
    pub const fn new() -> Self {
        Self {
            max_op_cache_size: None,
            remain_cache_size_ratio: None,
            max_entries: None,
            max_entries_name: "max_entries",
        }
    }

    /// Returns these settings with a size in MB.
    #[must_use]
    pub fn with_size(mut self, megabytes: impl ToString) -> Self {
        self.max_op_cache_size = Some(megabytes.to_string());
        self
    }

    /// Returns these settings with the part that an eviction leaves, in percent.
    #[must_use]
    pub fn with_ratio(mut self, percent: impl ToString) -> Self {
        self.remain_cache_size_ratio = Some(percent.to_string());
        self
    }

    /// Returns these settings with a number of entries.
    #[must_use]
    pub fn with_max_entries(mut self, entries: impl ToString) -> Self {
        self.max_entries = Some(entries.to_string());
        self
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// A setting of limits that is ignored, or whose value is read otherwise than written. The store works without it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitWarning {
    /// The value is not valid for the parameter.
    #[error(
        "`{value}` is not valid for `{name}`{place}: expected {range}; it does not count (default: {default})"
    )]
    Value {
        /// The value, or its beginning.
        value: String,
        /// The name of the parameter.
        name: &'static str,
        /// The file, if the value is in one.
        place: String,
        /// The valid values.
        range: &'static str,
        /// The value if unset.
        default: &'static str,
    },
    /// The value begins with a number, and only the number is used.
    #[error("`{value}` for `{name}`{place} counts as {number}, as CANN reads it: write the number alone")]
    Trailing {
        /// The value, or its beginning.
        value: String,
        /// The name of the parameter.
        name: &'static str,
        /// The file, if the value is in one.
        place: String,
        /// The number at the beginning of the value.
        number: i64,
    },
    /// The file sets only one of two parameters that are used only together.
    #[error("`{path}` sets `{set}` but not `{missing}`: only both together count; add `{missing}=...`")]
    Alone {
        /// The file.
        path: String,
        /// The parameter that the file sets.
        set: &'static str,
        /// The parameter that the file does not set.
        missing: &'static str,
    },
    /// A line of the file is not a setting.
    #[error("line {line} of `{path}` does not count: `{text}`; expected {expected}")]
    Line {
        /// The file.
        path: String,
        /// The number of the line, from 1.
        line: usize,
        /// The line, or its beginning.
        text: String,
        /// Valid lines.
        expected: &'static str,
    },
    /// A section of the file is not read.
    #[error(
        "the section `[{section}]` (line {line} of `{path}`) does not count: expected `[op_compiler_cache]`"
    )]
    Section {
        /// The file.
        path: String,
        /// The number of the line at which the section begins, from 1.
        line: usize,
        /// The name of the section, or the beginning of the name.
        section: String,
    },
    /// The file exists and cannot be read.
    #[error("the limits in `{path}` do not count: {problem}")]
    Unread {
        /// The file.
        path: String,
        /// The cause.
        problem: String,
    },
}

/// A parameter of limits: its name in the file or in the environment, and its valid values.
#[derive(Clone, Copy, Debug)]
pub struct LimitParameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The valid values, in words.
    pub range: &'static str,
    /// The value if unset, in words.
    pub default: &'static str,
    /// Returns whether a value is valid.
    pub is_valid: fn(i64) -> bool,
}

/// The rules by which a cache's limits are read. A pair is the parameter in the file, and the one in the environment.
#[derive(Clone, Copy, Debug)]
pub struct LimitRules {
    /// The size in MB; -1 is no limit.
    pub size: [LimitParameter; 2],
    /// The part that an eviction leaves, in percent.
    pub ratio: [LimitParameter; 2],
    /// The number of entries in the file, if the cache has such a limit. [`LimitSettings::max_entries_name`] is the
    /// name in the environment.
    pub entries: Option<LimitParameter>,
    /// Whether text after a number is ignored with a warning, so that `500MB` is 500.
    pub trailing_text: bool,
    /// The valid lines of the file, in words.
    pub lines: &'static str,
}

const SIZE: LimitParameter = LimitParameter {
    name: "max_op_cache_size",
    range: "a whole number of MB in [1, 2147483647], or -1 for no aging",
    default: "500",
    is_valid: |megabytes| matches!(megabytes, -1 | 1..=2_147_483_647),
};
const RATIO: LimitParameter = LimitParameter {
    name: "remain_cache_size_ratio",
    range: "a whole number of percent in [1, 100]",
    default: "50",
    is_valid: |percent| matches!(percent, 1..=100),
};
const ENTRIES: LimitParameter = LimitParameter {
    name: "max_op_cache_entries",
    range: "a whole number of 1 or more",
    default: "no limit",
    is_valid: |entries| entries > 0,
};

impl LimitRules {
    /// The rules of a store.
    pub const STORE: Self = Self {
        size: [SIZE, LimitParameter { name: "ASCEND_MAX_OP_CACHE_SIZE", ..SIZE }],
        ratio: [RATIO, LimitParameter { name: "ASCEND_REMAIN_CACHE_SIZE_RATIO", ..RATIO }],
        entries: Some(ENTRIES),
        trailing_text: false,
        lines: "`max_op_cache_size=...`, `remain_cache_size_ratio=...` or `max_op_cache_entries=...`",
    };

    /// Returns the limits that result from a file and the environment, and whether size and ratio are from the file.
    ///
    /// The file takes precedence over the environment, and the environment over the default. Size and ratio of the file
    /// are used only together. `warnings` gets the ignored settings.
    pub fn resolve(
        &self,
        file: &LimitsFile,
        path: &str,
        environment: &LimitSettings,
        warnings: &mut Vec<LimitWarning>,
    ) -> (Limits, bool) {
        warnings.extend(file.unknown.iter().map(|(line, text)| LimitWarning::Line {
            path: path.to_owned(),
            line: *line,
            text: shortened(text),
            expected: self.lines,
        }));
        warnings.extend(file.sections.iter().map(|(line, section)| LimitWarning::Section {
            path: path.to_owned(),
            line: *line,
            section: shortened(section),
        }));
        let alone = match (&file.size, &file.ratio) {
            (Some(_), None) => Some((&self.size, &self.ratio)),
            (None, Some(_)) => Some((&self.ratio, &self.size)),
            _ => None,
        };
        warnings.extend(alone.map(|([set, _], [missing, _])| LimitWarning::Alone {
            path: path.to_owned(),
            set: set.name,
            missing: missing.name,
        }));
        let mut read = |parameter: &LimitParameter, text: &Option<String>, file: Option<&str>| {
            parameter.read(text.as_deref(), file, self.trailing_text, warnings)
        };
        let ([file_size, env_size], [file_ratio, env_ratio]) = (&self.size, &self.ratio);
        let in_file = (read(file_size, &file.size, Some(path)), read(file_ratio, &file.ratio, Some(path)));
        let is_file = matches!(in_file, (Some(_), Some(_)));
        let (size, ratio) = match is_file {
            true => in_file,
            false => (
                read(env_size, &environment.max_op_cache_size, None),
                read(env_ratio, &environment.remain_cache_size_ratio, None),
            ),
        };
        let mut limits = Limits::default();
        if let Some(megabytes) = size {
            limits.max_bytes = u64::try_from(megabytes).ok().map(|megabytes| megabytes << 20);
        }
        if let Some(percent) = ratio.and_then(|percent| u8::try_from(percent).ok()) {
            limits.remain_percent = percent;
        }
        if let Some(in_file) = &self.entries {
            let in_environment = LimitParameter { name: environment.max_entries_name, ..*in_file };
            let entries = read(in_file, &file.entries, Some(path))
                .or_else(|| read(&in_environment, &environment.max_entries, None));
            limits.max_entries = entries.and_then(|entries| u64::try_from(entries).ok());
        }
        (limits, is_file)
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

impl LimitParameter {
    /// Returns the value of `text`, if `text` is set and valid.
    fn read(
        &self,
        text: Option<&str>,
        file: Option<&str>,
        trailing_text: bool,
        warnings: &mut Vec<LimitWarning>,
    ) -> Option<i64> {
        let text = text?;
        let Self { name, range, default, is_valid } = *self;
        let value = || shortened(text);
        let place = || file.map(|file| format!(" in `{file}`")).unwrap_or_default();
        match leading_number(text).filter(|(number, _)| is_valid(*number)) {
            Some((number, "")) => Some(number),
            Some((number, _)) if trailing_text => {
                warnings.push(LimitWarning::Trailing { value: value(), name, place: place(), number });
                Some(number)
            }
            _ => {
                warnings.push(LimitWarning::Value { value: value(), name, place: place(), range, default });
                None
            }
        }
    }
}

/// Returns the number at the beginning of a text, and the rest of the text.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let text = text.trim();
    let sign = usize::from(text.starts_with(['-', '+']));
    let end = text[sign..].find(|letter: char| !letter.is_ascii_digit()).map_or(text.len(), |at| at + sign);
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The limits by CANN's defaults.
impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: Some(500 << 20), remain_percent: 50, max_entries: None }
    }
}

impl Limits {
    /// Returns the limits of the store at `root`, and the ignored settings.
    pub(crate) fn find(
        fs: &RootedFs,
        root: &Path,
        make: bool,
        environment: &LimitSettings,
    ) -> (Self, Vec<LimitWarning>) {
        let path = LimitsFile::path(root).display().to_string();
        let mut warnings = Vec::new();
        let file = LimitsFile::load(fs, root, make).unwrap_or_else(|error| {
            warnings.push(LimitWarning::Unread { path: path.clone(), problem: error.to_string() });
            LimitsFile::default()
        });
        let (limits, _) = LimitRules::STORE.resolve(&file, &path, environment, &mut warnings);
        (limits, warnings)
    }

    /// Whether a directory with this content exceeds the limits.
    pub(crate) fn are_exceeded_by(&self, bytes: u64, entries: u64) -> bool {
        self.max_bytes.is_some_and(|max| bytes > max || self.max_entries.is_some_and(|max| entries > max))
    }

    /// Returns the part of `limit` that an eviction leaves.
    pub fn remaining_of(&self, limit: u64) -> u64 {
        let percent = u128::from(self.remain_percent);
        u64::try_from(u128::from(limit) * percent / 100).unwrap_or(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn environment(size: &str, ratio: &str) -> LimitSettings {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        LimitSettings {
            max_op_cache_size: text(size),
            remain_cache_size_ratio: text(ratio),
            ..LimitSettings::new()
        }
    }

    fn resolved(ini: &str, path: &str, environment: &LimitSettings) -> (Limits, Vec<LimitWarning>) {
        let mut warnings = Vec::new();
        let (limits, _) =
            LimitRules::STORE.resolve(&LimitsFile::parse(ini), path, environment, &mut warnings);
        (limits, warnings)
    }

    fn resolve(ini: &str, (size, ratio): (&str, &str)) -> (Option<u64>, u8, Vec<String>) {
        let (limits, warnings) = resolved(ini, "/c/op_cache.ini", &environment(size, ratio));
        let warnings = warnings.iter().map(ToString::to_string).collect();
        (limits.max_bytes, limits.remain_percent, warnings)
    }

    fn file(size: &str, ratio: &str) -> String {
        format!("[op_compiler_cache]\nmax_op_cache_size={size}\nremain_cache_size_ratio={ratio}\n")
    }

    #[test]
    fn the_file_takes_precedence_over_the_environment() {
        assert_eq!(resolve("", ("", "")), (Some(500 * MB), 50, vec![]));
        assert_eq!(resolve("", ("7", "")), (Some(7 * MB), 50, vec![]));
        assert_eq!(resolve("", ("", "30")), (Some(500 * MB), 30, vec![]));
        assert_eq!(resolve("", ("7", "30")), (Some(7 * MB), 30, vec![]));
        assert_eq!(resolve(&file("9", "40"), ("7", "30")), (Some(9 * MB), 40, vec![]));
        // A setting of the environment that the file overrides causes no warning.
        assert_eq!(resolve(&file("9", "40"), ("bad", "0")), (Some(9 * MB), 40, vec![]));
        assert_eq!(resolve(&file("-1", "40"), ("7", "30")), (None, 40, vec![]));
        assert_eq!(resolve("", ("-1", "")), (None, 50, vec![]));
    }

    #[test]
    fn the_file_counts_only_if_both_values_are_valid() {
        for (ini, expected) in [
            (file("9", "0"), "`0` is not valid for `remain_cache_size_ratio`"),
            (file("0", "40"), "`0` is not valid for `max_op_cache_size`"),
            (file("9", ""), "sets `max_op_cache_size` but not `remain_cache_size_ratio`"),
            (file("", "40"), "sets `remain_cache_size_ratio` but not `max_op_cache_size`"),
            (file("-1", "101"), "`101` is not valid for `remain_cache_size_ratio`"),
        ] {
            let (size, ratio, warnings) = resolve(&ini, ("7", "30"));
            assert_eq!((size, ratio, warnings.len()), (Some(7 * MB), 30, 1), "{ini}: {warnings:?}");
            assert!(
                warnings[0].contains(expected) && warnings[0].contains("/c/op_cache.ini"),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn a_bad_value_is_reported_and_never_taken_as_zero() {
        for bad in
            ["0", "-2", "abc", "500MB", "1.5", "0x10", "2147483648", "99999999999999999999999", "--1", " "]
        {
            let (size, _, warnings) = resolve("", (bad, ""));
            assert_eq!((size, warnings.len()), (Some(500 * MB), 1), "{bad}");
            let expected = format!(
                "`{bad}` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`: expected a whole number of MB in [1, 2147483647], \
                 or -1 for no aging; it does not count (default: 500)"
            );
            assert_eq!(warnings[0], expected);
        }
        for bad in ["0", "-1", "101", "abc", "50%", "256", "300", "1e1"] {
            let (_, ratio, warnings) = resolve("", ("", bad));
            assert_eq!((ratio, warnings.len()), (50, 1), "{bad}");
            let expected = format!(
                "`{bad}` is not valid for `ASCEND_REMAIN_CACHE_SIZE_RATIO`: expected a whole number of percent in \
                 [1, 100]; it does not count (default: 50)"
            );
            assert_eq!(warnings[0], expected);
        }
        for (good, megabytes) in [("1", 1), (" 2147483647 ", 2_147_483_647), ("+5", 5), ("007", 7)] {
            assert_eq!(resolve("", (good, "")), (Some(megabytes * MB), 50, vec![]), "{good}");
        }
        for good in [1, 100] {
            assert_eq!(resolve("", ("", &good.to_string())), (Some(500 * MB), good, vec![]));
        }
        let (_, _, warnings) = resolve("", (&"9".repeat(5000), ""));
        assert!(warnings[0].len() < 300, "{}", warnings[0].len());
    }

    #[test]
    fn each_ignored_setting_is_reported() {
        let ini = "[cache]\nmax_op_cache_size=9\n[op_compiler_cache]\nmax_op_cache_size=0\nremain_cache_size_ratio=101\n\
                   max_op_cache_entries=-1\nmax_op_cache_size 5\n";
        let texts =
            LimitSettings { max_entries_name: "ENTRIES", ..environment("many", "0").with_max_entries("0") };
        let (limits, warnings) = resolved(ini, "f", &texts);
        assert_eq!((limits.max_bytes, limits.remain_percent, limits.max_entries), (Some(500 * MB), 50, None));
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let expected = [
            "line 7 of `f`",
            "`[cache]` (line 1 of `f`) does not count: expected `[op_compiler_cache]`",
            "`0` is not valid for `max_op_cache_size` in `f`",
            "`101` is not valid for `remain_cache_size_ratio` in `f`",
            "`many` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`",
            "`0` is not valid for `ASCEND_REMAIN_CACHE_SIZE_RATIO`",
            "`-1` is not valid for `max_op_cache_entries` in `f`",
            "`0` is not valid for `ENTRIES`",
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (notice, expected) in warnings.iter().zip(expected) {
            assert!(notice.contains(expected), "{notice}");
            let is_value = notice.contains("not valid");
            assert!(!is_value || (notice.contains("expected") && notice.contains("default: ")), "{notice}");
        }
    }

    #[test]
    fn entries_are_limited_by_themselves() {
        let find = |ini: &str, text: Option<&str>| {
            let texts = LimitSettings { max_entries: text.map(str::to_owned), ..LimitSettings::default() };
            let (limits, warnings) = resolved(ini, "f", &texts);
            (limits.max_entries, warnings.len())
        };
        assert_eq!(find("", None), (None, 0));
        assert_eq!(find("max_op_cache_entries=9", None), (Some(9), 0));
        assert_eq!(find("max_op_cache_entries=9", Some("8")), (Some(9), 0));
        assert_eq!(find("", Some("8")), (Some(8), 0));
        assert_eq!(find("max_op_cache_entries=0", Some("8")), (Some(8), 1));
        assert_eq!(find("", Some("many")), (None, 1));
    }

    #[test]
    fn either_limit_can_be_exceeded() {
        let limits = Limits { max_bytes: Some(100), remain_percent: 33, max_entries: Some(5) };
        assert!(!limits.are_exceeded_by(100, 5));
        assert!(limits.are_exceeded_by(101, 0) && limits.are_exceeded_by(0, 6));
        assert_eq!(limits.remaining_of(10), 3);
        assert_eq!(limits.remaining_of(u64::MAX), 6_087_425_544_324_152_032);
        assert!(!Limits { max_bytes: None, ..limits }.are_exceeded_by(u64::MAX, u64::MAX));
    }
}
