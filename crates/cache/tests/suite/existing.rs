//! Objects that an engine has when a host sends its own. That something has the name of an entry does not prove that hosts can take it.

use std::time::{Duration, Instant};

use opkeep_cache::{ObjectName, Source, TargetCache};
use opkeep_store::Entry;
use opkeep_testkit::remote::RemoteCall::{Get, Put, Replace};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

use crate::common::{Host, build, builder, claim, config, entry_name, hit, key, publish, text};

/// What another program may have stored, or a disk have made of an entry.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// Something that is no object, and that no host can read.
    NoObject,
    Empty,
    Junk,
    /// An entry whose end is missing.
    Cut,
    /// The entry of another key.
    Other,
}

const WRONG: [Wrong; 5] = [Wrong::NoObject, Wrong::Empty, Wrong::Junk, Wrong::Cut, Wrong::Other];

fn valid(name: &str) -> Vec<u8> {
    let object = text(3);
    builder(&object).encode(&key(name)).unwrap()
}

impl Wrong {
    fn store(self, remote: &FakeRemote, name: &ObjectName) {
        let mut content = valid("relu");
        match self {
            Self::NoObject => return remote.occupy(name),
            Self::Empty => content.clear(),
            Self::Junk => content = b"<html></html>".to_vec(),
            Self::Cut => content.truncate(content.len() - 1),
            Self::Other => content = valid("gelu"),
        }
        remote.set_object(name, content);
    }
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

/// Fails unless other hosts take the entry of `writer`.
fn serves(remote: &FakeRemote, writer: usize, wrong: Wrong) {
    let other = Host::new();
    assert_eq!(
        hit(claim(&other.with_remote(&config(remote)), "relu")),
        (writer, Source::Remote),
        "{wrong:?}"
    );
    assert!(other.warnings().is_empty(), "{wrong:?}");
}

/// A host whose entry is not sent yet.
fn unsent(remote: &FakeRemote, writer: usize) -> (Host, TargetCache) {
    let host = Host::new();
    let cache = host.with_remote(&config(remote));
    let ticket = build(claim(&cache, "relu"));
    remote.set_faults(RemoteFaults { is_full: true, ..RemoteFaults::default() });
    assert!(!publish(ticket, writer).remote);
    remote.set_faults(RemoteFaults::default());
    assert_eq!(cache.store().unwrap().unsent().len(), 1);
    (host, cache)
}

#[test]
fn a_built_entry_replaces_a_wrong_one() {
    for wrong in WRONG {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let cache = host.with_remote(&config(&remote));
        let ticket = build(claim(&cache, "relu"));
        // After this host has looked for it.
        wrong.store(&remote, &entry_name("relu"));
        assert!(publish(ticket, 1).remote, "{wrong:?}");
        assert_eq!((remote.count(Put), remote.count(Replace)), (1, 1), "{wrong:?}");
        assert_eq!(cache.store().unwrap().unsent().len(), 0);
        serves(&remote, 1, wrong);
    }
}

#[test]
fn a_push_replaces_a_wrong_entry() {
    for wrong in WRONG {
        let remote = FakeRemote::new();
        let (_host, cache) = unsent(&remote, 1);
        wrong.store(&remote, &entry_name("relu"));
        let report = cache.push_unsent(soon(), None);
        assert_eq!((report.sent, report.left), (1, 0), "{wrong:?}");
        assert_eq!(cache.store().unwrap().unsent().len(), 0);
        serves(&remote, 1, wrong);
        // Once more, with all that is in the store.
        remote.remove_object(&entry_name("relu"));
        wrong.store(&remote, &entry_name("relu"));
        assert_eq!(cache.push_all(&|_: &Entry| false, soon(), None).sent, 1);
        serves(&remote, 1, wrong);
    }
}

/// Another host's entry stays, which costs one call.
#[test]
fn a_valid_entry_stays() {
    let remote = FakeRemote::new();
    let (_host, cache) = unsent(&remote, 1);
    let others = valid("relu");
    remote.set_object(&entry_name("relu"), others.clone());
    let read = remote.count(Get);
    assert_eq!(cache.push_unsent(soon(), None).sent, 1);
    assert_eq!((remote.count(Get) - read, remote.count(Replace)), (1, 0));
    assert_eq!(remote.object(&entry_name("relu")), Some(others));
    // An entry that did not exist needs no proof.
    remote.remove_object(&entry_name("relu"));
    assert_eq!(cache.push_all(&|_: &Entry| false, soon(), None).sent, 1);
    assert_eq!((remote.count(Get) - read, remote.count(Replace)), (1, 0));
}

/// Without an answer, the entry is sent later.
#[test]
fn what_cannot_be_read_is_not_sent() {
    let remote = FakeRemote::new();
    let (host, cache) = unsent(&remote, 1);
    host.warnings();
    remote.set_object(&entry_name("relu"), valid("relu"));
    remote.set_faults(RemoteFaults { fails_after: Some(0), ..RemoteFaults::default() });
    let report = cache.push_unsent(soon(), None);
    assert_eq!((report.sent, report.left), (0, 1));
    assert_eq!((cache.store().unwrap().unsent().len(), host.warnings().len()), (1, 1));
    remote.set_faults(RemoteFaults::default());
    assert_eq!(cache.push_unsent(soon(), None).sent, 1);
}
