//! What is the programs' own, and what was there before them.
#![expect(clippy::disallowed_methods, reason = "tests lay files and run programs over them")]

use std::fs;
use std::time::Duration;

use opkeep_process::{Found, Learned, Observation, Observer, Sandbox};

use crate::sandbox::Bench;

/// What another process puts into a directory that the programs made, or in the place of their file, is read, and not their own.
#[test]
fn files_of_another_process_are_not_the_programs_own() {
    let cases = [
        ("mkdir {}/d; echo > begun; cat turn > /dev/null; cat {}/d/in", "d/in"),
        ("echo x > {}/a; echo > begun; cat turn > /dev/null; cat {}/a", "a"),
        ("mkdir d; mv d {}/d; echo > begun; cat turn > /dev/null; cat {}/d/in", "d/in"),
        ("mkdir {}/d; echo > begun; cat turn > /dev/null; ls {}/d", ""),
        ("mkdir {}/d; echo x > {}/d/own; echo > begun; cat turn > /dev/null; cat {}/d/own; ls {}/d", ""),
    ];
    for (script, read) in cases {
        let bench = Bench::new();
        for pipe in ["work/begun", "work/turn"] {
            rustix::fs::mkfifoat(rustix::fs::CWD, bench.path(pipe), 0o600.into()).unwrap();
        }
        let observer = Observer::start(&bench.path("work")).unwrap();
        std::thread::scope(|scope| {
            let run = scope.spawn(|| bench.run(script, Sandbox { observer: Some(&observer), domain: None }));
            fs::read(bench.path("work/begun")).unwrap();
            let name = if read.is_empty() { "d/in" } else { read };
            fs::write(bench.path("other"), "of another").unwrap();
            fs::rename(bench.path("other"), bench.path(name)).unwrap();
            fs::write(bench.path("work/turn"), "x").unwrap();
            assert!(run.join().unwrap().unwrap().status.success());
        });
        let seen = observer.finish();
        let found: Vec<_> = seen.read.keys().filter(|path| path.starts_with(bench.path(""))).collect();
        match read {
            "" => {
                assert!(found.is_empty() && seen.names.contains_key(&bench.path("d")), "{script}: {found:?}")
            }
            name => assert_eq!(found, [&bench.path(name)], "{script}"),
        }
    }
}

#[test]
fn the_state_before_a_change_is_known() {
    let old = |bench: &Bench| Found::at(&bench.path("old"));
    let nothing = |_: &Bench| Found::nothing();
    type State = fn(&Bench) -> Found;
    let cases: [(&str, &str, State, Learned); 15] = [
        ("umask 027; echo x > {}/a", "a", nothing, Learned::Mode(0o640)),
        ("umask 077; echo x > {}/old", "old", old, Learned::Mode(0o600)),
        ("set -C; echo x > {}/a", "a", nothing, Learned::State),
        (": >> {}/a", "a", nothing, Learned::State),
        (": >> {}/old", "old", old, Learned::State),
        (
            "python3 -c 'import os; open(\"t\", \"w\"); os.replace(\"t\", \"{}/old\")'",
            "old",
            old,
            Learned::IsReplaceable,
        ),
        (
            "python3 -c 'import os; open(\"t\", \"w\"); os.link(\"t\", \"{}/a\")'",
            "a",
            nothing,
            Learned::State,
        ),
        ("echo x > t; mv -n t {}/old; true", "old", old, Learned::State),
        ("mkdir {}/a; rmdir {}/a", "a", nothing, Learned::State),
        ("mkdir {}/old 2> /dev/null; true", "old", old, Learned::State),
        ("mkfifo {}/a; rm {}/a", "a", nothing, Learned::State),
        ("ln -s x {}/a; rm {}/a", "a", nothing, Learned::State),
        ("rm {}/old; echo x > {}/old", "old", old, Learned::State),
        (
            "python3 -c 'import os\ntry: os.remove(\"{}/a\")\nexcept OSError: pass'",
            "a",
            nothing,
            Learned::State,
        ),
        ("echo x > {}/a; rm {}/a; mkdir {}/a", "a", nothing, Learned::Mode(0o644)),
    ];
    for (script, name, found, learned) in cases {
        let bench = Bench::new();
        bench.write("old", "of before");
        std::thread::sleep(Duration::from_millis(40));
        let before = found(&bench);
        let (ended, seen) = bench.observe(&format!("umask 022; {script}"));
        assert!(ended.status.success(), "{script}: {}", ended.output);
        let noted = seen.before.get(&bench.path(name)).unwrap_or_else(|| panic!("{script}"));
        assert_eq!((&noted.found, noted.learned), (&before, learned), "{script}");
        assert!(seen.removed.is_empty(), "{script}: {:?}", seen.removed);
    }
}

/// A directory that the programs made and moved has their files.
#[test]
fn a_moved_directory_has_the_programs_own_files() {
    let read = |seen: &Observation, bench: &Bench| {
        seen.read.keys().filter(|path| path.starts_with(bench.path(""))).count()
    };
    for script in [
        "mkdir -p d/e; echo x > d/e/f; mv d {}/d; cat {}/d/e/f; ls {}/d",
        "mkdir -p {}/t/e; echo x > {}/t/e/f; mv {}/t {}/d; cat {}/d/e/f; ls {}/d/e",
        "mkdir {}/d; echo x > {}/d/f; rm {}/d/f; echo y > {}/d/f; cat {}/d/f",
    ] {
        let bench = Bench::new();
        let (ended, seen) = bench.observe(script);
        assert!(ended.status.success(), "{script}: {}", ended.output);
        assert_eq!((read(&seen, &bench), seen.names.len()), (0, 0), "{script}: {:?}", seen.names);
    }
}
