//! Compilers that misbehave: each ends in a typed error, in time, with nothing left running.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests lay out compilers on disk and look into /proc")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{backend_with, compile_in, job, runs_alone, stand_in};
use opkeep_artifact::Artifact;
use opkeep_backend::{Backend, BackendError};
use opkeep_backend_cpu::CpuBackend;
use opkeep_fs::CancelToken;
use tempfile::TempDir;

/// The environment variable with the compiler, for this program as the parent that is killed.
const PLAY_PARENT: &str = "OPKEEP_TEST_COMPILER";

/// A stand-in compiler, its backend and a work directory.
struct Case {
    backend: CpuBackend,
    dir: TempDir,
}

impl Case {
    /// `MARK` in the script is replaced by a word that is in no other process's arguments.
    fn new(on_compile: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let case = Self { backend: backend_with(None), dir };
        std::fs::create_dir(case.work()).unwrap();
        let compiler = stand_in(case.dir.path(), &on_compile.replace("MARK", &case.mark()));
        let backend = backend_with(Some(compiler.to_str().unwrap()));
        // Queried before, so that the tests measure only the compile.
        backend.compiler().unwrap();
        Self { backend, ..case }
    }

    fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    /// A number of seconds to sleep, different for each test; a broken test ends nevertheless.
    fn mark(&self) -> String {
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(self.dir.path()).unwrap());
        format!("30.{}{inode}", std::process::id())
    }

    fn compile(&self, deadline: Option<Duration>, cancel: &CancelToken) -> Result<Artifact, BackendError> {
        let deadline = deadline.map(|deadline| Instant::now() + deadline);
        compile_in(&self.backend, &job("Neg", &[&[2]], &[]), &self.work(), deadline, cancel)
    }

    fn outcome(&self) -> Result<Artifact, BackendError> {
        self.compile(None, &CancelToken::new())
    }
}

/// Returns the processes, without zombies, that have `mark` among their arguments.
fn running(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        if entry.file_name().to_string_lossy().parse::<u32>().is_ok() && arguments.contains(mark) {
            found.push(arguments);
        }
    }
    found
}

/// Waits until `done`, for as long as a busy machine may need.
fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: not within 10 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Killed processes may take a moment to exit.
fn nothing_left(mark: &str) {
    until("nothing is left running", || running(mark).is_empty());
}

