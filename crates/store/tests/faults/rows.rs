//! The operations, each with the states that it may leave.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::Clock;
use opkeep_store::{
    Access, GcOptions, KeyLock, LimitSettings, LockOutcome, Lookup, Miss, Overwrite, Store, StoreConfig,
    TargetStore, WaitOptions,
};

use crate::common::{self, Created, TARGET, key, names};

/// The key of the entry that the operations are about.
pub(crate) const SUBJECT: &str = "subject";
/// How many tests share the calls of the largest rows: together they have two thirds of the table's points.
const LARGEST: usize = 3;

/// One operation.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Creates the files before the operation.
    pub(crate) prepare: fn(&Path),
    pub(crate) act: Act,
    /// The states of the subject after a failure.
    pub(crate) may_be: &'static [State],
    /// The state of the subject after success.
    pub(crate) done: &'static [State],
    /// How many of [`bystanders`] exist before, and must exist after.
    pub(crate) bystanders: usize,
    /// Whether its effect survives a power cut after success.
    pub(crate) lasts: bool,
    /// The limit of entries, if there is one.
    pub(crate) max_entries: Option<&'static str>,
    /// A further condition after success.
    pub(crate) well: fn(&Path),
    /// How many tests share its calls.
    pub(crate) parts: usize,
}

impl Row {
    /// The store as the operation opens it.
    pub(crate) fn config(&self, root: &Path) -> StoreConfig {
        let mut limits = LimitSettings::new();
        limits.max_entries = self.max_entries.map(str::to_owned);
        StoreConfig::new(root).with_limits(limits)
    }
}

/// Runs it and returns whether it succeeded. It checks other results itself.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    Open(fn(StoreConfig) -> bool),
    On(fn(&TargetStore) -> bool),
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Damaged,
    /// The earlier entry.
    Old,
    /// The entry that the operation puts.
    New,
    /// The earlier entry with another stamp.
    Stamped,
}

use State::{Absent, Damaged, New, Old, Stamped};

impl State {
    /// Fails if it is a hit with bytes that no process put, or cannot be read.
    pub(crate) fn of(store: &TargetStore, found: &Digest) -> Self {
        let entry = match store.get(found) {
            Lookup::Hit(entry) => *entry,
            Lookup::Miss(Miss::Absent) => return Absent,
            Lookup::Miss(Miss::Damaged(_)) => return Damaged,
            Lookup::Miss(other) => panic!("{other:?}"),
        };
        let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
        let (head, writer) =
            json.strip_prefix("{\"name\": \"").unwrap().split_once("\", \"writer\": ").unwrap();
        assert_eq!(key(head), *found);
        let writer = writer.trim_end_matches('}').parse().unwrap();
        Created::new(head, writer).assert_is(&entry);
        match (writer, entry.validation()) {
            (1, 7) => Old,
            (2, 7) => New,
            (1, STAMP) => Stamped,
            other => panic!("{other:?}"),
        }
    }
}

const STAMP: u32 = 9;

/// Entries that exist before and must exist after: one in another directory, one in the subject's.
pub(crate) fn bystanders() -> [String; 2] {
    let first = |name: &str| key(name).as_bytes()[0];
    let named = |near: bool| {
        let mut names = (0..).map(|at| format!("bystander{at}"));
        names.find(|name| (first(name) == first(SUBJECT)) == near).unwrap()
    };
    [named(false), named(true)]
}

fn old() -> Created {
    Created::new(SUBJECT, 1)
}

/// Always created with the same time, so that equal files are equal.
fn put_new(store: &TargetStore, replace: Overwrite) -> bool {
    let (new, created) = (Created::new(SUBJECT, 2), SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30));
    store.put_replacing(&key(SUBJECT), &new.entry().created(created), replace).is_ok()
}

pub(crate) fn nothing(_: &Path) {}

pub(crate) fn to_be_shared(root: &Path) {
    fs::set_permissions(root, Permissions::from_mode(0o2775)).unwrap();
}

