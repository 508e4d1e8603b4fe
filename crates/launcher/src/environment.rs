//! Which variables a command gets, and which of them count in a key.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use opkeep_digest::Hasher;
use opkeep_fs::{FileId, Fs};

use crate::roots::Roots;

/// A variable that a command does not get, so that it cannot affect the result.
#[derive(Clone, Copy, Debug)]
pub struct InertVariable {
    /// Its name; with `*` at the end, all names that begin like that.
    pub name: &'static str,
    /// Why no compile needs it.
    pub reason: &'static str,
}

const fn inert(name: &'static str, reason: &'static str) -> InertVariable {
    InertVariable { name, reason }
}

/// All of them. Every other variable counts, `PATH` among them: another order of its directories finds other programs, and a look
/// at a directory that was not in the recorded one would be in no manifest.
pub const INERT: &[InertVariable] = &[
    inert("OLDPWD", "the shell's last directory"),
    inert("SHLVL", "how many shells run"),
    inert("_", "the last command of the shell"),
    inert("TERM", "the terminal; outputs go through a pipe"),
    inert("TERM_*", "the same"),
    inert("COLORTERM", "the same"),
    inert("COLUMNS", "the same"),
    inert("LINES", "the same"),
    inert("LS_COLORS", "the same"),
    inert("PS1", "the shell's prompt"),
    inert("VIRTUAL_ENV_PROMPT", "the same"),
    inert("MAIL", "the user's mail"),
    inert("HOSTNAME", "names the machine"),
    inert("SSH_*", "the login session"),
    inert("XDG_SESSION_*", "the same"),
    inert("XDG_RUNTIME_DIR", "the same"),
    inert("XDG_SEAT", "the same"),
    inert("XDG_VTNR", "the same"),
    inert("DBUS_*", "the same"),
    inert("DISPLAY", "the same"),
    inert("SUDO_*", "the same"),
    inert("INVOCATION_ID", "the service that runs the build"),
    inert("JOURNAL_STREAM", "the same"),
    inert("SYSTEMD_EXEC_PID", "the same"),
    inert("CI", "a service that runs builds describes the run"),
    inert("CI_*", "the same"),
    inert("GITHUB_*", "the same"),
    inert("RUNNER_*", "the same"),
    inert("GITLAB_*", "the same"),
    inert("JENKINS_*", "the same"),
    inert("BUILDKITE_*", "the same"),
    inert("SLURM_*", "the job of a cluster"),
    inert("MFLAGS", "the old form of MAKEFLAGS"),
    inert("MAKE_TERMOUT", "the terminal of make"),
    inert("MAKE_TERMERR", "the same"),
    inert("NINJA_STATUS", "the form of ninja's progress"),
];

/// The variable by which a program in an observed command knows that it is one: what it reads and writes itself would be observed as well.
pub(crate) const OBSERVED: &str = "OBSERVED_BY_OPKEEP";

/// The variable by which a launcher in a command knows that outputs are held around it.
pub(crate) const HOLDS: &str = "OUTPUTS_HELD_BY_OPKEEP";

/// The names of the user. They do not count for a tool whose results do not depend on them.
const USER: [&str; 2] = ["USER", "LOGNAME"];

/// What in `MAKEFLAGS` only says how many jobs run, and where their tokens are.
const INERT_MAKE_FLAGS: [&str; 3] = ["--jobserver-auth=", "--jobserver-fds=", "--sync-mutex="];

/// The flags with two descriptors for tokens: of GNU make 4.2 and later, and of older ones.
const JOB_DESCRIPTORS: [&str; 2] = ["--jobserver-auth=", "--jobserver-fds="];

/// The first descriptor that is not standard input or an output.
const FIRST_INHERITED: RawFd = 3;

/// The environment that a command in `dir` gets, of the one of its caller: without the variables that do not count, except those that the
/// user names, and with its working directory in `PWD`.
pub(crate) fn passed(env: &[(OsString, OsString)], dir: &Path) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &OsStr| name != "PWD" && !INERT.iter().any(|inert| covers(inert.name, name));
    let given = env.iter().find(|(name, value)| name == "PWD" && leads_to(Path::new(value), dir));
    let pwd = given.map_or_else(|| dir.as_os_str().to_owned(), |(_, value)| value.clone());
    let passed = env.iter().filter(|(name, _)| is_passed(name)).cloned();
    passed.chain([("PWD".into(), pwd)]).collect()
}

