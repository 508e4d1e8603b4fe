//! What a command reads, and looks for in vain, decides whether a stored result is used.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use opkeep_launcher::{How, ToolFacts};

use crate::common::{Bench, Setup, set_mode, variable};

const CC: &str = "cc -Ione -Itwo -c k.c -o out/k.o && echo done && echo note >&2";

fn c_tree(bench: &Bench) {
    bench.write("tree/k.c", "#include \"a.h\"\nint k(void) { return A; }\n");
    bench.write("tree/two/a.h", "#define A 2\n");
    bench.write("tree/one/other.h", "\n");
}

#[test]
fn the_second_run_is_a_hit() {
    let bench = Bench::new();
    c_tree(&bench);
    let first = bench.run(CC);
    assert_eq!((first.how, first.code), (How::Compiled, Some(0)));
    let second = bench.run(CC);
    assert_eq!((second.how, second.code), (How::Hit, Some(0)));
    assert_eq!((second.texts.out.as_slice(), second.texts.err.as_slice()), (&b"done\n"[..], &b"note\n"[..]));
}

#[test]
fn a_header_that_shadows_another_is_a_miss() {
    let bench = Bench::new();
    c_tree(&bench);
    assert_eq!(bench.how(CC), How::Compiled);
    bench.write("tree/one/a.h", "#define A 1\n");
    assert_eq!(bench.how(CC), How::Compiled);
    assert_eq!(bench.how(CC), How::Hit);
    // Each of the two states has its result.
    bench.remove("tree/one/a.h");
    assert_eq!(bench.how(CC), How::Hit);
}

#[test]
fn a_changed_header_is_a_miss() {
    let bench = Bench::new();
    c_tree(&bench);
    assert_eq!(bench.how(CC), How::Compiled);
    bench.write("tree/two/a.h", "#define A 3\n");
    assert_eq!(bench.how(CC), How::Compiled);
    assert_eq!(bench.how(CC), How::Hit);
    bench.write("tree/two/a.h", "#define A 2\n");
    assert_eq!(bench.how(CC), How::Hit);
}

#[test]
fn dates_never_count() {
    let bench = Bench::new();
    c_tree(&bench);
    assert_eq!(bench.how(CC), How::Compiled);
    for (number, name) in ["k.c", "two/a.h", "one/other.h", "one", "two", "out/k.o", "."].iter().enumerate() {
        let time = SystemTime::now() + Duration::from_secs(3600 * (1 + number as u64));
        fs::File::open(bench.path("tree").join(name)).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(bench.how(CC), How::Hit);
}

/// Files of users lie beside devices there.
#[test]
fn files_in_shared_memory_count() {
    let place = Path::new("/dev/shm");
    if !place.is_dir() {
        return;
    }
    let bench = Bench::below(place);
    bench.write("tree/in", "one");
    let script = "cat in > out/k; [ ! -e absent ] || echo there >> out/k";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    bench.write("tree/in", "two");
    assert_eq!(bench.how(script), How::Compiled);
    bench.write("tree/absent", "");
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "twothere\n");
}

const PYTHON: &str = "python3 main.py out/k.txt";

fn python_tree(bench: &Bench) {
    bench.write(
        "tree/main.py",
        "import sys\nsys.path.append('lib')\nimport helper\nopen(sys.argv[1], 'w').write(str(helper.VALUE))\n",
    );
    bench.write("tree/lib/helper.py", "import part\nVALUE = part.VALUE\n");
    bench.write("tree/lib/part.py", "VALUE = 1\n");
}

#[test]
fn an_edited_import_is_a_miss() {
    let bench = Bench::new();
    python_tree(&bench);
    assert_eq!(bench.how(PYTHON), How::Compiled);
    assert_eq!(bench.how(PYTHON), How::Hit);
    // The same length, and soon after: a compiled module would count as current.
    bench.write("tree/lib/part.py", "VALUE = 2\n");
    assert_eq!(bench.how(PYTHON), How::Compiled);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k.txt")).unwrap(), "2");
    assert_eq!(bench.how(PYTHON), How::Hit);
    assert!(!bench.path("tree/lib/__pycache__").exists());
}

