//! How large CANN lets a cache become: its own file, its own variables, its own defaults.
//!
//! `op_cache.ini` beside the chips' folders wins over the environment, if both its values are valid. Two rules of CANN's
//! are not followed, and told where they matter: it passes over the sizes in a file without `adk_version` and
//! `ops_version`, and over the names that the documents of CANN 6.3 and 7.0 gave them. Who wrote a limit by the
//! documentation meant it. And no value that is no number is taken for 0.

use std::collections::BTreeSet;

use thiserror::Error;

/// CANN's file of limits, beside the folders of the chips.
pub(crate) const INI: &str = "op_cache.ini";
/// CANN's defaults.
const DEFAULT_MEGABYTES: u64 = 500;
const DEFAULT_PERCENT: u8 = 50;
const SECTION: &str = "op_compiler_cache";
/// What a message shows of a value at most.
const SHOWN: usize = 60;

/// How large one chip's folder may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Its bytes. `None`: there is no aging.
    pub max_bytes: Option<u64>,
    /// How much of that is left once it was reached, in percent.
    pub remain_percent: u8,
}

/// What the environment says of limits, as it stands there: a library does not read the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// `ASCEND_MAX_OP_CACHE_SIZE`, in MB.
    pub max_op_cache_size: Option<String>,
    /// `ASCEND_REMAIN_CACHE_SIZE_RATIO`, in percent.
    pub remain_cache_size_ratio: Option<String>,
}

/// Something about limits that does not count, or counts otherwise than its author may think.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitWarning {
    /// A value that the parameter does not take.
    #[error(
        "`{value}` is not valid for `{name}`{place}: expected {range}; it does not count (default: {default})"
    )]
    Value {
        /// The value, or its beginning.
        value: String,
        /// Of what.
        name: &'static str,
        /// In which file, if it is in one.
        place: String,
        /// What is taken.
        range: &'static str,
        /// What holds if nobody sets it.
        default: &'static str,
    },
    /// A value with something behind it.
    #[error("`{value}` for `{name}`{place} counts as {taken}, as CANN reads it: write the number alone")]
    Trailing {
        /// The value, or its beginning.
        value: String,
        /// Of what.
        name: &'static str,
        /// In which file, if it is in one.
        place: String,
        /// The number at its beginning.
        taken: i64,
    },
    /// One of two values that count together.
    #[error("`{path}` sets `{set}` but not `{missing}`: only both together count; add `{missing}=...`")]
    Alone {
        /// The file.
        path: String,
        /// What it sets.
        set: &'static str,
        /// What it does not.
        missing: &'static str,
    },
    /// Limits that hold here by the documentation, and that CANN itself passes over.
    #[error("the limits in `{path}` count here, but CANN passes over them: {reason}")]
    Ours {
        /// The file.
        path: String,
        /// Why CANN does, and what would make it obey.
        reason: &'static str,
    },
    /// A section with limits in it that nobody reads.
    #[error(
        "the limits in the section `[{section}]` of `{path}` do not count: expected `[op_compiler_cache]`"
    )]
    Section {
        /// The file.
        path: String,
        /// Its name, or its beginning.
        section: String,
    },
    /// A line of the section that sets nothing.
    #[error(
        "line {line} of `{path}` does not count: `{text}`; expected `key=value` or `[op_compiler_cache]`"
    )]
    Line {
        /// The file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// What stands there, or its beginning.
        text: String,
    },
    /// The file is there and cannot be read.
    #[error(
        "the limits in `{path}` cannot be read: {problem}; no kernel is deleted for want of room unless --max-size says so"
    )]
    Unread {
        /// The file.
        path: String,
        /// Why not.
        problem: String,
    },
}

/// A value that can be set, in one place.
struct Parameter {
    name: &'static str,
    range: &'static str,
    default: &'static str,
    takes: fn(i64) -> bool,
}

const SIZE_IN_FILE: Parameter = Parameter {
    name: "max_op_cache_size",
    range: "a whole number of MB in [1, 2147483647], or -1 for no aging",
    default: "500",
    takes: |number| matches!(number, -1 | 1..=2_147_483_647),
};
const RATIO_IN_FILE: Parameter = Parameter {
    name: "remain_cache_size_ratio",
    range: "a whole number of percent in [1, 100]",
    default: "50",
    takes: |number| matches!(number, 1..=100),
};
const SIZE_IN_ENVIRONMENT: Parameter = Parameter {
    name: "ASCEND_MAX_OP_CACHE_SIZE",
    range: "a whole number of MB in [1, 2147483647), or -1 for no aging",
    default: "500",
    takes: |number| matches!(number, -1 | 1..=2_147_483_646),
};
const RATIO_IN_ENVIRONMENT: Parameter = Parameter {
    name: "ASCEND_REMAIN_CACHE_SIZE_RATIO",
    range: "a whole number of percent in [0, 100]",
    default: "50",
    takes: |number| matches!(number, 0..=100),
};

