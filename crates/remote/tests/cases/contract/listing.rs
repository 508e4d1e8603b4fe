//! Listings.

use std::collections::BTreeMap;

use opkeep_cache::{ListedObject, RemoteError};

use super::Needs::{Listing, Objects};
use super::{Case, Cases, content, limits};

pub(super) const CASES: Cases = &[
    ("a listing has all objects below a prefix and no others", Listing, prefixes),
    ("a listing of hundreds of objects comes in parts", Listing, parts),
    ("an engine without listings says so", Objects, none),
];

/// All objects below a prefix.
pub(super) fn list(case: &Case, prefix: &str) -> BTreeMap<String, ListedObject> {
    let (mut objects, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let listing = case.engine.list(prefix, &cursor, &limits()).unwrap();
        objects.extend(listing.objects.into_iter().map(|object| (object.name.to_string(), object)));
        match listing.next {
            Some(next) => cursor = next,
            None => return objects,
        }
    }
}

fn prefixes(case: &Case) {
    let sizes = [("a/x", 10), ("a/y", 3000), ("a/b/z", 0), ("ab/x", 1), ("b", 70_000)];
    for (name, size) in sizes {
        case.put(&case.name(name), &content(size, 1));
    }
    let below = |prefix: &str| -> Vec<String> {
        let names = list(case, &format!("{}/{prefix}", case.scope)).into_keys();
        names.map(|name| name.strip_prefix(&format!("{}/", case.scope)).unwrap().to_owned()).collect()
    };
    assert_eq!(below("a/"), ["a/b/z", "a/x", "a/y"]);
    assert_eq!(below("a/b/"), ["a/b/z"]);
    assert_eq!(below(""), ["a/b/z", "a/x", "a/y", "ab/x", "b"]);
    assert_eq!(below("c/"), [""; 0]);
    let all = list(case, "");
    for (name, size) in sizes {
        let object = &all[case.name(name).as_str()];
        // An engine may report what an object takes, its name included.
        assert!((size as u64..size as u64 * 2 + 1000).contains(&object.bytes), "{object:?}");
        assert!(object.idle.is_none_or(|idle| idle.as_secs() < 3600), "{object:?}");
    }
    case.engine.remove(&[case.name("a/x")], &limits()).unwrap();
    assert_eq!(below("a/"), ["a/b/z", "a/y"]);
}

fn parts(case: &Case) {
    let names: Vec<_> = (0..700).map(|number| case.name(&format!("e/{number:03}"))).collect();
    let objects: Vec<_> = names.iter().map(|name| opkeep_cache::RemoteObject::new(name, b"x")).collect();
    case.engine.replace(&objects, &limits()).unwrap();
    let listed: Vec<_> = list(case, &format!("{}/", case.scope)).into_keys().collect();
    assert_eq!(listed, names.iter().map(ToString::to_string).collect::<Vec<_>>());
}

fn none(case: &Case) {
    if !case.subject.capabilities.has_listing {
        let listing = case.engine.list("", "", &limits());
        assert!(matches!(listing, Err(RemoteError::Unsupported { .. })), "{listing:?}");
    }
}
