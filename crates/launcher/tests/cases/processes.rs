//! Processes that run the same command.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use opkeep_launcher::{
    FileCacheConfig, Invocation, Launcher, LauncherConfig, Roots, SignalRelay, StoreConfig, Stream, Streams,
    Task, ToolFacts,
};
use opkeep_testkit::PlainDigests;
use rustix::process::Signal;

/// The first argument of this program when it runs a command.
pub(crate) const CHILD: &str = "--child";

/// The outputs of this process.
struct Standard;

impl Streams for Standard {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Stdout => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Stream::Stderr => io::stderr().write_all(bytes),
        }
    }
}

/// Runs `script` in `directory/tree` with a launcher, and records where its result is from. If the third argument is a number, the command gets this
/// signal when the file `signal` appears.
pub(crate) fn launch(arguments: &[String]) -> ExitCode {
    let [directory, script, rest @ ..] = arguments else { panic!("{arguments:?}") };
    let (directory, tree) = (Path::new(directory), Path::new(directory).join("tree"));
    let cache = FileCacheConfig::new(StoreConfig::new(directory.join("store")), "launcher");
    let mut config = LauncherConfig::new(cache, Arc::<PlainDigests>::default());
    config.roots = Roots::new([("build".to_owned(), tree.clone())]).unwrap();
    if let [number] = rest {
        let (signals, number, file) = (SignalRelay::new(), number.parse().unwrap(), directory.join("signal"));
        config.signals = signals.clone();
        thread::spawn(move || {
            until("the signal", || file.exists());
            signals.send(number);
        });
    }
    let work = tempfile::tempdir().unwrap();
    let (out, env) = (tree.join("out"), ["PATH", "MAKEFLAGS"]);
    let run = Invocation {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: env.iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?))).collect(),
        dir: tree,
    };
    let task = Task {
        tool: "sh",
        key_args: run.args.clone(),
        run,
        inputs: Vec::new(),
        work_dir: work.path(),
        outputs: &|path| path.starts_with(&out),
        ignored: &|path| path.extension().is_some_and(|extension| extension == "log"),
        check: &|_| Ok(()),
        facts: ToolFacts { is_movable: true, ..ToolFacts::default() },
        exclusive: Vec::new(),
        target: "host".to_owned(),
        name: String::new(),
    };
    fs::write(directory.join(format!("started-{}", std::process::id())), "").unwrap();
    let ran = Launcher::open(config).unwrap().run(&task, &mut Standard).unwrap();
    fs::write(directory.join(format!("how-{}", std::process::id())), format!("{:?}", ran.how)).unwrap();
    drop(work);
    let code = ran.status.code().unwrap_or_else(|| 128 + ran.status.signal().unwrap());
    ExitCode::from(u8::try_from(code).unwrap())
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A directory with a tree and a store.
pub(crate) struct Bench(tempfile::TempDir);

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(bench.path("tree/out")).unwrap();
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A process that runs `script` with a launcher.
    fn process(&self, script: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([CHILD, self.0.path().to_str().unwrap(), script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Where the results of the processes since the last call are from.
    pub(crate) fn hows(&self) -> Vec<String> {
        let mut hows = Vec::new();
        for entry in fs::read_dir(self.0.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().as_encoded_bytes().starts_with(b"how-") {
                hows.push(fs::read_to_string(&path).unwrap());
                fs::remove_file(path).unwrap();
            }
        }
        hows.sort();
        hows
    }

    /// Runs eight processes at once, and returns their exit codes and the number of times that the command ran.
    fn eight(&self, script: &str) -> (Vec<Option<i32>>, usize) {
        self.write("tree/tool.log", "");
        let processes: Vec<Child> = (0..8).map(|_| self.process(script).spawn().unwrap()).collect();
        let codes = processes.into_iter().map(|mut process| process.wait().unwrap().code()).collect();
        (codes, self.read("tree/tool.log").lines().count())
    }
}

pub(crate) fn eight_processes() {
    let bench = Bench::new();
    let script = "echo run >> tool.log; sleep 0.3; cat in > out/k";
    // Without a manifest, then with one and another content.
    for text in ["one", "two"] {
        bench.write("tree/in", text);
        assert_eq!(bench.eight(script), (vec![Some(0); 8], 1), "{text}");
        let hows = bench.hows();
        assert_eq!(hows[0], "Compiled");
        assert!(hows.len() == 8 && hows[1..].iter().all(|how| how == "Hit"), "{hows:?}");
        assert_eq!(bench.read("tree/out/k"), text);
    }
    // With another branch: the paths of the manifest are not those of the run.
    bench.write("tree/other", "three");
    let script = "echo run >> tool.log; sleep 0.3; if [ -e flag ]; then cat other; else cat in; fi > out/k";
    assert_eq!(bench.eight(script).1, 1);
    bench.write("tree/flag", "");
    assert_eq!(bench.eight(script).1, 1);
    assert_eq!(bench.read("tree/out/k"), "three");
}

/// The first run fails when all processes wait for it. The others go on together: each waits for all of them.
pub(crate) fn failing_processes() {
    let bench = Bench::new();
    let script = "echo run >> tool.log; if [ $(wc -l < tool.log) = 1 ]; then \
        until [ $(ls .. | grep -c started) = 8 ]; do sleep 0.02; done; sleep 0.5; exit 3; fi; i=0; \
        until [ $(wc -l < tool.log) = 8 ]; do sleep 0.02; i=$((i + 1)); [ $i -lt 500 ] || exit 4; done; exit 3";
    assert_eq!(bench.eight(script), (vec![Some(3); 8], 8));
    assert!(bench.hows().iter().all(|how| how == "NotKept(Failed)"));
}

pub(crate) fn a_killed_process() {
    let bench = Bench::new();
    bench.write("tree/first", "");
    // The first run goes on until it is killed.
    let script = "echo run >> tool.log; if rm first 2> /dev/null; then sleep 600; fi; echo x > out/k";
    let mut first = bench.process(script).spawn().unwrap();
    until("the first run", || !bench.read("tree/tool.log").is_empty() && !bench.path("tree/first").exists());
    let mut second = bench.process(script).spawn().unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(bench.read("tree/tool.log").lines().count(), 1, "the second one waits");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
    assert_eq!((bench.read("tree/out/k"), bench.hows()), ("x\n".to_owned(), vec!["Compiled".to_owned()]));
    // The killed process has left no running command.
    assert_eq!(bench.read("tree/tool.log").lines().count(), 2);
}

/// It is empty, whatever the caller's is: no key covers what comes from there.
pub(crate) fn standard_input() {
    let bench = Bench::new();
    bench.write("input", "text\n");
    bench.write("empty", "");
    let file = |name: &str| Stdio::from(fs::File::open(bench.path(name)).unwrap());
    let script = "(cat; echo end) > out/k";
    for (number, input) in
        [Stdio::null(), file("empty"), file("input"), Stdio::piped()].into_iter().enumerate()
    {
        let mut process = bench.process(script).stdin(input).spawn().unwrap();
        if let Some(mut pipe) = process.stdin.take() {
            // The command may have ended.
            drop(pipe.write_all(b"piped\n"));
        }
        assert!(process.wait().unwrap().success());
        assert_eq!(bench.read("tree/out/k"), "end\n");
        assert_eq!(bench.hows(), [if number == 0 { "Compiled" } else { "Hit" }]);
    }
    // What cannot be kept is as it is without a launcher.
    let script = "cat /dev/fd/0 > out/k";
    assert!(bench.process(script).stdin(file("input")).status().unwrap().success());
    assert_eq!(bench.read("tree/out/k"), "text\n");
}

/// Only the pipes of make are inherited.
pub(crate) fn an_inherited_file() {
    let bench = Bench::new();
    bench.write("lock", "text");
    let run = |redirect: &str, script: &str| {
        let command = bench.process(script);
        let words: Vec<_> = command.get_args().map(|arg| arg.to_str().unwrap().to_owned()).collect();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("{redirect}; shift; exec \"$@\""), "sh"]).arg(bench.path("lock"));
        shell.arg(command.get_program()).args(words);
        shell.stdin(Stdio::null()).status().unwrap()
    };
    let reads = "if (read line <&9) 2> /dev/null; then echo data; else echo none; fi > out/k";
    // As a script holds a lock.
    for (number, redirect) in ["exec 9< \"$1\"", "exec 9<> \"$1\"", "exec 9<&0"].into_iter().enumerate() {
        assert!(run(redirect, reads).success());
        assert_eq!(bench.read("tree/out/k"), "none\n", "{redirect}");
        assert_eq!(bench.hows(), [if number == 0 { "Compiled" } else { "Hit" }]);
    }
}

/// Data that waits in a pipe is no input.
pub(crate) fn an_inherited_pipe() {
    let bench = Bench::new();
    let script = "if (read line <&9) 2> /dev/null; then echo \"$line\"; else echo none; fi > out/k";
    for (data, expected) in [("one", "Compiled"), ("two", "Hit")] {
        let command = bench.process(script);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "echo \"$1\" | (exec 9<&0 < /dev/null; shift; exec \"$@\")", "sh", data]);
        shell.arg(command.get_program()).args(command.get_args());
        assert!(shell.stdin(Stdio::null()).status().unwrap().success());
        assert_eq!((bench.read("tree/out/k").as_str(), bench.hows()), ("none\n", vec![expected.to_owned()]));
    }
}

pub(crate) fn a_signal() {
    let bench = Bench::new();
    let mut process = bench.process("echo run >> tool.log; sleep 600; echo x > out/k");
    let mut process = process.arg(Signal::TERM.as_raw().to_string()).spawn().unwrap();
    until("the run", || !bench.read("tree/tool.log").is_empty());
    bench.write("signal", "");
    assert_eq!(process.wait().unwrap().code(), Some(128 + Signal::TERM.as_raw()));
    assert_eq!(bench.hows(), ["NotKept(Failed)"]);
}
