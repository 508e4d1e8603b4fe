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

use crate::common::owned::{Ours, all_bytes, kernels, view};
use opkeep_framework_cache::restore::{RestoreOptions, RestoreReport, newest, quarantines, restore};
use opkeep_framework_cache::scan::InUse;
use opkeep_kernel_meta::{KernelFiles, LeftReason, RetiredKernel, View, ViewReport};
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::at_each_change;
use opkeep_testkit::caches::{CachedKernelFiles, Rank};
use tempfile::TempDir;

/// A directory of MindSpore's for a chip, with one kernel in it.
struct Place {
    base: TempDir,
    theirs: CachedKernelFiles,
    chip: Chip,
}

impl Place {
    fn new() -> Self {
        Self::on(Chip::Ascend910)
    }

    fn on(chip: Chip) -> Self {
        let place = Self::empty_on(chip);
        place.theirs.write(&place.dir()).unwrap();
        place
    }

    fn empty_on(chip: Chip) -> Self {
        let rank = Rank { soc: chip.soc(), ..Rank::new(0) };
        Self { base: tempfile::tempdir().unwrap(), theirs: rank.square(1), chip }
    }

    fn dir(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta")
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.dir().join(format!("{}.{suffix}", self.theirs.stem))
    }

    fn ours(&self, version: u32) -> Ours {
        Ours::of(self.chip, &self.theirs, version)
    }

    fn view(&self) -> View {
        view(self.base.path())
    }

    fn run(&self, ours: &Ours) -> ViewReport {
        self.view().materialise(&[ours.files()]).unwrap()
    }

    fn restore(&self) -> Vec<RestoreReport> {
        undo_newest(self.base.path())
    }