#[test]
fn a_failure_reports_the_status_and_the_end_and_the_file_of_the_output() {
    let case = Case::new("i=1; while [ $i -le 100 ]; do echo \"line $i\" >&2; i=$((i + 1)); done; exit 1");
    let error = case.outcome().unwrap_err();
    let text = error.to_string();
    match error {
        BackendError::Compile { command, status, log_tail, log } => {
            assert_eq!(status, "exit status: 1");
            assert!(command.contains("/cc ") && command.ends_with("-o kernel.o kernel.c"), "{command}");
            let lines: Vec<&str> = log_tail.lines().collect();
            assert_eq!((lines[0], lines[lines.len() - 1], lines.len()), ("line 81", "line 100", 20));
            let log = log.unwrap();
            assert!(log.starts_with(case.work()));
            assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 100);
            assert!(text.contains("exit status: 1") && text.contains(log.to_str().unwrap()), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_compiler_that_never_ends_is_ended_with_its_children() {
    let case = Case::new("sleep MARK & echo started; sleep MARK");
    let began = Instant::now();
    match case.compile(Some(Duration::from_millis(400)), &CancelToken::new()) {
        Err(BackendError::TimedOut { seconds, log_tail, command, log }) => {
            assert!((0.3..3.0).contains(&seconds), "{seconds}");
            assert_eq!(log_tail, "started");
            assert_eq!(std::fs::read_to_string(log.unwrap()).unwrap(), "started\n");
            assert!(command.contains("kernel.c"), "{command}");
        }
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    nothing_left(&case.mark());
}

/// The remaining child keeps the output open, for which the caller must not wait.
#[test]
fn children_that_stay_behind_are_ended_after_a_success_too() {
    let real = crate::common::real_compiler();
    let case = Case::new(&format!("sleep MARK & {} \"$@\"", real.display()));
    let began = Instant::now();
    case.outcome().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    nothing_left(&case.mark());
}

#[test]
fn a_deadline_in_the_past_is_one() {
    let case = Case::new("sleep MARK");
    let deadline = Some(Duration::ZERO);
    assert!(matches!(case.compile(deadline, &CancelToken::new()), Err(BackendError::TimedOut { .. })));
    nothing_left(&case.mark());
}

#[test]
fn a_flood_of_output_takes_no_memory() {
    if !runs_alone("process::a_flood_of_output_takes_no_memory") {
        return;
    }
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let case = Case::new("exec yes MARK");
    let before = peak();
    match case.compile(Some(Duration::from_millis(500)), &CancelToken::new()) {
        Err(BackendError::TimedOut { log_tail, .. }) => {
            assert!(log_tail.len() <= 4096 && log_tail.contains(&case.mark()), "{log_tail}");
        }
        other => panic!("{other:?}"),
    }
    // The output is hundreds of megabytes. The system's counts are not exact, so the peak may be lower than before.
    let taken = peak().saturating_sub(before);
    assert!(taken < 32 * 1024, "{taken} kB");
    nothing_left(&case.mark());
}

#[test]
fn a_compiler_that_leaves_nothing_is_found_out() {
    let case = Case::new("echo all is well; exit 0");
    match case.outcome() {
        Err(BackendError::MissingOutput { problem, log_tail, .. }) => {
            assert!(problem.contains("kernel.o"), "{problem}");
            assert_eq!(log_tail, "all is well");
        }
        other => panic!("{other:?}"),
    }
}

/// The backend does not judge the kernel: the validator does, before the kernel is stored.
#[test]
fn rubbish_is_for_the_validator_to_refuse() {
    let case = Case::new("echo rubbish > kernel.o");
    let artifact = case.outcome().unwrap();
    assert_eq!(artifact.object, b"rubbish\n");
    let expectations = case.backend.expectations(&crate::common::spec(&case.backend));
    let report = opkeep_validator::validate(&artifact.metadata, &artifact.object, &expectations);
    let found = report.errors().map(|finding| &finding.problem);
    assert!(
        found.eq([&opkeep_validator::Problem::Object(opkeep_validator::ObjectProblem::NotElf {
            found: b"rubb".to_vec()
        })]),
        "{report:?}"
    );
}

#[test]
fn a_signal_is_reported() {
    let case = Case::new("kill -SEGV $$");
    match case.outcome() {
        Err(BackendError::Compile { status, .. }) => {
            assert!(status.contains("signal: 11") && status.contains("SIGSEGV"), "{status}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn cancelling_ends_the_compiler_and_its_children_at_once() {
    let case = Case::new("sleep MARK & sleep MARK");
    let (cancel, mark) = (CancelToken::new(), case.mark());
    std::thread::scope(|scope| {
        let compile = scope.spawn(|| {
            let outcome = case.compile(None, &cancel);
            (outcome, Instant::now())
        });
        until("both are running", || {
            running(&mark).iter().filter(|found| found.starts_with("sleep")).count() == 2
        });
        let cancelled = Instant::now();
        cancel.cancel();
        let (outcome, ended) = compile.join().unwrap();
        assert!(matches!(outcome, Err(BackendError::Cancelled)), "{outcome:?}");
        assert!(ended - cancelled < Duration::from_secs(1), "{:?}", ended - cancelled);
    });
    nothing_left(&mark);
    assert!(matches!(case.compile(None, &cancel), Err(BackendError::Cancelled)));
    nothing_left(&mark);
}

#[test]
fn the_compiler_sees_an_environment_of_four_variables() {
    // `/proc` shows the environment that the shell was started with, without variables that the shell adds.
    let case = Case::new("tr '\\0' '\\n' < /proc/$$/environ > kernel.o; ls -l /proc/$$/fd >&2; exit 3");
    let Err(BackendError::Compile { log_tail, .. }) = case.outcome() else {
        panic!("it exits with 3");
    };
    let seen = std::fs::read_to_string(case.work().join("kernel.o")).unwrap();
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    let (path, work) = (crate::common::path(), case.work());
    let (path, temp) = (format!("PATH={}", path.to_str().unwrap()), format!("TMPDIR={}", work.display()));
    assert_eq!(seen, ["LC_ALL=C", &path, "PYTHONDONTWRITEBYTECODE=1", &temp]);
    // There is no input to wait for.
    assert!(log_tail.lines().any(|line| line.contains(" 0 -> /dev/null")), "{log_tail}");
}

/// The parent of the test below: compiles until it is killed.
#[test]
fn play_parent() {
    let Some(compiler) = std::env::var_os(PLAY_PARENT) else {
        return;
    };
    let dir = tempfile::tempdir_in(Path::new(&compiler).parent().unwrap()).unwrap();
    let backend = backend_with(compiler.to_str());
    let ended = compile_in(&backend, &job("Neg", &[&[2]], &[]), dir.path(), None, &CancelToken::new());
    panic!("{ended:?}");
}

#[test]
fn the_compiler_dies_with_a_parent_that_is_killed() {
    let case = Case::new("exec sleep MARK");
    let mark = case.mark();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::play_parent"])
        .env(PLAY_PARENT, case.dir.path().join("cc"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the compiler is running", || running(&mark).iter().any(|found| found.starts_with("sleep")));
    // SIGKILL, which the parent cannot handle.
    parent.kill().unwrap();
    parent.wait().unwrap();
    nothing_left(&mark);
}

#[test]
fn many_compiles_at_once_do_not_disturb_each_other() {
    let backend = backend_with(None);
    std::thread::scope(|scope| {
        for thread in 1..=8 {
            let backend = &backend;
            scope.spawn(move || {
                let job = job("Muls", &[&[thread]], &[crate::common::float("value", thread as f64)]);
                let kernel = crate::common::kernel(backend, &job);
                let found = crate::common::launch(&*kernel, &[&vec![2.0; thread as usize]], 1);
                assert_eq!(crate::common::floats(&found), vec![2.0 * thread as f32; thread as usize]);
            });
        }
    });
}
