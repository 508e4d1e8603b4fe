//! What a hit writes is what the command writes.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use opkeep_launcher::{How, Reason};

use crate::common::{Bench, Setup, reason, set_mode};

#[test]
fn modes_empty_files_and_second_names_come_back() {
    let bench = Bench::new();
    let script = ": > out/empty; echo x > out/x; chmod 750 out/x; ln out/x out/y; echo z > out/z; chmod 400 out/z; echo text";
    assert_eq!(bench.how(script), How::Compiled);
    fs::remove_dir_all(bench.path("tree/out")).unwrap();
    fs::create_dir(bench.path("tree/out")).unwrap();
    let hit = bench.run(script);
    assert_eq!((hit.how, hit.texts.out.as_slice()), (How::Hit, &b"text\n"[..]));
}

#[test]
fn an_old_output_is_replaced() {
    let bench = Bench::new();
    bench.write("tree/in", "one");
    let script = "rm -f out/k; cp in out/k";
    assert_eq!(bench.how(script), How::Compiled);
    bench.write("tree/out/k", "another text");
    set_mode(&bench.path("tree/out/k"), 0o444);
    assert_eq!(bench.how(script), How::Hit);
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "one");
}

/// Its other name keeps its content, as with a compiler that removes its old output: the command itself does that.
#[test]
fn another_name_of_an_old_output_keeps_its_content() {
    let bench = Bench::new();
    let script = "rm -f out/k; echo new > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    bench.write("tree/kept", "of before");
    bench.remove("tree/out/k");
    fs::hard_link(bench.path("tree/kept"), bench.path("tree/out/k")).unwrap();
    assert_ne!(bench.how(script), How::Hit);
    assert_eq!(fs::read_to_string(bench.path("tree/kept")).unwrap(), "of before");
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "new\n");
}

/// The command itself decides what becomes of a link: this one writes through it.
#[test]
fn an_output_is_written_through_a_link() {
    let bench = Bench::new();
    let lay = || {
        bench.write("tree/real", "of before");
        let _ = fs::remove_file(bench.path("tree/out/k"));
        symlink("../real", bench.path("tree/out/k")).unwrap();
    };
    lay();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let script = "echo new > out/k";
    for _ in 0..2 {
        lay();
        let before = fs::symlink_metadata(bench.path("tree/out/k")).unwrap().ino();
        assert_ne!(bench.how(script), How::Hit);
        assert_eq!(fs::symlink_metadata(bench.path("tree/out/k")).unwrap().ino(), before);
        assert_eq!(fs::read_to_string(bench.path("tree/real")).unwrap(), "new\n");
    }
}

#[test]
fn a_link_that_the_command_makes_is_not_kept() {
    let bench = Bench::new();
    let script = "echo x > out/x; ln -s x out/k";
    assert!(matches!(reason(bench.how(script)), Reason::OutputKind(path) if path.ends_with("out/k")));
}

#[test]
fn directories_that_the_command_makes_come_back() {
    let bench = Bench::new();
    bench.write("tree/in", "x");
    fs::remove_dir(bench.path("tree/out")).unwrap();
    let script = "mkdir -p out/a/b; chmod 700 out/a; cat in > out/a/b/k";
    assert_eq!(bench.how(script), How::Compiled);
    for _ in 0..2 {
        fs::remove_dir_all(bench.path("tree/out")).unwrap();
        assert_eq!(bench.how(script), How::Hit);
    }
    // With directories that are there already, the command makes none.
    assert_eq!(bench.how(script), How::Compiled);
}

/// The command fails where its directory is missing, and so does a run with a launcher.
#[test]
fn a_missing_directory_is_not_made_by_a_hit() {
    let bench = Bench::new();
    let script = "cc -x c -c -o out/k.o /dev/null";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    fs::remove_dir_all(bench.path("tree/out")).unwrap();
    let failed = bench.run(script);
    assert_eq!((failed.how, failed.code), (How::NotKept(Reason::Failed), Some(1)));
    assert!(String::from_utf8(failed.texts.err).unwrap().contains("out/k.o"));
    assert!(!bench.path("tree/out").exists());
}

/// The first run found the directories; one that makes them has a result that can be used everywhere.
#[test]
fn a_result_without_directories_is_replaced() {
    let bench = Bench::new();
    let script = "mkdir -p out; echo x > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    fs::remove_dir_all(bench.path("tree/out")).unwrap();
    assert_eq!(bench.how(script), How::Compiled);
    fs::remove_dir_all(bench.path("tree/out")).unwrap();
    assert_eq!(bench.how(script), How::Hit);
}

/// The run saw two states of the directory: a later one sees one of them.
#[test]
fn a_directory_that_another_hand_makes_is_a_change() {
    let bench = Bench::new();
    fs::remove_dir(bench.path("tree/out")).unwrap();
    let script =
        "[ -e out ]; echo ready; until [ -e out ]; do sleep 0.01; done; mkdir -p out; echo x > out/k";
    let ran =
        bench.run_watched(&Setup::default(), script, &|_| fs::create_dir(bench.path("tree/out")).unwrap());
    assert_eq!(ran.how, How::NotKept(Reason::Changed(bench.path("tree/out"))));
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.raw(&Setup::default(), script).how, How::Hit);
}

#[test]
fn an_output_that_the_command_removes_is_not_written() {
    let bench = Bench::new();
    let script = "echo x > out/gone; echo y > out/k; rm out/gone";
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
    assert!(!bench.path("tree/out/gone").exists());
    // Here the command removes a file that is there.
    bench.write("tree/out/gone", "of before");
    let again = format!("{script} # again");
    assert!(matches!(reason(bench.how(&again)), Reason::Removed(path) if path.ends_with("out/gone")));
}

#[test]
fn a_directory_at_an_outputs_path_is_left() {
    let bench = Bench::new();
    let script = "echo x > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    bench.remove("tree/out/k");
    fs::create_dir(bench.path("tree/out/k")).unwrap();
    assert_eq!(bench.run(script).how, How::NotKept(Reason::Failed));
    assert!(bench.path("tree/out/k").is_dir());
}

/// A task with other options, but the same output, waits until the result of the first one is stored: whether it runs, or is a hit.
#[test]
fn tasks_with_one_output_run_in_turn() {
    for is_hit in [false, true] {
        let bench = Bench::new();
        let (slow, other) = ("echo slow > out/k; echo ready; sleep 1", "echo other > out/k");
        if is_hit {
            assert_eq!(bench.how(other), How::Compiled);
        }
        std::thread::scope(|scope| {
            let begin = |_: &[u8]| drop(scope.spawn(|| bench.raw(&Setup::default(), other)));
            assert_eq!(bench.run_watched(&Setup::default(), slow, &begin).how, How::Compiled);
        });
        assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "other\n");
        bench.remove("tree/out/k");
        assert_eq!(bench.how(slow), How::Hit);
    }
}
