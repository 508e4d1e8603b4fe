//! Servers whose memory is full.

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimTerms, ObjectName, RemoteError, RemoteObject};
use opkeep_testkit::servers::{RedisOptions, Server, ServerKind, trial};

use super::time::HOUR;
use super::{client, name};
use crate::contract::{content, get, lease, limits};

const OBJECT: usize = 15 << 10;

pub(super) fn trials() -> Vec<Trial> {
    let with_memory = |megabytes: u64, policy| {
        ServerKind::Redis(RedisOptions { memory: Some((megabytes << 20, policy)), ..RedisOptions::default() })
    };
    vec![
        trial(
            "redis/memory/a server that is full refuses, and still answers",
            with_memory(4, "noeviction"),
            full,
        ),
        trial("redis/memory/an evicted object is absent", with_memory(4, "allkeys-lru"), evicting),
        trial("redis/memory/a server too small for any object", with_memory(1, "allkeys-lru"), too_small),
    ]
}

fn names(count: usize) -> Vec<ObjectName> {
    (0..count).map(|number| name(&format!("e/{number}"))).collect()
}

fn full(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let (names, bytes) = (names(400), content(OBJECT, 1));
    let objects: Vec<_> = names.iter().map(|name| RemoteObject::new(name, &bytes)).collect();
    let stored = engine.put_if_absent(&objects, &limits());
    assert!(matches!(stored, Err(RemoteError::Full { .. })), "{stored:?}");
    // What is small still fits, until it does not.
    let until_full = |call: &dyn Fn(usize) -> Result<(), RemoteError>| {
        let refusal = (0..1000).find_map(|round| call(round).err());
        assert!(matches!(refusal, Some(RemoteError::Full { .. })), "{refusal:?}");
    };
    until_full(&|round| {
        let leases: Vec<_> = (0..100).map(|number| name(&format!("l/{round}/{number}"))).collect();
        engine.claim(&leases, &lease(1, 0), ClaimTerms::new(100, HOUR), &limits()).map(drop)
    });
    until_full(&|round| engine.advance(&name(&format!("p/{round}")), 1, HOUR, &limits()));
    // What was stored before is there, as a whole, and over the same connection.
    let found = get(&*engine, &names).unwrap();
    let count = found.iter().flatten().count();
    assert!(found.iter().flatten().all(|found| *found == bytes));
    assert!((1..400).contains(&count), "{count}");
    assert_eq!(engine.remove(&names, &limits()), Ok(()));
    assert!(engine.put_if_absent(&objects[..10], &limits()).is_ok());
    Ok(())
}

fn evicting(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let (names, bytes) = (names(400), content(OBJECT, 1));
    let objects: Vec<_> = names.iter().map(|name| RemoteObject::new(name, &bytes)).collect();
    for objects in objects.chunks(20) {
        engine.put_if_absent(objects, &limits()).unwrap();
    }
    let found = get(&*engine, &names).unwrap();
    let count = found.iter().flatten().count();
    assert!(found.iter().flatten().all(|found| *found == bytes));
    assert!((1..400).contains(&count), "{count}");
    Ok(())
}

fn too_small(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let (names, bytes) = (names(100), content(OBJECT, 1));
    for name in &names {
        match engine.put_if_absent(&[RemoteObject::new(name, &bytes)], &limits()) {
            Ok(_) | Err(RemoteError::Full { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let found = get(&*engine, &names).unwrap();
    assert!(found.iter().flatten().all(|found| *found == bytes));
    Ok(())
}
