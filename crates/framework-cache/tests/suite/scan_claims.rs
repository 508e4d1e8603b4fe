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

use crate::laid::Cache;

const CANN: &str = "kernel_cache/Ascend910B2";

fn small(name: &str) -> Pair {
    Kernel::new(Chip::Ascend910B, name).build()
}

fn said(name: &str, state: &'static str, files: &[&str]) -> (String, &'static str, Vec<String>) {
    (name.to_owned(), state, files.iter().map(|file| (*file).to_owned()).collect())
}

#[test]
fn files_of_an_intact_kernel_belong_to_no_damaged_item() {
    // Its object has another name, and beside that a header.
    let cache = Cache::new(CANN);
    let pair = small("te_add").with_field("binFileName", "te_b").with_field("headerFileSuffix", ".h");
    cache.write("te_a.json", &pair.json);
    cache.write("te_b.o", &pair.object);
    cache.write("te_b.h", b"#pragma once\n");
    let whole = said("te_a", "intact", &["te_a.json", "te_b.o"]);
    assert_eq!(cache.states(), std::slice::from_ref(&whole));
    // A damaged description has the name of that object.
    cache.write("te_b.json", b"{\"bin");
    assert_eq!(cache.states(), [whole.clone(), said("te_b", "damaged", &["te_b.json"])]);
    // One that names the object of a whole kernel, and not its digest.
    let cache = Cache::new(CANN);
    cache.write("te_c.json", &small("te_c").json);
    cache.write("te_c.o", &small("te_c").object);
    let wrong = small("te_c").with_field("sha256", "0".repeat(64).as_str());
    cache.write("te_d.json", &wrong.json);
    assert_eq!(
        cache.states(),
        [said("te_c", "intact", &["te_c.json", "te_c.o"]), said("te_d", "damaged", &["te_d.json"])]
    );
    // Without the whole one, it is all that there is.
    fs::remove_file(cache.folder.join("te_c.json")).unwrap();
    assert_eq!(cache.states(), [said("te_d", "damaged", &["te_d.json", "te_c.o"])]);
}

#[test]
fn beside_a_description_that_is_closed_nothing_is_an_orphan() {
    let cache = Cache::new(CANN);
    let pair = small("te_add").with_field("binFileName", "te_b");
    cache.write("te_b.o", &pair.object);
    assert_eq!(cache.states()[0].1, "orphan");
    // To everybody a link is closed.
    fs::write(cache.base.path().join("elsewhere"), &pair.json).unwrap();
    symlink(cache.base.path().join("elsewhere"), cache.folder.join("te_a.json")).unwrap();
    cache.write("te_a.lock", b"");
    assert!(cache.look().items.iter().all(|item| item.state_name() == "unreadable"), "{:?}", cache.states());
    fs::remove_file(cache.folder.join("te_a.json")).unwrap();
    cache.write("te_a.json", &pair.json);
    fs::set_permissions(cache.folder.join("te_a.json"), fs::Permissions::from_mode(0o000)).unwrap();
    // Who may read everything sees that all is in order.
    let expected = if fs::read(cache.folder.join("te_a.json")).is_ok() { "intact" } else { "unreadable" };
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
        let cache = Cache { folder: rank.dir(base.path()), base };
        let states = cache.states();
        assert!(matches!(&states[..], [(_, "unreadable", _)]), "{suffix}: {states:?}");
    }
}

