//! The contender follows the harness's protocol, returns no damaged entry, and counts errors.
#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "these tests damage files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Bytes of the three bodies of an entry.
const WHOLE: u64 = 8192 + 1024 + 6144;

struct Peer(TempDir);

impl Peer {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// With that number of entries.
    fn of(entries: u64) -> Self {
        let peer = Self::new();
        peer.object(&["put", "--n", &entries.to_string()]);
        peer
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_as("store", arguments)
    }

    fn run_as(&self, system: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peer"));
        command.arg(system).args(arguments).arg("--root").arg(self.0.path()).output().unwrap()
    }

    /// The line that the harness reads: the last one that begins like an object.
    #[track_caller]
    fn object(&self, arguments: &[&str]) -> Value {
        self.object_as("store", arguments)
    }

    #[track_caller]
    fn object_as(&self, system: &str, arguments: &[&str]) -> Value {
        let output = self.run_as(system, arguments);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().rfind(|line| line.starts_with('{')).unwrap()).unwrap()
    }

    fn entries(&self) -> Vec<PathBuf> {
        fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, found);
                } else if path.extension().is_some_and(|extension| extension == "kern") {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        collect(self.0.path(), &mut found);
        found
    }
}

/// Changes a byte in the object, or at `from_end`.
fn damage(path: &Path, from_end: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() - from_end;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[track_caller]
fn assert_percentiles(line: &Value, samples: u64) {
    assert_eq!(line["samples"], samples, "{line}");
    let [median, p99, mean, most] =
        ["median_us", "p99_us", "mean_us", "max_us"].map(|name| line[name].as_f64().unwrap());
    assert!(0.0 < median && median <= p99 && p99 <= most && 0.0 < mean && mean <= most, "{line}");
}

#[test]
fn put_stores_the_given_entries() {
    let peer = Peer::new();
    let line = peer.object(&["put", "--start", "5", "--n", "30"]);
    assert_eq!((&line["op"], &line["n"]), (&"put".into(), &30.into()));
    assert_percentiles(&line, 30);
    assert!(line["total_s"].as_f64().unwrap() > 0.0, "{line}");
    assert_eq!(peer.entries().len(), 30);
    // Entries 5 to 34 exist, 0 to 4 are missing.
    let line = peer.object(&["get", "--n", "5", "--lookups", "40"]);
    assert_eq!((&line["hits"], &line["bytes"]), (&0.into(), &0.into()));
}

#[test]
fn get_returns_complete_entries() {
    let peer = Peer::of(20);
    for system in ["store", "store-info"] {
        let line = peer.object_as(system, &["get", "--n", "20", "--lookups", "300", "--seed", "3"]);
        assert_eq!((&line["op"], &line["hits"]), (&"get".into(), &300.into()));
        assert_eq!(line["bytes"], 300 * WHOLE);
        assert_percentiles(&line, 300);
    }
}

#[test]
fn a_damaged_entry_is_not_returned() {
    // In the `.info`, in the object, and in the prefix.
    for from_end in [100, 6144 + 100, 6144 + 8192 + 1024 + 10] {
        let peer = Peer::of(1);
        damage(&peer.entries()[0], from_end);
        for system in ["store", "store-info"] {
            let line = peer.object_as(system, &["get", "--n", "1", "--lookups", "10"]);
            assert_eq!((&line["hits"], &line["bytes"]), (&0.into(), &0.into()), "{system} {from_end}");
            assert_percentiles(&line, 10);
        }
    }
}

#[test]
fn scan_counts_every_entry_and_evict_leaves_the_given_size() {
    let peer = Peer::of(40);
    let line = peer.object(&["scan"]);
    let files: u64 = peer.entries().iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!((&line["op"], &line["entries"]), (&"scan".into(), &40.into()));
    assert_eq!(line["bytes"], files);
    assert!(line["total_s"].as_f64().unwrap() > 0.0, "{line}");
    assert_eq!(peer.entries().len(), 40);

    let half = 20 * WHOLE;
    let line = peer.object(&["evict", "--target-bytes", &half.to_string()]);
    let left = peer.entries().len() as u64;
    assert_eq!((&line["op"], &line["removed"]), (&"evict".into(), &(40 - left).into()));
    assert!(line["bytes_left"].as_u64().unwrap() <= half, "{line}");
    assert!((15..=20).contains(&left), "{line}");
}

#[test]
fn workers_share_a_store_without_errors() {
    let peer = Peer::of(50);
    let workers: Vec<Value> = std::thread::scope(|scope| {
        let work = |id: usize| {
            let peer = &peer;
            move || {
                let id = id.to_string();
                peer.object(&["worker", "--n", "50", "--id", &id, "--seconds", "0.3", "--start-at", "0"])
            }
        };
        let threads: Vec<_> = (0..4).map(|id| scope.spawn(work(id))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for line in workers {
        let count = |name: &str| line[name].as_u64().unwrap();
        assert_eq!((count("torn"), count("errors")), (0, 0), "{line}");
        assert_eq!(count("gets"), count("hits") + count("misses"), "{line}");
        assert!(count("hits") > 0 && count("puts") > 0, "{line}");
        assert!(line["seconds"].as_f64().unwrap() >= 0.3, "{line}");
    }
}

#[test]
fn damaged_and_lost_entries_are_counted() {
    let work = |peer: &Peer| {
        let line = peer.object(&["worker", "--n", "200", "--seconds", "0.2"]);
        ["torn", "errors"].map(|name| line[name].as_u64().unwrap())
    };
    let peer = Peer::of(200);
    peer.entries().iter().for_each(|path| damage(path, 6144 + 100));
    let [torn, errors] = work(&peer);
    assert!(torn > 0 && errors == 0, "{torn} {errors}");

    let peer = Peer::of(200);
    peer.entries().iter().for_each(|path| fs::remove_file(path).unwrap());
    let [torn, errors] = work(&peer);
    assert!(torn == 0 && errors > 0, "{torn} {errors}");
}

#[test]
fn invalid_arguments_are_refused() {
    let peer = Peer::new();
    for (arguments, message) in [
        (&["fetch"][..], "found `fetch`, expected put"),
        (&["get", "--n", "many"], "`--n many` is no number"),
        (&["get", "--n", "0"], "`--n` is 0"),
        (&["get", "n"], "expected `--name value`"),
    ] {
        let output = peer.run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(message), "{arguments:?}: {text}");
    }
}
