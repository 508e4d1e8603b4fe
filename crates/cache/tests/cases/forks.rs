//! Forked children of processes that hold tickets or take locks.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use opkeep_cache::{Claim, Failure, PublishError, RemoteConfig, Source, TargetCache, Ticket};
use opkeep_fs::{Fs, RootedFs, TempDir, TryLock, without_fork};
use opkeep_testkit::remote::{FakeRemote, RemoteCall};
use opkeep_testkit::{close_all_files, fork, in_forked_child};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::common::{Host, build, builder, claim, hit, key, pending, publish, resume, settle, text, until};
use crate::processes::{Children, at, holder, spawn};

/// The longest time until the lock of a killed process is free.
const SECOND: Duration = Duration::from_secs(1);

/// Runs another process in this role until its end.
fn run(role: &str) {
    let host = Host::new();
    let file = host.dir.path().join("done");
    let mut process = Children(vec![spawn(role, &host, &file)]);
    process.wait();
    assert!(file.exists());
}

pub(crate) fn a_ticket_in_a_child() {
    run("fork");
}

/// In a process with one thread. Its forked children use their copies of its tickets in every way.
pub(crate) fn fork_with_a_ticket(cache: &TargetCache, file: &Path) {
    let ends: [fn(Ticket); 4] = [
        drop,
        |ticket| ticket.abandon(Failure::new("not its to give up")),
        |ticket| {
            let published = ticket.publish(&builder("not its to publish"));
            assert!(matches!(published, Err(PublishError::Forked)), "{published:?}");
        },
        |ticket| {
            assert!(!ticket.is_own());
            // The child's own files get the numbers of the files that it closed.
            let own: Vec<File> = (0..8).map(|_| tempfile::tempfile().unwrap()).collect();
            own.iter().for_each(|file| file.set_modified(SystemTime::UNIX_EPOCH).unwrap());
            ticket.heartbeat();
            ticket.count_build(Duration::from_secs(1));
            drop(ticket);
            let is_untouched =
                |file: &File| file.metadata().unwrap().modified().unwrap() == SystemTime::UNIX_EPOCH;
            assert!(own.iter().all(is_untouched));
        },
    ];
    let lock = cache.store().unwrap().dir().join("locks").join(key("relu").to_string());
    let state =
        || fs::metadata(&lock).map(|found| (found.ino(), found.len(), found.modified().unwrap())).unwrap();
    for end in ends {
        for runs_exit_handlers in [false, true] {
            let mut ticket = Some(build(claim(cache, "relu")));
            let before = state();
            let child = fork(
                || {
                    end(ticket.take().unwrap());
                    cache.flush();
                },
                runs_exit_handlers,
            );
            assert!(child.wait());
            // The parent's ticket is unchanged.
            assert!(ticket.as_ref().unwrap().is_own());
            assert_eq!(state(), before);
            let waiter = pending(claim(cache, "relu"));
            let waiter = pending(resume(cache, waiter));
            drop(ticket);
            drop(build(settle(cache, Claim::Pending(waiter))));
        }
    }
    no_count_is_written_twice(cache);
    leases_stay_with_the_parent();
    no_temporary_file_is_removed(cache.store().unwrap().dir());
    fs::write(file, "").unwrap();
}

fn no_count_is_written_twice(cache: &TargetCache) {
    publish(build(claim(cache, "counted")), 1);
    let store = cache.store().unwrap();
    let (before, size) = (store.statistics(), store.estimate());
    assert_eq!((before.puts, before.compiles), (1, 0));
    for _ in 0..3 {
        assert!(in_forked_child(|| {
            assert_eq!(hit(claim(cache, "counted")), (1, Source::Local));
            cache.flush();
        }));
    }
    cache.flush();
    let after = store.statistics();
    assert_eq!((after.hits, after.puts, after.waits), (before.hits + 3, 1, before.waits));
    assert_eq!(store.estimate(), size);
}

fn leases_stay_with_the_parent() {
    let remote = FakeRemote::new();
    let mut settings = RemoteConfig::new(Arc::new(remote.clone()));
    settings.lease_ttl = Duration::from_secs(6);
    let shared = Host::new().with_remote(&settings);
    let mut held = Some(build(claim(&shared, "tanh")));
    assert!(in_forked_child(|| {
        drop(held.take());
        assert_eq!(remote.count(RemoteCall::Release), 0);
        // A thread of the child renews the leases that the child takes.
        let _own = build(claim(&shared, "sigmoid"));
        until("a renewal", || remote.count(RemoteCall::Renew) > 0);
    }));
}

fn no_temporary_file_is_removed(dir: &Path) {
    let temp = RootedFs::default().temp_file(dir, "temp-").unwrap();
    let private = TempDir::create_in(dir, "private-").unwrap();
    let paths = [temp.path(), private.path().to_owned()];
    let mut values = Some((temp, private));
    assert!(in_forked_child(|| drop(values.take())));
    assert!(paths.iter().all(|path| path.exists()));
    drop(values);
    assert!(!paths.iter().any(|path| path.exists()));
}

pub(crate) fn an_own_cache() {
    run("fork-and-open");
}

