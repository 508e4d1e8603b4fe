//! Files in use, or in an unknown state, are not damaged: a repair would quarantine them.
#![expect(clippy::disallowed_methods, reason = "tests lay out caches by hand")]

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::{PermissionsExt, symlink};

use opkeep_descriptor::Generation;
use opkeep_framework_cache::scan::{
    CacheScan, Effect, ItemKind, ItemState, ScanOptions, compare, find, scan,
};
use opkeep_testkit::ascend::{Chip, Kernel, Library, Pair, library};
use opkeep_testkit::caches::Rank;

use crate::written_cache::Cache;

const CANN: &str = "kernel_cache/Ascend910B2";

fn small(name: &str) -> Pair {
    Kernel::new(Chip::Ascend910B, name).build()
}

fn said(name: &str, state: &'static str, files: &[&str]) -> (String, &'static str, Vec<String>) {
    (name.to_owned(), state, files.iter().map(|file| (*file).to_owned()).collect())
}

#[test]
fn files_of_an_intact_kernel_belong_to_no_damaged_item() {
    // Its object has another name; there is also a header.
    let cache = Cache::new(CANN);
    let pair = small("te_add").with_field("binFileName", "te_b").with_field("headerFileSuffix", ".h");
    cache.write("te_a.json", &pair.json);
    cache.write("te_b.o", &pair.object);
    cache.write("te_b.h", b"#pragma once\n");
    let intact = said("te_a", "intact", &["te_a.json", "te_b.o"]);
    assert_eq!(cache.states(), std::slice::from_ref(&intact));
    // A damaged description has the name of that object.
    cache.write("te_b.json", b"{\"bin");
    assert_eq!(cache.states(), [intact.clone(), said("te_b", "damaged", &["te_b.json"])]);
    // A description that names the object of an intact kernel, with a wrong digest.
    let cache = Cache::new(CANN);
    cache.write("te_c.json", &small("te_c").json);
    cache.write("te_c.o", &small("te_c").object);
    let wrong = small("te_c").with_field("sha256", "0".repeat(64).as_str());
    cache.write("te_d.json", &wrong.json);
    assert_eq!(
        cache.states(),
        [said("te_c", "intact", &["te_c.json", "te_c.o"]), said("te_d", "damaged", &["te_d.json"])]
    );
    // Without the intact kernel, the object belongs to this one.
    fs::remove_file(cache.dir.join("te_c.json")).unwrap();
    assert_eq!(cache.states(), [said("te_d", "damaged", &["te_d.json", "te_c.o"])]);
}

#[test]
fn no_file_beside_an_unreadable_description_is_an_orphan() {
    let cache = Cache::new(CANN);
    let pair = small("te_add").with_field("binFileName", "te_b");
    cache.write("te_b.o", &pair.object);
    assert_eq!(cache.states()[0].1, "orphan");
    // A link cannot be read by any user.
    fs::write(cache.base.path().join("elsewhere"), &pair.json).unwrap();
    symlink(cache.base.path().join("elsewhere"), cache.dir.join("te_a.json")).unwrap();
    cache.write("te_a.lock", b"");
    assert!(
        cache.scan_of().items.iter().all(|item| item.state_name() == "unreadable"),
        "{:?}",
        cache.states()
    );
    fs::remove_file(cache.dir.join("te_a.json")).unwrap();
    cache.write("te_a.json", &pair.json);
    fs::set_permissions(cache.dir.join("te_a.json"), fs::Permissions::from_mode(0o000)).unwrap();
    // A user who may read all files has no findings.
    let expected = if fs::read(cache.dir.join("te_a.json")).is_ok() { "intact" } else { "unreadable" };
    let states = cache.states();
    assert!(states.iter().all(|(_, state, _)| *state == expected), "{states:?}");
}

