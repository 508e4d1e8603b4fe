//! Known races of kernel caches, each provoked at every access to the disk where it is possible.
//!
//! [`FaultyDisk::interrupt`] runs another process between two accesses of an operation, so that a race which would
//! otherwise occur once in a million runs occurs each time. Stopped holders, takeovers and crowds are in `lock.rs`.

#![expect(clippy::disallowed_methods, reason = "these tests look at what was raced for, and run themselves")]

use std::fs;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{
    Children, Created, TARGET, child, fresh, hit, key, lock, miss, names, open, place, snapshot, trial,
    until, within,
};
use libtest_mimic::Trial;
use opkeep_digest::Digest;
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{
    DamagedEntry, Entry, GcOptions, LockOutcome, Lookup, Miss, Overwrite, PutOutcome, Store, StoreConfig,
    TargetStore, TryLockOutcome, WaitOptions,
};
use opkeep_testkit::fault::{Fault, FaultyDisk};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};
use tempfile::TempDir;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_lock_on_a_replaced_file_is_no_lock", a_lock_on_a_replaced_file),
        trial("a_released_lock_has_one_next_holder", a_released_lock),
        trial("a_child_that_was_left_running_holds_no_lock", a_child_that_outlives_the_holder),
        trial("a_forked_child_does_not_keep_a_lock", a_forked_child).with_ignored_flag(!can_inherit()),
        trial("all_waiters_get_the_failure_at_once", all_waiters_get_the_failure),
        trial("a_holder_with_a_heartbeat_is_not_stale", a_holder_with_a_heartbeat),
        trial("a_waiter_recreates_a_deleted_directory", a_waiter_recreates_a_deleted_directory),
        trial("a_file_system_without_locks", a_file_system_without_locks),
        trial("an_entry_put_during_the_quarantine_of_another", a_concurrently_put_entry),
        trial("an_entry_removed_before_its_quarantine", a_concurrently_removed_entry),
        trial("two_puts_during_the_quarantine_of_another", two_concurrent_puts),
        trial("a_kill_before_an_entry_is_restored", a_kill_before_an_entry_is_restored),
        trial("an_entry_replaced_before_is_not_moved", an_entry_that_is_about_to_be_replaced),
        trial("an_entry_put_while_it_is_evicted", an_entry_put_while_it_is_evicted),
        trial("an_entry_used_while_it_is_evicted", an_entry_used_while_it_is_evicted),
        trial("an_entry_in_progress_is_not_evicted", an_entry_in_progress),
        trial("two_processes_create_one_directory", two_processes_create_one_directory),
        trial("a_process_between_two_calls_finds_intact_entries", a_process_between_two_calls),
    ]
}

/// A process that waits for a job token holds the lock for long, and is not stale.
fn a_holder_with_a_heartbeat() {
    let (_dir, store) = fresh();
    let held = lock(&store, &key("relu"));
    let TryLockOutcome::Held(mut wait) = store.try_lock(&key("relu")).unwrap() else { panic!("it is held") };
    let stale_after = Duration::from_millis(100);
    assert!(!wait.is_stale(Duration::from_secs(20)));
    for _ in 0..3 {
        sleep(Duration::from_millis(150));
        held.heartbeat();
        assert!(!wait.is_stale(stale_after), "it has just given a heartbeat");
    }
    sleep(Duration::from_millis(150));
    assert!(wait.is_stale(stale_after));
    let waits = store.statistics().waits;
    store.cancel_wait(wait);
    assert_eq!(store.statistics().waits, waits + 1);
}

/// A user deletes the locks.
fn a_waiter_recreates_a_deleted_directory() {
    let (_dir, store) = fresh();
    let held = lock(&store, &key("relu"));
    let TryLockOutcome::Held(wait) = store.try_lock(&key("relu")).unwrap() else { panic!("it is held") };
    fs::remove_dir_all(store.dir().join("locks")).unwrap();
    drop(held);
    assert!(matches!(store.poll(wait).unwrap(), TryLockOutcome::Acquired(_)));
}

/// An empty store, and another handle on it for concurrent operations.
fn watched() -> (TempDir, TargetStore, TargetStore, Arc<FaultyDisk>) {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let config = StoreConfig::new(directory.path()).with_watcher(disk.clone());
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    (directory, store, raced, disk)
}

