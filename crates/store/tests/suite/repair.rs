//! A target is repaired: damaged files are quarantined, valid ones stay, whatever happens meanwhile.

#![expect(clippy::disallowed_methods, reason = "these tests damage files")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::num::NonZeroUsize;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::common::harm::{HARMS, flip};
use crate::common::room::{DAY, HOUR, Room, Watch, counted};
use crate::common::{Created, TARGET, fresh, hit, inode, key, lock, miss, names, open, place, snapshot};
use opkeep_digest::Digest;
use opkeep_fs::{FsOp, Permit};
use opkeep_store::{
    Access, Entry, Lookup, Miss, OtherFileKind, Overwrite, ProblemKind, PutOutcome, RepairAction,
    RepairActionKind, RepairOptions, RepairReport, Store, StoreConfig, StoreError, TargetStore,
    UnrepairedReason, VerifyOptions,
};

const THREADS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

fn repair(store: &TargetStore) -> RepairReport {
    store.repair(&RepairOptions::default()).unwrap()
}

fn put(store: &TargetStore, name: &str) -> PathBuf {
    store.put(&key(name), &Created::new(name, 0).entry()).unwrap();
    store.path(&key(name))
}

/// The quarantined entries: keys and paths.
fn quarantined(report: &RepairReport) -> Vec<(Digest, Option<PathBuf>)> {
    let one = |action: &RepairAction| match &action.kind {
        RepairActionKind::Quarantined { key, moved_to: place, .. } => Some((*key, place.clone())),
        _ => None,
    };
    report.actions.iter().filter_map(one).collect()
}

/// The repaired paths that are no entries.
fn tidied(report: &RepairReport) -> Vec<(&Path, &RepairActionKind)> {
    let others =
        report.actions.iter().filter(|action| !matches!(action.kind, RepairActionKind::Quarantined { .. }));
    others.map(|action| (action.path.as_path(), &action.kind)).collect()
}

#[test]
fn every_kind_of_damage_is_quarantined_and_nothing_else() {
    let (_dir, store) = fresh();
    for at in 0..20 {
        put(&store, &format!("whole {at}"));
    }
    for (name, harm, _) in HARMS {
        harm(&store, &put(&store, name));
    }
    let verify = VerifyOptions::default().with_threads(THREADS);
    let report = store.repair(&RepairOptions::new(verify)).unwrap();
    assert!(report.is_valid() && tidied(&report).is_empty(), "{report:#?}");
    assert_eq!((report.checked.files, report.valid.files), (20 + HARMS.len() as u64, 20));
    let quarantine = names(&store.dir().join("quarantine"));
    assert_eq!(quarantine.len(), 2 * HARMS.len(), "{quarantine:?}");
    let listed = store.quarantined().unwrap();
    assert_eq!(listed.len(), HARMS.len());
    let quarantined = quarantined(&report);
    for (name, _, said) in HARMS {
        let entry = listed.iter().find(|entry| entry.key == key(name)).unwrap();
        assert!(entry.reason.as_ref().unwrap().contains(said) && entry.at <= SystemTime::now(), "{entry:?}");
        let (_, place) = quarantined.iter().find(|(found, _)| *found == key(name)).unwrap();
        let place = place.as_ref().unwrap();
        assert!(place.starts_with(store.dir().join("quarantine")) && place.exists());
        let reason = fs::read_to_string(place.with_extension("reason")).unwrap();
        assert!(reason.contains(said), "{name}: {reason}");
        assert_eq!(fs::metadata(place).unwrap().len(), entry.bytes);
        assert!(matches!(miss(&store, &key(name)), Miss::Absent), "{name}");
        assert_eq!(store.put(&key(name), &Created::new(name, 1).entry()).unwrap(), PutOutcome::Published);
        Created::new(name, 1).assert_is(&hit(&store, &key(name)));
    }
    (0..20)
        .map(|at| format!("whole {at}"))
        .for_each(|name| Created::new(&name, 0).assert_is(&hit(&store, &key(&name))));
    assert!(names(&store.dir().join("locks")).is_empty());
    assert_eq!(store.statistics().quarantines, HARMS.len() as u64);

    let again = repair(&store);
    assert!(again.is_valid() && again.actions.is_empty(), "{again:?}");
    assert!(store.verify(&VerifyOptions::default()).is_valid());
}

