//! Stores to measure, and a counter of their calls to the disk.
#![allow(dead_code, reason = "each benchmark uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opkeep_benches::{Kernel, make_directory, write};
use opkeep_digest::Digest;
use opkeep_fs::{Clock, FsCall, FsOp, Permit, Watcher};
use opkeep_store::{EntryBuilder, LimitSettings, Store, StoreConfig, TargetStore};

/// The key of entry `number`.
pub(crate) fn key(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

/// The members of a kernel's entry.
pub(crate) fn draft(kernel: &Kernel) -> EntryBuilder<'_> {
    EntryBuilder::new(1)
        .eager("json", &kernel.json)
        .eager("object", &kernel.object)
        .lazy("info", &kernel.info)
}

/// A configuration with a limit in MB.
pub(crate) fn config(root: &Path, megabytes: u64) -> StoreConfig {
    let limits = LimitSettings::new().with_size(megabytes);
    StoreConfig::new(root).with_limits(limits)
}

/// More than any benchmark stores, so that there is a limit and nothing is evicted.
pub(crate) const AMPLE: u64 = 1 << 20;

pub(crate) fn open(config: StoreConfig) -> TargetStore {
    Store::open(config).unwrap().target("bench").unwrap()
}

/// Creates files with the names of entries `from..to`, of one byte each, for benchmarks that read no entry.
pub(crate) fn fill(store: &TargetStore, from: u64, to: u64) {
    for number in from..to {
        let path = store.path(&key(number));
        // A store makes the directory of an entry when it puts the first one there.
        make_directory(path.parent().unwrap()).unwrap();
        write(&path, b"-").unwrap();
    }
}

/// A clock that is ahead: a new entry looks idle for that time.
pub(crate) struct Fast(pub(crate) Duration);

impl Clock for Fast {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.0
    }
}

/// A store in which nothing was used for half an hour.
pub(crate) fn idle(config: StoreConfig) -> StoreConfig {
    config.with_clock(Arc::new(Fast(Duration::from_secs(31 * 60))))
}

/// Counts calls to the disk.
#[derive(Default)]
pub(crate) struct Calls(Mutex<BTreeMap<FsOp, u64>>);

impl Watcher for Calls {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        *self.0.lock().unwrap().entry(call.op).or_default() += 1;
        Permit::Go
    }
}

impl Calls {
    /// The number of calls since the last one of this function.
    pub(crate) fn take(&self) -> u64 {
        std::mem::take(&mut *self.0.lock().unwrap()).values().sum()
    }

    /// The calls of one run, averaged over `times` runs.
    pub(crate) fn of<T>(&self, times: u64, mut run: impl FnMut() -> T) -> String {
        self.0.lock().unwrap().clear();
        (0..times).for_each(|_| drop(run()));
        let each = |count: u64| count as f64 / times as f64;
        let calls = self.0.lock().unwrap();
        let list = calls.iter().map(|(op, count)| (op, format!("{:.2}", each(*count))));
        let list = list.filter(|(_, count)| count != "0.00").map(|(op, count)| format!("{op:?} {count}"));
        let all = format!("{:.2} calls to the disk", each(calls.values().sum()));
        format!("{all}: {}", list.collect::<Vec<_>>().join(", ")).replace(".00", "")
    }
}

/// The first argument of a benchmark that is run as another process.
const CHILD: &str = "--child";

/// The arguments after [`CHILD`], if this process is the other one.
pub(crate) fn child_arguments() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next().as_deref() == Some(CHILD)).then(|| arguments.collect())
}

/// This program, to be run as the other process.
pub(crate) fn child(arguments: &[String]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(CHILD).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}