impl Parameter {
    /// The value of `text`, if there is one and it is valid. One that is not, or not only a number, is reported.
    fn read(&self, text: Option<&str>, file: Option<&str>, notices: &mut Vec<LimitWarning>) -> Option<i64> {
        let text = text?;
        let Self { name, range, default, takes } = *self;
        let value = || text.chars().take(SHOWN).collect();
        let place = || file.map(|file| format!(" in `{file}`")).unwrap_or_default();
        match leading_number(text).filter(|(number, _)| takes(*number)) {
            Some((number, "")) => Some(number),
            Some((number, rest)) if rest.trim_start().starts_with('#') => Some(number),
            Some((taken, _)) => {
                notices.push(LimitWarning::Trailing { value: value(), name, place: place(), taken });
                Some(taken)
            }
            None => {
                notices.push(LimitWarning::Value { value: value(), name, place: place(), range, default });
                None
            }
        }
    }
}

/// The number that a text begins with, and what stands behind it: CANN reads `500MB` as 500.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let text = text.trim();
    let sign = usize::from(text.starts_with(['-', '+']));
    let end = text[sign..].find(|letter: char| !letter.is_ascii_digit()).map_or(text.len(), |at| at + sign);
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The values in a file, as they stand there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ini {
    size: Option<String>,
    ratio: Option<String>,
    /// Why CANN passes over them, if it does.
    passed_over: Option<&'static str>,
    /// Sections of other names with limits in them.
    sections: Vec<String>,
    /// Lines that set nothing, by number.
    unknown: Vec<(usize, String)>,
}

/// More lines of one kind are not reported: a file with so many is something else.
const MAX_STRANGE: usize = 3;

impl Ini {
    fn parse(text: &str) -> Self {
        let (mut found, mut section) = (Self::default(), "");
        let (mut sections, mut versions, mut old_names) = (BTreeSet::new(), [false; 2], false);
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') {
                continue;
            }
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name.trim();
                continue;
            }
            let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
            else {
                let is_ours = matches!(section, "" | SECTION) && !line.is_empty() && !line.starts_with('#');
                if is_ours && found.unknown.len() < MAX_STRANGE {
                    found.unknown.push((number, line.chars().take(SHOWN).collect()));
                }
                continue;
            };
            if key.is_empty() || value.is_empty() {
                continue;
            }
            sections.insert(section);
            if !matches!(section, "" | SECTION) {
                let name: String = section.chars().take(SHOWN).collect();
                if key.contains("op_cache_size") || key.contains("cache_size_ratio") {
                    found.add_section(name);
                }
                continue;
            }
            match key {
                "adk_version" => versions[0] = true,
                "ops_version" => versions[1] = true,
                "max_op_cache_size" => found.size = Some(value.to_owned()),
                "remain_cache_size_ratio" => found.ratio = Some(value.to_owned()),
                "ascend_max_op_cache_size" | "ascend_remain_cache_size_ratio" => {
                    let place = if key.contains("max") { &mut found.size } else { &mut found.ratio };
                    old_names |= place.is_none();
                    place.get_or_insert_with(|| value.to_owned());
                }
                _ => {}
            }
        }
        found.passed_over = match () {
            () if sections.first().is_some_and(|first| *first != SECTION) => {
                Some("a section before [op_compiler_cache], or none, makes it reject the file")
            }
            () if old_names => Some("it calls them max_op_cache_size and remain_cache_size_ratio now"),
            () if versions != [true; 2] => Some(
                "adk_version and ops_version are missing; have CANN make the file, and add the limits to that",
            ),
            () => None,
        };
        found
    }
}

impl Ini {
    fn add_section(&mut self, name: String) {
        if !self.sections.contains(&name) && self.sections.len() < MAX_STRANGE {
            self.sections.push(name);
        }
    }

    /// What is to be said of the file besides its values.
    fn notices(&self, path: &str) -> Vec<LimitWarning> {
        let section =
            |section: &String| LimitWarning::Section { path: path.to_owned(), section: section.clone() };
        let line = |(line, text): &(usize, String)| LimitWarning::Line {
            path: path.to_owned(),
            line: *line,
            text: text.clone(),
        };
        self.unknown.iter().map(line).chain(self.sections.iter().map(section)).collect()
    }
}