#[test]
fn a_dry_run_reports_the_actions_and_writes_nothing() {
    let (directory, store) = fresh();
    for (name, harm, _) in HARMS.iter().filter(|(name, ..)| *name != "huge") {
        harm(&store, &put(&store, name));
    }
    fs::write(store.dir().join("stats"), "corrupt").unwrap();
    fs::remove_dir(store.dir().join("quarantine")).unwrap();
    let (stray, old) =
        (store.dir().join("tmp/put-4000000-1"), store.dir().join("locks").join(key("a").to_string()));
    for path in [&stray, &old] {
        fs::write(path, "").unwrap();
        fs::File::open(path).unwrap().set_modified(std::time::SystemTime::now() - DAY).unwrap();
    }
    let before = snapshot(directory.path());
    let config = StoreConfig::new(directory.path()).with_access(Access::ReadOnly);
    let reader = Store::open(config).unwrap().target(TARGET).unwrap();
    let report = reader.repair(&RepairOptions::default().with_dry_run(true)).unwrap();
    assert_eq!(snapshot(directory.path()), before);
    let quarantined = quarantined(&report);
    assert!(
        quarantined.len() == HARMS.len() - 1 && quarantined.iter().all(|(_, place)| place.is_none()),
        "{report:?}"
    );
    let (stats, quarantine) = (store.dir().join("stats"), store.dir().join("quarantine"));
    let expected: BTreeSet<&Path> = [stray.as_path(), &old, &stats, &quarantine].into();
    assert_eq!(tidied(&report).into_iter().map(|(path, _)| path).collect::<BTreeSet<_>>(), expected);
    assert!(report.is_valid() && report.counted.is_none());

    let error = reader.repair(&RepairOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    // And so it is done.
    let report = repair(&store);
    assert_eq!(tidied(&report).len(), expected.len(), "{report:?}");
    assert_eq!(report.actions.len(), HARMS.len() - 1 + expected.len());
    assert!(report.is_valid() && !stray.exists() && !old.exists());
    assert!(store.verify(&VerifyOptions::default()).is_valid());
}

/// Fails if the content belongs to another key.
fn check(entry: &Entry) -> Result<(), String> {
    let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
    let name = json.split('"').nth(3).unwrap();
    if key(name) == *entry.key() { Ok(()) } else { Err(format!("it is `{name}`")) }
}

#[test]
fn invalid_content_is_quarantined() {
    let (_dir, store) = fresh();
    let right = put(&store, "right");
    let poisoned = key("poisoned");
    store.put(&poisoned, &Created::new("somebody else", 0).entry()).unwrap();
    let verify = VerifyOptions::default().with_check(&check);
    let report = store.repair(&RepairOptions::new(verify)).unwrap();
    let quarantined = quarantined(&report);
    let [(found, Some(place))] = &quarantined[..] else { panic!("{report:?}") };
    assert!(*found == poisoned && report.is_valid() && right.exists());
    assert_eq!(fs::read_to_string(place.with_extension("reason")).unwrap(), "it is `somebody else`\n");
}

#[test]
fn misplaced_entries_are_quarantined_and_foreign_files_stay() {
    let (directory, store) = fresh();
    let entries = store.dir().join("entries");
    let name = |name: &str| format!("{}.kern", key(name));
    fs::create_dir_all(entries.join("00")).unwrap();
    let places = [entries.join("00").join(name("a")), entries.join(name("b"))];
    for (from, to) in ["a", "b"].into_iter().zip(&places) {
        fs::rename(put(&store, from), to).unwrap();
    }
    flip(&places[1], 700);
    // Foreign: files with the name of an entry, links, directories, and others.
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join(name("e")), "precious").unwrap();
    let foreign = [
        entries.join(name("c")),
        place(&store, &key("d")),
        entries.join("00/notes"),
        place(&store, &key("e")),
    ];
    fs::write(&foreign[0], "precious").unwrap();
    fs::create_dir(&foreign[1]).unwrap();
    fs::write(&foreign[2], "precious").unwrap();
    symlink(outside.join(name("e")), &foreign[3]).unwrap();
    let linked = entries.join("77");
    fs::remove_dir_all(&linked).unwrap_or_default();
    symlink(&outside, &linked).unwrap();
    let before = foreign.each_ref().map(|path| inode(path));
    let around = snapshot(&outside);

    let report = repair(&store);
    assert_eq!(
        quarantined(&report).into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>(),
        [key("a"), key("b")].into()
    );
    assert!(places.iter().all(|path| !path.exists()));
    assert_eq!(foreign.each_ref().map(|path| inode(path)), before);
    assert_eq!(snapshot(&outside), around, "a link was followed");
    let left: Vec<_> = report.unrepaired.iter().map(|left| left.problem.path.as_path()).collect();
    let mut expected = vec![foreign[1].as_path(), &foreign[3], &linked];
    expected.sort();
    assert_eq!(left, expected);
    assert!(report.unrepaired.iter().all(|left| matches!(left.reason, UnrepairedReason::NotOurs)));
    let other_files: Vec<_> = report.other_files.iter().filter(|beside| beside.kind.is_foreign()).collect();
    assert_eq!(
        other_files.iter().map(|beside| beside.path.as_path()).collect::<BTreeSet<_>>(),
        [foreign[0].as_path(), &foreign[2]].into()
    );
    assert!(tidied(&report).is_empty(), "{report:?}");
}

