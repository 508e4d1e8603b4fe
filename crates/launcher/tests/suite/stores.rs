//! A problem of the store never fails a command.

use std::fs;

use opkeep_embed::CacheMode;
use opkeep_launcher::{How, Reason};

use crate::common::{Bench, Setup, reason};

#[test]
fn a_store_that_is_only_read_keeps_nothing() {
    let bench = Bench::new();
    let reader = Setup { mode: CacheMode::ReadOnly, ..Setup::default() };
    let script = "echo x > out/k";
    assert_eq!(bench.how("echo other > out/k"), How::Compiled);
    assert!(matches!(reason(bench.run_with(&reader, script).how), Reason::Store(_)));
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.run_with(&reader, script).how, How::Hit);
}

#[test]
fn a_store_that_cannot_be_used_fails_nothing() {
    let bench = Bench::new();
    bench.write("file", "");
    let without = Setup { store: Some(bench.path("file/store")), ..Setup::default() };
    for _ in 0..2 {
        let ran = bench.run_with(&without, "echo x > out/k; echo text");
        assert_eq!((ran.code, ran.texts.out.as_slice()), (Some(0), &b"text\n"[..]));
        assert!(matches!(reason(ran.how), Reason::Store(_)));
    }
}

#[test]
fn a_full_disk_fails_nothing() {
    let bench = Bench::new();
    let full = Setup { is_full: true, ..Setup::default() };
    assert_eq!(bench.how("echo x > out/k"), How::Compiled);
    let ran = bench.run_with(&full, "echo y > out/k");
    assert_eq!(ran.code, Some(0));
    assert!(matches!(reason(ran.how), Reason::Store(_)));
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "y\n");
    // What is stored is still used.
    assert_eq!(bench.run_with(&full, "echo x > out/k").how, How::Hit);
}

#[test]
fn a_mode_that_reads_nothing_runs_the_command() {
    let bench = Bench::new();
    bench.write("tree/in", "x");
    let script = "cat in > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    for (mode, how) in [(CacheMode::Force, How::Compiled), (CacheMode::Enable, How::Hit)] {
        assert_eq!(bench.run_with(&Setup { mode, ..Setup::default() }, script).how, how);
    }
    let disabled = Setup { mode: CacheMode::Disable, ..Setup::default() };
    assert!(matches!(reason(bench.run_with(&disabled, script).how), Reason::Store(_)));
    let required = Setup { mode: CacheMode::Require, ..Setup::default() };
    assert_eq!(bench.run_with(&required, script).how, How::Hit);
}

/// A damaged entry is not used: the command runs again.
#[test]
fn a_damaged_store_is_a_miss() {
    let bench = Bench::new();
    bench.write("tree/in", "some text that is in the stored result");
    let script = "cat in > out/k";
    assert_eq!(bench.how(script), How::Compiled);
    let mut damaged = 0;
    let mut dirs = vec![bench.path("store")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let mut bytes = fs::read(&path).unwrap();
            if let Some(at) = bytes.windows(9).position(|part| part == b"some text") {
                bytes[at] ^= 1;
                fs::write(&path, bytes).unwrap();
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1);
    assert_eq!(bench.how(script), How::Compiled);
    assert_eq!(bench.how(script), How::Hit);
}
