//! Files that a build or an undo leaves, since another program wrote them or has them open.

use libtest_mimic::Trial;
use std::fs::{self, File};
use std::process::{Command, Stdio};

use super::{Place, why};
use crate::common::owned::{OwnKernel, kernels};
use opkeep_framework_cache::scan::InUse;
use opkeep_fs::FsCall;
use opkeep_kernel_meta::{LeftReason, RetiredKernel};
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::at_each_change;
use opkeep_testkit::caches::Rank;

/// A foreign description that is equal to an own one stays where no copy of the object can be kept.
fn an_earlier_description_stays_where_no_copy_can_be_kept() {
    let place = Place::empty_on(Chip::Ascend910B);
    let own = place.own(1);
    fs::create_dir_all(place.dir()).unwrap();
    fs::write(place.path("o"), &own.files[0][..99]).unwrap();
    fs::write(place.path("json"), &own.files[1]).unwrap();
    fs::write(place.dir().with_file_name("kernel_meta.opkeep-quarantine"), "in the way").unwrap();
    let before = kernels(&place.dir());
    let report = place.run(&own);
    assert!(matches!(why(&report), LeftReason::NotQuarantined { .. }), "{report:?}");
    assert_eq!(kernels(&place.dir()), before);
}

/// Libraries that were beside a kernel before it was replaced do not prevent an undo.
fn a_kernel_beside_a_library_is_restored() {
    for name in ["{}.so", "lib{}.so", "{}.ptx"] {
        let place = Place::new();
        let library = place.dir().join(name.replace("{}", &place.foreign.stem));
        fs::write(&library, "library").unwrap();
        place.view().with_replace(true).materialise(&[place.own(1).files()]).unwrap();
        let undone = place.restore();
        assert!(undone[0].removed && undone[0].restored.len() == 2, "{name}: {undone:?}");
        // A newer library prevents it.
        place.view().with_replace(true).materialise(&[place.own(1).files()]).unwrap();
        fs::write(&library, "another library").unwrap();
        assert!(!place.restore()[0].removed, "{name}");
    }
}

/// A framework's file is not removed with a build's, even if it has the bytes that the build wrote.
fn an_equal_kernel_that_a_framework_wrote_since_is_not_undone() {
    for is_withdrawn in [false, true] {
        let place = Place::new();
        let own = place.own(1);
        place.view().with_replace(true).materialise(&[own.files()]).unwrap();
        if is_withdrawn {
            let withdrawn = RetiredKernel { stem: &own.stem, keep: None };
            assert_eq!(place.view().replace(&[], &[withdrawn]).unwrap().removed, 1);
        } else {
            fs::remove_file(place.dir().join(".opkeep-manifest")).unwrap();
        }
        for (suffix, bytes) in ["o", "json"].into_iter().zip(&own.files) {
            fs::write(place.path(suffix), bytes).unwrap();
        }
        let undone = place.restore();
        assert!(!undone[0].removed && own.is_in(&place.dir()), "{undone:?}");
        // Without them, the old kernel is restored.
        fs::remove_file(place.path("o")).unwrap();
        fs::remove_file(place.path("json")).unwrap();
        assert!(place.restore()[0].removed && place.has(&place.foreign.object));
    }
}

/// A kernel that a framework wrote after a build replaced another one is not removed with the build's files.
fn a_kernel_that_a_framework_wrote_since_is_not_undone() {
    let place = Place::new();
    place.view().with_replace(true).materialise(&[place.own(1).files()]).unwrap();
    let own = place.own(2);
    for (suffix, bytes) in ["o", "json"].into_iter().zip(&own.files) {
        fs::write(place.path(suffix), bytes).unwrap();
    }
    assert_eq!(place.run(&own).written, 0, "it is what a build would write");
    let before = kernels(&place.dir());
    let undone = place.restore();
    assert!(!undone[0].removed && undone[0].unrestored.len() == 2, "{undone:?}");
    assert_eq!(kernels(&place.dir()), before);
}

/// A kernel that is restored during the build, since a process has it open, is no part of the undo.
fn a_kernel_that_a_process_has_open_is_not_undone() {
    let place = Place::empty_on(Chip::Ascend910B);
    let other = Rank { soc: place.chip.soc(), ..Rank::new(0) }.square(2);
    let (own, open) = (place.own(1), OwnKernel::of(place.chip, &other, 1));
    let files = [own.files(), open.files()];
    place.view().materialise(&files).unwrap();
    let object = place.dir().join(format!("{}.o", open.stem));
    for path in [place.path("o"), object.clone()] {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let before = kernels(&place.dir());
    let holder = std::sync::Mutex::new(None);
    let holds = move |call: &FsCall<'_>| {
        let name = call.path.to_string_lossy();
        let mut holder = holder.lock().unwrap();
        if holder.is_none() && name.ends_with(".json") && object.exists() {
            let file = File::open(&object).unwrap();
            *holder = Some(Killed(Command::new("sleep").arg("60").stdin(Stdio::from(file)).spawn().unwrap()));
        }
    };
    let report = place.view().with_fs(at_each_change(holds)).materialise(&files).unwrap();
    assert_eq!((report.written, report.left.len()), (1, 1), "{report:?}");
    assert!(matches!(report.left[0].reason, LeftReason::InProgress(InUse::Open { .. })), "{report:?}");
    let undone = place.restore();
    assert!(undone[0].removed && undone[0].unrestored.is_empty(), "{undone:?}");
    let mut expected = before;
    expected.retain(|(path, _)| *path != place.dir().join(format!("{}.json", open.stem)));
    assert_eq!(kernels(&place.dir()), expected);
}

/// A process that is killed with this value.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_earlier_description_stays_where_no_copy_can_be_kept,
        a_kernel_beside_a_library_is_restored,
        an_equal_kernel_that_a_framework_wrote_since_is_not_undone,
        a_kernel_that_a_framework_wrote_since_is_not_undone,
        a_kernel_that_a_process_has_open_is_not_undone
    ]
}
