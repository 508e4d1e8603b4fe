//! Disks that are full for some time.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opkeep_embed::{FileCache, FileCacheConfig, FileKey, GroupClaim, NewGroup, Options, StoreConfig};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use rustix::io::Errno;

use crate::ticket;

/// A disk without space for further files, while it is full.
#[derive(Default)]
struct Disk {
    is_full: AtomicBool,
}

impl Watcher for Disk {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        match call.op == FsOp::Write && self.is_full.load(Ordering::SeqCst) {
            true => Permit::Fail(Errno::NOSPC.into()),
            false => Permit::Go,
        }
    }
}

#[test]
fn a_disk_that_was_full_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, warnings) = (Arc::new(Disk::default()), Arc::new(Mutex::new(Vec::new())));
    let store = StoreConfig::new(dir.path()).with_watcher(disk.clone());
    let log = Arc::clone(&warnings);
    let on_warning = Arc::new(move |_, text: &str| log.lock().unwrap().push(text.to_owned()));
    let mut config = FileCacheConfig::new(store, "test").with_on_warning(on_warning);
    config.cache.write_pause = Duration::ZERO;
    let files = FileCache::open(config).unwrap().target("cuda-sm_90").unwrap();
    let group = NewGroup::new([("file", &b"data"[..])]);
    let warned = || mem::take(&mut *warnings.lock().unwrap());
    let key = FileKey::new([1; 32]);

    disk.is_full.store(true, Ordering::SeqCst);
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    for _ in 0..2 {
        let failed = begun.publish(&group).unwrap_err();
        assert!(!begun.is_held(), "{failed}");
        assert!(files.publish(&key, &group).is_err());
    }
    let [text] = &warned()[..] else { panic!("one warning") };
    assert!(text.starts_with("kernels are built and not kept: "), "{text}");

    disk.is_full.store(false, Ordering::SeqCst);
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    assert!(begun.publish(&group).unwrap());
    assert!(matches!(files.get_or_begin(&key, &Options::default()).unwrap(), GroupClaim::Hit(_)));
    let [text] = &warned()[..] else { panic!("one message") };
    assert!(text.starts_with("kernels are kept again, in `"), "{text}");
}
