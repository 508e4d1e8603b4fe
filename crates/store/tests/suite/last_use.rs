//! The last use of an entry: recorded by hits, by the file system's clock.

#![expect(clippy::disallowed_methods, reason = "these tests look at files, and put others in their way")]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::room::{ALL, CHEAP, DAY, HOUR, MINUTE, Room, Watch, gc, ten, used};
use crate::common::{TARGET, hit, key};
use opkeep_fs::{FsOp, Permit};
use opkeep_store::{Access, Lookup, Store};

#[test]
fn a_hit_notes_the_use_every_ten_minutes() {
    let room = Room::new("1", "50");
    let store = room.open();
    room.put(&store, "a", 9 << 10, CHEAP, Duration::ZERO);
    let first = used(&store, "a");
    room.time.pass(10 * MINUTE - Duration::from_secs(1));
    hit(&store, &key("a"));
    assert_eq!(used(&store, "a"), first);
    room.time.pass(Duration::from_secs(1));
    // Only a process that uses it counts, and only if it may write.
    assert!(matches!(store.peek(&key("a")), Lookup::Hit(_)));
    let reader = Store::open(room.config().with_access(Access::ReadOnly)).unwrap().target(TARGET).unwrap();
    hit(&reader, &key("a"));
    assert_eq!(used(&store, "a"), first);
    room.seen.take();
    hit(&store, &key("a"));
    assert_eq!(room.seen.ops(), [FsOp::Open, FsOp::Stat, FsOp::Read, FsOp::SetTime]);
    assert_eq!(used(&store, "a"), first + 10 * MINUTE);
    hit(&store, &key("a"));
    assert_eq!(room.seen.ops(), [FsOp::Open, FsOp::Stat, FsOp::Read], "no more than without limits");
}

#[test]
fn failing_to_note_a_use_loses_no_hit() {
    let room = Room::new("1", "50");
    room.put(&room.open(), "a", 9 << 10, CHEAP, DAY);
    let refuse = Watch(|call: &opkeep_fs::FsCall<'_>| match call.op {
        FsOp::SetTime => Permit::Fail(std::io::ErrorKind::PermissionDenied.into()),
        _ => Permit::Go,
    });
    let config = room.config().with_watcher(Arc::new(refuse));
    let store = Store::open(config).unwrap().target(TARGET).unwrap();
    hit(&store, &key("a"));
    assert_eq!(used(&store, "a"), room.time.ago(DAY));
}

/// "Now" is the file system's clock: the time of a file that is touched. Here it is two hours behind.
#[test]
fn the_file_systems_clock_counts() {
    let room = Room::new("1", "1");
    let behind = |ago: Duration| SystemTime::now() - 2 * HOUR - ago;
    drop(room.open());
    let hook = Watch(move |call: &opkeep_fs::FsCall<'_>| {
        if call.op == FsOp::Stat && (call.path.ends_with("size") || call.path.ends_with("gc.lock")) {
            fs::File::open(call.path).unwrap().set_modified(behind(Duration::ZERO)).unwrap();
        }
        Permit::Go
    });
    let mut config = room.config().with_watcher(Arc::new(hook));
    config.clock = None;
    let store = Store::open(config).unwrap().target(TARGET).unwrap();
    for (name, ago) in
        [("young", 5 * MINUTE), ("old", 15 * MINUTE), ("idle", 31 * MINUTE), ("used", 29 * MINUTE)]
    {
        room.put(&store, name, 300 << 10, CHEAP, Duration::ZERO);
        room.use_at(&store, name, behind(ago));
    }
    hit(&store, &key("young"));
    assert!(used(&store, "young") < behind(Duration::ZERO));
    hit(&store, &key("old"));
    assert!(used(&store, "old") > behind(Duration::ZERO));
    assert_eq!(gc(&store).removed.entries.files, 1);
    assert_eq!(room.left(&store, &["idle", "used"]), ["used"]);
}

/// Another machine's clock was wrong when this was used: it is in use now, and ages from now on.
#[test]
fn a_use_in_the_future_is_now() {
    let room = Room::new("1", "1");
    let store = ten(&room, 2 * HOUR);
    room.put(&store, "more", 200 << 10, CHEAP, Duration::ZERO);
    room.use_at(&store, "a", room.time.ago(Duration::ZERO) + 365 * DAY);
    gc(&store);
    assert_eq!(room.left(&store, &ALL), ["a"]);
    assert_eq!(used(&store, "a"), room.time.ago(Duration::ZERO));
    room.use_at(&store, "a", room.time.ago(Duration::ZERO) + 365 * DAY);
    hit(&store, &key("a"));
    assert_eq!(used(&store, "a"), room.time.ago(Duration::ZERO));
}
