//! A user's file that an output's path leads to is never lost.

use std::fs;
use std::os::unix::fs::MetadataExt;

use opkeep_launcher::{How, ToolFacts};

use crate::common::{Bench, Setup, after, link_at};

const NOTHING: ToolFacts = ToolFacts { is_movable: false, replaces_outputs: false, ignores_byte_code: false };
const REPLACES: ToolFacts = ToolFacts { replaces_outputs: true, ..NOTHING };

/// Both for a tool of which nothing is known, and for one that replaces its old outputs.
fn never_a_hit(script: &str, lay: &dyn Fn(&Bench), change: &dyn Fn(&Bench)) {
    for facts in [NOTHING, REPLACES] {
        let (first, second) = after(&Setup { facts, ..Setup::default() }, script, lay, change);
        assert!(first == How::Compiled && second != How::Hit, "{script}, {facts:?}: {first:?}, {second:?}");
    }
}

#[test]
fn the_file_behind_a_link_at_an_outputs_path_stays() {
    let lay = |bench: &Bench| {
        bench.write("tree/k.c", "int k;");
        bench.write("tree/precious", "of the user");
    };
    for script in [
        "echo new > $TMPDIR/x; mv $TMPDIR/x out/k",
        "cc -c k.c -o out/k",
        "rm -f out/k; echo new > out/k",
        "echo new > out/k",
    ] {
        never_a_hit(script, &lay, &|bench| link_at(&bench.path("tree/out/k"), "../precious"));
    }
}

#[test]
fn the_second_name_of_an_old_output_is_no_output() {
    for script in
        ["echo new > out/k", "rm -f out/k; echo new > out/k", "echo new > $TMPDIR/x; mv $TMPDIR/x out/k"]
    {
        never_a_hit(script, &|bench| bench.write("tree/other", "of the user"), &|bench| {
            bench.remove("tree/out/k");
            fs::hard_link(bench.path("tree/other"), bench.path("tree/out/k")).unwrap();
        });
    }
}

#[test]
fn the_directory_behind_a_link_stays() {
    for script in
        ["rm -rf out/sub; mkdir out/sub; echo new > out/sub/k", "mkdir -p out/sub; echo new > out/sub/k"]
    {
        never_a_hit(script, &|bench| bench.write("tree/user/k", "of the user"), &|bench| {
            link_at(&bench.path("tree/out/sub"), "../user");
        });
    }
    // One that the run did not make.
    let lay = |bench: &Bench| {
        bench.write("tree/user/k", "of the user");
        fs::create_dir(bench.path("tree/out/sub")).unwrap();
    };
    never_a_hit("echo new > out/sub/k", &lay, &|bench| link_at(&bench.path("tree/out/sub"), "../user"));
}

/// A tree that a link leads to is the tree: its outputs have their real paths.
#[test]
fn a_tree_by_a_link_is_a_hit() {
    let bench = Bench::new();
    fs::rename(bench.path("tree"), bench.path("real")).unwrap();
    std::os::unix::fs::symlink("real", bench.path("tree")).unwrap();
    let script = "echo new > {}/out/k";
    assert_eq!(bench.how(script), How::Compiled);
    fs::remove_file(bench.path("real/out/k")).unwrap();
    assert_eq!(bench.raw(&Setup::default(), script).how, How::Hit);
    assert_eq!(fs::read_to_string(bench.path("real/out/k")).unwrap(), "new\n");
}

/// The owner of an old file decides what a run does with it.
#[test]
fn a_file_of_another_user_is_no_output() {
    let bench = Bench::new();
    let (script, old) = ("echo new > out/k", bench.path("tree/out/k"));
    let setup = Setup { facts: REPLACES, ..Setup::default() };
    assert_eq!(bench.raw(&setup, script).how, How::Compiled);
    assert_eq!(bench.raw(&setup, script).how, How::Hit);
    // Only the administrator can give a file away.
    if std::os::unix::fs::chown(&old, Some(12_345), None).is_ok() {
        assert_ne!(bench.raw(&setup, script).how, How::Hit);
        assert_eq!(fs::metadata(&old).unwrap().uid(), 12_345);
    }
}