/// Runs `round` for each call of an operation: it runs another process before the call with the given number, runs the
/// operation, and checks the outcome. Ends when there is no such call. Returns the number of calls.
fn at_every_call(disk: &FaultyDisk, mut round: impl FnMut(usize)) -> usize {
    for at in 1..1000 {
        round(at);
        if !disk.has_sprung() {
            disk.disarm();
            assert!(at > 1, "the operation makes no calls");
            return at - 1;
        }
    }
    panic!("no end");
}

/// A waiter has the file open, its holder removes it and releases it, and a third takes the lock on a new file. The file
/// that the waiter locks then is no lock.
fn a_lock_on_a_replaced_file() {
    let (_dir, store, raced, disk) = watched();
    at_every_call(&disk, |at| {
        let (first, third) = (lock(&store, &key("relu")), Arc::new(Mutex::new(None)));
        let (taken, other) = (Arc::clone(&third), store.clone());
        disk.interrupt(at, move || {
            drop(first);
            // `None` if the waiter has it by now.
            if let LockOutcome::Acquired(held) = within(&other, &key("relu"), Duration::ZERO) {
                *taken.lock().unwrap() = Some(held);
            }
        });
        let outcome = within(&raced, &key("relu"), Duration::from_millis(8));
        let third = third.lock().unwrap().take();
        let holders = usize::from(third.is_some()) + usize::from(matches!(outcome, LockOutcome::Acquired(_)));
        assert!(holders == 1 || !disk.has_sprung(), "{holders} hold the lock: {at}, {outcome:?}");
    });
}

/// The holder releases the lock between any two calls of a waiter: the waiter gets it, and it is a valid lock.
fn a_released_lock() {
    let (_dir, store, raced, disk) = watched();
    at_every_call(&disk, |at| {
        let first = lock(&store, &key("relu"));
        disk.interrupt(at, move || drop(first));
        let outcome = within(&raced, &key("relu"), Duration::from_millis(8));
        if !disk.has_sprung() {
            return;
        }
        assert!(matches!(outcome, LockOutcome::Acquired(_)), "{at}: {outcome:?}");
        let again = within(&store, &key("relu"), Duration::ZERO);
        assert!(matches!(again, LockOutcome::TimedOut), "{at}: {again:?}");
        drop(outcome);
        assert!(names(&store.dir().join("locks")).is_empty());
    });
}

pub(crate) fn other_process(arguments: &[String]) {
    match arguments {
        [how] if how == "sleep" => sleep(Duration::from_secs(60)),
        // Takes the lock, starts a process that outlives it, prints its id, and never releases the lock.
        [how, root, file] if how == "hold" => {
            let _held = lock(&open(Path::new(root)), &key("relu"));
            #[expect(clippy::zombie_processes, reason = "it outlives this process")]
            let left = child("races", &["sleep"]).spawn().unwrap();
            fs::write(Path::new(file).with_extension("new"), left.id().to_string()).unwrap();
            fs::rename(Path::new(file).with_extension("new"), file).unwrap();
            sleep(Duration::from_secs(600));
        }
        other => panic!("{other:?}"),
    }
}

/// Like a compiler that was started under the lock and outlives its parent.
fn a_child_that_outlives_the_holder() {
    let (directory, store) = fresh();
    let file = directory.path().join("left");
    let holder = child("races", &["hold", directory.path().to_str().unwrap(), file.to_str().unwrap()])
        .spawn()
        .unwrap();
    let mut holder = Children(vec![holder]);
    until("the holder", || file.exists());
    let left = Pid::from_raw(fs::read_to_string(&file).unwrap().parse().unwrap()).unwrap();
    assert!(matches!(within(&store, &key("relu"), Duration::ZERO), LockOutcome::TimedOut));
    holder.0[0].kill().unwrap();
    holder.0[0].wait().unwrap();
    let outcome = within(&store, &key("relu"), Duration::ZERO);
    let runs = kill_process(left, Signal::KILL);
    assert!(matches!(outcome, LockOutcome::Acquired(_)), "{outcome:?}");
    assert_eq!(runs, Ok(()), "it was left running");
}

