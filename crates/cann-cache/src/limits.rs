//! The limits of CANN's cache: from CANN's file, from the environment, or by default.
//!
//! The file `op_cache.ini`, beside the directories of the chips, overrides the environment if both its values are
//! valid. CANN ignores the limits in a file that begins with another section or that has no `adk_version` and
//! `ops_version`, and limits under the names in the documentation of CANN 6.3 and 7.0. Here such limits count, since
//! their user followed the documentation, and a warning reports the difference. A value that is not a number never
//! counts as 0.

use std::collections::BTreeSet;
use std::io;

use opkeep_store::{LIMITS_SECTION, LimitParameter, LimitRules, LimitSettings, Limits, LimitsFile};
use thiserror::Error;

/// The name of CANN's limits file, which is beside the directories of the chips.
pub(crate) const INI: &str = "op_cache.ini";

/// A warning about a setting of CANN's limits that does not count, or that CANN reads in another way.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitWarning {
    /// A warning about one setting, as for a store.
    #[error(transparent)]
    Setting(#[from] opkeep_store::LimitWarning),
    /// The limits of the file count here, as documented, but CANN ignores them.
    #[error("the limits in `{path}` count here, but CANN ignores them: {reason}")]
    IgnoredByCann {
        /// The path of the file.
        path: String,
        /// The reason why CANN ignores the limits, with help.
        reason: &'static str,
    },
    /// The file exists, but cannot be read.
    #[error("the limits in `{path}` cannot be read: {problem}; kernels are deleted only if a size is given")]
    Unread {
        /// The path of the file.
        path: String,
        /// The error.
        problem: String,
    },
}

const SIZE: LimitParameter = LimitRules::STORE.size[0];
const RATIO: LimitParameter = LimitRules::STORE.ratio[0];

/// CANN's rules for limits. The environment variables have other ranges than the file.
const CANN: LimitRules = LimitRules {
    size: [
        SIZE,
        LimitParameter {
            name: "ASCEND_MAX_OP_CACHE_SIZE",
            range: "a whole number of MB in [1, 2147483647), or -1 for no aging",
            is_valid: |megabytes| matches!(megabytes, -1 | 1..=2_147_483_646),
            ..SIZE
        },
    ],
    ratio: [
        RATIO,
        LimitParameter {
            name: "ASCEND_REMAIN_CACHE_SIZE_RATIO",
            range: "a whole number of percent in [0, 100]",
            is_valid: |percent| matches!(percent, 0..=100),
            ..RATIO
        },
    ],
    entries: None,
    trailing_text: true,
    lines: "`key=value` or `[op_compiler_cache]`",
};

/// The content of CANN's limits file.
#[derive(Debug, Default)]
struct CannFile {
    values: LimitsFile,
    /// The reason why CANN ignores the values, if it does.
    ignored: Option<&'static str>,
}

impl CannFile {
    fn parse(text: &str) -> Self {
        let mut values = LimitsFile::default();
        let (mut sections, mut versions, mut has_old_names) = (BTreeSet::new(), [false; 2], false);
        for line in LimitsFile::lines(text) {
            let (begin, section) = line.section.unwrap_or_default();
            let is_limits = matches!(section, "" | LIMITS_SECTION);
            let Some((key, value)) = line.setting else {
                if is_limits {
                    LimitsFile::note(&mut values.unknown, line.number, line.text);
                }
                continue;
            };
            if key.is_empty() || value.is_empty() {
                continue;
            }
            sections.insert(section);
            let (place, is_old) = match key {
                _ if !is_limits => {
                    if key.contains("op_cache_size") || key.contains("cache_size_ratio") {
                        LimitsFile::note(&mut values.sections, begin, section);
                    }
                    continue;
                }
                "adk_version" | "ops_version" => {
                    versions[usize::from(key == "ops_version")] = true;
                    continue;
                }
                "max_op_cache_size" => (&mut values.size, false),
                "remain_cache_size_ratio" => (&mut values.ratio, false),
                "ascend_max_op_cache_size" => (&mut values.size, true),
                "ascend_remain_cache_size_ratio" => (&mut values.ratio, true),
                _ => continue,
            };
            if !is_old || place.is_none() {
                has_old_names |= is_old;
                *place = Some(value.to_owned());
            }
        }
        let ignored = match () {
            () if sections.first().is_some_and(|first| *first != LIMITS_SECTION) => {
                Some("a section before [op_compiler_cache], or none, makes it reject the file")
            }
            () if has_old_names => Some("it now calls them max_op_cache_size and remain_cache_size_ratio"),
            () if versions != [true; 2] => Some(
                "adk_version and ops_version are missing; let CANN create the file, and add the limits to it",
            ),
            () => None,
        };
        Self { values, ignored }
    }
}