/// Adds the variables that a command gets to a digest, sorted by name: all but those that the user names. A name may end with `*` there.
pub(crate) fn hash(
    hasher: &mut Hasher,
    passed: &[(OsString, OsString)],
    roots: &Roots,
    further: &[String],
    is_movable: bool,
) {
    let counts = |name: &OsStr| {
        let is_user = is_movable && USER.iter().any(|user| name == *user);
        !is_user && !further.iter().any(|pattern| covers(pattern, name))
    };
    let mut counted: Vec<_> = passed.iter().filter(|(name, _)| counts(name)).collect();
    opkeep_order::by(&mut counted, |(one, _), (other, _)| one.cmp(other));
    hasher.list(counted.len());
    for (name, value) in counted {
        hasher.bytes(name.as_bytes());
        match name == "MAKEFLAGS" {
            true => hasher.bytes(make_flags(value).as_bytes()),
            false => roots.hash_text(hasher, value.as_bytes()),
        }
    }
}

/// Whether a name is one that a pattern means: the same, or a longer one if the pattern ends with `*`.
pub(crate) fn covers(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
        None => name == pattern,
    }
}

/// Whether two paths lead to the same directory.
fn leads_to(path: &Path, dir: &Path) -> bool {
    let id = |path: &Path| Fs::new().metadata(path).ok().map(|found| FileId::of(&found));
    path.is_absolute() && id(path).is_some_and(|found| Some(found) == id(dir))
}

/// `MAKEFLAGS` without the number of jobs and the place of their tokens.
fn make_flags(value: &OsStr) -> OsString {
    let is_number = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let counts = |word: &&[u8]| {
        let is_jobs = [&b"-j"[..], b"-l"].iter().any(|flag| word.strip_prefix(*flag).is_some_and(is_number));
        !is_jobs && !INERT_MAKE_FLAGS.iter().any(|flag| word.starts_with(flag.as_bytes()))
    };
    let (flags, variables) = make_words(value.as_bytes());
    let counted = flags.into_iter().filter(counts).chain(variables);
    OsString::from_vec(counted.collect::<Vec<_>>().join(&b' '))
}

