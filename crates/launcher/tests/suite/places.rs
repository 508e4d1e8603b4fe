//! Where a tree and the home directory lie, as far as a result depends on it.

use std::fs;

use opkeep_launcher::{How, ToolFacts};

use crate::common::{Bench, Setup, variable};

const MOVABLE: ToolFacts = ToolFacts { is_movable: true, replaces_outputs: false, ignores_byte_code: false };

fn at(tree: &'static str, facts: ToolFacts) -> Setup {
    Setup { tree, facts: ToolFacts { replaces_outputs: true, ..facts }, ..Setup::default() }
}

/// A tree and its copy, each of whose files contains the path of its own tree.
fn two_trees(bench: &Bench, files: &[(&str, &str)]) {
    for tree in ["tree", "moved/elsewhere"] {
        fs::create_dir_all(bench.path(tree).join("out")).unwrap();
        let path = format!("{{}}/{tree}");
        files
            .iter()
            .for_each(|(name, text)| bench.write(&format!("{tree}/{name}"), &text.replace("{}", &path)));
    }
}

/// What a program of which nothing is known makes of a path need not look like one.
#[test]
fn a_result_is_that_of_its_place_if_nothing_is_known_of_the_tool() {
    for script in [
        "basename \"$PWD\" > out/k",
        "printf %s \"$PWD\" | wc -c > out/k",
        "printf %s \"$PWD\" | base64 -w0 > out/k",
        "gzip -nc < text > out/k",
        "wc -c < text > out/k",
        "cc -c k.c -o out/k.o",
        "echo x > out/k",
    ] {
        let bench = Bench::new();
        two_trees(&bench, &[("text", "{}"), ("k.c", "int n = sizeof(\"{}\");\n")]);
        let [here, there] = ["tree", "moved/elsewhere"].map(|tree| at(tree, ToolFacts::default()));
        assert_eq!(bench.run_with(&here, script).how, How::Compiled, "{script}");
        assert_eq!(bench.run_with(&there, script).how, How::Compiled, "{script}");
        assert_eq!(bench.run_with(&here, script).how, How::Hit, "{script}");
        assert_eq!(bench.run_with(&there, script).how, How::Hit, "{script}");
    }
}

#[test]
fn a_home_directory_is_that_of_its_user_if_nothing_is_known_of_the_tool() {
    let bench = Bench::new();
    let home = |name: &str| Setup {
        env: vec![variable("HOME", bench.path(name))],
        ..at("tree", ToolFacts::default())
    };
    let script = "basename \"$HOME\" > out/k";
    assert_eq!(bench.run_with(&home("alice"), script).how, How::Compiled);
    assert_eq!(bench.run_with(&home("bob"), script).how, How::Compiled);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "bob\n");
}

/// A path from one root to another has neither's name.
#[test]
fn how_roots_lie_to_each_other_counts() {
    for (script, dirs, changed) in [
        ("cd ../src && cat a > ../tree/out/k", ["src", "else"], "src/a"),
        ("cat ../src/a > out/k", ["src", "else"], "src/a"),
        ("cat h/a > out/k", ["tree/h", "else"], "tree/h/a"),
        ("cat \"$DIR/src/a\" > out/k", ["src", "else"], "src/a"),
    ] {
        for has_root in [true, false] {
            let bench = Bench::new();
            dirs.iter().for_each(|dir| bench.write(&format!("{dir}/a"), "old"));
            let setup = |home: &str| Setup {
                env: vec![variable("HOME", bench.path(home)), variable("DIR", bench.path(""))],
                has_root,
                ..at("tree", MOVABLE)
            };
            assert_eq!(bench.run_with(&setup(dirs[0]), script).how, How::Compiled, "{script}");
            assert_eq!(bench.run_with(&setup(dirs[0]), script).how, How::Hit, "{script}");
            bench.write(changed, "new");
            assert_eq!(bench.run_with(&setup(dirs[1]), script).how, How::Compiled, "{script} {has_root}");
            assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "new", "{script}");
        }
    }
}