/// Returns the limits from the text of `op_cache.ini` at `path` and from the environment. If the file cannot be read,
/// no limit applies.
pub(crate) fn resolve(
    ini: io::Result<Option<String>>,
    path: &str,
    environment: &LimitSettings,
) -> (Limits, Vec<LimitWarning>) {
    let path = path.to_owned();
    match ini {
        Ok(text) => {
            let CannFile { values, ignored } = CannFile::parse(text.as_deref().unwrap_or_default());
            let mut found = Vec::new();
            let (limits, is_file) = CANN.resolve(&values, &path, environment, &mut found);
            let ignored = ignored.filter(|_| is_file);
            let ignored = ignored.map(|reason| LimitWarning::IgnoredByCann { path, reason });
            (limits, found.into_iter().map(LimitWarning::Setting).chain(ignored).collect())
        }
        Err(problem) => {
            let mut limits = Limits::default();
            limits.max_bytes = None;
            (limits, vec![LimitWarning::Unread { path, problem: problem.to_string() }])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn found(ini: &str, (size, ratio): (&str, &str)) -> (Option<u64>, u8, Vec<String>) {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mut environment = LimitSettings::new().with_max_entries(1);
        environment.max_op_cache_size = text(size);
        environment.remain_cache_size_ratio = text(ratio);
        let (limits, warnings) = resolve(Ok(text(ini)), "/k/op_cache.ini", &environment);
        assert_eq!(limits.max_entries, None);
        (limits.max_bytes, limits.remain_percent, warnings.iter().map(ToString::to_string).collect())
    }

    /// Returns a file as CANN writes it, with limits added.
    fn file(size: &str, ratio: &str) -> String {
        format!(
            "[op_compiler_cache]\nadk_version=7.7.0.1.238\nops_version=7.7.0.1.238\nmax_op_cache_size={size}\n\
             remain_cache_size_ratio={ratio}\n"
        )
    }

    #[test]
    fn the_file_wins_then_the_environment_then_the_default() {
        assert_eq!(found("", ("", "")), (Some(500 * MB), 50, vec![]));
        assert_eq!(found("", ("7", "")), (Some(7 * MB), 50, vec![]));
        assert_eq!(found("", ("", "30")), (Some(500 * MB), 30, vec![]));
        assert_eq!(found(&file("9", "40"), ("7", "30")), (Some(9 * MB), 40, vec![]));
        assert_eq!(found(&file("9", "40"), ("bad", "-1")), (Some(9 * MB), 40, vec![]));
        assert_eq!(found(&file("-1", "40"), ("7", "30")), (None, 40, vec![]));
        assert_eq!(found("", ("-1", "")), (None, 50, vec![]));
        assert_eq!(found(&file("2147483647", "1"), ("", "")), (Some(2_147_483_647 * MB), 1, vec![]));
        // CANN's own file sets no limit.
        let made = "[op_compiler_cache]\nadk_version=7.7\nops_version=7.7\n";
        assert_eq!(found(made, ("7", "30")), (Some(7 * MB), 30, vec![]));
    }

    #[test]
    fn the_file_counts_only_if_both_values_are_valid() {
        for (ini, complaint) in [
            (file("9", "0"), "`0` is not valid for `remain_cache_size_ratio` in `/k/op_cache.ini`"),
            (file("0", "40"), "expected a whole number of MB in [1, 2147483647], or -1 for no aging"),
            (file("-2", "40"), "`-2` is not valid for `max_op_cache_size`"),
            (file("many", "40"), "(default: 500)"),
            (file("2147483648", "40"), "it does not count"),
            (file("9", "101"), "expected a whole number of percent in [1, 100]"),
            (file("9", ""), "sets `max_op_cache_size` but not `remain_cache_size_ratio`"),
            (file("", "40"), "sets `remain_cache_size_ratio` but not `max_op_cache_size`"),
        ] {
            let (size, ratio, warnings) = found(&ini, ("7", "30"));
            assert_eq!((size, ratio, warnings.len()), (Some(7 * MB), 30, 1), "{ini}: {warnings:?}");
            assert!(warnings[0].contains(complaint), "{warnings:?}");
        }
    }

    #[test]
    fn values_of_the_environment_have_their_own_ranges() {
        for bad in ["0", "-2", "abc", "2147483647", "99999999999999999999999", " "] {
            let (size, _, warnings) = found("", (bad, ""));
            assert_eq!((size, warnings.len()), (Some(500 * MB), 1), "{bad}");
            let expected = format!(
                "`{bad}` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`: expected a whole number of MB in [1, 2147483647), \
                 or -1 for no aging; it does not count (default: 500)"
            );
            assert_eq!(warnings[0], expected);
        }
        // CANN reads a text without a number as 0 percent, and would delete every idle file.
        for bad in ["-1", "101", "abc", "%"] {
            let (_, ratio, warnings) = found("", ("", bad));
            assert_eq!((ratio, warnings.len()), (50, 1), "{bad}");
            assert!(warnings[0].contains("percent in [0, 100]") && warnings[0].contains("(default: 50)"));
        }
        assert_eq!(found("", ("2147483646", "0")), (Some(2_147_483_646 * MB), 0, vec![]));
        assert!(found("", (&"9".repeat(5000), "")).2[0].len() < 300);
    }

    #[test]
    fn a_number_with_text_behind_it_counts_as_in_cann() {
        let (size, ratio, warnings) = found(&file("2000MB", "40%"), ("7", "30"));
        assert_eq!((size, ratio, warnings.len()), (Some(2000 * MB), 40, 2), "{warnings:?}");
        assert!(warnings[0].contains("`2000MB` for `max_op_cache_size` in `/k/op_cache.ini` counts as 2000"));
        assert_eq!(found(&file("2000 # MB", " 40"), ("", "")), (Some(2000 * MB), 40, vec![]));
        assert_eq!(found("", ("+5.5", "")).0, Some(5 * MB));
    }

    #[test]
    fn limits_that_cann_ignores_count_with_a_warning() {
        let plain = "[op_compiler_cache]\nmax_op_cache_size=9\nremain_cache_size_ratio=40\n";
        let cases = [
            (plain.to_owned(), "adk_version and ops_version are missing"),
            (plain.replace("max_op", "ascend_max_op").replace("remain", "ascend_remain"), "calls them"),
            (plain.replace("[op_compiler_cache]\n", ""), "makes it reject the file"),
            (format!("[a]\nx=1\n{plain}adk_version=1\nops_version=1\n"), "makes it reject the file"),
        ];
        for (ini, reason) in cases {
            let (size, ratio, warnings) = found(&ini, ("7", "30"));
            assert_eq!((size, ratio, warnings.len()), (Some(9 * MB), 40, 1), "{ini}: {warnings:?}");
            assert!(
                warnings[0].contains("CANN ignores them") && warnings[0].contains(reason),
                "{warnings:?}"
            );
        }
        let later = format!("{}[z]\nmax_op_cache_size=1\n", file("9", "40"));
        let (size, ratio, warnings) = found(&later, ("", ""));
        assert_eq!((size, ratio, warnings.len()), (Some(9 * MB), 40, 1), "{warnings:?}");
        assert!(warnings[0].contains("section `[z]`") && warnings[0].contains("[op_compiler_cache]"));
        let again = format!("# max_op_cache_size=1\n{}max_op_cache_size=8\r\n", file("9", "40"));
        assert_eq!(found(&again, ("", "")), (Some(8 * MB), 40, vec![]));
    }

    #[test]
    fn each_setting_that_does_not_count_is_reported() {
        let ini = "[op_cache]\nmax_op_cache_size=9\nremain_cache_size_ratio=40\n[op_compiler_cache]\nmax_op_cache_size 7\n\
                   max_op_cache_size=0\nremain_cache_size_ratio=101\n[op_compiler_cache\n";
        let (size, ratio, warnings) = found(ini, ("many", "-1"));
        assert_eq!((size, ratio), (Some(500 * MB), 50));
        let expected = [
            "line 5 of `/k/op_cache.ini` does not count: `max_op_cache_size 7`",
            "line 8 of `/k/op_cache.ini` does not count: `[op_compiler_cache`",
            "section `[op_cache]` (line 1 of `/k/op_cache.ini`)",
            "`0` is not valid for `max_op_cache_size` in `/k/op_cache.ini`",
            "`101` is not valid for `remain_cache_size_ratio` in `/k/op_cache.ini`",
            "`many` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`",
            "`-1` is not valid for `ASCEND_REMAIN_CACHE_SIZE_RATIO`",
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.contains(expected), "{warning}");
        }
        // A section without limits is not reported.
        assert_eq!(found(&format!("{}[other]\nx=1\n", file("9", "40")), ("", "")).2, Vec::<String>::new());
    }

    #[test]
    fn an_unreadable_file_sets_no_limit() {
        let seven = LimitSettings::new().with_size(7);
        let (limits, warnings) = resolve(Err(io::Error::other("denied")), "/k/op_cache.ini", &seven);
        assert_eq!((limits.max_bytes, warnings.len()), (None, 1));
        assert!(warnings[0].to_string().contains("`/k/op_cache.ini` cannot be read: denied"));
    }
}
