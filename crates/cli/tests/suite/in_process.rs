//! Commands in the process of a host: their results are those of the program. What they leave alone in the process is in
//! `cases`.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use opkeep_cli::{CancelToken, CommandErrorKind, InProcess, Level, in_process};
use serde_json::Value;

use crate::common::{Place, SQUARE, square_of};

const LENET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");

/// The settings of the person who runs the tests do not count.
const NO_SETTINGS: [&str; 2] = ["--config", "/dev/null"];

/// Runs a command. Returns its result and its messages.
fn call(args: &[&str], cancel: &CancelToken) -> (InProcess, Vec<(Level, String)>) {
    let messages = Mutex::new(Vec::new());
    let note = |level: Level, text: &str| messages.lock().unwrap().push((level, text.to_owned()));
    let result = in_process(NO_SETTINGS.iter().chain(args).map(Into::into), cancel, &note);
    (result, messages.into_inner().unwrap())
}

fn run(args: &[&str]) -> (InProcess, Vec<(Level, String)>) {
    call(args, &CancelToken::new())
}

fn json(result: &InProcess) -> Value {
    serde_json::from_str(&result.json).unwrap_or_else(|error| panic!("{error}: {result:?}"))
}

/// A store, and a directory for kernels, both named by arguments.
struct Dirs {
    place: Place,
    store: String,
    kernels: String,
}

impl Dirs {
    fn new() -> Self {
        let place = Place::new();
        let [store, kernels] = ["cache", "kernels"].map(|name| place.path(name).to_str().unwrap().to_owned());
        Self { place, store, kernels }
    }

    fn build<'a>(&'a self, input: &'a str) -> [&'a str; 6] {
        ["build", input, "--cache-dir", &self.store, "--kernel-meta", &self.kernels]
    }
}

fn texts(messages: &[(Level, String)], level: Level) -> Vec<&str> {
    messages.iter().filter(|(its, _)| *its == level).map(|(_, text)| text.as_str()).collect()
}

#[test]
fn a_build_returns_its_document() {
    let dirs = Dirs::new();
    let (built, messages) = run(&dirs.build(LENET));
    assert_eq!((built.exit_code, &built.error), (0, &None), "{built:?}");
    let report = json(&built);
    assert_eq!(
        (&report["schema"], &report["compiled"], &report["failed"]),
        (&1.into(), &report["kernels"], &0.into())
    );
    assert_eq!(dirs.place.entries().len() as u64, report["kernels"].as_u64().unwrap());
    assert!(!crate::common::files(Path::new(&dirs.kernels)).is_empty());
    let progress = texts(&messages, Level::Progress);
    assert!(progress.iter().any(|text| text.starts_with("compiling ")), "{messages:?}");
    assert_eq!(progress.len(), messages.len(), "{messages:?}");

    let (again, messages) = run(&dirs.build(LENET));
    assert_eq!((again.exit_code, &json(&again)["reused"]), (0, &report["kernels"]), "{again:?}");
    assert_eq!(messages, []);
}

/// Commands whose documents do not contain times of the run.
#[test]
fn documents_and_exit_codes_are_those_of_the_program() {
    let dirs = Dirs::new();
    let square = dirs.place.write("square.info", square_of(3));
    let other = dirs.place.write("other.info", square_of(4));
    let [square, other] = [&square, &other].map(|path| path.to_str().unwrap());
    assert_eq!(run(&dirs.build(square)).0.exit_code, 0);
    let entry = dirs.place.entries()[0].clone();
    let mut bytes = std::fs::read(&entry).unwrap();
    let (at, entry) = (bytes.len() / 2, entry.to_str().unwrap().to_owned());
    let store = ["--cache-dir", dirs.store.as_str()];
    let commands: [(&[&str], u8); 11] = [
        (&["verify", &dirs.store], 0),
        (&["inspect", &entry, square], 0),
        (&["stats", store[0], store[1]], 0),
        (&["explain", square, other, store[0], store[1]], 0),
        (&["explain", square, "--against", other], 0),
        (&["gc", "--dry-run", store[0], store[1]], 0),
        (&["completions", "bash"], 0),
        (&["inspect", "absent.info"], 2),
        (&["explain", "absent.info", store[0], store[1]], 2),
        (&["stats", "--cache-dir", "/absent/cache"], 2),
        (&["run", "absent.onnx", store[0], store[1]], 2),
    ];
    let check = |args: &[&str], code: u8| {
        let (own, messages) = run(args);
        let mut line = args.to_vec();
        line.extend(["--format", "json"]);
        let program = dirs.place.run(&line).ended_with(i32::from(code));
        assert_eq!(
            (own.exit_code, own.json.as_str()),
            (code, program.stdout.trim_end()),
            "{args:?}: {own:?}"
        );
        // What the program prints on stderr is a message or the error.
        let error = own.error.iter().flat_map(|error| error.help.iter().chain([&error.text]));
        let shown: Vec<&str> =
            messages.iter().map(|(_, text)| text.as_str()).chain(error.map(String::as_str)).collect();
        for line in program.stderr.lines() {
            let text = line.split_once(": ").map_or(line, |(_, text)| text);
            assert!(
                shown.iter().any(|shown| shown.contains(text)),
                "{args:?}: `{line}` is missing in {own:?}, {messages:?}"
            );
        }
        let ended = json(&own)["error"].as_str().map(str::to_owned);
        assert_eq!(own.error.as_ref().map(|error| error.text.clone()), ended, "{args:?}");
        assert!(own.error.iter().all(|error| error.kind == CommandErrorKind::Failed), "{args:?}: {own:?}");
    };
    commands.iter().for_each(|(args, code)| check(args, *code));

    bytes[at] ^= 1;
    std::fs::write(&entry, bytes).unwrap();
    check(&["verify", &dirs.store], 1);
    check(&["inspect", &entry], 1);
}

