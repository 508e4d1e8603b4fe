//! A framework's own kernels are never lost: the command in directories of MindSpore and CANN.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::common::{Place, Ran, SQUARE, files, square_of};
use opkeep_testkit::caches::{CachedKernelFiles, Rank, age, cann_kernel};
use opkeep_testkit::toolkit::{Toolkit, python};

/// A directory of MindSpore with one kernel.
fn foreign(place: &Place, rank: &Rank) -> (CachedKernelFiles, PathBuf) {
    let (kernel, dir) = (rank.square(3), place.path("rank_0/kernel_meta"));
    kernel.write(&dir).unwrap();
    (kernel, dir)
}

/// The files of a directory except for our own notes, with their bytes.
fn kernels(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_note = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".opkeep");
    let files = files(dir).into_iter().filter(|path| !is_note(path));
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// A build writes one note and no copy, and does not replace the foreign kernel.
#[test]
fn a_framework_directory_is_not_changed() {
    let place = Place::new();
    let (kernel, dir) = foreign(&place, &Rank::new(0));
    let before = kernels(&dir);
    for flags in [&[][..], &["--op_compiler_cache_mode", "disable"], &["--op_compiler_cache_mode", "force"]] {
        let args = [&["build", "rank_0/kernel_meta", "--format", "json"], flags].concat();
        let ran = place.run(&args).ended_with(0).says("opkeep did not write").says("--kernel-meta DIR");
        let left = &ran.json()["left_alone"][0];
        assert_eq!((&left["name"], &left["reason"]), (&kernel.stem.as_str().into(), &"foreign".into()));
        assert_eq!(left["chip"], "Ascend910A");
        assert!(left["machine"].as_str().unwrap().contains("0x1029"), "{left}");
        assert_eq!(
            ran.stderr.matches("Ascend910A").count(),
            2,
            "what is built for, and what is there: {ran:?}"
        );
        assert_eq!(kernels(&dir), before);
    }
    // If the target is named, it is a problem, with help.
    place.run(&["build", "rank_0/kernel_meta", "--target", "cpu"]).ended_with(1).says("--replace");
    assert_eq!(kernels(&dir), before);
    place.run(&["build", "rank_0/kernel_meta", "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let elsewhere = ["build", "rank_0/kernel_meta", "--target", "cpu", "--kernel-meta", "elsewhere"];
    place.run(&elsewhere).ended_with(0);
    assert!(place.path(&format!("elsewhere/{}.o", kernel.stem)).exists());
    assert_eq!(kernels(&dir), before);
    place.run(&["build", "rank_0/kernel_meta", "--replace"]).ended_with(0).says("repair --undo");
    assert_ne!(kernels(&dir), before);
    place.run(&["build", "rank_0/kernel_meta"]).ended_with(0);
    let undone = place.run(&["repair", "--undo", "rank_0/kernel_meta"]).ended_with(0);
    assert!(undone.stdout.contains("everything is restored"), "{undone:?}");
    assert_eq!(kernels(&dir), before);
    place.run(&["verify", "rank_0/kernel_meta"]).ended_with(0);
}

#[test]
fn a_directory_without_foreign_kernels_is_filled() {
    let place = Place::new();
    // With descriptors only, and again with own kernels.
    place.write("rank_0/kernel_meta/square_12484080525657478220_2.info", std::fs::read(SQUARE).unwrap());
    for _ in 0..2 {
        let ran = place.run(&["build", "rank_0/kernel_meta", "--format", "json"]).ended_with(0);
        assert_eq!(
            (ran.json()["left_alone"].as_array().unwrap().len(), ran.stderr.lines().count()),
            (0, 1),
            "{ran:?}"
        );
    }
    assert!(place.path("rank_0/kernel_meta/square_12484080525657478220_2.o").exists());
    // Beside a framework's kernel, a guessed target adds nothing.
    let place = Place::new();
    let (_, dir) = foreign(&place, &Rank::new(0));
    let before = files(&dir);
    let ran = place.run(&["build", SQUARE, "--format", "json"]).ended_with(0).says("1 kernel");
    assert_eq!(ran.json()["left_alone"][0]["reason"], "foreign-directory");
    assert_eq!(files(&dir), before);
    place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
    assert_eq!(files(&dir).len(), before.len() + 5);
}

/// A damaged file may be one that a framework is writing, so it counts as foreign, but not as one that opkeep did not
/// write.
#[test]
fn a_changed_file_of_opkeep_is_called_changed() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let object = place.path("rank_0/kernel_meta/square_12484080525657478220_2.o");
    std::fs::OpenOptions::new().write(true).open(&object).unwrap().set_len(500).unwrap();
    for ending in ["json", "o", "info"] {
        age(&object.with_extension(ending)).unwrap();
    }
    place.write("other.info", square_of(4));
    let build = || place.run(&["build", "other.info", "--format", "json"]).ended_with(0);
    let ran = build()
        .says("a file in the directory was changed since opkeep wrote it (`square_12484080525657478220_2.o`)")
        .says("/rank_0/kernel_meta` quarantines it if it is damaged");
    assert!(!ran.stderr.contains("did not write"), "{ran:?}");
    assert_eq!(ran.json()["left_alone"][0]["reason"], "foreign-directory");
    assert_eq!(std::fs::metadata(&object).unwrap().len(), 500);
    place.run(&["repair", "rank_0/kernel_meta"]).ended_with(0);
    assert!(build().json()["left_alone"].as_array().unwrap().is_empty());
}

#[test]
fn damaged_files_are_restored() {
    let place = Place::new();
    let (kernel, dir) = foreign(&place, &Rank::new(0));
    let object = dir.join(format!("{}.o", kernel.stem));
    std::fs::write(&object, &kernel.object[..100]).unwrap();
    let before = kernels(&dir);
    // A kernel for another chip is not placed there.
    place.run(&["build", "rank_0/kernel_meta"]).ended_with(0).says("damaged");
    assert_eq!(kernels(&dir), before);
    place.run(&["build", "rank_0/kernel_meta", "--replace"]).ended_with(0);
    place.run(&["repair", "--undo", "rank_0/kernel_meta"]).ended_with(0);
    assert_eq!(kernels(&dir), before);
}

#[test]
fn a_descriptor_is_built_for_its_chip_where_its_toolchain_is() {
    let Some(python) = python() else { return };
    let place = Place::new();
    let installed = Toolkit::new().write(&place.path("Ascend")).unwrap();
    let environment =
        [("ASCEND_HOME_PATH", installed.root().to_str().unwrap()), ("HI_PYTHON", python.to_str().unwrap())];
    let text = std::fs::read_to_string(SQUARE).unwrap();
    place.write("jobs/known.info", text.replace("Ascend910A", "Ascend910B1"));
    place.write(
        "jobs/unknown.info",
        // Another shape, since one name for two kernels would be a problem.
        text.replace("Ascend910A", "Ascend999Z").replace(" 3\n", " 4\n").replace(" 3,\n", " 4,\n"),
    );
    let ran = place.run_with(&["build", "jobs", "--format", "json"], &environment).ended_with(0);
    let ran = ran.says("the descriptors name Ascend999Z; building for cpu");
    let host = format!("cpu-{}", std::env::consts::ARCH);
    assert_eq!(ran.json()["targets"], serde_json::json!(["Ascend910B1", host]));
    assert_eq!((ran.count("compiled"), ran.json()["operators"].as_u64()), (2, Some(2)));
    assert_eq!(installed.compiles().unwrap().len(), 1);
    let explained = place.run_with(&["explain", "jobs"], &environment).ended_with(0);
    assert!(explained.stdout.contains("2 hit"), "{explained:?}");
    // A chosen target counts for all.
    let ran = place.run_with(&["build", "jobs", "--target", "cpu", "--format", "json"], &environment);
    assert_eq!(ran.ended_with(0).json()["targets"], serde_json::json!([host]));
}

/// Runs the command with the toolkit.
struct WithToolkit<'a>(&'a Place, [(&'static str, String); 2]);

impl WithToolkit<'_> {
    fn run(&self, args: &[&str]) -> Ran {
        let Self(place, environment) = self;
        place.run_with(args, &environment.each_ref().map(|(name, value)| (*name, value.as_str())))
    }
}

/// Writes a descriptor for a chip of the toolkit, and one for `other`.
fn two_targets<'a>(place: &'a Place, other: &str) -> Option<WithToolkit<'a>> {
    let python = python()?;
    let installed = Toolkit::new().write(&place.path("Ascend")).unwrap();
    let text = std::fs::read_to_string(SQUARE).unwrap();
    place.write("jobs/known.info", text.replace("Ascend910A", "Ascend910B1"));
    // Another shape, so that the names differ.
    let text =
        text.replace(" 3\n", " 4\n").replace(" 3,\n", " 4,\n").replace("Default/Square", "Default/Other");
    place.write("jobs/other.info", text.replace("Ascend910A", other));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    Some(WithToolkit(place, [("ASCEND_HOME_PATH", path(installed.root())), ("HI_PYTHON", path(&python))]))
}