/// The same open file under another number, as a plain fork leaves it with the child.
fn inherit(file: RawFd) -> rustix::io::Result<OwnedFd> {
    let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    pidfd_getfd(own, file, PidfdGetfdFlags::empty())
}

fn can_inherit() -> bool {
    inherit(2).is_ok()
}

/// The file descriptor of the open file at `path`.
fn number_of(path: &Path) -> RawFd {
    let numbers = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let mut those = numbers.filter(|number| fs::read_link(number).is_ok_and(|to| to == path));
    let number = those.next().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
    assert!(those.next().is_none());
    number
}

/// A child that was forked under the lock keeps running: waiters and later callers still get the lock when its
/// holder releases it.
fn a_forked_child() {
    let (directory, store) = fresh();
    let root = directory.path().canonicalize().unwrap();
    let held = lock(&open(&root), &key("relu"));
    let path = root.join("v1").join(TARGET).join("locks").join(key("relu").to_string());
    let inherited = inherit(number_of(&path)).unwrap();
    let waits = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let say = || waits.store(true, Ordering::Relaxed);
            let deadline = Instant::now().checked_add(Duration::from_secs(3));
            store
                .lock(&key("relu"), WaitOptions::new(&|| false).with_deadline(deadline).with_on_wait(&say))
                .unwrap()
        });
        until("a waiter", || waits.load(Ordering::Relaxed));
        drop(held);
        waiter.join().unwrap()
    });
    assert!(matches!(&outcome, LockOutcome::Acquired(lock) if lock.waited()), "{outcome:?}");
    drop(outcome);
    assert!(matches!(within(&store, &key("relu"), Duration::ZERO), LockOutcome::Acquired(_)));
    drop(inherited);
}

/// If each of them tried itself, one after the other, it would take as many times as long.
fn all_waiters_get_the_failure() {
    const CROWD: usize = 48;
    let (_dir, store) = fresh();
    let held = lock(&store, &key("relu"));
    let waiting = std::sync::atomic::AtomicUsize::new(0);
    let notified = thread::scope(|scope| {
        let crowd: Vec<_> = (0..CROWD)
            .map(|_| {
                scope.spawn(|| {
                    let say = || {
                        waiting.fetch_add(1, Ordering::Relaxed);
                    };
                    let deadline = Instant::now().checked_add(Duration::from_secs(20));
                    let options = WaitOptions::new(&|| false).with_deadline(deadline).with_on_wait(&say);
                    let outcome = store.lock(&key("relu"), options).unwrap();
                    if let LockOutcome::Acquired(_) = &outcome {
                        // It would fail, too, after this time.
                        sleep(Duration::from_millis(100));
                    }
                    matches!(outcome, LockOutcome::HolderFailed(reason) if reason == "no int4 kernel")
                })
            })
            .collect();
        until("the crowd", || waiting.load(Ordering::Relaxed) == CROWD);
        held.release_with_failure("no int4 kernel");
        crowd.into_iter().map(|one| one.join().unwrap()).filter(|notified| *notified).count()
    });
    assert_eq!(notified, CROWD);
}

fn a_file_system_without_locks() {
    let (_dir, store, raced, disk) = watched();
    for error in [Errno::NOLCK, Errno::NOTSUP, Errno::NOSYS] {
        disk.disarm();
        drop(lock(&raced, &key("relu")));
        let at = 1 + disk.calls().iter().position(|op| *op == FsOp::Lock).unwrap();
        disk.arm(at, Fault::Error(error));
        let outcome = within(&raced, &key("relu"), Duration::ZERO);
        assert!(matches!(outcome, LockOutcome::Unsupported), "{error}: {outcome:?}");
        // The same if only a waiter gets the error.
        let held = lock(&store, &key("relu"));
        disk.arm(at + 3, Fault::Error(error));
        let outcome = within(&raced, &key("relu"), Duration::from_secs(5));
        assert!(disk.has_sprung() && matches!(outcome, LockOutcome::Unsupported), "{error}: {outcome:?}");
        drop(held);
    }
    // Two processes without locks create the same entry: it is valid, and the first one stays.
    let (one, two) = (Created::new("relu", 1), Created::new("relu", 2));
    at_every_call(&disk, |at| {
        let _ = fs::remove_file(store.path(&key("relu")));
        let other = store.clone();
        disk.interrupt(at, move || {
            other.put(&key("relu"), &Created::new("relu", 1).entry()).unwrap();
        });
        match raced.put(&key("relu"), &two.entry()).unwrap() {
            PutOutcome::Published => two.assert_is(&hit(&store, &key("relu"))),
            PutOutcome::Existing => one.assert_is(&hit(&store, &key("relu"))),
        }
    });
}

