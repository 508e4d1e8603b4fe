//! Kernels for another chip than the named one are reported, never moved, and never given to other ranks.
#![expect(clippy::disallowed_methods, reason = "tests lay out caches by hand")]

use std::fs;
use std::path::Path;

use crate::common::broken::{Repair, scan_all};
use opkeep_framework_cache::fill::{DeviceMap, FillOptions, ScannedCache, fill};
use opkeep_framework_cache::quarantine::{RunId, SkipCause};
use opkeep_framework_cache::scan::{CacheScan, Effect, Item, ItemState, Kind, NamedBy, Note};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::ascend::{Chip, Kernel, Library, Pair, library};
use opkeep_testkit::caches::{Rank, age, cann_kernel};
use opkeep_testkit::patch::{header, put};

fn rank_for(chip: Chip) -> Rank {
    Rank { soc: chip.soc(), ..Rank::new(0) }
}

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(name), bytes).unwrap();
    age(&dir.join(name)).unwrap();
}

fn put_pair(dir: &Path, pair: &Pair) {
    let [json, object] = pair.file_names();
    write(dir, &json, &pair.json);
    write(dir, &object, &pair.object);
}

/// The only cache below `base`.
fn only(base: &Path) -> CacheScan {
    let mut surveys = scan_all(base);
    assert_eq!(surveys.len(), 1, "{surveys:?}");
    surveys.remove(0)
}

fn states(scan: &CacheScan) -> Vec<(&str, &str)> {
    scan.items.iter().map(|item| (item.name.as_str(), item.state_name())).collect()
}

fn is_other(item: &Item) -> bool {
    matches!(item.state, ItemState::OtherChip(_))
}

/// Whether kernels for one of two chips run on the other.
fn run_each_other(one: Chip, two: Chip) -> bool {
    let c220 = [Chip::Ascend910B, Chip::Ascend910_93];
    one == two || (c220.contains(&one) && c220.contains(&two))
}

/// A kernel for each chip beside the descriptor of each chip.
#[test]
fn kernels_for_another_family_are_reported_beside_a_descriptor() {
    for named in Chip::ALL {
        for built in Chip::ALL {
            let base = tempfile::tempdir().unwrap();
            let kernel = rank_for(named).square(1).compiled_for(built);
            kernel.write(&rank_for(named).dir(base.path())).unwrap();
            let scan = only(base.path());
            let item = &scan.items[0];
            if run_each_other(named, built) {
                assert!(matches!(item.state, ItemState::Intact), "{built:?} as {named:?}: {item:?}");
                continue;
            }
            let ItemState::OtherChip(other) = &item.state else { panic!("{built:?} as {named:?}: {item:?}") };
            assert_eq!(other.named_by, NamedBy::Descriptor(named.soc().to_owned()));
            assert_eq!((item.state_name(), item.behavior.effect), ("other chip", Effect::FailsLater));
            assert!(item.is_finding() && !item.is_repairable() && item.kernel.is_none());
        }
    }
}

/// The same in directories with the name of a chip or of its family.
#[test]
fn kernels_for_another_family_are_reported_in_a_directory_for_a_chip() {
    let families = ["ascend910", "ascend310b", "ascend310p", "ascend910b", "ascend910_93", "ascend950"];
    for (named, family) in Chip::ALL.into_iter().zip(families) {
        for built in Chip::ALL {
            for dir in [
                format!("kernel_cache/{}", named.soc()),
                format!("op_impl/ai_core/tbe/kernel/{family}/square"),
                format!("build_out/op_kernel/binary/{family}/bin/square"),
            ] {
                let base = tempfile::tempdir().unwrap();
                cann_kernel(built.soc(), 1).write(&base.path().join(&dir)).unwrap();
                let scan = only(base.path());
                let intact = run_each_other(named, built);
                assert_eq!(is_other(&scan.items[0]), !intact, "{built:?} in {dir}: {:?}", scan.items);
            }
        }
    }
}

/// `Ascend910B` alone is a chip of the first generation, and `ascend910b` the directory of a later family.
#[test]
fn a_chip_with_the_name_of_a_family_is_distinguished() {
    let base = tempfile::tempdir().unwrap();
    let rank = Rank { soc: "Ascend910B", ..Rank::new(0) };
    rank.square(1).compiled_for(Chip::Ascend910).write(&rank.dir(base.path())).unwrap();
    rank.square(2).compiled_for(Chip::Ascend910B).write(&rank.dir(base.path())).unwrap();
    let scan = only(base.path());
    let other = scan.items.iter().filter(|item| is_other(item)).map(|item| item.name.clone());
    assert_eq!(other.collect::<Vec<_>>(), [rank.square(2).stem]);
}

