//! What programs write outside their work directory is observed.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests lay files and run programs over them")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use opkeep_process::Observation;

use crate::sandbox::{Bench, compile};

/// The names below the bench that were written, each with whether it is the programs' own as a whole.
fn written(bench: &Bench, seen: &Observation) -> Vec<(String, bool)> {
    let name = |path: &PathBuf| path.strip_prefix(bench.path("")).unwrap().display().to_string();
    seen.written.iter().map(|(path, written)| (name(path), written.is_whole)).collect()
}

#[test]
fn files_that_programs_write_are_known() {
    let own = [
        ("echo x > {}/a", "a"),
        ("echo x > {}/old", "old"),
        ("echo x > t; mv t {}/a", "a"),
        ("echo x > t; mv t {}/old", "old"),
        ("echo x > {}/t; mv {}/t {}/a", "a"),
        ("echo x > t; ln t {}/a", "a"),
        ("rm {}/old; echo x > {}/old", "old"),
        ("echo x > {}/a; echo y >> {}/a", "a"),
        ("ln -s old {}/a", "a"),
        ("mkfifo {}/a", "a"),
        ("mkdir {}/a", "a"),
        ("truncate -s 0 {}/a", "a"),
        ("cp /etc/passwd {}/a", "a"),
        ("ln -s {} out; echo x > out/a", "a"),
        ("cc -x c -c -o {}/a /dev/null", "a"),
        ("ld -r -b binary -o {}/old /etc/passwd", "old"),
    ];
    for (script, name) in own {
        let bench = Bench::new();
        bench.write("old", "of before");
        std::thread::sleep(Duration::from_millis(40));
        let (ended, seen) = bench.observe(script);
        assert!(ended.status.success(), "{script}: {}", ended.output);
        assert_eq!(written(&bench, &seen), [(name.to_owned(), true)], "{script}");
        assert!(seen.removed.is_empty(), "{script}");
    }
}

/// A file that replaced an old one by a rename is the programs' own, and the old one is still read if the rename failed.
#[test]
fn what_was_renamed_over_an_old_file_is_the_programs_own() {
    let cases = [
        ("echo x > t; mv t {}/old; cat {}/old", false),
        ("echo x > {}/t; mv {}/t {}/old; cat {}/old", false),
        ("echo x > t; mv -n t {}/old; cat {}/old", true),
        ("cat {}/old; echo x > t; mv t {}/old", true),
        ("mkdir {}/d; echo x > t; mv -T t {}/d 2> /dev/null; cat {}/old", true),
    ];
    for (script, is_read) in cases {
        let bench = Bench::new();
        bench.write("old", "of before");
        std::thread::sleep(Duration::from_millis(40));
        let (ended, seen) = bench.observe(script);
        assert!(ended.status.success(), "{script}: {}", ended.output);
        assert_eq!(seen.read.contains_key(&bench.path("old")), is_read, "{script}");
    }
}

#[test]
fn links_are_the_programs_own_or_lead_to_what_they_wrote() {
    let cases = [
        ("echo x > {}/old-link", false),
        ("ln -sf other {}/old-link", true),
        ("ln -s other {}/new-link", true),
        ("echo x > {}/old-link; ln -sf other {}/old-link", true),
    ];
    for (script, is_own) in cases {
        let bench = Bench::new();
        bench.write("old", "of before");
        std::os::unix::fs::symlink("old", bench.path("old-link")).unwrap();
        let (_, seen) = bench.observe(script);
        let links: Vec<_> = seen.written.values().map(|written| written.is_own_link).collect();
        assert_eq!(links, [is_own], "{script}: {:?}", seen.written);
    }
}

#[test]
fn a_part_of_a_file_may_be_older() {
    let cases = [
        ("echo x >> {}/old", "old"),
        ("echo x 1<> {}/old", "old"),
        ("truncate -s 3 {}/old", "old"),
        ("echo x >> {}/old; mv {}/old {}/new", "new"),
        ("mkdir d; echo x > d/f; mv d {}/new", "new"),
    ];
    for (script, name) in cases {
        let bench = Bench::new();
        bench.write("old", "of before");
        std::thread::sleep(Duration::from_millis(40));
        let (ended, seen) = bench.observe(script);
        assert!(ended.status.success(), "{script}: {}", ended.output);
        assert_eq!(written(&bench, &seen), [(name.to_owned(), false)], "{script}");
    }
}

/// A call that was to write a file may fail, or its file may be gone: then an older file was not written.
#[test]
fn files_that_did_not_change_are_not_written() {
    let bench = Bench::new();
    bench.write("old", "of before");
    bench.write("other", "of before");
    compile(
        &bench,
        "#include <stdio.h>\nint main(int count, char **words) { (void)count; return fopen(words[1], \"wx\") != 0; }",
    );
    std::thread::sleep(Duration::from_millis(40));
    let cases = [
        "cat {}/old; [ -w {}/old ]",
        "{}/program {}/old",
        "echo x > t; mv -n t {}/old 2> /dev/null; true",
        "ln {}/other {}/old 2> /dev/null; true",
        "echo x > {}/new; rm {}/new",
        "echo x > t; cat t; mkdir d; rm -r d",
        "mkdir {}/d; echo x > {}/d/f; rm -r {}/d",
        "echo x > /dev/null",
        ": >> {}/old",
    ];
    for case in cases {
        let (ended, seen) = bench.observe(case);
        assert!(ended.status.success(), "{case}: {}", ended.output);
        assert_eq!(written(&bench, &seen), [], "{case}");
        assert!(seen.removed.is_empty(), "{case}: {:?}", seen.removed);
    }
}

