//! Killing real builds of real kernels.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::time::Duration;

use crate::common::{Place, SQUARE, square_of};

/// A small generator of numbers, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Builds of [`KERNELS`] kernels, each killed at a random moment; the next one reuses the finished kernels.
#[test]
fn killed_builds_lose_no_finished_kernel() {
    const KERNELS: usize = 25;
    let place = Place::new();
    for length in 1..=KERNELS {
        place.write(&format!("net/{length}.info"), square_of(length));
    }
    let compiler = place.logging_compiler("cc-logged", "log");
    let cc = compiler.to_str().unwrap().to_owned();
    let seed = u64::from(std::process::id()) | 1;
    let mut random = Random(seed);
    let mut interrupted = 0;
    for round in 0..10 {
        // From an empty store every other time, so that early and late moments are covered.
        if round % 2 == 0 {
            let _ = std::fs::remove_dir_all(place.path("cache"));
            let _ = std::fs::remove_dir_all(place.path("rank_0"));
        }
        let mut build = place.command(&["build", "net", "--format", "json"]).env("CC", &cc).spawn_quietly();
        // A random moment, by progress and by time: after so many kernels, and a little later.
        let (begin, progress) = (place.entries().len(), random.below(20) as usize);
        while place.entries().len() < (begin + progress).min(KERNELS - 1)
            && build.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(random.below(30)));
        let ended = build.try_wait().unwrap().is_some();
        let _ = build.kill();
        build.wait().unwrap();
        interrupted += usize::from(!ended);

        let finished = place.entries().len() as u64;
        let rest = KERNELS as u64 - finished;
        let before = place.compiles("log");
        let next = place.run_with(&["build", "net", "--format", "json"], &[("CC", &cc)]).ended_with(0);
        let compiled = (place.compiles("log") - before) as u64;
        let what = format!("seed {seed}, round {round}: {next:?}");
        assert_eq!((next.count("reused"), next.count("compiled")), (finished, rest), "{what}");
        assert_eq!(compiled, rest, "{what}");
        assert_eq!(next.json()["warnings"].as_array().unwrap().len(), 0, "{what}");

        // The view is complete, and every pair in it is consistent.
        let pairs = crate::common::files(&place.path("rank_0/kernel_meta"));
        let jsons: Vec<_> =
            pairs.iter().filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
        assert_eq!(jsons.len(), KERNELS, "{what}");
        for json in jsons {
            let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
            let object = std::fs::read(json.with_extension("o")).unwrap();
            assert_eq!(meta["sha256"], opkeep_digest::Digest::of(&object).to_string(), "{what}");
        }
    }
    assert!(interrupted >= 3, "only {interrupted} of 10 builds were still running when they were killed");
}

/// Four processes that start cold together compile each kernel once.
#[test]
fn cold_builds_compile_each_kernel_once() {
    let place = Place::new();
    for length in 1..=12 {
        place.write(&format!("net/{length}.info"), square_of(length));
    }
    let compiler = place.logging_compiler("cc-logged", "log");
    let crowd: Vec<_> = (0..4)
        .map(|rank| {
            let mut command = place.command(&["build", "net", "--format", "json"]);
            command.env("CC", &compiler).env("RANK_ID", rank.to_string()).spawn_quietly()
        })
        .collect();
    for mut build in crowd {
        assert!(build.wait().unwrap().success());
    }
    assert_eq!(place.compiles("log"), 12);
    for rank in 0..4 {
        assert_eq!(crate::common::files(&place.path(&format!("rank_{rank}/kernel_meta"))).len(), 12 * 3 + 2);
    }
}

/// Ctrl-C ends the build cleanly: compilers end, work directories are removed, finished kernels are stored.
#[test]
fn an_interrupt_ends_the_build_cleanly() {
    let place = Place::new();
    place.write("net/1.info", square_of(1));
    place.write("net/2.info", square_of(2));
    let marker = format!("{}.8642", 20_000 + std::process::id() % 10_000);
    // The first kernel compiles, the second never ends.
    let cc = place.compiler("cc-slow", &format!("grep -q '\\[2\\]' kernel.c && exec sleep {marker}"));
    let running = || crate::common::command_lines().iter().any(|line| line.contains(&marker));
    let mut build = place.command(&["build", "net", "--jobs", "2"]).env("CC", &cc).spawn_quietly();
    let until = |what: &dyn Fn() -> bool| {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            what()
        })
    };
    assert!(until(&|| running() && place.entries().len() == 1));
    let pid = rustix::process::Pid::from_raw(build.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(build.wait().unwrap().code(), Some(130));
    assert!(until(&|| !running()), "the compiler is still running");
    let left = crate::common::files(&place.path("tmp"));
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("/work-")), "{left:?}");
    assert_eq!(place.entries().len(), 1);
    let kept = crate::common::files(&place.path("rank_0/kernel_meta"));
    assert_eq!(
        kept.iter().filter(|path| path.extension().is_some_and(|it| it == "json")).count(),
        1,
        "{kept:?}"
    );
}

