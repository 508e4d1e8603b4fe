//! The behavior of a view beside foreign kernels.

pub(crate) mod undone;

use libtest_mimic::Trial;
use std::cell::Cell;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::owned::{OwnKernel, all_bytes, kernels, view};
use opkeep_framework_cache::restore::{RestoreOptions, RestoreReport, newest, quarantines, restore};
use opkeep_framework_cache::scan::InUse;
use opkeep_kernel_meta::{KernelFiles, LeftReason, RetiredKernel, View, ViewReport};
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::at_each_change;
use opkeep_testkit::caches::{CachedKernelFiles, Rank};
use tempfile::TempDir;

/// A directory of MindSpore for a chip, with one kernel in it.
struct Place {
    base: TempDir,
    foreign: CachedKernelFiles,
    chip: Chip,
}

impl Place {
    fn new() -> Self {
        Self::on(Chip::Ascend910)
    }

    fn on(chip: Chip) -> Self {
        let place = Self::empty_on(chip);
        place.foreign.write(&place.dir()).unwrap();
        place
    }

    fn empty_on(chip: Chip) -> Self {
        let rank = Rank { soc: chip.soc(), ..Rank::new(0) };
        Self { base: tempfile::tempdir().unwrap(), foreign: rank.square(1), chip }
    }

    fn dir(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta")
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.dir().join(format!("{}.{suffix}", self.foreign.stem))
    }

    fn own(&self, version: u32) -> OwnKernel {
        OwnKernel::of(self.chip, &self.foreign, version)
    }

    fn view(&self) -> View {
        view(self.base.path())
    }

    fn run(&self, own: &OwnKernel) -> ViewReport {
        self.view().materialise(&[own.files()]).unwrap()
    }

    fn restore(&self) -> Vec<RestoreReport> {
        undo_newest(self.base.path())
    }

    /// Whether a file below the base has these bytes.
    fn has(&self, bytes: &[u8]) -> bool {
        all_bytes(self.base.path()).iter().any(|(_, found)| found == bytes)
    }
}

fn undo_newest(base: &Path) -> Vec<RestoreReport> {
    let options = RestoreOptions::new(false);
    newest(quarantines(base).unwrap()).iter().map(|run| restore(run, &options).unwrap()).collect()
}

#[track_caller]
fn why(report: &ViewReport) -> &LeftReason {
    assert_eq!((report.left.len(), report.written), (1, 0), "{report:?}");
    &report.left[0].reason
}

fn a_valid_foreign_kernel_stays_in_every_build() {
    for chip in Chip::ALL {
        let place = Place::on(chip);
        let before = kernels(&place.dir());
        for own in [
            place.own(1),
            OwnKernel::on_host(&place.foreign, 1),
            OwnKernel::of(Chip::Ascend310P, &place.foreign, 1),
        ] {
            for for_chip in [false, true] {
                let report = place.run(&OwnKernel { for_chip, ..own.clone() });
                let LeftReason::Foreign(kernel) = why(&report) else { panic!("{report:?}") };
                assert!(kernel.machine.as_ref().unwrap().contains("0x1029"), "{kernel:?}");
                assert_eq!(kernel.chip.as_deref(), Some(chip.soc()));
                assert_eq!(kernel.flags == Some(0), chip == Chip::Ascend910, "{kernel:?}");
                assert!(kernel.to_string().contains(chip.soc()), "{kernel}");
                assert_eq!(kernels(&place.dir()), before);
            }
        }
        assert!(quarantines(place.base.path()).unwrap().is_empty());
    }
}

fn kernels_replaced_on_request_are_restored_exactly() {
    let place = Place::new();
    let before = kernels(&place.dir());
    let own = OwnKernel::on_host(&place.foreign, 1);
    for _ in 0..2 {
        let report = place.view().with_replace(true).materialise(&[own.files()]).unwrap();
        assert_eq!((report.written, report.left.len()), (1, 0), "{report:?}");
        assert!(report.quarantine.unwrap().starts_with(place.base.path().join("rank_0")));
        assert!(own.is_in(&place.dir()));
        assert!(place.has(&place.foreign.object) && place.has(&place.foreign.json));
        let undone = place.restore();
        assert!(undone[0].removed && undone[0].unrestored.is_empty(), "{undone:?}");
        assert_eq!((undone[0].restored.len(), undone[0].deleted.len()), (2, 2), "{undone:?}");
        assert_eq!(kernels(&place.dir()), before);
    }
}

