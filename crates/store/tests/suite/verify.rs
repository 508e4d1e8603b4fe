//! A target is checked: each problem is found, no valid file is reported as one, and nothing at
//! all is written.

#![expect(clippy::disallowed_methods, reason = "these tests damage files")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::common::harm::{HARMS, flip};
use crate::common::room::{Seen, Watch};
use crate::common::{Created, TARGET, fresh, hit, key, lock, miss, place, snapshot};
use opkeep_fs::{FsCall, FsOp, Permit};
use opkeep_store::{
    Access, Destination, Entry, Miss, OtherFile, OtherFileKind, Overwrite, ProblemKind, Progress, Store,
    StoreConfig, TargetStore, VerifyOptions, VerifyReport,
};

fn verify(store: &TargetStore) -> VerifyReport {
    store.verify(&VerifyOptions::default())
}

fn reader(root: &Path) -> TargetStore {
    let config = StoreConfig::new(root).with_access(Access::ReadOnly);
    Store::open(config).unwrap().target(TARGET).unwrap()
}

fn watched(root: &Path, watch: impl Fn(&FsCall<'_>) -> Permit + Send + Sync + 'static) -> TargetStore {
    let config = StoreConfig::new(root).with_watcher(Arc::new(Watch(watch)));
    Store::open(config).unwrap().target(TARGET).unwrap()
}

fn put(store: &TargetStore, name: &str) -> PathBuf {
    store.put(&key(name), &Created::new(name, 0).entry()).unwrap();
    store.path(&key(name))
}

/// What is wrong at each path.
fn problems(report: &VerifyReport) -> BTreeMap<&Path, String> {
    report.problems.iter().map(|problem| (problem.path.as_path(), problem.kind.to_string())).collect()
}

fn kind_of(report: &VerifyReport, path: &Path) -> Option<OtherFileKind> {
    report.other_files.iter().find(|beside| beside.path == path).map(|beside| beside.kind)
}

#[test]
fn an_intact_target_is_valid() {
    let (directory, store) = fresh();
    let report = verify(&store);
    assert!(report.is_valid() && report.checked.files == 0, "{report:?}");
    let bytes: u64 = (0..40).map(|at| fs::metadata(put(&store, &at.to_string())).unwrap().len()).sum();
    for threads in [1, 3, 64] {
        let options = VerifyOptions::default().with_threads(NonZeroUsize::new(threads).unwrap());
        let report = reader(directory.path()).verify(&options);
        assert!(
            report.is_valid() && report.other_files.is_empty() && report.missing.is_empty(),
            "{report:?}"
        );
        assert_eq!((report.checked.files, report.checked.bytes), (40, bytes));
        assert_eq!(report.valid, report.checked);
    }
}

#[test]
fn every_kind_of_damage_is_found_and_named() {
    let (directory, store) = fresh();
    for at in 0..20 {
        put(&store, &format!("whole {at}"));
    }
    for (name, harm, _) in HARMS {
        harm(&store, &put(&store, name));
    }
    let report = reader(directory.path())
        .verify(&VerifyOptions::default().with_threads(NonZeroUsize::new(4).unwrap()));
    assert_eq!(report.problems.len(), HARMS.len(), "{:#?}", report.problems);
    assert_eq!((report.valid.files, report.checked.files as usize), (20, 20 + HARMS.len()));
    for (name, _, said) in HARMS {
        let found = report.problems.iter().find(|problem| problem.key == Some(key(name))).unwrap();
        assert_eq!(found.path, store.path(&key(name)));
        assert!(matches!(found.kind, ProblemKind::Damaged(_)), "{name}: {found:?}");
        assert!(found.kind.to_string().contains(said), "{name}: {}", found.kind);
    }
    assert!(report.problems.is_sorted_by(|one, other| one.path < other.path));
    // A look-up does not check the digests of lazy members; `verify` does.
    hit(&store, &key("a lazy member's digest"));
}

/// The bytes are right, under the right key; only the caller can know that the content belongs to another key.
#[test]
fn content_is_judged_by_the_caller() {
    let (_dir, store) = fresh();
    put(&store, "right");
    let (poisoned, made) = (key("poisoned"), Created::new("somebody else", 0));
    store.put(&poisoned, &made.entry()).unwrap();
    let check = |entry: &Entry| {
        let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
        let name = json.split('"').nth(3).unwrap();
        if key(name) == *entry.key() { Ok(()) } else { Err(format!("it is `{name}`")) }
    };
    let report = store.verify(&VerifyOptions::default().with_check(&check));
    let [problem] = &report.problems[..] else { panic!("{report:?}") };
    assert_eq!((problem.key, problem.kind.to_string().as_str()), (Some(poisoned), "it is `somebody else`"));
    assert!(matches!(problem.kind, ProblemKind::InvalidContent(_)));
    assert_eq!(report.valid.files, 1);
}

/// The id of a process that has ended.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn leave(path: &Path, ago: Duration) {
    fs::write(path, "left").unwrap();
    fs::File::open(path).unwrap().set_modified(SystemTime::now() - ago).unwrap();
}

