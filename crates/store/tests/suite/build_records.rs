//! Records of builds: bounds, damage, and stores that are not written.

#![expect(clippy::disallowed_methods, reason = "these tests damage files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_fs::{FsCall, Permit};
use opkeep_store::{Access, BuildRecordKind, Store, StoreConfig};
use rustix::io::Errno;

use crate::common::room::Watch;
use crate::common::{fresh, names};

const FULL: BuildRecordKind = BuildRecordKind::Full;
const BRIEF: BuildRecordKind = BuildRecordKind::Brief;

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + second)
}

fn store(root: &Path) -> Store {
    Store::open(StoreConfig::new(root)).unwrap()
}

/// The texts of all records, the latest first.
fn texts(store: &Store) -> Vec<String> {
    let texts = store.build_records(usize::MAX).unwrap().texts;
    texts.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

#[test]
fn the_oldest_of_each_kind_are_removed() {
    let (directory, _) = fresh();
    let store = store(directory.path());
    let add = |second: u64, kind| store.add_build_record(at(second), kind, second.to_string().as_bytes());
    add(3, FULL).unwrap();
    // In any order of their times.
    for second in (10..115).rev() {
        add(second, BRIEF).unwrap();
    }
    add(2, FULL).unwrap();
    let kept: Vec<String> = (15..115).rev().chain([3, 2]).map(|second| second.to_string()).collect();
    assert_eq!(texts(&store), kept);
    let latest = store.build_records(2).unwrap();
    assert_eq!((latest.texts, latest.damaged), (vec![b"114".to_vec(), b"113".to_vec()], 0));
    assert_eq!(store.remove_build_records().unwrap(), 102);
    assert_eq!(texts(&store), [""; 0]);
}

/// Files with any names may be in the directory: they cost neither the new records nor more than a bounded time.
#[test]
fn forged_names_displace_no_record() {
    let (directory, _) = fresh();
    let store = store(directory.path());
    store.add_build_record(at(1), FULL, b"1").unwrap();
    let dir = directory.path().join("v1/.builds");
    for number in 0..150 {
        let bytes = if number < 2 { u64::MAX } else { 9 };
        fs::write(dir.join(format!("999999999999999-1-{number}-{bytes}.full")), "forged").unwrap();
        fs::write(dir.join(format!("999999999999999-1-{number}-9.brief")), "forged").unwrap();
    }
    fs::write(dir.join(format!("001700000000500-1-1-{}.full", u64::MAX)), "too large").unwrap();
    let found = store.build_records(usize::MAX).unwrap();
    assert_eq!((found.texts, found.damaged, found.bytes), (vec![b"1".to_vec()], 199, u64::MAX));
    for second in 2..5 {
        store.add_build_record(at(second), FULL, second.to_string().as_bytes()).unwrap();
        let expected: Vec<String> = (1..=second).rev().map(|second| second.to_string()).collect();
        assert_eq!(texts(&store), expected);
    }
    assert_eq!(names(&dir).len(), 200);
    // The new one stays, even if its own date is wrong.
    let future = SystemTime::now() + Duration::from_secs(9_000_000);
    store.add_build_record(future, FULL, b"future").unwrap();
    assert_eq!(texts(&store), ["4", "3", "2", "1", "future"]);
}

#[test]
fn all_records_together_have_a_maximum_size() {
    let (directory, _) = fresh();
    let store = store(directory.path());
    let mut text = vec![b'x'; Store::MAX_BUILD_RECORD_BYTES];
    for second in 0..9 {
        store.add_build_record(at(second), FULL, &text).unwrap();
    }
    // Each file has a head.
    let records = store.build_records(usize::MAX).unwrap();
    assert_eq!((records.texts.len(), records.damaged), (7, 0));
    assert!(records.bytes > 7 << 20 && records.bytes <= Store::MAX_BUILD_RECORDS_BYTES);
    text.push(b'x');
    store.add_build_record(at(9), FULL, &text).unwrap_err();
    assert_eq!(store.build_records(usize::MAX).unwrap().texts.len(), 7);
}

#[test]
fn a_record_with_any_changed_byte_is_damaged() {
    let (directory, _) = fresh();
    let store = store(directory.path());
    store.add_build_record(at(1), FULL, b"first").unwrap();
    store.add_build_record(at(2), FULL, b"a text of more than one word").unwrap();
    let dir = directory.path().join("v1/.builds");
    let path = dir.join(&names(&dir)[1]);
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        for damaged in [&other[..], &bytes[..at]] {
            fs::write(&path, damaged).unwrap();
            let found = store.build_records(9).unwrap();
            assert_eq!((found.texts, found.damaged), (vec![b"first".to_vec()], 1), "byte {at}");
        }
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(texts(&store), ["a text of more than one word", "first"]);
    // Neither are a directory and a link; other files are another program's, and stay.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    std::os::unix::fs::symlink("notes", dir.join("000000000000001-1-1-1.full")).unwrap();
    fs::write(dir.join("notes"), "another program's").unwrap();
    let found = store.build_records(9).unwrap();
    assert_eq!((found.texts.len(), found.damaged), (1, 2));
    fs::remove_dir(&path).unwrap();
    assert_eq!(store.remove_build_records().unwrap(), 2);
    assert_eq!(names(&dir), ["notes"]);
}

#[test]
fn only_a_store_that_is_written_gets_records() {
    let (directory, _) = fresh();
    let config = StoreConfig::new(directory.path());
    let reader = Store::open(config.clone().with_access(Access::ReadOnly)).unwrap();
    reader.add_build_record(at(1), FULL, b"text").unwrap_err();
    reader.remove_build_records().unwrap_err();
    assert!(!directory.path().join("v1/.builds").exists() && texts(&reader).is_empty());
    let writer = Store::open(config).unwrap();
    writer.add_build_record(at(1), FULL, b"text").unwrap();
    assert_eq!(texts(&reader), ["text"]);
    // The directory is no target, and no other program's.
    assert_eq!((writer.targets().unwrap().len(), writer.foreign().unwrap().len()), (1, 0));
    fs::remove_dir_all(directory.path().join("v1")).unwrap();
    writer.add_build_record(at(1), FULL, b"text").unwrap_err();
    assert!(!directory.path().join("v1").exists());
}

#[test]
fn the_records_of_a_shared_store_are_the_groups() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o2775)).unwrap();
    let store = store(directory.path());
    store.add_build_record(at(1), BRIEF, b"text").unwrap();
    let dir = directory.path().join("v1/.builds");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&dir), mode(&dir.join(&names(&dir)[0]))), (0o2775, 0o664));
}

