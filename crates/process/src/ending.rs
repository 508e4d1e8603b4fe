//! The status of a program in words. If a limit of the system ended it, also the limit's name, its value, and how to
//! raise it.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use opkeep_text::counted;
use rustix::process::{Resource, Signal, getrlimit};

use opkeep_fs::Fs;

/// A shell exits with this plus the number of the signal that ended its program.
const BY_SIGNAL: i32 = 128;

/// Upper bound of the size of the system's files about control groups.
const MAX_TEXT: u64 = 1 << 20;

/// Describes the status of a program that wrote `output`. It assumes that the program has this process's limits.
pub fn ending(status: ExitStatus, output: &str) -> String {
    let signal = status.signal().or_else(|| status.code().map(|code| code - BY_SIGNAL));
    let is = |one: Signal| signal == Some(one.as_raw());
    let says = |texts: &[&str]| texts.iter().any(|text| output.contains(text));
    let met = match () {
        () if status.success() => None,
        () if is(Signal::XFSZ) || says(&["File size limit exceeded", "File too large"]) => Some(file_size()),
        () if is(Signal::XCPU) || says(&["CPU time limit exceeded"]) => Some(processor_time()),
        () if is(Signal::KILL) || says(&["Killed signal terminated"]) => Some(killed()),
        () if says(&["virtual memory exhausted", "out of memory", "Cannot allocate memory", "bad_alloc"]) => {
            address_space()
        }
        () => None,
    };
    met.map_or_else(|| status.to_string(), |met| format!("{status}: {met}"))
}

fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

fn file_size() -> String {
    match limit(Resource::Fsize) {
        Some(bytes) => format!(
            "files may have {bytes} at most here (`ulimit -f`, RLIMIT_FSIZE): raise it (`ulimit -f unlimited`)", bytes = counted(bytes, "byte")),
        None => "a file met a limit on the size of files (RLIMIT_FSIZE), which the program set itself: there is none here"
            .to_owned(),
    }
}

fn processor_time() -> String {
    match limit(Resource::Cpu) {
        Some(seconds) => format!(
            "programs may take {seconds} s of processor time at most here (`ulimit -t`, RLIMIT_CPU): raise it (`ulimit -t \
             unlimited`)"
        ),
        None => {
            "it met a limit on processor time (RLIMIT_CPU), which the program set itself: there is none here"
                .to_owned()
        }
    }
}

fn address_space() -> Option<String> {
    let limits = [(Resource::As, "-v", "RLIMIT_AS"), (Resource::Data, "-d", "RLIMIT_DATA")];
    let (bytes, flag, name) =
        limits.into_iter().find_map(|(resource, flag, name)| Some((limit(resource)?, flag, name)))?;
    Some(format!(
        "programs may have {bytes} of memory at most here (`ulimit {flag}`, {name}): raise it (`ulimit {flag} unlimited`)",
        bytes = counted(bytes, "byte")
    ))
}

/// The possible reasons for SIGKILL: usually the system lacks memory.
fn killed() -> String {
    if let Some(Memory { bytes, kills, path }) = own_memory() {
        return format!(
            "its control group `{}` has {bytes} of memory at most, and for want of it the system has killed {kills} of \
             its programs so far: give it more memory, or run fewer compilers at once",
            path.display(),
            bytes = counted(bytes, "byte")
        );
    }
    if let Some(seconds) = getrlimit(Resource::Cpu).maximum {
        return format!(
            "programs are killed after {seconds} s of processor time here (`ulimit -H -t`, RLIMIT_CPU), if not for want of \
             memory (`dmesg` says)"
        );
    }
    "another program killed it, or the system for want of memory (`dmesg` says): run fewer compilers at once"
        .to_owned()
}

/// A memory limit because of which the system has killed programs.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    bytes: u64,
    kills: u64,
    path: PathBuf,
}