#[test]
fn unknown_flags_are_not_reported() {
    let base = tempfile::tempdir().unwrap();
    let unknown = |name: &str, flags: [u8; 3]| {
        Kernel::new(Chip::Ascend950, name).build().with_object(|object| put(object, header::FLAGS, flags))
    };
    let dir = base.path().join("kernel_meta");
    put_pair(&dir, &unknown("te_a_1", [0, 0, 0x9a]));
    put_pair(&dir, &unknown("te_b_1", [0, 0, 0x77]));
    put_pair(&dir, &Kernel::new(Chip::Ascend950, "te_c_1").build());
    let mut described = Rank { soc: "Ascend910A", ..Rank::new(0) }.square(1);
    let pair = unknown(&described.stem, [0, 0, 0x9a]);
    (described.json, described.object) = (pair.json, pair.object);
    described.write(&dir).unwrap();
    let scan = only(base.path());
    assert!(scan.items.iter().all(|item| matches!(item.state, ItemState::Intact)), "{:?}", scan.items);
}

/// Without descriptors, kernels are compared with each other.
#[test]
fn the_only_kernel_for_another_chip_is_found() {
    for dir in ["kernel_meta", "kernel_meta/kernel_meta_4711/kernel_meta"] {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join(dir);
        for name in ["te_add_1", "te_mul_2", "te_sub_3"] {
            put_pair(&dir, &Kernel::new(Chip::Ascend910, name).build());
        }
        put_pair(&dir, &library(Library::AiCpu, "cast", &["RunCpuKernel"]));
        put_pair(&dir, &Kernel::new(Chip::Ascend910B, "te_odd_4").build());
        let scan = only(base.path());
        let odd: Vec<&Item> = scan.items.iter().filter(|item| is_other(item)).collect();
        assert_eq!(odd.len(), 1, "{:?}", states(&scan));
        assert_eq!(odd[0].name, "te_odd_4");
        assert!(
            odd[0].problem().contains("3 for Ascend 910 (first generation), 1 for Ascend 910B"),
            "{odd:?}"
        );
    }
    // With two kernels, neither can be called right.
    let base = tempfile::tempdir().unwrap();
    for (chip, name) in [(Chip::Ascend910, "te_add_1"), (Chip::Ascend310P, "te_mul_2")] {
        put_pair(&base.path().join("kernel_meta"), &Kernel::new(chip, name).build());
    }
    assert!(only(base.path()).items.iter().all(is_other));
}

/// A descriptor outweighs any number of kernels without one; and if each kernel has its own, none is wrong.
#[test]
fn descriptors_have_precedence() {
    let base = tempfile::tempdir().unwrap();
    let rank = rank_for(Chip::Ascend910);
    let dir = rank.dir(base.path());
    rank.square(1).write(&dir).unwrap();
    for name in ["te_add_1", "te_mul_2"] {
        put_pair(&dir, &Kernel::new(Chip::Ascend910B, name).build());
    }
    let scan = only(base.path());
    let other: Vec<&str> =
        scan.items.iter().filter(|item| is_other(item)).map(|item| item.name.as_str()).collect();
    assert_eq!(other, ["te_add_1", "te_mul_2"]);

    let base = tempfile::tempdir().unwrap();
    (1..=3).for_each(|elements| rank.square(elements).write(&rank.dir(base.path())).unwrap());
    let second = rank_for(Chip::Ascend910B).square(4);
    second.write(&rank.dir(base.path())).unwrap();
    let scan = only(base.path());
    assert!(scan.items.iter().all(|item| matches!(item.state, ItemState::Intact)), "{:?}", states(&scan));
    let noted = |item: &&Item| item.notes.iter().any(|note| matches!(note, Note::OtherChip(_)));
    let noted: Vec<&str> = scan.items.iter().filter(noted).map(|item| item.name.as_str()).collect();
    assert_eq!(noted, [second.stem]);
}

/// A kernel for the host, with a valid digest, among those for a chip.
#[test]
fn kernels_for_hosts_are_kernels_for_another_chip() {
    for dir in ["rank_0/kernel_meta", "kernel_cache/Ascend910B2", "op_impl/ai_core/tbe/kernel/ascend910b/a"] {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join(dir);
        (1..=2).for_each(|number| cann_kernel("Ascend910B2", number).write(&dir).unwrap());
        let host = library(Library::Host(62), "host", &["host__kernel0"]).with_field("binFileSuffix", ".o");
        write(&dir, "host.o", &host.object);
        write(&dir, "host.json", &host.with_field("binFileName", "host").json);
        let scan = only(base.path());
        let other: Vec<&str> =
            scan.items.iter().filter(|item| is_other(item)).map(|item| item.name.as_str()).collect();
        assert_eq!(other, ["host"], "{:?}", scan.items);
    }
}

#[test]
fn repair_reports_a_kernel_for_another_chip_and_does_not_move_it() {
    let base = tempfile::tempdir().unwrap();
    let rank = rank_for(Chip::Ascend910);
    rank.square(1).write(&rank.dir(base.path())).unwrap();
    rank.square(2).compiled_for(Chip::Ascend910B).write(&rank.dir(base.path())).unwrap();
    let before = DirSnapshot::of(base.path()).unwrap();
    for force in [false, true] {
        let report = Repair { force, ..Repair::new() }.repair(&only(base.path())).unwrap();
        assert!(report.moved.is_empty(), "{report:?}");
        assert!(
            matches!(&report.skipped[..], [left] if matches!(left.cause, SkipCause::OtherChip(_))),
            "{report:?}"
        );
    }
    let after = DirSnapshot::of(base.path()).unwrap();
    assert_eq!(after.files().collect::<Vec<_>>(), before.files().collect::<Vec<_>>());
}

