//! Ranks are filled with missing kernels of other ranks, and with nothing else.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::broken::{Repair, age_all, findings, scan_all};
use opkeep_descriptor::{Generation, read_info};
use opkeep_digest::Digest;
use opkeep_framework_cache::fill::{
    DeviceError, DeviceMap, FillOptions, FillReport, ScannedCache, UnfilledReason, fill,
};
use opkeep_framework_cache::quarantine::{QuarantineReport, RunId};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::caches::{CachedKernelFiles, Rank, age};
use serde_json::{Value, json};

struct Fill<'a> {
    map: &'a str,
    dry_run: bool,
    /// Called when ranks are about to be filled.
    before: &'a dyn Fn(),
}

impl Fill<'_> {
    fn new() -> Self {
        Self { map: "", dry_run: false, before: &|| {} }
    }

    /// Repairs all caches below `base`, then fills them.
    fn run(&self, base: &Path) -> FillReport {
        let surveys = scan_all(base);
        let repair = Repair { dry_run: self.dry_run, ..Repair::new() };
        let reports: Vec<QuarantineReport> =
            surveys.iter().map(|scan| repair.repair(scan).unwrap()).collect();
        let caches: Vec<_> = surveys
            .iter()
            .zip(&reports)
            .map(|(scan, report)| ScannedCache { scan, moved: &report.moved })
            .collect();
        let devices = DeviceMap::parse(self.map).unwrap();
        let progress = |_, _| (self.before)();
        let run = RunId::now();
        let mut options = FillOptions::new(&run, &devices);
        (options.dry_run, options.progress) = (self.dry_run, &progress);
        fill(&caches, &options)
    }
}

fn run(base: &Path) -> FillReport {
    Fill::new().run(base)
}

/// `ranks` ranks that have five kernels each; the device is not the rank.
fn ranks(base: &Path, ranks: u32) -> Vec<Rank> {
    let ranks: Vec<Rank> =
        (0..ranks).map(|rank| Rank { device: (rank + 3) % ranks, ..Rank::new(rank) }).collect();
    for rank in &ranks {
        (1..=5).for_each(|elements| rank.square(elements).write(&rank.dir(base)).unwrap());
    }
    ranks
}

fn path(base: &Path, rank: &Rank, kernel: &CachedKernelFiles, suffix: &str) -> PathBuf {
    rank.dir(base).join(format!("{}.{suffix}", kernel.stem))
}

fn remove(base: &Path, rank: &Rank, elements: u32) {
    for suffix in ["json", "o", "info"] {
        fs::remove_file(path(base, rank, &rank.square(elements), suffix)).unwrap();
    }
}

/// The only reason why something was not filled.
#[track_caller]
fn unfilled(report: &FillReport) -> String {
    assert!(report.filled.is_empty(), "{report:?}");
    assert_eq!(report.unfilled.len(), 1, "{report:?}");
    report.unfilled[0].reason.to_string()
}

/// Changes the descriptor of a kernel.
fn change_info(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut info: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut info);
    fs::write(path, serde_json::to_vec(&info).unwrap()).unwrap();
    age(path).unwrap();
}

