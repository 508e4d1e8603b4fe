//! The calls that a watcher sees and refuses.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use opkeep_fs::{Fs, FsCall, FsOp, Permit, RootedFs, Watcher};

/// Records each call, refuses removals, and permits three bytes at a time.
#[derive(Default)]
struct Strict(Mutex<Vec<(FsOp, PathBuf)>>);

impl Watcher for Strict {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        self.0.lock().unwrap().push((call.op, call.path.to_owned()));
        match call.op {
            FsOp::Remove => Permit::Fail(io::ErrorKind::PermissionDenied.into()),
            FsOp::Read | FsOp::Write => Permit::Short(3),
            _ => Permit::Go,
        }
    }
}

#[test]
fn calls_are_seen_refused_and_cut_short() {
    let temp = tempfile::tempdir().unwrap();
    let watcher = Arc::new(Strict::default());
    let fs = RootedFs::new(Some(watcher.clone()), None);
    let path = temp.path().join("file");
    let file = fs.open_to_change(&path, Some(0o600)).unwrap();
    assert_eq!(fs.write(&file, &path, b"12345").unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(fs::read(&path).unwrap(), b"123");
    fs::write(&path, "12345").unwrap();
    assert_eq!(fs.read_start(&file, &path, 5).unwrap(), b"123");
    assert_eq!(fs.remove(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let of = |op: FsOp| watcher.0.lock().unwrap().iter().filter(|call| **call == (op, path.clone())).count();
    assert_eq!([FsOp::OpenLock, FsOp::Write, FsOp::Read, FsOp::Remove].map(of), [1, 1, 1, 1]);

    let fs = Fs::new().with_watcher(watcher);
    assert_eq!(fs.remove(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert!(path.exists());
}
