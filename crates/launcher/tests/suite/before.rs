//! What was at a path before a run wrote there, made a directory, or removed it.

use std::fs;
use std::os::unix::fs::symlink;

use opkeep_launcher::{How, Reason, ToolFacts};

use crate::common::{Bench, Setup, after, reason, set_mode};

const NOTHING: ToolFacts = ToolFacts { is_movable: false, replaces_outputs: false, ignores_byte_code: false };

fn strict() -> Setup {
    Setup { facts: NOTHING, ..Setup::default() }
}

/// Runs Python that writes whether a call failed.
fn python(call: &str) -> String {
    format!(
        "python3 -c '\nimport os\ntry:\n {call}; value = 1\nexcept OSError as error: value = error.errno\nopen(\"out/k\", \"w\").write(str(value))'"
    )
}

type Change = fn(&Bench);

/// Each script, and a change after which it does something else.
#[test]
fn the_state_of_a_path_decides_what_a_call_does() {
    let lock = "if mkdir l 2> /dev/null; then rmdir l; echo first; else echo second; fi > out/k";
    let shadow = "if [ -e ov ]; then cat ov > out/k; else echo none > ov; cat ov > out/k; rm ov; fi";
    let cases: [(String, Change); 9] = [
        (lock.into(), |bench| fs::create_dir(bench.path("tree/l")).unwrap()),
        (lock.into(), |bench| bench.write("tree/l", "x")),
        (shadow.into(), |bench| bench.write("tree/ov", "of the user")),
        (python("os.remove(\"l\")"), |bench| bench.write("tree/l", "x")),
        (python("os.rmdir(\"l\")"), |bench| fs::create_dir(bench.path("tree/l")).unwrap()),
        (
            python(
                "open(os.environ[\"TMPDIR\"] + \"/t\", \"w\"); os.link(os.environ[\"TMPDIR\"] + \"/t\", \"l\"); os.remove(\"l\")",
            ),
            |bench| {
                bench.write("tree/l", "x");
            },
        ),
        (python("os.symlink(\"t\", \"l\"); os.remove(\"l\")"), |bench| bench.write("tree/l", "x")),
        (python("os.mkfifo(\"l\"); os.remove(\"l\")"), |bench| bench.write("tree/l", "x")),
        (python("open(\"l\", \"x\"); os.remove(\"l\")"), |bench| {
            symlink("absent", bench.path("tree/l")).unwrap()
        }),
    ];
    for (script, change) in cases {
        let (first, second) = after(&strict(), &script, &|_| {}, &change);
        assert!(first == How::Compiled && second != How::Hit, "{script}: {first:?}, {second:?}");
        // Without a change.
        let clean = |bench: &Bench| bench.remove("tree/out/k");
        assert_eq!(after(&strict(), &script, &|_| {}, &clean), (How::Compiled, How::Hit), "{script}");
    }
}

/// The second run finds what the first one wrote.
#[test]
fn an_old_output_that_shows_is_another_state() {
    let scripts = [
        "if [ -d out/sub ]; then echo old > out/sub/k; else mkdir out/sub; echo new > out/sub/k; fi",
        "mkdir -pv out/sub; echo new > out/sub/k",
        "if [ -e out/k ]; then echo again > out/k; else echo first > out/k; fi",
        "mkdir out/d && echo x > out/d/k",
        "set -C; echo x > out/k",
        "echo x >> out/k",
        "echo x 1<> out/k",
        "echo new > $TMPDIR/k; ln $TMPDIR/k out/k",
    ];
    for script in scripts {
        let (first, second) = after(&strict(), script, &|_| {}, &|_| {});
        assert!(first == How::Compiled && second != How::Hit, "{script}: {first:?}, {second:?}");
        let clean = |bench: &Bench| {
            fs::remove_dir_all(bench.path("tree/out")).unwrap();
            fs::create_dir(bench.path("tree/out")).unwrap();
        };
        assert_eq!(after(&strict(), script, &|_| {}, &clean), (How::Compiled, How::Hit), "{script}");
    }
}

#[test]
fn stale_files_in_a_directory_that_is_made_anew_are_removed() {
    let script = "rm -rf out/sub; mkdir out/sub; echo new > out/sub/k";
    let (first, second) =
        after(&strict(), script, &|_| {}, &|bench| bench.write("tree/out/sub/stale.o", "old"));
    assert!(first == How::Compiled && second != How::Hit, "{first:?}, {second:?}");
}

