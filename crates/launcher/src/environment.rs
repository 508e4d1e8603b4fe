//! Which variables count in a key.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use opkeep_digest::Hasher;
use opkeep_fs::{FileId, Fs};

use crate::roots::Roots;

/// A variable that does not count, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct InertVariable {
    /// Its name; with `*` at the end, all names that begin like that.
    pub name: &'static str,
    /// Why it does not affect what a compiler writes.
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
    inert("USER", "files that differ for each user count by content"),
    inert("LOGNAME", "the same"),
    inert("MAIL", "the same"),
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
    inert("MAKELEVEL", "how many times make runs in make"),
    inert("MFLAGS", "the old form of MAKEFLAGS"),
    inert("MAKE_TERMOUT", "the terminal of make"),
    inert("MAKE_TERMERR", "the same"),
    inert("NINJA_STATUS", "the form of ninja's progress"),
];

/// What in `MAKEFLAGS` only says how many jobs run, and where their tokens are.
const INERT_MAKE_FLAGS: [&str; 4] = ["--jobserver-auth=", "--jobserver-fds=", "--sync-mutex=", "-O"];

/// The flags with two descriptors for tokens: of GNU make 4.2 and later, and of older ones.
const JOB_DESCRIPTORS: [&str; 2] = ["--jobserver-auth=", "--jobserver-fds="];

/// The first descriptor that is not standard input or an output.
const FIRST_INHERITED: RawFd = 3;

/// Whether a variable counts, if `further` names do not count as well. Such a name may end with `*`.
pub(crate) fn counts(name: &OsStr, further: &[String]) -> bool {
    let is_covered = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
        None => name == pattern,
    };
    !INERT.iter().map(|inert| inert.name).chain(further.iter().map(String::as_str)).any(is_covered)
}

/// Adds the variables that count to a digest, sorted by name.
pub(crate) fn hash(
    hasher: &mut Hasher,
    env: &[(OsString, OsString)],
    dir: &Path,
    roots: &Roots,
    further: &[String],
) {
    let mut counted: Vec<_> = env
        .iter()
        .filter(|(name, value)| {
            // Programs use it as the name of their working directory only if it leads there.
            counts(name, further) && (name != "PWD" || leads_to(Path::new(value), dir))
        })
        .collect();
    counted.sort_by(|(one, _), (other, _)| one.cmp(other));
    hasher.list(counted.len());
    for (name, value) in counted {
        hasher.bytes(name.as_bytes());
        match name == "MAKEFLAGS" {
            true => hasher.bytes(make_flags(value).as_bytes()),
            false => roots.hash_text(hasher, value.as_bytes()),
        }
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
    let words = value.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    OsString::from_vec(words.filter(counts).collect::<Vec<_>>().join(&b' '))
}

/// The pipe with a name that `MAKEFLAGS` gives for the tokens of jobs.
pub(crate) fn job_pipe(env: &[(OsString, OsString)]) -> Option<&Path> {
    let (_, flags) = env.iter().find(|(name, _)| name == "MAKEFLAGS")?;
    let mut words = flags.as_bytes().split(|byte| *byte == b' ');
    let path = words.find_map(|word| word.strip_prefix(b"--jobserver-auth=fifo:"))?;
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
    let flags = env.iter().find(|(name, _)| name == "MAKEFLAGS").map(|(_, flags)| flags.as_bytes());
    let words = flags.into_iter().flat_map(|flags| flags.split(|byte| *byte == b' '));
    // The variables of a command line come behind it.
    let words = words.take_while(|word| *word != b"--");
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

    #[test]
    fn variables_count_unless_they_are_listed() {
        for name in [
            "PATH",
            "CPATH",
            "PYTHONPATH",
            "XDG_CONFIG_HOME",
            "CIPHER",
            "MAKEFLAGS",
            "TERMINFO",
            "HOME",
            "TZ",
            "LANG",
        ] {
            assert!(counts(OsStr::new(name), &[]), "{name}");
        }
        for name in ["CI_JOB_ID", "CI", "SHLVL", "GITHUB_SHA", "TERM"] {
            assert!(!counts(OsStr::new(name), &[]), "{name}");
        }
        assert!(!counts(OsStr::new("BUILD_ID"), &["BUILD_*".to_owned()]));
    }

    #[test]
    fn only_jobs_do_not_count_in_make_flags() {
        let flags = |text: &str| make_flags(OsStr::new(text)).into_string().unwrap();
        assert_eq!(flags("rk -j8 --jobserver-auth=3,4 -l2.5 -- A=1"), "rk -- A=1");
        assert_eq!(
            flags(" -j --jobserver-auth=fifo:/tmp/GMfifo12 --no-print-directory"),
            "--no-print-directory"
        );
        let env = [("MAKEFLAGS".into(), " -j2 --jobserver-auth=fifo:/tmp/GMfifo12".into())];
        assert_eq!(job_pipe(&env), Some(Path::new("/tmp/GMfifo12")));
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
