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
    /// Has a directory for the habit that it has now.
    chosen: PathBuf,
    habits: Vec<String>,
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
        let teller = Self::with_habits(place, &[habit]);
        teller.does(habit);
        teller
    }

    /// The same with a choice of habits, and none yet. A habit is what it does before it compiles: shell, which may ask for
    /// `$kernel`, and for `$begun`, the how manieth it was to be begun, by whichever process.
    pub(crate) fn with_habits(place: &Place, habits: &[&str]) -> Self {
        let (log, chosen) = (place.path("compiles.log"), place.path("habits"));
        std::fs::create_dir(&chosen).unwrap();
        // It neither reads nor looks at what changes: either would be refused, or make it another compiler each time. It
        // only makes directories: whether it could is what it goes by. While it is probed it has no habit, and only runs
        // what habits may run.
        let choice = |(number, habit): (usize, &&str)| {
            format!("if {}; then\n{habit}\n:\nfi", can_make(&chosen.join(number.to_string())))
        };
        let choices: Vec<String> = habits.iter().enumerate().map(choice).collect();
        let body = format!(
            "{PROBED}\
             case \"$*\" in *kernel.c*) ;; *) exec cc \"$@\";; esac\n\
             kernel=$(sed -n 's/.* \\([a-z_0-9]*\\)__kernel0.*/\\1/p' kernel.c)\n\
             tell() {{ echo \"$1 $kernel $PPID $(date +%s%N)\" >> '{log}'; }}\n\
             begun=1; until mkdir '{log}'.$begun 2> /dev/null; do begun=$((begun + 1)); done\n\
             tell begin\n\
             {choices}\n\
             cc \"$@\"; code=$?\n\
             tell end\n\
             exit $code",
            log = log.display(),
            choices = choices.join("\n"),
        );
        let path = place.script("cc-teller", &body).to_str().unwrap().to_owned();
        Self { path, log, chosen, habits: habits.iter().map(|&habit| habit.to_owned()).collect() }
    }

    /// The same, called with further arguments: to those who ask it is another compiler.
    pub(crate) fn with_arguments(&self, arguments: &str) -> Self {
        let Self { path, log, chosen, habits } = self;
        Self {
            path: format!("{path} {arguments}"),
            log: log.clone(),
            chosen: chosen.clone(),
            habits: habits.clone(),
        }
    }

    /// From now on `habit`, one of its habits, is what it does before it compiles; nothing if it is empty.
    pub(crate) fn does(&self, habit: &str) {
        for number in 0..self.habits.len() {
            // A compiler in progress may make a directory there a last time.
            let gone = format!("gone-{}-{number}", self.begun().len());
            let _ = std::fs::rename(self.chosen.join(number.to_string()), self.chosen.join(gone));
        }
        if !habit.is_empty() {
            let number = self.habits.iter().position(|one| one == habit).expect("one of its habits");
            std::fs::create_dir(self.chosen.join(number.to_string())).unwrap();
        }
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

/// A shell's test whether `path` is a directory, which neither reads it nor looks at it.
pub(crate) fn can_make(path: &Path) -> String {
    let path = path.display();
    format!("mkdir '{path}'/$$ 2> /dev/null && rmdir '{path}'/$$")
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
        assert_eq!(meta["sha256"], opkeep_digest::Digest::of(&object).to_string(), "{json:?}");
    }
    jsons.len()
}