/// A program that takes what it finds lists a directory in the same way.
#[test]
fn a_new_plugin_is_a_miss() {
    let bench = Bench::new();
    bench.write(
        "tree/main.py",
        "import os, sys\nsys.path.insert(0, 'plugins')\n\
         names = sorted(name[:-3] for name in os.listdir('plugins') if name.endswith('.py'))\n\
         open('out/k.txt', 'w').write(' '.join(__import__(name).VALUE for name in names))\n",
    );
    bench.write("tree/plugins/first_plugin.py", "# first_plugin\nVALUE = 'one'\n");
    let script = "python3 main.py";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    bench.write("tree/plugins/second_plugin.py", "VALUE = 'two'\n");
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k.txt")).unwrap(), "one two");
    // A directory without anything that is used.
    let script =
        "ls absent_or_empty 2> /dev/null; python3 -c 'import os; print(os.listdir(\"empty\"))' > out/k.txt";
    fs::create_dir(bench.path("tree/empty")).unwrap();
    assert_eq!(bench.how(script), How::Compiled);
    bench.write("tree/empty/unrelated_name", "");
    assert_eq!(bench.how(script), How::Compiled);
}

#[test]
fn names_in_a_directory_that_is_listed_count() {
    let bench = Bench::new();
    bench.write("tree/list/a", "");
    let script = "ls list > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    bench.write("tree/other", "");
    assert_eq!(bench.how(script), How::Hit);
    bench.write("tree/list/b", "");
    assert_eq!(bench.how(script), How::Compiled);
}

/// The command's own outputs do not count where it lists their directory.
#[test]
fn own_outputs_do_not_count() {
    let bench = Bench::new();
    let facts = ToolFacts { replaces_outputs: true, ..ToolFacts::default() };
    let how = |script: &str| bench.run_with(&Setup { facts, ..Setup::default() }, script).how;
    bench.write("tree/in", "x");
    for script in
        ["ls out > /dev/null; cat in > out/k", "[ -e out/k ]; cat in > out/k", "rm -f out/k; cp in out/k"]
    {
        fs::remove_dir_all(bench.path("tree/out")).unwrap();
        fs::create_dir(bench.path("tree/out")).unwrap();
        assert_eq!(how(script), How::Compiled, "{script}");
        assert_eq!(how(script), How::Hit, "{script}");
        bench.remove("tree/out/k");
        assert_eq!(how(script), How::Hit, "{script}");
        // A run that found an old output.
        bench.write("tree/in", script);
        assert_eq!(how(script), How::Compiled, "{script}");
        bench.remove("tree/out/k");
        assert_eq!(how(script), How::Hit, "{script}");
    }
}

#[test]
fn two_manifests_alternate() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.write(&format!("tree/{name}"), name);
    }
    let script = "if [ -e flag ]; then cat a; else cat b; fi > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    bench.write("tree/flag", "");
    assert_eq!(bench.how(script), How::Compiled);
    for _ in 0..3 {
        bench.remove("tree/flag");
        assert_eq!(bench.how(script), How::Hit);
        bench.write("tree/flag", "");
        assert_eq!(bench.how(script), How::Hit);
    }
    // What the other branch reads does not count.
    bench.write("tree/b", "changed");
    assert_eq!(bench.how(script), How::Hit);
    bench.remove("tree/flag");
    assert_eq!(bench.how(script), How::Compiled);
}

/// More states than a task has manifests: the newest replace older ones.
#[test]
fn manifests_are_limited() {
    let bench = Bench::new();
    let script = "cat \"$(cat which)\" > out/k";
    for number in 0..20 {
        bench.write(&format!("tree/in{number}"), &number.to_string());
        bench.write("tree/which", &format!("in{number}"));
        assert_eq!(bench.how(script), How::Compiled, "{number}");
        assert_eq!(bench.how(script), How::Hit, "{number}");
    }
}