/// The limits that hold where `ini` is the text of `op_cache.ini` at `path`, and what is to be said of them. Of an
/// error no limit follows.
pub(crate) fn find(
    ini: Result<Option<String>, String>,
    path: &str,
    environment: &LimitSettings,
) -> (Limits, Vec<LimitWarning>) {
    match ini {
        Ok(text) => resolve(&Ini::parse(text.as_deref().unwrap_or_default()), path, environment),
        Err(problem) => {
            let limits = Limits { max_bytes: None, remain_percent: DEFAULT_PERCENT };
            (limits, vec![LimitWarning::Unread { path: path.to_owned(), problem }])
        }
    }
}

/// File, then environment, then default. Size and ratio of the file count only together.
fn resolve(ini: &Ini, path: &str, environment: &LimitSettings) -> (Limits, Vec<LimitWarning>) {
    let mut notices = ini.notices(path);
    let told = &mut notices;
    let file = Some(path);
    let in_file = (
        SIZE_IN_FILE.read(ini.size.as_deref(), file, told),
        RATIO_IN_FILE.read(ini.ratio.as_deref(), file, told),
    );
    let alone = |set, missing| LimitWarning::Alone { path: path.to_owned(), set, missing };
    match (&ini.size, &ini.ratio) {
        (Some(_), None) => told.push(alone(SIZE_IN_FILE.name, RATIO_IN_FILE.name)),
        (None, Some(_)) => told.push(alone(RATIO_IN_FILE.name, SIZE_IN_FILE.name)),
        _ => {}
    }
    let (size, percent) = match in_file {
        (Some(size), Some(percent)) => {
            told.extend(ini.passed_over.map(|reason| LimitWarning::Ours { path: path.to_owned(), reason }));
            (Some(size), Some(percent))
        }
        _ => (
            SIZE_IN_ENVIRONMENT.read(environment.max_op_cache_size.as_deref(), None, told),
            RATIO_IN_ENVIRONMENT.read(environment.remain_cache_size_ratio.as_deref(), None, told),
        ),
    };
    let megabytes = match size {
        Some(-1) => None,
        Some(megabytes) => Some(megabytes.unsigned_abs()),
        None => Some(DEFAULT_MEGABYTES),
    };
    let remain_percent = percent.and_then(|percent| u8::try_from(percent).ok()).unwrap_or(DEFAULT_PERCENT);
    (Limits { max_bytes: megabytes.map(|megabytes| megabytes << 20), remain_percent }, notices)
}

impl Limits {
    /// What is left of `bytes` once they were reached.
    pub(crate) fn remaining_of(&self, bytes: u64) -> u64 {
        let left = u128::from(bytes) * u128::from(self.remain_percent) / 100;
        u64::try_from(left).unwrap_or(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn found(ini: &str, (size, ratio): (&str, &str)) -> (Option<u64>, u8, Vec<String>) {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let environment =
            LimitSettings { max_op_cache_size: text(size), remain_cache_size_ratio: text(ratio) };
        let (limits, notices) = find(Ok(text(ini)), "/k/op_cache.ini", &environment);
        (limits.max_bytes, limits.remain_percent, notices.iter().map(ToString::to_string).collect())
    }

    /// As CANN writes it, with limits added.
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
        // The file as CANN makes it sets nothing.
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
            let (size, ratio, notices) = found(&ini, ("7", "30"));
            assert_eq!((size, ratio, notices.len()), (Some(7 * MB), 30, 1), "{ini}: {notices:?}");
            assert!(notices[0].contains(complaint), "{notices:?}");
        }
    }

    #[test]
    fn values_of_the_environment_have_their_own_ranges() {
        for bad in ["0", "-2", "abc", "2147483647", "99999999999999999999999", " "] {
            let (size, _, notices) = found("", (bad, ""));
            assert_eq!((size, notices.len()), (Some(500 * MB), 1), "{bad}");
            let expected = format!(
                "`{bad}` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`: expected a whole number of MB in [1, 2147483647), \
                 or -1 for no aging; it does not count (default: 500)"
            );
            assert_eq!(notices[0], expected);
        }
        // CANN takes a text without a number for 0 percent, and would delete everything idle.
        for bad in ["-1", "101", "abc", "%"] {
            let (_, ratio, notices) = found("", ("", bad));
            assert_eq!((ratio, notices.len()), (50, 1), "{bad}");
            assert!(notices[0].contains("percent in [0, 100]") && notices[0].contains("(default: 50)"));
        }
        assert_eq!(found("", ("2147483646", "0")), (Some(2_147_483_646 * MB), 0, vec![]));
        assert!(found("", (&"9".repeat(5000), "")).2[0].len() < 300);
    }