/// The line of `stem` in the manifest.
fn listed(dir: &Path, stem: &str) -> bool {
    let list = fs::read_to_string(dir.join(".opkeep-manifest")).unwrap_or_default();
    list.lines().any(|line| line.starts_with(&format!("{stem}\t")))
}

fn undone_kernels_are_no_longer_own() {
    let place = Place::new();
    let dir = place.dir();
    let (own, other) = (place.own(1), place.own(2));
    let kept = OwnKernel { stem: format!("{}_kept", other.stem), ..other };
    for ends_early in [true, false] {
        place.view().with_replace(true).materialise(&[own.files()]).unwrap();
        place.run(&kept);
        assert!(listed(&dir, &own.stem) && listed(&dir, &kept.stem));
        if ends_early {
            // The process ends when all files are restored and the manifest is not yet written.
            let text = fs::read(dir.join(".opkeep-manifest")).unwrap();
            let run = newest(quarantines(place.base.path()).unwrap()).remove(0);
            let journal = run.path().join(".opkeep-journal");
            let entries = fs::read(&journal).unwrap();
            place.restore();
            fs::write(dir.join(".opkeep-manifest"), text).unwrap();
            fs::create_dir_all(run.path()).unwrap();
            fs::write(&journal, entries).unwrap();
        }
        let undone = place.restore();
        assert!(undone[0].removed && undone[0].unrestored.is_empty(), "{undone:?}");
        assert!(!listed(&dir, &own.stem) && listed(&dir, &kept.stem), "{ends_early}");
        assert!(kept.is_in(&dir));
        // The next build depends on the kernel's owner.
        assert!(matches!(why(&place.run(&place.own(3))), LeftReason::Foreign(_)));
    }
    // An empty manifest is removed.
    let place = Place::new();
    place.view().with_replace(true).materialise(&[place.own(1).files()]).unwrap();
    let options = RestoreOptions::new(true);
    let run = newest(quarantines(place.base.path()).unwrap()).remove(0);
    let dry = restore(&run, &options).unwrap();
    assert!(listed(&place.dir(), &place.foreign.stem));
    let RestoreReport { restored, deleted, unrestored, removed, .. } = place.restore().remove(0);
    assert!(removed && unrestored.is_empty() && restored.len() == 2, "{unrestored:?}");
    assert_eq!(
        (dry.restored, dry.deleted, dry.unrestored, dry.removed),
        (restored, deleted, unrestored, false)
    );
    assert!(!place.dir().join(".opkeep-manifest").exists());
}