#[test]
fn an_option_of_the_descriptors_chip_is_one() {
    let place = Place::new();
    let Some(toolkit) = two_targets(&place, "Ascend999Z") else { return };
    for inputs in ["jobs/known.info", "jobs"] {
        for command in ["build", "explain"] {
            let run = |option: &str| toolkit.run(&[command, inputs, "--option", option]);
            run("impl_mode=high_precision").ended_with(0);
            run("impl_mod=high_precision").ended_with(2).says("did you mean `impl_mode`?");
            run("op_debug_level=7").ended_with(2);
        }
    }
    let both = ["build", "jobs", "--option", "something=1"];
    toolkit.run(&both).ended_with(2).says("`cpu` and `Ascend910B1` have no option `something`");
    // If nothing is built for the chip, its options are unknown.
    let guessed = ["build", "jobs/other.info", "--option", "impl_mode=high_precision"];
    toolkit.run(&guessed).ended_with(2).says("the target `cpu` has no option `impl_mode`");
    let chosen = ["build", "jobs", "--target", "cpu", "--option", "impl_mode=high_precision"];
    toolkit.run(&chosen).ended_with(2).says("the target `cpu` has no option `impl_mode`");
}

#[test]
fn files_replaced_by_a_build_for_two_targets_are_restored_together() {
    let place = Place::new();
    let Some(toolkit) = two_targets(&place, "Ascend910B2") else { return };
    let build = ["build", "jobs", "--kernel-meta", "kernels"];
    let dir = place.path("kernels");
    let objects = || files(&dir).into_iter().filter(|path| path.extension().is_some_and(|it| it == "o"));
    toolkit.run(&build).ended_with(0);
    assert_eq!(objects().count(), 2);
    objects().for_each(|path| std::fs::write(path, "theirs").unwrap());
    let before = kernels(&dir);
    let replaced = toolkit.run(&[&build[..], &["--replace"]].concat()).ended_with(0);
    assert!(objects().all(|path| std::fs::read(path).unwrap() != b"theirs"), "{replaced:?}");
    let undone = place.run(&["repair", "--undo", "kernels"]).ended_with(0);
    assert!(undone.stdout.contains("everything is restored"), "{undone:?}");
    assert_eq!(kernels(&dir), before);
}

