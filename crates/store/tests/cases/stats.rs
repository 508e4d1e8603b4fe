//! The statistics of a store: counted by every process, written once, and never an obstacle. The test program runs itself as
//! the other processes.

#![expect(clippy::disallowed_methods, reason = "these tests damage files, and run themselves")]

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::common::room::{DAY, Room, counted, entry, filling};
use crate::common::{Children, child, hit, key, lock, miss, open, place, snapshot, trial, within};
use libtest_mimic::Trial;
use opkeep_fs::FsOp;
use opkeep_store::{
    Access, Counter, GcOptions, LockOutcome, Lookup, Miss, Statistics, Store, StoreConfig, TargetStore,
};

const COST: Duration = Duration::from_millis(1500);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("everything_is_counted", everything_is_counted),
        trial("no_look_up_writes", no_look_up_writes),
        trial("it_is_written_when_the_last_user_is_done", it_is_written_when_the_last_user_is_done),
        trial("a_corrupt_file_is_reset", a_corrupt_file_is_reset),
        trial("a_reader_writes_no_statistics", a_reader_writes_no_statistics),
        trial("statistics_can_be_reset", statistics_can_be_reset),
        trial("nothing_that_processes_count_is_lost", nothing_that_processes_count_is_lost),
        trial("killed_processes_lose_few_puts", killed_processes_lose_few_puts),
        trial("several_processes_evict", several_processes_evict),
    ]
}

fn put(store: &TargetStore, name: &str, bytes: u64) {
    store.put(&key(name), &entry(&filling(bytes), COST)).unwrap();
}

pub(crate) fn other_process(arguments: &[String]) {
    let [how, root, name] = arguments else { panic!("{arguments:?}") };
    let root = Path::new(root);
    match how.as_str() {
        "count" => {
            let store = open(root);
            for at in 0..40 {
                put(&store, &format!("{name}-{at}"), 1000);
                hit(&store, &key(&format!("{name}-{at}")));
                miss(&store, &key("absent"));
            }
        }
        // It never closes the store.
        "die" => {
            let store = open(root);
            (0..150).for_each(|at| put(&store, &format!("{name}-{at}"), 1000));
            std::process::abort();
        }
        "fill" => {
            let limits = opkeep_store::LimitSettings::new().with_size(1);
            let store = Store::open(StoreConfig::new(root).with_limits(limits))
                .unwrap()
                .target(crate::common::TARGET)
                .unwrap();
            for at in 0..200 {
                let name = format!("{name}-{at}");
                put(&store, &name, 8 << 10);
                // A compile takes longer.
                thread::sleep(Duration::from_millis(2));
                // Older entries are not in use.
                let old = SystemTime::now() - DAY;
                let _ = fs::File::open(store.path(&key(&name))).and_then(|file| file.set_modified(old));
            }
        }
        other => panic!("{other}"),
    }
}

fn spawn(how: &str, root: &Path, name: &str) -> Child {
    let mut command = child("stats", &[how, root.to_str().unwrap(), name]);
    command.stderr(std::process::Stdio::null()).spawn().unwrap()
}