#[test]
fn half_deleted_ranks_are_completed() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 8);
    let intact: Vec<DirSnapshot> =
        ranks.iter().map(|rank| DirSnapshot::of(&rank.dir(base.path())).unwrap()).collect();
    // Some ranks lack kernels, some have damaged ones, one has no intact kernel, and the last has no file.
    for rank in &ranks[..4] {
        (1..=rank.rank + 1).for_each(|elements| remove(base.path(), rank, elements));
    }
    for elements in 1..=5 {
        fs::write(path(base.path(), &ranks[5], &ranks[5].square(elements), "json"), "").unwrap();
    }
    fs::write(path(base.path(), &ranks[4], &ranks[4].square(2), "o"), "torn").unwrap();
    fs::remove_dir_all(base.path().join("rank_7")).unwrap();
    age_all(base.path());

    let before = DirSnapshot::of(base.path()).unwrap();
    let map = "7=2";
    let planned = Fill { map, dry_run: true, ..Fill::new() }.run(base.path());
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before, "a dry run changes nothing");
    let report = Fill { map, ..Fill::new() }.run(base.path());
    assert_eq!(report.filled, planned.filled);
    assert!(report.unfilled.is_empty(), "{report:?}");
    assert_eq!(report.filled.len(), 1 + 2 + 3 + 4 + 1 + 5 + 5);
    assert_eq!(findings(base.path()), 0);

    for (rank, intact) in ranks.iter().zip(&intact) {
        let (now, dir) = (DirSnapshot::of(&rank.dir(base.path())).unwrap(), rank.dir(base.path()));
        let names = |image: &DirSnapshot| -> Vec<PathBuf> {
            image.files().filter(|name| !name.ends_with(".opkeep.lock")).map(Path::to_owned).collect()
        };
        assert_eq!(names(&now), names(intact));
        for kernel in (1..=5).map(|elements| rank.square(elements)) {
            let read = |suffix: &str| fs::read(path(base.path(), rank, &kernel, suffix)).unwrap();
            assert_eq!(read("o"), kernel.object);
            // Equal to the source kernel except for the object's name, which MindSpore does not read.
            let [mut given, mut own] = [read("json"), kernel.json.clone()]
                .map(|json| serde_json::from_slice::<Value>(&json).unwrap());
            let donor = report.filled.iter().find(|filled| filled.dir == dir && filled.stem == kernel.stem);
            let donor = donor.map_or(kernel.stem.as_str(), |filled| &filled.source_stem);
            assert_eq!(given["binFileName"], donor);
            given["binFileName"].take();
            own["binFileName"].take();
            assert_eq!(given, own);
            // Descriptors stay those of the rank.
            assert_eq!(String::from_utf8(read("info")), String::from_utf8(kernel.info.clone().unwrap()));
            assert_eq!(read_info(&read("info")).unwrap().named_by(&kernel.stem), Some(Generation::R1_7));
        }
    }
    let one = &report.filled[0];
    let mode = |suffix: &str| {
        fs::metadata(one.dir.join(format!("{}.{suffix}", one.stem))).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("info"), mode("json"), mode("o")), (0o400, 0o640, 0o640));
    assert!(run(base.path()).filled.is_empty(), "nothing is lacking any more");
}

#[test]
fn all_generations_that_can_be_filled_are() {
    for generation in [Generation::R1_5, Generation::R1_6, Generation::R1_7] {
        let base = tempfile::tempdir().unwrap();
        let ranks = [0, 1].map(|rank| Rank { generation, ..Rank::new(rank) });
        (1..=2).for_each(|elements| ranks[0].square(elements).write(&ranks[0].dir(base.path())).unwrap());
        ranks[1].square(1).write(&ranks[1].dir(base.path())).unwrap();
        let report = run(base.path());
        assert_eq!(report.filled.len(), 1, "{generation:?} {report:?}");
        let kernel = ranks[1].square(2);
        assert_eq!(fs::read(path(base.path(), &ranks[1], &kernel, "info")).unwrap(), kernel.info.unwrap());
    }
}

