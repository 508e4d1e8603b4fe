//! Processes that end, fork, stop, or change while they hold a ticket.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_embed::{
    EmbedError, FileCache, FileCacheConfig, GroupClaim, NewGroup, Options, StoreConfig, TargetFiles,
    UnsharedReason,
};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_testkit::{become_user, in_forked_child};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::processes::{Process, begin, group, key, open, until};

/// The longest time until the lock of a process that ended is free.
const SOON: Duration = Duration::from_secs(5);

/// Reports that the next opening of the store began, and delays it until a message comes.
struct Slow {
    is_slow: AtomicBool,
    begun: Sender<()>,
    ends: Mutex<Receiver<()>>,
}

impl Watcher for Slow {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        if call.op == FsOp::OpenDir && self.is_slow.swap(false, Ordering::SeqCst) {
            self.begun.send(()).unwrap();
            self.ends.lock().unwrap().recv_timeout(SOON * 4).unwrap();
        }
        Permit::Go
    }
}

pub(crate) fn a_child_of_a_child() {
    let dir = tempfile::tempdir().unwrap();
    Process::start("fork-opening", dir.path()).succeeds();
}

/// A thread of a forked child opens the store when the child forks. The child's child opens it as well, and does not wait for
/// a thread that it does not have.
pub(crate) fn fork_while_opening(store: &Path) {
    let ((begun, begins), (end, ends)) = (channel(), channel());
    let slow = Arc::new(Slow { is_slow: AtomicBool::new(false), begun, ends: Mutex::new(ends) });
    let config = FileCacheConfig::new(StoreConfig::new(store).with_watcher(slow.clone()), "test");
    let files = FileCache::open(config).unwrap().target("cuda-sm_90").unwrap();
    files.publish(&key(), &group()).unwrap();
    let finds = || assert!(files.get(&key()).unwrap().is_some());
    assert!(in_forked_child(|| {
        slow.is_slow.store(true, Ordering::SeqCst);
        thread::scope(|scope| {
            scope.spawn(finds);
            begins.recv().unwrap();
            let began = Instant::now();
            assert!(in_forked_child(|| {
                // This thread ends the process if the other one waits for ever.
                let other = thread::spawn({
                    let files = files.clone();
                    move || files.get(&key()).unwrap().is_some()
                });
                until("the group", || other.is_finished() || began.elapsed() > SOON);
                assert!(other.is_finished() && other.join().unwrap());
            }));
            end.send(()).unwrap();
        });
        finds();
    }));
    finds();
}

pub(crate) fn an_exit() {
    let dir = tempfile::tempdir().unwrap();
    Process::start("exit", dir.path()).succeeds();
}

/// The child exits without the end of its ticket.
pub(crate) fn exit_with_a_ticket(files: &TargetFiles) {
    for _ in 0..2 {
        assert!(in_forked_child(|| std::mem::forget(begin(files))));
        let began = Instant::now();
        begin(files).abandon(None).unwrap();
        assert!(began.elapsed() < SOON);
    }
}

pub(crate) fn hold_with_a_program(files: &TargetFiles, directory: &Path) {
    let _ticket = begin(files);
    let mut program = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    fs::write(directory.join("new"), program.id().to_string()).unwrap();
    fs::rename(directory.join("new"), directory.join("program")).unwrap();
    program.wait().unwrap();
}

/// The program does not keep the lock of the process that started it.
pub(crate) fn a_program() {
    let dir = tempfile::tempdir().unwrap();
    let holder = Process::start("hold-with-program", dir.path());
    until("the program", || dir.path().join("program").exists());
    let program = fs::read_to_string(dir.path().join("program")).unwrap();
    let program = Pid::from_raw(program.parse().unwrap()).unwrap();
    holder.signal(Signal::KILL);
    let killed = Instant::now();
    let ticket = begin(&open(dir.path()));
    let waited = killed.elapsed();
    let runs = test_kill_process(program).is_ok();
    kill_process(program, Signal::KILL).unwrap();
    assert!(runs && waited < SOON, "{waited:?}");
    drop(ticket);
}

pub(crate) fn publish_late(files: &TargetFiles, directory: &Path) {
    let ticket = begin(files);
    fs::write(directory.join("holds"), "").unwrap();
    until("the end of the stop", || directory.join("published").exists());
    assert!(ticket.publish(&NewGroup::new([("file", &b"late"[..])])).unwrap());
    let group = files.get(&key()).unwrap().unwrap();
    assert_eq!(group.get("file"), Some(&b"data"[..]));
}

/// A process is stopped until it is stale. Another one makes the files, and the first continues: its files are not kept.
pub(crate) fn a_late_publisher() {
    let dir = tempfile::tempdir().unwrap();
    let late = Process::start("late", dir.path());
    until("the holder", || dir.path().join("holds").exists());
    late.signal(Signal::STOP);
    let mut options = Options::default();
    options.stale_after = Duration::from_millis(200);
    let files = open(dir.path());
    let claim = files.get_or_begin(&key(), &options).unwrap();
    let GroupClaim::Unshared(ticket, _) = claim else { panic!("{claim:?}") };
    assert!(ticket.publish(&group()).unwrap());
    fs::write(dir.path().join("published"), "").unwrap();
    late.signal(Signal::CONT);
    late.succeeds();
    let group = open(dir.path()).get(&key()).unwrap().unwrap();
    assert_eq!(group.get("file"), Some(&b"data"[..]));
}

pub(crate) fn another_user() {
    let dir = tempfile::tempdir().unwrap();
    if rustix::process::geteuid().is_root() {
        Process::start("other-user", dir.path()).succeeds();
    }
}

/// A child that gives up its rights does not trust the store of its parent. It makes its files, and ends no ticket of its parent.
pub(crate) fn work_as_another_user(files: &TargetFiles) {
    const NOBODY: u32 = 65534;
    let ticket = begin(files);
    assert!(in_forked_child(|| {
        become_user(NOBODY);
        assert!(files.get(&key()).unwrap().is_none());
        let claim = files.get_or_begin(&key(), &Options::default()).unwrap();
        let none = UnsharedReason::Cache(opkeep_cache::UnsharedReason::NoStore);
        let GroupClaim::Unshared(own, reason) = claim else { panic!("{claim:?}") };
        assert_eq!(reason, none);
        assert!(!own.publish(&group()).unwrap());
        assert!(matches!(ticket.abandon(None), Err(EmbedError::Forked { .. })));
    }));
    assert!(ticket.publish(&group()).unwrap());
    // A process that gives up its rights itself finds its store closed.
    assert!(in_forked_child(|| {
        assert!(files.get(&key()).unwrap().is_some());
        become_user(NOBODY);
        let other = opkeep_embed::FileKey::new([2; 32]);
        let claim = files.get_or_begin(&other, &Options::default()).unwrap();
        let GroupClaim::Unshared(own, _) = claim else { panic!("{claim:?}") };
        assert!(!own.publish(&group()).unwrap());
    }));
}