/// As under `nohup` and in the background of a shell: a signal that the build was started to ignore does not end it. The others do.
#[test]
fn a_build_goes_on_after_signals_that_it_ignores() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = Place::new();
    let marker = format!("{}.8644", 60_000 + std::process::id() % 10_000);
    // A compiler that goes on when the test ends its wait.
    let compiler = place.compiler("cc-slow", &format!("sleep {marker} || true"));
    let waits = || pids_of(&["sleep", &marker]).first().copied();
    let cases = [
        ("HUP", Signal::HUP, true),
        ("INT", Signal::INT, true),
        ("HUP INT TERM", Signal::TERM, true),
        ("HUP", Signal::INT, false),
        ("INT", Signal::HUP, false),
        ("", Signal::HUP, false),
    ];
    for (ignored, signal, goes_on) in cases {
        let what = format!("ignored: {ignored}, sent: {signal:?}");
        let _ = std::fs::remove_dir_all(place.path("cache"));
        let script = format!("trap '' {ignored} USR2; exec \"$0\" build {SQUARE} --target cpu");
        let mut build = place.program("sh".as_ref(), &["-c", &script, env!("CARGO_BIN_EXE_opkeep")]);
        let mut build = build.env("CC", &compiler).spawn_quietly();
        let compiler = loop {
            assert!(build.try_wait().unwrap().is_none(), "{what}: the build ended before it compiled");
            match waits() {
                Some(compiler) => break compiler,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        kill_process(Pid::from_raw(build.id() as i32).unwrap(), signal).unwrap();
        if goes_on {
            kill_process(compiler, Signal::KILL).unwrap();
        }
        assert_eq!(build.wait().unwrap().code(), Some(if goes_on { 0 } else { 130 }), "{what}");
        assert_eq!(place.entries().len(), usize::from(goes_on), "{what}");
    }
}

/// The processes with this command line.
fn pids_of(arguments: &[&str]) -> Vec<rustix::process::Pid> {
    let wanted: Vec<u8> =
        arguments.iter().flat_map(|argument| [argument.as_bytes(), b"\0"].concat()).collect();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found =
        processes.filter(|it| std::fs::read(it.path().join("cmdline")).is_ok_and(|line| line == wanted));
    let pid = |name: std::ffi::OsString| rustix::process::Pid::from_raw(name.to_str()?.parse().ok()?);
    found.filter_map(|process| pid(process.file_name())).collect()
}

/// The same for a compiler that does not answer the query for its version.
#[test]
fn an_interrupt_ends_a_query_to_the_compiler() {
    use rustix::process::Signal;
    let place = Place::new();
    place.write("net/1.info", square_of(1));
    let marker = format!("{}.8643", 50_000 + std::process::id() % 10_000);
    let cc = place.script("cc-mute", &format!("sleep {marker} & sleep {marker}"));
    let running = || crate::common::command_lines().iter().filter(|line| line.contains(&marker)).count();
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let wait = |_| std::thread::sleep(Duration::from_millis(10));
        assert!((0..800).inspect(|_| wait(())).any(|_| done()), "waited in vain: {what}");
    };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut build = place.command(&["build", "net", "--format", "json"]);
        build.env("CC", &cc).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let build = build.spawn().unwrap();
        until("it is asked", &|| running() >= 2);
        let pid = rustix::process::Pid::from_raw(build.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        until("it is gone", &|| running() == 0);
        let output = build.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["interrupted"], true, "{json}");
        assert!(place.entries().is_empty());
    }
}

/// A command that has nothing to stop is ended by the signal, which a shell reports as 128 and its number.
#[test]
fn a_signal_ends_a_command_that_only_prints() {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::Signal;
    let place = Place::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // The script is longer than a pipe holds, so the command is still writing.
        let mut command = place.command(&["completions", "bash"]);
        let mut running = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut begin = [0; 1];
        running.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
        let pid = rustix::process::Pid::from_raw(running.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(running.wait().unwrap().signal(), Some(signal.as_raw()));
    }
}

trait SpawnQuietly {
    fn spawn_quietly(&mut self) -> std::process::Child;
}

impl SpawnQuietly for std::process::Command {
    fn spawn_quietly(&mut self) -> std::process::Child {
        self.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    }
}
