//! Forked children of a process that runs programs.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use opkeep_process::{ProcessBuilder, Sandbox};
use opkeep_testkit::in_forked_child;

/// It neither kills the program of its parent, nor waits for it.
#[test]
fn a_child_that_drops_a_running_program_leaves_it_alone() {
    let args = ["-c", "sleep 0.3; echo done; exit 7"].map(OsString::from);
    let run = ProcessBuilder {
        program: Path::new("/bin/sh"),
        args: &args,
        environment: &[],
        dir: Path::new("/"),
        log: None,
        deadline: Some(Instant::now() + Duration::from_secs(60)),
        cancel: &CancelToken::new(),
        sandbox: Sandbox::default(),
    };
    let mut running = Some(run.spawn().unwrap());
    let mut other = Some(run.spawn().unwrap());
    assert!(in_forked_child(|| {
        drop(running.take());
        assert!(other.take().unwrap().wait_with_output().is_err());
    }));
    for running in [running, other] {
        let ended = running.unwrap().wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.output.as_str()), (Some(7), "done\n"));
    }
}