/// Nothing is created behind a link in place of a directory.
#[test]
fn no_directory_is_created_where_a_link_leads() {
    let (directory, store) = fresh();
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(store.dir().join("entries")).unwrap();
    symlink(&outside, store.dir().join("entries")).unwrap();
    let report = repair(&store);
    assert!(names(&outside).is_empty() && report.actions.is_empty(), "{report:?}");
    assert!(
        matches!(report.unrepaired[..], [ref left, ..] if matches!(left.problem.kind, ProblemKind::WrongFileType { .. })),
        "{report:?}"
    );
}

#[test]
fn an_unreadable_or_untrusted_file_stays_and_is_reported() {
    let (directory, store) = fresh();
    let (unreadable, untrusted) = (put(&store, "a"), put(&store, "b"));
    flip(&untrusted, 700);
    flip(&unreadable, 700);
    fs::set_permissions(&untrusted, Permissions::from_mode(0o666)).unwrap();
    let bad = unreadable.clone();
    let watch = Watch(move |call: &opkeep_fs::FsCall<'_>| match call.op {
        FsOp::Read if call.path == bad => Permit::Fail(rustix::io::Errno::IO.into()),
        _ => Permit::Go,
    });
    let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(watch));
    let report = repair(&Store::open(config).unwrap().target(TARGET).unwrap());
    assert!(report.actions.is_empty() && report.unrepaired.len() == 2 && !report.is_valid(), "{report:?}");
    assert!(report.unrepaired.iter().all(|left| matches!(left.reason, UnrepairedReason::NotOurs)));
    assert!(unreadable.exists() && untrusted.exists());
}

#[test]
fn an_entry_in_progress_is_not_repaired() {
    let (_dir, store) = fresh();
    let path = put(&store, "a");
    flip(&path, 700);
    let held = lock(&store, &key("a"));
    let report = repair(&store);
    assert!(
        matches!(report.unrepaired[..], [ref left] if matches!(left.reason, UnrepairedReason::InProgress)),
        "{report:?}"
    );
    assert!(path.exists());
    drop(held);
    assert_eq!(quarantined(&repair(&store)).len(), 1);
}

