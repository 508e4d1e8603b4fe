//! The cost of a look-up and a put: calls to the kernel, as `strace` counts them, and allocations. Neither
//! depends on the machine's speed, and both are asserted exactly: a change of one of them is a change here, with its reason.

#![expect(clippy::disallowed_methods, reason = "this test reads what `strace` wrote")]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{CHILD, Created, fresh, key, open, trial};
use libtest_mimic::Trial;
use opkeep_store::{Lookup, Overwrite, PutOutcome, TargetStore};
use opkeep_testkit::allocations;

/// Calls with which an allocator gets memory from the kernel, every now and then.
const OF_ALLOCATORS: [&str; 5] = ["brk", "mmap", "munmap", "mremap", "madvise"];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("system_calls_of_a_hit", || calls("hit", &HIT)).with_ignored_flag(!can_trace()),
        trial("system_calls_of_a_miss", || calls("miss", &MISS)).with_ignored_flag(!can_trace()),
        trial("system_calls_of_a_put", || calls("put", &PUT)).with_ignored_flag(!can_trace()),
        trial("system_calls_of_a_put_of_what_is_there", || calls("put again", &PUT_AGAIN))
            .with_ignored_flag(!can_trace()),
        trial("pieces_of_memory", pieces_of_memory),
    ]
}

const HIT: [(&str, u64); 4] = [("openat2", 1), ("fstat", 1), ("read", 1), ("close", 1)];
const MISS: [(&str, u64); 1] = [("openat2", 1)];
/// It checks whether the entry exists, and opens the entry's directory, `tmp` to check it, `tmp` to write, and in that the
/// temporary file.
const PUT: [(&str, u64); 9] = [
    ("openat2", 3),
    ("openat", 1),
    ("fstat", 2),
    ("write", 1),
    ("fchmod", 1),
    ("fdatasync", 1),
    ("renameat", 1),
    ("close", 3),
    ("getpid", 1),
];
/// It is only read, as by a hit.
const PUT_AGAIN: [(&str, u64); 4] = HIT;

/// Runs the counted operation, after a first time that is not counted.
pub(crate) fn other_process(arguments: &[String]) {
    let [what, root, times] = arguments else { panic!("{arguments:?}") };
    let (what, root, times): (&str, _, usize) = (what, Path::new(root), times.parse().unwrap());
    let (store, made) = (open(root), Created::new("relu", 1));
    // In one directory, which the first put creates.
    let numbered = (0..).map(|number: u64| key(&number.to_string()));
    let keys: Vec<_> = numbered.filter(|key| key.as_bytes()[0] == 0).take(times + 1).collect();
    store.put(&key("relu"), &made.entry()).unwrap();
    for one in &keys {
        match what {
            "hit" => assert!(is_hit(&store)),
            "miss" => assert!(matches!(store.get(&key("absent")), Lookup::Miss(_))),
            "put" => assert_eq!(store.put(one, &made.entry()).unwrap(), PutOutcome::Published),
            "put again" => assert_eq!(store.put(&key("relu"), &made.entry()).unwrap(), PutOutcome::Existing),
            other => panic!("{other}"),
        }
    }
}

fn is_hit(store: &TargetStore) -> bool {
    matches!(black_box(store.get(&key("relu"))), Lookup::Hit(_))
}

/// Whether there is an `strace`, and it may look at our processes.
fn can_trace() -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    strace.status().is_ok_and(|status| status.success())
}

/// Runs it 5 and 25 times: the difference is the cost of 20 times, and each must cost the same.
fn calls(what: &str, expected: &[(&str, u64)]) {
    let [few, many] = [5, 25].map(|times| traced(what, times));
    let names: std::collections::BTreeSet<&String> = few.keys().chain(many.keys()).collect();
    let count = |calls: &BTreeMap<String, u64>, name: &String| calls.get(name).copied().unwrap_or(0);
    let mut found = BTreeMap::new();
    for name in names.into_iter().filter(|name| !OF_ALLOCATORS.contains(&name.as_str())) {
        let more = count(&many, name).checked_sub(count(&few, name)).unwrap();
        assert_eq!(more % 20, 0, "`{name}` is not called as often each time: {more} in 20");
        if more > 0 {
            found.insert(name.as_str(), more / 20);
        }
    }
    assert_eq!(found, expected.iter().copied().collect(), "{what}");
}

/// The calls of a process that runs it this many times, and once more.
fn traced(what: &str, times: usize) -> BTreeMap<String, u64> {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("calls");
    let mut strace = Command::new("strace");
    strace.arg("-f").arg("-o").arg(&log).arg(std::env::current_exe().unwrap());
    strace.args([CHILD, "counts", what]).arg(directory.path().join("store")).arg(times.to_string());
    assert!(strace.status().unwrap().success());
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        // `PID NAME(ARGUMENTS) = RESULT`; signals and ends of processes have another form.
        let call = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
        // With assertions the standard library checks that a file is open before it closes it.
        let call = call.filter(|(name, rest)| !name.contains(' ') && !rest.contains("F_GETFD"));
        if let Some((name, _)) = call {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

fn pieces_of_memory() {
    let (_dir, store) = fresh();
    let made = Created::new("relu", 1);
    store.put(&key("relu"), &made.entry()).unwrap();
    // Its directory is checked once.
    assert!(is_hit(&store));
    let each = |run: &mut dyn FnMut()| {
        let (_, first) = allocations(&mut *run);
        let (_, ten) = allocations(|| (0..10).for_each(|_| run()));
        assert_eq!(ten, 10 * first, "as many each time");
        first
    };
    let hit = each(&mut || assert!(is_hit(&store)));
    let miss = each(&mut || drop(store.get(&key("absent"))));
    let entry = made.entry();
    let put = each(&mut || _ = store.put_replacing(&key("relu"), &entry, Overwrite::Always).unwrap());
    assert_eq!([hit, miss, put], [8, 5, 12]);
}