#[test]
fn canns_libraries_are_the_hosts() {
    let pair = library(Library::AiCpu, "fused", &["GetKernelBin"]).with_field("binFileName", "te_fused");
    for object in ["te_fused.so", "te_fused_native.so"] {
        let cache = Cache::new(CANN);
        cache.write("te_fused.json", &pair.json);
        cache.write(object, &pair.object);
        let states = cache.states();
        assert!(matches!(&states[..], [(_, "intact", _)]), "{states:?}");
        // A digest of what is inside is no fault; a library cut off is.
        cache.write("te_fused.json", &pair.clone().with_field("sha256", "1".repeat(64).as_str()).json);
        assert_eq!(cache.states()[0].1, "intact");
        assert!(cache.look().items[0].kernel.is_none());
        cache.write(object, &pair.object[..pair.object.len() / 2]);
        assert_eq!(cache.states()[0].1, "damaged");
        // It cannot even be opened, so CANN never comes to load a kernel.
        assert_eq!(cache.look().items[0].behavior.effect, Effect::RecompiledEveryTime);
        cache.write(object, &pair.object);
        cache.write("te_fused.json", &pair.clone().with_field("sha256", "").json);
        assert_eq!(cache.states()[0].1, "damaged");
    }
    // Both of them are one kernel's.
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
    let scan = cache.look();
    assert!(
        matches!(&scan.items[..], [item] if item.kind == ItemKind::OtherJson && item.state_name() == "intact")
    );
    cache.write("fusion_result.json", b"[{\"session\": ");
    assert_eq!(cache.states()[0].1, "damaged");
    // An operator that a user compiled ahead of time: no descriptor, no .json.
    for folder in ["kernel_meta", "akg_kernel_meta"] {
        let cache = Cache::new(folder);
        cache.write("add.cc.so", b"\x7fELF");
        let scan = cache.look();
        assert_eq!((scan.items.len(), &scan.foreign[..]), (0, &["add.cc.so".to_owned()][..]));
        cache.write("add.cc.info", b"{}");
        assert_eq!(cache.states()[0].1, "orphan");
    }
    // An interrupted compile leaves a descriptor alone; one with a .json beside it is another thing.
    let cache = Cache::new("kernel_meta");
    cache.write("where_loc_12_0.info", b"{}");
    assert_eq!(cache.states()[0].1, "orphan");
    cache.write("where_loc_12_0.json", &small("where_loc_12_0").json);
    assert_eq!(cache.states()[0].1, "damaged");
}

#[test]
fn what_has_a_wrong_digest_is_not_loaded_whatever_else_is_wrong() {
    for (folder, effect) in [(CANN, Effect::RecompiledEveryTime), ("kernel_meta", Effect::CompiledAgain)] {
        let cache = Cache::new(folder);
        // Cut off, an object has a wrong digest, and ends before its headers say.
        let pair = small("te_add").with_field("magic", "RT_DEV_BINARY_MAGIC_ELF_AICPU");
        cache.write("te_add.json", &pair.json);
        for length in [0, 3, 60, pair.object.len() / 2, pair.object.len() - 1] {
            cache.write("te_add.o", &pair.object[..length]);
            let scan = cache.look();
            assert_eq!(scan.items[0].behavior.effect, effect, "{folder}, {length}: {:?}", scan.items[0]);
        }
    }
}

#[test]
fn a_json_put_over_that_of_another_kernel_is_found() {
    let cache = Cache::new(CANN);
    for (name, json) in [("te_a", "te_b"), ("te_b", "te_b")] {
        cache.write(&format!("{name}.json"), &small(json).json);
        cache.write(&format!("{name}.o"), &small(name).object);
    }
    let whole = said("te_b", "intact", &["te_b.json", "te_b.o"]);
    assert_eq!(cache.states(), [said("te_a", "damaged", &["te_a.json", "te_a.o"]), whole.clone()]);
    // It is old; were it new, somebody may be at it.
    fs::write(cache.folder.join("te_a.json"), small("te_b").json).unwrap();
    assert_eq!(cache.states()[0].1, "in progress");
    // Two that share an object, and have none besides, are no accident.
    cache.write("te_a.json", &small("te_b").json);
    fs::remove_file(cache.folder.join("te_a.o")).unwrap();
    assert_eq!(cache.states(), [said("te_a", "intact", &["te_a.json", "te_b.o"]), whole]);
}

#[test]
fn what_goes_while_we_look_was_not_damaged() {
    let cache = Cache::new(CANN);
    for number in 0..20 {
        let name = format!("te_{number:02}");
        cache.write(&format!("{name}.json"), &small(&name).json);
        // The last ones are found half-written, and are finished meanwhile.
        if number < 18 {
            cache.write(&format!("{name}.o"), &small(&name).object);
        }
    }
    fs::remove_file(cache.folder.join("te_19.json")).unwrap();
    cache.write("te_19.o", &small("te_19").object);
    // Judged by sixteens: those behind the first are yet to be.
    let scan = cache.look_at(&|done, _| {
        if done == 16 {
            for file in ["te_17.json", "te_17.o"] {
                fs::remove_file(cache.folder.join(file)).unwrap();
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
fn one_lost_descriptor_does_not_make_ranks_strangers() {
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
    // Of that one it cannot be told which it is; of the others it can.
    assert_eq!(lacking, [1, 1]);
}