#[test]
fn later_generations_are_refused_with_the_reason() {
    let base = tempfile::tempdir().unwrap();
    for rank in [0, 1].map(|rank| Rank { generation: Generation::R2_1, ..Rank::new(rank) }) {
        rank.square(1).write(&rank.dir(base.path())).unwrap();
    }
    let before = DirSnapshot::of(base.path()).unwrap();
    let report = run(base.path());
    assert!(report.filled.is_empty() && report.unfilled.len() == 2, "{report:?}");
    assert!(
        report.unfilled.iter().all(|unfilled| unfilled.reason.to_string().contains("r2.1 and later")),
        "{report:?}"
    );
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn without_a_matching_descriptor_the_generation_is_unknown() {
    let base = tempfile::tempdir().unwrap();
    let ranks = [0, 1].map(Rank::new);
    ranks[1].square(2).write(&ranks[1].dir(base.path())).unwrap();
    ranks[0].square(2).write(&ranks[0].dir(base.path())).unwrap();
    let kernel = ranks[0].square(1);
    kernel.write(&ranks[0].dir(base.path())).unwrap();
    let info = path(base.path(), &ranks[0], &kernel, "info");
    change_info(&info, |info| info["job_content"]["op_list"][1]["int64mode"] = true.into());
    assert!(unfilled(&run(base.path())).contains("does not follow from its descriptor"));
    fs::remove_file(&info).unwrap();
    assert!(unfilled(&run(base.path())).contains("is missing in every rank that has the kernel"));
    fs::write(&info, kernel.info.unwrap()).unwrap();
    age(&info).unwrap();
    assert_eq!(run(base.path()).filled.len(), 1);
}

#[test]
fn caches_without_ranks_are_reported() {
    let base = tempfile::tempdir().unwrap();
    for dir in ["kernel_meta", "akg_kernel_meta", "kernel_cache/Ascend910B2"] {
        fs::create_dir_all(base.path().join(dir)).unwrap();
    }
    let report = run(base.path());
    let whys: Vec<&str> = report.no_ranks.iter().map(|(_, why)| *why).collect();
    assert!(whys.len() == 3 && report.unfilled.is_empty(), "{report:?}");
    for (why, word) in whys.iter().zip(["one directory for all ranks", "only MindSpore", "before r1.5"]) {
        assert!(why.contains(word), "{why}");
    }
}

/// Two sources of one kernel that the third rank lacks; `change` makes the second different.
fn disagreeing(change: impl FnOnce(&Path, &Rank)) -> (tempfile::TempDir, FillReport) {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 3);
    remove(base.path(), &ranks[2], 1);
    change(base.path(), &ranks[1]);
    let before = DirSnapshot::of(&ranks[2].dir(base.path())).unwrap();
    let report = run(base.path());
    if report.filled.is_empty() {
        let mut now = DirSnapshot::of(&ranks[2].dir(base.path())).unwrap();
        fs::remove_file(ranks[2].dir(base.path()).join(".opkeep.lock")).unwrap_or_default();
        now.clone_from(&DirSnapshot::of(&ranks[2].dir(base.path())).unwrap());
        assert_eq!(now, before);
    }
    (base, report)
}

fn names_both(why: &str) {
    let stem = |rank, device| {
        format!("rank_{rank}/kernel_meta/{}", Rank { device, ..Rank::new(rank) }.square(1).stem)
    };
    assert!(why.contains(&stem(0, 0)) && why.contains(&stem(1, 1)), "{why}");
}

/// Puts an object beside a `.json` that describes it.
fn put_pair(base: &Path, rank: &Rank, kernel: &CachedKernelFiles, object: &[u8], fields: &[(&str, Value)]) {
    let mut json: Value = serde_json::from_slice(&kernel.json).unwrap();
    json["sha256"] = Digest::of(object).to_string().into();
    for (name, value) in fields {
        json[*name] = value.clone();
    }
    fs::write(path(base, rank, kernel, "o"), object).unwrap();
    fs::write(path(base, rank, kernel, "json"), serde_json::to_vec(&json).unwrap()).unwrap();
    age_all(&rank.dir(base));
}

#[test]
fn source_kernels_must_have_the_same_bytes() {
    let (_base, report) = disagreeing(|base, rank| {
        // Another intact kernel under the same name.
        let (kernel, other) = (rank.square(1), rank.square(2));
        put_pair(base, rank, &kernel, &other.object, &[]);
    });
    let why = unfilled(&report);
    names_both(&why);
    assert!(why.contains("sha256"), "{why}");
}

#[test]
fn source_kernels_must_have_the_same_launch_parameters() {
    let (_base, report) = disagreeing(|base, rank| {
        let kernel = rank.square(1);
        put_pair(base, rank, &kernel, &kernel.object, &[("blockDim", json!(7))]);
    });
    let why = unfilled(&report);
    names_both(&why);
    assert!(why.contains("`blockDim`"), "{why}");
    // Additions of MindSpore are no difference.
    let (_base, report) = disagreeing(|base, rank| {
        let kernel = rank.square(1);
        put_pair(base, rank, &kernel, &kernel.object, &[("build_result", json!("{}"))]);
    });
    assert_eq!(report.filled.len(), 1, "{report:?}");
}