    /// Whether these bytes are in some file, wherever it is.
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

fn a_valid_kernel_that_is_not_ours_is_left_whatever_is_built() {
    for chip in Chip::ALL {
        let place = Place::on(chip);
        let before = kernels(&place.dir());
        for ours in
            [place.ours(1), Ours::on_host(&place.theirs, 1), Ours::of(Chip::Ascend310P, &place.theirs, 1)]
        {
            for for_chip in [false, true] {
                let report = place.run(&Ours { for_chip, ..ours.clone() });
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
    let ours = Ours::on_host(&place.theirs, 1);
    for _ in 0..2 {
        let report = place.view().with_replace(true).materialise(&[ours.files()]).unwrap();
        assert_eq!((report.written, report.left.len()), (1, 0), "{report:?}");
        assert!(report.quarantine.unwrap().starts_with(place.base.path().join("rank_0")));
        assert!(ours.is_in(&place.dir()));
        assert!(place.has(&place.theirs.object) && place.has(&place.theirs.json));
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

fn undone_kernels_are_no_longer_ours() {
    let place = Place::new();
    let dir = place.dir();
    let (ours, other) = (place.ours(1), place.ours(2));
    let kept = Ours { stem: format!("{}_kept", other.stem), ..other };
    for ends_early in [true, false] {
        place.view().with_replace(true).materialise(&[ours.files()]).unwrap();
        place.run(&kept);
        assert!(listed(&dir, &ours.stem) && listed(&dir, &kept.stem));
        if ends_early {
            // Its process ends when all is back and the list is still to be written.
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
        assert!(!listed(&dir, &ours.stem) && listed(&dir, &kept.stem), "{ends_early}");
        assert!(kept.is_in(&dir));
        // Whose it is decides what a build does next.
        assert!(matches!(why(&place.run(&place.ours(3))), LeftReason::Foreign(_)));
    }
    // With nothing left to list, no list is left.
    let place = Place::new();
    place.view().with_replace(true).materialise(&[place.ours(1).files()]).unwrap();
    let options = RestoreOptions::new(true);
    let run = newest(quarantines(place.base.path()).unwrap()).remove(0);
    let dry = restore(&run, &options).unwrap();
    assert!(listed(&place.dir(), &place.theirs.stem));
    let RestoreReport { restored, deleted, unrestored, removed, .. } = place.restore().remove(0);
    assert!(removed && unrestored.is_empty() && restored.len() == 2, "{unrestored:?}");
    assert_eq!(
        (dry.restored, dry.deleted, dry.unrestored, dry.removed),
        (restored, deleted, unrestored, false)
    );
    assert!(!place.dir().join(".opkeep-manifest").exists());
}

type Damage = (&'static str, fn(&Place));

/// Every sort of damage, as it can be made of a whole kernel.
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

fn damage_is_replaced_by_a_kernel_for_the_chip_and_kept() {
    for (what, damage) in damages() {
        let place = Place::on(Chip::Ascend910B);
        damage(&place);
        let before = kernels(&place.dir());
        let report = place.run(&place.ours(1));
        assert_eq!((report.written, report.left.len()), (1, 0), "{what}: {report:?}");
        assert!(place.ours(1).is_in(&place.dir()), "{what}");
        for (path, bytes) in &before {
            assert!(place.has(bytes), "{what}: {path:?} is lost");
        }
        let undone = place.restore();
        assert!(undone[0].removed && undone[0].unrestored.is_empty(), "{what}: {undone:?}");
        assert_eq!(kernels(&place.dir()), before, "{what}");
    }
}

fn damage_is_left_by_a_kernel_for_another_chip() {
    for (what, damage) in damages() {
        let place = Place::on(Chip::Ascend910B);
        damage(&place);
        let before = kernels(&place.dir());
        let report = place.run(&Ours::on_host(&place.theirs, 1));
        assert!(!matches!(why(&report), LeftReason::InProgress(_)), "{what}: {report:?}");
        assert_eq!(kernels(&place.dir()), before, "{what}");
    }
}

/// The object is whole, so whatever is wrong beside it, it is no damage.
fn a_whole_object_of_another_chip_is_never_damage() {
    for (theirs, ours) in [
        (Chip::Ascend910, Chip::Ascend910B),
        (Chip::Ascend910B, Chip::Ascend910),
        (Chip::Ascend910B, Chip::Ascend310P),
        (Chip::Ascend310B, Chip::Ascend310P),
    ] {
        for json in [&b""[..], b"{\"sha256\": ", b"{\"kernelName\": \"a\", \"sha256\": \"00\"}"] {
            let place = Place::on(theirs);
            fs::write(place.path("json"), json).unwrap();
            let before = kernels(&place.dir());
            let report = place.run(&Ours::of(ours, &place.theirs, 1));
            assert!(matches!(why(&report), LeftReason::Foreign(_)), "{theirs:?} {ours:?} {report:?}");
            assert_eq!(kernels(&place.dir()), before);
        }
    }
}

fn single_files_of_a_kernel_are_judged_by_themselves() {
    // A descriptor alone: frameworks write it first, and it stays theirs.
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    let mut info = place.theirs.info.clone().unwrap();
    info.extend(b"  \n");
    fs::write(place.path("info"), &info).unwrap();
    let inode = fs::metadata(place.path("info")).unwrap().ino();
    assert_eq!(place.run(&place.ours(1)).written, 1);
    assert!(place.ours(1).is_in(&place.dir()));
    assert_eq!(place.run(&place.ours(2)).written, 1);
    assert_eq!(
        (fs::read(place.path("info")).unwrap(), fs::metadata(place.path("info")).unwrap().ino()),
        (info, inode)
    );

    // An object alone: just now, a compiler may be about to describe it; later, it is left over.
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    fs::write(place.path("o"), &place.theirs.object).unwrap();
    assert!(matches!(why(&place.run(&place.ours(1))), LeftReason::InProgress(InUse::RecentlyWritten { .. })));
    let before = SystemTime::now() - Duration::from_secs(3600);
    File::open(place.path("o")).unwrap().set_times(FileTimes::new().set_modified(before)).unwrap();
    assert_eq!(place.run(&place.ours(1)).written, 1);
    assert!(place.has(&place.theirs.object));
    assert!(place.restore()[0].removed);
    assert_eq!(kernels(&place.dir()), [(place.path("o"), place.theirs.object.clone())]);
}

fn a_file_that_is_open_may_be_in_progress() {
    let place = Place::on(Chip::Ascend910B);
    let half = &place.theirs.object[..place.theirs.object.len() / 2];
    fs::write(place.path("o"), half).unwrap();
    let before = kernels(&place.dir());
    let writer = File::options().append(true).open(place.path("o")).unwrap();
    let mut compiler = Command::new("sleep").arg("60").stdout(Stdio::from(writer)).spawn().unwrap();
    let report = place.run(&place.ours(1));
    assert!(matches!(why(&report), LeftReason::InProgress(InUse::Open { .. })), "{report:?}");
    assert_eq!(kernels(&place.dir()), before);
    compiler.kill().unwrap();
    compiler.wait().unwrap();
    assert_eq!(place.run(&place.ours(1)).written, 1);
}

fn a_guessed_target_writes_only_to_empty_or_own_directories() {
    let guess = |place: &Place, kernels: &[Ours]| {
        let files: Vec<KernelFiles<'_>> = kernels.iter().map(Ours::files).collect();
        place.view().with_guessed_target(true).materialise(&files).unwrap()
    };
    let other = Rank::new(0).square(2);
    // With another kernel of theirs, nothing is made, not even a lock.
    let place = Place::new();
    let before = all_bytes(place.base.path());
    for kernels in
        [vec![Ours::on_host(&other, 1)], vec![Ours::on_host(&other, 1), Ours::on_host(&place.theirs, 1)]]
    {
        let report = guess(&place, &kernels);
        assert_eq!((report.left.len(), report.written), (kernels.len(), 0), "{report:?}");
        assert!(report.left.iter().any(|left| matches!(&left.reason,
            LeftReason::ForeignDirectory { file } if file.starts_with(&place.theirs.stem))));
        assert_eq!(all_bytes(place.base.path()), before);
    }
    // Chosen, it is filled beside theirs; and what is for the chip is filled in any case.
    assert_eq!(place.run(&Ours::on_host(&other, 1)).written, 1);
    assert_eq!(guess(&place, &[Ours::of(Chip::Ascend910, &Rank::new(0).square(3), 1)]).written, 1);

    let place = Place::empty_on(Chip::Ascend910);
    assert_eq!(guess(&place, &[Ours::on_host(&place.theirs, 1)]).written, 1);
    assert_eq!(guess(&place, &[Ours::on_host(&place.theirs, 2), Ours::on_host(&other, 1)]).written, 2);
    // Ours that are damaged are healed, and a descriptor alone is no kernel.
    fs::write(place.path("o"), "").unwrap();
    fs::write(place.dir().join("another_1_0.info"), "{}").unwrap();
    assert_eq!(guess(&place, &[Ours::on_host(&place.theirs, 2)]).written, 1);
    // Once a kernel of theirs comes, nothing of ours is touched, or removed.
    fs::write(place.dir().join("another_1_0.o"), &place.theirs.object).unwrap();
    let before = kernels(&place.dir());
    assert_eq!(guess(&place, &[Ours::on_host(&place.theirs, 3)]).left.len(), 1);
    assert_eq!(kernels(&place.dir()), before);
}

fn bytes_that_are_ours_are_adopted_and_kept_when_they_are_replaced() {
    let place = Place::empty_on(Chip::Ascend910);
    let (first, second) = (place.ours(1), place.ours(2));
    place.run(&first);
    fs::remove_file(place.dir().join(".opkeep-manifest")).unwrap();
    assert_eq!(place.run(&first).intact, 1);
    assert_eq!(place.run(&second).written, 1);
    assert!(place.has(&first.files[0]) && second.is_in(&place.dir()));
    place.restore();
    assert!(first.is_in(&place.dir()));

    // What is recorded as written by us is replaced for good.
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&first);
    assert_eq!(place.run(&second).written, 1);
    assert!(!place.has(&first.files[0]) && quarantines(place.base.path()).unwrap().is_empty());
}

/// Nothing is known of such a list, so the kernel is left.
fn a_list_of_another_version_makes_nothing_ours() {
    let place = Place::empty_on(Chip::Ascend910);
    let (first, second) = (place.ours(1), place.ours(2));
    place.run(&first);
    let list = place.dir().join(".opkeep-manifest");
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.starts_with("opkeep-manifest 2 "));
    fs::write(&list, text.replacen("opkeep-manifest 2 ", "opkeep-manifest 3 ", 1)).unwrap();
    let report = place.run(&second);
    assert_eq!((report.written, report.left.len()), (0, 1));
    assert!(first.is_in(&place.dir()));
}

fn own_kernels_that_were_changed_are_left() {
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.ours(1));
    let text = String::from_utf8(place.ours(1).files[1].clone()).unwrap();
    let edited = text.replacen("\"blockDim\": ", "\"blockDim\": 1", 1);
    assert_ne!(edited, text);
    fs::write(place.path("json"), &edited).unwrap();
    for version in [1, 2] {
        assert!(matches!(why(&place.run(&place.ours(version))), LeftReason::Foreign(_)));
        assert_eq!(fs::read_to_string(place.path("json")).unwrap(), edited);
    }
    // What MindSpore adds leaves it ours; a copy is kept all the same.
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["build_result"] = "{}".into();
    let extended = serde_json::to_vec(&value).unwrap();
    fs::write(place.path("json"), &extended).unwrap();
    assert_eq!(place.run(&place.ours(1)).intact, 1);
    assert_eq!(place.run(&place.ours(2)).written, 1);
    assert!(place.has(&extended) && place.ours(2).is_in(&place.dir()));
}

fn a_kernel_for_debugging_takes_no_place_of_a_release() {
    let debug = |ours: Ours| Ours { debug: true, ..ours };
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.ours(1));
    let before = kernels(&place.dir());
    assert_eq!(why(&place.run(&debug(place.ours(2)))), &LeftReason::Release);
    assert_eq!(kernels(&place.dir()), before);
    // Under another name it does not supersede the release, however old that is.
    let other = debug(Ours { slot: place.ours(1).slot, ..Ours::of(place.chip, &Rank::new(0).square(2), 3) });
    let old = SystemTime::now() - Duration::from_secs(3600);
    for (path, _) in &before {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    assert_eq!((place.run(&other).written, place.run(&other).removed), (1, 0));
    assert!(place.ours(1).is_in(&place.dir()));

    let asked = place.view().with_replace(true).materialise(&[debug(place.ours(2)).files()]).unwrap();
    assert_eq!(asked.written, 1);
    // One for debugging is replaced by another, and by the release.
    assert_eq!(place.run(&debug(place.ours(4))).written, 1);
    assert_eq!(place.run(&place.ours(1)).written, 1);
    assert!(quarantines(place.base.path()).unwrap().is_empty(), "all of it was ours");
    // A release that is damaged protects nothing.
    fs::write(place.path("o"), "").unwrap();
    assert_eq!(place.run(&debug(place.ours(5))).written, 1);
}

fn a_second_name_of_a_file_keeps_its_bytes() {
    for replace in [false, true] {
        let place = Place::new();
        let elsewhere = place.base.path().join("elsewhere.o");
        fs::hard_link(place.path("o"), &elsewhere).unwrap();
        place.view().with_replace(replace).materialise(&[place.ours(1).files()]).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), place.theirs.object);
    }
}

/// A framework that compiles the same kernel at any moment of a build loses nothing.
fn files_that_are_written_meanwhile_are_not_lost() {
    let theirs = Rank::new(0).square(1);
    // Over nothing, over ours, over damage; its files renamed into place, or written in place.
    for start in 0..3 {
        for renames in [false, true] {
            let mut step = 0;
            loop {
                let place = Place::empty_on(Chip::Ascend910);
                fs::create_dir_all(place.dir()).unwrap();
                if start == 1 {
                    place.run(&place.ours(1));
                }
                if start == 2 {
                    fs::write(place.path("o"), "torn").unwrap();
                    fs::write(place.path("json"), "{").unwrap();
                }
                let (left, dir, kernel) = (AtomicU64::new(step), place.dir(), theirs.clone());
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
                let report = view.materialise(&[place.ours(2).files()]);
                let case = format!("start {start}, renames {renames}, step {step}: {report:?}");
                let wrote = place.has(&theirs.object) || place.has(&theirs.json);
                if !wrote && place.ours(2).is_in(&place.dir()) && step > 0 {
                    break;
                }
                assert!(place.has(&theirs.object) && place.has(&theirs.json), "{case}");
                step += 1;
            }
            assert!(step > 4, "{step} steps of {start}");
        }
    }
}

fn a_directory_that_others_may_write_to_is_named() {
    let place = Place::empty_on(Chip::Ascend910);
    assert_eq!(place.run(&place.ours(1)).risk, None);
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let risk = place.run(&place.ours(1)).risk.unwrap();
    assert_eq!((risk.mode, &risk.path), (0o777, &place.dir()));
    assert!(risk.to_string().contains("chmod o-w") && risk.to_string().contains("0777"), "{risk}");
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(place.dir(), Some(1234), None).unwrap();
        let risk = place.run(&place.ours(1)).risk.unwrap();
        assert_eq!((risk.owner, risk.user), (1234, 0));
        assert!(risk.to_string().contains("user 1234"), "{risk}");
    }
}

/// A file that is displaced when a writer dies is restored, unless it is an own one.
fn files_displaced_by_a_dead_writer_are_restored() {
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.ours(1));
    let old = |name: &str| place.dir().join(format!(".opkeep-old-4711-0-{name}.old"));
    let (object, json) = (format!("{}.o", place.theirs.stem), "theirs-1_0.json");
    fs::rename(place.path("o"), old(&object)).unwrap();
    fs::write(old(json), "precious").unwrap();
    let loads = Cell::new(0);
    loads.set(place.run(&place.ours(1)).written);
    assert_eq!(loads.get(), 1);
    assert!(!old(&object).exists() && !old(json).exists());
    assert_eq!(fs::read(place.dir().join(json)).unwrap(), b"precious");
    assert!(place.ours(1).is_in(&place.dir()));
}

/// A kernel of a library, as AI CPUs have them, is one although no `.o` is there.
fn a_kernel_in_a_library_is_a_kernel() {
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    let pair = Kernel::new(Chip::Ascend910, &place.theirs.stem).build().with_field("binFileSuffix", ".so");
    fs::write(place.dir().join(format!("lib{}.so", place.theirs.stem)), &pair.object).unwrap();
    fs::write(place.path("json"), &pair.json).unwrap();
    let before = kernels(&place.dir());
    assert!(matches!(why(&place.run(&place.ours(1))), LeftReason::Foreign(_)));
    assert_eq!(kernels(&place.dir()), before);
}

/// A foreign file is not removed with own ones, even if it is equal.
fn a_descriptor_that_was_there_before_stays_when_its_kernel_goes() {
    let place = Place::empty_on(Chip::Ascend910);
    fs::create_dir_all(place.dir()).unwrap();
    fs::write(place.path("info"), place.theirs.info.as_ref().unwrap()).unwrap();
    place.run(&place.ours(1));
    let next = Ours { slot: place.ours(1).slot, ..Ours::of(place.chip, &Rank::new(0).square(2), 1) };
    let old = SystemTime::now() - Duration::from_secs(3600);
    for (path, _) in kernels(&place.dir()) {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    assert_eq!(place.run(&next).removed, 1);
    assert!(!place.path("o").exists() && !place.path("json").exists() && place.path("info").exists());
}

/// A build of which every kernel failed leaves a directory of others as it is.
fn nothing_is_made_where_nothing_is_placed_and_nothing_is_ours() {
    let place = Place::new();
    let before = all_bytes(place.base.path());
    let withdrawn = RetiredKernel { stem: &place.theirs.stem, unless: None };
    for withdrawn in [&[][..], &[withdrawn]] {
        place.view().replace(&[], withdrawn).unwrap();
        assert_eq!(all_bytes(place.base.path()), before);
    }
    // With notes of ours it is taken away, if it is ours.
    let place = Place::empty_on(Chip::Ascend910);
    place.run(&place.ours(1));
    assert_eq!(place.view().replace(&[], &[withdrawn]).unwrap().removed, 1);
    assert!(kernels(&place.dir()).is_empty());
}

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_valid_kernel_that_is_not_ours_is_left_whatever_is_built,
        kernels_replaced_on_request_are_restored_exactly,
        undone_kernels_are_no_longer_ours,
        damage_is_replaced_by_a_kernel_for_the_chip_and_kept,
        damage_is_left_by_a_kernel_for_another_chip,
        a_whole_object_of_another_chip_is_never_damage,
        single_files_of_a_kernel_are_judged_by_themselves,
        a_file_that_is_open_may_be_in_progress,
        a_guessed_target_writes_only_to_empty_or_own_directories,
        bytes_that_are_ours_are_adopted_and_kept_when_they_are_replaced,
        a_list_of_another_version_makes_nothing_ours,
        own_kernels_that_were_changed_are_left,
        a_kernel_for_debugging_takes_no_place_of_a_release,
        a_second_name_of_a_file_keeps_its_bytes,
        files_that_are_written_meanwhile_are_not_lost,
        a_directory_that_others_may_write_to_is_named,
        files_displaced_by_a_dead_writer_are_restored,
        a_kernel_in_a_library_is_a_kernel,
        a_descriptor_that_was_there_before_stays_when_its_kernel_goes,
        nothing_is_made_where_nothing_is_placed_and_nothing_is_ours
    ]
}
