//! Kernels that are not imported.

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

/// The descriptor still has the kernel's name, but another job. A request for that job must not get this kernel.
#[test]
fn a_descriptor_that_was_changed_since() {
    let reasons = after(|place| edit(place, 1, "accurately_build", "fuzzily_build"));
    assert_eq!(reasons, ["other-name"]);
}

/// Frameworks write the descriptor before they compile: this compile began and did not end.
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
    // A new descriptor: its compile may be in progress.
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
    // It is imported, and found only by requests with the same options.
    let precise =
        after(|place| edit(place, 1, r#""op_impl_mode": """#, r#""op_impl_mode": "high_precision""#));
    assert_eq!(precise, [""; 0]);
    // 3 is a level of MindSpore's own cache, and means 0.
    let place = Place::with_squares(1);
    edit(&place, 1, r#""op_debug_level": "0""#, r#""op_debug_level": "3""#);
    assert_eq!(counts(&place.import()).0, 1);
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", true));
}

/// Only the descriptor names the chip, and the kernel must be for that chip.
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

/// Valid kernels, each beside the descriptor of another chip, and one beside its own.
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
fn caches_without_descriptors_are_reported() {
    let place = Place::new();
    let cache_dir = place.base().join("kernel_cache/Ascend910A");
    cann_kernel(super::TARGET, 1).write(&cache_dir).unwrap();
    let report = place.import();
    let why = only(&report).skip_reason.as_ref().unwrap();
    assert_eq!(why.name(), "no-descriptor");
    assert!(why.to_string().contains("CANN's kernel_cache has no descriptors"), "{why}");
    assert!(place.bench.entries().is_empty());
}

/// AKG's kernels for the host have other file names and another calling convention than ours.
#[test]
fn kernels_for_the_host_are_reported() {
    let place = Place::new();
    let cache_dir = place.base().join("akg_kernel_meta");
    std::fs::create_dir_all(&cache_dir).unwrap();
    let object = opkeep_testkit::elf::host_object(&["Fused_Add_1_kernel"], "");
    let digest = opkeep_digest::Digest::of(&object);
    write(&cache_dir.join("Fused_Add_1.info"), "{}");
    write(&cache_dir.join("Fused_Add_1.so"), &object);
    write(
        &cache_dir.join("Fused_Add_1.json"),
        format!(r#"{{"kernelName": "Fused_Add_1_kernel", "threadNumber": "null", "sha256": "{digest}"}}"#),
    );
    let report = place.import();
    let (imported, _, _, reasons) = counts(&report);
    assert_eq!((imported, reasons), (0, vec!["no-object"]), "{report:?}");
}

#[test]
fn unreadable_directories_are_reported() {
    let place = Place::with_squares(1);
    let report = place.importer().import(&[place.base().join("nowhere"), place.base()]).unwrap();
    assert_eq!(report.unreadable_dirs.len(), 1);
    assert_eq!(report.caches[0].imported.len(), 1);
    // A rank that is not a directory.
    std::fs::create_dir_all(place.base().join("rank_7")).unwrap();
    std::os::unix::fs::symlink(
        place.base().join("rank_0/kernel_meta"),
        place.base().join("rank_7/kernel_meta"),
    )
    .unwrap();
    assert_eq!(place.import().caches.len(), 1);
}

/// A valid kernel under the name of another one, beside the other's descriptor: only the names inside show it.
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
    // A kernel of our build in a view without its manifest.
    assert_eq!(under_the_first("square_12484080525657478229", plain), ["other-kernel"]);
}

/// Files that were filled in from another rank keep that rank's names, with its device.
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

/// The descriptor of a custom operator names its source file, but the content of the file is unknown. The same
/// job without a source file is another operator.
#[test]
fn an_operator_from_a_source_of_its_own() {
    let from = |path: &str| {
        let CachedKernelFiles { json, object, info, .. } = Rank::new(0).square(1);
        let built_in = "/usr/local/Ascend/opp/op_impl/built-in/ai_core/tbe";
        let text = String::from_utf8(info.unwrap()).unwrap();
        assert!(text.contains(built_in), "{text}");
        let info = text.replace(built_in, path).into_bytes();
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
        // Nor does a kernel of the toolkit's operator serve it.
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
    // The toolkit's directory does not count.
    for built_in in
        ["/opt/cann/opp/op_impl/built-in/ai_core/tbe/", "/opt/cann/opp/built-in/op_impl/ai_core/tbe", ""]
    {
        let place = Place::new();
        from(built_in).write(&Rank::new(0).dir(&place.base())).unwrap();
        assert_eq!(counts(&place.import()), (1, 0, 0, vec![]), "{built_in}");
        assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", true));
    }
}

/// Every release except the oldest writes the options, and is named in the provenance.
#[test]
fn the_release_of_the_framework_is_reported() {
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
fn a_kernel_that_a_build_wrote_is_not_imported() {
    let place = Place::new();
    let view = || ViewConfig::rank(place.base(), "0".to_owned());
    place.build(&place.engine().with_config(|config| config.view = Some(view())), &[square(1)]);
    assert_eq!(counts(&place.import()), (0, 0, 0, vec!["ours"]));
    // A kernel with which the framework replaced it is imported.
    place.keep(&Rank::new(0), 1);
    assert_eq!(counts(&place.import()), (1, 0, 0, vec![]));
    let base = place.bench.dir.path().join("elsewhere");
    let view = ViewConfig::rank(base.clone(), "0".to_owned());
    std::fs::remove_dir_all(place.bench.root()).unwrap();
    place.import();
    place.build(&place.trusting().with_config(|config| config.view = Some(view)), &[square(1)]);
    let report = place.importer().import(&[base]).unwrap();
    assert_eq!(counts(&report), (0, 0, 0, vec!["ours"]));
}