/// A framework would look for both under one name, and run one in place of the other.
#[test]
fn a_name_of_kernels_for_two_chips_is_used_for_none() {
    let place = Place::new();
    let Some(toolkit) = two_targets(&place, "Ascend910B2") else { return };
    let known = std::fs::read_to_string(place.path("jobs/known.info")).unwrap();
    place.write("jobs/same.info", known.replace("Ascend910B1", "Ascend910B2"));
    let build = ["build", "jobs", "--kernel-meta", "kernels", "--format", "json"];
    let ran = toolkit.run(&build).ended_with(1).says("are all called");
    assert_eq!(ran.json()["contested_names"], serde_json::json!(["square_12484080525657478220_2"]));
    let objects =
        files(&place.path("kernels")).into_iter().filter(|path| path.extension().is_some_and(|it| it == "o"));
    assert_eq!(objects.count(), 1, "the other's: {ran:?}");
}

#[test]
fn a_debug_build_replaces_no_release() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let dir = place.path("rank_0/kernel_meta");
    let before = kernels(&dir);
    let config = place.write("debug.cfg", "op_debug_config=ccec_g,ccec_O0\n");
    let flag = format!("--op_debug_config={}", config.display());
    for flag in ["--op_debug_level=2", &flag] {
        place.run(&["build", SQUARE, flag]).ended_with(0).says("compiled for debugging");
        assert_eq!(kernels(&dir), before);
    }
    place.run(&["build", SQUARE, "--op_debug_level=2", "--replace"]).ended_with(0);
    assert_ne!(kernels(&dir), before);
    place.run(&["build", SQUARE]).ended_with(0);
    assert_eq!(kernels(&dir), before);
}

