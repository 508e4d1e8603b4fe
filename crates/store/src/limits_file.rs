//! The file `op_cache.ini`, with limits for all users of a store.
//!
//! The format is the one that CANN documents: a section, `key=value`, comments behind `#`. Files written by hand are accepted:
//! without a section, with blanks, CR LF, a comment behind a value. A later line overrides an earlier one. The keys in the
//! documents of CANN 6.3 and 7.0, `ascend_max_op_cache_size` and `ascend_remain_cache_size_ratio`, are other names of the
//! same two. Unlike in CANN, the file needs no versions of the toolkit; they are ignored.
//!
//! The file of a new store sets nothing, since its values would take precedence over those of the environment.

use std::io;
use std::path::{Path, PathBuf};

use crate::files;
use crate::layout::LIMITS_FILE;
use opkeep_fs::RootedFs;

/// The only section that is read.
pub const LIMITS_SECTION: &str = "op_compiler_cache";
const MAX_BYTES: u64 = 64 * 1024;
/// The maximum number of unknown lines, and of sections, that are reported: a file of another kind has many.
const MAX_UNKNOWN: usize = 3;

/// The content of a new file. It sets nothing, since its values would override the environment.
pub(crate) const TEMPLATE: &str = "\
# Limits of this cache of compiled kernels. They hold for each directory below v1 by itself, and for all users of the
# cache.
#
# max_op_cache_size        size of a directory in MB, 1 to 2147483647 (500 if unset). If it is exceeded, kernels that were
#                          idle for half an hour are deleted. -1: nothing is ever deleted, and the time of the last use
#                          of a kernel is not recorded.
# remain_cache_size_ratio  how much of that size is left then, in percent, 1 to 100 (50 if unset).
#
# These two count only if both are set and valid. Then they win over the environment variables
# ASCEND_MAX_OP_CACHE_SIZE and ASCEND_REMAIN_CACHE_SIZE_RATIO.
#
# max_op_cache_entries     number of kernels in a directory, for disks where the number of files is limited (no limit
#                          if unset). It counts by itself, and wins over the environment.
[op_compiler_cache]
# max_op_cache_size=500
# remain_cache_size_ratio=50
# max_op_cache_entries=100000
";

/// The values in an `op_cache.ini`, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsFile {
    /// The size limit.
    pub size: Option<String>,
    /// The part that an eviction leaves.
    pub ratio: Option<String>,
    /// The number of entries.
    pub entries: Option<String>,
    /// The first unknown lines, with their numbers.
    pub unknown: Vec<(usize, String)>,
    /// The first other sections with lines in them, with the number of the line at which each begins.
    pub sections: Vec<(usize, String)>,
}

/// A line of an `op_cache.ini` that is neither empty, a comment nor the begin of a section.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LimitLine<'a> {
    /// The number of the line, from 1.
    pub number: usize,
    /// The section of the line: the number of the line at which the section begins, and the section's name. `None`
    /// before the first section.
    pub section: Option<(usize, &'a str)>,
    /// The text of the line, without the comment.
    pub text: &'a str,
    /// The key and the value, if the line is a setting.
    pub setting: Option<(&'a str, &'a str)>,
}

impl LimitsFile {
    /// Returns the path of the file of the store at `root`.
    pub fn path(root: &Path) -> PathBuf {
        root.join(LIMITS_FILE)
    }

    /// Reads the file of the store at `root`. If `make`, a missing file is created, without values.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub(crate) fn load(fs: &RootedFs, root: &Path, make: bool) -> io::Result<Self> {
        let path = Self::path(root);
        match files::read_whole(fs, &path, MAX_BYTES) {
            Ok(bytes) => Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if make {
                    // The file is for users to edit; the store works without it.
                    let _ = files::write_new(fs, &path, TEMPLATE);
                }
                Ok(Self::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the lines of `text`.
    pub fn lines(text: &str) -> impl Iterator<Item = LimitLine<'_>> {
        let mut section = None;
        text.lines().zip(1..).filter_map(move |(line, number)| {
            let text = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                section = Some((number, name.trim()));
                return None;
            }
            let setting = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            (!text.is_empty()).then_some(LimitLine { number, section, text, setting })
        })
    }

    /// Adds an unread line or section to `list`, up to the maximum number, unless it is the last one in the list.
    pub fn note(list: &mut Vec<(usize, String)>, line: usize, text: &str) {
        if list.len() < MAX_UNKNOWN && list.last().is_none_or(|(last, _)| *last != line) {
            list.push((line, text.to_owned()));
        }
    }

