//! Signals reach the programs that tests start, whatever the runner of the tests ignores.
#![expect(clippy::disallowed_methods, reason = "a test starts itself in another environment")]

use std::process::Command;

/// Set in the process that ignores signals.
const IGNORING: &str = "OPKEEP_TEST_IGNORES_SIGNALS";
/// The line of a process's status with the set of signals that it ignores.
const IGNORED: &str = "SigIgn:";

/// As in the background of a shell and under `nohup`: the test program goes on when the signals come, and what it starts has
/// their default actions.
#[test]
fn programs_that_tests_start_ignore_no_signal() {
    if std::env::var_os(IGNORING).is_some() {
        let script = "for name in HUP INT TERM; do kill -s $name $PPID; done; grep \"$0\" /proc/self/status";
        let output = Command::new("sh").args(["-c", script, IGNORED]).output().unwrap();
        return println!("\n{}", String::from_utf8_lossy(&output.stdout));
    }
    let name = "signals::programs_that_tests_start_ignore_no_signal";
    let script = "trap '' HUP INT TERM; exec \"$0\" --exact \"$1\" --nocapture";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name).env(IGNORING, "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let set = text.lines().find_map(|line| line.strip_prefix(IGNORED)).expect("a program was started");
    let set = u64::from_str_radix(set.trim(), 16).unwrap();
    let ignored = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM].map(|signal| set >> (signal - 1) & 1);
    assert_eq!(ignored, [0, 0, 0], "{text}");
}