#[test]
fn a_world_writable_directory_is_named() {
    let place = Place::new();
    let dir = place.path("rank_0/kernel_meta");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = place.run(&["build", SQUARE]).ended_with(0).says("writable by every user");
    let ran = ran.says("0777").says("chmod o-w");
    assert!(ran.stderr.contains(dir.to_str().unwrap()), "{ran:?}");
}

#[test]
fn no_store_is_created_in_the_cache_of_cann() {
    // The compiler is queried once.
    let answers = Place::new();
    let temporary = answers.path("tmp");
    let temporary = [("TMPDIR", temporary.to_str().unwrap())];
    for (root, store) in [
        ("atc_data/kernel_cache", "atc_data/kernel_cache/opkeep"),
        ("atc_data/kernel_cache/Ascend910B1", "atc_data/kernel_cache/opkeep"),
        ("atc_data/kernel_cache/Ascend910B1/mine", "atc_data/kernel_cache/opkeep"),
        ("atc_data/kernel_cache/opkeep", "atc_data/kernel_cache/opkeep"),
        ("link", "atc_data/kernel_cache/opkeep"),
        ("atc_data/kernel_cache/new/..", "atc_data/kernel_cache/opkeep"),
        ("atc_data/new/more/../../kernel_cache/x/../Ascend910B1", "atc_data/kernel_cache/opkeep"),
        ("atc_data", "atc_data"),
    ] {
        for there in [false, true] {
            let place = Place::new();
            let cann = place.path("atc_data/kernel_cache/Ascend910B1");
            if there || root == "link" {
                cann_kernel("Ascend910B1", 1).write(&cann).unwrap();
                place.write(
                    "atc_data/kernel_cache/op_cache.ini",
                    "[op_compiler_cache]\nadk_version=7.7\nops_version=7.7\n",
                );
            }
            std::os::unix::fs::symlink(cann.parent().unwrap(), place.path("link")).unwrap();
            let before = files(&cann);
            let ini = std::fs::read(place.path("atc_data/kernel_cache/op_cache.ini")).ok();
            let flags = ["--no-kernel-meta", "--format", "json", "--op_compiler_cache_dir", root];
            let build =
                || place.run_with(&[&["build", SQUARE][..], &flags].concat(), &temporary).ended_with(0);
            assert_eq!(build().count("compiled"), 1, "{root}");
            assert_eq!(build().count("reused"), 1, "{root}");
            assert!(place.path(store).join("v1").is_dir(), "{root}");
            assert!(!place.path("atc_data/kernel_cache/v1").exists());
            assert_eq!(
                (files(&cann), std::fs::read(place.path("atc_data/kernel_cache/op_cache.ini")).ok()),
                (before, ini)
            );
            let stats = place.run(&["stats", "--op_compiler_cache_dir", root]).ended_with(0);
            assert!(stats.stdout.contains(store), "{stats:?}");
        }
    }
}

#[test]
fn an_old_store_in_the_cache_of_cann_is_read_and_not_written() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--op_compiler_cache_dir", "old", "--no-kernel-meta"]).ended_with(0);
    std::fs::create_dir_all(place.path("kernel_cache")).unwrap();
    std::fs::rename(place.path("old/v1"), place.path("kernel_cache/v1")).unwrap();
    cann_kernel("Ascend910B1", 1).write(&place.path("kernel_cache/Ascend910B1")).unwrap();
    let before = files(&place.path("kernel_cache"));
    let build = |mode: &str| {
        let flags =
            ["--op_compiler_cache_dir", "kernel_cache", "--op_compiler_cache_mode", mode, "--format", "json"];
        place.run(&[&["build", SQUARE, "--no-kernel-meta"], &flags[..]].concat()).ended_with(0)
    };
    assert_eq!(build("read-only").count("reused"), 1);
    assert_eq!(
        build("enable").says("CANN takes an op_cache.ini there for its own").says("mv ").count("reused"),
        1
    );
    assert_eq!(files(&place.path("kernel_cache")), before);
    // The named help works.
    std::fs::create_dir(place.path("kernel_cache/opkeep")).unwrap();
    std::fs::rename(place.path("kernel_cache/v1"), place.path("kernel_cache/opkeep/v1")).unwrap();
    assert_eq!(build("enable").count("reused"), 1);
}