#[test]
fn a_usage_error_is_typed_and_has_no_colours() {
    let (wrong, messages) = run(&["build", "--targte", "cpu", "a\u{1b}[31m.onnx"]);
    assert_eq!((wrong.exit_code, wrong.json.as_str()), (2, ""), "{wrong:?}");
    let error = wrong.error.unwrap();
    assert_eq!(error.kind, CommandErrorKind::Usage);
    assert_eq!(error.text, "unexpected argument '--targte' found");
    assert_eq!(error.help, ["a similar argument exists: '--target'"]);
    assert!(!error.text.contains("Usage") && !error.text.contains("--help"), "{error:?}");
    assert!(!error.text.contains(['\n', '\u{1b}']), "{error:?}");
    assert_eq!(messages, []);
    let (none, _) = run(&[]);
    assert_eq!((none.exit_code, none.error.unwrap().kind), (2, CommandErrorKind::Usage));
}

#[test]
fn requested_help_is_a_document() {
    for (args, beginning) in [(["--version"], "opkeep "), (["--help"], "Incremental operator build")] {
        let (help, messages) = run(&args);
        assert_eq!((help.exit_code, &help.error, messages), (0, &None, Vec::new()), "{help:?}");
        let text = json(&help)["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with(beginning) && !text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn messages_have_their_levels() {
    let dirs = Dirs::new();
    // A note: the descriptor names another chip.
    let (_, messages) = run(&dirs.build(SQUARE));
    assert_eq!(texts(&messages, Level::Note).len(), 1, "{messages:?}");
    assert!(texts(&messages, Level::Note)[0].starts_with("the descriptors name "), "{messages:?}");

    // A warning, escaped and without a prefix, which the document has as well.
    dirs.place.write("cache/op_cache.ini", "max_op_cache_size=\u{1b}[31m\nremain_cache_size_ratio=50\n");
    let (stats, messages) = run(&["stats", "--cache-dir", &dirs.store]);
    let warnings = texts(&messages, Level::Warning);
    assert_eq!((warnings.len(), messages.len()), (1, 1), "{messages:?}");
    assert!(warnings[0].contains("max_op_cache_size") && !warnings[0].contains('\u{1b}'), "{messages:?}");
    assert_eq!(json(&stats)["warnings"].as_array().unwrap().len(), 1, "{stats:?}");

    // An error of one input, with the help for it, and no error of the command.
    let (built, messages) = run(&[&dirs.build(SQUARE)[..], &["absent.info"]].concat());
    assert_eq!((built.exit_code, &built.error), (2, &None), "{built:?}");
    assert!(texts(&messages, Level::Error)[0].contains("absent.info"), "{messages:?}");
    assert_eq!(json(&built)["reused"], 1, "{built:?}");

    // The error that ended the command is no message.
    let (stats, messages) = run(&["stats", "--cache-dir", "/absent/cache"]);
    assert_eq!(
        (stats.exit_code, stats.error.unwrap().kind, messages),
        (2, CommandErrorKind::Failed, Vec::new())
    );
}

#[test]
fn a_cancelled_token_ends_a_command_before_it_compiles() {
    let dirs = Dirs::new();
    let cancel = CancelToken::new();
    cancel.cancel();
    for command in [&dirs.build(LENET)[..], &["explain", LENET, "--cache-dir", &dirs.store]] {
        let (cancelled, _) = call(command, &cancel);
        assert_eq!(cancelled.exit_code, 130, "{cancelled:?}");
        assert_eq!(json(&cancelled)["interrupted"], true, "{cancelled:?}");
        assert_eq!(cancelled.error.unwrap().kind, CommandErrorKind::Interrupted);
        assert!(dirs.place.entries().is_empty());
    }
}

/// They share the store, and a token cancels its own call only.
#[test]
fn two_calls_at_once() {
    let dirs = Dirs::new();
    let other = dirs.place.path("other").to_str().unwrap().to_owned();
    let build =
        |kernels: &str| run(&["build", LENET, "--cache-dir", &dirs.store, "--kernel-meta", kernels]).0;
    let cancel = CancelToken::new();
    cancel.cancel();
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| build(&dirs.kernels));
        let second = scope.spawn(|| build(&other));
        let cancelled = scope.spawn(|| call(&dirs.build(SQUARE), &cancel).0);
        assert_eq!(cancelled.join().unwrap().exit_code, 130);
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!((first.exit_code, second.exit_code), (0, 0), "{first:?}, {second:?}");
    let count =
        |outcome: &str| json(&first)[outcome].as_u64().unwrap() + json(&second)[outcome].as_u64().unwrap();
    assert_eq!(count("compiled"), dirs.place.entries().len() as u64, "each kernel is compiled once");
    assert_eq!(count("compiled") + count("shared") + count("reused"), count("kernels"));
}

/// A panic of the host goes on in the host, and the next call works.
#[test]
fn a_panic_is_not_lost() {
    let dirs = Dirs::new();
    for level in [Level::Note, Level::Progress] {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let fail = |its: Level, _: &str| assert_ne!(its, level, "of the host");
            in_process(dirs.build(SQUARE).iter().map(Into::into), &CancelToken::new(), &fail)
        }));
        let payload = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(payload.contains("of the host"), "{payload}");
        let _ = std::fs::remove_dir_all(&dirs.store);
    }
    assert_eq!(run(&dirs.build(SQUARE)).0.exit_code, 0);
}