fn without_target(root: &Path) {
    Store::open(StoreConfig::new(root)).unwrap();
}

fn absent(root: &Path) {
    among_bystanders(root);
}

/// A store with the bystanders.
fn among_bystanders(root: &Path) -> TargetStore {
    let store = common::open(root);
    for name in bystanders() {
        store.put(&key(&name), &Created::new(&name, 1).entry()).unwrap();
    }
    store
}

fn absent_shared(root: &Path) {
    to_be_shared(root);
    absent(root);
}

/// The subject's directory was lost with its content.
fn lost(root: &Path) {
    absent(root);
    fs::remove_dir_all(common::open(root).path(&key(SUBJECT)).parent().unwrap()).unwrap();
}

fn lost_shared(root: &Path) {
    to_be_shared(root);
    lost(root);
}

pub(crate) fn valid(root: &Path) {
    absent(root);
    common::open(root).put(&key(SUBJECT), &old().entry()).unwrap();
}

fn damaged(root: &Path) {
    valid(root);
    damage(root);
}

pub(crate) fn damage(root: &Path) {
    let path = common::open(root).path(&key(SUBJECT));
    let mut bytes = fs::read(&path).unwrap();
    bytes[300] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Nothing but the subject.
fn alone(root: &Path) {
    valid(root);
    let store = common::open(root);
    bystanders().iter().for_each(|name| fs::remove_file(store.path(&key(name))).unwrap());
}

fn valid_shared(root: &Path) {
    to_be_shared(root);
    valid(root);
}

fn damaged_shared(root: &Path) {
    to_be_shared(root);
    damaged(root);
}

/// No process used the subject for years.
fn idle(root: &Path) {
    valid(root);
    age(&common::open(root).path(&key(SUBJECT)));
}

/// The subject and another entry in its directory, both unused for years: the lock is moved from one to the other.
fn idle_two(root: &Path) {
    idle(root);
    let first = |name: &str| key(name).as_bytes()[0];
    let near = (0..).map(|at| format!("near{at}")).find(|name| first(name) == first(SUBJECT)).unwrap();
    let store = common::open(root);
    store.put(&key(&near), &Created::new(&near, 1).entry()).unwrap();
    age(&store.path(&key(&near)));
}

fn idle_shared(root: &Path) {
    to_be_shared(root);
    idle(root);
}

/// An entry that evicts for the subject.
const IDLER: &str = "idler";

/// Three entries, one of which no process used for years; and their number is unknown.
fn full_and_uncounted(root: &Path) {
    absent(root);
    let store = common::open(root);
    store.put(&key(IDLER), &Created::new(IDLER, 1).entry()).unwrap();
    age(&store.path(&key(IDLER)));
    let size = store.dir().join("size");
    drop(store);
    fs::remove_file(size).unwrap();
}

fn idler_is_gone(root: &Path) {
    assert!(!common::open(root).path(&key(IDLER)).exists(), "no process made room");
}

pub(crate) fn age(path: &Path) {
    fs::File::open(path)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30))
        .unwrap();
}

/// A process that was killed before an operation begins.
pub(crate) const DEAD: &str = "-4000000-";

/// Processes were killed in the middle of each operation, years ago.
fn littered(root: &Path) {
    valid(root);
    litter(root);
}

fn litter(root: &Path) {
    let dir = root.join("v1").join(TARGET);
    for litter in ["tmp/put-4000000-1", ".new-4000000-2"] {
        fs::write(dir.join(litter), "half an en").unwrap();
        age(&dir.join(litter));
    }
    let lock = dir.join("locks").join(key("another").to_string());
    fs::write(&lock, "failed: long ago").unwrap();
    age(&lock);
}

struct ThreeDaysAgo;

impl Clock for ThreeDaysAgo {
    fn now(&self) -> SystemTime {
        SystemTime::now() - Duration::from_secs(3 * 24 * 3600)
    }
}

/// The same, and no process searched for stale files since.
fn littered_for_days(root: &Path) {
    valid(root);
    let config = StoreConfig::new(root).with_clock(Arc::new(ThreeDaysAgo));
    Store::open(config).unwrap().target(TARGET).unwrap().gc(&GcOptions::default()).unwrap();
    litter(root);
}