fn damage(store: &TargetStore, key: &Digest) -> DamagedEntry {
    fs::write(place(store, key), "damaged").unwrap();
    let Miss::Damaged(judged) = miss(store, key) else { panic!("it is damaged") };
    judged
}

/// A put takes no lock. At any moment, its entry is a hit in the end, and only the judged file is quarantined.
fn a_concurrently_put_entry() {
    let (_dir, store, raced, disk) = watched();
    let (key, held) = (key("relu"), lock(&store, &key("relu")));
    let calls = at_every_call(&disk, |at| {
        let judged = damage(&store, &key);
        let other = store.clone();
        disk.interrupt(at, move || {
            other.put(&key, &Created::new("relu", at).entry()).unwrap();
        });
        let moved = raced.quarantine(&key, &judged, &held).unwrap();
        if disk.has_sprung() {
            Created::new("relu", at).assert_is(&hit(&store, &key));
            let quarantined = store.dir().join("quarantine");
            let quarantined: Vec<_> =
                names(&quarantined).into_iter().map(|name| quarantined.join(name)).collect();
            let entries =
                || quarantined.iter().filter(|path| path.extension().is_some_and(|end| end == "kern"));
            assert_eq!(entries().count(), usize::from(moved));
            assert!(entries().all(|path| fs::read(path).unwrap() == b"damaged"));
            quarantined.iter().for_each(|path| fs::remove_file(path).unwrap());
        }
    });
    println!("an entry was put before each of {calls} calls of a quarantine");
}

/// Deleted by a user, or quarantined by a process without a lock: nothing remains to be done, and that is no error.
fn a_concurrently_removed_entry() {
    let (_dir, store, raced, disk) = watched();
    let (key, held) = (key("relu"), lock(&store, &key("relu")));
    at_every_call(&disk, |at| {
        let judged = damage(&store, &key);
        let path = store.path(&key);
        disk.interrupt(at, move || drop(fs::remove_file(path)));
        raced.quarantine(&key, &judged, &held).unwrap();
        assert!(matches!(miss(&store, &key), Miss::Absent));
    });
}

/// Decides each call.
struct WithPermit<F>(F);

impl<F: Fn(&FsCall<'_>) -> Permit + Send + Sync> Watcher for WithPermit<F> {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        (self.0)(call)
    }
}

/// One put is before the move, so a valid entry is moved away; the other one is before that entry is restored.
fn two_concurrent_puts() {
    let (directory, store) = fresh();
    let (key, other, path) = (key("relu"), store.clone(), store.path(&key("relu")));
    let watcher = WithPermit(move |call: &FsCall<'_>| {
        let put = |writer| other.put(&key, &Created::new("relu", writer).entry()).unwrap();
        match call.op {
            FsOp::Rename if call.path == path => assert_eq!(put(1), PutOutcome::Published),
            FsOp::Link | FsOp::Rename if call.to == Some(&path) => assert_eq!(put(2), PutOutcome::Published),
            _ => {}
        }
        Permit::Go
    });
    let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(watcher));
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let (judged, held) = (damage(&store, &key), lock(&store, &key));
    assert!(!raced.quarantine(&key, &judged, &held).unwrap());
    Created::new("relu", 2).assert_is(&hit(&store, &key));
    assert!(names(&store.dir().join("quarantine")).is_empty());
}

