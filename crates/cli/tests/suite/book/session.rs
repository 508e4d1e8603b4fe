//! A shell in which the commands of a page run, one after the other, in a directory of their own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::Place;

/// Directories of the page that are below the directory of its test.
const DIRECTORIES: [&str; 4] = ["/mnt/", "/data", "/srv/", "/home/me"];
/// The user's home, and where the commands begin.
const HOME: &str = "home/me";
/// How a page runs the program in a clone. Tests have it.
const IN_A_CLONE: &str = "cargo run --release --bin opkeep -- ";

/// The port of a server on a page. Tests have a free one.
const PORT: &str = "6379";
/// The file by which a page ends the server that it started.
const SERVER: &str = "redis.pid";

pub(crate) struct Session {
    place: Place,
    port: String,
    /// The variables and the directory that the last command left.
    state: PathBuf,
}

pub(crate) struct Finished {
    pub(crate) status: Option<i32>,
    /// Standard output and errors, as on a terminal, with the page's directories.
    pub(crate) output: String,
}

impl Session {
    pub(crate) fn new() -> std::io::Result<Self> {
        let place = Place::new();
        std::fs::create_dir_all(place.path(HOME))?;
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize()?;
        std::os::unix::fs::symlink(fixtures, place.path(HOME).join("fixtures"))?;
        let state = place.path("state");
        std::fs::write(&state, "")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        Ok(Self { place, port, state })
    }

    /// The directory that stands for `path` of the page.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.place.path(path.trim_start_matches('/'))
    }

    /// Runs commands. What they export, and their directory, is there for the next ones. The first one that fails ends them
    /// if `stops`.
    pub(crate) fn run(&self, commands: &str, stops: bool) -> std::io::Result<Finished> {
        let (state, own) = (self.state.display(), self.own(commands));
        let mode = if stops { "set -eu" } else { "set -u" };
        let script = format!(
            "{mode}\n. '{state}'\n{{ {own}\n}} 2>&1\nstatus=$?\nexport -p > '{state}'\necho \"cd '$PWD'\" >> '{state}'\nexit $status\n"
        );
        self.finished(Command::new("timeout").args(["100", "sh", "-c", &script]))
    }

    /// Runs a Python program.
    pub(crate) fn run_python(&self, program: &str) -> std::io::Result<Finished> {
        let file = self.place.path("program.py");
        std::fs::write(&file, self.own(program))?;
        let script = format!(". '{}'\nexec python3 - < '{}' 2>&1", self.state.display(), file.display());
        self.finished(Command::new("timeout").args(["100", "sh", "-c", &script]))
    }

    fn finished(&self, command: &mut Command) -> std::io::Result<Finished> {
        let program = Path::new(env!("CARGO_BIN_EXE_opkeep"));
        let mut path = program.parent().map(|directory| directory.as_os_str().to_owned()).unwrap_or_default();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let home = self.place.path(HOME);
        command.env_clear().env("PATH", path).env("TMPDIR", self.place.path("tmp")).env("HOME", &home);
        command.env("USER", "me").current_dir(&home).stdin(Stdio::null());
        let output = command.output()?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let root = self.place.dir.path().canonicalize()?;
        let text = text.replace(&root.display().to_string(), "");
        let text = text.replace(&format!("cpu-{}", std::env::consts::ARCH), "cpu-x86_64");
        let text = text.replace(&format!(":{}", self.port), &format!(":{PORT}"));
        let shown = text.split_inclusive('\n').filter(|line| !is_progress(line));
        Ok(Finished { status: output.status.code(), output: shown.collect() })
    }

    /// The commands with the directories of the test.
    fn own(&self, commands: &str) -> String {
        let root = self.place.dir.path().display().to_string();
        let mut text = commands.replace(IN_A_CLONE, "opkeep ").replace(PORT, &self.port);
        for directory in DIRECTORIES {
            let mut from = 0;
            while let Some(at) = text[from..].find(directory).map(|at| at + from) {
                let before = text[..at].chars().next_back();
                let is_start = !before.is_some_and(|c| c.is_alphanumeric() || "_-.}~$".contains(c));
                if is_start {
                    text.insert_str(at, &root);
                }
                from = at + directory.len() + if is_start { root.len() } else { 0 };
            }
        }
        text
    }
}

/// A page that fails before its end leaves no server.
impl Drop for Session {
    fn drop(&mut self) {
        if let Ok(process) = std::fs::read_to_string(self.place.path(HOME).join(SERVER)) {
            let _ = Command::new("kill").arg(process.trim()).output();
        }
    }
}

/// Whether a line is progress, `[3/13] compiled ...`: a terminal shows it until the build ends.
fn is_progress(line: &str) -> bool {
    let count = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    count.is_some_and(|(count, _)| {
        count.split('/').count() == 2 && count.split('/').all(|part| part.trim().parse::<usize>().is_ok())
    })
}
