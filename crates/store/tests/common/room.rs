//! A clock that a test sets, a watcher of disk accesses, and entries with a given last use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::{Clock, FsCall, FsOp, Permit, Watcher};
use opkeep_store::{
    EntryBuilder, GcOptions, GcReport, LimitSettings, SizeEstimate, Store, StoreConfig, TargetStore,
};

use super::{TARGET, key};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
pub(crate) const MB: u64 = 1 << 20;

/// A clock that the test sets.
pub(crate) struct Time(Mutex<SystemTime>);

impl Time {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(SystemTime::now())))
    }

    pub(crate) fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    pub(crate) fn ago(&self, time: Duration) -> SystemTime {
        *self.0.lock().unwrap() - time
    }
}

impl Clock for Time {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

/// A watcher that lets a function decide each access.
pub(crate) struct Watch<F>(pub(crate) F);

impl<F: Fn(&FsCall<'_>) -> Permit + Send + Sync> Watcher for Watch<F> {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        (self.0)(call)
    }
}

/// Records every access.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<(FsOp, PathBuf)>>);

impl Seen {
    /// The accesses since the last call.
    pub(crate) fn take(&self) -> Vec<(FsOp, PathBuf)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    pub(crate) fn ops(&self) -> Vec<FsOp> {
        self.take().into_iter().map(|(op, _)| op).collect()
    }
}

impl Watcher for Seen {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        self.0.lock().unwrap().push((call.op, call.path.to_owned()));
        Permit::Go
    }
}

/// A store with a limit, and the time in it.
pub(crate) struct Room {
    directory: tempfile::TempDir,
    pub(crate) time: Arc<Time>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) limits: LimitSettings,
}

impl Room {
    /// A store with a limit in MB and percent.
    pub(crate) fn new(size: &str, ratio: &str) -> Self {
        let limits = LimitSettings::new().with_size(size).with_ratio(ratio);
        let directory = memory().map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
        Self { directory, time: Time::new(), seen: Arc::default(), limits }
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn config(&self) -> StoreConfig {
        StoreConfig::new(self.root())
            .with_limits(self.limits.clone())
            .with_clock(self.time.clone())
            .with_watcher(self.seen.clone())
    }

    pub(crate) fn open(&self) -> TargetStore {
        Store::open(self.config()).unwrap().target(TARGET).unwrap()
    }

    /// Puts an entry of exactly `bytes` bytes with this compile time and this age of its last use.
    pub(crate) fn put(&self, store: &TargetStore, name: &str, bytes: u64, cost: Duration, ago: Duration) {
        store.put(&key(name), &entry(&filling(bytes), cost)).unwrap();
        assert_eq!(fs::metadata(store.path(&key(name))).unwrap().len(), bytes);
        self.use_at(store, name, self.time.ago(ago));
    }

    /// Sets the last use of an entry to `time`.
    pub(crate) fn use_at(&self, store: &TargetStore, name: &str, time: SystemTime) {
        fs::File::open(store.path(&key(name))).unwrap().set_modified(time).unwrap();
    }

    /// The existing ones among these entries.
    pub(crate) fn left(&self, store: &TargetStore, names: &[&str]) -> Vec<String> {
        let left = names.iter().filter(|name| store.path(&key(name)).exists());
        left.map(|name| (*name).to_owned()).collect()
    }
}

/// A directory in memory with enough space. Entries are synced, which is slow on a disk and not tested here.
fn memory() -> Option<&'static str> {
    let room = rustix::fs::statvfs("/dev/shm").ok()?;
    (room.f_bavail.saturating_mul(room.f_frsize) > 1 << 30).then_some("/dev/shm")
}

/// Bytes that make an entry of `bytes` bytes.
pub(crate) fn filling(bytes: u64) -> Vec<u8> {
    let overhead = 88 + 42 + "object".len() + 32;
    Digest::of(&bytes.to_le_bytes()).as_bytes().repeat(bytes as usize / 32 + 1)[..bytes as usize - overhead]
        .to_vec()
}

pub(crate) fn entry(object: &[u8], cost: Duration) -> EntryBuilder<'_> {
    EntryBuilder::new(1).cost(cost).eager("object", object)
}

/// When an entry was last used.
pub(crate) fn used(store: &TargetStore, name: &str) -> SystemTime {
    fs::metadata(store.path(&key(name))).unwrap().modified().unwrap()
}

/// The total size, as a walk counts it.
pub(crate) fn counted(store: &TargetStore) -> SizeEstimate {
    let report = store.gc(&GcOptions::default().with_dry_run(true)).unwrap();
    SizeEstimate { bytes: report.before.total().bytes, entries: report.before.entries.files }
}

/// The compile time of most entries.
pub(crate) const CHEAP: Duration = Duration::from_secs(1);
/// Names of ten entries.
pub(crate) const ALL: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Ten entries of 100 KiB, the first idle for longest, each a minute longer than the next; the last for `last`.
pub(crate) fn ten(room: &Room, last: Duration) -> TargetStore {
    let store = room.open();
    for (at, name) in ALL.into_iter().enumerate() {
        room.put(&store, name, 100 << 10, CHEAP, last + MINUTE * (9 - at as u32));
    }
    store
}

/// Evicts, as a put does.
pub(crate) fn gc(store: &TargetStore) -> GcReport {
    store.gc(&GcOptions::default()).unwrap()
}