/// A record is there or not, and what a failed write leaves is removed an hour later.
#[test]
fn a_full_disk_costs_the_record_only() {
    let (directory, _) = fresh();
    store(directory.path()).add_build_record(at(1), FULL, b"first").unwrap();
    let dir = directory.path().join("v1/.builds");
    for failing in 0.. {
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&calls);
        let fail = move |_: &FsCall<'_>| match seen.fetch_add(1, Ordering::Relaxed) == failing {
            true => Permit::Fail(Errno::NOSPC.into()),
            false => Permit::Go,
        };
        let config = StoreConfig::new(directory.path());
        let watched = Store::open(config.with_watcher(Arc::new(Watch(fail))));
        let opening = calls.load(Ordering::Relaxed);
        let Ok(watched) = watched else { continue };
        let added = watched.add_build_record(at(2), FULL, b"second");
        let found = store(directory.path()).build_records(9).unwrap();
        assert_eq!(found.damaged, 0, "call {failing}");
        assert!(
            found.texts.len() == 2 || added.is_err() && found.texts.len() == 1,
            "call {failing}: {added:?}"
        );
        store(directory.path()).remove_build_records().unwrap();
        store(directory.path()).add_build_record(at(1), FULL, b"first").unwrap();
        if calls.load(Ordering::Relaxed) <= failing {
            assert!(failing > opening + 4, "{failing} calls");
            break;
        }
    }
    let left = dir.join(".new-1-1");
    fs::write(&left, "half").unwrap();
    store(directory.path()).add_build_record(at(3), FULL, b"third").unwrap();
    assert!(left.exists());
    fs::File::open(&left).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    store(directory.path()).add_build_record(at(4), FULL, b"fourth").unwrap();
    assert_eq!((left.exists(), names(&dir).len()), (false, 3));
}

/// Ranks that start together add few records, each of them once.
#[test]
fn builds_of_one_second_have_few_records() {
    let (directory, _) = fresh();
    let add = |millis: u64, kind| {
        let began = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + millis);
        store(directory.path()).add_build_record(began, kind, millis.to_string().as_bytes()).unwrap();
    };
    (0..200).for_each(|rank| add(rank, BRIEF));
    (0..200).for_each(|rank| add(rank, FULL));
    let found = texts(&store(directory.path()));
    assert_eq!(found.len(), 2 * Store::MAX_BUILD_RECORDS_PER_SECOND);
    assert!(found.contains(&"0".to_owned()) && found.contains(&"9".to_owned()), "{found:?}");
    // The next second has records of its own: so many, and no fewer since those of the one before are near.
    (1000..1200).for_each(|rank| add(rank, BRIEF));
    assert_eq!(texts(&store(directory.path())).len(), 3 * Store::MAX_BUILD_RECORDS_PER_SECOND);
}

/// The last of a thousand ranks is the one that fails.
#[test]
fn a_build_that_fails_has_a_record() {
    let (directory, _) = fresh();
    let store = store(directory.path());
    for rank in 0..50 {
        store.add_build_record(at(1), FULL, format!("rank {rank}").as_bytes()).unwrap();
    }
    store.add_failed_build_record(at(1), FULL, b"failed").unwrap();
    let found = texts(&store);
    assert_eq!(found.len(), Store::MAX_BUILD_RECORDS_PER_SECOND + 1);
    assert!(found.contains(&"failed".to_owned()), "{found:?}");
    // If all fail, they do not displace each other.
    for rank in 0..200 {
        store.add_failed_build_record(at(2), FULL, format!("failed {rank}").as_bytes()).unwrap();
    }
    let found = texts(&store);
    assert_eq!(found.len(), Store::MAX_BUILD_RECORDS);
    assert!(found.contains(&"failed 0".to_owned()) && found.contains(&"failed 99".to_owned()), "{found:?}");
}