type Damage = (&'static str, fn(&Place));

/// Every kind of damage to an intact kernel.
fn damages() -> Vec<Damage> {
    fn change(path: PathBuf, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
    vec![
        ("an empty .json", |place| fs::write(place.path("json"), "").unwrap()),
        ("a .json that is cut", |place| change(place.path("json"), |bytes| bytes.truncate(100))),
        ("an object that is cut", |place| change(place.path("o"), |bytes| bytes.truncate(bytes.len() / 2))),
        ("an object cut in its header", |place| change(place.path("o"), |bytes| bytes.truncate(30))),
        ("an empty object", |place| fs::write(place.path("o"), "").unwrap()),
        ("a flipped byte", |place| change(place.path("o"), |bytes| bytes[200] ^= 1)),
        ("no object", |place| fs::remove_file(place.path("o")).unwrap()),
        ("zeros", |place| change(place.path("o"), |bytes| bytes.fill(0))),
    ]
}

fn damaged_kernels_are_replaced_by_a_kernel_for_the_chip_and_kept() {
    for (what, damage) in damages() {
        let place = Place::on(Chip::Ascend910B);
        damage(&place);
        let before = kernels(&place.dir());
        let report = place.run(&place.own(1));
        assert_eq!((report.written, report.left.len()), (1, 0), "{what}: {report:?}");
        assert!(place.own(1).is_in(&place.dir()), "{what}");
        for (path, bytes) in &before {
            assert!(place.has(bytes), "{what}: {path:?} is lost");
        }
        let undone = place.restore();
        assert!(undone[0].removed && undone[0].unrestored.is_empty(), "{what}: {undone:?}");
        assert_eq!(kernels(&place.dir()), before, "{what}");
    }
}

fn damaged_kernels_are_not_replaced_by_a_kernel_for_another_chip() {
    for (what, damage) in damages() {
        let place = Place::on(Chip::Ascend910B);
        damage(&place);
        let before = kernels(&place.dir());
        let report = place.run(&OwnKernel::on_host(&place.foreign, 1));
        assert!(!matches!(why(&report), LeftReason::InProgress(_)), "{what}: {report:?}");
        assert_eq!(kernels(&place.dir()), before, "{what}");
    }
}

/// The object is intact, so problems of other files are no damage.
fn an_intact_object_for_another_chip_is_never_damage() {
    for (foreign, own) in [
        (Chip::Ascend910, Chip::Ascend910B),
        (Chip::Ascend910B, Chip::Ascend910),
        (Chip::Ascend910B, Chip::Ascend310P),
        (Chip::Ascend310B, Chip::Ascend310P),
    ] {
        for json in [&b""[..], b"{\"sha256\": ", b"{\"kernelName\": \"a\", \"sha256\": \"00\"}"] {
            let place = Place::on(foreign);
            fs::write(place.path("json"), json).unwrap();
            let before = kernels(&place.dir());
            let report = place.run(&OwnKernel::of(own, &place.foreign, 1));
            assert!(matches!(why(&report), LeftReason::Foreign(_)), "{foreign:?} {own:?} {report:?}");
            assert_eq!(kernels(&place.dir()), before);
        }
    }
}

fn single_files_of_a_kernel_are_judged_by_themselves() {
    // A descriptor alone: frameworks write it first, and it stays foreign.
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    let mut info = place.foreign.info.clone().unwrap();
    info.extend(b"  \n");
    fs::write(place.path("info"), &info).unwrap();
    let inode = fs::metadata(place.path("info")).unwrap().ino();
    assert_eq!(place.run(&place.own(1)).written, 1);
    assert!(place.own(1).is_in(&place.dir()));
    assert_eq!(place.run(&place.own(2)).written, 1);
    assert_eq!(
        (fs::read(place.path("info")).unwrap(), fs::metadata(place.path("info")).unwrap().ino()),
        (info, inode)
    );

    // An object alone: at first a compiler may be about to write its description; later it is stale.
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    fs::write(place.path("o"), &place.foreign.object).unwrap();
    assert!(matches!(why(&place.run(&place.own(1))), LeftReason::InProgress(InUse::RecentlyWritten { .. })));
    let before = SystemTime::now() - Duration::from_secs(3600);
    File::open(place.path("o")).unwrap().set_times(FileTimes::new().set_modified(before)).unwrap();
    assert_eq!(place.run(&place.own(1)).written, 1);
    assert!(place.has(&place.foreign.object));
    assert!(place.restore()[0].removed);
    assert_eq!(kernels(&place.dir()), [(place.path("o"), place.foreign.object.clone())]);
}

fn a_file_that_is_open_may_be_in_progress() {
    let place = Place::on(Chip::Ascend910B);
    let half = &place.foreign.object[..place.foreign.object.len() / 2];
    fs::write(place.path("o"), half).unwrap();
    let before = kernels(&place.dir());
    let writer = File::options().append(true).open(place.path("o")).unwrap();
    let mut compiler = Command::new("sleep").arg("60").stdout(Stdio::from(writer)).spawn().unwrap();
    let report = place.run(&place.own(1));
    assert!(matches!(why(&report), LeftReason::InProgress(InUse::Open { .. })), "{report:?}");
    assert_eq!(kernels(&place.dir()), before);
    compiler.kill().unwrap();
    compiler.wait().unwrap();
    assert_eq!(place.run(&place.own(1)).written, 1);
}

fn a_guessed_target_writes_only_to_empty_or_own_directories() {
    let guess = |place: &Place, kernels: &[OwnKernel]| {
        let files: Vec<KernelFiles<'_>> = kernels.iter().map(OwnKernel::files).collect();
        place.view().with_guessed_target(true).materialise(&files).unwrap()
    };
    let other = Rank::new(0).square(2);
    // Beside another foreign kernel nothing is created, not even a lock.
    let place = Place::new();
    let before = all_bytes(place.base.path());
    for kernels in [
        vec![OwnKernel::on_host(&other, 1)],
        vec![OwnKernel::on_host(&other, 1), OwnKernel::on_host(&place.foreign, 1)],
    ] {
        let report = guess(&place, &kernels);
        assert_eq!((report.left.len(), report.written), (kernels.len(), 0), "{report:?}");
        assert!(report.left.iter().any(|left| matches!(&left.reason,
            LeftReason::ForeignDirectory { file, .. } if file.starts_with(&place.foreign.stem))));
        assert_eq!(all_bytes(place.base.path()), before);
    }
    // A chosen target is filled beside foreign kernels; kernels for the chip are placed in any case.
    assert_eq!(place.run(&OwnKernel::on_host(&other, 1)).written, 1);
    assert_eq!(guess(&place, &[OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(3), 1)]).written, 1);

    let place = Place::empty_on(Chip::Ascend910);
    assert_eq!(guess(&place, &[OwnKernel::on_host(&place.foreign, 1)]).written, 1);
    assert_eq!(
        guess(&place, &[OwnKernel::on_host(&place.foreign, 2), OwnKernel::on_host(&other, 1)]).written,
        2
    );
    // Damaged own kernels are repaired, and a descriptor alone is no kernel.
    fs::write(place.path("o"), "").unwrap();
    fs::write(place.dir().join("another_1_0.info"), "{}").unwrap();
    assert_eq!(guess(&place, &[OwnKernel::on_host(&place.foreign, 2)]).written, 1);
    // Once there is a foreign kernel, no own file is changed or removed.
    fs::write(place.dir().join("another_1_0.o"), &place.foreign.object).unwrap();
    let before = kernels(&place.dir());
    assert_eq!(guess(&place, &[OwnKernel::on_host(&place.foreign, 3)]).left.len(), 1);
    assert_eq!(kernels(&place.dir()), before);
}

fn equal_files_are_adopted_and_kept_when_they_are_replaced() {
    let place = Place::empty_on(Chip::Ascend910);
    let (first, second) = (place.own(1), place.own(2));
    place.run(&first);
    fs::remove_file(place.dir().join(".opkeep-manifest")).unwrap();
    assert_eq!(place.run(&first).intact, 1);
    assert_eq!(place.run(&second).written, 1);
    assert!(place.has(&first.files[0]) && second.is_in(&place.dir()));
    place.restore();
    assert!(first.is_in(&place.dir()));

    // Files that are recorded as own are replaced without a copy.
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&first);
    assert_eq!(place.run(&second).written, 1);
    assert!(!place.has(&first.files[0]) && quarantines(place.base.path()).unwrap().is_empty());
}

