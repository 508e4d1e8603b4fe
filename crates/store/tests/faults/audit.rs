//! Verifying and repairing.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use opkeep_fs::Clock;
use opkeep_store::{
    Access, GcOptions, ProblemKind, RepairActionKind, RepairOptions, RepairReport, Store, StoreConfig,
    TargetStore, VerifyOptions,
};

use crate::common::{self, Created, TARGET, key, names};
use crate::rows::{self, Act, Row, SUBJECT, State};

use State::{Absent, Damaged, Old};

pub(crate) fn rows() -> Vec<Row> {
    let row = |name, prepare, act, may_be, done| Row {
        name,
        prepare,
        act: Act::Open(act),
        may_be,
        done,
        bystanders: 2,
        lasts: false,
        parts: 1,
        max_entries: None,
        well: rows::nothing,
    };
    vec![
        row("verify", rows::valid, verify, &[Old], &[Old]),
        row("verify a damaged entry", damaged, verify_damaged, &[Damaged], &[Damaged]),
        row("repair a damaged entry", damaged, repair_damaged, &[Damaged, Absent], &[Absent]),
        row("repair corrupt counters", corrupt, repair_torn, &[Old], &[Old]),
        row("dry run of a repair", damaged, repair_dry, &[Damaged], &[Damaged]),
        Row {
            bystanders: 1,
            ..row("collect a directory that lost its name", unnamed, collect, &[Absent], &[Absent])
        },
    ]
}

/// Late enough for nothing to have been written just now, which would be looked at twice, with a pause; and for
/// directories, whose times are not restored, to have been stale. Always the same time, which is recorded.
struct Later;

impl Clock for Later {
    fn now(&self) -> SystemTime {
        static BEGAN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
        *BEGAN + Duration::from_secs(2 * 3600)
    }
}

fn open(config: StoreConfig) -> Option<TargetStore> {
    let config = config.with_clock(Arc::new(Later));
    Store::open(config).and_then(|store| store.target(TARGET)).ok()
}

fn reader(config: StoreConfig) -> Option<TargetStore> {
    open(config.with_access(Access::ReadOnly))
}

/// Whatever a disk returns, a valid file is not reported as damaged.
fn verify(config: StoreConfig) -> bool {
    let Some(store) = reader(config) else { return false };
    let report = store.verify(&VerifyOptions::default());
    for problem in &report.problems {
        assert!(matches!(problem.kind, ProblemKind::Io(_)), "{problem:?}");
    }
    assert!(!report.is_valid() || report.valid.files == 3, "{report:?}");
    report.is_valid()
}

/// And a damaged file is never skipped silently.
fn verify_damaged(config: StoreConfig) -> bool {
    let Some(store) = reader(config) else { return false };
    let report = store.verify(&VerifyOptions::default());
    assert!(!report.is_valid(), "{report:?}");
    for problem in &report.problems {
        let damaged = matches!(problem.kind, ProblemKind::Damaged(_)) && problem.key == Some(key(SUBJECT));
        assert!(damaged || matches!(problem.kind, ProblemKind::Io(_)), "{problem:?}");
    }
    matches!(report.problems[..], [ref one] if matches!(one.kind, ProblemKind::Damaged(_)))
}

fn quarantine_file(report: &RepairReport) -> usize {
    report.actions.iter().filter(|action| matches!(action.kind, RepairActionKind::Quarantined { .. })).count()
}

fn repair_damaged(config: StoreConfig) -> bool {
    let Some(store) = open(config) else { return false };
    let report = store.repair(&RepairOptions::default()).unwrap();
    assert!(report.valid.files <= 2, "{report:?}");
    report.is_valid() && quarantine_file(&report) == 1
}

fn damaged(root: &Path) {
    rows::valid(root);
    rows::damage(root);
}

fn corrupt(root: &Path) {
    rows::valid(root);
    for name in ["size", "stats"] {
        fs::write(common::open(root).dir().join(name), "opkeep").unwrap();
    }
}

fn repair_torn(config: StoreConfig) -> bool {
    let Some(store) = open(config) else { return false };
    let report = store.repair(&RepairOptions::default()).unwrap();
    assert_eq!(quarantine_file(&report), 0, "{report:?}");
    report.is_valid() && report.counted.is_some()
}

fn repair_dry(config: StoreConfig) -> bool {
    let Some(store) = reader(config) else { return false };
    let report = store.repair(&RepairOptions::default().with_dry_run(true)).unwrap();
    report.is_valid() && quarantine_file(&report) == 1
}

/// A power cut, years ago, undid the name of the subject's directory, which had an entry.
fn unnamed(root: &Path) {
    rows::to_be_shared(root);
    let store = common::open(root);
    let [other, _] = rows::bystanders();
    for name in [SUBJECT, &other] {
        store.put(&key(name), &Created::new(name, 1).entry()).unwrap();
    }
    let entries = store.dir().join("entries");
    let shard = key(SUBJECT).to_string()[..2].to_owned();
    let unnamed = entries.join(format!(".new{}3", rows::DEAD));
    fs::rename(entries.join(&shard), &unnamed).unwrap();
    names(&unnamed).iter().for_each(|name| rows::age(&unnamed.join(name)));
    rows::age(&unnamed);
}

fn collect(config: StoreConfig) -> bool {
    let Some(store) = open(config) else { return false };
    store.gc(&GcOptions::default()).is_ok_and(|report| report.removed.temporary.files == 1)
}