    #[test]
    fn a_number_with_something_behind_it_counts_as_in_cann() {
        let (size, ratio, notices) = found(&file("2000MB", "40%"), ("7", "30"));
        assert_eq!((size, ratio, notices.len()), (Some(2000 * MB), 40, 2), "{notices:?}");
        assert!(notices[0].contains("`2000MB` for `max_op_cache_size` in `/k/op_cache.ini` counts as 2000"));
        assert_eq!(found(&file("2000 # MB", " 40"), ("", "")), (Some(2000 * MB), 40, vec![]));
        assert_eq!(found("", ("+5.5", "")).0, Some(5 * MB));
    }

    #[test]
    fn what_cann_passes_over_counts_and_is_told() {
        let plain = "[op_compiler_cache]\nmax_op_cache_size=9\nremain_cache_size_ratio=40\n";
        let cases = [
            (plain.to_owned(), "adk_version and ops_version are missing"),
            (plain.replace("max_op", "ascend_max_op").replace("remain", "ascend_remain"), "calls them"),
            (plain.replace("[op_compiler_cache]\n", ""), "makes it reject the file"),
            (format!("[a]\nx=1\n{plain}adk_version=1\nops_version=1\n"), "makes it reject the file"),
        ];
        for (ini, reason) in cases {
            let (size, ratio, notices) = found(&ini, ("7", "30"));
            assert_eq!((size, ratio, notices.len()), (Some(9 * MB), 40, 1), "{ini}: {notices:?}");
            assert!(
                notices[0].contains("CANN passes over them") && notices[0].contains(reason),
                "{notices:?}"
            );
        }
        let later = format!("{}[z]\nmax_op_cache_size=1\n", file("9", "40"));
        let (size, ratio, notices) = found(&later, ("", ""));
        assert_eq!((size, ratio, notices.len()), (Some(9 * MB), 40, 1), "{notices:?}");
        assert!(notices[0].contains("section `[z]`") && notices[0].contains("[op_compiler_cache]"));
        let again = format!("# max_op_cache_size=1\n{}max_op_cache_size=8\r\n", file("9", "40"));
        assert_eq!(found(&again, ("", "")), (Some(8 * MB), 40, vec![]));
    }

    #[test]
    fn everything_that_does_not_count_is_reported_each() {
        let ini = "[op_cache]\nmax_op_cache_size=9\nremain_cache_size_ratio=40\n[op_compiler_cache]\nmax_op_cache_size 7\n\
                   max_op_cache_size=0\nremain_cache_size_ratio=101\n[op_compiler_cache\n";
        let (size, ratio, notices) = found(ini, ("many", "-1"));
        assert_eq!((size, ratio), (Some(500 * MB), 50));
        let expected = [
            "line 5 of `/k/op_cache.ini` does not count: `max_op_cache_size 7`",
            "line 8 of `/k/op_cache.ini` does not count: `[op_compiler_cache`",
            "section `[op_cache]` of `/k/op_cache.ini`",
            "`0` is not valid for `max_op_cache_size` in `/k/op_cache.ini`",
            "`101` is not valid for `remain_cache_size_ratio` in `/k/op_cache.ini`",
            "`many` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`",
            "`-1` is not valid for `ASCEND_REMAIN_CACHE_SIZE_RATIO`",
        ];
        assert_eq!(notices.len(), expected.len(), "{notices:?}");
        for (notice, expected) in notices.iter().zip(expected) {
            assert!(notice.contains(expected), "{notice}");
        }
        // A section of other things is none of ours.
        assert_eq!(found(&format!("{}[other]\nx=1\n", file("9", "40")), ("", "")).2, Vec::<String>::new());
    }

    #[test]
    fn limits_that_cannot_be_read_limit_nothing() {
        let seven = LimitSettings { max_op_cache_size: Some("7".into()), ..LimitSettings::default() };
        let (limits, notices) = find(Err("denied".into()), "/k/op_cache.ini", &seven);
        assert_eq!((limits.max_bytes, notices.len()), (None, 1));
        assert!(notices[0].to_string().contains("`/k/op_cache.ini` cannot be read: denied"));
    }

    #[test]
    fn a_part_of_the_limit_is_left() {
        let limits = Limits { max_bytes: None, remain_percent: 33 };
        assert_eq!(limits.remaining_of(10), 3);
        assert_eq!(limits.remaining_of(u64::MAX), 6_087_425_544_324_152_032);
    }
}
