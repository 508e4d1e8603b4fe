//! The marks of entries that are to be sent to a remote cache.
#![expect(clippy::disallowed_methods, reason = "these tests write marks of earlier versions")]

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use opkeep_fs::FsOp;
use opkeep_store::{Access, Destination, Store, StoreConfig, TargetStore};

use crate::common::room::Room;
use crate::common::{TARGET, fresh, key, names};

/// The name, the destination and the replacement of each mark.
fn marks(store: &TargetStore) -> Vec<(bool, Option<String>, bool)> {
    let is_relu = |found| found == key("relu");
    let of = |destination: Option<Destination>| destination.map(|found| found.to_string());
    let unsent = store.unsent().into_iter();
    unsent.map(|mark| (is_relu(mark.key), of(mark.destination), mark.replaces)).collect()
}

#[test]
fn a_mark_is_for_one_destination() {
    let (_directory, store) = fresh();
    let [one, other] = ["0123.team", "0123.replace"].map(Destination::new);
    let [some_one, some_other] = [&one, &other].map(|found| Some(found.to_string()));
    assert_eq!((marks(&store), store.count_unsent()), (vec![], 0));
    for replaces in [false, true, true] {
        store.mark_unsent(&key("relu"), &one, replaces).unwrap();
    }
    store.mark_unsent(&key("relu"), &other, false).unwrap();
    let both = vec![(true, some_other.clone(), false), (true, some_one.clone(), true)];
    assert_eq!((marks(&store), store.count_unsent()), (both, 1));
    // What was sent to one destination is still to be sent to the other one, and what is to be replaced stays marked until it is.
    store.mark_sent(&key("relu"), Some(&one), false);
    store.mark_sent(&key("relu"), None, true);
    assert_eq!(marks(&store), [(true, some_other.clone(), false), (true, some_one, true)]);
    store.mark_sent(&key("relu"), Some(&one), true);
    assert_eq!(marks(&store), [(true, some_other, false)]);
    store.mark_unsent(&key("tanh"), &one, true).unwrap();
    store.unmark_unsent(&key("relu"));
    assert_eq!((marks(&store).len(), store.count_unsent(), marks(&store)[0].0), (1, 1, false));
}

/// Marks of earlier versions name no destination.
#[test]
fn a_mark_of_an_earlier_version_is_read() {
    let (directory, store) = fresh();
    store.mark_unsent(&key("tanh"), &Destination::new("a"), false).unwrap();
    let unsent = store.dir().join("unsent");
    for name in [key("relu").to_string(), format!("{}.replace", key("relu")), "notes".to_owned()] {
        fs::write(unsent.join(name), "").unwrap();
    }
    let unnamed = (true, None, true);
    assert!(marks(&store).contains(&unnamed) && store.count_unsent() == 2, "{:?}", marks(&store));
    // A store that is only read keeps its marks.
    let config = StoreConfig::new(directory.path()).with_access(Access::ReadOnly);
    let reader = Store::open(config).unwrap().target(TARGET).unwrap();
    reader.mark_sent(&key("relu"), None, true);
    reader.unmark_unsent(&key("relu"));
    assert_eq!(names(&unsent).len(), 4);
    store.mark_sent(&key("relu"), None, true);
    assert_eq!((marks(&store), names(&unsent).len()), (vec![(false, Some("a".to_owned()), false)], 2));
}

/// A build of many kernels that stay here would list the directory once for each.
#[test]
fn the_marks_of_many_keys_are_removed_with_one_listing() {
    let room = Room::new("100", "50");
    let store = room.open();
    let [one, other, late] = ["one", "other", "late"].map(Destination::new);
    let names: Vec<_> = (0..40).map(|number| format!("kernel {number}")).collect();
    let keys = names.iter().map(|name| key(name));
    for key in keys.clone() {
        store.mark_unsent(&key, &one, false).unwrap();
        store.mark_unsent(&key, &other, true).unwrap();
    }
    store.mark_unsent(&key("relu"), &one, false).unwrap();
    room.seen.take();
    for (number, key) in keys.enumerate() {
        match number {
            5 => store.mark_unsent(&key, &late, false).unwrap(),
            6 => store.mark_sent(&key, Some(&one), false),
            _ => {}
        }
        store.unmark_unsent(&key);
    }
    let listed = room.seen.ops().iter().filter(|op| **op == FsOp::List).count();
    assert_eq!((listed, store.unsent().len()), (1, 1), "{:?}", store.unsent());
}

#[test]
fn marks_of_another_process_are_removed_too() {
    let (directory, store) = fresh();
    let another = Store::open(StoreConfig::new(directory.path())).unwrap().target(TARGET).unwrap();
    let first = SystemTime::now();
    for (seconds, name) in (1..).zip(["one", "other", "third"]) {
        another.mark_unsent(&key("relu"), &Destination::new(name), name == "other").unwrap();
        // Times of file systems are not exact enough to tell this change from the last one.
        let unsent = File::open(store.dir().join("unsent")).unwrap();
        unsent.set_modified(first + Duration::from_secs(seconds)).unwrap();
        store.unmark_unsent(&key("relu"));
        assert_eq!(store.unsent(), [], "{name}");
    }
}