fn litter_is_gone(root: &Path) {
    let dir = common::open(root).dir().to_owned();
    assert!(
        names(&dir.join("tmp")).is_empty() && names(&dir.join("locks")).is_empty(),
        "no process looked for it"
    );
}

/// Another process was killed while it created the directories of a target.
fn half_a_target(root: &Path) {
    to_be_shared(root);
    let store = common::open(root);
    for name in ["entries", "quarantine"] {
        fs::remove_dir(store.dir().join(name)).unwrap();
    }
}

/// A holder was killed after it had written the reason of its failure.
fn with_a_dead_lock(root: &Path) {
    absent(root);
    let path = common::open(root).dir().join("locks").join(key(SUBJECT).to_string());
    fs::write(path, "failed: long ago").unwrap();
}

fn with_a_dead_lock_shared(root: &Path) {
    to_be_shared(root);
    with_a_dead_lock(root);
}

pub(crate) fn all() -> Vec<Row> {
    use Act::{On, Open};
    let row = |name, prepare, act, may_be, done| Row {
        name,
        prepare,
        act,
        may_be,
        done,
        bystanders: 2,
        lasts: false,
        max_entries: None,
        well: nothing,
        parts: 1,
    };
    let too_full = |name, prepare| Row {
        parts: LARGEST,
        max_entries: Some("2"),
        ..row(name, prepare, Open(open_too_full), &[Old, Absent], &[Absent])
    };
    let full = |name, prepare| Row {
        parts: LARGEST,
        max_entries: Some("3"),
        well: idler_is_gone,
        ..row(name, prepare, On(put), &[Absent, New], &[New])
    };
    vec![
        row("put a new entry", absent, On(put), &[Absent, New], &[New]),
        row("put a new entry, shared", absent_shared, On(put), &[Absent, New], &[New]),
        Row { bystanders: 1, ..row("put into a lost directory", lost, On(put), &[Absent, New], &[New]) },
        Row {
            bystanders: 1,
            ..row("put into a lost directory, shared", lost_shared, On(put), &[Absent, New], &[New])
        },
        row("put over a damaged entry", damaged, On(put), &[Damaged, New], &[New]),
        // An unreadable entry counts as missing.
        row("put over a valid entry", valid, On(put), &[Old, New], &[Old, New]),
        row("replace a valid entry", valid, On(replace), &[Old, New], &[New]),
        row("replace a valid entry, shared", valid_shared, On(replace), &[Old, New], &[New]),
        Row { lasts: true, ..row("put and sync", absent, On(put_and_sync), &[Absent, New], &[New]) },
        Row { lasts: true, ..row("replace and sync", valid, On(replace_and_sync), &[Old, New], &[New]) },
        row("restamp", valid, On(restamp), &[Old, Stamped], &[Stamped]),
        row("get a valid entry", valid, On(get), &[Old], &[Old]),
        row("get a missing entry", absent, On(get_missing), &[Absent], &[Absent]),
        row("get a damaged entry", damaged, On(get_damaged), &[Damaged], &[Damaged]),
        row("list the keys", valid, On(list), &[Old], &[Old]),
        row("lock and unlock", absent, On(lock), &[Absent], &[Absent]),
        row("lock and unlock, shared", absent_shared, On(lock), &[Absent], &[Absent]),
        row("lock after a killed holder", with_a_dead_lock, On(lock), &[Absent], &[Absent]),
        row("lock after a killed holder, shared", with_a_dead_lock_shared, On(lock), &[Absent], &[Absent]),
        row("lock and leave a reason", absent, On(lock_and_fail), &[Absent], &[Absent]),
        row("quarantine a damaged entry", damaged, On(quarantine), &[Damaged, Absent], &[Absent]),
        row(
            "quarantine a damaged entry, shared",
            damaged_shared,
            On(quarantine),
            &[Damaged, Absent],
            &[Absent],
        ),
        row("compile a damaged entry again", damaged, On(build), &[Damaged, Absent, New], &[New]),
        Row { parts: LARGEST, ..row("evict an entry", idle, On(evict), &[Old, Absent], &[Absent]) },
        Row {
            parts: LARGEST,
            ..row("evict two entries of a directory", idle_two, On(evict_two), &[Old, Absent], &[Absent])
        },
        Row {
            parts: LARGEST,
            ..row("evict an entry, shared", idle_shared, On(evict), &[Old, Absent], &[Absent])
        },
        too_full("evict while a store is opened", idle),
        too_full("evict while a store is opened, shared", idle_shared),
        full("evict while an entry is put", full_and_uncounted),
        Row { bystanders: 0, ..row("clear a store", alone, Open(clear), &[Old, Absent], &[Absent]) },
        row("dry run of an eviction", idle, On(evict_dry), &[Old], &[Old]),
        Row { parts: LARGEST, ..row("prune stale files", littered, On(collect), &[Old], &[Old]) },
        Row {
            well: litter_is_gone,
            ..row("collect while a store is opened", littered_for_days, Open(open), &[Old], &[Old])
        },
        row("write the statistics", valid, On(count), &[Old], &[Old]),
        row("reset the statistics", valid, On(count_again), &[Old], &[Old]),
        row("open a store", valid, Open(open), &[Old], &[Old]),
        row("open a store, shared", valid_shared, Open(open), &[Old], &[Old]),
        row("open a store to read", valid, Open(open_to_read), &[Old], &[Old]),
        Row { bystanders: 0, ..row("create a target", without_target, Open(open), &[Absent], &[Absent]) },
        Row {
            bystanders: 0,
            ..row("create the rest of a shared target", half_a_target, Open(open), &[Absent], &[Absent])
        },
        Row { bystanders: 0, ..row("create a root", nothing, Open(open_root), &[Absent], &[Absent]) },
        Row {
            bystanders: 0,
            ..row("create a shared root", to_be_shared, Open(open_root), &[Absent], &[Absent])
        },
    ]
}