/// The content of such a manifest is unknown, so the kernel stays.
fn a_manifest_of_another_version_makes_no_file_own() {
    let place = Place::empty_on(Chip::Ascend910);
    let (first, second) = (place.own(1), place.own(2));
    place.run(&first);
    let list = place.dir().join(".opkeep-manifest");
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.starts_with("opkeep-manifest 2 "));
    fs::write(&list, text.replacen("opkeep-manifest 2 ", "opkeep-manifest 3 ", 1)).unwrap();
    let report = place.run(&second);
    assert_eq!((report.written, report.left.len()), (0, 1));
    assert!(first.is_in(&place.dir()));
}

fn changed_own_kernels_stay() {
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.own(1));
    let text = String::from_utf8(place.own(1).files[1].clone()).unwrap();
    let edited = text.replacen("\"blockDim\": ", "\"blockDim\": 1", 1);
    assert_ne!(edited, text);
    fs::write(place.path("json"), &edited).unwrap();
    for version in [1, 2] {
        assert!(matches!(why(&place.run(&place.own(version))), LeftReason::Foreign(_)));
        assert_eq!(fs::read_to_string(place.path("json")).unwrap(), edited);
    }
    // Additions of MindSpore leave it an own kernel, but a copy is kept.
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["build_result"] = "{}".into();
    let extended = serde_json::to_vec(&value).unwrap();
    fs::write(place.path("json"), &extended).unwrap();
    assert_eq!(place.run(&place.own(1)).intact, 1);
    assert_eq!(place.run(&place.own(2)).written, 1);
    assert!(place.has(&extended) && place.own(2).is_in(&place.dir()));
}

