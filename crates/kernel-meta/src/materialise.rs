//! Writes kernels to a directory.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::checked::Checked;
use crate::decide::{Decided, decide};
use crate::displace::displaced;
use crate::foreign_files::{ForeignFiles, QuarantineOutcome, Replaced};
use crate::manifest::{self, Before, Known, Manifest};
use crate::occupant::{Act, Looker, Placement, Policy};
use crate::publish::{publish, stage};
use crate::report::ViewReport;
use crate::retire::{GRACE, Retired};
use crate::stored::StoredKernels;
use crate::view_dir::ViewDir;
use crate::{KernelFileKind, KernelFiles, LeftKernel, LeftReason, RetiredKernel, RunId, ViewError, retire};
use opkeep_fs::{FileState, max_open_files};

/// A file that changed so recently is read again: the clock of its times may not tell two changes apart.
const REST: Duration = Duration::from_secs(2);
/// Kernels whose files are written, then synced together, then published. Bounds the open files.
const BATCH: usize = 32;

/// The circumstances of a write.
pub(crate) struct Order<'a> {
    pub(crate) withdrawn: &'a [RetiredKernel<'a>],
    pub(crate) policy: Policy,
    /// Knows kernels of ours that the manifest does not.
    pub(crate) stored: &'a dyn StoredKernels,
    /// Judges and keeps what is not ours.
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
    let text = dir.read(manifest::NAME).map(|(bytes, _)| bytes).unwrap_or_default();
    let mut found = Manifest::parse(&text);
    dir.settle_displaced(&names, order.now, GRACE, |name, digest| found.is_ours(name, digest));
    let recorded = found.clone();
    found.resolve(|name| dir.file_state(name));
    let report =
        ViewReport { locked: dir.is_locked(), recorded: true, risk: dir.risk(), ..ViewReport::default() };
    let mut work = Work { dir, order, manifest: found.clone(), recorded, found: &found, report };
    let (mut wanting, is_closed) = work.decide(kernels)?;
    // Before any file is moved or written: what cannot be recorded is not done.
    if let Err(error) = work.record(!wanting.is_empty())
        && !wanting.is_empty()
    {
        wanting.iter().try_for_each(|wanting| work.disarm(wanting))?;
        return Err(error);
    }
    if !is_closed {
        work.withdraw()?;
    }
    work.keep_replaced(&mut wanting)?;
    work.write(&wanting)?;
    work.take_slots(kernels);
    if !is_closed {
        work.report.removed += retire::superseded(dir, &mut work.manifest, order.now);
    }
    work.report.recorded = work.record(false).is_ok();
    if work.report.written + work.report.removed > 0 {
        dir.sync();
    }
    let has_changed = work.report.written + work.report.removed + work.report.left.len() > 0;
    if has_changed || displaced(&names).next().is_some() {
        // Files of ours wait for the next call.
        let is_ours = |name: &str, digest: &Digest| work.manifest.is_ours(name, digest);
        work.report.displaced = dir.stay_displaced(order.now, GRACE, is_ours);
    }
    Ok(work.report)
}

/// A kernel of which something must be written.
struct Wanting<'a> {
    kernel: &'a KernelFiles<'a>,
    placement: Placement,
}

impl Wanting<'_> {
    /// What to quarantine, if a foreign file is replaced: with the replaced files of ours, so that an undo restores the
    /// whole kernel.
    fn replaced(&self, manifest: &Manifest<'_>) -> Option<Replaced> {
        let Placement { acts, why, .. } = &self.placement;
        if !acts.iter().any(|act| matches!(act, Act::Quarantine { .. })) {
            return None;
        }
        let (listed, why) = (manifest.line(self.kernel.stem), why.clone());
        let mut replaced = Replaced { files: Vec::new(), made: Vec::new(), stays: None, listed, why };
        for part in [KernelFileKind::Json, KernelFileKind::Object, KernelFileKind::Info] {
            let file = part.of(self.kernel.stem);
            match acts[part as usize] {
                Act::Quarantine { file: seen, .. } | Act::Replace { file: seen, .. } => {
                    replaced.files.push((file, seen));
                }
                Act::Write => replaced.made.push(file),
                Act::Keep { .. } | Act::Vouched if part == KernelFileKind::Object => {
                    replaced.stays = Some((file, self.kernel.content(part).digest()))
                }
                Act::Keep { .. } | Act::Vouched | Act::Theirs => {}
            }
        }
        Some(replaced)
    }
}