#[test]
fn other_files_are_reported() {
    let (directory, store) = fresh();
    let dir = store.dir().to_owned();
    put(&store, "a");
    let day = Duration::from_secs(2 * 24 * 3600);
    let (dead, held) = (dead(), lock(&store, &key("held")));
    let shard = store.path(&key("a")).parent().unwrap().to_owned();
    let mut expected = BTreeMap::new();
    let mut expect_kind = |path: PathBuf, kind| {
        expected.insert(path.clone(), kind);
        path
    };
    leave(&expect_kind(dir.join(format!("tmp/put-{dead}-1")), OtherFileKind::StaleTemporary), day);
    leave(&expect_kind(dir.join("tmp/put-1-1"), OtherFileKind::Temporary), Duration::ZERO);
    leave(&expect_kind(dir.join(format!("tmp/evict-{dead}-1")), OtherFileKind::StaleTemporary), day);
    leave(
        &expect_kind(directory.path().join(format!("v1/.new-{dead}-1")), OtherFileKind::StaleTemporary),
        day,
    );
    fs::create_dir(expect_kind(dir.join(format!("entries/.new-{dead}-2")), OtherFileKind::Temporary))
        .unwrap();
    leave(&expect_kind(dir.join("locks").join(key("b").to_string()), OtherFileKind::StaleLock), day);
    expect_kind(dir.join("locks").join(key("held").to_string()), OtherFileKind::Lock);
    leave(
        &expect_kind(dir.join(format!("quarantine/{}-17.kern", key("c"))), OtherFileKind::Quarantined),
        Duration::ZERO,
    );
    leave(
        &expect_kind(dir.join(format!("quarantine/{}-17.reason", key("c"))), OtherFileKind::Quarantined),
        Duration::ZERO,
    );
    store.mark_unsent(&key("a"), &Destination::new("0123.team"), false).unwrap();
    for mark in ["", ".replace", ".add.0123.team", ".replace.0123.team"] {
        let mark = dir.join("unsent").join(format!("{}{mark}", key("a")));
        leave(&expect_kind(mark, OtherFileKind::Unsent), Duration::ZERO);
    }
    let no_mark = dir.join("unsent").join(format!("{}.later.0123.team", key("a")));
    leave(&expect_kind(no_mark, OtherFileKind::ForeignFile), Duration::ZERO);
    for place in ["", "tmp", "locks", "quarantine", "entries"] {
        leave(&expect_kind(dir.join(place).join("notes"), OtherFileKind::ForeignFile), day);
    }
    leave(&expect_kind(shard.join("notes.kern"), OtherFileKind::ForeignFile), day);
    leave(&expect_kind(shard.join("ABCD.kern"), OtherFileKind::ForeignFile), day);
    // A file with the name of an entry, in a wrong directory.
    leave(
        &expect_kind(dir.join("entries").join(format!("{}.kern", key("d"))), OtherFileKind::ForeignFile),
        day,
    );
    fs::create_dir(expect_kind(dir.join("entries/notes.d"), OtherFileKind::ForeignDirectory)).unwrap();
    symlink("/etc", expect_kind(shard.join("elsewhere"), OtherFileKind::Link)).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = expect_kind(dir.join("tmp/pipe"), OtherFileKind::Special);
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();

    let report = verify(&reader(directory.path()));
    drop(held);
    assert!(report.is_valid(), "{:?}", report.problems);
    let found: BTreeMap<_, _> =
        report.other_files.iter().map(|OtherFile { path, kind, .. }| (path.clone(), *kind)).collect();
    assert_eq!(found, expected);
    assert!(report.other_files.is_sorted_by(|one, other| one.path < other.path));
}