fn a_kernel_for_debugging_takes_no_place_of_a_release() {
    let debug = |own: OwnKernel| OwnKernel { debug: true, ..own };
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.own(1));
    let before = kernels(&place.dir());
    assert_eq!(why(&place.run(&debug(place.own(2)))), &LeftReason::Release);
    assert_eq!(kernels(&place.dir()), before);
    // Under another name it does not supersede the release, however old that is.
    let other =
        debug(OwnKernel { slot: place.own(1).slot, ..OwnKernel::of(place.chip, &Rank::new(0).square(2), 3) });
    let old = SystemTime::now() - Duration::from_secs(3600);
    for (path, _) in &before {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    assert_eq!((place.run(&other).written, place.run(&other).removed), (1, 0));
    assert!(place.own(1).is_in(&place.dir()));

    let asked = place.view().with_replace(true).materialise(&[debug(place.own(2)).files()]).unwrap();
    assert_eq!(asked.written, 1);
    // A debug kernel is replaced by another one, and by the release.
    assert_eq!(place.run(&debug(place.own(4))).written, 1);
    assert_eq!(place.run(&place.own(1)).written, 1);
    assert!(quarantines(place.base.path()).unwrap().is_empty(), "all of it was ours");
    // A damaged release is replaced.
    fs::write(place.path("o"), "").unwrap();
    assert_eq!(place.run(&debug(place.own(5))).written, 1);
}

fn a_second_name_of_a_file_keeps_its_bytes() {
    for replace in [false, true] {
        let place = Place::new();
        let elsewhere = place.base.path().join("elsewhere.o");
        fs::hard_link(place.path("o"), &elsewhere).unwrap();
        place.view().with_replace(replace).materialise(&[place.own(1).files()]).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), place.foreign.object);
    }
}

/// A framework that compiles the same kernel at any moment of a build loses no file.
fn concurrent_writes_are_not_lost() {
    let foreign = Rank::new(0).square(1);
    // In place of no kernel, of an own one, of a damaged one; its files are renamed into place, or written in place.
    for start in 0..3 {
        for renames in [false, true] {
            let mut step = 0;
            loop {
                let place = Place::empty_on(Chip::Ascend910);
                fs::create_dir_all(place.dir()).unwrap();
                if start == 1 {
                    place.run(&place.own(1));
                }
                if start == 2 {
                    fs::write(place.path("o"), "torn").unwrap();
                    fs::write(place.path("json"), "{").unwrap();
                }
                let (left, dir, kernel) = (AtomicU64::new(step), place.dir(), foreign.clone());
                let view = place.view().with_fs(at_each_change(move |_| {
                    if left.fetch_sub(1, Ordering::Relaxed) != 0 {
                        return;
                    }
                    for (suffix, bytes) in [("o", &kernel.object), ("json", &kernel.json)] {
                        let path = dir.join(format!("{}.{suffix}", kernel.stem));
                        match renames {
                            true => {
                                fs::write(dir.join("theirs"), bytes).unwrap();
                                fs::rename(dir.join("theirs"), path).unwrap();
                            }
                            false => fs::write(path, bytes).unwrap(),
                        }
                    }
                }));
                let report = view.materialise(&[place.own(2).files()]);
                let case = format!("start {start}, renames {renames}, step {step}: {report:?}");
                let wrote = place.has(&foreign.object) || place.has(&foreign.json);
                if !wrote && place.own(2).is_in(&place.dir()) && step > 0 {
                    break;
                }
                assert!(place.has(&foreign.object) && place.has(&foreign.json), "{case}");
                step += 1;
            }
            assert!(step > 4, "{step} steps of {start}");
        }
    }
}

fn a_directory_that_others_may_write_to_is_named() {
    let place = Place::empty_on(Chip::Ascend910);
    assert_eq!(place.run(&place.own(1)).risk, None);
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let risk = place.run(&place.own(1)).risk.unwrap();
    assert_eq!((risk.mode, &risk.path), (0o777, &place.dir()));
    assert!(risk.to_string().contains("chmod o-w") && risk.to_string().contains("0777"), "{risk}");
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(place.dir(), Some(1234), None).unwrap();
        let risk = place.run(&place.own(1)).risk.unwrap();
        assert_eq!((risk.owner, risk.user), (1234, 0));
        assert!(risk.to_string().contains("user 1234"), "{risk}");
    }
}