/// A child opens the same store, builds a key of its own, and waits for that of its parent.
pub(crate) fn fork_and_open(cache: &TargetCache, root: &Path, file: &Path) {
    let ticket = build(claim(cache, "relu"));
    let waits = file.with_extension("waits");
    let child = fork(
        || {
            let own = at(root);
            publish(build(claim(&own, "sigmoid")), 2);
            let waiter = pending(claim(&own, "relu"));
            fs::write(&waits, "").unwrap();
            assert_eq!(hit(settle(&own, Claim::Pending(waiter))), (1, Source::Waited));
        },
        true,
    );
    until("the child", || waits.exists());
    assert_eq!(hit(claim(cache, "sigmoid")), (2, Source::Local));
    publish(ticket, 1);
    assert!(child.wait());
    // A child may go on with its parent's wait.
    let held = build(claim(&at(root), "tanh"));
    let mut waiter = Some(pending(claim(cache, "tanh")));
    assert!(in_forked_child(|| drop(pending(resume(cache, waiter.take().unwrap())))));
    drop(held);
    drop(build(settle(cache, Claim::Pending(waiter.unwrap()))));
    fs::write(file, "").unwrap();
}

pub(crate) fn a_killed_parent() {
    for role in ["fork-and-hold", "fork-and-wait"] {
        let host = Host::new();
        let cache = host.cache();
        // A killed holder does not remove the file, so the one that waits locks the file that it has open.
        let first = (role == "fork-and-wait").then(|| holder("hold", &host));
        let file = host.dir.path().join("second");
        let mut parent = Children(vec![spawn(role, &host, &file)]);
        until("the child", || file.with_extension("child").exists());
        drop(first);
        until("the parent", || file.exists());
        let child = fs::read_to_string(file.with_extension("child")).unwrap();
        let child = Pid::from_raw(child.parse().unwrap()).unwrap();
        let waiter = pending(claim(&cache, "relu"));
        parent.0[0].kill().unwrap();
        let killed = Instant::now();
        parent.0[0].wait().unwrap();
        drop(build(settle(&cache, Claim::Pending(waiter))));
        let taken = killed.elapsed();
        let is_alive = test_kill_process(child).is_ok();
        kill_process(child, Signal::KILL).unwrap();
        assert!(is_alive && taken < SECOND, "{role}: {taken:?}");
    }
}

/// Starts a child that runs on, and reports its number.
fn leave_a_child(file: &Path) {
    let child = fork(|| thread::sleep(Duration::from_secs(600)), false);
    fs::write(file.with_extension("new"), child.id().to_string()).unwrap();
    fs::rename(file.with_extension("new"), file.with_extension("child")).unwrap();
}

/// Holds the ticket, with a child that was forked meanwhile.
pub(crate) fn fork_and_hold(cache: &TargetCache, file: &Path) {
    let _ticket = build(claim(cache, "relu"));
    leave_a_child(file);
    fs::write(file, "").unwrap();
    thread::sleep(Duration::from_secs(600));
}

/// Waits for the ticket, forks a child meanwhile, and holds the ticket.
pub(crate) fn fork_and_wait(cache: &TargetCache, file: &Path) {
    let waiter = pending(claim(cache, "relu"));
    leave_a_child(file);
    let _ticket = build(settle(cache, Claim::Pending(waiter)));
    fs::write(file, "").unwrap();
    thread::sleep(Duration::from_secs(600));
}

pub(crate) fn forks_during_locks() {
    run("fork-during-locks");
}

/// A file that a thread opens and closes: its number, 0 while it is closed; its identity; the number of changes.
#[derive(Default)]
struct OtherFile {
    number: AtomicU64,
    inode: AtomicU64,
    changes: AtomicU64,
}

impl OtherFile {
    fn open_and_close(&self, path: &Path) {
        let file = File::create(path).unwrap();
        self.inode.store(file.metadata().unwrap().ino(), Ordering::SeqCst);
        self.number.store(file.as_raw_fd() as u64, Ordering::SeqCst);
        let changes = self.changes.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_micros(changes % 7 * 300));
        self.number.store(0, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn seen(&self) -> (u64, u64, u64) {
        let changes = self.changes.load(Ordering::SeqCst);
        (changes, self.number.load(Ordering::SeqCst), self.inode.load(Ordering::SeqCst))
    }
}

/// The number of files that are opened and closed while the process forks.
const OTHERS: usize = 4;
const FORKS: u32 = 600;

/// Threads take and drop locks, and open and close other files, while the process forks. Each child finds all other files open,
/// and keeps no lock alive.
pub(crate) fn fork_during_locks(root: &Path, file: &Path) {
    let locks = root.join("locks-of-threads");
    fs::create_dir(&locks).unwrap();
    let path = |name: String| -> PathBuf { root.join(name) };
    let files: Vec<File> = (0..32).map(|at| File::create(path(format!("lasting{at}"))).unwrap()).collect();
    let lasting: Vec<_> =
        files.iter().map(|file| (file.as_raw_fd(), file.metadata().unwrap().ino())).collect();
    let others: [OtherFile; OTHERS] = Default::default();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for at in 0..2 {
            let lock = locks.join(at.to_string());
            let is_over = &is_over;
            scope.spawn(move || {
                for round in 0_u64.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let TryLock::Held(held) = Fs::new().try_lock(&lock, 0o600).unwrap() else {
                        panic!("a lock is kept")
                    };
                    if round % 2 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                    drop(held);
                }
            });
        }
        for (at, other) in others.iter().enumerate() {
            let path = path(format!("other{at}"));
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    other.open_and_close(&path);
                }
            });
        }
        for round in 0..FORKS {
            let seen = others.each_ref().map(OtherFile::seen);
            let child = fork(
                || {
                    // A file that was open before the fork, and is open in memory, must be open in the child.
                    let is_open =
                        |(other, seen): &(&OtherFile, (u64, u64, u64))| seen.1 != 0 && other.seen() == *seen;
                    let open = others.iter().zip(seen).filter(is_open);
                    let open = open.map(|(_, (_, number, inode))| (number as RawFd, inode));
                    check_in_child(&locks, lasting.iter().copied().chain(open));
                },
                false,
            );
            assert!(child.wait(), "fork {round}");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    fs::write(file, "").unwrap();
}

