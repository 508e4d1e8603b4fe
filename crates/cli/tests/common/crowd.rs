//! Several builds at once, and compilers that tell what they do: what was compiled is counted by the compiler itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{PROBED, Place, Ran, files, square_of};

/// A compiler that writes to a log when it begins a kernel and when it ends one.
pub(crate) struct Teller {
    pub(crate) path: String,
    log: PathBuf,
    habit: PathBuf,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) begins: bool,
    pub(crate) kernel: String,
    /// The process that builds.
    pub(crate) builder: u32,
    /// Since the epoch.
    pub(crate) at: Duration,
}

impl Teller {
    /// In `place`, the system's compiler, but that it tells, and has a habit.
    pub(crate) fn new(place: &Place, habit: &str) -> Self {
        let (log, file) = (place.path("compiles.log"), place.path("habit"));
        // It reads nothing that changes: that would make it another compiler each time. What is counted is counted by
        // directories and links that are made, and where a link leads is no file's content. While it is probed it has no
        // habit, and only runs what habits may run.
        let body = format!(
            "{PROBED}\
             case \"$*\" in *kernel.c*) ;; *) exec cc \"$@\";; esac\n\
             kernel=$(sed -n 's/.* \\([a-z_0-9]*\\)__kernel0.*/\\1/p' kernel.c)\n\
             tell() {{ echo \"$1 $kernel $PPID $(date +%s%N)\" >> '{log}'; }}\n\
             mine='{log}'.$kernel.$PPID\n\
             begun=$(readlink \"$mine\") || {{\n\
             begun=1; until mkdir '{log}'.$begun 2> /dev/null; do begun=$((begun + 1)); done\n\
             ln -s $begun \"$mine\"; tell begin; }}\n\
             eval \"$(readlink '{habit}')\"\n\
             cc \"$@\"; code=$?\n\
             tell end\n\
             exit $code",
            log = log.display(),
            habit = file.display()
        );
        let teller =
            Self { path: place.script("cc-teller", &body).to_str().unwrap().to_owned(), log, habit: file };
        teller.does(habit);
        teller
    }

    /// The same, called with further arguments: to those who ask it is another compiler.
    pub(crate) fn with_arguments(&self, arguments: &str) -> Self {
        Self { path: format!("{} {arguments}", self.path), log: self.log.clone(), habit: self.habit.clone() }
    }

    /// From now on `habit` is what it does before it compiles: shell, which may ask for `$kernel`, and for `$begun`, the
    /// how manieth it was to be begun, by whichever process; a kernel that a process begins again keeps its number.
    pub(crate) fn does(&self, habit: &str) {
        let _ = std::fs::remove_file(&self.habit);
        std::os::unix::fs::symlink(format!("{habit}\n:"), &self.habit).unwrap();
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, kernel, builder, at] = words[..] else { panic!("{line}") };
            Line {
                begins: what == "begin",
                kernel: kernel.to_owned(),
                builder: builder.parse().unwrap(),
                at: Duration::from_nanos(at.parse().unwrap()),
            }
        };
        text.lines().map(line).collect()
    }

    /// The kernels that were begun, in that order.
    pub(crate) fn begun(&self) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.begins).collect()
    }

    /// How many kernels were begun, and how many different ones.
    pub(crate) fn compiles(&self) -> (usize, usize) {
        let mut kernels: Vec<String> = self.begun().into_iter().map(|line| line.kernel).collect();
        let all = kernels.len();
        kernels.sort_unstable();
        kernels.dedup();
        (all, kernels.len())
    }

    /// How many kernels were being compiled at the same time, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        let (mut now, mut most) = (0usize, 0);
        for line in self.lines() {
            now = if line.begins { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        most
    }

    /// Waits until so many kernels were begun.
    #[track_caller]
    pub(crate) fn await_begun(&self, count: usize) {
        until(&format!("{count} begun compiles"), || self.begun().len() >= count);
    }
}

/// A build that runs. One that nobody asks for how it ended is killed, also when a test fails.
pub(crate) struct Build(Option<Child>);

impl Build {
    /// Starts the build of `net` as a rank.
    pub(crate) fn start(place: &Place, rank: usize, cc: &Teller, args: &[&str]) -> Self {
        let mut command = place.command(&[&["build", "net", "--format", "json"], args].concat());
        command.env("CC", &cc.path).env("RANK_ID", rank.to_string());
        Self::spawn(&mut command)
    }

    /// Starts it as a process that may have no more than so many files open.
    pub(crate) fn start_with_files(
        files: usize,
        place: &Place,
        rank: usize,
        cc: &Teller,
        args: &[&str],
    ) -> Self {
        let plain = place.command(&[&["build", "net", "--format", "json"], args].concat());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        command.arg(plain.get_program()).args(plain.get_args()).current_dir(place.folder.path());
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(command.env("CC", &cc.path).env("RANK_ID", rank.to_string()).stdin(Stdio::null()))
    }

    fn spawn(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id() as i32).unwrap(), signal).unwrap();
    }

    /// What came of it.
    pub(crate) fn end(mut self) -> Ran {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Builds that run at once, each with a rank of its own.
pub(crate) struct Crowd(pub(crate) Vec<Build>);

impl Crowd {
    pub(crate) fn start(place: &Place, ranks: usize, cc: &Teller, args: &[&str]) -> Self {
        Self((0..ranks).map(|rank| Build::start(place, rank, cc, args)).collect())
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.0.iter().map(Build::id).collect()
    }

    /// Waits until all of them have asked for the lock of a kernel.
    #[track_caller]
    pub(crate) fn await_at_locks(&self) {
        until("every build asks for a lock", || self.ids().into_iter().all(is_at_a_lock));
    }

    /// What came of each.
    pub(crate) fn end(self) -> Vec<Ran> {
        self.0.into_iter().map(Build::end).collect()
    }

    /// Sees each end well.
    #[track_caller]
    pub(crate) fn end_well(self) -> Vec<Ran> {
        self.0.into_iter().map(|build| build.end().ended_with(0)).collect()
    }
}

/// Whether the process has a kernel's lock open, whether it has it or waits for it.
fn is_at_a_lock(process: u32) -> bool {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.filter_map(|file| std::fs::read_link(file.path()).ok())
        .any(|path| path.to_string_lossy().contains("/locks/"))
}

/// Waits, generously.
#[track_caller]
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited a minute in vain: {what}");
}

/// Writes a network of so many different kernels.
pub(crate) fn network(place: &Place, kernels: usize) {
    for length in 1..=kernels {
        place.write(&format!("net/{length}.info"), square_of(length));
    }
}

/// Checks a `kernel_meta` folder: each `.json` has its object beside it. Gives how many there are.
#[track_caller]
pub(crate) fn whole_pairs(folder: &Path) -> usize {
    let jsons: Vec<PathBuf> =
        files(folder).into_iter().filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    for json in &jsons {
        let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        let object = std::fs::read(json.with_extension("o")).unwrap();
        assert_eq!(meta["sha256"], opbuild_digest::Digest::of(&object).to_string(), "{json:?}");
    }
    jsons.len()
}
