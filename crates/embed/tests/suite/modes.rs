//! Each mode, on a store with the files, on one without them, and without a store.

use std::time::SystemTime;

use opkeep_embed::{
    CacheMode, EmbedError, FileCache, FileCacheConfig, FileKey, GroupClaim, NewGroup, Options, StoreConfig,
    TargetFiles,
};
use opkeep_store::{Overwrite, Store};

const OLD: &[u8] = b"of an earlier run";
const NEW: &[u8] = b"of this run";
const KEY: [u8; 32] = [1; 32];

/// What a mode does.
#[derive(Debug, PartialEq)]
struct Behavior {
    /// The file that `get` returns.
    get: Option<&'static [u8]>,
    /// The result of `get_or_begin`.
    claim: Claimed,
    /// Whether files were written, with a ticket if the claim is one.
    writes: bool,
    /// The file that `get` and `get_or_begin` return afterwards.
    again: Option<&'static [u8]>,
    /// The file that another cache finds afterwards.
    stored: Option<&'static [u8]>,
}

#[derive(Debug, PartialEq)]
enum Claimed {
    Hit,
    Begin,
    Unshared,
    NotCached,
}

fn open(dir: &tempfile::TempDir, mode: CacheMode) -> Result<TargetFiles, EmbedError> {
    let config = FileCacheConfig::new(StoreConfig::new(dir.path().join("store")), "test");
    FileCache::open(config.with_mode(mode))?.target("cuda-sm_90")
}

fn found(files: &TargetFiles) -> Option<&'static [u8]> {
    let group = files.get(&FileKey::new(KEY)).unwrap()?;
    [OLD, NEW].into_iter().find(|bytes| group.get("file") == Some(bytes))
}

fn behavior(files: &TargetFiles, dir: &tempfile::TempDir) -> Behavior {
    let (key, new) = (FileKey::new(KEY), NewGroup::new([("file", NEW)]));
    let placed = |files: &TargetFiles| files.find_placed(&key, None, |_| Some(())).unwrap().is_some();
    let get = found(files);
    assert_eq!(placed(files), get.is_some());
    let (claim, writes) = match files.get_or_begin(&key, &Options::default()) {
        Ok(GroupClaim::Hit(group)) => {
            assert_eq!(group.get("file"), get);
            (Claimed::Hit, false)
        }
        Ok(GroupClaim::Begin(ticket)) => (Claimed::Begin, ticket.publish(&new).unwrap()),
        Ok(GroupClaim::Unshared(ticket, _)) => (Claimed::Unshared, ticket.publish(&new).unwrap()),
        Err(EmbedError::Cache(opkeep_embed::CacheError::NotCached { .. })) => (Claimed::NotCached, false),
        other => panic!("{other:?}"),
    };
    let again = found(files);
    assert_eq!(placed(files), again.is_some());
    if let Ok(GroupClaim::Hit(group)) = files.get_or_begin(&key, &Options::default()) {
        assert_eq!(group.get("file"), again);
    } else {
        assert_eq!(again, None);
    }
    let stored = open(dir, CacheMode::Enable).ok().and_then(|other| found(&other));
    Behavior { get, claim, writes, again, stored }
}

#[test]
fn each_mode_reads_and_writes_files_that_are_stored() {
    for mode in CacheMode::ALL {
        let dir = tempfile::tempdir().unwrap();
        let earlier = open(&dir, CacheMode::Enable).unwrap();
        assert!(earlier.publish(&FileKey::new(KEY), &NewGroup::new([("file", OLD)])).unwrap());
        let read = Behavior {
            get: Some(OLD),
            claim: Claimed::Hit,
            writes: false,
            again: Some(OLD),
            stored: Some(OLD),
        };
        let expected = match mode {
            CacheMode::Enable | CacheMode::ReadOnly | CacheMode::Require => read,
            CacheMode::Force => Behavior {
                get: None,
                claim: Claimed::Begin,
                writes: true,
                again: Some(NEW),
                stored: Some(NEW),
            },
            CacheMode::Disable => Behavior {
                get: None,
                claim: Claimed::Unshared,
                writes: false,
                again: None,
                stored: Some(OLD),
            },
        };
        let files = open(&dir, mode).unwrap();
        assert_eq!(behavior(&files, &dir), expected, "{mode}");
        let written = files.publish(&FileKey::new(KEY), &NewGroup::new([("file", NEW)])).unwrap();
        assert_eq!(written, mode.writes(), "{mode}");
        assert_eq!(found(&open(&dir, CacheMode::Enable).unwrap()) == Some(NEW), mode.writes(), "{mode}");
    }
}

