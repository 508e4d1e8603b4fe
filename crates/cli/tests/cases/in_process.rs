//! Commands in the process of a host, which is this program: they touch neither its output nor its signals.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests look at files and processes")]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use libtest_mimic::Trial;
use opkeep_cli::{CancelToken, in_process};
use serde_json::{Value, json};

use crate::common::{Place, command_lines, files, square_of};

/// The first argument of a host. The others are the file for its observations, the file whose appearance cancels the
/// command, and the command.
const HOST: &str = "--in-process-host";

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("a command in process prints nothing and handles no signal", silent),
        trial("compilers of a host that ignores signals get the default", default_signals),
        trial("the help in process has one width, whatever the terminal is", help_has_one_width),
        trial("a token that another thread cancels ends compilers in process", cancelled),
    ]
}

/// Runs one command in this process, if the process was started for that.
pub(crate) fn host() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == HOST).then_some(())?;
    let (observed, cancel_at) = (args.next()?, args.next()?);
    let cancel = CancelToken::new();
    let watched = cancel.clone();
    std::thread::spawn(move || {
        while !Path::new(&cancel_at).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        watched.cancel();
    });
    let messages = Mutex::new(Vec::new());
    let note = |level, text: &str| messages.lock().unwrap().push(format!("{level:?}: {text}"));
    let before = signals();
    let result = in_process(args.collect::<Vec<OsString>>(), &cancel, &note);
    let observations = json!({
        "before": before,
        "after": signals(),
        "exit_code": result.exit_code,
        "error": result.error.map(|error| format!("{:?}", error.kind)),
        "json": result.json,
        "messages": messages.into_inner().unwrap(),
    });
    std::fs::write(observed, observations.to_string()).unwrap();
    Some(ExitCode::SUCCESS)
}

/// The signals that this process blocks, ignores and handles.
fn signals() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_mask = |line: &&str| ["SigBlk", "SigIgn", "SigCgt"].iter().any(|mask| line.starts_with(mask));
    status.lines().filter(is_mask).map(str::to_owned).collect()
}

/// A host that runs a command at `place`. The file `cancel` cancels it.
fn hosted(place: &Place, args: &[&str]) -> Command {
    let (observed, cancel) = (place.path("observed"), place.path("cancel"));
    let mut all = vec![HOST, observed.to_str().unwrap(), cancel.to_str().unwrap()];
    all.extend(args);
    place.program(&std::env::current_exe().unwrap(), &all)
}

/// What a host observed, after it exits without output.
fn observed(place: &Place, host: &mut Command) -> Value {
    let output = host.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0), "{output:?}");
    let observed: Value = serde_json::from_slice(&std::fs::read(place.path("observed")).unwrap()).unwrap();
    assert_eq!(observed["before"], observed["after"], "{observed}");
    observed
}

fn silent() {
    let place = Place::new();
    place.write("net/1.info", square_of(1));
    place.write("bad/torn.info", "{");
    place.write("cache/op_cache.ini", "max_op_cache_size=much\nremain_cache_size_ratio=50\n");
    let commands: [(&[&str], u8); 14] = [
        (&["build", "net", "bad"], 1),
        (&["build", "net", "--format", "text"], 0),
        (&["verify"], 0),
        (&["verify", "rank_0"], 0),
        (&["inspect", "net/1.info", "absent.json"], 2),
        (&["stats"], 0),
        (&["explain", "net"], 0),
        (&["repair", "rank_0"], 0),
        (&["import", "rank_0"], 2),
        (&["run", "net/1.info", "--input-values", "3"], 0),
        (&["completions", "zsh"], 0),
        (&["clear"], 0),
        (&["--help"], 0),
        (&["no-such-command"], 2),
    ];
    for (args, exit_code) in commands {
        let observed = observed(&place, &mut hosted(&place, args));
        assert_eq!(observed["exit_code"], exit_code, "{args:?}: {observed}");
    }
}

fn help_has_one_width() {
    let place = Place::new();
    let [without, narrow, wide] = [None, Some("40"), Some("200")].map(|columns| {
        let mut host = hosted(&place, &["build", "--help"]);
        match columns {
            Some(columns) => host.env("COLUMNS", columns),
            None => host.env_remove("COLUMNS"),
        };
        observed(&place, &mut host)["json"].as_str().unwrap().to_owned()
    });
    assert!(without.contains("--fail-fast"), "{without}");
    assert_eq!([&narrow, &wide], [&without, &without]);
}

/// A compiler need not notice each write that fails: beyond the limit on the size of files, the signal ends it, also if the
/// host ignores the signal, as Python does.
fn default_signals() {
    let place = Place::new();
    place.write("net/1.info", square_of(1));
    let log = place.path("signals.log");
    let body = format!("grep SigIgn /proc/self/status >> '{}'\nexec cc \"$@\"", log.display());
    let cc = place.script("cc-logged", &body);
    let plain = hosted(&place, &["build", "net"]);
    let mut host = place.program("sh".as_ref(), &["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    host.arg(plain.get_program()).args(plain.get_args()).env("CC", cc);
    let observed = observed(&place, &mut host);
    assert_eq!(observed["exit_code"], 0, "{observed}");
    let ignores = |line: &str| {
        let mask = line.split_whitespace().next_back().unwrap();
        u64::from_str_radix(mask, 16).unwrap() & (1 << (rustix::process::Signal::XFSZ.as_raw() - 1)) != 0
    };
    let of_host = observed["before"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    assert!(of_host.filter(|line| line.starts_with("SigIgn")).all(ignores), "{observed}");
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(!lines.is_empty() && !lines.lines().any(ignores), "{lines}");
}

fn cancelled() {
    let place = Place::new();
    place.write("net/1.info", square_of(1));
    place.write("net/2.info", square_of(2));
    let marker = format!("{}.8641", 30_000 + std::process::id() % 10_000);
    // The first kernel compiles, the second never ends.
    let cc = place.compiler("cc-slow", &format!("grep -q '\\[2\\]' kernel.c && exec sleep {marker}"));
    let running = || command_lines().iter().any(|line| line.contains(&marker));
    let mut host = hosted(&place, &["build", "net", "--jobs", "2"]);
    host.env("CC", cc).stdout(Stdio::piped()).stderr(Stdio::piped());
    let observed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let wait = || std::thread::sleep(Duration::from_millis(10));
            (0..3000).inspect(|_| wait()).any(|_| running() && place.entries().len() == 1);
            place.write("cancel", "");
        });
        observed(&place, &mut host)
    });
    assert_eq!(
        (&observed["exit_code"], &observed["error"]),
        (&130.into(), &"Interrupted".into()),
        "{observed}"
    );
    let document: Value = serde_json::from_str(observed["json"].as_str().unwrap()).unwrap();
    assert_eq!((&document["interrupted"], &document["compiled"]), (&true.into(), &1.into()), "{document}");
    // The command waits for the end of its compilers.
    assert!(!running(), "the compiler is still running");
    let left = files(&place.path("tmp"));
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("/work-")), "{left:?}");
    assert_eq!(place.entries().len(), 1);
}
