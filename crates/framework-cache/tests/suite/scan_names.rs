//! The files of each kernel, by the rules of the cache's framework.
#![expect(clippy::disallowed_methods, reason = "tests lay out caches by hand")]

use std::fs;

use opkeep_framework_cache::scan::{CacheScan, Effect, Item, ItemKind, ItemProblem, ItemState, Note, Orphan};
use opkeep_testkit::ascend::{Chip, Kernel, Library, Pair, library, split_mix};

use crate::written_cache::Cache;

fn small(name: &str) -> Pair {
    Kernel::new(Chip::Ascend910B, name).build()
}

#[test]
fn mindspore_uses_the_name_of_the_file_and_the_prefix_lib() {
    let pair = library(Library::AiCpu, "cast", &["RunCpuKernel"]);
    let cache = Cache::new("kernel_meta");
    cache.put(&pair, "cast.json", "libcast.so");
    let item = cache.only();
    assert!(matches!(item.state, ItemState::Intact), "{item:?}");
    assert_eq!(item.files(), ["cast.json", "libcast.so"]);
    // binFileName states another file, which is not requested.
    let cache = Cache::new("kernel_meta");
    let pair = small("te_add").with_field("binFileName", "elsewhere");
    cache.put(&pair, "add_1_0.json", "add_1_0.o");
    assert!(matches!(cache.only().state, ItemState::Intact));
    fs::rename(cache.dir.join("add_1_0.o"), cache.dir.join("elsewhere.o")).unwrap();
    let scan = cache.scan_of();
    let missing = |item: &Item| matches!(&item.state, ItemState::Damaged(flaws) if matches!(flaws[0], ItemProblem::NoObject { .. }));
    assert!(scan.items.iter().any(missing), "{:?}", scan.items);
    assert!(scan.items.iter().any(|item| matches!(item.state, ItemState::Orphan(Orphan::ObjectOnly))));
}

#[test]
fn cann_uses_the_name_in_the_json() {
    let cache = Cache::new("kernel_cache/Ascend910B2");
    cache.put(&small("te_add").with_field("binFileName", "elsewhere"), "te_add_00.json", "elsewhere.o");
    let item = cache.only();
    assert!(matches!(item.state, ItemState::Intact), "{item:?}");
    assert_eq!(
        (item.kind, item.files()),
        (ItemKind::Kernel, vec!["te_add_00.json".into(), "elsewhere.o".into()])
    );
    assert!(item.notes.iter().any(|note| matches!(note, Note::KernelName { .. })), "{item:?}");
    // CANN follows a name that leads to another directory; the scan does not.
    let cache = Cache::new("kernel_cache/Ascend910B2");
    cache.put(&small("te_add").with_field("binFileName", "../te_add"), "te_add.json", "../te_add.o");
    let item = cache.only();
    assert!(
        matches!(&item.state, ItemState::Damaged(flaws) if matches!(&flaws[..], [ItemProblem::UnsafeName { .. }])),
        "{item:?}"
    );
}

#[test]
fn a_multi_part_kernel_is_as_intact_as_its_parts() {
    let mix = split_mix("te_mix_00");
    let cache = Cache::new("kernel_cache/Ascend910B2");
    cache.write("te_mix_00.json", &mix.master);
    for part in &mix.parts {
        let [json, object] = part.file_names();
        cache.put(part, &json, &object);
    }
    let states = |scan: &CacheScan| scan.items.iter().map(Item::state_name).collect::<Vec<_>>();
    assert_eq!(states(&cache.scan_of()), ["intact"; 3]);
    let object = &mix.parts[1].file_names()[1];
    cache.write(object, &mix.parts[1].object[..100]);
    assert_eq!(states(&cache.scan_of()), ["damaged", "intact", "damaged"]);
    fs::remove_file(cache.dir.join(object)).unwrap();
    fs::remove_file(cache.dir.join(&mix.parts[1].file_names()[0])).unwrap();
    let scan = cache.scan_of();
    assert_eq!(states(&scan), ["damaged", "intact"]);
    assert!(
        matches!(&scan.items[0].state, ItemState::Damaged(flaws) if flaws[0].to_string().contains("missing"))
    );
}

/// Frameworks check only the digest, so such a kernel is loaded and fails on the device.
#[test]
fn a_pair_of_another_kernel_is_found_despite_its_valid_digest() {
    for (dir, name) in [("kernel_meta", "add_1_0"), ("kernel_cache/Ascend910B2", "te_add_00")] {
        let cache = Cache::new(dir);
        let pair = small("te_add")
            .with_field("binFileName", name)
            .with_field("kernelList", serde_json::json!([{"kernelName": "te_sub_0"}]));
        cache.put(&pair, &format!("{name}.json"), &format!("{name}.o"));
        let item = cache.only();
        assert_eq!((item.state_name(), item.behavior.effect), ("damaged", Effect::FailsLater), "{item:?}");
    }
}

#[test]
fn files_that_mindspore_never_reads_are_reported() {
    let cache = Cache::new("kernel_meta");
    cache.put(&small("conv_loc"), "conv_loc_1_0.json", "conv_loc_1_0.o");
    cache.write("conv_loc_2_0.json", b"{");
    let scan = cache.scan_of();
    let [item] = &scan.items[..] else { panic!("{:?}", scan.items) };
    assert_eq!((item.state_name(), item.behavior.effect), ("intact", Effect::CompiledAgain), "{item:?}");
    assert!(item.notes.contains(&Note::Skipped));
    // Without an object it is a debugging aid.
    assert_eq!(scan.skipped, 1);
    cache.write("conv_loc_1_0.json", b"{");
    let item = cache.only();
    assert_eq!((item.state_name(), item.behavior.effect), ("damaged", Effect::CompiledAgain), "{item:?}");
}