#[test]
fn a_store_in_a_directory_with_the_name_of_canns_cache_is_written() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--op_compiler_cache_dir", "old", "--no-kernel-meta"]).ended_with(0);
    std::fs::rename(place.path("old"), place.path("kernel_cache")).unwrap();
    for other in ["v2/cpu-x86_64", ".snapshot/hourly", "lost+found", "notes"] {
        std::fs::create_dir_all(place.path("kernel_cache").join(other)).unwrap();
    }
    let flags = ["--op_compiler_cache_dir", "kernel_cache", "--format", "json"];
    let build =
        |extra: &[&str]| place.run(&[&["build", SQUARE, "--no-kernel-meta"], &flags[..], extra].concat());
    assert_eq!(build(&[]).ended_with(0).count("reused"), 1);
    let forced = build(&["--op_compiler_cache_mode", "force"]).ended_with(0);
    assert_eq!(forced.count("compiled"), 1);
    assert!(!forced.stderr.contains("op_cache.ini"), "{}", forced.stderr);
}

/// Dates all files below a directory so long ago that any read would update the access time.
fn make_old(dir: &Path) {
    for (path, ..) in states(dir) {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 3600);
        let times = std::fs::FileTimes::new().set_accessed(old).set_modified(old);
        std::fs::File::open(path).unwrap().set_times(times).unwrap();
    }
    // The test itself reads them first.
    states(dir);
}

/// The names and all times of the files below a directory.
fn states(dir: &Path) -> Vec<(PathBuf, [i64; 6])> {
    let mut all = Vec::new();
    let state = |path: &Path| {
        let m = std::fs::symlink_metadata(path).unwrap();
        [m.atime(), m.atime_nsec(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()]
    };
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        all.push((dir.clone(), state(&dir)));
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { all.push((path.clone(), state(&path))) }
        }
    }
    all.sort();
    all
}

#[test]
fn a_dry_run_reports_the_actions_and_changes_nothing() {
    let place = Place::new();
    for length in 1..=3 {
        let info = place.write(&format!("{length}.info"), crate::common::square_of(length));
        place.run(&["build", info.to_str().unwrap(), "--no-kernel-meta"]).ended_with(0);
    }
    let store = place.path("cache");
    make_old(&store);
    let before = states(&store);
    for command in [&["clear"][..], &["gc", "--older-than", "1d"], &["gc", "--max-size", "1"]] {
        let dry = place.run(&[command, &["--dry-run"]].concat()).ended_with(0);
        assert!(dry.stdout.contains("would delete 3 kernels"), "{command:?} {dry:?}");
        assert_eq!(states(&store), before, "{command:?}");
    }
    let cann = place.path("kernel_cache");
    (1..=3).for_each(|number| cann_kernel("Ascend910B1", number).write(&cann.join("Ascend910B1")).unwrap());
    place.write("kernel_cache/op_cache.ini", "[op_compiler_cache]\nadk_version=7.7\nops_version=7.7\n");
    make_old(&cann);
    let unchanged = states(&cann);
    let dry = place.run(&["gc", "--dry-run", "--max-size", "1", "kernel_cache"]).ended_with(0);
    assert!(dry.stdout.contains("would delete 3 kernels"), "{dry:?}");
    assert_eq!(states(&cann), unchanged);
    let json = |dry: bool| {
        let flags = if dry { &["--dry-run"][..] } else { &[] };
        let mut json = place.run(&[&["clear", "--format", "json"], flags].concat()).ended_with(0).json();
        assert_eq!(json["dry_run"], dry);
        json["dry_run"] = false.into();
        json
    };
    let (dry, real) = (json(true), json(false));
    assert_eq!(dry["targets"][0]["removed"], real["targets"][0]["removed"]);
    assert_eq!(dry["targets"][0]["removed"]["kernels"], 3);
    assert!(place.entries().is_empty());
}

