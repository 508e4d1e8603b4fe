//! Results that are not kept: the command's own result is its caller's in each case.

use std::fs;

use opkeep_launcher::{How, Reason, ToolFacts};

use crate::common::{Bench, Setup, reason};

#[test]
fn a_failure_is_as_it_is_and_is_not_kept() {
    let bench = Bench::new();
    let script = "echo out; echo err >&2; echo part > out/k; exit 7";
    for _ in 0..2 {
        let failed = bench.run(script);
        assert_eq!((failed.how, failed.code), (How::NotKept(Reason::Failed), Some(7)));
        assert_eq!(
            (failed.texts.out.as_slice(), failed.texts.err.as_slice()),
            (&b"out\n"[..], &b"err\n"[..])
        );
        assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "part\n");
    }
    assert_eq!(bench.run("kill -9 $$").code, Some(128 + 9));
}

#[test]
fn outputs_that_the_tool_does_not_call_valid_are_not_kept() {
    let bench = Bench::new();
    for _ in 0..2 {
        let refused = reason(bench.how("echo not valid > out/k"));
        assert!(matches!(&refused, Reason::Refused(why) if why.ends_with("/tree/out/k`")), "{refused:?}");
    }
    assert_eq!(bench.how("echo valid > out/k"), How::Compiled);
}

/// Each script, and the reason why its result is not kept, however often it runs.
#[test]
fn what_no_key_covers_is_not_kept() {
    type Is = fn(&Reason) -> bool;
    let cases: [(&str, Is); 17] = [
        ("echo x >> out/old", |it| matches!(it, Reason::PartlyWritten(_))),
        ("echo x 1<> out/old", |it| matches!(it, Reason::ReadsOutput(_) | Reason::PartlyWritten(_))),
        ("cat out/old > out/new; cat out/new > out/old", |it| matches!(it, Reason::ReadsOutput(_))),
        ("truncate -s 2 out/old", |it| matches!(it, Reason::PartlyWritten(_))),
        ("echo x > out/k; echo x > elsewhere", |it| matches!(it, Reason::WroteElsewhere(_))),
        ("echo x > out/k; mkdir -p elsewhere", |it| matches!(it, Reason::WroteElsewhere(_))),
        ("echo x > out/k; mkfifo out/pipe", |it| matches!(it, Reason::OutputKind(_))),
        ("echo x > out/k; rm precious", |it| matches!(it, Reason::Removed(_))),
        ("echo x > out/k; mv precious out/precious", |it| {
            matches!(it, Reason::PartlyWritten(_) | Reason::Changed(_))
        }),
        ("(sleep 0.4; echo late >> out/k) > /dev/null 2>&1 & echo x > out/k", |it| {
            *it == Reason::StillRunning
        }),
        (
            "setsid sh -c 'echo > out/ready; sleep 1' > /dev/null 2>&1 & until [ -e out/ready ]; do sleep 0.01; done",
            |it| *it == Reason::StillRunning,
        ),
        ("pwd > out/k; echo \"$TMPDIR\" >> out/k", |it| matches!(it, Reason::NamesWorkDirectory(_))),
        ("cat /proc/1/environ > out/k 2> /dev/null; true", |it| matches!(it, Reason::NotAFile(_))),
        ("cc -march=native -x c -c -o out/k.o /dev/null", |it| matches!(it, Reason::ThisMachine(_))),
        ("if unshare -m true; then echo yes; else echo no; fi > out/k", |it| {
            matches!(it, Reason::RefusedCall(_))
        }),
        ("ipcmk -M 8 > out/k 2> /dev/null || echo none > out/k", |it| matches!(it, Reason::RefusedCall(_))),
        ("mkdir d; echo x > d/k; mv d out/d", |it| {
            matches!(it, Reason::WroteElsewhere(_) | Reason::OutputKind(_))
        }),
    ];
    for (script, is_expected) in cases {
        for attempt in 0..2 {
            let bench = Bench::new();
            bench.write("tree/out/old", "of before");
            bench.write("tree/precious", "of before");
            std::thread::sleep(std::time::Duration::from_millis(40));
            let reason = reason(bench.how(script));
            assert!(is_expected(&reason), "{script}, {attempt}: {reason:?}");
            assert!(!reason.code().is_empty() && !reason.to_string().is_empty());
        }
    }
}

