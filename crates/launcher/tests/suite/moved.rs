//! Trees that lie elsewhere in another build, and other users.

use std::fs;

use opkeep_launcher::{How, ToolFacts};
use opkeep_testkit::far_dir;

use crate::common::{Bench, Setup, variable};

const MOVABLE: ToolFacts = ToolFacts { is_movable: true, replaces_outputs: true, ignores_byte_code: false };

const MOVED: Setup = Setup {
    tree: "moved/to/another/place",
    has_root: true,
    env: Vec::new(),
    mode: opkeep_embed::CacheMode::Enable,
    store: None,
    facts: MOVABLE,
    is_full: false,
};

fn c_tree(bench: &Bench) {
    bench.write("tree/k.c", "#include \"a.h\"\nint k(void) { return A; }\n");
    bench.write("tree/options.rsp", "-I{}/tree/include\n");
    bench.write("tree/include/a.h", "#define A 1\n");
    fs::create_dir_all(bench.path("moved/to/another")).unwrap();
    bench.copy("tree", MOVED.tree);
    // A generated file has the paths of its own tree.
    bench.write("moved/to/another/place/options.rsp", "-I{}/moved/to/another/place/include\n");
}

const CC: &str =
    "cc -I{}/include @{}/options.rsp -c {}/k.c -o {}/out/k.o && echo compiled {}/k.c && echo in {} >&2";

#[test]
fn another_directory_is_a_hit_with_roots() {
    let bench = Bench::new();
    c_tree(&bench);
    let homes = far_dir().unwrap();
    let home = |name: &str| vec![variable("HOME", homes.path().join(name))];
    assert_eq!(
        bench.run_with(&Setup { env: home("home/one"), facts: MOVABLE, ..Setup::default() }, CC).how,
        How::Compiled
    );
    let moved = bench.run_with(&Setup { env: home("home/other"), ..MOVED }, CC);
    assert_eq!(moved.how, How::Hit);
    let expected = format!("compiled {}/k.c\n", bench.path(MOVED.tree).display());
    assert_eq!(String::from_utf8(moved.texts.out).unwrap(), expected);
    // Another content is still a miss.
    bench.write("moved/to/another/place/include/a.h", "#define A 2\n");
    assert_eq!(bench.run_with(&Setup { env: home("home/other"), ..MOVED }, CC).how, How::Compiled);
}

#[test]
fn another_directory_is_a_miss_without_roots() {
    let bench = Bench::new();
    c_tree(&bench);
    let without = |setup: Setup| Setup { has_root: false, facts: MOVABLE, ..setup };
    assert_eq!(bench.run_with(&without(Setup::default()), CC).how, How::Compiled);
    assert_eq!(bench.run_with(&without(Setup::default()), CC).how, How::Hit);
    assert_eq!(bench.run_with(&without(MOVED), CC).how, How::Compiled);
}

/// Debug information, a text in the object, or the adapter's word: the result is that of its own directory.
#[test]
fn a_result_that_shows_its_directory_is_not_used_in_another() {
    let scripts = [
        ("cc -g @{}/options.rsp -c {}/k.c -o {}/out/k.o", false),
        // Compressed: the bytes show no path.
        ("cc -g -gz @{}/options.rsp -c {}/k.c -o {}/out/k.o", false),
        ("cc @{}/options.rsp -c {}/k.c -o {}/out/k.o && cat {}/options.rsp > out/text", false),
        ("pwd > out/k", false),
        ("echo x > out/k", true),
    ];
    for (script, shows_paths) in scripts {
        let facts = ToolFacts { is_movable: !shows_paths, ..MOVABLE };
        let bench = Bench::new();
        c_tree(&bench);
        let setup = Setup { facts, ..Setup::default() };
        assert_eq!(bench.run_with(&setup, script).how, How::Compiled, "{script}");
        assert_eq!(bench.run_with(&setup, script).how, How::Hit, "{script}");
        assert_eq!(bench.run_with(&Setup { facts, ..MOVED }, script).how, How::Compiled, "{script}");
        assert_eq!(bench.run_with(&Setup { facts, ..MOVED }, script).how, How::Hit, "{script}");
        assert_eq!(bench.run_with(&setup, script).how, How::Hit, "{script}");
    }
}

/// What lies beside the root is another file in the other tree, by the same text.
#[test]
fn files_outside_of_a_root_are_those_that_the_command_reads() {
    let bench = Bench::new();
    for (tree, beside) in [("tree", "beside"), ("moved/to/another/place", "moved/to/another/beside")] {
        bench.write(&format!("{tree}/in"), "x");
        fs::create_dir_all(bench.path(&format!("{tree}/out"))).unwrap();
        bench.write(beside, tree);
    }
    let script = "cat {}/../beside > {}/out/k";
    let here = Setup { facts: MOVABLE, ..Setup::default() };
    assert_eq!(bench.run_with(&here, script).how, How::Compiled);
    assert_eq!(bench.run_with(&MOVED, script).how, How::Compiled);
    assert_eq!(
        fs::read_to_string(bench.path("moved/to/another/place/out/k")).unwrap(),
        "moved/to/another/place"
    );
    assert_eq!(bench.run_with(&here, script).how, How::Hit);
}
