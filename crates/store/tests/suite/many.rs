//! Many entries: the calls that do not depend on their number, and the cost of the walk, which does.

#![expect(
    clippy::disallowed_methods,
    reason = "this test makes files by the thousand, and the environment says how many"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::room::{Room, counted, entry, filling};
use crate::common::{hit, key, place};
use opkeep_fs::FsOp;
use opkeep_store::{GcOptions, Overwrite, TargetStore};

/// The number of entries: 10 000, or `OPKEEP_MANY_ENTRIES`.
fn many() -> u64 {
    std::env::var("OPKEEP_MANY_ENTRIES").map_or(10_000, |number| number.parse().unwrap())
}

/// Creates entries until there are `number`. They are empty, so none is a hit, but none is requested.
fn fill(store: &TargetStore, number: u64) {
    for at in counted(store).entries..number {
        fs::write(place(store, &key(&format!("filler {at}"))), "").unwrap();
    }
}

/// The accesses of a put, a hit, a miss, opening and closing, without the paths.
fn calls(room: &Room) -> Vec<Vec<FsOp>> {
    let mut calls = Vec::new();
    // The first put in a directory creates it.
    place(&room.open(), &key("one"));
    room.seen.take();
    let store = room.open();
    calls.push(room.seen.ops());
    for replace in [Overwrite::Never, Overwrite::Always] {
        store.put_replacing(&key("one"), &entry(&filling(500), Duration::ZERO), replace).unwrap();
        calls.push(room.seen.ops());
    }
    hit(&store, &key("one"));
    calls.push(room.seen.ops());
    drop(store.get(&key("none")));
    calls.push(room.seen.ops());
    drop(store);
    calls.push(room.seen.ops());
    fs::remove_file(room.open().path(&key("one"))).unwrap();
    calls
}

fn looks(room: &Room, store: &TargetStore) -> usize {
    let calls = room.seen.take();
    calls.iter().filter(|(op, path)| *op == FsOp::Look && path.starts_with(store.dir())).count()
}

/// One `stat` of every file, and nothing else.
fn bare_walk(store: &TargetStore) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for shard in fs::read_dir(store.dir().join("entries")).unwrap() {
        for file in fs::read_dir(shard.unwrap().path()).unwrap() {
            let seen = fs::symlink_metadata(file.unwrap().path()).unwrap();
            (files, bytes) = (files + 1, bytes + seen.size());
        }
    }
    (files, bytes)
}

fn timed<T>(body: impl Fn() -> T) -> Duration {
    let once = || {
        let began = Instant::now();
        body();
        began.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap()
}

#[test]
fn opening_puts_and_hits_do_not_depend_on_the_number_of_entries() {
    let number = many();
    let room = Room::new("500", "50");
    let store = room.open();
    fill(&store, 10);
    let few = calls(&room);
    fill(&store, number);
    assert_eq!(few, calls(&room));
    // Opening lists the root, to identify it, and no directory of entries.
    assert_eq!(few[0].iter().filter(|op| **op == FsOp::List).count(), 1, "{:?}", few[0]);
    assert!(!few.concat().contains(&FsOp::Link));
    println!(
        "open: {} calls; put: {}; replacing put: {}; hit: {}",
        few[0].len(),
        few[1].len(),
        few[2].len(),
        few[3].len()
    );

    // The walk: one `stat` for each file, and nothing else that grows.
    let dry = GcOptions::default().with_dry_run(true);
    room.seen.take();
    let report = store.gc(&dry).unwrap();
    let looks = looks(&room, &store) as u64;
    assert!((number..number + 20 + 256).contains(&looks), "{looks}");
    assert_eq!(report.before.entries.files, number);
    assert_eq!(bare_walk(&store).0, number);

    let unwatched = unwatched(room.root());
    let (walk, bare) = (timed(|| unwatched.gc(&dry).unwrap()), timed(|| bare_walk(&store)));
    println!(
        "walk of {number}: {walk:?}; bare: {bare:?}; {:.2} times",
        walk.as_secs_f64() / bare.as_secs_f64()
    );
}

fn unwatched(root: &Path) -> TargetStore {
    crate::common::open(root)
}