#[test]
fn each_mode_reads_and_writes_files_that_are_not_stored() {
    for mode in CacheMode::ALL {
        let dir = tempfile::tempdir().unwrap();
        drop(open(&dir, CacheMode::Enable).unwrap());
        let nothing = |claim| Behavior { get: None, claim, writes: false, again: None, stored: None };
        let expected = match mode {
            CacheMode::Enable | CacheMode::Force => Behavior {
                get: None,
                claim: Claimed::Begin,
                writes: true,
                again: Some(NEW),
                stored: Some(NEW),
            },
            CacheMode::Disable | CacheMode::ReadOnly => nothing(Claimed::Unshared),
            CacheMode::Require => nothing(Claimed::NotCached),
        };
        assert_eq!(behavior(&open(&dir, mode).unwrap(), &dir), expected, "{mode}");
    }
}

#[test]
fn each_mode_without_a_store() {
    for mode in CacheMode::ALL {
        let dir = tempfile::tempdir().unwrap();
        let opened = open(&dir, mode);
        let is_there = dir.path().join("store").exists();
        match mode {
            CacheMode::Enable | CacheMode::Force => assert!(opened.is_ok() && is_there, "{mode}"),
            CacheMode::Disable => assert!(opened.is_ok() && !is_there, "{mode}"),
            CacheMode::ReadOnly | CacheMode::Require => {
                assert!(matches!(opened, Err(EmbedError::Cache(_))) && !is_there, "{mode}");
            }
        }
    }
}

/// With `force`, what counts is the time at which the cache was opened: an entry of another caller that was made since then is
/// used, and one whose time is in the future comes from another clock.
#[test]
fn force_uses_what_was_made_since_the_cache_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (key, new) = (FileKey::new(KEY), NewGroup::new([("file", NEW)]));
    let first = open(&dir, CacheMode::Force).unwrap();
    open(&dir, CacheMode::Enable).unwrap().publish(&key, &new).unwrap();
    assert_eq!(found(&first), Some(NEW));
    let second = open(&dir, CacheMode::Force).unwrap();
    assert_eq!((found(&second), found(&first)), (None, Some(NEW)));

    let store =
        Store::open(StoreConfig::new(dir.path().join("store"))).unwrap().target("cuda-sm_90").unwrap();
    let opkeep_store::Lookup::Hit(entry) = store.peek(&first.entry_key(&key)) else {
        panic!("it was published")
    };
    let later = SystemTime::now() + std::time::Duration::from_secs(3600);
    let moved = entry.revalidated(entry.validation(), &[]).created(later);
    store.put_replacing(entry.key(), &moved, Overwrite::Always).unwrap();
    assert_eq!(found(&first), None);
    assert!(matches!(first.get_or_begin(&key, &Options::default()).unwrap(), GroupClaim::Begin(_)));
}

/// What a mode does not use counts neither as a hit nor as a miss.
#[test]
fn only_what_is_used_counts() {
    let dir = tempfile::tempdir().unwrap();
    let key = FileKey::new(KEY);
    open(&dir, CacheMode::Enable).unwrap().publish(&key, &NewGroup::new([("file", OLD)])).unwrap();
    let count = |mode| {
        let files = open(&dir, mode).unwrap();
        let _ = files.get(&key).unwrap();
        let _ = files.get(&FileKey::new([2; 32])).unwrap();
        files.flush();
        let store = Store::open(StoreConfig::new(dir.path().join("store"))).unwrap();
        let counted = store.target("cuda-sm_90").unwrap().statistics();
        (counted.hits, counted.misses_absent)
    };
    assert_eq!(count(CacheMode::Enable), (1, 1));
    assert_eq!(count(CacheMode::Force), (1, 2));
}
