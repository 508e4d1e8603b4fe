//! Holders and waiters that are processes.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use opkeep_embed::{
    EmbedError, FileCache, FileCacheConfig, FileKey, GroupClaim, GroupDir, GroupTicket, NewGroup, Options,
    StoreConfig, TargetFiles, UnsharedReason,
};
use opkeep_fs::{Fs, FsCall, FsOp, Permit, Watcher};
use opkeep_testkit::{at_each_change, in_forked_child};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

/// The first argument of this program when it is run as another process.
pub(crate) const CHILD: &str = "--child";

/// The roles of other processes: `ROLE DIRECTORY`.
pub(crate) fn other_process(arguments: &[String]) {
    let [role, directory] = arguments else { panic!("{arguments:?}") };
    let directory = Path::new(directory);
    let files = open(directory);
    match role.as_str() {
        // Takes the ticket, reports that, and never ends it.
        "hold" => {
            let _ticket = begin(&files);
            fs::write(directory.join("holds"), "").unwrap();
            thread::sleep(Duration::from_secs(600));
        }
        // Gets the files, or makes them and records that.
        "crowd" => {
            until("the start", || directory.join("start").exists());
            match files.get_or_begin(&key(), &Options::default()).unwrap() {
                GroupClaim::Hit(group) => assert_eq!(group.get("file"), Some(&b"data"[..])),
                GroupClaim::Begin(ticket) => {
                    fs::write(directory.join(format!("made-{}", std::process::id())), "").unwrap();
                    thread::sleep(Duration::from_millis(300));
                    ticket.publish(&group()).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        "cross-1" => cross(&files, directory, 1, 2),
        "cross-2" => cross(&files, directory, 2, 1),
        // The tests that fork need a process in which no other thread holds a lock.
        "fork" => fork(&files),
        "fork-own" => own_work(&files),
        "killed" => place_until_killed(directory),
        "fork-opening" => crate::endings::fork_while_opening(&directory.join("store")),
        "exit" => crate::endings::exit_with_a_ticket(&files),
        "hold-with-program" => crate::endings::hold_with_a_program(&files, directory),
        "late" => crate::endings::publish_late(&files, directory),
        "other-user" => crate::endings::work_as_another_user(&files),
        "place" => place_without_descriptors(directory),
        other => crate::remote::other_process(other, directory),
    }
}

pub(crate) fn open(directory: &Path) -> TargetFiles {
    let config = FileCacheConfig::new(StoreConfig::new(directory.join("store")), "test");
    FileCache::open(config).unwrap().target("cuda-sm_90").unwrap()
}

pub(crate) fn key() -> FileKey {
    FileKey::new([1; 32])
}

pub(crate) fn group() -> NewGroup<'static> {
    NewGroup::new([("file", &b"data"[..])])
}

pub(crate) fn begin(files: &TargetFiles) -> GroupTicket {
    match files.get_or_begin(&key(), &Options::default()).unwrap() {
        GroupClaim::Begin(ticket) => ticket,
        other => panic!("expected a ticket: {other:?}"),
    }
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that ends with the test, whether or not it passes.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(role: &str, directory: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([CHILD, role, directory.to_str().unwrap()]);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// A process that holds the ticket.
    fn holder(directory: &Path) -> Self {
        let process = Self::start("hold", directory);
        until("the holder", || directory.join("holds").exists());
        process
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) {
        self.0.wait().unwrap();
    }

    pub(crate) fn succeeds(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn of_eight_processes() {
    let dir = tempfile::tempdir().unwrap();
    let crowd: Vec<_> = (0..8).map(|_| Process::start("crowd", dir.path())).collect();
    fs::write(dir.path().join("start"), "").unwrap();
    crowd.into_iter().for_each(Process::succeeds);
    let made = fs::read_dir(dir.path()).unwrap().filter(|file| {
        file.as_ref().is_ok_and(|file| file.file_name().to_string_lossy().starts_with("made-"))
    });
    assert_eq!(made.count(), 1);
}

pub(crate) fn a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let holder = Process::holder(dir.path());
    let files = open(dir.path());
    let killed = |holder: &Process| {
        holder.signal(Signal::KILL);
        Instant::now()
    };
    // The waiter waits before the holder is killed.
    let (waits, sender) = std::sync::mpsc::channel();
    let on_wait = {
        let waits = std::sync::Mutex::new(waits);
        move || waits.lock().unwrap().send(()).unwrap()
    };
    thread::scope(|scope| {
        let options = Options::default().with_on_wait(&on_wait);
        let files = &files;
        let waiter = scope.spawn(move || {
            let claim = files.get_or_begin(&key(), &options).unwrap();
            assert!(matches!(claim, GroupClaim::Begin(_)), "{claim:?}");
            Instant::now()
        });
        sender.recv().unwrap();
        let at = killed(&holder);
        let waited = waiter.join().unwrap().saturating_duration_since(at);
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    });
}

pub(crate) fn a_stopped_process() {
    let dir = tempfile::tempdir().unwrap();
    let holder = Process::holder(dir.path());
    holder.signal(Signal::STOP);
    let mut options = Options::default();
    options.stale_after = Duration::from_secs(2);
    let claim = open(dir.path()).get_or_begin(&key(), &options).unwrap();
    let stale = UnsharedReason::Cache(opkeep_cache::UnsharedReason::HolderStale);
    let GroupClaim::Unshared(ticket, reason) = claim else { panic!("{claim:?}") };
    assert_eq!(reason, stale);
    // The files of the one that does not wait are a hit for all.
    ticket.publish(&group()).unwrap();
    assert!(open(dir.path()).get(&key()).unwrap().is_some());
}

pub(crate) fn crossed_processes() {
    let dir = tempfile::tempdir().unwrap();
    let processes = ["cross-1", "cross-2"].map(|role| Process::start(role, dir.path()));
    processes.into_iter().for_each(Process::succeeds);
}

/// Holds the ticket of one key, and waits for a thread that needs the key of the other process.
fn cross(files: &TargetFiles, directory: &Path, own: u8, other: u8) {
    let key = |number| FileKey::new([number; 32]);
    let GroupClaim::Begin(ticket) = files.get_or_begin(&key(own), &Options::default()).unwrap() else {
        panic!("it is this process's")
    };
    fs::write(directory.join(format!("begun-{own}")), "").unwrap();
    until("the other ticket", || directory.join(format!("begun-{other}")).exists());
    let nested = || {
        let mut options = Options::default().with_timeout(Duration::from_secs(30));
        options.wait_with_ticket = Duration::from_millis(500);
        match files.get_or_begin(&key(other), &options).unwrap() {
            GroupClaim::Unshared(ticket, reason) => {
                assert_eq!(reason, UnsharedReason::ProcessHoldsTicket);
                ticket.publish(&group()).unwrap();
            }
            // The other process was first to give up its wait.
            GroupClaim::Hit(_) => {}
            claim => panic!("{claim:?}"),
        }
    };
    thread::scope(|scope| scope.spawn(nested).join().unwrap());
    assert!(ticket.publish(&group()).unwrap());
}

pub(crate) fn a_held_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let _holder = Process::holder(dir.path());
    let mut options = Options::default().with_timeout(Duration::from_secs(7));
    options.stale_after = Duration::from_secs(4);
    let claim = open(dir.path()).get_or_begin(&key(), &options).unwrap();
    assert!(matches!(claim, GroupClaim::TimedOut), "{claim:?}");
}

pub(crate) fn a_forgotten_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path());
    let mut forgotten = Options::default();
    forgotten.hold_limit = Duration::from_millis(500);
    let claim = files.get_or_begin(&key(), &forgotten).unwrap();
    assert!(matches!(claim, GroupClaim::Begin(_)));
    let other = thread::spawn(move || {
        let mut options = Options::default().with_timeout(Duration::from_secs(60));
        options.stale_after = Duration::MAX;
        files.get_or_begin(&key(), &options).unwrap()
    });
    let taken = other.join().unwrap();
    assert!(matches!(taken, GroupClaim::Begin(..)), "{taken:?}");
    drop(claim);
}

pub(crate) fn a_forked_child() {
    let dir = tempfile::tempdir().unwrap();
    Process::start("fork", dir.path()).succeeds();
}

pub(crate) fn a_childs_own_work() {
    let dir = tempfile::tempdir().unwrap();
    Process::start("fork-own", dir.path()).succeeds();
}

/// Forked children publish, abandon and drop their copies of a ticket, which stays held in the parent.
fn fork(files: &TargetFiles) {
    let ticket = begin(files);
    let parent = std::process::id();
    let is_parents = |error: &EmbedError| matches!(error, EmbedError::Forked { owner } if *owner == parent);
    assert!(in_forked_child(|| {
        assert!(!ticket.is_held());
        assert!(is_parents(&ticket.publish(&group()).unwrap_err()));
        assert!(is_parents(&ticket.abandon(None).unwrap_err()));
        assert!(is_parents(&ticket.abandon(Some("failed")).unwrap_err()));
    }));
    let mut copy = Some(ticket.clone());
    assert!(in_forked_child(|| drop(copy.take())));
    assert!(ticket.is_held());
    let claim = thread::scope(|scope| {
        let options = Options::default().with_timeout(Duration::from_millis(100));
        scope.spawn(move || files.get_or_begin(&key(), &options).unwrap()).join().unwrap()
    });
    assert!(matches!(claim, GroupClaim::TimedOut), "{claim:?}");
    assert!(ticket.publish(&group()).unwrap());
}

/// A child uses the cache that its parent opened: it finds what is there, waits for its parent, and publishes.
fn own_work(files: &TargetFiles) {
    let other = FileKey::new([2; 32]);
    files.publish(&key(), &group()).unwrap();
    let held = match files.get_or_begin(&other, &Options::default()).unwrap() {
        GroupClaim::Begin(ticket) => ticket,
        claim => panic!("{claim:?}"),
    };
    assert!(in_forked_child(|| {
        assert!(files.get(&key()).unwrap().is_some());
        // The parent's ticket is none that this process holds: it may wait.
        let options = Options::default().with_timeout(Duration::from_millis(100));
        let claim = files.get_or_begin(&other, &options).unwrap();
        assert!(matches!(claim, GroupClaim::TimedOut), "{claim:?}");
        let own = FileKey::new([3; 32]);
        let GroupClaim::Begin(ticket) = files.get_or_begin(&own, &Options::default()).unwrap() else {
            panic!("it is this child's")
        };
        assert!(ticket.publish(&group()).unwrap());
        // A child of the child.
        assert!(in_forked_child(|| {
            assert!(files.get(&own).unwrap().is_some());
            assert!(matches!(ticket.abandon(None), Err(EmbedError::Forked { .. })));
        }));
    }));
    assert!(files.get(&FileKey::new([3; 32])).unwrap().is_some());
    assert!(held.publish(&group()).unwrap());
}

/// A directory that cannot be opened is not taken for another file of its name.
pub(crate) fn too_many_open_files() {
    let dir = tempfile::tempdir().unwrap();
    Process::start("place", dir.path()).succeeds();
}

/// A process that is killed when a temporary file is complete and has not got its name.
pub(crate) fn killed_before_a_rename() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::start("killed", dir.path());
    assert_eq!(process.0.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    let base = dir.path().join("base");
    let temporary = base.join(format!("tmp.opkeep-user-{}", rustix::process::geteuid().as_raw()));
    let files = || fs::read_dir(&temporary).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let [left] = &files()[..] else { panic!("{:?}", files()) };
    assert_eq!(fs::read(left).unwrap(), b"data");
    let dir = GroupDir::new(&base, "KEY").unwrap();
    // It may be one that another process is about to rename.
    assert_eq!(dir.place([("file", &b"data"[..])]).unwrap(), 1);
    assert_eq!(files(), std::slice::from_ref(left));
    let dir = dir.with_fs(Fs::new().with_watcher(Arc::new(HoursLater)));
    assert_eq!(dir.place([("other", &b"data"[..])]).unwrap(), 1);
    assert_eq!(files(), [] as [PathBuf; 0]);
    assert_eq!(fs::read(base.join("KEY/file")).unwrap(), b"data");
}

/// A file system whose clock is two hours ahead when the temporary files are listed.
struct HoursLater;

impl Watcher for HoursLater {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        if call.op == FsOp::List {
            for file in fs::read_dir(call.path).unwrap() {
                let file = fs::File::open(file.unwrap().path()).unwrap();
                file.set_modified(SystemTime::now() + Duration::from_secs(2 * 3600)).unwrap();
            }
        }
        Permit::Go
    }
}

fn place_until_killed(directory: &Path) {
    let fs = at_each_change(|call| {
        if call.op == FsOp::Rename {
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
    });
    GroupDir::new(directory.join("base"), "KEY").unwrap().with_fs(fs).write("file", b"data").unwrap();
}

fn place_without_descriptors(directory: &Path) {
    let base = directory.join("base");
    let dir = GroupDir::new(&base, "KEY").unwrap();
    dir.place([("file", &b"data"[..])]).unwrap();
    fs::write(base.join("KEY").join("own"), "of the framework").unwrap();
    // Space for the base directory only.
    let next = fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(next + 1), maximum: Some(next + 1) }).unwrap();
    let failed = dir.place([("file", &b"data"[..])]).unwrap_err();
    assert!(failed.to_string().contains("open files"), "{failed}");
    assert!(base.join("KEY").join("own").exists());
}
