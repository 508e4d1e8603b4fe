//! The compiler that is asked for: its program, and what else the words of CC say.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opkeep_backend::BackendError;
use opkeep_fs::Fs;

use super::driver_query::missing;
use super::programs::find_program;
use crate::config::CpuConfig;

/// Launchers of compilers: they keep objects, or send sources to other hosts. By the names of their files.
const LAUNCHERS: [&str; 9] =
    ["ccache", "sccache", "distcc", "icecc", "icerun", "buildcache", "colorgcc", "cachecc1", "fastbuild"];

/// Options whose argument is the next word.
const WITH_ARGUMENT: [&str; 40] = [
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-imultilib",
    "-I",
    "-L",
    "-B",
    "-D",
    "-U",
    "-T",
    "-u",
    "-z",
    "-e",
    "-x",
    "-A",
    "-G",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-mllvm",
    "-target",
    "-arch",
    "-framework",
    "-wrapper",
    "-specs",
    "--sysroot",
    "--param",
    "--config",
    "--include",
    "-aux-info",
    "-gcc-toolchain",
    "-resource-dir",
    "--target",
];

/// Options whose argument is a path: what is there counts by content, where it lies does not.
const WITH_PATH: [&str; 28] = [
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-isysroot",
    "-I",
    "-L",
    "-B",
    "-T",
    "-specs",
    "--specs",
    "--sysroot",
    "--config",
    "--include",
    "-resource-dir",
    "--gcc-toolchain",
    "--gcc-install-dir",
    "-fplugin",
    "--ld-path",
    "-fuse-ld",
    "-wrapper",
    "@",
    "--include-directory",
    "-iwithprefix",
    "--library-directory",
    "--prefix",
];

/// Options that say what is compiled, or to where: that is ours to say.
const OURS: [&str; 8] = ["-c", "-S", "-E", "-o", "-M", "-MM", "-fsyntax-only", "-###"];

/// The parts of the value of CC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cc {
    /// The compiler.
    pub(crate) driver: PathBuf,
    /// Arguments that come before all others.
    pub(crate) leading: Vec<String>,
    /// Launchers that were named and are left out.
    pub(crate) left_out: Vec<PathBuf>,
}

impl Cc {
    /// The compiler of `config`, or the first of the usual names.
    pub(crate) fn find(config: &CpuConfig) -> Result<Self, BackendError> {
        let found = |name: &str| find_program(OsStr::new(name), &config.path);
        let Some(asked) = &config.compiler else {
            let usual = ["cc", "gcc", "clang"].into_iter().find_map(found);
            let driver = usual.ok_or_else(|| missing("no cc, gcc or clang in PATH".to_owned()))?;
            return Self::without_launchers(config, driver, Vec::new());
        };
        let mut words = asked.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or_else(|| missing("CC is empty".to_owned()))?;
        let driver =
            found(&program).ok_or_else(|| missing(format!("CC names `{program}`, which is not there")))?;
        Self::without_launchers(config, driver, words.collect())
    }

    /// Leaves out programs that only run the compiler: a cache beside ours, or another machine's compiler, would take part
    /// in kernels without being in their keys.
    fn without_launchers(
        config: &CpuConfig,
        mut driver: PathBuf,
        mut words: Vec<String>,
    ) -> Result<Self, BackendError> {
        let mut left_out = Vec::new();
        while is_launcher(&driver) {
            let launcher = driver;
            // `ccache gcc`, or a link to ccache that is called as the compiler that it runs.
            driver = match masquerades_as(&launcher) {
                Some(name) => next_of_that_name(config, name).ok_or_else(|| {
                    let name = name.display();
                    missing(format!(
                        "`{}` runs another `{name}`, and there is none in PATH",
                        launcher.display()
                    ))
                })?,
                None if words.is_empty() || words[0].starts_with('-') => {
                    return Err(missing(format!(
                        "CC names `{}`, which runs a compiler, and not which",
                        launcher.display()
                    )));
                }
                None => {
                    let program = words.remove(0);
                    find_program(OsStr::new(&program), &config.path)
                        .ok_or_else(|| missing(format!("CC names `{program}`, which is not there")))?
                }
            };
            left_out.push(launcher);
        }
        check(&words)?;
        Ok(Self { driver, leading: words, left_out })
    }

    /// The words of CC less the paths in them.
    pub(crate) fn words_that_count(&self) -> String {
        let mut words = Vec::new();
        let mut is_path = false;
        for word in &self.leading {
            words.push(if is_path { "<path>".to_owned() } else { without_path(word) });
            is_path = !is_path && WITH_PATH.contains(&word.as_str());
        }
        words.join(" ")
    }
}

/// A word that names a path behind an option that takes one, without the path; any other as it is.
fn without_path(word: &str) -> String {
    let names_a_path = |option: &&&str| {
        word.strip_prefix(**option).is_some_and(|rest| rest.trim_start_matches('=').starts_with('/'))
    };
    match WITH_PATH.iter().filter(names_a_path).max_by_key(|option| option.len()) {
        Some(option) => format!("{option}<path>"),
        None => word.to_owned(),
    }
}

/// Refuses what is no option: a compiler takes it for a source.
fn check(words: &[String]) -> Result<(), BackendError> {
    let refused = |word: &str, why: &str| BackendError::Toolchain {
        problem: format!("CC has `{word}`, {why}"),
        help: "let CC be a compiler and its options; put anything else into a script, and let CC name that"
            .to_owned(),
        tool: None,
    };
    let mut takes_next = false;
    for word in words {
        if !takes_next {
            if !word.starts_with('-') && !word.starts_with('@') {
                return Err(refused(word, "which is no option: a compiler would take it for a source"));
            }
            if OURS.contains(&word.as_str()) || word == "-" {
                return Err(refused(word, "and what is compiled, and to what, is not CC's to say"));
            }
        }
        takes_next = !takes_next && WITH_ARGUMENT.contains(&word.as_str());
    }
    match takes_next {
        true => Err(refused(words.last().map_or("", String::as_str), "without its argument")),
        false => Ok(()),
    }
}

/// Whether a program is a launcher, by the name of its own file.
fn is_launcher(program: &Path) -> bool {
    let real = Fs::new().resolved(program);
    LAUNCHERS.iter().any(|launcher| real.file_name().is_some_and(|name| name == *launcher))
}

/// The compiler whose name a link to a launcher has.
fn masquerades_as(launcher: &Path) -> Option<&OsStr> {
    let name = launcher.file_name()?;
    (!LAUNCHERS.iter().any(|launcher| name == *launcher)).then_some(name)
}

/// The first program of that name in PATH that is no launcher.
fn next_of_that_name(config: &CpuConfig, name: &OsStr) -> Option<PathBuf> {
    let mut known = HashSet::new();
    std::env::split_paths(&config.path)
        .filter(|dir| known.insert(dir.clone()))
        .filter_map(|dir| find_program(name, dir.as_os_str()))
        .find(|program| !is_launcher(program))
}