/// A user's second clone. That Python looks for the user's packages says nothing of where the tree lies.
#[test]
fn a_tree_may_move_within_the_home_directory() {
    for (script, is_movable) in [
        ("cat in > out/k", true),
        ("[ -e \"$HOME/.local/lib/python3.11/site-packages\" ] || cat in > out/k", true),
        // By a path that the tree's own may have been made of.
        ("[ -e \"$HOME/.local/other\" ] || cat in > out/k", false),
        ("[ -e \"$(dirname \"$PWD\")/beside\" ] || cat in > out/k", false),
    ] {
        let bench = Bench::new();
        two_trees(&bench, &[("in", "x")]);
        let setup = |tree| Setup { env: vec![variable("HOME", bench.path(""))], ..at(tree, MOVABLE) };
        assert_eq!(bench.run_with(&setup("tree"), script).how, How::Compiled, "{script}");
        let expected = if is_movable { How::Hit } else { How::Compiled };
        assert_eq!(bench.run_with(&setup("moved/elsewhere"), script).how, expected, "{script}");
        assert_eq!(bench.run_with(&setup("tree"), script).how, How::Hit, "{script}");
    }
}

/// By the same text, a tree that lies elsewhere reads another file.
#[test]
fn what_lies_beside_a_root_is_that_of_its_place() {
    for script in [
        "cd ../beside && cat a > {}/out/k",
        "cat \"$(dirname \"$PWD\")/beside/a\" > out/k",
        "[ -e \"$(dirname \"$PWD\")/beside/a\" ] && echo there > out/k",
        "ls \"$(dirname \"$PWD\")/beside\" > out/k",
        // Out of the root and back into it, by the name that it has here.
        "d=\"$PWD\"; cd ..; cat tree/in > \"$d/out/k\"; true",
        "python3 -c 'import os; os.chdir(\"..\"); open(\"{}/out/k\", \"w\").write(str(os.path.exists(\"tree/in\")))'",
    ] {
        let bench = Bench::new();
        two_trees(&bench, &[("in", "x")]);
        bench.write("beside/a", "here");
        let [here, there] = ["tree", "moved/elsewhere"].map(|tree| at(tree, MOVABLE));
        assert_eq!(bench.run_with(&here, script).how, How::Compiled, "{script}");
        assert_eq!(bench.run_with(&here, script).how, How::Hit, "{script}");
        assert_ne!(bench.raw(&there, script).how, How::Hit, "{script}");
    }
}

/// The directories above a root are looked at where a program resolves links.
#[test]
fn the_directories_above_a_root_do_not_count() {
    let bench = Bench::new();
    two_trees(&bench, &[("in", "x")]);
    let script = "cat \"$(realpath in)\" > out/k";
    assert_eq!(bench.run_with(&at("tree", MOVABLE), script).how, How::Compiled);
    assert_eq!(bench.run_with(&at("moved/elsewhere", MOVABLE), script).how, How::Hit);
}

/// The length of a text shows no byte of a path in the object.
#[test]
fn a_c_text_with_a_path_is_compiled_for_its_place() {
    for (text, options) in [
        ("int n = sizeof(\"{}\");\n", ""),
        ("int n = sizeof(__FILE__);\n", ""),
        ("int n = sizeof __BASE_FILE__;\n", ""),
        ("int n = __builtin_strlen(__builtin_FILE());\n", ""),
        ("#include \"{}/a.h\"\n", ""),
        ("#include \"a.h\"\nint n = sizeof(SIZE);\n", ""),
        ("#include \"a\"\nint n = sizeof(SIZE);\n", ""),
        ("int n = sizeof(N);\n", "-DN=\\\"{}\\\""),
        ("int n = sizeof(N);\n", "-DN=__FILE__"),
        ("int n = 1;\n", "-I{}"),
    ] {
        let is_movable = text == "int n = 1;\n";
        let bench = Bench::new();
        let header = "#define SIZE __FILE__\n";
        two_trees(&bench, &[("k.c", text), ("a.h", header), ("a", header)]);
        let script = format!("cc {options} -c {{}}/k.c -o out/k.o");
        let [here, there] = ["tree", "moved/elsewhere"].map(|tree| at(tree, MOVABLE));
        assert_eq!(bench.run_with(&here, &script).how, How::Compiled, "{text}{options}");
        let expected = if is_movable { How::Hit } else { How::Compiled };
        assert_eq!(bench.run_with(&there, &script).how, expected, "{text}{options}");
        assert_eq!(bench.run_with(&here, &script).how, How::Hit, "{text}{options}");
    }
}
