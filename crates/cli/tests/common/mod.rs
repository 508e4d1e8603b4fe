//! Running the real binary in a directory of its own.
#![allow(dead_code, reason = "each binary uses its own part")]
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

pub(crate) mod crowd;
pub(crate) mod packages;

use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use opkeep_store::Entry;
use serde_json::Value;
use tempfile::TempDir;

/// The vendor's own example.
pub(crate) const SQUARE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mindspore/square_12484080525657478220_2.info");

/// The result of a run of `opkeep`.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The one object on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The number of kernels with an outcome.
    #[track_caller]
    pub(crate) fn count(&self, outcome: &str) -> u64 {
        self.json()[outcome].as_u64().unwrap_or_else(|| panic!("{self:?}"))
    }

    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "expected `{text}` in {self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "expected `{text}` in {self:?}");
        self
    }
}

/// The programs that a compiler's `body` may run when it compiles a kernel.
const PROGRAMS: [&str; 18] = [
    "sed", "date", "mkdir", "rmdir", "ln", "sleep", "yes", "head", "cat", "grep", "cut", "cp", "mv", "rm",
    "touch", "truncate", "dd", "mkfifo",
];

/// The behavior of a compiler during a probe: that of the system's compiler, with the programs of [`PROGRAMS`] that `body`
/// names, since kernels may run only what the probe ran.
pub(crate) fn probed(body: &str) -> String {
    probed_by("cc", body)
}

/// The same with the behavior of another compiler.
pub(crate) fn probed_by(compiler: &str, body: &str) -> String {
    let words: Vec<&str> = body.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let run = |program: &&str| words.contains(program).then(|| format!("{program} --version > /dev/null; "));
    let programs: String = PROGRAMS.iter().filter_map(run).collect();
    format!("case \"$PWD\" in */probe-*) {programs}exec /usr/bin/env {compiler} \"$@\";; esac\n")
}

/// Runs a command to its end.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("opkeep runs");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The files below the directory for temporary files that remember the system's compiler, as a first build leaves them.
/// Finding out takes longer than most of what tests do afterwards, and has tests of its own.
static REMEMBERED: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let place = Place::untouched();
    place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
    let tmp = place.path("tmp");
    let remember = |path: &PathBuf| path.ends_with("digests") || path.parent().unwrap().ends_with("answers");
    let read = |path: PathBuf| (path.strip_prefix(&tmp).unwrap().to_owned(), std::fs::read(&path).unwrap());
    files(&tmp).into_iter().filter(remember).map(read).collect()
});

/// A working directory with its own store, temporary directory and environment.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

impl Place {
    /// A place of a user who has built with the system's compiler before, elsewhere: its probe and the digests of its files
    /// are remembered, and nothing else.
    pub(crate) fn new() -> Self {
        let place = Self::untouched();
        for (path, bytes) in &*REMEMBERED {
            let file = place.path("tmp").join(path);
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap()).unwrap();
            std::fs::write(&file, bytes).unwrap();
        }
        place
    }

    /// A place without any trace of an earlier build.
    pub(crate) fn untouched() -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("tmp")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A shell script.
    pub(crate) fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.write(name, format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_opkeep").as_ref(), args)
    }

    /// A program that runs here, with the environment of `opkeep`.
    pub(crate) fn program(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("TMPDIR", self.path("tmp")).env("OPKEEP_CACHE_DIR", self.path("cache"));
        // The settings of the person who runs the tests do not count.
        command.env("OPKEEP_CONFIG", "/dev/null");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        ran(self.command(args).envs(env.iter().copied()))
    }

    /// Every entry of the store.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        files(&self.path("cache"))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "kern"))
            .collect()
    }

    /// The members of all entries, by the names of the files. In a bundle, members have another order than in an entry.
    pub(crate) fn members(&self) -> BTreeMap<PathBuf, BTreeMap<String, Vec<u8>>> {
        let members = |path: &PathBuf| {
            let entry = Entry::decode(std::fs::read(path).unwrap(), None).unwrap();
            let bytes = |name: &str| match entry.member(name) {
                Some(bytes) => bytes.to_vec(),
                None => entry.lazy_member(name).unwrap().unwrap_or_default().to_vec(),
            };
            entry.names().map(|name| (name.to_owned(), bytes(name))).collect()
        };
        self.entries().into_iter().map(|path| (path.file_name().unwrap().into(), members(&path))).collect()
    }

    /// The entry with this key.
    pub(crate) fn entry(&self, key: &opkeep_digest::Digest) -> PathBuf {
        let name = format!("{key}.kern");
        self.entries().into_iter().find(|path| path.ends_with(&name)).unwrap()
    }

    /// A compiler that answers queries and compiles the probe as the system's does, and compiles kernels by `body`, which
    /// may run the programs of [`PROGRAMS`].
    pub(crate) fn compiler(&self, name: &str, body: &str) -> PathBuf {
        let probed = probed(body);
        self.script(
            name,
            &format!("{probed}case \"$*\" in *kernel.c*) {body};; esac\nexec /usr/bin/env cc \"$@\""),
        )
    }

    /// A compiler that writes a line to `log` for each compile and is the system's otherwise.
    pub(crate) fn logging_compiler(&self, name: &str, log: &str) -> PathBuf {
        self.compiler(name, &format!("echo \"$*\" >> '{}'", self.path(log).display()))
    }

    /// The number of compiles in `log`.
    pub(crate) fn compiles(&self, log: &str) -> usize {
        std::fs::read_to_string(self.path(log)).map_or(0, |text| text.lines().count())
    }
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The vendor's example with another length of its tensor: a different kernel.
pub(crate) fn square_of(length: usize) -> String {
    std::fs::read_to_string(SQUARE)
        .unwrap()
        .replace("                            3\n", &format!("                            {length}\n"))
        .replace(
            "                                3,\n",
            &format!("                                {length},\n"),
        )
        .replace(
            "                                3\n",
            &format!("                                {length}\n"),
        )
        .replace("square_12484080525657478220_2", &format!("square_{length}_2"))
}

/// The command lines of all processes.
pub(crate) fn command_lines() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}
