//! Holders and waiters that are processes, some of them killed or stopped.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_cache::{
    CacheConfig, Claim, Failure, Query, RemoteConfig, Source, TargetCache, UnsharedReason, Wait,
};
use opkeep_fs::CancelToken;
use opkeep_store::StoreConfig;
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::common::{
    Host, build, claim, failed, hit, key, open, pending, publish, settle, sharing, take, text, until,
};

/// The first argument of this program when it is run as another process.
pub(crate) const CHILD: &str = "--child";

/// The keys that all processes need.
const KEYS: usize = 6;

/// The roles of other processes: `ROLE ROOT FILE`.
pub(crate) fn other_process(arguments: &[String]) {
    let [role, root, file] = arguments else { panic!("{arguments:?}") };
    let (cache, file) = (at(Path::new(root)), Path::new(file));
    match role.as_str() {
        // Takes the ticket, reports that, and never exits.
        "hold" => {
            let _ticket = build(claim(&cache, "relu"));
            fs::write(file, "").unwrap();
            std::thread::sleep(Duration::from_secs(600));
        }
        // Takes the ticket, reports that, and abandons it when the test ends it.
        "fail" => {
            let ticket = build(claim(&cache, "relu"));
            fs::write(file, "").unwrap();
            until("the end", || file.with_file_name("end").exists());
            ticket.abandon(Failure::new("no int4 kernel"));
        }
        // Reports that it waits, then that it has the ticket; publishes when the test ends it.
        "wait" => match wait(&cache, &|| fs::write(file.with_extension("waits"), "").unwrap()) {
            Claim::Build(ticket) => {
                fs::write(file.with_extension("took"), "").unwrap();
                until("the end", || file.with_file_name("end").exists());
                publish(ticket, 1);
            }
            other => assert_eq!(hit(other), (1, Source::Waited)),
        },
        "fork" => crate::forks::fork_with_a_ticket(&cache, file),
        "fork-and-open" => crate::forks::fork_and_open(&cache, Path::new(root), file),
        "fork-and-hold" => crate::forks::fork_and_hold(&cache, file),
        "fork-and-wait" => crate::forks::fork_and_wait(&cache, file),
        "fork-during-locks" => crate::forks::fork_during_locks(Path::new(root), file),
        "fork-and-cells" => crate::forks::fork_and_cells(file),
        "close-all" => crate::forks::close_all(&cache, file),
        "killed" => crate::kills::publish_until_killed(Path::new(root), file),
        "pending" => hold_pending(Path::new(root)),
        "crowd" => crowd(&cache, file),
        "soak" => crate::soak::work(&cache, file),
        other => panic!("{other}"),
    }
}

/// The cache with its store at `root`.
pub(crate) fn at(root: &Path) -> TargetCache {
    open(CacheConfig::new(StoreConfig::new(root)))
}

/// Waits for the key without a limit; calls `on_wait` when the wait begins.
fn wait(cache: &TargetCache, on_wait: &(dyn Fn() + Sync)) -> Claim {
    let cancel = CancelToken::new();
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    query.wait = Wait::ForHolder { on_wait: Some(on_wait) };
    cache.get_or_begin(&key("relu"), &query).unwrap()
}

pub(crate) fn spawn(role: &str, host: &Host, file: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, role, host.dir.path().to_str().unwrap(), file.to_str().unwrap()]);
    command.stdin(Stdio::null()).spawn().unwrap()
}

/// Processes that end with the test, whether or not it passes.
pub(crate) struct Children(pub(crate) Vec<Child>);