fn put(store: &TargetStore) -> bool {
    put_new(store, Overwrite::Never)
}

fn replace(store: &TargetStore) -> bool {
    put_new(store, Overwrite::Always)
}

fn put_and_sync(store: &TargetStore) -> bool {
    let put = put(store);
    store.sync(&[key(SUBJECT)]);
    put
}

fn replace_and_sync(store: &TargetStore) -> bool {
    let put = replace(store);
    store.sync(&[key(SUBJECT)]);
    put
}

fn restamp(store: &TargetStore) -> bool {
    match store.get(&key(SUBJECT)) {
        Lookup::Hit(entry) => store.restamp(&entry, STAMP).is_ok(),
        Lookup::Miss(_) => false,
    }
}

/// The entry, or an error: no answer of the disk makes it absent or damaged.
fn get(store: &TargetStore) -> bool {
    match store.get(&key(SUBJECT)) {
        Lookup::Hit(entry) => {
            old().assert_is(&entry);
            true
        }
        Lookup::Miss(Miss::Io(_)) => false,
        Lookup::Miss(other) => panic!("{other:?}"),
    }
}

fn get_missing(store: &TargetStore) -> bool {
    match store.get(&key(SUBJECT)) {
        Lookup::Miss(Miss::Absent) => true,
        Lookup::Miss(Miss::Io(_)) => false,
        other => panic!("{other:?}"),
    }
}

fn get_damaged(store: &TargetStore) -> bool {
    match store.get(&key(SUBJECT)) {
        Lookup::Miss(Miss::Damaged(_)) => true,
        Lookup::Miss(Miss::Io(_)) => false,
        other => panic!("{other:?}"),
    }
}

/// Unreadable directories are omitted.
fn list(store: &TargetStore) -> bool {
    let keys = store.keys(usize::MAX);
    let there = [SUBJECT.to_owned()].into_iter().chain(bystanders()).map(|name| key(&name));
    assert!(keys.iter().all(|found| there.clone().any(|key| key == *found)), "{keys:?}");
    keys.len() == 3
}