/// An argument may be in a file, and that may be in another.
#[test]
fn the_instructions_of_this_machine_are_in_no_key() {
    let bench = Bench::new();
    bench.write("tree/k.c", "int k;\n");
    bench.write("tree/options", "-O2 -march=native");
    bench.write("tree/above", "'@options'");
    bench.write("tree/clang.cfg", "# \n-march=native\n");
    for script in [
        "cc @options -c k.c -o out/k.o",
        "cc @above -c k.c -o out/k.o",
        "cp options \"$TMPDIR/x\"; cc @\"$TMPDIR/x\" -c k.c -o out/k.o",
        "cd out; cc @../options -c ../k.c -o k.o",
        "cat clang.cfg > out/k",
    ] {
        let reason = reason(bench.how(script));
        assert_eq!(reason, Reason::ThisMachine("-march=native".to_owned()), "{script}");
    }
    bench.write("tree/options", "-O2");
    assert_eq!(bench.how("cc @options -c k.c -o out/k.o"), How::Compiled);
    // What a program learns of the processor from a file counts.
    let bench = Bench::new();
    let script = "grep -E '^(model name|flags|Features|CPU part)' /proc/cpuinfo > out/k || true";
    assert_eq!((bench.how(script), bench.how(script)), (How::Compiled, How::Hit));
}

#[test]
fn logs_and_compiled_python_are_allowed() {
    let bench = Bench::new();
    let facts = ToolFacts { ignores_byte_code: true, ..ToolFacts::default() };
    let how = |script: &str| bench.run_with(&Setup { facts, ..Setup::default() }, script).how;
    // Without an environment, Python keeps compiled modules beside their sources.
    bench.write("tree/lib/helper.py", "V = 1\n");
    let script = "echo log >> tool.log; python3 -I -c 'import sys; sys.path.insert(0, \"lib\"); import helper'; echo x > out/k";
    assert_eq!(how(script), How::Compiled);
    assert!(bench.path("tree/lib/__pycache__").exists());
    fs::remove_dir_all(bench.path("tree/lib/__pycache__")).unwrap();
    fs::remove_file(bench.path("tree/out/k")).unwrap();
    assert_eq!(how(script), How::Hit);
}

/// The file changes between its reading and the end of the run: the digest would be that of the other content.
#[test]
fn a_file_that_changes_during_the_run_is_noticed() {
    for script in [
        "cat in > out/k; echo ready; until [ -e \"$TMPDIR/go\" ]; do sleep 0.01; done",
        "[ -s in ]; echo x > out/k; echo ready; until [ -e \"$TMPDIR/go\" ]; do sleep 0.01; done",
        "ls list > out/k; echo ready; until [ -e \"$TMPDIR/go\" ]; do sleep 0.01; done",
        "[ -e absent ]; echo x > out/k; echo ready; until [ -e \"$TMPDIR/go\" ]; do sleep 0.01; done",
    ] {
        let bench = Bench::new();
        bench.write("tree/in", "one");
        bench.write("tree/list/a", "");
        bench.write("tree/to", "");
        // The directory of temporary files is private: the command itself writes its path.
        let script = format!("echo \"$TMPDIR\"; {script}");
        let seen = std::cell::RefCell::new(Vec::new());
        let changed = bench.run_watched(&Setup::default(), &script, &|bytes| {
            let mut seen = seen.borrow_mut();
            seen.extend_from_slice(bytes);
            let text = String::from_utf8(seen.clone()).unwrap();
            if let Some(dir) = text.strip_suffix("\nready\n") {
                bench.write("tree/in", "two");
                bench.write("tree/list/b", "");
                bench.write("tree/absent", "");
                fs::write(std::path::Path::new(dir).join("go"), "").unwrap();
            }
        });
        assert!(matches!(reason(changed.how), Reason::Changed(_)), "{script}");
    }
}