/// A program that asks where a link leads finds its other files there.
#[test]
fn a_link_that_leads_elsewhere_is_a_miss() {
    let bench = Bench::new();
    for (version, other) in [("v1", "one"), ("v2", "two")] {
        bench.write(&format!("tree/{version}/lib/a"), "same");
        bench.write(&format!("tree/{version}/b"), other);
    }
    for (script, name) in [
        ("cat dir/a > /dev/null; cat \"$(realpath dir)/../b\" > out/k", "dir"),
        ("cat file > /dev/null; cat \"$(dirname \"$(readlink file)\")/../b\" > out/k", "file"),
        ("cat dir/a > /dev/null; cd -P dir/..; cat b > {}/out/k", "dir"),
    ] {
        let target = |version: &str| format!("{version}/lib{}", if name == "dir" { "" } else { "/a" });
        let link = bench.path("tree").join(name);
        symlink(target("v1"), &link).unwrap();
        assert_eq!(bench.how(script), How::Compiled, "{script}");
        assert_eq!(bench.how(script), How::Hit, "{script}");
        fs::remove_file(&link).unwrap();
        symlink(target("v2"), &link).unwrap();
        assert_eq!(bench.how(script), How::Compiled, "{script}");
        assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "two", "{script}");
        fs::remove_file(&link).unwrap();
    }
}

/// The directory of the link stays out of the paths that are read, because a process has a real working directory.
#[test]
fn a_working_directory_by_a_link_counts_by_where_it_leads() {
    let bench = Bench::new();
    for version in ["v1", "v2"] {
        bench.write(&format!("tree/{version}/in"), version);
    }
    let script = "cd current && cat in > ../out/k";
    symlink("v1", bench.path("tree/current")).unwrap();
    assert_eq!(bench.how(script), How::Compiled);
    bench.remove("tree/current");
    symlink("v2", bench.path("tree/current")).unwrap();
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "v2");
}

#[test]
fn another_program_in_an_earlier_directory_is_a_miss() {
    let bench = Bench::new();
    let tool = |dir: &str, text: &str| {
        bench.write(&format!("tree/{dir}/tool"), &format!("#!/bin/sh\necho {text}\n"));
        set_mode(&bench.path(&format!("tree/{dir}/tool")), 0o755);
    };
    tool("two", "two");
    let path = |dirs: &str| {
        let dirs = dirs.replace("{}", bench.path("tree").to_str().unwrap());
        Setup { env: vec![variable("PATH", format!("{dirs}:/usr/bin:/bin"))], ..Setup::default() }
    };
    let (script, both) = ("tool > out/k", path("{}/one:{}/two"));
    assert_eq!(bench.run_with(&both, script).how, How::Compiled);
    assert_eq!(bench.run_with(&both, script).how, How::Hit);
    tool("one", "one");
    assert_eq!(bench.run_with(&both, script).how, How::Compiled);
    tool("zero", "zero");
    assert_eq!(bench.run_with(&path("{}/zero:{}/two"), script).how, How::Compiled);
    set_mode(&bench.path("tree/one/tool"), 0o644);
    assert_eq!(bench.run_with(&both, script).how, How::Compiled);
}

/// A file that is only looked at counts by its content: make decides by its date, which does not count.
#[test]
fn a_file_that_is_only_looked_at_counts() {
    let bench = Bench::new();
    bench.write("tree/in", "one");
    let script = "[ -s in ]; echo x > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    bench.write("tree/in", "two");
    assert_eq!(bench.how(script), How::Compiled);
    bench.remove("tree/in");
    fs::create_dir(bench.path("tree/in")).unwrap();
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
}

#[test]
fn variables_count_unless_they_are_inert() {
    let bench = Bench::new();
    c_tree(&bench);
    bench.write("tree/three/a.h", "#define A 3\n");
    let with = |name: &str, value: &str| {
        let value = value.replace("{}", bench.path("tree").to_str().unwrap());
        Setup { env: vec![variable(name, value)], ..Setup::default() }
    };
    let script = "cc -c k.c -o out/k.o";
    assert_eq!(bench.run_with(&with("CPATH", "{}/two"), script).how, How::Compiled);
    assert_eq!(bench.run_with(&with("CPATH", "{}/three"), script).how, How::Compiled);
    assert_eq!(bench.run_with(&with("CPATH", "{}/two"), script).how, How::Hit);
    assert_eq!(bench.how("echo x > out/k.o"), How::Compiled);
    assert_eq!(bench.run_with(&with("CI_JOB_ID", "7"), "echo x > out/k.o").how, How::Hit);
    assert_eq!(bench.run_with(&with("OPTION", "7"), "echo x > out/k.o").how, How::Compiled);
}