fn check_in_child(locks: &Path, others: impl Iterator<Item = (RawFd, u64)>) {
    for (number, inode) in others {
        let found = fs::metadata(format!("/proc/self/fd/{number}")).map(|found| found.ino()).ok();
        assert_eq!(found, Some(inode), "{number}");
    }
    // The parent may be about to close a file that the child has, but it locks none that the child has.
    let numbers = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_lock = |number: &PathBuf| fs::read_link(number).is_ok_and(|to| to.starts_with(locks));
    let inherited: Vec<PathBuf> = numbers.map(|number| number.path()).filter(is_lock).collect();
    for _ in 0..if inherited.is_empty() { 0 } else { 40 } {
        for number in &inherited {
            let number = number.file_name().unwrap().to_str().unwrap();
            let state = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
            assert!(!state.contains("FLOCK"), "{state}");
        }
        thread::sleep(Duration::from_micros(50));
    }
}

pub(crate) fn cells_in_a_child() {
    run("fork-and-cells");
}

/// Another thread fills a cell and holds a lock when the process forks: the child finds one filled, the other free.
pub(crate) fn fork_and_cells(file: &Path) {
    static CELL: OnceLock<()> = OnceLock::new();
    static LOCK: Mutex<bool> = Mutex::new(false);
    let (begun, begins) = std::sync::mpsc::channel();
    let other = thread::spawn(move || {
        without_fork(|| {
            let mut is_complete = LOCK.lock().unwrap();
            CELL.get_or_init(|| {
                begun.send(()).unwrap();
                thread::sleep(Duration::from_millis(100));
            });
            *is_complete = true;
        });
    });
    begins.recv().unwrap();
    assert!(in_forked_child(|| {
        assert!(CELL.get().is_some());
        assert!(LOCK.try_lock().is_ok_and(|is_complete| *is_complete));
        // It may fork as well.
        assert!(in_forked_child(|| without_fork(|| assert!(LOCK.try_lock().is_ok()))));
    }));
    other.join().unwrap();
    fs::write(file, "").unwrap();
}

pub(crate) fn closed_files() {
    run("close-all");
}

/// A process with tickets closes all its files, and gets their numbers for its own. Those are not written, unlocked or closed.
pub(crate) fn close_all(cache: &TargetCache, file: &Path) {
    let ends: [fn(Ticket); 4] = [
        drop,
        |ticket| ticket.abandon(Failure::new("no waiter reads it")),
        |ticket| assert!(ticket.publish(&builder(&text(1))).unwrap().local.is_some()),
        |ticket| {
            ticket.heartbeat();
            drop(ticket);
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let name = format!("kernel {number}");
        let ticket = build(claim(cache, &name));
        let waiter = pending(claim(cache, &name));
        let kept = build(claim(cache, "another"));
        close_all_files();
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..8).map(|own| dir.path().join(format!("{own}"))).collect();
        let own: Vec<File> = paths.iter().map(|path| File::create_new(path).unwrap()).collect();
        for file in &own {
            file.lock().unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let are_untouched = || {
            own.iter().zip(&paths).all(|(file, path)| {
                let (found, at) = (file.metadata().unwrap(), fs::metadata(path).unwrap());
                let is_same = (found.ino(), found.len()) == (at.ino(), 0);
                is_same && found.modified().unwrap() == SystemTime::UNIX_EPOCH
            })
        };
        // A forked child has these files, too.
        assert!(in_forked_child(|| assert!(are_untouched())));
        // The lock ended with its file, so another caller gets the key.
        let waiter = build(settle(cache, Claim::Pending(waiter)));
        end(ticket);
        drop(kept);
        assert!(are_untouched(), "{number}");
        assert!(paths.iter().all(|path| File::open(path).unwrap().try_lock().is_err()), "{number}");
        drop(waiter);
        drop(build(claim(cache, "another")));
    }
    fs::write(file, "").unwrap();
}