fn everything_is_counted() {
    let room = Room::new("1", "50");
    let store = room.open();
    assert_eq!(store.statistics(), Statistics::default());
    put(&store, "a", 3000);
    put(&store, "b", 5000);
    // It exists already; that is no use of it.
    put(&store, "b", 5000);
    hit(&store, &key("a"));
    hit(&store, &key("b"));
    assert!(matches!(store.peek(&key("a")), Lookup::Hit(_)));
    assert!(matches!(store.get(&key("c")), Lookup::Miss(Miss::Absent)));
    assert!(matches!(store.get_uncounted(&key("c")), Lookup::Miss(Miss::Absent)));
    assert!(matches!(store.get_uncounted(&key("a")), Lookup::Hit(_)));
    store.count_compile(COST);
    store.count_compile(COST);
    store.count(Counter::RemoteHits, 3);
    store.count(Counter::RemotePuts, 2);
    store.count(Counter::RemoteErrors, 1);
    store.count(Counter::Takeovers, 4);
    let held = lock(&store, &key("c"));
    assert!(matches!(within(&store, &key("c"), Duration::from_millis(20)), LockOutcome::TimedOut));
    drop(held);
    fs::write(place(&store, &key("d")), "damaged").unwrap();
    let Miss::Damaged(judged) = miss(&store, &key("d")) else { panic!("it is damaged") };
    assert!(store.quarantine(&key("d"), &judged, &lock(&store, &key("d"))).unwrap());
    fs::create_dir(place(&store, &key("e"))).unwrap();
    assert!(matches!(miss(&store, &key("e")), Miss::Io(_)));
    std::os::unix::fs::symlink(store.dir().join("tmp"), store.dir().join("link")).unwrap();
    fs::write(place(&store, &key("f")), "writable").unwrap();
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(store.path(&key("f")), open_to_all).unwrap();
    assert!(matches!(miss(&store, &key("f")), Miss::Untrusted(_)));
    fs::remove_file(store.path(&key("f"))).unwrap();
    room.use_at(&store, "b", room.time.ago(DAY));
    store.gc(&GcOptions::default().with_max_bytes(4500)).unwrap();
    store.gc(&GcOptions::clear().with_dry_run(true)).unwrap();
    assert_eq!(store.statistics().cleared, 0, "a dry run clears nothing");
    store.gc(&GcOptions::clear()).unwrap();

    let found = store.statistics();
    let expected = [
        ("since", 0),
        ("hits", 3),
        ("absent", 1),
        ("damaged", 1),
        ("untrusted", 1),
        ("trouble", 1),
        ("compiles", 2),
        ("compile-us", 3_000_000),
        ("waits", 1),
        ("wait-us", found.wait_micros),
        ("puts", 2),
        ("bytes-read", 11_000),
        ("bytes-written", 8000),
        ("saved-us", 4_500_000),
        ("evictions", 1),
        ("bytes-evicted", 5000),
        ("cleared", 1),
        ("bytes-cleared", 3000),
        ("quarantines", 1),
        ("remote-hits", 3),
        ("remote-puts", 2),
        ("remote-errors", 1),
        ("remote-shared", 0),
        ("remote-bytes-received", 0),
        ("remote-bytes-sent", 0),
        ("remote-failures", 0),
        ("uploads-refused", 0),
        ("uploads-unsent", 0),
        ("host-waits", 0),
        ("takeovers", 4),
        ("lost-process-us", 0),
        ("lost-host-us", 0),
        ("lost-remote-us", 0),
        ("refused-damaged", 0),
        ("refused-unsigned", 0),
        ("refused-untrusted", 0),
        ("refused-forged", 0),
        ("refused-invalid", 0),
    ];
    assert_eq!(found.all().collect::<Vec<_>>(), expected);
    assert!((20_000..5_000_000).contains(&found.wait_micros), "{found:?}");
    assert_eq!((found.misses(), found.time_saved()), (4, 3 * COST));
    drop(store);
    let after = room.open().statistics();
    assert_eq!(after.all().skip(1).collect::<Vec<_>>(), expected[1..]);
    assert_eq!(
        after.since,
        room.time.ago(Duration::ZERO).duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    );
}

fn no_look_up_writes() {
    let room = Room::new("1", "50");
    let store = room.open();
    put(&store, "a", 3000);
    hit(&store, &key("a"));
    miss(&store, &key("absent"));
    room.seen.take();
    for _ in 0..1000 {
        hit(&store, &key("a"));
        miss(&store, &key("absent"));
    }
    let ops = room.seen.ops();
    assert_eq!(ops.len(), 4000);
    assert!(ops.iter().all(|op| matches!(op, FsOp::Open | FsOp::Stat | FsOp::Read)));
}

fn it_is_written_when_the_last_user_is_done() {
    let room = Room::new("1", "50");
    let store = room.open();
    put(&store, "a", 3000);
    let clone = store.clone();
    let elsewhere = || {
        let store = room.open();
        (store.statistics().puts, store.estimate().unwrap().entries)
    };
    drop(store);
    assert_eq!(elsewhere(), (0, 0));
    hit(&clone, &key("a"));
    clone.flush().unwrap();
    assert_eq!(elsewhere(), (1, 1));
    // Each count is added once, and a failed write is repeated later.
    clone.flush().unwrap();
    let held = fs::File::open(clone.dir().join("numbers.lock")).unwrap();
    held.lock().unwrap();
    hit(&clone, &key("a"));
    assert!(clone.flush().is_err());
    drop(held);
    clone.flush().unwrap();
    assert_eq!(room.open().statistics().hits, 2);
    drop(clone);
    assert_eq!(elsewhere(), (1, 1));
    // A process that did nothing writes nothing.
    let idle = room.open();
    room.seen.take();
    drop(idle);
    assert_eq!(room.seen.ops(), []);
}

fn a_corrupt_file_is_reset() {
    let room = Room::new("1", "50");
    put(&room.open(), "a", 3000);
    let path = room.open().dir().join("stats");
    let valid = fs::read(&path).unwrap();
    for text in [&valid[..valid.len() / 2], b"{\"hits\": 7}", b"", &valid.repeat(2)] {
        fs::write(&path, text).unwrap();
        let store = room.open();
        assert_eq!(store.statistics(), Statistics::default());
        hit(&store, &key("a"));
        drop(store);
        assert_eq!((room.open().statistics().hits, room.open().statistics().puts), (1, 0));
    }
}

