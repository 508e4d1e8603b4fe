//! The lock that an eviction moves from key to key excludes others from each, whenever they come.

#![expect(clippy::disallowed_methods, reason = "this test ages entries")]

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::common::{Created, TARGET, fresh, key, names, within};
use opkeep_fs::FsOp;
use opkeep_store::{GcOptions, LockOutcome, Overwrite, Store, StoreConfig};
use opkeep_testkit::fault::FaultyDisk;

/// Two entries of one directory are evicted under one lock, which is moved from key to key. A process that gets the lock on either
/// at any moment keeps what is there then.
#[test]
fn a_lock_that_is_moved_excludes_others() {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let config = StoreConfig { watcher: Some(disk.clone()), ..StoreConfig::new(directory.path()) };
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let first = |name: &str| key(name).as_bytes()[0];
    let near = (0..).map(|at| format!("near{at}")).find(|name| first(name) == first("relu")).unwrap();
    let names_of_both = ["relu".to_owned(), near];
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let (mut kept, mut excluded, mut moves) = (0, 0, 0);
    for which in names_of_both.clone() {
        for at in 1.. {
            disk.disarm();
            for name in &names_of_both {
                store.put_replacing(&key(name), &Created::new(name, 0).entry(), Overwrite::Always).unwrap();
                fs::File::open(store.path(&key(name))).unwrap().set_modified(long_ago).unwrap();
            }
            let (other, taken) = (store.clone(), Arc::new(Mutex::new(None)));
            let (gives, wanted) = (Arc::clone(&taken), key(&which));
            disk.interrupt(at, move || {
                let outcome = within(&other, &wanted, Duration::ZERO);
                *gives.lock().unwrap() = Some((outcome, other.path(&wanted).exists()));
            });
            let older_than = Some(Duration::from_secs(24 * 3600));
            raced.gc(&GcOptions { older_than, ..GcOptions::default() }).unwrap();
            match taken.lock().unwrap().take() {
                Some((LockOutcome::Acquired(_), was_there)) => {
                    assert_eq!(store.path(&wanted).exists(), was_there, "{at}");
                    kept += usize::from(was_there);
                }
                Some((LockOutcome::TimedOut, _)) => excluded += 1,
                other => assert!(!disk.has_sprung(), "{other:?}"),
            }
            moves += disk.calls().iter().filter(|op| **op == FsOp::Rename).count() / 3;
            assert!(names(&store.dir().join("locks")).is_empty(), "{at}");
            assert!(names(&store.dir().join("tmp")).is_empty(), "{at}");
            if !disk.has_sprung() {
                break;
            }
        }
    }
    assert!(kept > 0 && excluded > 10 && moves > 0, "{kept} {excluded} {moves}");
}
