//! What is not imported.

use opkeep::{CacheStatus, ViewConfig};
use opkeep_descriptor::{Generation, KernelName, read_info};
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::caches::{CachedKernelFiles, Rank, age, cann_kernel};

use super::{Place, counts, only, request, square, write};

/// The outcome of the first of two kernels whose files were changed.
fn after(change: impl FnOnce(&Place)) -> Vec<&'static str> {
    let place = Place::with_squares(2);
    change(&place);
    let report = place.import();
    let (imported, existing, duplicates, reasons) = counts(&report);
    assert_eq!((imported + reasons.len(), existing, duplicates), (2, 0, 0), "{report:?}");
    assert_eq!(place.bench.entries().len(), imported);
    // A kernel that was not imported is compiled.
    let (outcome, is_imported) = place.outcome(&place.trusting(), &square(1));
    assert_eq!((outcome, is_imported), ("compiled", false), "{report:?}");
    reasons
}

fn edit(place: &Place, length: u32, from: &str, to: &str) {
    let path = place.file(length, "info");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    write(&path, text.replace(from, to));
    age(&path).unwrap();
    for ending in ["o", "json"] {
        age(&place.file(length, ending)).unwrap();
    }
}

#[test]
fn two_kernels_with_each_others_descriptors() {
    let reasons = after(|place| {
        let [one, two] = [1, 2].map(|length| place.file(length, "info"));
        let (first, second) = (std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
        write(&one, second);
        write(&two, first);
        [one, two].iter().for_each(|path| age(path).unwrap());
        for ending in ["o", "json"] {
            [1, 2].iter().for_each(|length| age(&place.file(*length, ending)).unwrap());
        }
    });
    assert_eq!(reasons, ["other-name", "other-name"]);
}

/// It bears the name still, but says another job: who asks for that one must not get this kernel.
#[test]
fn a_descriptor_that_was_changed_since() {
    let reasons = after(|place| edit(place, 1, "accurately_build", "fuzzily_build"));
    assert_eq!(reasons, ["other-name"]);
}

/// Frameworks write it before they compile: this compile was begun and did not end.
#[test]
fn a_descriptor_that_is_newer_than_the_kernel() {
    let newer = |than: &'static [&'static str]| {
        after(move |place| {
            let now = std::time::SystemTime::now();
            for ending in ["info", "json", "o"] {
                let back = if than.contains(&ending) { 3600 } else { 3000 };
                let times =
                    std::fs::FileTimes::new().set_modified(now - std::time::Duration::from_secs(back));
                std::fs::File::open(place.file(1, ending)).unwrap().set_times(times).unwrap();
            }
        })
    };
    assert_eq!(newer(&["json", "o"]), ["begun-anew"]);
    assert_eq!(newer(&["json"]), ["begun-anew"]);
    assert_eq!(newer(&["o"]), ["begun-anew"]);
}

#[test]
fn no_descriptor_or_a_torn_one() {
    assert_eq!(after(|place| std::fs::remove_file(place.file(1, "info")).unwrap()), ["no-descriptor"]);
    assert_eq!(after(|place| edit(place, 1, "\"job_content\"", "\"job_cont")), ["damaged-descriptor"]);
}

#[test]
fn a_kernel_that_is_not_whole() {
    let cut = after(|place| {
        let path = place.file(1, "o");
        let bytes = std::fs::read(&path).unwrap();
        write(&path, &bytes[..bytes.len() - 1]);
        ["info", "o", "json"].iter().for_each(|ending| age(&place.file(1, ending)).unwrap());
    });
    assert_eq!(cut, ["damaged"]);
    let gone = after(|place| std::fs::remove_file(place.file(1, "json")).unwrap());
    assert_eq!(gone, ["damaged"]);
    // Just now: somebody may be at it.
    let making = after(|place| write(&place.file(1, "json"), "{"));
    assert_eq!(making, ["in-use"]);
}