/// A kernel for another chip that is also damaged is quarantined.
#[test]
fn damaged_kernels_for_another_chip_are_damaged() {
    let base = tempfile::tempdir().unwrap();
    let rank = rank_for(Chip::Ascend910);
    let mut kernel = rank.square(1).compiled_for(Chip::Ascend910B);
    kernel.object.truncate(200);
    kernel.write(&rank.dir(base.path())).unwrap();
    assert_eq!(only(base.path()).items[0].state_name(), "damaged");
    assert_eq!(Repair::new().repair_all(base.path())[0].moved.len(), 1);
}

#[test]
fn no_rank_is_filled_with_a_kernel_for_another_chip() {
    let base = tempfile::tempdir().unwrap();
    let [full, lacking] = [0, 1].map(|rank| Rank { soc: "Ascend910A", ..Rank::new(rank) });
    for elements in 1..=2 {
        full.square(elements).write(&full.dir(base.path())).unwrap();
    }
    full.square(3).compiled_for(Chip::Ascend910B).write(&full.dir(base.path())).unwrap();
    lacking.square(1).write(&lacking.dir(base.path())).unwrap();
    let surveys = scan_all(base.path());
    let caches: Vec<ScannedCache<'_>> =
        surveys.iter().map(|scan| ScannedCache { scan, moved: &[] }).collect();
    let (run, devices) = (RunId::now(), DeviceMap::default());
    let report = fill(&caches, &FillOptions::new(&run, &devices));
    let filled: Vec<&str> = report.filled.iter().map(|filled| filled.stem.as_str()).collect();
    assert_eq!(filled, [lacking.square(2).stem], "{report:?}");
    assert!(!lacking.dir(base.path()).join(format!("{}.o", lacking.square(3).stem)).exists());
}

/// Any nesting of directories, each judged by its own kind.
#[test]
fn nested_caches_are_found() {
    let base = tempfile::tempdir().unwrap();
    let deep = "a/".repeat(40);
    for (dir, kind) in [
        ("kernel_meta/kernel_meta_1/kernel_meta", Kind::Work),
        ("kernel_meta/kernel_meta_1/kernel_meta/kernel_meta_2/kernel_meta", Kind::Work),
        ("kernel_meta_Add_5f0e/kernel_meta", Kind::Work),
        ("rank_0/kernel_meta", Kind::MindSpore),
        ("rank_0/kernel_meta/old/kernel_meta", Kind::MindSpore),
        ("rank_0/kernel_meta/kernel_cache/Ascend910B2", Kind::Cann),
        (
            "out/_CPack_Packages/Linux/External/p.run/packages/vendors/v/op_impl/ai_core/tbe/kernel/ascend910b/a",
            Kind::Package,
        ),
        ("out/kernel/ascend910b/a", Kind::Package),
        ("out/binary/ascend910b/bin/ascend910b/a", Kind::Package),
        (&format!("{deep}kernel_meta"), Kind::MindSpore),
    ] {
        let dir = base.path().join(dir);
        let mut kernel = cann_kernel("Ascend910B2", 1);
        kernel.write(&dir).unwrap();
        kernel.object.truncate(100);
        kernel.stem.push_str("_cut");
        kernel.write(&dir).unwrap();
        let surveys = scan_all(base.path());
        let found = surveys.iter().find(|scan| scan.cache.path == dir).unwrap();
        assert_eq!(found.cache.kind, kind, "{}", dir.display());
        let damaged = found.items.iter().filter(|item| item.state_name() == "damaged").count();
        assert_eq!((found.items.len(), damaged), (2, 1), "{:?}", found.items);
    }
    // A directory that holds only directories of processes is no cache itself.
    assert!(!scan_all(base.path()).iter().any(|scan| scan.cache.path == base.path().join("kernel_meta")));
}

/// CANN's work directory also holds sources, logs and locks, and the object is the one that the `.json` names.
#[test]
fn other_files_of_a_work_directory_are_ignored() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_meta_1/kernel_meta");
    put_pair(&dir, &Kernel::new(Chip::Ascend910B, "te_add_1").build());
    for name in
        ["te_add_1.cce", "te_add_1_tiling_data.h", "te_add_1.log", "kernel_meta.lock", "te_add_1_loc.json"]
    {
        write(&dir, name, b"?");
    }
    let scan = only(base.path());
    assert_eq!(states(&scan), [("te_add_1", "intact")]);
    let other = Kernel::new(Chip::Ascend910B, "te_mul_1").build().with_field("binFileName", "te_add_1");
    write(&dir, "te_mul_1.json", &other.json);
    write(&dir, "te_mul_1.o", &other.object);
    let scan = only(base.path());
    assert_eq!(scan.items.iter().find(|item| item.name == "te_mul_1").unwrap().state_name(), "damaged");
}
