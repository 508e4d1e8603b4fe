//! Several builds at once, and compilers that log each compile, so that compiles are counted exactly.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Place, Ran, files, probed_by, square_of};

/// A compiler that logs the begin and the end of each compile.
pub(crate) struct LoggingCompiler {
    pub(crate) path: String,
    log: PathBuf,
    /// Holds a directory for the current behavior.
    chosen: PathBuf,
    behaviors: Vec<String>,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) begins: bool,
    pub(crate) kernel: String,
    /// The process that builds. Two in different namespaces of processes may have one number.
    pub(crate) builder: u32,
    /// The work directory, which is on the disk of the host that builds.
    pub(crate) directory: PathBuf,
    /// Since the epoch.
    pub(crate) at: Duration,
}

impl LoggingCompiler {
    /// The system's compiler with a log in `place`, and with a behavior.
    pub(crate) fn new(place: &Place, behavior: &str) -> Self {
        let compiler = Self::with_behaviors(place, &[behavior]);
        compiler.does(behavior);
        compiler
    }

    /// The same with a choice of behaviors, none of which is active. A behavior is shell code that runs before a compile. It has
    /// `$kernel`, and the number of the compile among those of all processes as `$begun`.
    pub(crate) fn with_behaviors(place: &Place, behaviors: &[&str]) -> Self {
        Self::of_program(place, "cc", behaviors)
    }

    /// The same with another compiler, `program`, than the system's. Its files in `place` have names of their own.
    pub(crate) fn of_program(place: &Place, program: &str, behaviors: &[&str]) -> Self {
        let (log, chosen) =
            (place.path(&format!("{program}.log")), place.path(&format!("habits-of-{program}")));
        std::fs::create_dir(&chosen).unwrap();
        // It reads no changing file and requests no status of one: either would be refused, or make it another compiler each
        // time. It only creates directories, and branches on success. A probe runs no behavior, and only programs
        // that behaviors may run.
        // The behavior is chosen before the begin is logged: a test that reads the line may choose another one for the next compile.
        let choice = |number: usize| {
            format!("{} && chosen=$chosen.{number}.", can_make(&chosen.join(number.to_string())))
        };
        let choices: Vec<String> = (0..behaviors.len()).map(choice).collect();
        let act = |(number, behavior): (usize, &&str)| {
            format!("case $chosen in *.{number}.*)\n{behavior}\n:\n;; esac")
        };
        let acts: Vec<String> = behaviors.iter().enumerate().map(act).collect();
        // Counting takes a program for each earlier compile.
        let count = format!(
            "begun=1; until mkdir '{}'.$begun 2> /dev/null; do begun=$((begun + 1)); done\n",
            log.display()
        );
        let is_counted = behaviors.iter().any(|behavior| behavior.contains("$begun"));
        let body = format!(
            "case \"$*\" in *kernel.c*) ;; *) exec {program} \"$@\";; esac\n\
             kernel=$(sed -n 's/.* \\([a-z_0-9]*\\)__kernel0.*/\\1/p' kernel.c)\n\
             tell() {{ echo \"$1 $kernel $PPID $(date +%s%N) $PWD\" >> '{log}'; }}\n\
             chosen=\n\
             {choices}\n\
             {count}\
             tell begin\n\
             {acts}\n\
             {program} \"$@\"; code=$?\n\
             tell end\n\
             exit $code",
            log = log.display(),
            count = if is_counted { &count } else { "" },
            choices = choices.join("\n"),
            acts = acts.join("\n"),
        );
        let body = format!("{}{body}", probed_by(program, &body));
        let path = place.script(&format!("{program}-teller"), &body).to_str().unwrap().to_owned();
        Self { path, log, chosen, behaviors: behaviors.iter().map(|&behavior| behavior.to_owned()).collect() }
    }

    /// The same with further arguments, and so another compiler for its callers.
    pub(crate) fn with_arguments(&self, arguments: &str) -> Self {
        let Self { path, log, chosen, behaviors } = self;
        Self {
            path: format!("{path} {arguments}"),
            log: log.clone(),
            chosen: chosen.clone(),
            behaviors: behaviors.clone(),
        }
    }