#[test]
fn a_file_that_another_program_made_and_that_is_removed_is_named() {
    let bench = Bench::new();
    let old = bench.write("old", "of before");
    let (_, seen) = bench.observe("echo x > t; rm t; echo x > {}/new; rm {}/new {}/old; rm -f {}/absent");
    assert_eq!(seen.removed.into_iter().collect::<Vec<_>>(), std::slice::from_ref(&old));
    fs::write(&old, "of before").unwrap();
    let (_, seen) = bench.observe("echo x > {}/old; rm {}/old");
    assert_eq!(seen.removed.into_iter().collect::<Vec<_>>(), [old]);
}

/// A file that an unnamed one becomes: nothing is known of its content.
#[test]
fn a_named_descriptor_is_no_whole_file() {
    let bench = Bench::new();
    compile(
        &bench,
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(int count, char **words) {
            char name[64];
            int file = open(words[1], O_TMPFILE | O_RDWR, 0600);
            (void)count;
            if (file < 0 || write(file, \"x\", 1) != 1) return 1;
            snprintf(name, sizeof name, \"/proc/self/fd/%d\", file);
            return linkat(AT_FDCWD, name, AT_FDCWD, words[2], AT_SYMLINK_FOLLOW) != 0;
        }",
    );
    let (ended, seen) = bench.observe("{}/program {} {}/new");
    if ended.status.success() {
        assert_eq!(written(&bench, &seen), [("new".to_owned(), false)]);
    }
}

#[test]
fn a_change_by_another_program_is_noticed() {
    let bench = Bench::new();
    let file = bench.write("file", "one");
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("work/turn"), 0o600.into()).unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.observe("cat {}/file; cat turn; cat {}/file"));
        let pipe = fs::OpenOptions::new().write(true).open(bench.path("work/turn")).unwrap();
        fs::write(&file, "three").unwrap();
        drop(pipe);
        let (ended, seen) = run.join().unwrap();
        assert_eq!(ended.output, "onethree");
        assert_eq!(seen.changed.into_iter().collect::<Vec<_>>(), std::slice::from_ref(&file));
    });
}

#[test]
fn names_of_listed_directories_are_those_of_the_first_listing() {
    let bench = Bench::new();
    bench.write("list/a", "");
    let (_, seen) = bench.observe("ls {}/list; echo x > {}/list/b; ls {}/list");
    let names: Vec<_> = seen.names[&bench.path("list")].iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["a"]);
}

#[test]
fn a_program_that_runs_on_is_noticed() {
    let bench = Bench::new();
    let (_, seen) = bench.observe("sleep 0.01 & true");
    assert!(!seen.outlived);
    let (_, seen) = bench.observe(
        "setsid sh -c 'echo > ready; exec sleep 5' > /dev/null 2>&1 & while [ ! -e ready ]; do sleep 0.01; done",
    );
    assert!(seen.outlived);
}

/// A later run without the call would miss its effect. The call shows whether the file exists, too.
#[test]
fn changes_of_modes_and_dates_are_writes() {
    let cases = [
        ("chmod 600 {}/old", true),
        ("touch -d 2000-01-01 {}/old", true),
        ("touch -h {}/old", true),
        ("chown \"$(id -u)\" {}/old", true),
        ("python3 -S -c 'import os; os.chmod(os.open(\"{}/old\", os.O_RDONLY), 0o600)'", true),
        ("python3 -S -c 'import os; os.utime(os.open(\"{}/old\", os.O_RDONLY))'", true),
        ("chmod 600 {}/absent 2> /dev/null; touch -c {}/absent", false),
        ("python3 -S -c 'import os; os.setxattr(\"{}/old\", \"user.a\", b\"1\")' 2> /dev/null", false),
    ];
    for (script, is_written) in cases {
        let bench = Bench::new();
        bench.write("old", "of before");
        std::thread::sleep(Duration::from_millis(40));
        let (_, seen) = bench.observe(script);
        let expected = if is_written { vec![("old".to_owned(), false)] } else { Vec::new() };
        assert_eq!(written(&bench, &seen), expected, "{script}");
        let name = if script.contains("absent") { "absent" } else { "old" };
        let is_known = |path| seen.looked_at.contains_key(path) || seen.read.contains_key(path);
        assert!(is_known(&bench.path(name)), "{script}");
        assert_eq!(seen.refused.is_some(), script.contains("setxattr"), "{script}");
    }
    // Of a directory, the mode that it gets; its dates change with each file in it.
    for (script, is_written) in [("chmod 700 {}/d", true), ("chmod 755 {}/d; touch {}/d", false)] {
        let bench = Bench::new();
        fs::create_dir(bench.path("d")).unwrap();
        fs::set_permissions(bench.path("d"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let (_, seen) = bench.observe(script);
        let expected = if is_written { vec![("d".to_owned(), false)] } else { Vec::new() };
        assert_eq!(written(&bench, &seen), expected, "{script}");
    }
    let bench = Bench::new();
    let (_, seen) = bench.observe("echo x > {}/a; chmod 755 {}/a; touch -d 2000-01-01 {}/a; cp -p {}/a {}/b");
    assert_eq!(written(&bench, &seen), [("a".to_owned(), true), ("b".to_owned(), true)]);
}