/// The nearest control group of this process that has a memory limit and because of it has killed programs.
fn own_memory() -> Option<Memory> {
    let groups = text(Path::new("/proc/self/cgroup"))?;
    let mounted = Path::new("/sys/fs/cgroup");
    groups.lines().find_map(|line| memory_of(line, mounted))
}

/// The same for one line of `/proc/self/cgroup`, with control groups mounted at `mounted`: `0::/a/b` is version 2,
/// `4:memory:/a/b` version 1.
fn memory_of(line: &str, mounted: &Path) -> Option<Memory> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    let (root, limit, events) = match controllers {
        "" => (mounted.to_owned(), "memory.max", "memory.events"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            (mounted.join("memory"), "memory.limit_in_bytes", "memory.oom_control")
        }
        _ => return None,
    };
    // In a container, the group's path may be the host's.
    let own = root.join(group.trim_start_matches('/'));
    own.ancestors().take_while(|path| path.starts_with(&root)).find_map(|path| {
        let bytes = text(&path.join(limit))?.trim().parse().ok()?;
        let events = text(&path.join(events))?;
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()?;
        (kills > 0).then(|| Memory { bytes, kills, path: path.to_owned() })
    })
}

fn text(path: &Path) -> Option<String> {
    Fs::new().read_text(path, MAX_TEXT).ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make directories as the system does")]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_both_versions_are_read() {
        let mounted = tempfile::tempdir().unwrap();
        let root = mounted.path();
        let make = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        make("a/memory.max", "1048576\n");
        make("a/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n");
        make("a/b/memory.max", "max\n");
        make("a/b/memory.events", "oom_kill 1\n");
        make("quiet/memory.max", "4096\n");
        make("quiet/memory.events", "oom 0\noom_kill 0\n");
        make("memory/c/memory.limit_in_bytes", "2097152\n");
        make("memory/c/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        let memory = |bytes, kills, path: &str| Some(Memory { bytes, kills, path: root.join(path) });
        for (line, expected) in [
            ("0::/a", memory(1 << 20, 1, "a")),
            ("0::/a/b", memory(1 << 20, 1, "a")),
            ("0::/quiet", None),
            ("0::/gone/deep", None),
            ("0::/", None),
            ("4:memory:/c", memory(2 << 20, 3, "memory/c")),
            ("4:cpu,memory:/c/d", memory(2 << 20, 3, "memory/c")),
            ("3:cpuset:/c", None),
            ("", None),
            ("0::", None),
        ] {
            assert_eq!(memory_of(line, root), expected, "{line}");
        }
    }

    #[test]
    fn each_limit_is_named_with_its_value_and_a_remedy() {
        let by_signal = ExitStatus::from_raw;
        let by_code = |code: i32| ExitStatus::from_raw(code << 8);
        for (status, output, words) in [
            (by_signal(25), "", ["RLIMIT_FSIZE", "size of files"]),
            (by_code(153), "", ["RLIMIT_FSIZE", "size of files"]),
            (by_code(1), "as: File size limit exceeded", ["RLIMIT_FSIZE", "size of files"]),
            (by_signal(24), "", ["RLIMIT_CPU", "processor time"]),
            (by_code(152), "", ["RLIMIT_CPU", "processor time"]),
            (by_signal(9), "", ["", "memory"]),
            (by_code(137), "", ["", "memory"]),
            (by_code(4), "cc: fatal error: Killed signal terminated program cc1", ["", "memory"]),
        ] {
            let text = ending(status, output);
            assert!(words.iter().all(|word| text.contains(word)), "{status} {output}: {text}");
            assert!(text.starts_with(&status.to_string()), "{text}");
        }
        for (status, output) in [
            (by_code(1), "error: x"),
            (by_signal(11), ""),
            (by_code(0), "File too large"),
            (by_code(127), ""),
        ] {
            assert_eq!(ending(status, output), status.to_string());
        }
    }
}