#[test]
fn source_kernels_must_have_the_same_target() {
    for (field, value) in [
        ("op_impl_mode", json!("high_precision")),
        ("autoTilingMode", json!("RL")),
        ("op_bank_path", json!("/bank")),
        ("op_debug_level", json!("1")),
        ("coreType", json!("VectorCore")),
        ("unheard_of", json!(1)),
    ] {
        let (_base, report) = disagreeing(|base, rank| {
            let info = path(base, rank, &rank.square(1), "info");
            change_info(&info, |info| info["job_content"]["SocInfo"][field] = value.clone());
        });
        let why = unfilled(&report);
        names_both(&why);
        assert!(why.contains(&format!("SocInfo.{field}")), "{why}");
    }
    // Fields that name a device or a directory are no difference.
    for field in ["deviceId", "op_debug_dir", "kernel_meta_temp_dir"] {
        let (_base, report) = disagreeing(|base, rank| {
            let info = path(base, rank, &rank.square(1), "info");
            change_info(&info, |info| info["job_content"]["SocInfo"][field] = "7".into());
        });
        assert_eq!(report.filled.len(), 1, "{field}: {report:?}");
    }
}

#[test]
fn a_rank_for_another_chip_is_not_filled() {
    for file in ["a descriptor", "Initialize.info"] {
        let base = tempfile::tempdir().unwrap();
        let ranks = ranks(base.path(), 2);
        remove(base.path(), &ranks[1], 1);
        let kernel = ranks[1].square(3);
        if file == "Initialize.info" {
            let info = json!({ "source_id": ranks[1].device, "job_content": { "SocInfo": { "socVersion": "Ascend310" } } });
            fs::write(ranks[1].dir(base.path()).join(file), info.to_string()).unwrap();
        } else {
            let info = path(base.path(), &ranks[1], &kernel, "info");
            change_info(&info, |info| info["job_content"]["SocInfo"]["socVersion"] = "Ascend310".into());
        }
        let report = run(base.path());
        let why = unfilled(&report);
        assert!(
            why.contains("SocInfo.socVersion is \"Ascend910A\" in the first and \"Ascend310\" in the second"),
            "{why}"
        );
        assert!(why.contains(&format!("rank_0/kernel_meta/{}", ranks[0].square(1).stem)), "{why}");
        assert!(why.contains("rank_1/kernel_meta/"), "{why}");
    }
    // The core type depends on the operator.
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    remove(base.path(), &ranks[1], 1);
    let info = path(base.path(), &ranks[1], &ranks[1].square(3), "info");
    change_info(&info, |info| info["job_content"]["SocInfo"]["coreType"] = "VectorCore".into());
    let init =
        json!({ "source_id": ranks[1].device, "job_content": { "SocInfo": { "socVersion": "Ascend910A" } } });
    fs::write(ranks[1].dir(base.path()).join("Initialize.info"), init.to_string()).unwrap();
    let lacking = |report: &FillReport| report.filled.iter().filter(|filled| filled.rank == "1").count();
    let report = run(base.path());
    assert_eq!(lacking(&report), 1, "{report:?}");
}

#[test]
fn objects_that_differ_in_their_own_name_only_are_the_same() {
    // Compilers use the name, with the device in it, as the symbol.
    let object = |rank: &Rank, of: &str| {
        let mut kernel = rank.square(1);
        let text = format!("\0{}__kernel0 {of}\0", kernel.stem);
        kernel.object.extend_from_slice(text.as_bytes());
        kernel
    };
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 3);
    remove(base.path(), &ranks[2], 1);
    for rank in &ranks[..2] {
        let kernel = object(rank, "same");
        put_pair(base.path(), rank, &kernel, &kernel.object, &[]);
    }
    let report = Fill { dry_run: true, ..Fill::new() }.run(base.path());
    assert_eq!(report.filled.len(), 1, "{report:?}");
    let kernel = object(&ranks[1], "else");
    put_pair(base.path(), &ranks[1], &kernel, &kernel.object, &[]);
    let report = Fill { dry_run: true, ..Fill::new() }.run(base.path());
    assert!(unfilled(&report).contains("sha256"));
}

