//! Writes kernels to a directory.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::checked::Checked;
use crate::decide::{Decided, decide};
use crate::displace::displaced;
use crate::foreign_files::{ForeignFiles, QuarantineOutcome, Replaced};
use crate::manifest::{self, Before, Known, Manifest};
use crate::occupant::{Act, Looker, Placement, Policy};
use crate::outdated::{Unfinished, displaced_outdated, remove_repeated, retire, unname};
use crate::publish::{publish, stage};
use crate::report::ViewReport;
use crate::retire::{GRACE, Retired};
use crate::stored::StoredKernels;
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, KernelFiles, LeftKernel, LeftReason, RetiredKernel, RunId, ViewError, retire};
use opkeep_fs::{FileState, max_open_files};

/// A file that changed so recently is read again: the clock of its times may not distinguish two changes.
const REST: Duration = Duration::from_secs(2);
/// The number of kernels whose files are written, then synced together, then published. It bounds the open files.
const BATCH: usize = 32;

/// The circumstances of a write.
pub(crate) struct Order<'a> {
    pub(crate) withdrawn: &'a [RetiredKernel<'a>],
    pub(crate) policy: Policy,
    /// Knows kernels of ours that the manifest does not.
    pub(crate) stored: &'a dyn StoredKernels,
    /// Judges and quarantines foreign files.
    pub(crate) foreign: &'a dyn ForeignFiles,
    /// The run of the quarantine.
    pub(crate) run: &'a RunId,
    /// By the directory's clock.
    pub(crate) now: SystemTime,
}

/// See [`View::materialise`](crate::View::materialise).
pub(crate) fn materialise(
    dir: &ViewDir,
    kernels: &Checked<'_>,
    order: &Order<'_>,
) -> Result<ViewReport, ViewError> {
    let names = dir.own_names();
    dir.remove_stale_temps(&names, order.now, GRACE);
    let text = dir.manifest_text()?;
    let mut found = Manifest::parse(&text);
    dir.settle_displaced(&names, order.now, GRACE, |name, digest| found.is_ours(name, digest));
    let recorded = found.clone();
    found.resolve(|name| dir.file_state(name));
    let report =
        ViewReport { locked: dir.is_locked(), recorded: true, risk: dir.risk(), ..ViewReport::default() };
    let unfinished = BTreeMap::new();
    let mut work = Work { dir, order, manifest: found.clone(), recorded, found: &found, unfinished, report };
    let done = work.replace(kernels);
    // However that ended, and whatever the reason was.
    let has_foreign = match (work.retire_outdated(), done) {
        (Ok(()), done) => done?,
        (Err((path, problem)), done) => {
            return Err(ViewError::Outdated { path, problem, cause: done.err().map(Box::new) });
        }
    };
    work.take_slots(kernels);
    if !has_foreign {
        work.report.removed += retire::superseded(dir, &mut work.manifest, order.now);
        work.quarantine_outdated(&names);
    }
    work.report.recorded = work.record(false).is_ok();
    if work.report.written + work.report.removed > 0 {
        dir.sync();
    }
    let has_changed = work.report.written + work.report.removed + work.report.left.len() > 0;
    if has_changed || displaced(&names).next().is_some() {
        // The next call removes displaced files of ours.
        let is_ours = |name: &str, digest: &Digest| work.manifest.is_ours(name, digest);
        work.report.displaced.extend(dir.stay_displaced(order.now, GRACE, is_ours));
    }
    Ok(work.report)
}

/// A kernel of which something must be written.
struct Wanting<'a> {
    kernel: &'a KernelFiles<'a>,
    placement: Placement,
}

impl Wanting<'_> {
    /// The files to quarantine, if a foreign file is replaced. They include the replaced files of ours, so that an undo
    /// restores the whole kernel.
    fn replaced(&self, manifest: &Manifest<'_>) -> Option<Replaced> {
        let Placement { acts, why, .. } = &self.placement;
        if !acts.iter().any(|act| matches!(act, Act::Quarantine { .. })) {
            return None;
        }
        let (listed, why) = (manifest.line(self.kernel.stem), why.clone());
        let mut replaced = Replaced { files: Vec::new(), made: Vec::new(), stays: None, listed, why };
        for kind in [KernelFileKind::Json, KernelFileKind::Object, KernelFileKind::Info] {
            let file = kind.of(self.kernel.stem);
            match acts[kind as usize] {
                Act::Quarantine { file: seen, .. } | Act::Replace { file: seen, .. } => {
                    replaced.files.push((file, seen));
                }
                Act::Write => replaced.made.push(file),
                Act::Keep { .. } | Act::Vouched if kind == KernelFileKind::Object => {
                    replaced.stays = Some((file, self.kernel.content(kind).digest()))
                }
                Act::Keep { .. } | Act::Vouched | Act::Theirs => {}
            }
        }
        Some(replaced)
    }

    /// The existing object and description that are replaced, the description first.
    fn outdated(&self) -> Vec<(String, FileState)> {
        let outdated = |kind: KernelFileKind| match self.placement.acts[kind as usize] {
            Act::Quarantine { file, .. } | Act::Replace { file, .. } => {
                Some((kind.of(self.kernel.stem), file))
            }
            _ => None,
        };
        [KernelFileKind::Json, KernelFileKind::Object].into_iter().filter_map(outdated).collect()
    }

    /// Decides anew after the outdated files lost their names. A descriptor of another program stays.
    fn unnamed(&mut self) {
        let [object, json, info] = &mut self.placement.acts;
        for act in [object, json] {
            if act.writes() {
                *act = Act::Write;
            }
        }
        if matches!(info, Act::Quarantine { .. }) {
            *info = Act::Theirs;
        }
    }
}

