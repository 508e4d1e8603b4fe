//! The command line of `opc` and `asc_opc`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::NotCached;

/// The options of `opc` of CANN 8.1 and of `asc_opc` of 9.1. All but `help` have a value.
#[rustfmt::skip]
const NAMES: [&str; 28] = [
    "aicore_num", "bin_filename", "core_type", "debug_dir", "deterministic", "dynamic_param_mode", "graph", "help",
    "impl_mode", "impl_path", "input_param", "kernel-template-input", "log", "main_func", "mdl_bank_path", "op_bank_path",
    "op_debug_config", "op_debug_level", "op_mode", "op_relocatable_kernel_binary", "op_super_kernel_options",
    "optional_input_mode", "optional_output_mode", "output", "relocatable_bin", "simplified_key_mode", "soc_version",
    "tiling_key",
];

/// Lists whose order differs in each run of the scripts that write them: they are joined from a Python `set`.
const SETS: [&str; 2] = ["op_debug_config", "op_super_kernel_options"];

/// Debug options after which `opc` keeps its work directory, which its caller then reads.
const KEEPING: [&str; 3] = ["dump_cce", "dump_bin", "dump_loc"];

/// Debug options after which an object may contain the paths of its sources, also in a form that no search finds.
const SHOWING_PATHS: [&str; 2] = ["ccec_g", "sanitizer"];

/// A command line that compiles one parameter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The Python file of the operator: the first argument, if it contains `.py`.
    pub(crate) source: Option<OsString>,
    /// The values by name. Of repeated options the last one counts.
    given: BTreeMap<String, OsString>,
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// The reason why the command is run as it is: it compiles nothing, keeps its work directory, or has an option whose
    /// meaning depends on the release.
    pub(crate) fn read(args: &[OsString]) -> Result<Self, NotCached> {
        let (source, rest) = match args.split_first() {
            Some((first, rest)) if contains(first, b".py") => (Some(first.clone()), rest),
            _ => (None, args),
        };
        let given = named(rest)?;
        let options = Self { source, given };
        options.check()?;
        Ok(options)
    }

    /// The value of an option.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.given.get(name).map(OsString::as_os_str)
    }

    /// The directory that an option names, the current one if it is unset or empty, as in the command.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let named = self.get(name).filter(|value| !value.is_empty());
        named.map_or_else(|| PathBuf::from("."), PathBuf::from)
    }

    /// The options in the order of their names, with the words of lists that are sets sorted, without the work directory.
    pub(crate) fn effective(&self) -> impl Iterator<Item = (&str, OsString)> {
        let counted = self.given.iter().filter(|(name, _)| *name != "debug_dir");
        counted.map(|(name, value)| match SETS.contains(&name.as_str()) {
            true => (name.as_str(), sorted(value)),
            false => (name.as_str(), value.clone()),
        })
    }

    /// The arguments of the command whose work directory is `debug_dir`: those that the key has, so that the command cannot see a difference that
    /// the key does not have.
    pub(crate) fn args_with_debug_dir(&self, debug_dir: &OsStr) -> Vec<OsString> {
        let options = self.effective().chain([("debug_dir", debug_dir.to_owned())]).map(|(name, value)| {
            let mut arg = OsString::from(format!("--{name}="));
            arg.push(value);
            arg
        });
        self.source.iter().cloned().chain(options).collect()
    }

    /// Whether a debug option lets objects contain the paths of their sources.
    pub(crate) fn may_show_paths(&self) -> bool {
        self.debug_words().any(|word| SHOWING_PATHS.iter().any(|shown| word == shown.as_bytes()))
    }

    fn check(&self) -> Result<(), NotCached> {
        if self.get("graph").is_some_and(|graph| !graph.is_empty()) {
            return Err(NotCached::Graph);
        }
        if self.get("input_param").is_none() {
            return Err(NotCached::NoParameters);
        }
        if let Some(word) =
            self.debug_words().find(|word| KEEPING.iter().any(|kept| *word == kept.as_bytes()))
        {
            let option = format!("op_debug_config={}", String::from_utf8_lossy(word));
            return Err(NotCached::KeepsWorkDir { option });
        }
        // 1 and 2 write the generated code beside the object, 3 keeps all files.
        match self.get("op_debug_level").filter(|level| *level != "0") {
            Some(level) => {
                Err(NotCached::KeepsWorkDir { option: format!("op_debug_level={}", level.to_string_lossy()) })
            }
            None => Ok(()),
        }
    }

    fn debug_words(&self) -> impl Iterator<Item = &[u8]> {
        let list = self.get("op_debug_config").unwrap_or_default();
        list.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
    }
}

/// Reads options as `getopt` of Python does: until the first argument that is none.
fn named(args: &[OsString]) -> Result<BTreeMap<String, OsString>, NotCached> {
    let mut given = BTreeMap::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let not_cached = || NotCached::Option { option: arg.to_string_lossy().into_owned() };
        let option = match arg.as_bytes() {
            [b'-', b'-', option @ ..] if !option.is_empty() => option,
            [b'-', other @ ..] if other != b"-" && !other.is_empty() => return Err(not_cached()),
            // The commands ignore what follows.
            _ => break,
        };
        let (name, value) = match option.iter().position(|byte| *byte == b'=') {
            Some(at) => (&option[..at], Some(OsString::from_vec(option[at + 1..].to_vec()))),
            None => (option, None),
        };
        let name = std::str::from_utf8(name).map_err(|_| not_cached())?;
        let value = match (kind(name), value) {
            (Name::Known | Name::Unknown, Some(value)) => value,
            (Name::Known, None) => args.next().cloned().ok_or_else(not_cached)?,
            (Name::Unknown, None) | (Name::Ambiguous, _) => return Err(not_cached()),
        };
        given.insert(name.to_owned(), value);
    }
    Ok(given)
}

