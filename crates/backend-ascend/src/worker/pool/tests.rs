#![expect(clippy::disallowed_methods, reason = "these tests write programs")]

use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;
use std::time::SystemTime;

use opkeep_fs::{Clock, Fs};
use opkeep_testkit::TestContext;
use tempfile::TempDir;

use super::*;
use crate::probe::guards::Guards;
use crate::probe::interpreter::Interpreter;
use crate::probe::read_domain::ReadDomain;

/// The message of a ready worker, as a shell prints it.
const READY: &str = r#"printf '\000\000\000\016{"ready":true}'"#;

/// A pool of workers that say that they are ready, and then do this.
fn pool(and_then: &str) -> (TempDir, Pool, Arc<WorkerConfig>) {
    let dir = tempfile::tempdir().unwrap();
    let python = dir.path().join("python3");
    std::fs::write(&python, format!("#!/bin/sh\n{READY}\n{and_then}\n")).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let config = WorkerConfig {
        interpreter: Interpreter { program: python, arguments: Vec::new(), environment },
        bytecode: None,
        domain: ReadDomain::default(),
        tool_dir: None,
        roots: Vec::new(),
        jobs_per_worker: 9,
        guards: Guards::none("the shell is not probed"),
        scratch: dir.path().to_owned(),
        fs: Fs::new(),
        reach: OnceLock::new(),
    };
    (dir, Pool::new().unwrap(), Arc::new(config))
}

/// A clock that differs from the system's.
struct Shifted {
    ahead: Duration,
    behind: Duration,
}

impl Clock for Shifted {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.ahead - self.behind
    }
}

/// The offset, in nanoseconds, that a worker gets from a caller with this clock.
fn clock_offset(ahead: Duration, behind: Duration) -> i64 {
    let (dir, _pool, config) = pool("exit 0");
    let mut config = Arc::into_inner(config).unwrap();
    config.fs = Fs::new().with_clock(Arc::new(Shifted { ahead, behind }));
    config.message(dir.path())["clock_offset"].as_i64().unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);
/// The time that may pass between two looks at the system's clock.
const SLACK: i64 = 60_000_000_000;

#[test]
fn a_worker_knows_that_the_callers_clock_is_ahead() {
    let offset = clock_offset(HOUR, Duration::ZERO);
    assert!((3_600_000_000_000 - SLACK..=3_600_000_000_000).contains(&offset), "{offset}");
}

#[test]
fn a_worker_knows_that_the_callers_clock_is_behind() {
    let offset = clock_offset(Duration::ZERO, HOUR);
    assert!((-3_600_000_000_000 - SLACK..=-3_600_000_000_000).contains(&offset), "{offset}");
}

fn worker_options(extra: &Extra) -> WorkerOptions<'_> {
    WorkerOptions { extra, watched: None, is_last: false, output_dir: None }
}

fn ask(pool: &Pool, config: &Arc<WorkerConfig>, length: usize, deadline: Option<Instant>) -> WorkerError {
    let request = json!({"do": "compile", "text": "x".repeat(length)});
    let (extra, caller) = (Extra::default(), TestContext::new().with_deadline(deadline));
    match pool.ask(config, &request, worker_options(&extra), &caller.cx()).answer {
        Ok(_) => panic!("it answers"),
        Err(trouble) => trouble,
    }
}

#[test]
fn a_dead_worker_is_not_waited_for_though_a_child_holds_its_pipes() {
    let (_dir, pool, config) = pool("sleep 1000 &\nexit 3");
    let WorkerError::Died { status, .. } = ask(&pool, &config, 1, None) else { panic!("something else") };
    assert!(status.contains("exit status: 3"), "{status}");
}

#[test]
fn a_request_that_is_too_long_is_refused() {
    let (_dir, pool, config) = pool("cat >/dev/null");
    let WorkerError::Start(error) = ask(&pool, &config, 65 << 20, None) else { panic!("something else") };
    assert!(error.to_string().contains("at most 67108864"), "{error}");
}

#[test]
fn a_worker_that_reads_nothing_is_not_waited_for_beyond_the_deadline() {
    let (_dir, pool, config) = pool("sleep 1000");
    let deadline = Instant::now() + Duration::from_secs(1);
    assert!(matches!(ask(&pool, &config, 1 << 20, Some(deadline)), WorkerError::Late { .. }));
    let (caller, request) = (TestContext::new(), json!({"text": "x".repeat(1 << 20)}));
    caller.cancel.cancel();
    let asked = pool.ask(&config, &request, worker_options(&Extra::default()), &caller.cx());
    assert!(matches!(asked.answer, Err(WorkerError::Cancelled)));
}