struct Work<'a> {
    dir: &'a ViewDir,
    order: &'a Order<'a>,
    /// The names that did not get their kernels yet.
    unfinished: BTreeMap<&'a str, Unfinished<'a>>,
    manifest: Manifest<'a>,
    /// The manifest on disk.
    recorded: Manifest<'a>,
    /// The manifest that was on disk at first.
    found: &'a Manifest<'a>,
    report: ViewReport,
}

impl<'a> Work<'a> {
    /// Replaces the kernels under the names of the call. Returns whether the directory holds foreign kernels because of
    /// which it is left as it is.
    fn replace(&mut self, kernels: &Checked<'a>) -> Result<bool, ViewError> {
        let guesses = self.order.policy.guessed && !self.order.policy.replace;
        let (mut wanting, has_foreign) = match self.decide(kernels) {
            Ok(decided) => decided,
            Err(error) => {
                let all = kernels.distinct.iter().filter(|kernel| kernel.for_chip || !guesses);
                all.for_each(|kernel| self.begin(kernel, false));
                self.begin_retired(!guesses);
                return Err(error);
            }
        };
        self.begin_retired(!has_foreign);
        // Before any file is moved or written: what cannot be recorded is not done.
        let recorded = self.record(!wanting.is_empty());
        if !wanting.is_empty() {
            recorded?;
        }
        if !has_foreign {
            self.withdraw()?;
        }
        self.keep_replaced(&mut wanting)?;
        self.write(&wanting)?;
        Ok(has_foreign)
    }

    fn begin(&mut self, kernel: &'a KernelFiles<'a>, replaces_object: bool) {
        let spares_release = kernel.debug && !self.order.policy.replace;
        self.unfinished.insert(
            kernel.stem,
            Unfinished::Kernel { kernel, replaces_object, spares_release, is_displaced: false },
        );
    }

    fn begin_retired(&mut self, removes: bool) {
        let retired = self.order.withdrawn.iter().filter(|_| removes);
        self.unfinished.extend(retired.map(|kernel| (kernel.stem, Unfinished::Retired(*kernel))));
    }

