//! Hosts that share a cache: processes with stores of their own, and one engine: a directory, or a Redis server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::RemoteConfig;
use opkeep_embed::{
    FileCache, FileCacheConfig, FileKey, GroupClaim, NewGroup, Options, StoreConfig, TargetFiles,
};
use opkeep_remote::{RemoteSettings, SettingText};
use opkeep_testkit::in_forked_child;
use opkeep_testkit::remote::{FakeRemote, RemoteCall};
use opkeep_testkit::servers::{ServerKind, trial};
use rustix::process::Signal;

use crate::processes::{Process, begin, group, key, until};

/// The time to live of leases where a holder is killed.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// A test with the engine at a URL.
type Body = fn(&str);

/// Each trial with each engine.
pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Body); 4] = [
        ("of hosts that share an engine one makes the files", of_hosts),
        ("a host takes over from a killed one", a_killed_host),
        ("a forked child shares its parent's cache", a_forked_child),
        ("what a killed process has not sent is sent by the next one", a_killed_upload),
    ];
    let mut trials = Vec::new();
    for (name, body) in tests {
        trials.push(Trial::test(format!("{name} (directory)"), move || with_directory(body)));
        trials.push(trial(format!("{name} (Redis)"), ServerKind::redis(), move |server| {
            body(&server.url());
            Ok(())
        }));
    }
    trials.push(Trial::test("a forked child does not wait for its parent's upload", || {
        let dir = tempfile::tempdir()?;
        Process::start("remote-fork-upload", dir.path()).succeeds();
        Ok(())
    }));
    trials
}

fn with_directory(body: Body) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    body(&format!("file://{}", dir.path().display()));
    Ok(())
}

/// The files of the host `host`, whose engine is named by the file `url` in `directory`.
fn open(directory: &Path, host: &str) -> (FileCache, TargetFiles) {
    let url = fs::read_to_string(directory.join("url")).unwrap();
    let mut settings = RemoteSettings::default();
    settings.url = Some(SettingText::new(url, "the test"));
    let mut config = FileCacheConfig::new(StoreConfig::new(directory.join(host)), "test");
    settings.apply(&mut config.cache).unwrap();
    config.cache.remote.as_mut().unwrap().lease_ttl = SHORT_TTL;
    let cache = FileCache::open(config).unwrap();
    let files = cache.target("cuda-sm_90").unwrap();
    (cache, files)
}

fn place(url: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("url"), url).unwrap();
    dir
}