#[test]
fn a_kernel_with_another_stated_name_is_no_source() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    remove(base.path(), &ranks[1], 1);
    // An intact kernel that a user renamed.
    let (kernel, other) = (ranks[0].square(1), ranks[0].square(2));
    for (name, is_given) in [(&other.stem, 0), (&kernel.stem, 1)] {
        let built = Kernel::new(Chip::Ascend910, name).build();
        fs::write(path(base.path(), &ranks[0], &kernel, "o"), built.object).unwrap();
        fs::write(path(base.path(), &ranks[0], &kernel, "json"), built.json).unwrap();
        age_all(&ranks[0].dir(base.path()));
        assert_eq!(findings(base.path()), 0);
        let report = run(base.path());
        assert_eq!(report.filled.len(), is_given, "{report:?}");
        assert!(
            report
                .unfilled
                .iter()
                .all(|unfilled| unfilled.reason.to_string().contains("the name of another kernel")),
            "{report:?}"
        );
    }
}

#[test]
fn the_device_is_known_or_requested() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    // No file states the device.
    fs::remove_dir_all(ranks[1].dir(base.path())).unwrap();
    let report = run(base.path());
    let no_device =
        UnfilledReason::UnknownDevice { lacking: 5, error: DeviceError::Unknown { rank: "1".to_owned() } };
    assert_eq!(report.unfilled[0].reason, no_device);
    assert_eq!(report.unfilled[0].rank.as_deref(), Some("1"));
    assert!(!ranks[1].dir(base.path()).exists());

    // The file that MindSpore writes at its start states it.
    let fresh = || {
        fs::create_dir_all(ranks[1].dir(base.path())).unwrap();
        let init = ranks[1].dir(base.path()).join("Initialize.info");
        fs::write(init, json!({ "source_id": 6, "job_content": {} }).to_string()).unwrap();
    };
    fresh();
    let report = Fill { dry_run: true, ..Fill::new() }.run(base.path());
    assert!(
        report.filled.len() == 5 && report.filled.iter().all(|filled| filled.stem.ends_with("_6")),
        "{report:?}"
    );

    // A damaged file that states another device.
    let other = Rank { device: 4, ..Rank::new(1) }.square(1);
    fs::write(ranks[1].dir(base.path()).join(format!("{}.o", other.stem)), "torn").unwrap();
    age_all(&ranks[1].dir(base.path()));
    let report = Fill { dry_run: true, ..Fill::new() }.run(base.path());
    let why = unfilled(&report);
    assert!(
        why.contains("disagree") && why.contains("Initialize.info") && why.contains(&other.stem),
        "{why}"
    );
    // The map decides between them, but cannot contradict both.
    let report = Fill { dry_run: true, map: "1=4", ..Fill::new() }.run(base.path());
    assert_eq!(report.filled.len(), 5, "{report:?}");
    let report = Fill { dry_run: true, map: "1=5", ..Fill::new() }.run(base.path());
    assert!(unfilled(&report).contains("device 5 was given for rank"), "{report:?}");
}

#[test]
fn empty_ranks_are_filled_if_the_map_names_them() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 4);
    fs::remove_dir_all(ranks[2].dir(base.path())).unwrap();
    fs::remove_dir_all(base.path().join("rank_3")).unwrap();
    fs::create_dir(base.path().join("rank_table")).unwrap();
    let report = Fill { map: "2=1, 3=2", ..Fill::new() }.run(base.path());
    assert!(report.unfilled.is_empty() && report.filled.len() == 10, "{report:?}");
    for (rank, device) in [(2, 1), (3, 2)] {
        let rank = Rank { device, ..Rank::new(rank) };
        assert!((1..=5).all(|elements| path(base.path(), &rank, &rank.square(elements), "json").exists()));
        assert_eq!(fs::metadata(rank.dir(base.path())).unwrap().mode() & 0o777, 0o750);
    }
    assert_eq!(findings(base.path()), 0);

    // A link is no directory of a rank.
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), base.path().join("rank_9")).unwrap();
    let report = Fill { map: "9=9", ..Fill::new() }.run(base.path());
    assert!(unfilled(&report).contains("rank_9"), "{report:?}");
    assert_eq!(DirSnapshot::of(elsewhere.path()).unwrap().paths().count(), 1);
}