    /// Takes the names from the outdated kernels of ours that are still found. On failure, returns the first file that
    /// keeps its name, and the error.
    fn retire_outdated(&mut self) -> Result<(), (PathBuf, Box<ViewError>)> {
        let mut failed = None;
        for (stem, name) in std::mem::take(&mut self.unfinished) {
            match retire(self.dir, self.found, self.order.stored, &name, &mut self.report.displaced) {
                Ok(None) => {}
                Ok(Some(why)) if self.report.left.iter().any(|left| left.stem == stem) => drop(why),
                Ok(Some(why)) => self.leave(stem, why),
                Err(error) => {
                    let path = self.dir.path().join(KernelFileKind::Json.of(stem));
                    failed.get_or_insert((path, Box::new(error)));
                }
            }
            let is_gone = |kind: KernelFileKind| !self.dir.exists(&kind.of(stem));
            if matches!(name, Unfinished::Retired(_))
                && KernelFileKind::ALL[..2].iter().all(|kind| is_gone(*kind))
            {
                self.manifest.kernels.remove(stem);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Moves files of outdated kernels, which earlier calls displaced, to quarantine. Of equal files that it does not
    /// take, one is kept.
    fn quarantine_outdated(&mut self, names: &[String]) {
        let files = displaced_outdated(self.dir, names);
        if files.is_empty() {
            return;
        }
        let why = "the kernel is outdated".to_owned();
        let set = |file: &(String, FileState)| Replaced {
            files: vec![file.clone()],
            made: Vec::new(),
            stays: None,
            listed: None,
            why: why.clone(),
        };
        let outcomes = self.keep(&files.iter().map(set).collect::<Vec<_>>());
        let stay = files.iter().zip(outcomes).filter(|(_, refused)| refused.is_some());
        remove_repeated(self.dir, &stay.map(|(file, _)| file).collect::<Vec<_>>(), self.order.now);
    }

    /// Decides about every kernel, and records the files that it is to have. Returns the kernels of which a file must be
    /// written, and whether the directory holds foreign kernels because of which it is left as it is.
    fn decide(&mut self, kernels: &Checked<'a>) -> Result<(Vec<Wanting<'a>>, bool), ViewError> {
        let (dir, now) = (self.dir, self.order.now);
        let rested = |file: &FileState| file.rested(now, REST);
        let Order { policy, stored, foreign, .. } = *self.order;
        let mut looker =
            Looker { dir, manifest: self.found, policy, rested: &rested, stored, foreign, read: 0 };
        let Decided { mut placed, left, has_foreign } = decide(&mut looker, kernels)?;
        self.report.read += looker.read;
        let is_listed = |left: &LeftKernel| self.found.kernels.contains_key(left.stem.as_str());
        let may_be_outdated = |left: &&LeftKernel| match left.reason {
            // The kernel there is for the chip that its descriptor names, and the new one is not.
            LeftReason::ForeignDirectory { .. } | LeftReason::UnreadableDirectory { .. } => false,
            LeftReason::Foreign(_) | LeftReason::DamagedForOther { .. } | LeftReason::InProgress(_) => {
                is_listed(left)
            }
            _ => true,
        };
        let stems: HashSet<&str> =
            left.iter().filter(may_be_outdated).map(|left| left.stem.as_str()).collect();
        for kernel in kernels.distinct.iter().filter(|kernel| stems.contains(kernel.stem)) {
            self.begin(kernel, false);
        }
        self.report.left = left;
        let given = kernels.given.iter().filter(|kernel| placed.contains_key(kernel.stem));
        self.manifest.add_slots(&given.collect::<Vec<_>>());
        let mut wanting = Vec::new();
        for kernel in &kernels.distinct {
            let Some(placement) = placed.remove(kernel.stem) else { continue };
            self.record_kernel(kernel, &placement);
            if placement.writes() {
                let object = placement.acts[KernelFileKind::Object as usize];
                self.begin(kernel, matches!(object, Act::Quarantine { .. }));
                wanting.push(Wanting { kernel, placement });
            } else {
                self.report.intact += 1;
            }
        }
        Ok((wanting, has_foreign))
    }

    /// Takes the slots of the written kernels from the kernels that they supersede.
    fn take_slots(&mut self, kernels: &Checked<'a>) {
        let left: HashSet<&str> = self.report.left.iter().map(|left| left.stem.as_str()).collect();
        let given: Vec<_> = kernels.given.iter().collect();
        self.manifest.take_slots(&given, |stem| !left.contains(stem));
    }

    fn leave(&mut self, stem: &str, why: LeftReason) {
        self.report.left.push(LeftKernel { stem: stem.to_owned(), reason: why });
    }

    /// Records the files that a kernel is to have, and the files that it has until then.
    fn record_kernel(&mut self, kernel: &KernelFiles<'_>, placement: &Placement) {
        let found = self.found.kernels.get(kernel.stem);
        for kind in KernelFileKind::ALL {
            let digest = kernel.content(kind).digest();
            let act = placement.acts[kind as usize];
            let (seen, before) = match act {
                Act::Vouched => continue,
                Act::Keep { seen } => (seen, None),
                Act::Replace { digest: before, .. } => {
                    // A description that is kept, and is not equal to ours, was extended by MindSpore.
                    let is_kept = kind == KernelFileKind::Json && placement.json.is_some();
                    let adopted = placement.adopted[kind as usize] || is_kept;
                    (None, Some((before, adopted)).filter(|(before, _)| *before != digest))
                }
                Act::Quarantine { adopted: Some(before), .. } => (None, Some((before, true))),
                Act::Write | Act::Quarantine { .. } | Act::Theirs => (None, None),
            };
            let before = before.map(|(digest, adopted)| {
                let debug = found.is_some_and(|record| record.is_debug(kind, &digest));
                Before { digest, adopted, debug }
            });
            self.manifest.record_file(kernel.stem, kind, Known { digest, seen }, before);
            let is_unchanged = matches!(act, Act::Replace { digest: before, .. } if before == digest);
            if act.writes() && !is_unchanged {
                self.manifest.plan(kernel.stem, kind);
            }
        }
        self.manifest.mark(kernel.stem, placement.adopted, kernel.debug);
    }

    /// Quarantines the foreign files that are replaced. A kernel of which they cannot be moved is left, unless it is ours.
    fn keep_replaced(&mut self, wanting: &mut Vec<Wanting<'a>>) -> Result<(), ViewError> {
        let (mut sets, mut moving) = (Vec::new(), Vec::new());
        for it in std::mem::take(wanting) {
            match it.replaced(self.found) {
                None => wanting.push(it),
                Some(set) => {
                    sets.push(set);
                    moving.push(it);
                }
            }
        }
        if sets.is_empty() {
            return Ok(());
        }
        for (mut it, refused) in moving.into_iter().zip(self.keep(&sets)) {
            let stem = it.kernel.stem;
            let outdated = it.outdated();
            let left = match refused {
                Some(_) if it.placement.is_own && !outdated.is_empty() => {
                    it.unnamed();
                    unname(self.dir, self.found, stem, &outdated, &mut self.report.displaced)?
                }
                refused => refused,
            };
            match left {
                None => wanting.push(it),
                Some(why) => {
                    self.manifest.restore_record(stem, self.found);
                    self.leave(stem, why);
                }
            }
        }
        Ok(())
    }

    /// Moves the files of `sets` to quarantine. Returns for each set the reason if it was not moved.
    fn keep(&mut self, sets: &[Replaced]) -> Vec<Option<LeftReason>> {
        let Order { policy, run, foreign, .. } = self.order;
        match foreign.quarantine(self.dir.fs(), self.dir.path(), run, sets, policy.replace) {
            Ok(QuarantineOutcome { outcomes, dir }) => {
                self.report.quarantine = dir.or(self.report.quarantine.take());
                outcomes.into_iter().map(Result::err).collect()
            }
            Err(problem) => {
                sets.iter().map(|_| Some(LeftReason::NotQuarantined { problem: problem.clone() })).collect()
            }
        }
    }

    /// Removes our files under names whose kernels could not be built.
    fn withdraw(&mut self) -> Result<(), ViewError> {
        let Retired { removed, adopted, mut left } = retire::withdraw(
            self.dir,
            &mut self.manifest,
            self.found,
            self.order.stored,
            self.order.withdrawn,
        )?;
        self.report.removed += removed;
        let (stems, sets): (Vec<_>, Vec<_>) = adopted.into_iter().unzip();
        let outcomes = if sets.is_empty() { Vec::new() } else { self.keep(&sets) };
        for ((stem, set), refused) in stems.into_iter().zip(&sets).zip(outcomes) {
            let changed = match refused {
                Some(_) => unname(self.dir, self.found, stem, &set.files, &mut self.report.displaced)?,
                None => None,
            };
            match changed {
                None => self.report.removed += 1,
                Some(why) => left.push((stem, why)),
            }
        }
        for (stem, why) in left {
            self.manifest.restore_record(stem, self.found);
            self.leave(stem, why);
        }
        Ok(())
    }

    fn write(&mut self, wanting: &[Wanting<'a>]) -> Result<(), ViewError> {
        // A kernel's three files are open until they are synced. A fourth of the files that the process may open is used.
        let at_once = BATCH.min(max_open_files() / 12).max(1);
        for batch in wanting.chunks(at_once) {
            let stage = |wanting: &Wanting<'a>| stage(self.dir, wanting.kernel, &wanting.placement);
            let mut staged = batch.iter().map(stage).collect::<Result<Vec<_>, _>>()?;
            for (wanting, staged) in batch.iter().zip(&mut staged) {
                staged.sync()?;
                for (kind, identity) in staged.identities()? {
                    self.manifest.stage(wanting.kernel.stem, kind, identity);
                }
            }
            // Each published file must be recorded as ours before it can be found.
            self.record(true)?;
            for (wanting, staged) in batch.iter().zip(staged) {
                let stem = wanting.kernel.stem;
                // From now on, another program wrote whatever has the names.
                if let Some(Unfinished::Kernel { is_displaced, .. }) = self.unfinished.get_mut(stem) {
                    *is_displaced = true;
                }
                match publish(self.dir, wanting.kernel, &wanting.placement, staged)? {
                    None => {
                        self.unfinished.remove(stem);
                        self.manifest.written(stem);
                        self.report.written += 1;
                    }
                    Some(why) => {
                        self.manifest.restore_record(stem, self.found);
                        self.leave(stem, why);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the manifest if it changed. If `durably`, a power cut does not lose it before the files that it lists.
    fn record(&mut self, durably: bool) -> Result<(), ViewError> {
        if self.manifest == self.recorded {
            return Ok(());
        }
        let mut temp = self.dir.stage(self.manifest.to_text().as_bytes())?;
        if durably {
            temp.sync()?;
        }
        temp.publish(manifest::NAME)?;
        if durably {
            self.dir.sync();
        }
        self.recorded = self.manifest.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