/// Without locks, only the checks of the file protect it.
#[test]
fn a_file_system_without_locks() {
    let (directory, store) = fresh();
    flip(&put(&store, "a"), 700);
    let watch = Watch(|call: &opkeep_fs::FsCall<'_>| match call.op {
        FsOp::Lock => Permit::Fail(rustix::io::Errno::NOLCK.into()),
        _ => Permit::Go,
    });
    let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(watch));
    let report = repair(&Store::open(config).unwrap().target(TARGET).unwrap());
    assert!(report.is_valid() && quarantined(&report).len() == 1, "{report:?}");
}

/// Another process puts a valid entry at every single call of a repair that concerns the entry: it is always kept.
#[test]
fn a_valid_entry_published_meanwhile_stays() {
    let (directory, store) = fresh();
    let (subject, healthy) = (key("a"), Created::new("a", 2));
    // Which call, and how many there were.
    let (chosen, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at, count, other) = (Arc::clone(&chosen), Arc::clone(&seen), store.clone());
    let watch = Watch(move |call: &opkeep_fs::FsCall<'_>| {
        let is_about_it = |path: &Path| path.to_string_lossy().contains(&subject.to_string());
        let concerns = is_about_it(call.path) || call.to.is_some_and(is_about_it);
        if concerns && count.fetch_add(1, Ordering::Relaxed) + 1 == at.load(Ordering::Relaxed) {
            let put = other.put_replacing(&subject, &Created::new("a", 2).entry(), Overwrite::Always);
            assert_eq!(put.unwrap(), PutOutcome::Published);
        }
        Permit::Go
    });
    let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(watch));
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let (mut kept, mut calls) = (0, 0);
    for at in 1.. {
        store.put_replacing(&subject, &Created::new("a", 1).entry(), Overwrite::Always).unwrap();
        flip(&store.path(&subject), 700);
        let quarantine = store.dir().join("quarantine");
        names(&quarantine).iter().for_each(|name| fs::remove_file(quarantine.join(name)).unwrap());
        chosen.store(at, Ordering::Relaxed);
        seen.store(0, Ordering::Relaxed);
        let report = repair(&raced);
        if seen.load(Ordering::Relaxed) < at {
            assert_eq!(quarantined(&report).len(), 1);
            break;
        }
        let Lookup::Hit(entry) = store.get(&subject) else { panic!("call {at}: the healthy one is gone") };
        healthy.assert_is(&entry);
        assert!(report.unrepaired.is_empty(), "call {at}: {report:?}");
        kept += usize::from(quarantined(&report).is_empty());
        calls = at;
    }
    assert!(calls > 30 && kept > 15 && kept < calls, "{kept} of {calls}");
}

/// A file that cannot be moved stays, and is reported with the reason.
#[test]
fn a_file_that_cannot_be_moved_is_reported() {
    let (directory, store) = fresh();
    let path = put(&store, "a");
    flip(&path, 700);
    let bad = path.clone();
    let watch = Watch(move |call: &opkeep_fs::FsCall<'_>| match call.op {
        FsOp::Rename if call.path == bad => Permit::Fail(rustix::io::Errno::ACCESS.into()),
        _ => Permit::Go,
    });
    let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(watch));
    let report = repair(&Store::open(config).unwrap().target(TARGET).unwrap());
    assert!(
        matches!(report.unrepaired[..], [ref left] if matches!(left.reason, UnrepairedReason::Failed(_))),
        "{report:?}"
    );
    assert!(path.exists() && report.actions.is_empty());
}