#[test]
fn a_rank_that_was_not_scanned_does_not_count_as_missing() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    remove(base.path(), &ranks[1], 1);
    let report = run(&base.path().join("rank_0"));
    assert!(unfilled(&report).contains("was not scanned"));
}

#[test]
fn existing_files_are_not_replaced_by_a_fill() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    remove(base.path(), &ranks[1], 1);
    // A compile in progress stays.
    let info = path(base.path(), &ranks[1], &ranks[1].square(1), "info");
    fs::write(&info, "now").unwrap();
    let report = run(base.path());
    assert!(unfilled(&report).contains("in progress"), "{report:?}");
    fs::remove_file(&info).unwrap();

    // A compile that begins between the scan and the write.
    for suffix in ["info", "o", "json"] {
        let taken = path(base.path(), &ranks[1], &ranks[1].square(1), suffix);
        let begin = || fs::write(&taken, "theirs").unwrap();
        let report = Fill { before: &begin, ..Fill::new() }.run(base.path());
        assert!(unfilled(&report).contains("exists already"), "{report:?}");
        assert_eq!(fs::read(&taken).unwrap(), b"theirs");
        let names = fs::read_dir(ranks[1].dir(base.path())).unwrap().count();
        assert_eq!(names, 4 * 3 + 1 + 1, "nothing else, but for the lock");
        fs::remove_file(taken).unwrap();
    }
    assert_eq!(run(base.path()).filled.len(), 1);
}

#[test]
fn kernels_without_a_device_in_the_name_are_reported() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    let kernel = CachedKernelFiles { stem: "square_12484080525657478220".to_owned(), ..ranks[0].square(1) };
    ranks.iter().for_each(|rank| kernel.write(&rank.dir(base.path())).unwrap());
    let report = run(base.path());
    assert!(report.unfilled.is_empty() && report.filled.is_empty(), "all have it: {report:?}");
    fs::remove_file(path(base.path(), &ranks[1], &kernel, "json")).unwrap();
    assert!(unfilled(&run(base.path())).contains("`square_12484080525657478220`"));
}

#[test]
fn a_source_kernel_that_changes_before_it_is_read_is_not_used() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    remove(base.path(), &ranks[1], 1);
    let object = path(base.path(), &ranks[0], &ranks[0].square(1), "o");
    let change = || fs::write(&object, "changed").unwrap();
    let report = Fill { before: &change, ..Fill::new() }.run(base.path());
    assert!(unfilled(&report).contains("changed since"), "{report:?}");
}

#[test]
fn a_concurrent_writer_of_the_same_kernel_has_precedence() {
    let base = tempfile::tempdir().unwrap();
    let ranks = ranks(base.path(), 2);
    let kernel = ranks[1].square(1);
    let files = [("info", kernel.info.clone().unwrap()), ("o", b"theirs".to_vec()), ("json", b"{}".to_vec())];
    for round in 0..60u32 {
        for suffix in ["json", "o", "info"] {
            let _ = fs::remove_file(path(base.path(), &ranks[1], &kernel, suffix));
        }
        let go = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !go.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                (0..round * 300).for_each(|_| std::hint::spin_loop());
                // In place, as MindSpore and TE write.
                for (suffix, bytes) in &files {
                    let path = path(base.path(), &ranks[1], &kernel, suffix);
                    let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
                    fs::write(path, bytes).unwrap();
                }
            });
            let start = || go.store(true, std::sync::atomic::Ordering::Relaxed);
            Fill { before: &start, ..Fill::new() }.run(base.path());
            start();
        });
        for (suffix, bytes) in &files[1..] {
            assert_eq!(
                fs::read(path(base.path(), &ranks[1], &kernel, suffix)).unwrap(),
                *bytes,
                "{round} {suffix}"
            );
        }
    }
}