    /// Activates `behavior`, one of its behaviors; none if it is empty.
    pub(crate) fn does(&self, behavior: &str) {
        for number in 0..self.behaviors.len() {
            // A compile in progress may still create a directory there.
            let gone = format!("gone-{}-{number}", self.begun().len());
            let _ = std::fs::rename(self.chosen.join(number.to_string()), self.chosen.join(gone));
        }
        if !behavior.is_empty() {
            let number = self.behaviors.iter().position(|one| one == behavior).expect("one of its habits");
            std::fs::create_dir(self.chosen.join(number.to_string())).unwrap();
        }
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let line = |line: &str| {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            let [what, kernel, builder, at, directory] = words[..] else { panic!("{line}") };
            Line {
                begins: what == "begin",
                kernel: kernel.to_owned(),
                builder: builder.parse().unwrap(),
                directory: directory.into(),
                at: Duration::from_nanos(at.parse().unwrap()),
            }
        };
        text.lines().map(line).collect()
    }

    /// The compiles that have begun, in order.
    pub(crate) fn begun(&self) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.begins).collect()
    }

    /// The numbers of begun compiles and of different kernels among them.
    pub(crate) fn compiles(&self) -> (usize, usize) {
        let mut kernels: Vec<String> = self.begun().into_iter().map(|line| line.kernel).collect();
        let all = kernels.len();
        kernels.sort_unstable();
        kernels.dedup();
        (all, kernels.len())
    }

    /// The highest number of compiles at the same time.
    pub(crate) fn most_at_once(&self) -> usize {
        let (mut now, mut most) = (0usize, 0);
        for line in self.lines() {
            now = if line.begins { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        most
    }

    /// Waits until this many compiles have begun.
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

/// A running build. It is killed on drop, also when a test fails.
pub(crate) struct Build(Option<Child>);

impl Build {
    /// Starts the build of `net` as a rank.
    pub(crate) fn start(place: &Place, rank: usize, cc: &LoggingCompiler, args: &[&str]) -> Self {
        let mut command = place.command(&[&["build", "net", "--format", "json"], args].concat());
        command.env("CC", &cc.path).env("RANK_ID", rank.to_string());
        Self::spawn(&mut command)
    }

    /// Starts it as a process with a limit on open files.
    pub(crate) fn start_with_files(
        files: usize,
        place: &Place,
        rank: usize,
        cc: &LoggingCompiler,
        args: &[&str],
    ) -> Self {
        let plain = place.command(&[&["build", "net", "--format", "json"], args].concat());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        command.arg(plain.get_program()).args(plain.get_args()).current_dir(place.dir.path());
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(command.env("CC", &cc.path).env("RANK_ID", rank.to_string()).stdin(Stdio::null()))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id() as i32).unwrap(), signal).unwrap();
    }

    /// Waits for the end and returns the result.
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
    pub(crate) fn start(place: &Place, ranks: usize, cc: &LoggingCompiler, args: &[&str]) -> Self {
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

    /// Waits for the end of each and returns the results.
    pub(crate) fn end(self) -> Vec<Ran> {
        self.0.into_iter().map(Build::end).collect()
    }

    /// Asserts that each succeeds.
    #[track_caller]
    pub(crate) fn end_well(self) -> Vec<Ran> {
        self.0.into_iter().map(|build| build.end().ended_with(0)).collect()
    }
}

/// Whether the process has a kernel's lock file open: it holds the lock or waits for it.
fn is_at_a_lock(process: u32) -> bool {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.filter_map(|file| std::fs::read_link(file.path()).ok())
        .any(|path| path.to_string_lossy().contains("/locks/"))
}

/// Waits for at most a minute.
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

/// Writes a network of `kernels` different kernels.
pub(crate) fn network(place: &Place, kernels: usize) {
    for length in 1..=kernels {
        place.write(&format!("net/{length}.info"), square_of(length));
    }
}

/// Asserts that each `.json` of a `kernel_meta` directory has its object beside it. Returns their number.
#[track_caller]
pub(crate) fn intact_pairs(dir: &Path) -> usize {
    let jsons: Vec<PathBuf> =
        files(dir).into_iter().filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    for json in &jsons {
        let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        let object = std::fs::read(json.with_extension("o")).unwrap();
        assert_eq!(meta["sha256"], opkeep_digest::Digest::of(&object).to_string(), "{json:?}");
    }
    jsons.len()
}
