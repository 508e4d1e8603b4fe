//! One lock holder a key, among threads and processes, some of which are killed. The test program runs itself as the others.

#![expect(clippy::disallowed_methods, reason = "these processes communicate through files")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::common::{Children, child, fresh, key, lock, names, open, trial, until, within};
use libtest_mimic::Trial;
use opkeep_digest::Digest;
use opkeep_store::{LockOutcome, StoreError, TargetStore, WaitOptions};
use rustix::process::{Pid, Signal, kill_process};

const LONG: Duration = Duration::from_secs(20);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("threads_and_processes_exclude_each_other", threads_and_processes_exclude_each_other),
        trial("one_of_four_waiters_takes_over_from_a_killed_holder", one_of_four_takes_over),
        trial("all_waiters_share_a_failure", all_waiters_share_a_failure),
        trial("a_process_that_did_not_wait_tries_for_itself", a_process_that_did_not_wait_tries_for_itself),
        trial("a_reason_of_a_killed_holder_is_not_passed_on", a_reason_of_a_killed_holder),
        trial("a_note_of_a_killed_holder_is_for_the_next_one", a_note_of_a_killed_holder),
        trial("no_update_is_lost_when_locks_come_and_go", no_update_is_lost),
        trial("waiting_ends_at_the_deadline", waiting_ends_at_the_deadline),
        trial("waiting_ends_when_cancelled", waiting_ends_when_cancelled),
        trial("a_killed_process_leaves_no_lock", a_killed_process_leaves_no_lock),
        trial("a_stopped_holder_keeps_its_lock", a_stopped_holder_keeps_its_lock),
        trial("a_lock_that_is_a_link_is_refused", a_lock_that_is_a_link),
        trial("keys_do_not_wait_for_each_other", keys_do_not_wait),
        trial("waiters_poll_often_and_do_not_spin", waiters_poll_often),
        trial("only_its_own_file_is_removed", only_its_own_file_is_removed),
        trial("a_directory_in_place_of_the_lock_is_an_error", a_directory_in_place_of_the_lock),
    ]
}

pub(crate) fn other_process(arguments: &[String]) {
    let [how, root, file] = arguments else { panic!("{arguments:?}") };
    let (store, file) = (open(Path::new(root)), Path::new(file));
    match how.as_str() {
        // Takes the lock, reports that, and never releases it.
        "hold" => {
            let _held = lock(&store, &key("relu"));
            fs::write(file, "").unwrap();
            sleep(Duration::from_secs(600));
        }
        "note" => {
            let held = lock(&store, &key("relu"));
            held.set_note("a longer one");
            held.set_note("the last");
            fs::write(file, "").unwrap();
            sleep(Duration::from_secs(600));
        }
        // Appends a byte at each poll, then reports that it has the lock; holds it until the test ends it.
        "wait" => {
            let mut options = fs::OpenOptions::new();
            let polls = options.create(true).append(true).open(file.with_extension("polls")).unwrap();
            let waits = || {
                (&polls).write_all(b".").unwrap();
                false
            };
            let options = WaitOptions::new(&waits).with_deadline(Instant::now().checked_add(LONG));
            let LockOutcome::Acquired(held) = store.lock(&key("relu"), options).unwrap() else { panic!() };
            assert!(held.waited());
            fs::write(file.with_extension("took"), "").unwrap();
            let end = file.with_file_name("end");
            until("the end", || end.exists());
        }
        "count" => count(&store, file, 2, 60),
        other => panic!("{other}"),
    }
}

/// Adds to the number in `file`, in a way that loses updates unless the lock keeps others out.
fn count(store: &TargetStore, file: &Path, threads: usize, times: usize) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..times {
                    let _held = lock(store, &key("relu"));
                    let number: usize = fs::read_to_string(file).unwrap().parse().unwrap();
                    thread::yield_now();
                    fs::write(file, (number + 1).to_string()).unwrap();
                }
            });
        }
    });
}

fn spawn(how: &str, root: &Path, file: &Path) -> Child {
    child("lock", &[how, root.to_str().unwrap(), file.to_str().unwrap()]).spawn().unwrap()
}

