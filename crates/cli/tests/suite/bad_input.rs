//! Every error has a message with the cause, the place and help; nothing panics, and the store stays valid.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::time::{Duration, Instant};

use crate::common::{Place, SQUARE, square_of};

#[test]
fn invalid_descriptors() {
    let place = Place::new();
    let intact = std::fs::read(SQUARE).unwrap();
    for (name, bytes, says) in [
        ("empty.info", Vec::new(), "empty"),
        ("torn.info", intact[..intact.len() / 2].to_vec(), "line "),
        ("latin.info", b"{\"job_content\": \"\xff\"}".to_vec(), "not a descriptor"),
        ("deep.info", "[".repeat(1 << 20).into_bytes(), "recursion"),
        ("other.info", b"{\"a\": 1}".to_vec(), "job_content"),
        ("list.info", b"[1, 2]".to_vec(), "job_content"),
        ("half.info", b"{\"job_content\": {}}".to_vec(), "SocInfo"),
    ] {
        let file = place.write(name, bytes);
        let file = file.to_str().unwrap();
        place.run(&["build", file]).ended_with(2).says(name).says(says);
        place.run(&["run", file, "--input-values", "1"]).ended_with(2).says(name).says(says);
        place.run(&["inspect", file]).ended_with(1);
    }
    assert!(!place.path("cache").exists());
}

#[test]
fn huge_files_are_not_read() {
    let place = Place::new();
    let huge = std::fs::File::create(place.path("huge.info")).unwrap();
    huge.set_len(1 << 40).unwrap();
    place.run(&["build", "huge.info"]).ended_with(2).says("huge.info").says("expected at most 4194304");
}

/// Each command that takes a path says that there is nothing at it, whatever it expects there.
#[test]
fn a_path_that_does_not_exist_is_named() {
    const COMMANDS: [&str; 18] = [
        "build PATH",
        "run PATH",
        "explain PATH",
        "explain model.info --against PATH",
        "inspect PATH",
        "diff PATH model.info",
        "diff model.info PATH",
        "verify PATH",
        "repair PATH",
        "repair --undo PATH",
        "repair --fill PATH",
        "import PATH",
        "gc PATH",
        "bundle inspect PATH",
        "bundle import PATH",
        "key show PATH",
        "run model.info --input PATH",
        "ls --config PATH",
    ];
    let place = Place::untouched();
    place.write("model.info", square_of(2));
    for command in COMMANDS {
        for path in
            ["nowhere", "nowhere/", "nowhere/a", "nowhere.info", "nowhere.onnx", "nowhere.json", "nowhere.o"]
        {
            let line: Vec<&str> =
                command.split(' ').map(|word| if word == "PATH" { path } else { word }).collect();
            let ran = place.run(&line).ended_with(2);
            let named = ran.stderr.contains(&format!("cannot read `{path}`: No such file"))
                || line.contains(&"--config") && ran.stderr.contains("nowhere");
            assert!(named && ran.stderr.contains("No such file or directory"), "{line:?}: {ran:?}");
        }
    }
}

#[test]
fn files_that_cannot_be_read() {
    let place = Place::untouched();
    std::fs::create_dir(place.path("folder.info")).unwrap();
    place.run(&["build", "nothing.info"]).ended_with(2).says("nothing.info").says("No such file");
    place.run(&["build", "folder.info"]).ended_with(2).says("no .onnx or .info file");
    place.run(&["run", "folder.info", "--input-values", "1"]).ended_with(2).says("is a directory");
    place.run(&["inspect", "/dev/zero"]).ended_with(2);
    place.run(&["build"]).ended_with(2);
    // A query to the compiler was in progress, and no process waited for the answer.
    assert_eq!(crate::common::files(&place.path("tmp")), Vec::<std::path::PathBuf>::new());
}

/// Pseudo files are no models: a search through them takes long and finds nothing.
#[test]
fn pseudo_file_systems_are_not_searched() {
    let place = Place::new();
    for path in ["/proc", "/proc/self", "/sys", "/proc/1/task"] {
        for command in ["build", "explain", "import"] {
            let ran = place.run(&[command, path]).ended_with(2).says("pseudo file system");
            assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        }
    }
    // A link may lead out of it.
    place.write("square.info", square_of(3));
    place.run(&["build", "/proc/self/cwd"]).ended_with(0);
}