/// Each make has another pipe for the tokens of its jobs.
#[test]
fn the_pipe_of_job_tokens_does_not_count() {
    let bench = Bench::new();
    let with_pipe = |name: &str| {
        let pipe = bench.path(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let flags = format!(" -j2 --jobserver-auth=fifo:{}", pipe.display());
        Setup { env: vec![variable("MAKEFLAGS", flags)], ..Setup::default() }
    };
    let script = "exec 8<> \"${MAKEFLAGS#*fifo:}\"; printf + >&8; head -c1 <&8 > /dev/null; echo x > out/k";
    assert_eq!(bench.run_with(&with_pipe("one"), script).how, How::Compiled);
    assert_eq!(bench.run_with(&with_pipe("two"), script).how, How::Hit);
    // A pipe that is not named there is an input.
    let other = "exec 8<> \"$OTHER\"; printf + >&8; head -c1 <&8 > /dev/null; echo x > out/k";
    let setup = Setup { env: vec![variable("OTHER", bench.path("one"))], ..Setup::default() };
    let refused = crate::common::reason(bench.run_with(&setup, other).how);
    assert!(matches!(refused, opkeep_launcher::Reason::NotAFile(_)), "{refused:?}");
}

/// A file by the name of such a pipe is an input.
#[test]
fn a_file_of_job_tokens_counts() {
    let bench = Bench::new();
    bench.write("tokens", "one");
    let flags = format!(" -j2 --jobserver-auth=fifo:{}", bench.path("tokens").display());
    let setup = Setup { env: vec![variable("MAKEFLAGS", flags)], ..Setup::default() };
    let script = "cat \"${MAKEFLAGS#*fifo:}\" > out/k";
    assert_eq!(bench.run_with(&setup, script).how, How::Compiled);
    bench.write("tokens", "two");
    assert_eq!(bench.run_with(&setup, script).how, How::Compiled);
}

/// Behind a name that does not count, `..` leads to files that do.
#[test]
fn a_file_by_way_of_a_parent_counts() {
    for script in [
        "cat /proc/..{}/in > out/k",
        "cd /proc && cat ..{}/in > {}/out/k",
        "cat /usr/share/zoneinfo/../../..{}/in > out/k",
        "cat __pycache__/../in > out/k",
        "cat tool.log/../in > out/k",
        "cat link/../in > out/k",
    ] {
        let bench = Bench::new();
        ["__pycache__", "tool.log", "a/b"].iter().for_each(|dir| bench.write(&format!("tree/{dir}/x"), ""));
        std::os::unix::fs::symlink("__pycache__", bench.path("tree/link")).unwrap();
        bench.write("tree/in", "one");
        bench.write("tree/a/in", "of a");
        assert_eq!(bench.how(script), How::Compiled, "{script}");
        assert_eq!(bench.how(script), How::Hit, "{script}");
        bench.write("tree/in", "two");
        assert_eq!(bench.how(script), How::Compiled, "{script}");
        // The link leads to another directory, above which lies another file.
        fs::remove_file(bench.path("tree/link")).unwrap();
        std::os::unix::fs::symlink("a/b", bench.path("tree/link")).unwrap();
        let expected = if script.contains("link") { How::Compiled } else { How::Hit };
        assert_eq!(bench.how(script), expected, "{script}");
    }
}

#[test]
fn names_need_not_be_text() {
    let bench = Bench::new();
    let name = OsStr::from_bytes(b"in\xff\xfe");
    fs::write(bench.path("tree").join(name), "one").unwrap();
    let script = "cat in?? > out/k; cp out/k \"$(printf 'out/\\377')\"";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    fs::write(bench.path("tree").join(name), "two").unwrap();
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(fs::read(bench.path("tree/out").join(OsStr::from_bytes(b"\xff"))).unwrap(), b"two");
}

/// A file whose directory is missing, and a name that is a file where a directory is looked for.
#[test]
fn missing_directories_count() {
    let bench = Bench::new();
    let script = "cat a/b/c 2> /dev/null > out/k; true";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    bench.write("tree/a", "");
    assert_eq!(bench.how(script), How::Hit);
    bench.remove("tree/a");
    bench.write("tree/a/b/c", "x");
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "x");
}