/// A process that holds the lock.
fn spawn_holder(root: &Path) -> Children {
    let file = root.join("held");
    let holder = Children(vec![spawn("hold", root, &file)]);
    until("the holder", || file.exists());
    holder
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn lock_path(store: &TargetStore, key: &Digest) -> PathBuf {
    store.dir().join("locks").join(key.to_string())
}

fn assert_no_locks_left(store: &TargetStore) {
    assert!(names(&store.dir().join("locks")).is_empty(), "{:?}", names(&store.dir().join("locks")));
}

fn threads_and_processes_exclude_each_other() {
    let (directory, store) = fresh();
    let file = directory.path().join("number");
    fs::write(&file, "0").unwrap();
    let mut others = Children((0..2).map(|_| spawn("count", directory.path(), &file)).collect());
    count(&store, &file, 2, 60);
    for other in &mut others.0 {
        assert!(other.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "360");
    assert_no_locks_left(&store);
}

fn one_of_four_takes_over() {
    let (directory, store) = fresh();
    let root = directory.path();
    let mut holder = spawn_holder(root);
    let files: Vec<_> = (0..4).map(|i| root.join(format!("waiter{i}"))).collect();
    let mut waiters = Children(files.iter().map(|file| spawn("wait", root, file)).collect());
    let took = |file: &PathBuf| file.with_extension("took").exists();
    let count = || files.iter().filter(|file| took(file)).count();
    let polls = |file: &PathBuf| fs::metadata(file.with_extension("polls")).map_or(0, |file| file.len());
    // After eight polls they poll at the lowest rate.
    until("four that wait", || files.iter().all(|file| polls(file) >= 8));
    assert_eq!(count(), 0);

    let began = Instant::now();
    holder.0[0].kill().unwrap();
    holder.0[0].wait().unwrap();
    let before: Vec<u64> = files.iter().map(polls).collect();
    until("one to take over", || count() > 0);
    println!("one of four took over {:?} after the holder was killed; promised are 50 ms", began.elapsed());
    // Each poll comes 20 ms after the last one at the latest, and one may have found the lock held before the kill.
    let polled = |at: usize| polls(&files[at]) - before[at];
    let first = files.iter().position(took).unwrap();
    assert!(polled(first) <= 1, "it took the lock after {} more polls", polled(first));
    until("the others to poll again", || (0..4).filter(|at| *at != first).all(|at| polled(at) >= 2));
    assert_eq!(count(), 1);

    fs::write(root.join("end"), "").unwrap();
    for waiter in &mut waiters.0 {
        assert!(waiter.wait().unwrap().success());
    }
    assert_eq!(count(), 4);
    assert_no_locks_left(&store);
}

/// Lets `waiters` threads wait for a lock, then ends its holder with `release`. Returns the outcomes of the waiters.
fn waiters(store: &TargetStore, waiters: usize, release: impl FnOnce() + Send) -> Vec<LockOutcome> {
    let waiting: Vec<_> = (0..waiters).map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = waiting
            .iter()
            .map(|waiting| {
                scope.spawn(|| {
                    let say = || {
                        waiting.store(true, Ordering::Relaxed);
                        false
                    };
                    let wait = WaitOptions::new(&say).with_deadline(Instant::now().checked_add(LONG));
                    store.lock(&key("relu"), wait).unwrap()
                })
            })
            .collect();
        until("all that wait", || waiting.iter().all(|waiting| waiting.load(Ordering::Relaxed)));
        release();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn all_waiters_share_a_failure() {
    let (_dir, store) = fresh();
    let reasons = ["`Relu` has no int4 kernel".to_owned(), String::new(), "long é ".repeat(20_000)];
    for reason in &reasons {
        let held = lock(&store, &key("relu"));
        for outcome in waiters(&store, 6, || held.release_with_failure(reason)) {
            let LockOutcome::HolderFailed(found) = outcome else { panic!("{outcome:?}") };
            assert!(reason.starts_with(&found), "{found}");
            assert!(found.len() == reason.len() || found.len() > 60_000, "{}", found.len());
        }
        assert_no_locks_left(&store);
    }
}

fn a_process_that_did_not_wait_tries_for_itself() {
    let (_dir, store) = fresh();
    lock(&store, &key("relu")).release_with_failure("deterministic");
    let LockOutcome::Acquired(held) = within(&store, &key("relu"), Duration::ZERO) else { panic!() };
    assert!(!held.waited());
    // Nor does success look like failure to the waiters.
    let outcomes = waiters(&store, 1, || drop(held));
    assert!(matches!(&outcomes[..], [LockOutcome::Acquired(lock)] if lock.waited()), "{outcomes:?}");
}

/// A holder may be killed after it wrote the reason of its failure, and before it removed the file.
fn a_reason_of_a_killed_holder() {
    let (_dir, store) = fresh();
    fs::write(lock_path(&store, &key("relu")), "failed: long ago").unwrap();
    let held = lock(&store, &key("relu"));
    assert!(!held.waited());
    let outcomes = waiters(&store, 1, || drop(held));
    assert!(matches!(&outcomes[..], [LockOutcome::Acquired(_)]), "{outcomes:?}");
    drop(outcomes);
    assert_no_locks_left(&store);
}

/// A note is left by a holder that is killed only, and read by one holder only.
fn a_note_of_a_killed_holder() {
    let (dir, store) = fresh();
    let file = dir.path().join("held");
    let mut holder = Children(vec![spawn("note", dir.path(), &file)]);
    until("the holder", || file.exists());
    let outcomes = waiters(&store, 1, || {
        holder.0[0].kill().unwrap();
        holder.0[0].wait().unwrap();
    });
    let [LockOutcome::Acquired(next)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!((next.left_note(), next.waited()), (Some("the last"), true));
    // A holder that releases the lock leaves nothing, nor does what another program writes.
    next.set_note("mine");
    drop(outcomes);
    assert_eq!(lock(&store, &key("relu")).left_note(), None);
    for other in ["failed: long ago", "note", "lease 0"] {
        fs::write(lock_path(&store, &key("relu")), other).unwrap();
        assert_eq!(lock(&store, &key("relu")).left_note(), None, "{other}");
    }
    // Whoever comes later reads it as well.
    fs::write(lock_path(&store, &key("relu")), "note: of one who was killed").unwrap();
    let later = lock(&store, &key("relu"));
    assert_eq!((later.left_note(), later.waited()), (Some("of one who was killed"), false));
    drop(later);
    assert_no_locks_left(&store);
}

fn no_update_is_lost() {
    const THREADS: u64 = 8;
    const TIMES: u64 = 250;
    let (_dir, store) = fresh();
    let (number, inside) = (AtomicU64::new(0), AtomicBool::new(false));
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..TIMES {
                    let _held = lock(&store, &key("relu"));
                    assert!(!inside.swap(true, Ordering::SeqCst), "two hold the lock");
                    // Not atomic: without the lock an update is lost.
                    let found = number.load(Ordering::Relaxed);
                    thread::yield_now();
                    number.store(found + 1, Ordering::Relaxed);
                    inside.store(false, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(number.into_inner(), THREADS * TIMES);
    assert_no_locks_left(&store);
}

fn waiting_ends_at_the_deadline() {
    let (_dir, store) = fresh();
    let _held = lock(&store, &key("relu"));
    for time in [Duration::ZERO, Duration::from_millis(150)] {
        let began = Instant::now();
        let outcome = within(&store, &key("relu"), time);
        assert!(matches!(outcome, LockOutcome::TimedOut), "{outcome:?}");
        let waited = began.elapsed();
        assert!(waited >= time && waited < time + LONG, "{waited:?} of {time:?}");
    }
    assert!(lock_path(&store, &key("relu")).exists(), "the holder's lock stays");
}

fn waiting_ends_when_cancelled() {
    let (_dir, store) = fresh();
    let held = lock(&store, &key("relu"));
    let asked = AtomicU64::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) == 3;
    let outcome = store.lock(&key("relu"), WaitOptions::new(&cancelled)).unwrap();
    assert!(matches!(outcome, LockOutcome::Cancelled), "{outcome:?}");
    assert_eq!(asked.into_inner(), 4, "it ends with the first cancellation");
    drop(held);
    assert_no_locks_left(&store);
}

fn a_killed_process_leaves_no_lock() {
    let (directory, store) = fresh();
    let mut holder = spawn_holder(directory.path());
    assert!(matches!(within(&store, &key("relu"), Duration::ZERO), LockOutcome::TimedOut));
    holder.0[0].kill().unwrap();
    holder.0[0].wait().unwrap();
    assert!(lock_path(&store, &key("relu")).exists(), "killed, it cannot have removed its file");
    let LockOutcome::Acquired(held) = within(&store, &key("relu"), Duration::ZERO) else { panic!() };
    assert!(!held.waited());
    drop(held);
    assert_no_locks_left(&store);
}

fn a_stopped_holder_keeps_its_lock() {
    let (directory, store) = fresh();
    let mut holder = spawn_holder(directory.path());
    signal(&holder.0[0], Signal::STOP);
    let outcome = within(&store, &key("relu"), Duration::from_millis(200));
    assert!(matches!(outcome, LockOutcome::TimedOut), "{outcome:?}");
    signal(&holder.0[0], Signal::CONT);
    assert!(matches!(within(&store, &key("relu"), Duration::ZERO), LockOutcome::TimedOut));
    holder.0[0].kill().unwrap();
    assert!(matches!(within(&store, &key("relu"), LONG), LockOutcome::Acquired(_)));
}

fn a_lock_that_is_a_link() {
    let (directory, store) = fresh();
    let elsewhere = directory.path().join("elsewhere");
    for there in [true, false] {
        let path = lock_path(&store, &key("relu"));
        symlink(&elsewhere, &path).unwrap();
        if there {
            fs::write(&elsewhere, "precious").unwrap();
        }
        let error = store.lock(&key("relu"), WaitOptions::new(&|| false)).map(drop).unwrap_err();
        assert!(matches!(&error, StoreError::Io { path: found, .. } if *found == path), "{error:?}");
        if there {
            assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
            fs::remove_file(&elsewhere).unwrap();
        } else {
            assert!(!elsewhere.exists());
        }
        fs::remove_file(path).unwrap();
    }
}

fn keys_do_not_wait() {
    let (_dir, store) = fresh();
    let _one = lock(&store, &key("one"));
    assert!(matches!(within(&store, &key("two"), Duration::ZERO), LockOutcome::Acquired(_)));
    // Another target's lock on the same key is another lock.
    let other = store.dir().parent().and_then(Path::parent).map(opkeep_store::StoreConfig::new).unwrap();
    let other = opkeep_store::Store::open(other).unwrap().target("Ascend910B1").unwrap();
    assert!(matches!(within(&other, &key("one"), Duration::ZERO), LockOutcome::Acquired(_)));
}

fn a_directory_in_place_of_the_lock() {
    let (_dir, store) = fresh();
    fs::create_dir(lock_path(&store, &key("relu"))).unwrap();
    let outcome = store.lock(&key("relu"), WaitOptions::new(&|| false));
    assert!(matches!(outcome, Err(StoreError::Io { action: "open the lock", .. })), "{outcome:?}");
}

/// `src/lock.rs` tests the lowest rate; here it depends on the load of the machine.
fn waiters_poll_often() {
    let (_dir, store) = fresh();
    let _held = lock(&store, &key("relu"));
    let polls = AtomicU64::new(0);
    let count = || polls.fetch_add(1, Ordering::Relaxed) == u64::MAX;
    let deadline = Instant::now().checked_add(Duration::from_secs(1));
    let outcome = store.lock(&key("relu"), WaitOptions::new(&count).with_deadline(deadline)).unwrap();
    assert!(matches!(outcome, LockOutcome::TimedOut), "{outcome:?}");
    // The shortest pause throughout would come to 1000.
    let polls = polls.into_inner();
    assert!((2..200).contains(&polls), "{polls} in a second");
}

/// Another process cleared `locks/` by hand, and another took the lock since.
fn only_its_own_file_is_removed() {
    let (_dir, store) = fresh();
    let first = lock(&store, &key("relu"));
    fs::remove_file(lock_path(&store, &key("relu"))).unwrap();
    let _second = lock(&store, &key("relu"));
    drop(first);
    assert!(matches!(within(&store, &key("relu"), Duration::ZERO), LockOutcome::TimedOut));
}