struct Work<'a> {
    dir: &'a ViewDir,
    order: &'a Order<'a>,
    manifest: Manifest<'a>,
    /// The manifest on disk.
    recorded: Manifest<'a>,
    /// The manifest that was on disk at first.
    found: &'a Manifest<'a>,
    report: ViewReport,
}

impl<'a> Work<'a> {
    /// Decides about every kernel, notes what is to be there, and returns the kernels that are not whole; and whether the
    /// directory is left as it is.
    fn decide(&mut self, kernels: &Checked<'a>) -> Result<(Vec<Wanting<'a>>, bool), ViewError> {
        let (dir, now) = (self.dir, self.order.now);
        let rested = |file: &FileState| file.rested(now, REST);
        let Order { policy, stored, foreign, .. } = *self.order;
        let mut looker =
            Looker { dir, manifest: self.found, policy, rested: &rested, stored, foreign, read: 0 };
        let Decided { mut placed, left, is_closed } = decide(&mut looker, kernels)?;
        self.report.read += looker.read;
        self.report.left = left;
        let given = kernels.given.iter().filter(|kernel| placed.contains_key(kernel.stem));
        self.manifest.give_slots(&given.collect::<Vec<_>>());
        let mut wanting = Vec::new();
        for kernel in &kernels.distinct {
            let Some(placement) = placed.remove(kernel.stem) else { continue };
            self.note(kernel, &placement);
            match placement.writes() {
                true => wanting.push(Wanting { kernel, placement }),
                false => self.report.intact += 1,
            }
        }
        Ok((wanting, is_closed))
    }

    /// Takes the slots of the kernels that are there from the kernels whose places they take.
    fn take_slots(&mut self, kernels: &Checked<'a>) {
        let left: HashSet<&str> = self.report.left.iter().map(|left| left.stem.as_str()).collect();
        let given: Vec<_> = kernels.given.iter().collect();
        self.manifest.take_slots(&given, |stem| !left.contains(stem));
    }

    fn leave(&mut self, stem: &str, why: LeftReason) {
        self.report.left.push(LeftKernel { stem: stem.to_owned(), reason: why });
    }

    /// Notes what a kernel's files are to be, and what they are until then.
    fn note(&mut self, kernel: &KernelFiles<'_>, placement: &Placement) {
        let found = self.found.kernels.get(kernel.stem);
        for part in KernelFileKind::ALL {
            let digest = kernel.content(part).digest();
            let act = placement.acts[part as usize];
            let (seen, before) = match act {
                Act::Vouched => continue,
                Act::Keep { seen } => (seen, None),
                Act::Replace { digest: before, .. } => {
                    // A description that is kept, and is not equal to ours, was extended by MindSpore.
                    let is_kept = part == KernelFileKind::Json && placement.json.is_some();
                    let adopted = placement.adopted[part as usize] || is_kept;
                    (None, Some((before, adopted)).filter(|(before, _)| *before != digest))
                }
                Act::Quarantine { adopted: Some(before), .. } => (None, Some((before, true))),
                Act::Write | Act::Quarantine { .. } | Act::Theirs => (None, None),
            };
            let before = before.map(|(digest, adopted)| {
                let debug = found.is_some_and(|record| record.is_debug(part, &digest));
                Before { digest, adopted, debug }
            });
            self.manifest.note(kernel.stem, part, Known { digest, seen }, before);
            let is_there = matches!(act, Act::Replace { digest: before, .. } if before == digest);
            if act.writes() && !is_there {
                self.manifest.plan(kernel.stem, part);
            }
        }
        self.manifest.mark(kernel.stem, placement.adopted, kernel.debug);
    }

    /// Removes our own description of a damaged object that stays: no reader may find them together.
    fn disarm(&self, Wanting { kernel, placement }: &Wanting<'_>) -> Result<(), ViewError> {
        let [object, json, _] = placement.acts;
        let name = KernelFileKind::Json.of(kernel.stem);
        if let (Act::Quarantine { .. }, Act::Replace { digest: ours, .. }) = (object, json)
            && self.found.is_ours(&name, &ours)
        {
            self.dir.remove_if(&name, |digest| *digest == ours)?;
        }
        Ok(())
    }