/// The flags in `MAKEFLAGS`, and the rest from ` -- ` on: definitions of variables. A space with a backslash before it belongs to a word.
fn make_words(value: &[u8]) -> (Vec<&[u8]>, Option<&[u8]>) {
    let (mut flags, mut rest) = (Vec::new(), value);
    loop {
        rest = rest.trim_ascii_start();
        let mut is_escaped = false;
        let end = rest.iter().position(|byte| {
            let is_end = !is_escaped && byte.is_ascii_whitespace();
            is_escaped = !is_escaped && *byte == b'\\';
            is_end
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        match word {
            b"" => return (flags, None),
            b"--" => return (flags, Some(rest)),
            _ => flags.push(word),
        }
        rest = after;
    }
}

/// The pipe with a name that `MAKEFLAGS` gives for the tokens of jobs.
pub(crate) fn job_pipe(env: &[(OsString, OsString)]) -> Option<&Path> {
    let (_, value) = env.iter().find(|(name, _)| name == "MAKEFLAGS")?;
    let (flags, _) = make_words(value.as_bytes());
    let path = flags.into_iter().find_map(|word| word.strip_prefix(b"--jobserver-auth=fifo:"))?;
    Some(Path::new(OsStr::from_bytes(path)))
}

/// The descriptors that `MAKEFLAGS` gives for the tokens of jobs, as far as they are open pipes.
pub(crate) fn job_descriptors(env: &[(OsString, OsString)]) -> Vec<RawFd> {
    let is_pipe = |fd: &RawFd| {
        let path = format!("/proc/self/fd/{fd}");
        Fs::new().metadata(Path::new(&path)).is_ok_and(|found| found.file_type().is_fifo())
    };
    named_descriptors(env).into_iter().filter(is_pipe).collect()
}

/// The descriptors that `MAKEFLAGS` names.
fn named_descriptors(env: &[(OsString, OsString)]) -> Vec<RawFd> {
    let value = env.iter().find(|(name, _)| name == "MAKEFLAGS").map(|(_, value)| value.as_bytes());
    let words = value.into_iter().flat_map(|value| make_words(value).0);
    let pairs = words.filter_map(|word| {
        JOB_DESCRIPTORS.iter().find_map(|flag| word.strip_prefix(flag.as_bytes())).map(<[u8]>::to_vec)
    });
    let pairs = pairs.filter_map(|pair| String::from_utf8(pair).ok());
    let numbers = pairs.flat_map(|pair| {
        pair.split(',').map(str::parse::<RawFd>).collect::<Result<Vec<_>, _>>().unwrap_or_default()
    });
    numbers.filter(|fd| *fd >= FIRST_INHERITED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_command_gets_what_counts_and_its_directory() {
        let given = [
            "PATH",
            "CPATH",
            "PYTHONPATH",
            "XDG_CONFIG_HOME",
            "CIPHER",
            "MAKEFLAGS",
            "MAKELEVEL",
            "TERMINFO",
            "HOME",
            "TZ",
            "LANG",
            "USER",
        ];
        let removed = ["CI_JOB_ID", "CI", "SHLVL", "GITHUB_SHA", "TERM", "OLDPWD", "COLUMNS"];
        let all: Vec<_> = given.iter().chain(&removed).map(|name| (*name, "x")).collect();
        let passed = passed(&env(&all), Path::new("/"));
        let names: Vec<_> = passed.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, [&given[..], &["PWD"]].concat());
    }

    #[test]
    fn the_working_directory_is_that_of_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let pwd = |given: &[(&str, &str)]| passed(&env(given), dir.path()).pop().unwrap().1;
        for stale in ["/", "relative", "", &text(&dir.path().join("absent"))] {
            assert_eq!(pwd(&[("PWD", stale)]), dir.path(), "{stale}");
        }
        assert_eq!(pwd(&[]), dir.path());
        assert_eq!(pwd(&[("PWD", &text(&link))]), link);
    }

    #[test]
    fn only_jobs_do_not_count_in_make_flags() {
        let flags = |text: &str| make_flags(OsStr::new(text)).into_string().unwrap();
        assert_eq!(flags("rk -j8 --jobserver-auth=3,4 -l2.5 -- A=1"), "rk -- A=1");
        assert_eq!(
            flags(" -j --jobserver-auth=fifo:/tmp/GMfifo12 --no-print-directory"),
            "--no-print-directory"
        );
        // Values of variables, as make writes them.
        for text in ["-- A=-g\\ -j2", "-- A=\\\\ -j2", "-I\\ -j2", "-- -j2", "-Oline"] {
            assert_eq!(flags(text), text);
        }
        assert_eq!(flags("-Ia\\\\ -j2"), "-Ia\\\\");
        let job_pipe = |flags: &str| job_pipe(&env(&[("MAKEFLAGS", flags)])).map(Path::to_owned);
        assert_eq!(
            job_pipe(" -j2 --jobserver-auth=fifo:/tmp/GMfifo12").as_deref(),
            Some(Path::new("/tmp/GMfifo12"))
        );
        assert_eq!(job_pipe(" -- A=x\\ --jobserver-auth=fifo:/x --jobserver-auth=fifo:/y"), None);
    }

    #[test]
    fn job_descriptors_are_those_of_make() {
        let named = |text: &str| named_descriptors(&[("MAKEFLAGS".into(), text.into())]);
        for flags in [" -j8 --jobserver-auth=3,4", "k --jobserver-fds=3,4 -j", "--jobserver-auth=3,4 -- A=1"]
        {
            assert_eq!(named(flags), [3, 4], "{flags}");
        }
        let none = [
            " -j --jobserver-auth=fifo:/tmp/GMfifo12",
            "--jobserver-auth=0,1",
            " -- --jobserver-auth=3,4",
            "",
        ];
        for flags in none.into_iter().chain(["--jobserver-auth=-2,-2", "--jobserver-auth=3,x", "-j3"]) {
            assert!(named(flags).is_empty(), "{flags}");
        }
        // A file is not where tokens come from.
        let file = tempfile::tempfile().unwrap();
        let (from, _to) = std::io::pipe().unwrap();
        let fds = [&file as &dyn std::os::fd::AsRawFd, &from].map(|fd| fd.as_raw_fd());
        let flags = format!("--jobserver-auth={},{}", fds[0], fds[1]);
        assert_eq!(job_descriptors(&[("MAKEFLAGS".into(), flags.into())]), [fds[1]]);
    }

    #[test]
    fn every_reason_is_a_sentence() {
        for InertVariable { name, reason } in INERT {
            assert!(!name.is_empty() && !reason.is_empty(), "{name}");
        }
    }
}