#[test]
fn a_kernel_behind_a_link_is_not_called_damaged() {
    for suffix in ["json", "o"] {
        let base = tempfile::tempdir().unwrap();
        let (rank, elsewhere) = (Rank::new(0), base.path().join("elsewhere"));
        let kernel = rank.square(1);
        kernel.write(&rank.dir(base.path())).unwrap();
        let file = rank.dir(base.path()).join(format!("{}.{suffix}", kernel.stem));
        fs::rename(&file, &elsewhere).unwrap();
        symlink(&elsewhere, &file).unwrap();
        let cache = Cache { dir: rank.dir(base.path()), base };
        let states = cache.states();
        assert!(matches!(&states[..], [(_, "unreadable", _)]), "{suffix}: {states:?}");
    }
}

#[test]
fn libraries_of_cann_are_for_the_host() {
    let pair = library(Library::AiCpu, "fused", &["GetKernelBin"]).with_field("binFileName", "te_fused");
    for object in ["te_fused.so", "te_fused_native.so"] {
        let cache = Cache::new(CANN);
        cache.write("te_fused.json", &pair.json);
        cache.write(object, &pair.object);
        let states = cache.states();
        assert!(matches!(&states[..], [(_, "intact", _)]), "{states:?}");
        // A digest of the content is no error; a truncated library is.
        cache.write("te_fused.json", &pair.clone().with_field("sha256", "1".repeat(64).as_str()).json);
        assert_eq!(cache.states()[0].1, "intact");
        assert!(cache.scan_of().items[0].kernel.is_none());
        cache.write(object, &pair.object[..pair.object.len() / 2]);
        assert_eq!(cache.states()[0].1, "damaged");
        // The library cannot be opened, so CANN loads no kernel.
        assert_eq!(cache.scan_of().items[0].behavior.effect, Effect::RecompiledEveryTime);
        cache.write(object, &pair.object);
        cache.write("te_fused.json", &pair.clone().with_field("sha256", "").json);
        assert_eq!(cache.states()[0].1, "damaged");
    }
    // Both files belong to one kernel.
    let cache = Cache::new(CANN);
    cache.write("te_fused.json", &pair.json);
    cache.write("te_fused.so", &pair.object);
    cache.write("te_fused_native.so", &pair.object);
    assert_eq!(cache.states().len(), 1, "{:?}", cache.states());
}

#[test]
fn reports_and_libraries_of_users_are_no_kernels() {
    let cache = Cache::new("kernel_meta");
    cache.write("fusion_result.json", b"[{\"session\": 0}]");
    let scan = cache.scan_of();
    assert!(
        matches!(&scan.items[..], [item] if item.kind == ItemKind::OtherJson && item.state_name() == "intact")
    );
    cache.write("fusion_result.json", b"[{\"session\": ");
    assert_eq!(cache.states()[0].1, "damaged");
    // An operator that a user compiled ahead of time: no descriptor, no .json.
    for dir in ["kernel_meta", "akg_kernel_meta"] {
        let cache = Cache::new(dir);
        cache.write("add.cc.so", b"\x7fELF");
        let scan = cache.scan_of();
        assert_eq!((scan.items.len(), &scan.foreign[..]), (0, &["add.cc.so".to_owned()][..]));
        cache.write("add.cc.info", b"{}");
        assert_eq!(cache.states()[0].1, "orphan");
    }
    // An interrupted compile leaves a descriptor alone; one with a .json beside it is a problem.
    let cache = Cache::new("kernel_meta");
    cache.write("where_loc_12_0.info", b"{}");
    assert_eq!(cache.states()[0].1, "orphan");
    cache.write("where_loc_12_0.json", &small("where_loc_12_0").json);
    assert_eq!(cache.states()[0].1, "damaged");
}