    /// Quarantines the foreign files that are replaced. A kernel of which they cannot be moved is left.
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
        for (it, left) in moving.into_iter().zip(self.keep(&sets)) {
            let Some(why) = left else {
                wanting.push(it);
                continue;
            };
            self.disarm(&it)?;
            self.manifest.unnote(it.kernel.stem, self.found);
            self.leave(it.kernel.stem, why);
        }
        Ok(())
    }

    /// Moves the files of `sets` to quarantine; of each set that was not moved, why.
    fn keep(&mut self, sets: &[Replaced]) -> Vec<Option<LeftReason>> {
        let Order { policy, run, foreign, .. } = self.order;
        match foreign.quarantine(self.dir.fs(), self.dir.path(), run, sets, policy.replace) {
            Ok(QuarantineOutcome { outcomes, dir }) => {
                self.report.quarantine = dir.or(self.report.quarantine.take());
                outcomes.into_iter().map(Result::err).collect()
            }
            Err(problem) => {
                sets.iter().map(|_| Some(LeftReason::NotKept { problem: problem.clone() })).collect()
            }
        }
    }

    /// Removes what we put under names whose kernels could not be made.
    fn withdraw(&mut self) -> Result<(), ViewError> {
        let Retired { removed, adopted, mut left } =
            retire::withdraw(self.dir, &mut self.manifest, self.found, self.order.withdrawn)?;
        self.report.removed += removed;
        let (stems, sets): (Vec<_>, Vec<_>) = adopted.into_iter().unzip();
        let outcomes = if sets.is_empty() { Vec::new() } else { self.keep(&sets) };
        for (stem, why) in stems.into_iter().zip(outcomes) {
            match why {
                None => self.report.removed += 1,
                Some(why) => left.push((stem, why)),
            }
        }
        for (stem, why) in left {
            self.manifest.unnote(stem, self.found);
            self.leave(stem, why);
        }
        Ok(())
    }

    fn write(&mut self, wanting: &[Wanting<'a>]) -> Result<(), ViewError> {
        // A kernel's three files are open until they are synced; a fourth of what the process may have is ours.
        let at_once = BATCH.min(max_open_files() / 12).max(1);
        for batch in wanting.chunks(at_once) {
            let stage = |wanting: &Wanting<'a>| stage(self.dir, wanting.kernel, &wanting.placement);
            let mut staged = batch.iter().map(stage).collect::<Result<Vec<_>, _>>()?;
            for (wanting, staged) in batch.iter().zip(&mut staged) {
                staged.sync()?;
                for (part, identity) in staged.identities()? {
                    self.manifest.stage(wanting.kernel.stem, part, identity);
                }
            }
            // A kernel must not be there without our knowing that it is ours.
            self.record(true)?;
            for (wanting, staged) in batch.iter().zip(staged) {
                let stem = wanting.kernel.stem;
                match publish(self.dir, wanting.kernel, &wanting.placement, staged)? {
                    None => {
                        self.manifest.written(stem);
                        self.report.written += 1;
                    }
                    Some(why) => {
                        self.manifest.unnote(stem, self.found);
                        self.leave(stem, why);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the manifest, if it changed, and `durably`: then a power cut does not lose it before what it lists.
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
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests damage what was written")]

    use std::fs;
    use std::path::Path;
    use std::thread::sleep;

    use opkeep_fs::{Dir, Fs};
    use tempfile::TempDir;

    use super::*;
    use crate::FileContent;
    use crate::stored::NoStore;

    /// Takes whatever is not ours for damaged, and removes it.
    #[derive(Debug)]
    struct Healing;

    impl ForeignFiles for Healing {
        fn judge(&self, _: &Dir, _: &KernelFiles<'_>, _: bool) -> Result<String, LeftReason> {
            Ok("it is damaged".to_owned())
        }

        fn descriptor_problem(&self, _: &[u8]) -> Option<String> {
            Some("it is damaged".to_owned())
        }

        fn quarantine(
            &self,
            _: &Fs,
            path: &Path,
            _: &RunId,
            sets: &[Replaced],
            _: bool,
        ) -> Result<QuarantineOutcome, String> {
            for (file, _) in sets.iter().flat_map(|set| &set.files) {
                fs::remove_file(path.join(file)).unwrap();
            }
            Ok(QuarantineOutcome { outcomes: sets.iter().map(|_| Ok(())).collect(), dir: None })
        }
    }

    struct Fixture {
        base: TempDir,
        object: Vec<u8>,
        json: Vec<u8>,
    }

    impl Fixture {
        fn new() -> Self {
            let object = b"the kernel".to_vec();
            let json = format!(r#"{{"sha256": "{}"}}"#, Digest::of(&object)).into_bytes();
            Self { base: tempfile::tempdir().unwrap(), object, json }
        }

        /// Materialises as if `later` had passed.
        fn run(&self, later: u64) -> ViewReport {
            let (object, json) = (FileContent::of(&self.object), FileContent::of(&self.json));
            let info = FileContent::of(b"{}");
            let kernels =
                [KernelFiles { slot: "", stem: "op", object, json, info, for_chip: true, debug: false }];
            let dir = ViewDir::enter(&opkeep_fs::Fs::new(), self.base.path(), Duration::ZERO).unwrap();
            let now = dir.now() + Duration::from_secs(later);
            let (policy, run) = (Policy::default(), RunId::now());
            let order = Order { withdrawn: &[], policy, stored: &NoStore, foreign: &Healing, run: &run, now };
            materialise(&dir, &Checked::new(&kernels).unwrap(), &order).unwrap()
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.base.path().join(name)
        }
    }

    #[test]
    fn a_file_is_read_until_it_has_rested_and_then_no_more() {
        let view = Fixture::new();
        assert_eq!(view.run(0).written, 1);
        for _ in 0..2 {
            assert_eq!((view.run(0).read, view.run(1).read), (3, 3));
        }
        assert_eq!(view.run(3).read, 3);
        assert_eq!((view.run(3).read, view.run(0).read, view.run(60).read), (0, 0, 0));
    }

    #[test]
    fn what_the_manifest_vouches_for_is_really_not_read() {
        let view = Fixture::new();
        view.run(0);
        view.run(3);
        // A file that only reading can tell from the right one: the manifest knows its identity, and lies.
        fs::write(view.path("op.o"), "another!!!").unwrap();
        let dir = ViewDir::enter(&opkeep_fs::Fs::new(), view.base.path(), Duration::ZERO).unwrap();
        let text = fs::read(view.path(manifest::NAME)).unwrap();
        let mut manifest = Manifest::parse(&text);
        let known = Known { digest: Digest::of(&view.object), seen: dir.file_state("op.o") };
        manifest.note("op", KernelFileKind::Object, known, None);
        fs::write(view.path(manifest::NAME), manifest.to_text()).unwrap();
        drop(dir);
        assert_eq!((view.run(3).intact, view.run(3).read), (1, 0));
        // Without the lie it is replaced.
        fs::remove_file(view.path(manifest::NAME)).unwrap();
        assert_eq!(view.run(3).written, 1);
        assert_eq!(fs::read(view.path("op.o")).unwrap(), view.object);
    }

    #[test]
    fn a_vouched_file_that_changed_is_read_even_if_its_times_look_old() {
        let view = Fixture::new();
        for name in ["op.o", "op.json", "op.info"] {
            view.run(0);
            view.run(3);
            assert_eq!(view.run(3).read, 0);
            let mtime = fs::metadata(view.path(name)).unwrap().modified().unwrap();
            // Longer than a tick of the clock that stamps files.
            sleep(Duration::from_millis(20));
            let mut bytes = fs::read(view.path(name)).unwrap();
            bytes[1] ^= 1;
            fs::write(view.path(name), &bytes).unwrap();
            fs::File::options().append(true).open(view.path(name)).unwrap().set_modified(mtime).unwrap();
            let report = view.run(3);
            assert_eq!((report.written, report.intact), (1, 0), "{name}");
            assert_ne!(fs::read(view.path(name)).unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn a_description_that_mindspore_extended_is_vouched_for_too() {
        let view = Fixture::new();
        view.run(0);
        let digest = Digest::of(&view.object);
        fs::write(view.path("op.json"), format!(r#"{{"build_result":"{{}}","sha256":"{digest}"}}"#)).unwrap();
        assert_eq!((view.run(3).intact, view.run(3).read), (1, 0));
    }

    #[test]
    fn another_content_is_not_vouched_for() {
        let mut view = Fixture::new();
        view.run(0);
        view.run(3);
        view.object[0] ^= 1;
        view.json = format!(r#"{{"sha256": "{}"}}"#, Digest::of(&view.object)).into_bytes();
        assert_eq!(view.run(3).written, 1);
        assert_eq!(fs::read(view.path("op.o")).unwrap(), view.object);
        assert_eq!(fs::read(view.path("op.json")).unwrap(), view.json);
    }
}
