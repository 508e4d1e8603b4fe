//! The part of a repair that is about no entry: missing folders, what the dead left, numbers, the size.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{RepairAction, RepairActionKind, RepairReport, UnrepairedReason};
use crate::gc::prune::Pruner;
use crate::inventory::{Inventory, Kind, Other, TargetUsage};
use crate::layout::GC_LOCK;
use crate::marker::Level;
use crate::problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
use crate::size::{Known, SizeEstimate};
use crate::{StoreError, TargetStore, files};

impl TargetStore {
    /// Unless somebody else makes room: sweeps, begins torn numbers anew, and counts.
    pub(crate) fn tidy(&self, report: &mut RepairReport, torn: Vec<StoreProblem>, others: &[Other]) {
        let (_held, now) = match self.lock_gc() {
            Ok(Some(held)) => held,
            Ok(None) => {
                report.busy = true;
                return report.leave(torn, || UnrepairedReason::InProgress);
            }
            Err(error) => {
                report.leave(torn, || UnrepairedReason::NotOurs);
                return report.failed(self.dir().join(GC_LOCK), error);
            }
        };
        self.sweep_others(report, others, now);
        let (is_size, before) = (self.tally().size.path(), self.estimate());
        let recounted = self.recount(now);
        if let Ok(counted) = &recounted {
            report.counted = Some((before, *counted));
        }
        let mut recounted = recounted.map(drop);
        for flawed in torn {
            let mended = match flawed.path == is_size {
                // Counting put it right, or could not; then it is told once.
                true => std::mem::replace(&mut recounted, Ok(())),
                false => self.begin_anew(&flawed),
            };
            match mended {
                Ok(()) => report
                    .done
                    .push(RepairAction { path: flawed.path, what: RepairActionKind::CountersReset }),
                Err(error) => report.leave_one(flawed, UnrepairedReason::Failed(error)),
            }
        }
        if let Err(error) = recounted {
            report.failed(is_size.to_owned(), error);
        }
    }

    /// Makes the target's folder, and that of the version, if they are gone; never the root: opening does that.
    pub(crate) fn make_target(&self, report: &mut RepairReport) -> Result<(), StoreError> {
        let store = self.store();
        for (path, level) in [(store.version_dir(), Level::Version), (self.dir().to_owned(), Level::Target)] {
            if matches!(store.folder(&path, false), Ok(None)) {
                store.owned(&path, level, true)?;
                report.done.push(RepairAction { path, what: RepairActionKind::Made });
            }
        }
        Ok(())
    }

    pub(crate) fn make_folders(&self, report: &mut RepairReport, missing: Vec<PathBuf>) {
        let (fs, shared) = (self.store().fs(), self.store().trust().is_shared());
        for path in missing {
            match files::create_folder(fs, &path, shared) {
                Ok(()) => report.done.push(RepairAction { path, what: RepairActionKind::Made }),
                Err(source) => {
                    let error = StoreError::Io { action: "create", path: path.clone(), source };
                    report.failed(path, error);
                }
            }
        }
    }

    /// Damage that was set aside is for people: `gc` knows when it has been there for long enough.
    fn sweep_others(&self, report: &mut RepairReport, others: &[Other], now: SystemTime) {
        let sweep = Pruner { store: self.store(), now, dry: false };
        for other in others.iter().filter(|other| other.kind != Kind::Quarantined && sweep.is_nobodys(other))
        {
            if sweep.remove(other, &mut TargetUsage::default()) {
                report.swept(other.dir.join(&other.name));
            }
        }
    }

    /// Counts what there is, and puts the estimate right. The caller makes room, so nobody else does.
    fn recount(&self, now: SystemTime) -> Result<SizeEstimate, StoreError> {
        let (store, size) = (self.store(), &self.tally().size);
        let before = size.flush(store.fs());
        let walk = Inventory { store, dir: self.dir(), now, idle_for: Duration::MAX, dry: true };
        let usage = walk.walk()?.usage;
        let counted = SizeEstimate { bytes: usage.total().bytes, entries: usage.entries.files };
        match size.correct(store.fs(), before, counted, None, now) {
            Known::Totals(_) => Ok(counted),
            Known::Unknown | Known::Busy => {
                let source = std::io::ErrorKind::WouldBlock.into();
                Err(StoreError::Io { action: "write", path: size.path().to_owned(), source })
            }
        }
    }

    fn begin_anew(&self, flawed: &StoreProblem) -> Result<(), StoreError> {
        let (fs, tally) = (self.store().fs(), self.tally());
        let begun = tally.counters.mend(fs, tally.clock.now());
        begun.map_err(|source| StoreError::Io { action: "write", path: flawed.path.clone(), source })
    }
}

impl RepairReport {
    pub(crate) fn would_tidy(&mut self, torn: Vec<StoreProblem>, missing: Vec<PathBuf>) {
        self.done.extend(missing.into_iter().map(|path| RepairAction { path, what: RepairActionKind::Made }));
        self.done.extend(
            torn.into_iter()
                .map(|flawed| RepairAction { path: flawed.path, what: RepairActionKind::CountersReset }),
        );
        let left = |beside: &&OtherFile| {
            matches!(beside.kind, OtherFileKind::StaleTemporary | OtherFileKind::StaleLock)
        };
        let swept = |beside: &OtherFile| RepairAction {
            path: beside.path.clone(),
            what: RepairActionKind::Pruned(beside.kind),
        };
        self.done.extend(self.besides.iter().filter(left).map(swept));
    }

    fn swept(&mut self, path: PathBuf) {
        let at = self.besides.iter().position(|beside| beside.path == path);
        let kind = at.map_or(OtherFileKind::StaleTemporary, |at| self.besides.remove(at).kind);
        self.done.push(RepairAction { path, what: RepairActionKind::Pruned(kind) });
    }

    fn failed(&mut self, path: PathBuf, error: StoreError) {
        self.leave_one(
            StoreProblem { path, key: None, flaw: ProblemKind::Io(error) },
            UnrepairedReason::NotOurs,
        );
    }
}