/// A put is before the move, and then the process is killed: the intact entry is a miss, and has no reason.
fn a_kill_before_an_entry_is_restored() {
    let (directory, store) = fresh();
    let (key, other, path) = (key("relu"), store.clone(), store.path(&key("relu")));
    let moved = AtomicBool::new(false);
    let watcher = WithPermit(move |call: &FsCall<'_>| {
        if call.op == FsOp::Rename && call.path == path {
            other.put(&key, &Created::new("relu", 1).entry()).unwrap();
            moved.store(true, Ordering::Relaxed);
            return Permit::Go;
        }
        let is_over = moved.load(Ordering::Relaxed);
        if is_over { Permit::Fail(Errno::IO.into()) } else { Permit::Go }
    });
    let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(watcher));
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let (judged, held) = (damage(&store, &key), lock(&store, &key));
    assert!(!raced.quarantine(&key, &judged, &held).unwrap());
    assert!(matches!(miss(&store, &key), Miss::Absent));
    let left = names(&store.dir().join("quarantine"));
    let [name] = &left[..] else { panic!("{left:?}") };
    let entry = Entry::decode(fs::read(store.dir().join("quarantine").join(name)).unwrap(), Some(&key));
    Created::new("relu", 1).assert_is(&entry.unwrap());
}

/// Otherwise a concurrent process would miss it.
fn an_entry_that_is_about_to_be_replaced() {
    let (_dir, store) = fresh();
    let key = key("relu");
    let (judged, held) = (damage(&store, &key), lock(&store, &key));
    store.put(&key, &Created::new("relu", 1).entry()).unwrap();
    let before = snapshot(&store.path(&key));
    assert!(!store.quarantine(&key, &judged, &held).unwrap());
    assert_eq!(snapshot(&store.path(&key)), before, "a move would show in its times");
}

/// An entry that was not used for long.
fn idle(store: &TargetStore) {
    store.put_replacing(&key("relu"), &Created::new("relu", 0).entry(), Overwrite::Always).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    fs::File::open(store.path(&key("relu"))).unwrap().set_modified(long_ago).unwrap();
}

fn evict(store: &TargetStore) -> u64 {
    let older_than = Some(Duration::from_secs(24 * 3600));
    let report = store.gc(&GcOptions::default().with_older_than(older_than)).unwrap();
    assert!(names(&store.dir().join("tmp")).is_empty());
    report.removed.entries.files
}

/// The new entry stays at any moment.
fn an_entry_put_while_it_is_evicted() {
    let (_dir, store, raced, disk) = watched();
    idle(&store);
    let (mut evicted, mut put_back) = (0, 0);
    let calls = at_every_call(&disk, |at| {
        disk.disarm();
        idle(&store);
        let other = store.clone();
        disk.interrupt(at, move || {
            let made = Created::new("relu", at);
            other.put_replacing(&key("relu"), &made.entry(), Overwrite::Always).unwrap();
        });
        let gone = evict(&raced);
        if disk.has_sprung() {
            Created::new("relu", at).assert_is(&hit(&store, &key("relu")));
            evicted += gone;
            put_back += usize::from(gone == 0 && is_moved(&disk));
        }
    });
    println!("an entry was put before each of {calls} calls of a collection");
    assert!(evicted > 0, "it was put when the old one had gone, too");
    assert_eq!(put_back, 1, "it is moved only if it was put between the check and the move");
}

/// Whether the eviction moved the entry.
fn is_moved(disk: &FaultyDisk) -> bool {
    disk.calls().contains(&FsOp::Rename)
}

/// A hit marks the entry as used, until the entry has gone.
fn an_entry_used_while_it_is_evicted() {
    let (_dir, store, raced, disk) = watched();
    idle(&store);
    let (mut stayed, mut put_back) = (0, 0);
    at_every_call(&disk, |at| {
        disk.disarm();
        idle(&store);
        let (other, found) = (store.clone(), Arc::new(AtomicBool::new(false)));
        let says = Arc::clone(&found);
        disk.interrupt(at, move || {
            says.store(matches!(other.get(&key("relu")), Lookup::Hit(_)), Ordering::Relaxed);
        });
        evict(&raced);
        if found.load(Ordering::Relaxed) {
            Created::new("relu", 0).assert_is(&hit(&store, &key("relu")));
            stayed += 1;
            put_back += usize::from(is_moved(&disk));
        }
    });
    assert!(stayed > 10);
    assert_eq!(put_back, 1, "it is moved only if it was used between the check and the move");
}

