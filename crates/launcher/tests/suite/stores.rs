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

/// A full disk is not laid here; a directory without permission refuses writes in the same way, except to root.
#[test]
fn a_store_that_refuses_writes_fails_nothing() {
    let bench = Bench::new();
    assert_eq!(bench.how("echo x > out/k"), How::Compiled);
    let entries = bench.path("store");
    let limited = Setup::default();
    crate::common::set_mode(&entries, 0o500);
    let ran = bench.run_with(&limited, "echo y > out/k");
    crate::common::set_mode(&entries, 0o700);
    assert_eq!(ran.code, Some(0));
    assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "y\n");
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