/// CANN compiles in a directory for each process, which MindSpore creates below its own.
#[test]
fn a_kernel_in_a_nested_directory_is_a_frameworks_too() {
    for (nested, file) in [
        ("kernel_meta_4711/kernel_meta", None),
        ("kernel_meta_a/kernel_meta/kernel_meta_b/kernel_meta", None),
        ("just/some/pairs", None),
        ("kernel_meta_4711/kernel_meta", Some("te_add.o")),
        ("kernel_meta_4711/kernel_meta", Some("te_add.json")),
        ("link", Some("")),
    ] {
        let place = Place::new();
        let dir = place.path("rank_0/kernel_meta");
        match file {
            None => cann_kernel("Ascend910A", 1).write(&dir.join(nested)).unwrap(),
            Some("") => {
                std::fs::create_dir_all(&dir).unwrap();
                cann_kernel("Ascend910A", 1).write(&place.path("elsewhere")).unwrap();
                std::os::unix::fs::symlink(place.path("elsewhere"), dir.join(nested)).unwrap();
            }
            Some(name) => drop(place.write(&format!("rank_0/kernel_meta/{nested}/{name}"), "theirs")),
        }
        let before = files(&dir);
        let ran = place.run(&["build", SQUARE, "--format", "json"]).ended_with(0).says(nested);
        let reason = if file == Some("") { "closed-directory" } else { "foreign-directory" };
        assert_eq!(ran.json()["left_alone"][0]["reason"], reason, "{ran:?}");
        assert_eq!(files(&dir), before, "{nested}");
        place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
        assert!(files(&dir).len() > before.len());
    }
}

/// A nested directory without kernels, or with own kernels only, does not make the directory foreign.
#[test]
fn nested_directories_without_foreign_kernels_do_not_count() {
    let place = Place::new();
    place.write("rank_0/kernel_meta/kernel_meta_4711/kernel_meta/te_add.info", "{}");
    place.write("rank_0/kernel_meta/kernel_meta_4711/kernel_meta.opkeep-quarantine/1/te_add.o", "damaged");
    std::os::unix::fs::symlink("nowhere", place.path("rank_0/kernel_meta/dangling")).unwrap();
    let nested = ["build", SQUARE, "--target", "cpu", "--kernel-meta", "rank_0/kernel_meta/below"];
    place.run(&nested).ended_with(0);
    let ran = place.run(&["build", SQUARE, "--format", "json"]).ended_with(0);
    assert_eq!(ran.json()["left_alone"], serde_json::json!([]), "{ran:?}");
    assert!(place.path("rank_0/kernel_meta/square_12484080525657478220_2.o").exists());
}

#[test]
fn kernels_are_not_put_into_the_store() {
    let place = Place::new();
    std::os::unix::fs::symlink(place.path("cache"), place.path("link")).unwrap();
    let refused = |args: &[&str], made: &[&str]| {
        let ran = place.run(&[&["build", SQUARE], args].concat()).ended_with(2);
        ran.says("is the directory of the store").says("--kernel-meta");
        made.iter().for_each(|path| assert!(!place.path(path).exists(), "{args:?} made {path}"));
    };
    // Without a store, and with one.
    for made in [&["cache"][..], &["cache/new", "cache/v1/kernel_meta"]] {
        for dir in ["cache", "cache/new", "cache/v1/kernel_meta", ".", "cache/x/..", "link", "link/v1", "/"] {
            refused(&["--kernel-meta", dir], made);
            refused(&["--kernel-meta", dir, "--op_compiler_cache_mode", "disable"], made);
        }
        place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0);
    }
    for store in ["rank_0/kernel_meta", "rank_0/kernel_meta/store"] {
        refused(&["--op_compiler_cache_dir", store], &["rank_0"]);
    }
    // A project may have both.
    place.run(&["build", SQUARE, "--op_compiler_cache_dir", "."]).ended_with(0);
    assert!(place.path("v1").is_dir() && place.path("rank_0/kernel_meta").is_dir());
}

/// A user who may rename a parent directory can replace this one.
#[test]
fn a_world_writable_parent_directory_is_named() {
    for (above, mode, is_risk) in
        [("rank_0", 0o777, true), ("", 0o777, true), ("", 0o1777, false), ("rank_0", 0o775, false)]
    {
        let place = Place::new();
        std::fs::create_dir_all(place.path("base/rank_0/kernel_meta")).unwrap();
        let above = place.path("base").join(above);
        std::fs::set_permissions(&above, std::fs::Permissions::from_mode(mode)).unwrap();
        let ran = place.run_with(&["build", SQUARE], &[("MS_COMPILER_CACHE_PATH", "base")]).ended_with(0);
        assert_eq!(ran.stderr.contains("writable by every user"), is_risk, "{mode:o} {ran:?}");
        let named = format!("`{}` is", above.components().as_path().display());
        assert_eq!(ran.stderr.contains(&named), is_risk, "{ran:?}");
    }
}

