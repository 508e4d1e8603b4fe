//! Clocks of hosts that are ten minutes apart, both the time of day and the time since the start.
//!
//! A library that is loaded into each host shifts the time of day from its first instruction on. A time namespace shifts the time
//! since the start, where this user may create one. The lease protocol compares no times of different hosts: if it did, a host whose
//! clock is ahead would take over each lease at once, and one whose clock is behind would wait for ever.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{Server, ServerKind, trial_with};

use super::host::{Hosts, LONGEST, Settings, directory};

/// The clocks of the hosts, in seconds beside those of this process.
const CLOCKS: [i64; 4] = [0, 600, -600, 1200];

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long answer = syscall(SYS_clock_gettime, clock, time);
    const char *shift = getenv("CLOCK_SHIFT");
    if (answer == 0 && shift && clock == CLOCK_REALTIME) time->tv_sec += atol(shift);
    return (int)answer;
}
"#;

pub(super) fn trials() -> Vec<Trial> {
    let compiler = Command::new("cc").arg("--version").output().err();
    let missing = ServerKind::redis().missing().or(compiler.map(|error| format!("no `cc`: {error}")));
    vec![
        trial_with("hosts::clocks_that_are_apart_cost_no_build", missing.clone(), || {
            apart(&Server::start(ServerKind::redis())?)
        }),
        trial_with(
            "hosts::a_holder_whose_clock_is_apart_is_taken_over_after_one_time_to_live",
            missing,
            || taken_over(&Server::start(ServerKind::redis())?),
        ),
    ]
}

fn library(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    fs::write(&source, LIBRARY).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
    assert!(command.status().unwrap().success());
    library
}

/// The same command with clocks that are ahead by `seconds`.
fn shifted(command: &Command, library: &Path, seconds: i64) -> Command {
    let mut shifted = match has_time_namespaces() {
        true => {
            let mut namespace = Command::new("unshare");
            let clocks = ["monotonic", "boottime"].map(|clock| format!("--{clock}={seconds}"));
            namespace.args(["--time", "--fork", "--kill-child"]).args(clocks).arg(command.get_program());
            namespace
        }
        false => Command::new(command.get_program()),
    };
    shifted.args(command.get_args()).stdin(Stdio::null());
    shifted.env("LD_PRELOAD", library).env("CLOCK_SHIFT", seconds.to_string());
    shifted
}

fn has_time_namespaces() -> bool {
    let output =
        Command::new("unshare").args(["--time", "--fork", "--monotonic=600", "cat", "/proc/uptime"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn apart(server: &Server) -> Result<(), Failed> {
    let dir = directory();
    let library = library(dir.path());
    let mut settings = Settings::new(&dir, &server.url(), Duration::from_secs(30));
    (settings.entries, settings.compile) = (30, Duration::from_millis(30));
    let start = |(host, seconds): (usize, i64)| {
        let command = settings.numbered(&dir, host).command("build");
        shifted(&command, &library, seconds).spawn().unwrap()
    };
    Hosts(CLOCKS.into_iter().enumerate().map(start).collect()).finish();
    let mut built = settings.logged("built");
    built.sort_unstable();
    let count = built.len();
    built.dedup();
    assert_eq!((built.len(), count), (settings.entries, settings.entries), "each once");
    assert_eq!(settings.logged("warning"), [""; 0]);
    Ok(())
}

fn taken_over(server: &Server) -> Result<(), Failed> {
    let dir = directory();
    let library = library(dir.path());
    let mut settings = Settings::new(&dir, &server.url(), Duration::from_secs(2));
    settings.entries = 1;
    for (holder, waiter) in [(600, -600), (-600, 600)] {
        fs::write(&settings.log, "").unwrap();
        let command = settings.numbered(&dir, 10).command("hold");
        let mut hosts = Hosts(vec![shifted(&command, &library, holder).spawn().unwrap()]);
        let until = |what: &str| {
            let began = Instant::now();
            while settings.logged(what).is_empty() {
                assert!(began.elapsed() < LONGEST, "no host has {what} the entry");
                thread::sleep(Duration::from_millis(2));
            }
        };
        until("held");
        let command = settings.numbered(&dir, 11).command("build");
        hosts.0.push(shifted(&command, &library, waiter).spawn().unwrap());
        // Far longer than one time to live: the holder renews its lease.
        thread::sleep(settings.ttl * 2);
        assert_eq!(settings.logged("built"), [""; 0], "the holder lives");
        hosts.0[0].kill()?;
        until("built");
        assert!(hosts.0[1].wait()?.success());
        drop(hosts);
        for host in [10, 11] {
            fs::remove_dir_all(settings.numbered(&dir, host).root)?;
        }
        // The entry is in the server by now.
        clear(server);
    }
    Ok(())
}

fn clear(server: &Server) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"FLUSHALL\nQUIT\n").unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
}