/// Readable files are built; the exit code is that of other refusals, unless a file could not be read.
#[test]
fn one_bad_file_among_good_ones() {
    let place = Place::new();
    place.write("net/good.info", square_of(3));
    place.write("net/torn.info", &square_of(4)[..200]);
    let ran = place.run(&["build", "net", "--format", "json"]).ended_with(1).says("torn.info");
    assert_eq!(ran.count("compiled"), 1);
    assert!(ran.json()["unreadable"][0]["file"].as_str().unwrap().ends_with("torn.info"));
    for (name, bytes) in [
        ("empty.info", &b""[..]),
        ("other.info", b"{\"a\": 1}"),
        ("text.info", b"name: a package\n"),
        ("binary.info", b"\x00\xff"),
        ("model.onnx", b"no protobuf"),
    ] {
        place.write(&format!("net/{name}"), bytes);
        for command in ["build", "explain"] {
            place.run(&[command, "net"]).ended_with(1).says(name);
        }
        // The same for every way to name it.
        place.run(&["build", "net/good.info", &format!("net/{name}")]).ended_with(1).says(name);
        place.run(&["build", &format!("net/{name}")]).ended_with(2).says(name);
    }
    place.run(&["build", "net", "missing.info"]).ended_with(2).says("missing.info");
    std::os::unix::fs::symlink("nowhere", place.path("net/gone.info")).unwrap();
    place.run(&["build", "net"]).ended_with(2).says("gone.info");
}

#[test]
fn operators_that_the_backend_lacks() {
    let place = Place::new();
    let text = std::fs::read_to_string(SQUARE).unwrap();
    place.write("net/conv.info", text.replace("\"Square\"", "\"Conv9D\""));
    place.write("net/half.info", text.replace("float32", "float16"));
    place.write("net/good.info", text);
    let ran = place.run(&["build", "net", "--format", "json"]).ended_with(1);
    assert_eq!((ran.count("compiled"), ran.count("failed")), (1, 2));
    let reasons = ran.json()["results"].to_string();
    assert!(reasons.contains("Conv9D") && reasons.contains("float16"), "{reasons}");
    let text = place.run(&["build", "net"]).ended_with(1).stdout;
    assert!(text.contains("failed") && text.contains("no operator `Conv9D`"), "{text}");
}

#[test]
fn wrong_values_for_a_run() {
    let place = Place::new();
    let run = |values: &[&str]| {
        let mut args = vec!["run", SQUARE];
        values.iter().for_each(|value| args.extend(["--input-values", value]));
        place.run(&args)
    };
    run(&[]).ended_with(2).says("float32 [3]");
    run(&["1,2"]).ended_with(2).says("the number of values is 2, expected 3");
    run(&["1,2,x"]).ended_with(2).says("`x` is not a number");
    run(&["1,2,3", "4"]).ended_with(2).says("once for each");
}

#[test]
fn a_cache_directory_that_is_a_file_costs_one_warning() {
    let place = Place::new();
    place.write("file", "not a folder");
    let build = |mode: &str| {
        place.run(&[
            "build",
            SQUARE,
            "--op_compiler_cache_dir=file",
            "--cache-mode",
            mode,
            "--format",
            "json",
        ])
    };
    for mode in ["enable", "force"] {
        let ran = build(mode).ended_with(0).says("is not a directory");
        assert_eq!(ran.count("compiled"), 1);
        assert_eq!(ran.stderr.matches("warning").count(), 1, "{ran:?}");
    }
    for mode in ["read-only", "require"] {
        build(mode).ended_with(2).says("is not a directory").says("help: --op_compiler_cache_dir");
    }
    assert!(place.path("rank_0/kernel_meta").is_dir());
}

#[test]
fn a_rank_that_is_a_path_is_refused() {
    let place = Place::new();
    for rank in ["../x", "a/b", ".", "a b"] {
        place.run_with(&["build", SQUARE], &[("RANK_ID", rank)]).ended_with(2).says("RANK_ID");
    }
    assert!(!place.path("cache").exists());
}

#[test]
fn a_kernel_meta_that_cannot_be_written_is_a_problem() {
    let place = Place::new();
    place.write("rank_0", "a file stands in the way");
    let ran = place.run(&["build", SQUARE, "--format", "json"]).ended_with(1).says("rank_0");
    assert_eq!(ran.count("compiled"), 1);
    assert_eq!(place.entries().len(), 1);
}

#[test]
fn a_missing_compiler_is_reported_with_the_package_to_install() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    let empty = place.path("empty");
    let path = ("PATH", empty.to_str().unwrap());
    let ran = place.run_with(&["build", SQUARE], &[path]).ended_with(2);
    ran.says("no cc, gcc or clang").says("apt install gcc");
    place
        .run_with(&["run", SQUARE, "--input-values", "1,2,3"], &[path])
        .ended_with(2)
        .says("apt install gcc");
    place.run_with(&["build", SQUARE], &[("CC", "no-such-cc")]).ended_with(2).says("no-such-cc");
    let ran = place.run_with(&["targets"], &[path]).ended_with(1);
    assert!(ran.stdout.contains("apt install gcc"), "{ran:?}");
}

/// A compiler that answers queries as the system's does, and compiles by `body`.
fn compiler(place: &Place, body: &str) -> String {
    place.compiler("cc-odd", body).to_str().unwrap().to_owned()
}

