//! What a program can see of a file without its content, and of the system's own files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use opkeep_launcher::{How, ToolFacts};

use crate::common::{Bench, Setup, set_mode};

/// All bits of the modes of files and directories, as `cp` and `stat` use them.
#[test]
fn modes_count() {
    for (script, one, other) in [
        ("cp in out/k", 0o644, 0o600),
        ("cp in out/k", 0o755, 0o700),
        ("stat -c %a in > out/k", 0o644, 0o664),
        ("stat -c %a in > out/k", 0o755, 0o1755),
        ("if [ -w in ]; then echo 1; else echo 2; fi > out/k", 0o644, 0o444),
        ("stat -c %a dir > out/k", 0o755, 0o2755),
        ("cp -r dir out/dir", 0o755, 0o700),
    ] {
        let bench = Bench::new();
        bench.write("tree/in", "x");
        bench.write("tree/dir/a", "x");
        let path = bench.path(if script.contains("dir") { "tree/dir" } else { "tree/in" });
        set_mode(&path, one);
        let clean = || {
            fs::remove_dir_all(bench.path("tree/out")).unwrap();
            fs::create_dir(bench.path("tree/out")).unwrap();
        };
        assert_eq!(bench.how(script), How::Compiled, "{script}");
        clean();
        assert_eq!(bench.how(script), How::Hit, "{script}");
        set_mode(&path, other);
        clean();
        assert_eq!(bench.how(script), How::Compiled, "{script}, {other:o}");
        if script == "cp in out/k" {
            let mode = fs::metadata(bench.path("tree/out/k")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, other);
        }
        clean();
        assert_eq!(bench.how(script), How::Hit, "{script}, {other:o}");
    }
}

/// A tool of which nothing is known may read them. They are in each manifest then.
#[test]
fn settings_of_the_system_count_unless_the_tool_is_known_to_ignore_them() {
    for (is_movable, is_in_key) in [(false, true), (true, false)] {
        let bench = Bench::new();
        let setup = Setup { facts: ToolFacts { is_movable, ..ToolFacts::default() }, ..Setup::default() };
        let script = "cat /etc/passwd > out/k";
        assert_eq!(bench.run_with(&setup, script).how, How::Compiled);
        let needle = b"passwd";
        let is_named = bench.stored().iter().any(|bytes| bytes.windows(needle.len()).any(|it| it == needle));
        assert_eq!(is_named, is_in_key, "{is_movable}");
    }
}

#[test]
fn a_working_directory_that_is_a_link_counts_by_where_it_leads() {
    for has_root in [false, true] {
        let bench = Bench::new();
        fs::remove_dir_all(bench.path("tree")).unwrap();
        for version in ["one", "two"] {
            bench.write(&format!("{version}/in"), version);
            fs::create_dir(bench.path(version).join("out")).unwrap();
        }
        let setup = Setup { has_root, ..Setup::default() };
        let how = |version: &str| {
            let _ = fs::remove_file(bench.path("tree"));
            symlink(version, bench.path("tree")).unwrap();
            bench.raw(&setup, "cat in > {}/out/k").how
        };
        assert_eq!((how("one"), how("two")), (How::Compiled, How::Compiled), "{has_root}");
        assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "two");
        assert_eq!(how("one"), How::Hit, "{has_root}");
    }
}