/// What other processes do: `ROLE DIRECTORY`.
pub(crate) fn other_process(role: &str, directory: &Path) {
    match role {
        "remote-crowd" => {
            let host = format!("host-{}", std::process::id());
            let (cache, files) = open(directory, &host);
            until("the start", || directory.join("start").exists());
            match files.get_or_begin(&key(), &Options::default()).unwrap() {
                GroupClaim::Hit(group) => assert_eq!(group.get("file"), Some(&b"data"[..])),
                GroupClaim::Begin(ticket) => {
                    fs::write(directory.join(format!("made-{host}")), "").unwrap();
                    thread::sleep(Duration::from_millis(500));
                    ticket.publish(&group()).unwrap();
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(cache.close(), 0);
        }
        "remote-hold" => {
            let (_, files) = open(directory, "killed");
            let _ticket = begin(&files);
            fs::write(directory.join("holds"), "").unwrap();
            thread::sleep(Duration::from_secs(600));
        }
        "remote-fork" => fork(directory),
        "remote-fork-upload" => fork_during_an_upload(directory),
        "remote-killed" => {
            let (_, files) = open(directory, "killed");
            // Too much for one moment, so that the process is killed before all is sent.
            for number in 0..40 {
                let bytes = vec![number; 200_000];
                let group = NewGroup::new([("file", &bytes[..])]);
                files.publish(&FileKey::new([number; 32]), &group).unwrap();
            }
            rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
        other => panic!("{other}"),
    }
}

fn of_hosts(url: &str) {
    let dir = place(url);
    let crowd: Vec<_> = (0..6).map(|_| Process::start("remote-crowd", dir.path())).collect();
    fs::write(dir.path().join("start"), "").unwrap();
    crowd.into_iter().for_each(Process::succeeds);
    let names = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
    let made = names.filter(|name| name.to_string_lossy().starts_with("made-"));
    assert_eq!(made.count(), 1);
}

fn a_killed_host(url: &str) {
    let dir = place(url);
    let holder = Process::start("remote-hold", dir.path());
    until("the holder", || dir.path().join("holds").exists());
    let (cache, files) = open(dir.path(), "waiter");
    holder.signal(Signal::KILL);
    let killed = Instant::now();
    let ticket = begin(&files);
    // One time to live, its part for the first sight of the lease, and the load of a machine.
    assert!(killed.elapsed() < SHORT_TTL * 20, "{:?}", killed.elapsed());
    ticket.publish(&group()).unwrap();
    assert_eq!(cache.close(), 0);
    let (_, other) = open(dir.path(), "other");
    assert!(other.get(&key()).unwrap().unwrap().from_remote());
}

/// The test needs a process of its own, in which it forks.
fn a_forked_child(url: &str) {
    let dir = place(url);
    let (cache, files) = open(dir.path(), "maker");
    for number in 10..30 {
        files.publish(&FileKey::new([number; 32]), &group()).unwrap();
    }
    assert_eq!(cache.close(), 0);
    Process::start("remote-fork", dir.path()).succeeds();
    let (_, other) = open(dir.path(), "other");
    for number in [1, 40, 41, 42] {
        let found = other.get(&FileKey::new([number; 32])).unwrap();
        assert!(found.is_some_and(|found| found.from_remote()), "{number}");
    }
}

/// The engine does not answer while the process forks. A child that has not used the cache neither waits for what its parent sends, nor
/// sends it.
fn fork_during_an_upload(directory: &Path) {
    let (remote, go) = (FakeRemote::new(), Arc::new(AtomicBool::new(false)));
    let gate = Arc::clone(&go);
    remote.on_call(move |call, _| {
        if call == RemoteCall::Put {
            until("the end of the children", || gate.load(Ordering::SeqCst));
        }
    });
    let mut config = FileCacheConfig::new(StoreConfig::new(directory.join("store")), "test");
    config.cache.remote = Some(RemoteConfig::new(Arc::new(remote.clone())));
    config.close_limit = Duration::from_secs(40);
    let cache = FileCache::open(config).unwrap();
    begin(&cache.target("cuda-sm_90").unwrap()).publish(&group()).unwrap();
    remote.wait_for(RemoteCall::Put, 1);
    assert!(in_forked_child(|| {
        let began = Instant::now();
        assert_eq!(cache.close(), 0);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }));
    go.store(true, Ordering::SeqCst);
    assert_eq!((cache.close(), remote.count(RemoteCall::Put)), (0, 1));
}

/// The parent has connections, threads and an upload in progress. Each child uses its own, and ends without its parent's work.
fn fork(directory: &Path) {
    let (cache, files) = open(directory, "parent");
    let key = |number| FileKey::new([number; 32]);
    assert!(files.get(&key(10)).unwrap().unwrap().from_remote());
    let held = begin(&files);
    let big = vec![7; 3 << 20];
    files.publish(&key(40), &NewGroup::new([("file", &big[..])])).unwrap();
    for (child, published) in [(0, 41), (1, 42)] {
        assert!(in_forked_child(|| {
            let began = Instant::now();
            assert!(files.get(&key(11 + child)).unwrap().unwrap().from_remote());
            let options = Options::default().with_timeout(Duration::from_millis(200));
            // The parent holds this one.
            let claim = files.get_or_begin(&crate::processes::key(), &options).unwrap();
            assert!(matches!(claim, GroupClaim::TimedOut), "{claim:?}");
            match files.get_or_begin(&key(published), &Options::default()).unwrap() {
                GroupClaim::Begin(ticket) => assert!(ticket.publish(&group()).unwrap()),
                other => panic!("{other:?}"),
            }
            cache.close();
            assert!(began.elapsed() < Duration::from_secs(30));
        }));
        // The parent goes on with its own connections.
        assert!(files.get(&key(20 + child)).unwrap().unwrap().from_remote());
    }
    assert!(held.publish(&group()).unwrap());
    assert_eq!(cache.close(), 0);
}

fn a_killed_upload(url: &str) {
    let dir = place(url);
    let mut process = Process::start("remote-killed", dir.path());
    process.wait();
    let unsent = || -> usize {
        let directory: PathBuf = dir.path().join("killed/v1/cuda-sm_90/unsent");
        fs::read_dir(directory).map_or(0, |files| files.flatten().count())
    };
    assert!(unsent() > 0, "the process had sent all");
    let (cache, _) = open(dir.path(), "killed");
    assert_eq!(cache.close(), 0);
    assert_eq!(unsent(), 0);
    let (_, other) = open(dir.path(), "other");
    let keys: Vec<_> = (0..40).map(|number| FileKey::new([number; 32])).collect();
    let claims = other.get_or_begin_many(&keys, 0, &Options::default()).unwrap();
    assert!(claims.iter().all(|claim| matches!(claim, GroupClaim::Hit(_))), "{claims:?}");
}
