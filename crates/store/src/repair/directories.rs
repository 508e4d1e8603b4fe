//! The repair of all files except entries: missing directories, stale files, counters, the size.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{RepairAction, RepairActionKind, RepairReport, UnrepairedReason};
use crate::gc::prune::Pruner;
use crate::inventory::{InventoryFile, InventoryWalk, Kind, TargetUsage};
use crate::layout::GC_LOCK;
use crate::marker::Level;
use crate::problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
use crate::size::{Known, SizeEstimate};
use crate::{StoreError, TargetStore, files};

impl TargetStore {
    /// Prunes stale files, resets corrupt counters and counts the size, unless another process evicts.
    pub(crate) fn repair_others(
        &self,
        report: &mut RepairReport,
        corrupt: Vec<StoreProblem>,
        others: &[InventoryFile],
    ) {
        let (_held, now) = match self.lock_gc() {
            Ok(Some(held)) => held,
            Ok(None) => {
                report.busy = true;
                return report.leave(corrupt, || UnrepairedReason::InProgress);
            }
            Err(error) => {
                report.leave(corrupt, || UnrepairedReason::NotOurs);
                return report.failed(self.dir().join(GC_LOCK), error);
            }
        };
        self.prune_others(report, others, now);
        let (is_size, before) = (self.tracker().size.path(), self.estimate());
        let recounted = self.recount(now);
        if let Ok(counted) = &recounted {
            report.counted = Some((before, *counted));
        }
        let mut recounted = recounted.map(drop);
        for problem in corrupt {
            let mended = match problem.path == is_size {
                // The count rewrote the size file, or failed; a failure is reported once.
                true => std::mem::replace(&mut recounted, Ok(())),
                false => self.reset_counters(&problem),
            };
            match mended {
                Ok(()) => report
                    .actions
                    .push(RepairAction { path: problem.path, kind: RepairActionKind::CountersReset }),
                Err(error) => report.leave_one(problem, UnrepairedReason::Failed(error)),
            }
        }
        if let Err(error) = recounted {
            report.failed(is_size.to_owned(), error);
        }
    }

    /// Creates the directories of the target and the version if they are missing, but not the root, which opening a
    /// store creates.
    pub(crate) fn create_target(&self, report: &mut RepairReport) -> Result<(), StoreError> {
        let store = self.store();
        for (path, level) in [(store.version_dir(), Level::Version), (self.dir().to_owned(), Level::Target)] {
            if matches!(store.directory(&path, false), Ok(None)) {
                store.owned(&path, level, true)?;
                report.actions.push(RepairAction { path, kind: RepairActionKind::Created });
            }
        }
        Ok(())
    }

    pub(crate) fn create_missing(&self, report: &mut RepairReport, missing: Vec<PathBuf>) {
        let (fs, shared) = (self.store().fs(), self.store().trust().is_shared());
        for path in missing {
            match files::create_dir(fs, &path, shared) {
                Ok(()) => report.actions.push(RepairAction { path, kind: RepairActionKind::Created }),
                Err(source) => {
                    let error = StoreError::Io { action: "create", path: path.clone(), source };
                    report.failed(path, error);
                }
            }
        }
    }

    /// Removes stale files. Quarantined entries stay for inspection; `gc` removes old ones.
    fn prune_others(&self, report: &mut RepairReport, others: &[InventoryFile], now: SystemTime) {
        let prune = Pruner { store: self.store(), now, dry: false };
        for other in others.iter().filter(|other| other.kind != Kind::Quarantined && prune.is_stale(other)) {
            if prune.remove(other, &mut TargetUsage::default()) {
                report.pruned(other.dir.join(&other.name));
            }
        }
    }

    /// Counts the files, and corrects the estimate. The caller holds the lock of the process that evicts.
    fn recount(&self, now: SystemTime) -> Result<SizeEstimate, StoreError> {
        let (store, size) = (self.store(), &self.tracker().size);
        let before = size.flush(store.fs());
        let walk = InventoryWalk { store, dir: self.dir(), now, idle_for: Duration::MAX, dry: true };
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

    fn reset_counters(&self, problem: &StoreProblem) -> Result<(), StoreError> {
        let (fs, tracker) = (self.store().fs(), self.tracker());
        let reset = tracker.counters.reset_if_corrupt(fs, tracker.clock.now());
        reset.map_err(|source| StoreError::Io { action: "write", path: problem.path.clone(), source })
    }
}

impl RepairReport {
    pub(crate) fn plan_others(&mut self, corrupt: Vec<StoreProblem>, missing: Vec<PathBuf>) {
        self.actions
            .extend(missing.into_iter().map(|path| RepairAction { path, kind: RepairActionKind::Created }));
        self.actions.extend(
            corrupt
                .into_iter()
                .map(|problem| RepairAction { path: problem.path, kind: RepairActionKind::CountersReset }),
        );
        let is_stale =
            |file: &&OtherFile| matches!(file.kind, OtherFileKind::StaleTemporary | OtherFileKind::StaleLock);
        let pruned = |file: &OtherFile| RepairAction {
            path: file.path.clone(),
            kind: RepairActionKind::Pruned(file.kind),
        };
        self.actions.extend(self.other_files.iter().filter(is_stale).map(pruned));
    }

    fn pruned(&mut self, path: PathBuf) {
        let at = self.other_files.iter().position(|file| file.path == path);
        let kind = at.map_or(OtherFileKind::StaleTemporary, |at| self.other_files.remove(at).kind);
        self.actions.push(RepairAction { path, kind: RepairActionKind::Pruned(kind) });
    }

    fn failed(&mut self, path: PathBuf, error: StoreError) {
        self.leave_one(
            StoreProblem { path, key: None, kind: ProblemKind::Io(error) },
            UnrepairedReason::NotOurs,
        );
    }
}
