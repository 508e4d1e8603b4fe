//! Ranks on file systems without locks. `flock` is refused to real processes by a library that is loaded before the C
//! library, as a server without a lock service refuses it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{Place, square_of};

const KERNELS: usize = 12;
const RANKS: usize = 4;

/// A library with a `flock` that finds no locks.
fn refusal(place: &Place) -> PathBuf {
    let source = place
        .write("flock.c", "#include <errno.h>\nint flock(int f, int how) { errno = ENOLCK; return -1; }\n");
    let library = place.path("flock.so");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.unwrap().success());
    library
}

#[test]
fn ranks_without_locks_succeed_and_warn_once_each() {
    let place = Place::new();
    for length in 1..=KERNELS {
        place.write(&format!("net/{length}.info"), square_of(length));
    }
    let library = refusal(&place);
    let spawn = |rank: usize| -> Child {
        let mut command = place.command(&["build", "net", "--format", "json"]);
        command.env("LD_PRELOAD", &library).env("RANK_ID", rank.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for build in (0..RANKS).map(spawn).collect::<Vec<_>>() {
        let output = build.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        // A rank that finds all entries takes no lock.
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let compiled = json["compiled"].as_u64().unwrap() + json["shared"].as_u64().unwrap();
        assert_eq!(said.matches("has no locks").count(), usize::from(compiled > 0), "{said}");
        assert_eq!(
            said.lines().filter(|line| line.contains("warning")).count(),
            usize::from(compiled > 0),
            "{said}"
        );
        assert_eq!(json["failed"], 0);
    }
    // Whichever processes wrote them, and how often: they are valid, also for a process that has locks.
    assert_eq!(place.entries().len(), KERNELS);
    let require = "--op_compiler_cache_mode=require";
    let again = place.run(&["build", "net", "--format", "json", require]).ended_with(0);
    assert_eq!((again.count("reused"), again.json()["warnings"].as_array().unwrap().len()), (12, 0));
    let target = place.path("cache/v1").join(format!("cpu-{}", std::env::consts::ARCH));
    let left = ["tmp", "quarantine"].map(|name| crate::common::files(&target.join(name)));
    assert!(target.is_dir() && left.concat().is_empty(), "{left:?}");
    for rank in 0..RANKS {
        let view = crate::common::files(&place.path(&format!("rank_{rank}/kernel_meta")));
        let objects = view.iter().filter(|path| path.extension().is_some_and(|end| end == "o"));
        assert_eq!(objects.count(), KERNELS);
    }
}

/// Eviction, statistics and clearing work without locks, too.
#[test]
fn a_store_without_locks_can_be_maintained() {
    let place = Place::new();
    place.write("net/1.info", square_of(1));
    let library = refusal(&place);
    let library = library.to_str().unwrap();
    let run = |args: &[&str]| place.run_with(args, &[("LD_PRELOAD", library)]).ended_with(0);
    run(&["build", "net"]).says("has no locks");
    assert_eq!(run(&["build", "net", "--format", "json"]).count("reused"), 1);
    let stats = run(&["stats", "--format", "json"]).json();
    assert_eq!(stats["targets"][0]["statistics"]["hits"], 1);
    run(&["gc"]);
    assert_eq!(place.entries().len(), 1);
    run(&["clear"]);
    assert!(place.entries().is_empty());
}