/// A file that is displaced when a writer dies is restored, unless it is an own one.
fn files_displaced_by_a_dead_writer_are_restored() {
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.own(1));
    let old = |name: &str| place.dir().join(format!(".opkeep-old-4711-0-{name}.old"));
    let (object, json) = (format!("{}.o", place.foreign.stem), "theirs-1_0.json");
    fs::rename(place.path("o"), old(&object)).unwrap();
    fs::write(old(json), "precious").unwrap();
    let loads = Cell::new(0);
    loads.set(place.run(&place.own(1)).written);
    assert_eq!(loads.get(), 1);
    assert!(!old(&object).exists() && !old(json).exists());
    assert_eq!(fs::read(place.dir().join(json)).unwrap(), b"precious");
    assert!(place.own(1).is_in(&place.dir()));
}

/// A library of an AI CPU is a kernel although it has no `.o`.
fn a_kernel_in_a_library_is_a_kernel() {
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    let pair = Kernel::new(Chip::Ascend910, &place.foreign.stem).build().with_field("binFileSuffix", ".so");
    fs::write(place.dir().join(format!("lib{}.so", place.foreign.stem)), &pair.object).unwrap();
    fs::write(place.path("json"), &pair.json).unwrap();
    let before = kernels(&place.dir());
    assert!(matches!(why(&place.run(&place.own(1))), LeftReason::Foreign(_)));
    assert_eq!(kernels(&place.dir()), before);
}

/// A foreign file is not removed with own ones, even if it is equal.
fn an_earlier_descriptor_stays_when_its_kernel_is_removed() {
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    fs::write(place.path("info"), place.foreign.info.as_ref().unwrap()).unwrap();
    place.run(&place.own(1));
    let next = OwnKernel { slot: place.own(1).slot, ..OwnKernel::of(place.chip, &Rank::new(0).square(2), 1) };
    let old = SystemTime::now() - Duration::from_secs(3600);
    for (path, _) in kernels(&place.dir()) {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    assert_eq!(place.run(&next).removed, 1);
    assert!(!place.path("o").exists() && !place.path("json").exists() && place.path("info").exists());
}

/// A build whose kernels all failed does not change a foreign directory.
fn nothing_is_created_without_placed_or_own_kernels() {
    let place = Place::new();
    let before = all_bytes(place.base.path());
    let withdrawn = RetiredKernel { stem: &place.foreign.stem, keep: None };
    for withdrawn in [&[][..], &[withdrawn]] {
        place.view().replace(&[], withdrawn).unwrap();
        assert_eq!(all_bytes(place.base.path()), before);
    }
    // With own notes the kernel is removed if it is an own one.
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.own(1));
    assert_eq!(place.view().replace(&[], &[withdrawn]).unwrap().removed, 1);
    assert!(kernels(&place.dir()).is_empty());
}

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_valid_foreign_kernel_stays_in_every_build,
        kernels_replaced_on_request_are_restored_exactly,
        undone_kernels_are_no_longer_own,
        damaged_kernels_are_replaced_by_a_kernel_for_the_chip_and_kept,
        damaged_kernels_are_not_replaced_by_a_kernel_for_another_chip,
        an_intact_object_for_another_chip_is_never_damage,
        single_files_of_a_kernel_are_judged_by_themselves,
        a_file_that_is_open_may_be_in_progress,
        a_guessed_target_writes_only_to_empty_or_own_directories,
        equal_files_are_adopted_and_kept_when_they_are_replaced,
        a_manifest_of_another_version_makes_no_file_own,
        changed_own_kernels_stay,
        a_kernel_for_debugging_takes_no_place_of_a_release,
        a_second_name_of_a_file_keeps_its_bytes,
        concurrent_writes_are_not_lost,
        a_directory_that_others_may_write_to_is_named,
        files_displaced_by_a_dead_writer_are_restored,
        a_kernel_in_a_library_is_a_kernel,
        an_earlier_descriptor_stays_when_its_kernel_is_removed,
        nothing_is_created_without_placed_or_own_kernels
    ]
}