#[test]
fn kernels_with_options_that_mean_something_else() {
    // None of these changes the name: releases before r2.1 do not hash options.
    let debug = after(|place| edit(place, 1, r#""op_debug_level": "0""#, r#""op_debug_level": "1""#));
    assert_eq!(debug, ["debug"]);
    let tuned = after(|place| edit(place, 1, "NO_TUNE", "RL"));
    assert_eq!(tuned, ["options"]);
    let other = after(|place| edit(place, 1, r#""Ascend910A""#, r#""tpu""#));
    assert_eq!(other, ["no-backend"]);
    // It is imported, and found only by who asks for the same.
    let precise =
        after(|place| edit(place, 1, r#""op_impl_mode": """#, r#""op_impl_mode": "high_precision""#));
    assert_eq!(precise, [""; 0]);
    // 3 is a level of MindSpore's own cache, and means 0.
    let place = Place::with_squares(1);
    edit(&place, 1, r#""op_debug_level": "0""#, r#""op_debug_level": "3""#);
    assert_eq!(counts(&place.import()).0, 1);
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", true));
}

/// The chip is in the descriptor alone: the kernel must be one for it.
#[test]
fn a_kernel_for_another_machine() {
    let reasons = after(|place| {
        let symbol = "square__kernel0";
        let object = opkeep_testkit::elf::host_object(&[symbol], "");
        let digest = opkeep_digest::Digest::of(&object);
        write(&place.file(1, "o"), object);
        let json = format!(
            r#"{{"binFileName": "square", "binFileSuffix": ".o", "blockDim": 1, "kernelName": "{symbol}",
            "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "{digest}"}}"#
        );
        write(&place.file(1, "json"), json);
        ["info", "o", "json"].iter().for_each(|ending| age(&place.file(1, ending)).unwrap());
    });
    assert_eq!(reasons, ["other-chip"]);
}

/// Kernels in order, each beside the descriptor of another chip; and the one that is right.
#[test]
fn kernels_for_other_chips() {
    for chip in Chip::ALL {
        let place = Place::new();
        Rank::new(0).square(1).compiled_for(chip).write(&Rank::new(0).dir(&place.base())).unwrap();
        let report = place.import();
        let cache = only(&report);
        if chip == Chip::Ascend910 {
            assert_eq!(cache.imported.len(), 1, "{chip:?}: {report:?}");
            continue;
        }
        let why = &cache.skipped[0].why;
        assert_eq!(why.name(), "other-chip", "{chip:?}: {why}");
        assert!(why.is_problem() && why.to_string().contains("its descriptor names Ascend910A"), "{why}");
        assert!(place.bench.entries().is_empty());
    }
}

#[test]
fn caches_without_descriptors_are_told() {
    let place = Place::new();
    let folder = place.base().join("kernel_cache/Ascend910A");
    cann_kernel(super::TARGET, 1).write(&folder).unwrap();
    let report = place.import();
    let why = only(&report).skip_reason.as_ref().unwrap();
    assert_eq!(why.name(), "no-descriptor");
    assert!(why.to_string().contains("CANN's kernel_cache has no descriptors"), "{why}");
    assert!(place.bench.entries().is_empty());
}

/// AKG's kernels for the host are found by other names than ours, and called otherwise.
#[test]
fn kernels_for_the_host_are_told() {
    let place = Place::new();
    let folder = place.base().join("akg_kernel_meta");
    std::fs::create_dir_all(&folder).unwrap();
    let object = opkeep_testkit::elf::host_object(&["Fused_Add_1_kernel"], "");
    let digest = opkeep_digest::Digest::of(&object);
    write(&folder.join("Fused_Add_1.info"), "{}");
    write(&folder.join("Fused_Add_1.so"), &object);
    write(
        &folder.join("Fused_Add_1.json"),
        format!(r#"{{"kernelName": "Fused_Add_1_kernel", "threadNumber": "null", "sha256": "{digest}"}}"#),
    );
    let report = place.import();
    let (imported, _, _, reasons) = counts(&report);
    assert_eq!((imported, reasons), (0, vec!["no-object"]), "{report:?}");
}

#[test]
fn folders_that_cannot_be_read_are_told() {
    let place = Place::with_squares(1);
    let report = place.importer().import(&[place.base().join("nowhere"), place.base()]).unwrap();
    assert_eq!(report.unreadable_dirs.len(), 1);
    assert_eq!(report.caches[0].imported.len(), 1);
    // Somebody's rank that is no folder.
    std::fs::create_dir_all(place.base().join("rank_7")).unwrap();
    std::os::unix::fs::symlink(
        place.base().join("rank_0/kernel_meta"),
        place.base().join("rank_7/kernel_meta"),
    )
    .unwrap();
    assert_eq!(place.import().caches.len(), 1);
}

/// A whole kernel under the name of another one, whose descriptor stayed: nothing but its own names says so.
#[test]
fn another_kernel_beside_a_descriptor() {
    let under_the_first = |name: &'static str, file_name: &'static str| {
        after(|place| {
            let pair = Kernel::new(Chip::Ascend910, name).build();
            let json = String::from_utf8(pair.json).unwrap();
            let json = json
                .replace(&format!(r#""binFileName": "{name}""#), &format!(r#""binFileName": "{file_name}""#));
            write(&place.file(1, "o"), pair.object);
            write(&place.file(1, "json"), json);
            ["info", "o", "json"].iter().for_each(|ending| age(&place.file(1, ending)).unwrap());
        })
    };
    let (other, plain) = ("square_12484080525657478229_0", "square");
    assert_eq!(under_the_first(other, other), ["other-kernel"]);
    assert_eq!(under_the_first(other, plain), ["other-kernel"]);
    // As a build of ours calls it, whose view lost its list.
    assert_eq!(under_the_first("square_12484080525657478229", plain), ["other-kernel"]);
}

/// Ranks' files that were filled from another rank's keep that one's names, with its device.
#[test]
fn a_kernel_that_is_called_for_another_device_is_imported() {
    let place = Place::new();
    let (own, theirs) = (Rank::new(0).square(1), Rank::new(3).square(1));
    let pair = Kernel::new(Chip::Ascend910, &theirs.stem).build();
    CachedKernelFiles { json: pair.json, object: pair.object, ..own }
        .write(&Rank::new(0).dir(&place.base()))
        .unwrap();
    assert_eq!(counts(&place.import()), (1, 0, 0, vec![]));
}

/// Of which source an operator of one's own was compiled, its descriptor says; what was in it, nobody knows. The same
/// job without it is another operator.
#[test]
fn an_operator_from_a_source_of_its_own() {
    let from = |folder: &str| {
        let CachedKernelFiles { json, object, info, .. } = Rank::new(0).square(1);
        let built_in = "/usr/local/Ascend/opp/op_impl/built-in/ai_core/tbe";
        let text = String::from_utf8(info.unwrap()).unwrap();
        assert!(text.contains(built_in), "{text}");
        let info = text.replace(built_in, folder).into_bytes();
        let stem =
            KernelName::mindspore(&read_info(&info).unwrap(), Generation::R1_7, 0).unwrap().to_string();
        CachedKernelFiles {
            stem,
            json: String::from_utf8(json).unwrap().replace("binFileName", "wasFileName").into_bytes(),
            object,
            info: Some(info),
        }
    };
    for custom in ["/home/somebody/square.py", "/usr/local/Ascend/opp/op_impl/custom/ai_core/tbe"] {
        let place = Place::new();
        from(custom).write(&Rank::new(0).dir(&place.base())).unwrap();
        assert_eq!(counts(&place.import()), (0, 0, 0, vec!["own-source"]));
        assert_eq!(place.outcome(&place.trusting(), &square(1)), ("compiled", false));
        // Nor is it served by the toolkit's.
        let place = Place::with_squares(1);
        place.import();
        assert_eq!(place.outcome(&place.trusting(), &request(&from(custom))), ("compiled", false));
        let explained = place.engine().explain(&[request(&from(custom))]).unwrap().remove(0);
        assert!(
            matches!(explained.status, CacheStatus::Hit) && explained.imported.is_none(),
            "{explained:?}"
        );
        assert_eq!(place.outcome(&place.trusting(), &request(&from(custom))), ("reused", false));
    }
    // Where the toolkit is does not count.
    for built_in in
        ["/opt/cann/opp/op_impl/built-in/ai_core/tbe/", "/opt/cann/opp/built-in/op_impl/ai_core/tbe", ""]
    {
        let place = Place::new();
        from(built_in).write(&Rank::new(0).dir(&place.base())).unwrap();
        assert_eq!(counts(&place.import()), (1, 0, 0, vec![]), "{built_in}");
        assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", true));
    }
}

/// Every release that writes the options says them; the oldest does not, and that is told.
#[test]
fn releases_are_told() {
    for generation in [Generation::R1_5, Generation::R1_6, Generation::R1_7, Generation::R2_1] {
        let (place, rank) = (Place::new(), Rank { generation, ..Rank::new(3) });
        place.keep(&rank, 1);
        assert_eq!(counts(&place.import()).0, 1, "{generation}");
        let imported = place.trusting().explain(&[square(1)]).unwrap().remove(0).imported.unwrap();
        assert!(imported.has_options && imported.framework.starts_with("MindSpore r"), "{imported}");
    }
}

/// A kernel that a build wrote to the view is not a framework's, and is not imported.
#[test]
fn what_a_build_put_there_is_no_frameworks() {
    let place = Place::new();
    let view = || ViewConfig::rank(place.base(), "0".to_owned());
    place.build(&place.engine().with_config(|config| config.view = Some(view())), &[square(1)]);
    assert_eq!(counts(&place.import()), (0, 0, 0, vec!["ours"]));
    // One that the framework compiled over it is.
    place.keep(&Rank::new(0), 1);
    assert_eq!(counts(&place.import()), (1, 0, 0, vec![]));
    let base = place.bench.folder.path().join("elsewhere");
    let view = ViewConfig::rank(base.clone(), "0".to_owned());
    std::fs::remove_dir_all(place.bench.root()).unwrap();
    place.import();
    place.build(&place.trusting().with_config(|config| config.view = Some(view)), &[square(1)]);
    let report = place.importer().import(&[base]).unwrap();
    assert_eq!(counts(&report), (0, 0, 0, vec!["ours"]));
}