/// A file that is truncated keeps its mode; one that is replaced does not.
#[test]
fn the_mode_of_an_old_output_counts_where_it_stays() {
    let (truncated, replaced) = (
        "echo x > out/k",
        "python3 -c 'import os\np = os.environ[\"TMPDIR\"] + \"/k\"\nopen(p, \"w\"); os.replace(p, \"out/k\")'",
    );
    let old = |mode: u32| {
        move |bench: &Bench| {
            bench.write("tree/out/k", "old");
            set_mode(&bench.path("tree/out/k"), mode);
        }
    };
    let gone: Change = |bench| bench.remove("tree/out/k");
    for (script, is_hit) in [(truncated, false), (replaced, true)] {
        let how = if is_hit { How::Hit } else { How::Compiled };
        assert_eq!(after(&strict(), script, &|_| {}, &old(0o600)), (How::Compiled, how.clone()), "{script}");
        assert_eq!(after(&strict(), script, &old(0o600), &gone), (How::Compiled, how), "{script}");
        assert_eq!(after(&strict(), script, &old(0o644), &gone), (How::Compiled, How::Hit), "{script}");
        assert_eq!(after(&strict(), script, &|_| {}, &|_| {}), (How::Compiled, How::Hit), "{script}");
    }
    // What chmod makes of an old mode is not known.
    for script in ["echo x > out/k; chmod 755 out/k", "echo x > out/k; chmod g+w out/k"] {
        assert_eq!(
            after(&strict(), script, &|_| {}, &old(0o640)),
            (How::Compiled, How::Compiled),
            "{script}"
        );
        assert_eq!(after(&strict(), script, &|_| {}, &gone), (How::Compiled, How::Hit), "{script}");
    }
    // Each mode has its result.
    let bench = Bench::new();
    old(0o600)(&bench);
    assert_eq!(bench.raw(&strict(), truncated).how, How::Compiled);
    assert_eq!(bench.raw(&strict(), truncated).how, How::Hit);
}

/// Make decides by the dates of old outputs, which no key has.
#[test]
fn a_run_that_looks_at_an_old_output_is_not_kept() {
    let touch = |bench: &Bench, date: &str| {
        let touched =
            std::process::Command::new("touch").args(["-d", date]).arg(bench.path("tree/src")).status();
        assert!(touched.unwrap().success());
    };
    let lay = |bench: &Bench| {
        bench.write("tree/Makefile", "out/k: src\n\tcp src out/k\n");
        bench.write("tree/src", "v2");
        bench.write("tree/out/k", "v1");
        touch(bench, "2000-01-01");
    };
    let (first, second) = after(&strict(), "make -s", &lay, &|bench| touch(bench, "2020-01-01"));
    assert!(matches!(reason(first), Reason::ReadsOutput(path) if path.ends_with("out/k")));
    assert!(matches!(reason(second), Reason::ReadsOutput(_)));
    // Nothing is there to look at.
    let (first, second) = after(
        &strict(),
        "make -s",
        &|bench| {
            lay(bench);
            bench.remove("tree/out/k")
        },
        &|bench| bench.remove("tree/out/k"),
    );
    assert_eq!((first, second), (How::Compiled, How::Hit));
    // A tool that replaces what is there.
    let replaces = Setup { facts: ToolFacts { replaces_outputs: true, ..NOTHING }, ..strict() };
    let script = "[ -e out/k ]; rm -f out/k; echo x > out/k";
    assert_eq!(after(&replaces, script, &|_| {}, &|_| {}), (How::Compiled, How::Hit));
    assert_ne!(after(&strict(), script, &|_| {}, &|_| {}).1, How::Hit);
}

#[test]
fn compiled_python_is_an_output_where_it_is_expected() {
    let script = "python3 -c 'import py_compile; py_compile.compile(\"a.py\", cfile=\"out/k.pyc\", \
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'";
    let setup = Setup { facts: ToolFacts { replaces_outputs: true, ..NOTHING }, ..strict() };
    let hows = after(&setup, script, &|bench| bench.write("tree/a.py", "x = 1"), &|bench| {
        bench.remove("tree/out/k.pyc");
    });
    assert_eq!(hows, (How::Compiled, How::Hit));
    let hows = after(
        &setup,
        "rm out/old.pyc; echo x > out/k",
        &|bench| bench.write("tree/out/old.pyc", ""),
        &|_| {},
    );
    assert!(matches!(reason(hows.0), Reason::Removed(_)));
}

#[test]
fn an_output_with_rights_of_others_is_not_kept() {
    for mode in ["4755", "2755", "1755"] {
        let script = format!("echo x > out/k; chmod {mode} out/k");
        let (first, second) = after(&strict(), &script, &|_| {}, &|bench| bench.remove("tree/out/k"));
        assert!(matches!(reason(first), Reason::OutputMode(_)), "{script}");
        assert!(matches!(reason(second), Reason::OutputMode(_)), "{script}");
    }
    let script = "mkdir out/d; chmod 1777 out/d; echo x > out/d/k";
    assert!(matches!(reason(after(&strict(), script, &|_| {}, &|_| {}).0), Reason::OutputMode(_)));
}

/// What another process puts into a directory that the command makes decides its result.
#[test]
fn a_made_directory_that_another_process_fills_is_read() {
    let bench = Bench::new();
    let dir = bench.path("tree/out/d");
    let script = "mkdir out/d; until [ -e out/d/in ]; do sleep 0.02; done; cat out/d/in > out/d/k";
    for text in ["one", "two"] {
        let _ = fs::remove_dir_all(&dir);
        let other = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !dir.exists() {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                bench.write("tree/in.t", text);
                fs::rename(bench.path("tree/in.t"), dir.join("in")).unwrap();
            });
            bench.raw(&strict(), script).how
        });
        assert_ne!(other, How::Hit);
        assert_eq!(fs::read_to_string(dir.join("k")).unwrap(), text);
    }
}