#[test]
fn akg_has_directories_of_its_own() {
    let cache = Cache::new("akg_kernel_meta");
    for part in ["akg", "tbe", "composite"] {
        fs::create_dir(cache.dir.join(part)).unwrap();
        cache.put(&small("Fused_Add"), &format!("{part}/Fused_Add_1.json"), &format!("{part}/Fused_Add_1.o"));
    }
    let scan = cache.scan_of();
    let mut below: Vec<_> = scan.items.iter().map(|item| (item.below, item.state_name())).collect();
    below.sort();
    assert_eq!(below, [(Some("akg"), "intact"), (Some("composite"), "intact"), (Some("tbe"), "intact")]);
    assert_eq!(scan.foreign_count, 0);
}

/// If the `.json` names the object of another kernel, the digest is right and the kernel is wrong.
#[test]
fn the_json_of_another_kernel_is_found() {
    let cache = Cache::new("kernel_cache/Ascend910B2");
    let (one, other) = (small("te_add_00"), small("te_sub_00"));
    cache.put(&one, "te_add_00.json", "te_add_00.o");
    cache.put(&other, "te_sub_00.json", "te_sub_00.o");
    assert!(cache.scan_of().items.iter().all(|item| item.state_name() == "intact"));
    cache.write("te_sub_00.json", &one.json);
    let scan = cache.scan_of();
    let states: Vec<_> =
        scan.items.iter().map(|item| (item.name.as_str(), item.state_name(), item.files())).collect();
    let files = |stem: &str| vec![format!("{stem}.json"), format!("{stem}.o")];
    assert_eq!(
        states,
        [("te_add_00", "intact", files("te_add_00")), ("te_sub_00", "damaged", files("te_sub_00"))]
    );
    assert_eq!(scan.items[1].behavior.effect, Effect::FailsLater);
}

/// AKG links a library from the object, and runs the library.
#[test]
fn kernels_of_akg_for_the_host_are_libraries() {
    let cache = Cache::new("akg_kernel_meta");
    let pair = library(Library::Host(62), "Fused_Add_1", &["Fused_Add_1_kernel"]);
    let digest = opkeep_digest::Digest::of(&pair.object);
    let json = serde_json::json!({
        "kernelName": "Fused_Add_1_kernel", "threadNumber": "null", "sha256": digest.to_string(),
        "objSha256": opkeep_digest::Digest::of(b"object").to_string(),
    });
    cache.write("Fused_Add_1.json", json.to_string().as_bytes());
    cache.write("Fused_Add_1.so", &pair.object);
    cache.write("Fused_Add_1.o", b"object");
    let item = cache.only();
    assert!(matches!(item.state, ItemState::Intact) && !item.notes.contains(&Note::OtherObject), "{item:?}");
    cache.write("Fused_Add_1.o", b"another");
    assert!(cache.only().notes.contains(&Note::OtherObject));
    fs::remove_file(cache.dir.join("Fused_Add_1.so")).unwrap();
    let item = cache.only();
    assert_eq!((item.state_name(), item.behavior.effect), ("damaged", Effect::CompiledAgain), "{item:?}");
}

#[test]
fn a_kernel_of_another_device_with_a_similar_number_is_reported() {
    let cache = Cache::new("kernel_meta");
    let pair = small("square_7_20").with_field("binFileName", "square_7_2");
    cache.put(&pair, "square_7_2.json", "square_7_2.o");
    let item = cache.only();
    assert!(item.notes.iter().any(|note| matches!(note, Note::KernelName { .. })), "{item:?}");
    let cache = Cache::new("kernel_meta");
    cache.put(&small("square_7_2"), "square_7_2.json", "square_7_2.o");
    let item = cache.only();
    assert!(!item.notes.iter().any(|note| matches!(note, Note::KernelName { .. })), "{item:?}");
}

/// A complete `.json` with one wrong field is not truncated; the effect depends on the field.
#[test]
fn a_field_of_a_wrong_type_is_no_truncated_file() {
    for (dir, field, value, effect) in [
        // MindSpore 2.0 throws an exception that is not caught.
        ("kernel_meta", "opParaSize", serde_json::json!("many"), Effect::Aborts),
        ("kernel_meta", "sha256", serde_json::json!(7), Effect::Aborts),
        // It reads uninitialised memory.
        ("kernel_meta", "blockDim", serde_json::json!("many"), Effect::FailsLater),
        ("kernel_cache/Ascend910B2", "blockDim", serde_json::json!("many"), Effect::FailsLater),
        // CANN finds no digest to compare, and keeps the files.
        ("kernel_cache/Ascend910B2", "sha256", serde_json::json!(7), Effect::RecompiledEveryTime),
    ] {
        let cache = Cache::new(dir);
        let pair = small("te_add_00").with_field(field, value);
        cache.put(&pair, "te_add_00.json", "te_add_00.o");
        let item = cache.only();
        let ItemState::Damaged(flaws) = &item.state else { panic!("{item:?}") };
        assert!(flaws[0].to_string().contains(field), "{flaws:?}");
        assert!(!flaws[0].to_string().contains("cut off"), "{flaws:?}");
        assert_eq!(item.behavior.effect, effect, "{dir} {field}: {item:?}");
    }
}

#[test]
fn unreadable_files_are_not_reported_as_used() {
    let cache = Cache::new("kernel_meta");
    let pair = small("te_add_00");
    cache.put(&pair, "te_add_00.json", "elsewhere");
    std::os::unix::fs::symlink(cache.dir.join("elsewhere"), cache.dir.join("te_add_00.o")).unwrap();
    let item = cache.only();
    assert_eq!((item.state_name(), item.behavior.effect.name()), ("unreadable", "unknown"));
}