#[test]
fn misplaced_files_are_reported() {
    let (directory, store) = fresh();
    let dir = store.dir();
    // A valid entry and a damaged one, where no process looks for them.
    let (valid, damaged) = (dir.join("entries/00").join(name("a")), dir.join("entries").join(name("b")));
    fs::create_dir_all(dir.join("entries/00")).unwrap();
    for (from, to) in [("a", &valid), ("b", &damaged)] {
        fs::rename(put(&store, from), to).unwrap();
    }
    flip(&damaged, 700);
    // Directories and links where files belong, and the other way round.
    let (a_dir, a_link, outside) = (place(&store, &key("c")), place(&store, &key("d")), put(&store, "e"));
    fs::create_dir(&a_dir).unwrap();
    symlink(&outside, &a_link).unwrap();
    let shard = dir.join("entries").join(free_shard(&store));
    fs::remove_dir(&shard).unwrap();
    symlink(directory.path(), &shard).unwrap();
    fs::remove_dir(dir.join("locks")).unwrap();
    fs::write(dir.join("locks"), "").unwrap();
    fs::remove_file(dir.join("stats")).unwrap_or_default();
    fs::create_dir(dir.join("stats")).unwrap();

    let report = verify(&reader(directory.path()));
    let problems = problems(&report);
    let said = |path: &Path| {
        problems.get(path).unwrap_or_else(|| panic!("{}: {problems:?}", path.display())).as_str()
    };
    assert!(said(&valid).contains("where no look-up finds it"));
    assert!(said(&damaged).contains("damaged"));
    assert!(said(&a_dir).starts_with("a directory is where a file"), "{problems:?}");
    assert!(said(&a_link).starts_with("a symbolic link is where a file"));
    assert!(said(&shard).starts_with("a symbolic link is where a directory"));
    assert!(said(&dir.join("locks")).starts_with("a file is where a directory"));
    assert!(said(&dir.join("stats")).starts_with("a directory is where a file"));
    assert_eq!((problems.len(), report.valid.files), (7, 1), "{problems:?}");
}

fn name(name: &str) -> String {
    format!("{}.kern", key(name))
}

/// The name of a directory of entries that is empty, which this function creates.
fn free_shard(store: &TargetStore) -> String {
    let entries = store.dir().join("entries");
    let used = crate::common::names(&entries);
    let free = (0..=u8::MAX).map(|shard| format!("{shard:02x}")).find(|shard| !used.contains(shard)).unwrap();
    fs::create_dir(entries.join(&free)).unwrap();
    free
}

#[test]
fn missing_directories_are_reported_and_are_no_problem() {
    let (directory, store) = fresh();
    put(&store, "a");
    fs::remove_dir(store.dir().join("quarantine")).unwrap();
    let report = verify(&reader(directory.path()));
    assert!(report.is_valid() && report.valid.files == 1, "{report:?}");
    // Not the directories in which nothing was put.
    assert_eq!(report.missing, [store.dir().join("quarantine")]);

    let nothing = Store::open(StoreConfig::new(directory.path()).with_access(Access::ReadOnly));
    let report = verify(&nothing.unwrap().target("Ascend910B1").unwrap());
    assert!(report.is_valid() && report.missing.len() == 1, "{report:?}");
}