impl Children {
    pub(crate) fn wait(&mut self) {
        for child in &mut self.0 {
            assert!(child.wait().unwrap().success());
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a process in this role, which has the ticket.
pub(crate) fn holder(role: &str, host: &Host) -> Children {
    let file = host.dir.path().join("held");
    let holder = Children(vec![spawn(role, host, &file)]);
    until("the holder", || file.exists());
    holder
}

pub(crate) fn one_of_four_takes_over() {
    let host = Host::new();
    let mut holder = holder("hold", &host);
    let files: Vec<PathBuf> = (0..4).map(|number| host.dir.path().join(format!("waiter{number}"))).collect();
    let mut waiters = Children(files.iter().map(|file| spawn("wait", &host, file)).collect());
    let count = |end| files.iter().filter(|file| file.with_extension(end).exists()).count();
    until("four that wait", || count("waits") == 4);
    // Long enough for the pauses between their polls to be the longest.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(count("took"), 0);

    let began = Instant::now();
    holder.0[0].kill().unwrap();
    until("one to take over", || count("took") > 0);
    let taken = began.elapsed();
    println!("one of four took over {taken:?} after the holder was killed; promised are 50 ms");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(count("took"), 1);
    // On an idle machine it is below 50 ms; here it must only be less than any other limit of a wait.
    assert!(taken < Duration::from_secs(2), "{taken:?}");

    fs::write(host.dir.path().join("end"), "").unwrap();
    waiters.wait();
    assert_eq!(count("took"), 1);
    assert_eq!(hit(claim(&host.cache(), "relu")), (1, Source::Local));
}

pub(crate) fn waiters_share_a_failure() {
    let host = Host::new();
    let mut holder = holder("fail", &host);
    let cache = host.cache();
    let told = failed(wait(&cache, &|| fs::write(host.dir.path().join("end"), "").unwrap()));
    assert_eq!(told, Failure::new("no int4 kernel"));
    holder.wait();
    drop(build(claim(&cache, "relu")));
}

pub(crate) fn a_stopped_holder() {
    let host = Host::new();
    let mut holder = holder("hold", &host);
    kill_process(Pid::from_child(&holder.0[0]), Signal::STOP).unwrap();
    let cache = host.cache();
    let cancel = CancelToken::new();
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    query.wait = Wait::ForHolder { on_wait: None };
    query.stale_after = Duration::from_millis(100);
    let began = Instant::now();
    let Claim::Unshared(ticket, reason) = cache.get_or_begin(&key("relu"), &query).unwrap() else { panic!() };
    assert_eq!(reason, UnsharedReason::HolderStale);
    assert!(began.elapsed() >= query.stale_after);
    publish(ticket, 1);
    // A killed holder is not waited for, whether it was stopped or not.
    holder.0[0].kill().unwrap();
    holder.0[0].wait().unwrap();
    let sigmoid = build(claim(&cache, "sigmoid"));
    publish(sigmoid, 2);
}

pub(crate) fn a_cold_crowd() {
    let host = Host::new();
    let log = host.dir.path().join("built");
    fs::write(&log, "").unwrap();
    let mut crowd = Children((0..6).map(|_| spawn("crowd", &host, &log)).collect());
    crowd.wait();
    let mut built: Vec<_> = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    built.sort();
    assert_eq!(built, (0..KEYS).map(|number| format!("relu_{number}")).collect::<Vec<_>>());
}

fn crowd(cache: &TargetCache, log: &Path) {
    for number in 0..KEYS {
        let name = format!("relu_{number}");
        match settle(cache, claim(cache, &name)) {
            Claim::Build(ticket) => {
                let mut log = OpenOptions::new().append(true).open(log).unwrap();
                log.write_all(format!("{name}\n").as_bytes()).unwrap();
                // The duration of a build.
                std::thread::sleep(Duration::from_millis(20));
                publish(ticket, number);
            }
            other => assert_eq!(hit(other).0, number, "{}", text(number)),
        }
    }
}

/// Waits for more keys of other hosts than it may have files open.
fn hold_pending(root: &Path) {
    const LIMIT: u64 = 128;
    let limit = Rlimit { current: Some(LIMIT), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let remote = FakeRemote::new();
    remote.set_faults(RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() });
    let mut config = sharing(CacheConfig::new(StoreConfig::new(root)));
    config.remote = Some(RemoteConfig::new(Arc::new(remote.clone())));
    let cache = open(config);
    let mut waiters: Vec<_> =
        (0..2 * LIMIT).map(|number| pending(claim(&cache, &format!("relu {number}")))).collect();
    let open_locks = || {
        let paths = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let paths = paths.filter_map(|file| fs::read_link(file.path()).ok());
        paths.filter(|path| path.starts_with(root) && path.to_string_lossy().contains("/locks/")).count()
    };
    assert_eq!(open_locks(), LIMIT as usize / 4);
    // When a wait ends, another one may keep its file open.
    waiters.truncate(1);
    assert_eq!(open_locks(), 1);
    waiters.extend((0..LIMIT).map(|number| pending(claim(&cache, &format!("sigmoid {number}")))));
    assert_eq!(open_locks(), LIMIT as usize / 4);
    // Waits without an open file are resumed like the others.
    remote.set_faults(RemoteFaults::default());
    for waiter in waiters {
        drop(build(settle(&cache, Claim::Pending(waiter))));
    }
}

pub(crate) fn pending_keys() {
    let host = Host::new();
    let mut child = spawn("pending", &host, host.dir.path());
    assert!(child.wait().unwrap().success());
}