#[test]
fn an_inherited_file_as_an_argument_is_not_covered() {
    let bench = Bench::new();
    let ran = bench.run("cat /dev/fd/0 > out/k");
    assert!(matches!(ran.how, How::Uncached(Reason::DescriptorArgument(_))), "{:?}", ran.how);
    assert_eq!(ran.code, Some(0));
}

/// An observer refuses some calls, and those of 32-bit programs: the command runs again without one. What both runs
/// write comes once; what only the first one wrote is out.
#[test]
fn a_command_that_fails_because_it_is_observed_runs_again() {
    let bench = Bench::new();
    bench.write(
        "tree/foreign.c",
        "#include <stdio.h>\nint main(void) {\n\
         long result = 1;\n\
         #if defined(__x86_64__)\n\
         __asm__ volatile(\"int $0x80\" : \"=a\"(result) : \"a\"(20) : \"memory\", \"r8\", \"r9\", \"r10\", \"r11\");\n\
         #endif\n\
         puts(result > 0 ? \"runs\" : \"refused\");\n\
         return 0;\n}\n",
    );
    let files = [bench.path("tree/foreign"), bench.path("tree/foreign.c")];
    assert!(std::process::Command::new("cc").arg("-o").args(files).status().unwrap().success());
    let cases = [
        ("echo first; ./foreign && echo x > out/k", cfg!(target_arch = "x86_64")),
        ("echo first; unshare -m true && echo x > out/k", true),
        ("echo first; echo x > out/k 2> /dev/null; unshare -m true", true),
    ];
    for (script, runs_again) in cases {
        let plain = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(bench.path("tree"))
            .output();
        let plain = plain.unwrap();
        let ran = bench.run(script);
        let is_again = matches!(ran.how, How::NotKept(Reason::Foreign(_) | Reason::RefusedCall(_)));
        assert_eq!(is_again, runs_again, "{script}: {:?}", ran.how);
        if runs_again {
            assert_eq!(ran.code, plain.status.code(), "{script}");
            let texts = String::from_utf8(ran.texts.out).unwrap();
            assert_eq!(texts.matches("first").count(), 1, "{script}: {texts}");
        }
    }
}

/// Its result may be one of the observation, but a second run would find what the first one left.
#[test]
fn a_command_that_has_changed_something_runs_once() {
    const INTERRUPTED: &str = "python3 -c '
import os, signal
open(\"ran\", \"a\").write(\"run\\n\")
signal.signal(signal.SIGALRM, lambda *a: None)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
for at in range(5000):
    try: os.stat(\"absent\")
    except OSError: pass
signal.setitimer(signal.ITIMER_REAL, 0)'";
    const MOVED: &str = "mv b1 b2; mv cur b1; echo run >> ran; echo new > cur; unshare -m true";
    for script in [
        "echo run >> ran; unshare -m true",
        "echo run >> out/ran; ln out/ran ran; unshare -m true",
        "[ ! -e made ] && mkdir made && echo run >> ran; rm -f made; unshare -m true",
        MOVED,
        INTERRUPTED,
    ] {
        for facts in [ToolFacts::default(), Setup::default().facts] {
            let bench = Bench::new();
            bench.write("tree/b1", "one");
            bench.write("tree/cur", "two");
            let ran = bench.run_with(&Setup { facts, ..Setup::default() }, script);
            assert!(matches!(ran.how, How::NotKept(_)), "{script}: {:?}", ran.how);
            let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
            assert_eq!(read("tree/ran"), "run\n", "{script}: {:?}", ran.how);
            if script == MOVED {
                assert_eq!((read("tree/b2"), read("tree/b1")), ("one".to_owned(), "two".to_owned()));
            }
        }
    }
    // Without knowledge of the tool, an output may be made of the old one.
    let bench = Bench::new();
    let setup = Setup { facts: ToolFacts::default(), ..Setup::default() };
    let script = "[ ! -e out/k ] || touch twice; echo x > out/k; unshare -m true";
    assert!(matches!(bench.run_with(&setup, script).how, How::NotKept(Reason::RefusedCall(_))));
    assert!(!bench.path("tree/twice").exists());
}