fn try_lock(store: &TargetStore) -> Option<KeyLock> {
    let options = WaitOptions::new(&|| false).with_deadline(Instant::now());
    match store.lock(&key(SUBJECT), options) {
        Ok(LockOutcome::Acquired(lock)) => Some(lock),
        Ok(LockOutcome::Unsupported) | Err(_) => None,
        Ok(other) => panic!("no process else is here: {other:?}"),
    }
}

fn lock(store: &TargetStore) -> bool {
    try_lock(store).is_some()
}

fn lock_and_fail(store: &TargetStore) -> bool {
    try_lock(store).map(|lock| lock.release_with_failure("`Relu` has no int4 kernel")).is_some()
}

fn quarantine(store: &TargetStore) -> bool {
    let Lookup::Miss(Miss::Damaged(judged)) = store.get(&key(SUBJECT)) else { return false };
    let Some(lock) = try_lock(store) else { return false };
    store.quarantine(&key(SUBJECT), &judged, &lock).is_ok_and(|moved| moved)
}

/// The steps for one kernel, as in the engine: without a lock it continues, and quarantines nothing.
fn build(store: &TargetStore) -> bool {
    let key = key(SUBJECT);
    assert!(!matches!(store.get(&key), Lookup::Hit(_)));
    let lock = try_lock(store);
    if let (Lookup::Miss(Miss::Damaged(judged)), Some(lock)) = (store.get(&key), &lock) {
        let _ = store.quarantine(&key, &judged, lock);
    }
    let put = put(store);
    store.sync(&[key]);
    put
}

fn evict(store: &TargetStore) -> bool {
    evicts(store, 1)
}

fn evict_two(store: &TargetStore) -> bool {
    evicts(store, 2)
}

fn evicts(store: &TargetStore, entries: u64) -> bool {
    let options = GcOptions::default().with_older_than(Duration::from_secs(24 * 3600));
    store.gc(&options).is_ok_and(|report| !report.busy && report.removed.entries.files == entries)
}

fn evict_dry(store: &TargetStore) -> bool {
    let older_than = Some(Duration::from_secs(24 * 3600));
    let options = GcOptions::default().with_older_than(older_than).with_dry_run(true);
    store.gc(&options).is_ok_and(|report| report.removed.entries.files == 1)
}

fn collect(store: &TargetStore) -> bool {
    store.gc(&GcOptions::default()).is_ok_and(|report| report.removed.locks.files == 1)
}

fn count(store: &TargetStore) -> bool {
    get(store);
    store.count_compile(Duration::from_millis(5));
    store.flush().is_ok()
}

fn count_again(store: &TargetStore) -> bool {
    count(store);
    store.reset_statistics().is_ok()
}

fn open(config: StoreConfig) -> bool {
    Store::open(config).and_then(|store| store.target(TARGET)).is_ok()
}

/// Whether the store is within its limit then: opening it does not promise that another process evicts.
fn open_too_full(config: StoreConfig) -> bool {
    let Ok(store) = Store::open(config).and_then(|store| store.target(TARGET)) else { return false };
    !store.path(&key(SUBJECT)).exists()
}

/// Every target, as by the command.
fn clear(config: StoreConfig) -> bool {
    let options = GcOptions::default().with_older_than(Duration::ZERO);
    let Ok(store) = Store::open(config) else { return false };
    let Ok(targets) = store.targets() else { return false };
    targets.len() == 1
        && targets.iter().all(|target| {
            let report = store.target(target).and_then(|target| target.gc(&options));
            report.is_ok_and(|report| !report.busy && report.failed == 0 && report.removed.entries.files == 1)
        })
}

fn open_root(config: StoreConfig) -> bool {
    Store::open(config).is_ok()
}

fn open_to_read(config: StoreConfig) -> bool {
    let opened = Store::open(config.with_access(Access::ReadOnly));
    opened.and_then(|store| store.target(TARGET)).is_ok()
}