/// The store identifies own files if the manifest was lost.
#[test]
fn an_own_kernel_is_recognised_without_its_manifest() {
    for damaged in [None, Some("torn"), Some("")] {
        let place = Place::new();
        let (manifest, dir) =
            (place.path("rank_0/kernel_meta/.opkeep-manifest"), place.path("rank_0/kernel_meta"));
        let older = ["build", SQUARE, "--op_debug_level=0"];
        place.run(&older).ended_with(0);
        let lose = || match damaged {
            // An undone repair may have left no manifest.
            None => drop(std::fs::remove_file(&manifest)),
            Some(text) => std::fs::write(&manifest, text).unwrap(),
        };
        let before = kernels(&dir);
        let compiler = place.script("newer-cc", "exec cc -O1 \"$@\"");
        let newer = [("CC", compiler.to_str().unwrap())];
        // Another kernel replaces it, whatever the manifest says.
        lose();
        let ran = place.run_with(&["build", SQUARE, "--format", "json"], &newer).ended_with(0);
        assert_eq!(
            (ran.json()["left_alone"].as_array().unwrap().len(), ran.count("compiled")),
            (0, 1),
            "{ran:?}"
        );
        let after = kernels(&dir);
        assert_ne!(after, before);
        // A copy of the old files is kept.
        place.run(&["repair", "--undo", "rank_0/kernel_meta"]).ended_with(0);
        assert_eq!(kernels(&dir), before);
        // An own kernel under another name does not make the directory foreign, either.
        lose();
        let other = place.write("other.info", crate::common::square_of(9));
        let ran = place.run(&["build", other.to_str().unwrap(), "--format", "json"]).ended_with(0);
        assert_eq!(ran.json()["left_alone"], serde_json::json!([]), "{ran:?}");
        // If one byte differs, or the store does not know it, it is foreign.
        lose();
        let object = dir.join("square_12484080525657478220_2.o");
        let bytes = std::fs::read(&object).unwrap();
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&object, &changed).unwrap();
        let before = kernels(&dir);
        let left = |ran: Ran| ran.ended_with(0).json()["left_alone"].as_array().unwrap().len();
        assert_eq!(left(place.run_with(&["build", SQUARE, "--format", "json"], &newer)), 1);
        assert_eq!(kernels(&dir), before);
        std::fs::write(&object, &bytes).unwrap();
        place.run(&["clear"]).ended_with(0);
        assert_eq!(left(place.run_with(&["build", SQUARE, "--format", "json"], &newer)), 1);
    }
}

/// An import does not make it an own kernel.
#[test]
fn an_imported_kernel_stays_its_frameworks() {
    let place = Place::new();
    let (_, dir) = foreign(&place, &Rank::new(0));
    place.run(&["import", "rank_0"]).ended_with(0);
    assert_eq!(place.entries().len(), 1);
    let before = kernels(&dir);
    let ran = place.run(&["build", "rank_0/kernel_meta", "--format", "json"]).ended_with(0);
    assert_eq!(ran.json()["left_alone"][0]["reason"], "foreign", "{ran:?}");
    assert_eq!(kernels(&dir), before);
}

/// A file of another program that an earlier build displaced, and whose name is taken now, stays and is reported.
#[test]
fn a_displaced_file_is_reported() {
    let place = Place::new();
    let build = || place.run(&["build", SQUARE, "--format", "json"]).ended_with(0);
    assert_eq!(build().json()["kernel_meta_displaced"], serde_json::json!([]));
    let name = ".opkeep-old-4711-0-square_12484080525657478220_2.o.old";
    let path = place.write(&format!("rank_0/kernel_meta/{name}"), "another program's");
    for _ in 0..2 {
        let ran = build();
        assert_eq!(ran.json()["kernel_meta_displaced"], serde_json::json!([name]), "{ran:?}");
        assert!(ran.stderr.contains("could not get its name back") && ran.stderr.contains(name), "{ran:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"another program's");
    }
    std::fs::remove_file(path).unwrap();
    assert!(!build().stderr.contains(name));
}