/// Its output is part of the message.
#[test]
fn a_compiler_that_answers_nothing() {
    let place = Place::new();
    let cc = place.script("cc-odd", "echo 'the moon' >&2; echo '  is full' >&2; exit 3");
    let ran = place.run_with(&["build", SQUARE], &[("CC", cc.to_str().unwrap())]).ended_with(2);
    let ran = ran.says(": the compiler `").says("cc-odd` fails: is full (exit status: 3)\n");
    let ran = ran
        .says("help: name another gcc or clang in CC")
        .says("help: `compiler.cc` in opkeep.toml")
        .says("help: -v shows all");
    assert!(!ran.stderr.contains("the moon"), "{ran:?}");
    let verbose = place.run_with(&["build", SQUARE, "-v"], &[("CC", cc.to_str().unwrap())]).ended_with(2);
    verbose.says("cc-odd -v` wrote:\n    | the moon\n    |   is full");
}

/// The reason comes first, however much the compiler wrote; all of it is shown on request.
#[test]
fn a_compiler_with_an_argument_that_it_does_not_have() {
    let place = Place::new();
    let env = [("CC", "cc --no-such-flag")];
    for args in [&["build", SQUARE][..], &["doctor", "--target", "cpu"]] {
        let ran = place.run_with(args, &env);
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        let line = shown.lines().find(|line| line.contains(" fails: ")).unwrap();
        assert!(line.contains("the compiler `") && line.contains("cc --no-such-flag` fails: "), "{line}");
        assert!(line.len() < 400 && line.contains("error: "), "{line}");
        assert!(!shown.contains("help: install a C compiler"), "{shown}");
        let verbose = place.run_with(&[args, &["-v"]].concat(), &env);
        let shown = format!("{}{}", verbose.stdout, verbose.stderr);
        let command = shown.lines().find(|line| line.ends_with("` wrote:")).unwrap();
        assert!(command.contains("/cc --no-such-flag -"), "{command}");
        // What the compiler suggests is no line of opkeep.
        assert!(!shown.contains("help: did you mean '"), "{shown}");
        assert!(
            shown.lines().any(|line| line.starts_with("    | ") && line.contains("--no-such-flag")),
            "{shown}"
        );
    }
}

#[test]
fn a_compiler_that_fails() {
    let place = Place::new();
    let cc = compiler(&place, "echo 'kernel.c:7: error: the moon is full' >&2; exit 3");
    let ran = place.run_with(&["build", SQUARE], &[("CC", &cc)]).ended_with(1);
    for text in ["exit status: 3", "the moon is full", "cc-odd", "compile.log"] {
        assert!(ran.stdout.contains(text), "{text}: {ran:?}");
    }
    let log = ran.stdout.split('`').find(|part| part.ends_with("compile.log")).unwrap();
    assert!(std::fs::read_to_string(log).unwrap().contains("the moon is full"));
    assert!(place.entries().is_empty());
    // A failure is not stored: with a working compiler the same build succeeds.
    place.run(&["build", SQUARE]).ended_with(0);
}

#[test]
fn a_compiler_that_hangs_is_ended_with_its_children() {
    let place = Place::new();
    let marker = format!("{}.7531", 10_000 + std::process::id() % 10_000);
    let cc = compiler(&place, &format!("sleep {marker} & sleep {marker}"));
    let began = Instant::now();
    let ran = place.run_with(&["build", SQUARE, "--deadline", "3"], &[("CC", &cc)]).ended_with(1);
    assert!(ran.stdout.contains("deadline"), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    std::thread::sleep(Duration::from_millis(100));
    let alive = crate::common::command_lines().into_iter().filter(|line| line.contains(&marker)).count();
    assert_eq!(alive, 0);
    assert!(place.entries().is_empty());
}

#[test]
fn a_compiler_that_floods_its_output() {
    let place = Place::new();
    let cc = compiler(&place, "yes 'the same line again and again'");
    let ran = place.run_with(&["build", SQUARE, "--deadline", "3"], &[("CC", &cc)]).ended_with(1);
    assert!(ran.stdout.contains("deadline") && ran.stdout.len() < 20_000, "{}", ran.stdout.len());
}

#[test]
fn a_compiler_that_writes_rubbish_or_nothing() {
    let place = Place::new();
    for (body, says) in [
        ("echo rubbish > kernel.o; exit 0", "not valid"),
        ("exit 0", "cannot be read"),
        ("cat /bin/sh > kernel.o; exit 0", "not valid"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let cc = compiler(&place, body);
        let ran = place.run_with(&["build", SQUARE], &[("CC", &cc)]).ended_with(1);
        assert!(ran.stdout.contains(says), "{says}: {ran:?}");
        assert!(place.entries().is_empty());
    }
}
