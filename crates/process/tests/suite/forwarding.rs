//! Programs that run in the place of their caller.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;
use opkeep_process::{
    Forwarded, ForwardingProcess, InheritedFiles, Observer, ProcessError, Sandbox, SignalRelay, Stream,
};

/// Runs a shell script; `sink` gets its output.
fn run(
    script: &str,
    sandbox: Sandbox<'_>,
    signals: &SignalRelay,
    deadline: Option<Duration>,
    sink: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
) -> Result<Forwarded, ProcessError> {
    run_with(InheritedFiles::All, script, sandbox, signals, deadline, sink)
}

fn run_with(
    files: InheritedFiles<'_>,
    script: &str,
    sandbox: Sandbox<'_>,
    signals: &SignalRelay,
    deadline: Option<Duration>,
    sink: &mut dyn FnMut(Stream, &[u8]) -> io::Result<()>,
) -> Result<Forwarded, ProcessError> {
    let args = ["-c", script].map(OsString::from);
    let process = ForwardingProcess {
        program: Path::new("/bin/sh"),
        args: &args,
        environment: &[(OsStr::new("PATH"), OsStr::new("/usr/bin:/bin"))],
        dir: Path::new("/"),
        files,
        deadline: Some(Instant::now() + deadline.unwrap_or(Duration::from_secs(60))),
        cancel: &CancelToken::new(),
        signals,
        sandbox,
    };
    process.run(sink)
}

/// The result of a script, with each of its outputs.
fn outputs(script: &str) -> (Forwarded, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let sink = &mut |stream: Stream, bytes: &[u8]| {
        if stream == Stream::Stdout {
            out.extend_from_slice(bytes)
        } else {
            err.extend_from_slice(bytes)
        }
        Ok(())
    };
    let ended = run(script, Sandbox::default(), &SignalRelay::new(), None, sink).unwrap();
    (ended, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// A child that writes for ever does not hold the caller of a program that has ended.
#[test]
fn a_child_that_floods_is_left() {
    let mut calls = 0;
    let sink = &mut |_: Stream, _: &[u8]| {
        calls += 1;
        // Slower than the child writes, so that there is always more.
        std::thread::sleep(Duration::from_millis(2));
        if calls < 3000 { Ok(()) } else { Err(io::Error::other("still forwarding")) }
    };
    let ended = run("yes & exit 0", Sandbox::default(), &SignalRelay::new(), None, sink).unwrap();
    assert_eq!((ended.status.code(), ended.is_complete), (Some(0), false));
    assert!(calls < 3000, "{calls}");
}

#[test]
fn outputs_are_separate_and_whole() {
    let (ended, out, err) = outputs("echo one; echo two >&2; sleep 0.05; printf three; exit 3");
    assert_eq!((ended.status.code(), out.as_str(), err.as_str()), (Some(3), "one\nthree", "two\n"));
    let (_, out, _) = outputs("head -c 3000000 /dev/zero");
    assert_eq!(out.len(), 3_000_000);
    let (ended, ..) = outputs("kill -9 $$");
    assert_eq!(ended.status.signal(), Some(9));
}

#[test]
fn inherited_descriptors_stay_open() {
    let (from, to) = io::pipe().unwrap();
    let inherited = rustix::io::dup(&to).unwrap();
    drop(to);
    let (ended, ..) = outputs(&format!("echo token > /proc/self/fd/{}", inherited.as_raw_fd()));
    assert!(ended.status.success());
    drop(inherited);
    assert_eq!(io::read_to_string(from).unwrap(), "token\n");
}

/// A file at another descriptor is an input that no key covers.
#[test]
fn only_named_descriptors_stay_open() {
    let (kept_from, kept) = io::pipe().unwrap();
    let (other_from, other) = io::pipe().unwrap();
    let inherited = [rustix::io::dup(&kept).unwrap(), rustix::io::dup(&other).unwrap()];
    drop((kept, other));
    let [kept, other] = inherited.each_ref().map(|fd| fd.as_raw_fd());
    let script = format!(
        "for fd in {kept} {other}; do echo $fd > /proc/self/fd/$fd; done; cat; readlink /proc/self/fd/0"
    );
    for (files, expected) in
        [(&[kept][..], [true, false]), (&[other, kept], [true, true]), (&[], [false, false])]
    {
        let mut out = Vec::new();
        let sink = &mut |stream, bytes: &[u8]| {
            if stream == Stream::Stdout {
                out.extend_from_slice(bytes);
            }
            Ok(())
        };
        let only = InheritedFiles::Only(files);
        run_with(only, &script, Sandbox::default(), &SignalRelay::new(), None, sink).unwrap();
        assert_eq!(out, b"/dev/null\n");
        let mut came = [&kept_from, &other_from].map(|pipe| rustix::io::ioctl_fionread(pipe).unwrap() > 0);
        // Read out, for the next round.
        for (pipe, came) in [&kept_from, &other_from].into_iter().zip(&mut came) {
            if *came {
                rustix::io::read(pipe, &mut [0; 64]).unwrap();
            }
        }
        assert_eq!(came, expected, "{files:?}");
    }
}

/// It gets SIGPIPE as if it wrote into the pipe itself.
#[test]
fn a_reader_that_is_gone_ends_the_program() {
    let sink = &mut |_: Stream, _: &[u8]| Err(io::ErrorKind::BrokenPipe.into());
    let ended = run("yes", Sandbox::default(), &SignalRelay::new(), None, sink).unwrap();
    // By itself, or by its shell.
    let by_signal =
        ended.status.signal() == Some(libc::SIGPIPE) || ended.status.code() == Some(128 + libc::SIGPIPE);
    assert!(by_signal, "{ended:?}");
    assert!(!ended.is_complete);
}

#[test]
fn signals_reach_the_program_and_its_children() {
    let signals = SignalRelay::new();
    let sink = &mut |_: Stream, bytes: &[u8]| {
        assert_eq!(bytes, b"ready\n");
        signals.send(libc::SIGTERM);
        Ok(())
    };
    let script = "trap 'exit 7' TERM; (echo ready; sleep 50) & wait";
    let ended = run(script, Sandbox::default(), &signals, None, sink).unwrap();
    assert_eq!(ended.status.code(), Some(7));
}

#[test]
fn a_program_ends_at_its_deadline() {
    let sink = &mut |_: Stream, _: &[u8]| Ok(());
    let limit = Some(Duration::from_millis(50));
    let ended = run("sleep 50", Sandbox::default(), &SignalRelay::new(), limit, sink);
    assert!(matches!(ended, Err(ProcessError::TimedOut { .. })), "{ended:?}");
}

#[test]
fn children_that_run_on_make_an_observed_run_incomplete() {
    let work = tempfile::tempdir().unwrap();
    let observed = |script: &str| {
        let observer = Observer::start(work.path()).unwrap();
        let sandbox = Sandbox { observer: Some(&observer), domain: None };
        let ended = run(script, sandbox, &SignalRelay::new(), None, &mut |_, _| Ok(())).unwrap();
        (ended.is_complete, observer.finish().outlived)
    };
    assert_eq!(observed("echo x; sleep 0.01 & exit 0"), (true, false));
    assert_eq!(observed("sleep 5 & exit 0"), (false, false));
    let ready = work.path().join("ready").display().to_string();
    let daemon = "setsid sh -c 'echo > READY; exec sleep 5' > /dev/null 2>&1 & while [ ! -e READY ]; do sleep 0.01; done";
    assert_eq!(observed(&daemon.replace("READY", &ready)), (false, true));
}