    /// Reads the settings in `text`.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let lines = Self::lines(text.trim_start_matches('\u{feff}'));
        for line in lines.filter(|line| !line.text.starts_with(';')) {
            match line.section {
                Some((begin, name)) if name != LIMITS_SECTION => Self::note(&mut found.sections, begin, name),
                _ if found.set(line.setting) => {}
                _ => Self::note(&mut found.unknown, line.number, line.text),
            }
        }
        found
    }

    /// Stores the value of a setting. Returns false if the setting is unknown.
    fn set(&mut self, setting: Option<(&str, &str)>) -> bool {
        let Some((key, value)) = setting else { return false };
        let place = match key {
            "max_op_cache_size" | "ascend_max_op_cache_size" => &mut self.size,
            "remain_cache_size_ratio" | "ascend_remain_cache_size_ratio" => &mut self.ratio,
            "max_op_cache_entries" => &mut self.entries,
            // CANN's file has the versions of the toolkit in these settings. A store has them in its keys.
            "adk_version" | "ops_version" => return true,
            _ => return false,
        };
        *place = Some(value).filter(|value| !value.is_empty()).map(str::to_owned);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(text: &str) -> (Option<String>, Option<String>) {
        let ini = LimitsFile::parse(text);
        (ini.size, ini.ratio)
    }

    fn both(size: &str, ratio: &str) -> (Option<String>, Option<String>) {
        (Some(size.to_owned()), Some(ratio.to_owned()))
    }

    #[test]
    fn documented_and_handwritten_files_are_read() {
        let documented =
            "[op_compiler_cache]\n# MB\nmax_op_cache_size=500\n#percent\nremain_cache_size_ratio=80\n";
        assert_eq!(sizes(documented), both("500", "80"));
        assert_eq!(sizes("max_op_cache_size=7\nremain_cache_size_ratio=9"), both("7", "9"));
        let windows = "\u{feff}[op_compiler_cache]\r\n\tmax_op_cache_size = 7 # small\r\nremain_cache_size_ratio= 9\r\n";
        assert_eq!(sizes(windows), both("7", "9"));
        let old = "[ op_compiler_cache ]\nascend_max_op_cache_size=7\nascend_remain_cache_size_ratio=9\n";
        assert_eq!(sizes(old), both("7", "9"));
        let vendors = "[op_compiler_cache]\nadk_version=7.7\nops_version=7.7\nmax_op_cache_size=7\nremain_cache_size_ratio=9\n";
        assert_eq!(sizes(vendors), both("7", "9"));
        assert!(LimitsFile::parse(vendors).unknown.is_empty());
        assert_eq!(
            sizes("max_op_cache_size=1\nmax_op_cache_size=2\nremain_cache_size_ratio=\n").0,
            Some("2".into())
        );
        assert_eq!(
            sizes("[other]\nmax_op_cache_size=1\n[op_compiler_cache]\nremain_cache_size_ratio=9\n"),
            (None, Some("9".into()))
        );
    }

    #[test]
    fn lines_that_say_nothing_are_named() {
        let ini = LimitsFile::parse(
            "[op_compiler_cache]\nmax_op_cache_sze=7\n\nmax_op_cache_size 500\nremain_cache_size_ratio=9\n",
        );
        let expected = [(2, "max_op_cache_sze=7".to_owned()), (4, "max_op_cache_size 500".to_owned())];
        assert_eq!(ini.unknown, expected);
        assert_eq!(LimitsFile::parse(&"\u{1}junk\n".repeat(9999)).unknown.len(), MAX_UNKNOWN);
    }

    #[test]
    fn sections_of_other_names_are_named_if_they_hold_anything() {
        let ini = LimitsFile::parse(
            "[op_cache]\nmax_op_cache_size=7\nratio=1\n[empty]\n# x\n[op_compiler_cache]\n[ Old ]\nx\n",
        );
        assert_eq!(ini.sections, [(1, "op_cache".to_owned()), (7, "Old".to_owned())]);
        assert_eq!((ini.size, ini.unknown.len()), (None, 0));
        assert_eq!(LimitsFile::parse(&"[a]\nb=c\n".repeat(9)).sections.len(), MAX_UNKNOWN);
    }

    #[test]
    fn the_template_sets_nothing() {
        assert_eq!(LimitsFile::parse(TEMPLATE), LimitsFile::default());
        assert_eq!(
            sizes(&TEMPLATE.replace("\n# max_op", "\nmax_op").replace("\n# remain", "\nremain")),
            both("500", "50")
        );
    }

    /// Text around `key=value` that does not change its meaning.
    fn line(key: &'static str, value: String) -> impl Strategy<Value = String> {
        let blank = || prop_oneof![Just(""), Just(" "), Just("\t  ")];
        let end = prop_oneof![Just(""), Just("\r"), Just("  "), Just(" # so many"), Just("#x=1\r")];
        (blank(), blank(), blank(), end).prop_map(move |(before, around, after, end)| {
            format!("{before}{key}{around}={after}{value}{end}")
        })
    }

    fn noise() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "#[ -~]{0,30}",
            Just("; max_op_cache_size=1".to_owned()),
            Just("adk_version=7.7.0.1.238".to_owned()),
            "[a-z]{1,9}",
            "[a-z]{1,9}=[ -~&&[^#]]{0,9}",
        ]
    }

    proptest! {
        #[test]
        fn values_round_trip_in_any_text(
            size in any::<i64>(), ratio in any::<i32>(), header in any::<bool>(), mark in any::<bool>(),
            swapped in any::<bool>(), noise in proptest::array::uniform3(proptest::collection::vec(noise(), 0..4)),
            lines in any::<u64>().prop_flat_map(|_| (line("max_op_cache_size", "SIZE".into()), line("remain_cache_size_ratio", "RATIO".into()))),
        ) {
            let (size, ratio) = (size.to_string(), ratio.to_string());
            let mut pair = [lines.0.replace("SIZE", &size), lines.1.replace("RATIO", &ratio)];
            if swapped {
                pair.swap(0, 1);
            }
            let [first, second] = pair;
            let head = header.then(|| "[op_compiler_cache]".to_owned());
            let all: Vec<String> = head.into_iter().chain(noise[0].clone()).chain([first]).chain(noise[1].clone())
                .chain([second]).chain(noise[2].clone()).collect();
            let text = format!("{}{}", if mark { "\u{feff}" } else { "" }, all.join("\n"));
            prop_assert_eq!(sizes(&text), both(&size, &ratio), "{}", text);
        }

        #[test]
        fn any_text_is_accepted(text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            LimitsFile::parse(&text);
            let ini = LimitsFile::parse(&String::from_utf8_lossy(&bytes));
            prop_assert!(ini.unknown.len() <= MAX_UNKNOWN);
        }
    }
}