#[test]
fn corrupt_counters_are_reported() {
    let (directory, store) = fresh();
    put(&store, "a");
    store.flush().unwrap();
    let (size, stats) = (store.dir().join("size"), store.dir().join("stats"));
    assert!(verify(&reader(directory.path())).is_valid());
    for path in [&size, &stats] {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let report = verify(&reader(directory.path()));
    assert_eq!(problems(&report).into_keys().collect::<Vec<_>>(), [size.as_path(), stats.as_path()]);
    assert!(report.problems.iter().all(|problem| matches!(problem.kind, ProblemKind::CorruptCounters)));
    // No process has written any yet.
    [&size, &stats].into_iter().for_each(|path| fs::write(path, "").unwrap());
    assert!(verify(&reader(directory.path())).is_valid());
}

#[test]
fn an_untrusted_file_is_reported_with_help() {
    let (directory, store) = fresh();
    let (entry, other) = (put(&store, "a"), put(&store, "b"));
    let shard = store.dir().join("entries").join(free_shard(&store));
    for path in [&entry, &shard] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    flip(&other, 700);
    let report = verify(&reader(directory.path()));
    let problems = problems(&report);
    assert_eq!(problems.len(), 3, "{problems:?}");
    for path in [&entry, &shard] {
        assert!(problems[path.as_path()].contains("chmod o-w"), "{problems:?}");
    }
    assert_eq!(
        report.problems.iter().filter(|problem| matches!(problem.kind, ProblemKind::Untrusted(_))).count(),
        2
    );
}

/// One that could not be read does not keep the others from being checked, and is not called damaged.
#[test]
fn an_unreadable_file_is_reported_and_the_rest_is_checked() {
    let (directory, store) = fresh();
    let unreadable = put(&store, "a");
    for at in 0..10 {
        put(&store, &at.to_string());
    }
    let shard = store.dir().join("entries").join(free_shard(&store));
    let unlisted = shard.clone();
    let entry = unreadable.clone();
    let store = watched(directory.path(), move |call| match call.op {
        FsOp::Read if call.path == entry => Permit::Fail(rustix::io::Errno::IO.into()),
        FsOp::List if call.path == unlisted => Permit::Fail(rustix::io::Errno::IO.into()),
        _ => Permit::Go,
    });
    let report = verify(&store);
    let problems = problems(&report);
    assert_eq!(
        problems.keys().copied().collect::<std::collections::BTreeSet<_>>(),
        [unreadable.as_path(), shard.as_path()].into()
    );
    assert!(report.problems.iter().all(|problem| matches!(problem.kind, ProblemKind::Io(_))), "{problems:?}");
    assert_eq!(report.valid.files, 10);
}

/// A process that writes in place, as no store does, may be writing when the file is first read.
#[test]
fn a_file_in_progress_is_read_again() {
    let (directory, store) = fresh();
    let path = put(&store, "a");
    let bytes = fs::read(&path).unwrap();
    for part in [0, 50, 600, bytes.len() - 1] {
        let (reads, file, valid) = (AtomicUsize::new(0), path.clone(), bytes.clone());
        fs::write(&path, &bytes[..part]).unwrap();
        let store = watched(directory.path(), move |call| {
            if call.op == FsOp::Open && call.path == file && reads.fetch_add(1, Ordering::Relaxed) == 1 {
                fs::File::options()
                    .append(true)
                    .open(&file)
                    .unwrap()
                    .write_all_at(&valid[part..], 0)
                    .unwrap();
            }
            Permit::Go
        });
        let report = verify(&store);
        assert!(report.is_valid() && report.valid.files == 1, "{part}: {report:?}");
    }
    // A file that changes at each read is not reported as damaged, either.
    let (times, file, valid) = (AtomicUsize::new(0), path.clone(), bytes.clone());
    let store = watched(directory.path(), move |call| {
        if call.op == FsOp::Open && call.path == file {
            let time = times.fetch_add(1, Ordering::Relaxed);
            fs::write(&file, &valid[..300 + time]).unwrap();
        }
        Permit::Go
    });
    let report = verify(&store);
    assert!(
        matches!(report.problems[..], [ref one] if matches!(one.kind, ProblemKind::Changing)),
        "{report:?}"
    );
    // One that was truncated while it was read, and is complete again.
    fs::write(&path, &bytes).unwrap();
    let (reads, file) = (AtomicUsize::new(0), path.clone());
    let store = watched(directory.path(), move |call| match call.op {
        FsOp::Read if call.path == file && reads.fetch_add(1, Ordering::Relaxed) == 0 => {
            Permit::Short(call.bytes / 2)
        }
        _ => Permit::Go,
    });
    assert!(verify(&store).is_valid());
    // And one that is shorter at each read than its length is an I/O error.
    let file = path.clone();
    let store = watched(directory.path(), move |call| match call.op {
        FsOp::Read if call.path == file => Permit::Short(call.bytes / 2),
        _ => Permit::Go,
    });
    let report = verify(&store);
    assert!(matches!(report.problems[..], [ref one] if matches!(one.kind, ProblemKind::Io(_))), "{report:?}");
}

#[test]
fn a_check_writes_nothing() {
    let (directory, store) = fresh();
    // One is too large for the snapshot.
    for (name, harm, _) in HARMS.iter().filter(|(name, ..)| *name != "huge") {
        harm(&store, &put(&store, name));
    }
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    for at in 0..5 {
        let path = put(&store, &at.to_string());
        // A look-up would record the use.
        fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    leave(&store.dir().join(format!("tmp/put-{}-1", dead())), Duration::from_secs(1_000_000));
    fs::write(store.dir().join("size"), "corrupt").unwrap();
    store.flush().unwrap();
    let before = snapshot(directory.path());
    let report = verify(&reader(directory.path()));
    assert_eq!(report.problems.len(), HARMS.len());
    // Also by a process that might write.
    assert_eq!(verify(&store).problems.len(), HARMS.len());
    assert_eq!(snapshot(directory.path()), before);

    // And no lock is taken.
    let seen = Arc::new(Seen::default());
    let config = StoreConfig::new(directory.path()).with_watcher(seen.clone());
    let store = Store::open(config).unwrap().target(TARGET).unwrap();
    seen.take();
    verify(&store);
    let reads = [FsOp::Open, FsOp::OpenDir, FsOp::Stat, FsOp::Look, FsOp::List, FsOp::Read];
    let other: Vec<_> = seen.take().into_iter().filter(|(op, _)| !reads.contains(op)).collect();
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn progress_is_reported_and_it_can_be_cancelled() {
    let (_dir, store) = fresh();
    (0..30).for_each(|at| drop(put(&store, &at.to_string())));
    let (calls, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let progress = |Progress { checked, total, .. }| {
        assert!(total == 30 && (1..=30).contains(&checked));
        calls.fetch_add(1, Ordering::Relaxed);
        last.fetch_max(checked as usize, Ordering::Relaxed);
    };
    let threads = NonZeroUsize::new(3).unwrap();
    let report = store.verify(&VerifyOptions::default().with_threads(threads).with_progress(&progress));
    assert!(report.is_valid());
    assert_eq!((calls.load(Ordering::Relaxed), last.load(Ordering::Relaxed)), (30, 30));

    let (calls, is_cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let progress = |_| is_cancelled.store(calls.fetch_add(1, Ordering::Relaxed) + 1 >= 5, Ordering::Relaxed);
    let cancelled = || is_cancelled.load(Ordering::Relaxed);
    let options =
        VerifyOptions::default().with_threads(threads).with_progress(&progress).with_cancelled(&cancelled);
    let report = store.verify(&options);
    assert!(report.cancelled && !report.is_valid(), "{report:?}");
    assert!((5..=8).contains(&report.checked.files), "{report:?}");
}

/// Repeats `work` until `done`.
fn until<'a>(done: &'a AtomicBool, work: impl FnMut(usize) + Send + 'a) -> impl FnOnce() + Send + 'a {
    move || (0..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(work)
}

/// Forced builds replace every entry all the time, one thread deletes entries, and another damages one permanently.
#[test]
fn a_replaced_entry_is_not_reported_as_damaged() {
    let (directory, store) = fresh();
    let names: Vec<String> = (0..12).map(|at| format!("forced {at}")).collect();
    names.iter().for_each(|name| drop(put(&store, name)));
    flip(&put(&store, "damaged"), 700);
    assert!(matches!(miss(&store, &key("damaged")), Miss::Damaged(_)));
    let done = AtomicBool::new(false);
    let (mut gone, mut rounds) = (0, 0);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (store, names) = (store.clone(), &names);
            scope.spawn(until(&done, move |time| {
                let name = &names[time % names.len()];
                let made = Created::sized(name, writer + time, 400 + 97 * (time % 50));
                store.put_replacing(&key(name), &made.entry(), Overwrite::Always).unwrap();
            }));
        }
        let (clearing, names) = (store.clone(), &names);
        scope.spawn(until(&done, move |time| {
            let _ = fs::remove_file(clearing.path(&key(&names[time % names.len()])));
            thread::sleep(Duration::from_micros(200));
        }));
        let threads = NonZeroUsize::new(2).unwrap();
        for _ in 0..150 {
            let report = reader(directory.path()).verify(&VerifyOptions::default().with_threads(threads));
            let reported: Vec<_> = report.problems.iter().map(|problem| problem.path.clone()).collect();
            if reported != [store.path(&key("damaged"))] {
                done.store(true, Ordering::Relaxed);
                panic!("{:#?}", report.problems);
            }
            assert!(
                report
                    .other_files
                    .iter()
                    .all(|beside| kind_of(&report, &beside.path) == Some(OtherFileKind::Temporary))
            );
            gone += 12 - report.valid.files.min(12);
            rounds += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(rounds == 150 && gone > 0, "nothing was ever deleted: the test shows less than it says");
}

/// There may be more problems than a process may have files open.
#[test]
fn no_file_is_kept_open() {
    let (directory, store) = fresh();
    for name in 0..400 {
        put(&store, &format!("{name}"));
    }
    // Other tests of this process have files open, too.
    let root = directory.path().canonicalize().unwrap();
    let is_ours = |file: &fs::DirEntry| fs::read_link(file.path()).is_ok_and(|file| file.starts_with(&root));
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().flatten().filter(is_ours).count();
    let (before, most) = (open_files(), AtomicUsize::new(0));
    let refuse = |_: &Entry| Err("no".to_owned());
    let progress = |_| _ = most.fetch_max(open_files(), Ordering::Relaxed);
    let report = store.verify(&VerifyOptions::default().with_check(&refuse).with_progress(&progress));
    assert_eq!(report.problems.len(), 400);
    let most = most.into_inner();
    assert!(most < before + 20, "{before} -> {most}");
}