#[test]
fn stale_files_are_pruned_and_quarantine_is_kept() {
    let room = Room::new("500", "50");
    let store = room.open();
    flip(&put(&store, "a"), 700);
    assert_eq!(quarantined(&repair(&store)).len(), 1);
    let dir = store.dir();
    let (stray, young, live) = (
        dir.join("tmp/put-4000000-1"),
        dir.join("tmp/put-4000000-2"),
        dir.join(format!("tmp/put-{}-9", std::process::id())),
    );
    let (left, unnamed) = (dir.join("locks").join(key("b").to_string()), dir.join(".new-4000000-7"));
    for (path, ago) in [(&stray, 2 * HOUR), (&young, HOUR / 2), (&live, 2 * HOUR), (&left, 2 * HOUR)] {
        fs::write(path, "").unwrap();
        fs::File::open(path).unwrap().set_modified(room.time.ago(ago)).unwrap();
    }
    fs::create_dir(&unnamed).unwrap();
    fs::File::open(&unnamed).unwrap().set_modified(room.time.ago(2 * HOUR)).unwrap();
    let report = repair(&store);
    let pruned: BTreeSet<&Path> = tidied(&report).into_iter().map(|(path, _)| path).collect();
    assert_eq!(pruned, [stray.as_path(), &left, &unnamed].into(), "{report:?}");
    assert!(young.exists() && live.exists() && !stray.exists() && !left.exists() && !unnamed.exists());
    let kinds: Vec<_> = report.other_files.iter().map(|beside| beside.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == OtherFileKind::Temporary).count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == OtherFileKind::Quarantined).count(), 2);
    // Kept at any age; `gc` deletes it later.
    room.time.pass(30 * DAY);
    repair(&store);
    assert_eq!(names(&dir.join("quarantine")).len(), 2);
}

#[test]
fn missing_directories_are_created() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o2775)).unwrap();
    let store = open(directory.path());
    put(&store, "a");
    let missing: BTreeSet<PathBuf> = ["quarantine", "tmp"].map(|name| store.dir().join(name)).into();
    missing.iter().for_each(|dir| fs::remove_dir(dir).unwrap());
    let report = repair(&store);
    let made: BTreeSet<PathBuf> = tidied(&report).into_iter().map(|(path, _)| path.to_owned()).collect();
    assert_eq!(made, missing);
    for dir in missing {
        let mode = fs::metadata(&dir).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o2775, "{}: it is shared", dir.display());
    }
    assert!(report.is_valid());

    fs::remove_dir_all(store.dir().join("entries")).unwrap();
    assert_eq!(tidied(&repair(&store)).len(), 1);
    assert!(store.verify(&VerifyOptions::default()).missing.is_empty());
}

#[test]
fn a_missing_target_is_created_at_once() {
    for gone in [TARGET, ""] {
        let (directory, store) = fresh();
        fs::remove_dir_all(directory.path().join("v1").join(gone)).unwrap();
        let report = repair(&store);
        assert!(report.is_valid(), "{:?}", report.unrepaired);
        let report = store.verify(&VerifyOptions::default());
        assert!(report.missing.is_empty() && report.is_valid());
    }
    // A root is created when a store is opened: private, and marked.
    let (directory, store) = fresh();
    fs::remove_dir_all(directory.path()).unwrap();
    store.repair(&RepairOptions::default()).unwrap_err();
    assert!(!directory.path().exists());
}

#[test]
fn counters_and_size_are_corrected() {
    let (_dir, store) = fresh();
    for at in 0..10 {
        put(&store, &at.to_string());
    }
    store.flush().unwrap();
    // Another process deleted by hand.
    (0..4).for_each(|at| fs::remove_file(store.path(&key(&at.to_string()))).unwrap());
    assert_eq!(store.estimate().unwrap().entries, 10);
    let report = repair(&store);
    let (Some(before), now) = report.counted.unwrap() else { panic!("it was known") };
    assert_eq!((before.entries, now.entries), (10, 6));
    assert_eq!(store.estimate(), Some(counted(&store)));

    for name in ["size", "stats"] {
        let path = store.dir().join(name);
        for corrupt in ["x", "opkeep statistics 1\nsince ", &"of somebody else\n".repeat(100)] {
            fs::write(&path, corrupt).unwrap();
            let report = repair(&store);
            let [(found, RepairActionKind::CountersReset)] = tidied(&report)[..] else {
                panic!("{name}: {report:?}")
            };
            assert!(found == path && report.is_valid());
            assert!(store.verify(&VerifyOptions::default()).is_valid());
        }
    }
    repair(&store);
    assert_eq!(store.estimate(), Some(counted(&store)));
    assert_eq!(store.statistics().hits, 0);
}