fn a_reader_writes_no_statistics() {
    let room = Room::new("1", "50");
    put(&room.open(), "a", 3000);
    let before = snapshot(room.root());
    let store = Store::open(room.config().with_access(Access::ReadOnly))
        .unwrap()
        .target(crate::common::TARGET)
        .unwrap();
    hit(&store, &key("a"));
    miss(&store, &key("absent"));
    assert_eq!((store.statistics().hits, store.statistics().puts), (1, 1), "it knows what others did");
    assert_eq!(store.estimate().unwrap().entries, 1);
    store.flush().unwrap();
    assert!(store.reset_statistics().is_err());
    drop(store);
    assert_eq!(snapshot(room.root()), before);
}

fn statistics_can_be_reset() {
    let room = Room::new("1", "50");
    let store = room.open();
    put(&store, "a", 3000);
    store.flush().unwrap();
    hit(&store, &key("a"));
    room.time.pass(DAY);
    store.reset_statistics().unwrap();
    let now = room.time.ago(Duration::ZERO).duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let nothing = store.statistics();
    assert_eq!(nothing.since, now);
    assert!(nothing.all().skip(1).all(|(_, number)| number == 0), "{nothing:?}");
    assert_eq!(store.estimate().unwrap().entries, 1, "the size is no statistic");
    hit(&store, &key("a"));
    drop(store);
    assert_eq!((room.open().statistics().hits, room.open().statistics().since), (1, now));
}

fn nothing_that_processes_count_is_lost() {
    let room = Room::new("500", "50");
    let store = room.open();
    let names = ["a", "b", "c"];
    let mut others = Children(names.map(|name| spawn("count", room.root(), name)).into());
    thread::scope(|scope| {
        for name in ["x", "y"] {
            let store = &store;
            scope.spawn(move || {
                for at in 0..40 {
                    put(store, &format!("{name}-{at}"), 1000);
                    store.flush().unwrap();
                }
            });
        }
    });
    for other in &mut others.0 {
        assert!(other.wait().unwrap().success());
    }
    store.flush().unwrap();
    let found = store.statistics();
    assert_eq!((found.puts, found.hits, found.misses_absent), (200, 120, 120));
    assert_eq!((found.bytes_written, found.saved_micros), (200_000, 180_000_000));
    let estimate = store.estimate().unwrap();
    assert_eq!((estimate.bytes, estimate.entries), (200_000, 200));
}

fn killed_processes_lose_few_puts() {
    let room = Room::new("500", "50");
    let store = room.open();
    let mut others = Children(["a", "b"].map(|name| spawn("die", room.root(), name)).into());
    for other in &mut others.0 {
        assert!(!other.wait().unwrap().success());
    }
    let estimate = store.estimate().unwrap();
    assert_eq!((counted(&store).entries, estimate.entries), (300, 2 * 128), "64 puts at most, each");
    store.gc(&GcOptions::default()).unwrap();
    assert_eq!(store.estimate().unwrap().entries, 300);
    // No manual step is needed.
    put(&store, "more", 1000);
    hit(&store, &key("a-149"));
}

/// Four processes put 6 MB where one is allowed. The excess is at most the puts that each process has not yet reported.
fn several_processes_evict() {
    let room = Room::new("1", "50");
    let mut config = room.config();
    config.clock = None;
    let store = Store::open(config).unwrap().target(crate::common::TARGET).unwrap();
    let mut others = Children(["a", "b", "c", "d"].map(|name| spawn("fill", room.root(), name)).into());
    let mut most = 0;
    while others.0.iter_mut().any(|other| other.try_wait().unwrap().is_none()) {
        most = most.max(counted(&store).bytes);
        thread::sleep(Duration::from_millis(2));
    }
    for other in &mut others.0 {
        assert!(other.wait().unwrap().success());
    }
    let unsaid = 4 * 64 * (8 << 10);
    println!("at most {most} bytes where {} are the limit", 1 << 20);
    assert!(most > 1 << 20, "{most}");
    assert!(most < (1 << 20) + 2 * unsaid, "{most} of 1 MiB and {unsaid} that no process has said yet");
    let report = store.gc(&GcOptions::default()).unwrap();
    assert!(report.after.total().bytes <= 1 << 20 && report.after.temporary.files == 0, "{report:?}");
    assert_eq!(report.after.locks.files, 0);
    assert_eq!(store.statistics().puts, 800);
    assert_eq!(store.statistics().evictions + report.after.entries.files, 800);
}