enum Name {
    Known,
    /// An option of a release that is not known here: its text counts, if it shows where its value ends.
    Unknown,
    /// The beginning of known names: the commands take a unique one for the name, and which ones are unique depends on
    /// the release.
    Ambiguous,
}

fn kind(name: &str) -> Name {
    match name {
        "help" => Name::Ambiguous,
        _ if NAMES.contains(&name) => Name::Known,
        _ if NAMES.iter().any(|known| known.starts_with(name)) => Name::Ambiguous,
        _ => Name::Unknown,
    }
}

/// A list in the order of its words. The words stay what they are, and as many.
fn sorted(list: &OsStr) -> OsString {
    let mut words: Vec<_> = list.as_bytes().split(|byte| *byte == b',').collect();
    opkeep_order::sort(&mut words);
    OsString::from_vec(words.join(&b','))
}

fn contains(text: &OsStr, part: &[u8]) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::{NotCached, Options};

    fn read(line: &str) -> Result<Options, NotCached> {
        Options::read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn effective(line: &str) -> Vec<String> {
        let options = read(line).unwrap();
        options.effective().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn options_count_as_the_command_takes_them() {
        let one = "Add.py --main_func=add --input_param=p.json --soc_version=Ascend910B1 --output=a --op_debug_config=oom,check_flag";
        let other = "Add.py --op_debug_config check_flag,oom --soc_version=Ascend310P3 --output a --input_param=p.json \
                     --debug_dir=/tmp --main_func add --soc_version Ascend910B1 -- --ignored=1";
        assert_eq!(effective(one), effective(other));
        assert_eq!(
            effective(one),
            [
                "input_param=p.json",
                "main_func=add",
                "op_debug_config=check_flag,oom",
                "output=a",
                "soc_version=Ascend910B1"
            ]
        );
        assert_ne!(effective(one), effective(&one.replace("910B1", "910B2")));
        assert_ne!(effective(one), effective(&one.replace("check_flag", "check_flag,oom")));
        assert_eq!(effective("A.py --input_param=p --newer_option=1"), ["input_param=p", "newer_option=1"]);
    }

    #[test]
    fn the_work_directory_is_replaced_and_all_else_stays() {
        let options =
            read("Add.py --input_param=p --output=o --debug_dir=d --tiling_key=1,2 --new=x").unwrap();
        let args = options.args_with_debug_dir(OsStr::new("/private"));
        let wanted = [
            "Add.py",
            "--input_param=p",
            "--new=x",
            "--output=o",
            "--tiling_key=1,2",
            "--debug_dir=/private",
        ];
        assert_eq!(args, wanted);
        assert_eq!(options.directory("output"), OsStr::new("o"));
        assert_eq!(read("A.py --input_param=p --output=").unwrap().directory("output"), OsStr::new("."));
    }

    /// What two commands see as different is different in their keys.
    #[test]
    fn the_command_gets_what_its_key_has() {
        let read = |config: &str| {
            let args = ["A.py", "--input_param=p", "--op_debug_config", config].map(OsString::from);
            Options::read(&args).unwrap()
        };
        for config in ["oom,check_flag", "check_flag, oom", "oom,oom,check_flag", " oom", "", ",oom"] {
            let options = read(config);
            let given: Vec<OsString> = options.args_with_debug_dir(OsStr::new("/d"));
            let value = options.effective().find(|(name, _)| *name == "op_debug_config").unwrap().1;
            let value = value.into_string().unwrap();
            assert!(given.contains(&format!("--op_debug_config={value}").into()), "{config}: {given:?}");
            let mut words = [config, value.as_str()].map(|list| list.split(',').collect::<Vec<_>>());
            words.iter_mut().for_each(|words| words.sort_unstable());
            assert_eq!(words[0], words[1], "{config}");
        }
    }

    #[test]
    fn what_has_no_clear_meaning_is_not_cached() {
        for line in [
            "",
            "--help",
            "-h",
            "Add.py --main_func=add",
            "Add.py --input_param=p --outp=x",
            "Add.py --input_param=p --debug_d=x",
            "Add.py --input_param=p --newer_option 1",
            "Add.py --input_param=p --output",
            "Add.py --input_param=p -x",
            "--graph=g --input_param=p",
            "Add.py --input_param=p --op_debug_config=oom,dump_cce",
            "Add.py --input_param=p --op_debug_level=1",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        let shown = |line: &str| read(line).unwrap().may_show_paths();
        assert!(shown("A.py --input_param=p --op_debug_config=oom,ccec_g"));
        assert!(shown("A.py --input_param=p --op_debug_config=sanitizer"));
        assert!(!shown("A.py --input_param=p --op_debug_config=oom --op_debug_level=0"));
    }

    #[test]
    fn a_file_is_taken_only_if_its_name_says_so() {
        assert_eq!(read("Add.pyc --input_param=p").unwrap().source.as_deref(), Some(OsStr::new("Add.pyc")));
        // The first other argument ends the options.
        assert_eq!(read("Add --input_param=p"), Err(NotCached::NoParameters));
    }
}