#[test]
fn a_file_with_a_wrong_digest_is_not_loaded() {
    for (dir, effect) in [(CANN, Effect::RecompiledEveryTime), ("kernel_meta", Effect::CompiledAgain)] {
        let cache = Cache::new(dir);
        // A truncated object has a wrong digest, and is shorter than its headers state.
        let pair = small("te_add").with_field("magic", "RT_DEV_BINARY_MAGIC_ELF_AICPU");
        cache.write("te_add.json", &pair.json);
        for length in [0, 3, 60, pair.object.len() / 2, pair.object.len() - 1] {
            cache.write("te_add.o", &pair.object[..length]);
            let scan = cache.scan_of();
            assert_eq!(scan.items[0].behavior.effect, effect, "{dir}, {length}: {:?}", scan.items[0]);
        }
    }
}

#[test]
fn a_json_in_place_of_that_of_another_kernel_is_found() {
    let cache = Cache::new(CANN);
    for (name, json) in [("te_a", "te_b"), ("te_b", "te_b")] {
        cache.write(&format!("{name}.json"), &small(json).json);
        cache.write(&format!("{name}.o"), &small(name).object);
    }
    let intact = said("te_b", "intact", &["te_b.json", "te_b.o"]);
    assert_eq!(cache.states(), [said("te_a", "damaged", &["te_a.json", "te_a.o"]), intact.clone()]);
    // It is old; a new one may be in progress.
    fs::write(cache.dir.join("te_a.json"), small("te_b").json).unwrap();
    assert_eq!(cache.states()[0].1, "in progress");
    // Two descriptions with the same only object are intended.
    cache.write("te_a.json", &small("te_b").json);
    fs::remove_file(cache.dir.join("te_a.o")).unwrap();
    assert_eq!(cache.states(), [said("te_a", "intact", &["te_a.json", "te_b.o"]), intact]);
}

#[test]
fn files_that_are_removed_during_the_scan_are_not_damaged() {
    let cache = Cache::new(CANN);
    for number in 0..20 {
        let name = format!("te_{number:02}");
        cache.write(&format!("{name}.json"), &small(&name).json);
        // The last ones are incomplete when they are found, and are completed during the scan.
        if number < 18 {
            cache.write(&format!("{name}.o"), &small(&name).object);
        }
    }
    fs::remove_file(cache.dir.join("te_19.json")).unwrap();
    cache.write("te_19.o", &small("te_19").object);
    // Items are judged in groups of sixteen: those after the first group are judged later.
    let scan = cache.scan_observed(&|done, _| {
        if done == 16 {
            for file in ["te_17.json", "te_17.o"] {
                fs::remove_file(cache.dir.join(file)).unwrap();
            }
            cache.write("te_18.o", &small("te_18").object);
            cache.write("te_19.json", &small("te_19").json);
        }
    });
    let states: Vec<_> = scan.items.iter().map(|item| (&item.name, item.state_name())).collect();
    assert_eq!(scan.items.len(), 19, "{states:?}");
    assert!(scan.items.iter().all(|item| matches!(item.state, ItemState::Intact)), "{states:?}");
}

#[test]
fn ranks_stay_comparable_without_one_descriptor() {
    let base = tempfile::tempdir().unwrap();
    let ranks = [0, 1].map(|rank| Rank { generation: Generation::R2_1, ..Rank::new(rank) });
    for rank in &ranks {
        (1..=4).for_each(|elements| rank.square(elements).write(&rank.dir(base.path())).unwrap());
    }
    let mut stems: Vec<String> = (1..=4).map(|elements| ranks[0].square(elements).stem).collect();
    stems.sort();
    fs::remove_file(ranks[0].dir(base.path()).join(format!("{}.info", stems[0]))).unwrap();
    let options = ScanOptions::new(NonZeroUsize::MIN);
    let places = find(base.path()).unwrap().caches;
    let surveys: Vec<CacheScan> = places.iter().map(|place| scan(place, &options).unwrap()).collect();
    let lacking: Vec<usize> = compare(&surveys)[0].ranks.iter().map(|rank| rank.lacks.len()).collect();
    // The kernel of the lost descriptor is unknown; the others are known.
    assert_eq!(lacking, [1, 1]);
}