/// During an eviction the evicting process counts the size, and the entries are still checked.
#[test]
fn a_repair_during_an_eviction() {
    let (_dir, store) = fresh();
    flip(&put(&store, "a"), 700);
    fs::write(store.dir().join("stats"), "corrupt").unwrap();
    let path = store.dir().join("gc.lock");
    let held = fs::File::create(&path).unwrap();
    held.lock().unwrap();
    let report = repair(&store);
    assert!(report.busy && quarantined(&report).len() == 1, "{report:?}");
    assert!(
        matches!(report.unrepaired[..], [ref left] if matches!(left.reason, UnrepairedReason::InProgress)),
        "{report:?}"
    );
    drop(held);
    assert!(repair(&store).is_valid());
}

#[test]
fn it_can_be_cancelled() {
    let (_dir, store) = fresh();
    for at in 0..10 {
        flip(&put(&store, &at.to_string()), 700);
    }
    let is_cancelled = AtomicBool::new(false);
    let progress = |_| is_cancelled.store(true, Ordering::Relaxed);
    let cancelled = || is_cancelled.load(Ordering::Relaxed);
    let verify = VerifyOptions::default().with_progress(&progress).with_cancelled(&cancelled);
    let report = store.repair(&RepairOptions::new(verify)).unwrap();
    assert!(report.cancelled && !report.is_valid() && quarantined(&report).len() == 1, "{report:?}");
}

/// Builds put, entries are damaged, and two processes repair: no valid entry is quarantined, and in the end all are valid.
#[test]
fn no_valid_entry_is_lost_during_builds() {
    let (directory, store) = fresh();
    let names: Vec<String> = (0..8).map(|at| format!("kernel {at}")).collect();
    let done = AtomicBool::new(false);
    let quarantined = thread::scope(|scope| {
        for writer in 0..2usize {
            let (root, names, done) = (directory.path(), &names, &done);
            scope.spawn(move || {
                let store = open(root);
                for time in 0..200 {
                    let name = &names[(time + writer) % names.len()];
                    let (key, made) = (key(name), Created::new(name, time));
                    store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap();
                    if time % 5 == writer {
                        // Like a failing disk: in the existing file, whichever process wrote it.
                        let _ = fs::File::options().write(true).open(store.path(&key)).map(|file| {
                            std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 500).unwrap();
                        });
                        // A file that has just changed is checked twice.
                        thread::sleep(Duration::from_millis(40));
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        let repairing: Vec<_> = (0..2)
            .map(|_| {
                let (root, done) = (directory.path(), &done);
                scope.spawn(move || {
                    let (store, mut quarantined) = (open(root), Vec::new());
                    while !done.load(Ordering::Relaxed) {
                        let report = repair(&store);
                        quarantined.extend(report.actions.into_iter().filter_map(
                            |action| match action.kind {
                                RepairActionKind::Quarantined { moved_to, .. } => moved_to,
                                _ => None,
                            },
                        ));
                    }
                    quarantined
                })
            })
            .collect();
        repairing.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(!quarantined.is_empty(), "nothing was quarantined: the test shows nothing");
    for place in quarantined {
        let name = place.file_stem().unwrap().to_str().unwrap()[..64].to_owned();
        let bytes = fs::read(&place).unwrap();
        let healthy = Entry::decode(bytes, Some(&name.parse().unwrap())).is_ok();
        assert!(!healthy, "a valid entry was quarantined: {}", place.display());
    }
    assert!(repair(&store).is_valid());
    assert!(store.verify(&VerifyOptions::default()).is_valid());
    assert!(crate::common::names(&store.dir().join("tmp")).is_empty());
}