/// Another process holds its lock, so it is about to be replaced, or was just found.
fn an_entry_in_progress() {
    let (_dir, store) = fresh();
    idle(&store);
    let held = lock(&store, &key("relu"));
    assert_eq!(evict(&store), 0);
    Created::new("relu", 0).assert_is(&hit(&store, &key("relu")));
    drop(held);
    idle(&store);
    assert_eq!(evict(&store), 1);
    assert!(matches!(miss(&store, &key("relu")), Miss::Absent));
}

/// An entry of one process is not lost when the other creates the directory again.
fn two_processes_create_one_directory() {
    for mode in [0o700, 0o2775] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        let store = open(directory.path());
        let disk = FaultyDisk::new(directory.path());
        let config = StoreConfig::new(directory.path()).with_watcher(disk.clone());
        let raced = Store::open(config).unwrap().target(TARGET).unwrap();
        let first = |name: &str| key(name).as_bytes()[0];
        let near = (0..).map(|at| format!("near{at}")).find(|name| first(name) == first("relu")).unwrap();
        at_every_call(&disk, |at| {
            fs::remove_dir_all(place(&store, &key("relu")).parent().unwrap()).unwrap();
            let other = open(directory.path());
            let name = near.clone();
            disk.interrupt(at, move || {
                other.put(&key(&name), &Created::new(&name, 1).entry()).unwrap();
            });
            raced.put(&key("relu"), &Created::new("relu", 1).entry()).unwrap();
            Created::new("relu", 1).assert_is(&hit(&store, &key("relu")));
            if disk.has_sprung() {
                Created::new(&near, 1).assert_is(&hit(&store, &key(&near)));
            }
        });
    }
}

/// Any two operations at any access: a hit is an entry that was put, and the entry that was put
/// last is not lost.
fn a_process_between_two_calls() {
    type RepairAction = fn(&TargetStore);
    let put: RepairAction = |store| {
        store.put(&key("relu"), &Created::new("relu", 1).entry()).unwrap();
    };
    let replace: RepairAction = |store| {
        store.put_replacing(&key("relu"), &Created::new("relu", 2).entry(), Overwrite::Always).unwrap();
    };
    let remove: RepairAction = |store| drop(fs::remove_file(store.path(&key("relu"))));
    let harm: RepairAction = |store| {
        if let Ok(file) = fs::OpenOptions::new().write(true).open(store.path(&key("relu"))) {
            file.set_len(200).unwrap();
        }
    };
    let get: RepairAction = |store| {
        valid(store);
    };
    let quarantine_file: RepairAction = |store| {
        if let Lookup::Miss(Miss::Damaged(judged)) = store.get(&key("relu"))
            && let LockOutcome::Acquired(held) = within(store, &key("relu"), Duration::ZERO)
        {
            store.quarantine(&key("relu"), &judged, &held).unwrap();
        }
    };
    let deeds = [put, replace, remove, harm, get, quarantine_file];
    let (_dir, store, raced, disk) = watched();
    let mut points = 0;
    for start in [put, remove, harm] {
        for (operation, is_put) in [(put, true), (replace, true), (get, false), (quarantine_file, false)] {
            for (comes, between) in deeds.into_iter().enumerate() {
                points += at_every_call(&disk, |at| {
                    disk.disarm();
                    put(&store);
                    start(&store);
                    let other = store.clone();
                    disk.interrupt(at, move || between(&other));
                    operation(&raced);
                    let is_hit = valid(&store);
                    // Neither is removed nor damaged, so the entry of one of them exists.
                    let put_by_other = comes < 2 && disk.has_sprung();
                    assert!(is_hit || !(put_by_other || (is_put && comes != 2 && comes != 3)), "{at}");
                });
            }
        }
    }
    println!("another process ran between two calls at {points} points");
    assert!(names(&store.dir().join("tmp")).is_empty());
}

/// Whether there is an entry; fails if no process put it.
fn valid(store: &TargetStore) -> bool {
    let Lookup::Hit(entry) = store.get(&key("relu")) else { return false };
    let writer = entry.member("json").unwrap().iter().rev().nth(1).unwrap() - b'0';
    Created::new("relu", writer.into()).assert_is(&entry);
    true
}
