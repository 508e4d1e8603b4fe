//! The deletion of unused files in CANN's cache.
#![expect(clippy::disallowed_methods, reason = "tests make and break caches by hand")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use crate::common::{Cache, json, run, set_age};
use opkeep_cann_cache::{FileGroupKind, GcError, GcOptions, GcProgress, GcReport};
use opkeep_store::LimitSettings;

const HOUR: Duration = Duration::from_secs(3600);

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn counts(report: &GcReport) -> [u64; 5] {
    FileGroupKind::ALL.map(|kind| report.removed.count(kind))
}

/// The kernels that CANN itself would evict: it counts every file, and deletes only descriptions and objects.
fn evicted_by_cann(cache: &Cache, max: u64) -> Vec<String> {
    let mut kernels: Vec<(i64, String, u64)> = Vec::new();
    for name in cache.files() {
        let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.ends_with("_pre")) else { continue };
        let stat = fs::metadata(cache.dir().join(&name)).unwrap();
        let object = fs::metadata(cache.dir().join(format!("{stem}.o"))).map_or(0, |stat| stat.len());
        kernels.push((stat.atime(), stem.to_owned(), stat.len() + object));
    }
    kernels.sort();
    let (total, mut gone) = (cache.bytes(), 0);
    let goal = if total >= max { total - max / 2 } else { 0 };
    let mut evicted_stems = Vec::new();
    for (_, stem, bytes) in kernels {
        if gone < goal {
            gone += bytes;
            evicted_stems.push(stem);
        }
    }
    evicted_stems
}

#[test]
fn files_that_cann_never_deletes_do_not_cost_kernels() {
    let cache = Cache::new();
    for number in 0..5 {
        cache.kernel(&format!("te_real_{number}"), 10_000, 600 + number);
        cache.put(&format!("te_real_{number}.lock"), "", 600);
    }
    for number in 0..40 {
        cache.put(&format!("te_gone_{number}_pre.json"), vec![b' '; 5_000], 40);
        cache.put(&format!("te_dead_{number}.lock"), "", 600);
        cache.put(&format!("te_gone_{number}.o_12_34_{number}.temp"), vec![0; 5_000], 600);
        cache.put(&format!("te_gone_{number}.h"), vec![0; 1_000], 600);
        cache.put(&format!("te_lost_{number}.o"), vec![0; 15_000], 600);
    }
    let megabyte = 1 << 20;
    assert_eq!(evicted_by_cann(&cache, megabyte).len(), 5, "CANN would delete every kernel");
    let environment = LimitSettings::new().with_size(1);
    let report = run(&cache.dir(), |options| options.environment = &environment);
    assert_eq!(counts(&report), [0, 0, 80, 40, 40], "{report:?}");
    for number in 0..5 {
        assert!(cache.has(&format!("te_real_{number}.json")) && cache.has(&format!("te_real_{number}.o")));
    }
    assert!(!report.still_over && cache.bytes() < megabyte);
    assert_eq!(report.after.total().bytes, cache.bytes());

    // If the precompiles alone exceed the limit, they are deleted before any kernel.
    let report = cache.gc(|options| options.max_bytes = Some(60_000));
    assert_eq!(counts(&report)[..2], [0, 39], "{report:?}");
    assert!(cache.has("te_real_4.o"));
    let report = cache.gc(|options| options.max_bytes = Some(45_000));
    assert_eq!(counts(&report)[..2], [1, 1], "{report:?}");
    assert!(!cache.has("te_real_4.o") && cache.has("te_real_3.o"), "the longest idle one");
}

#[test]
fn useless_files_are_deleted_below_the_limit() {
    let useless: [(&str, &[u8]); 11] = [
        ("te_object.o", b"x"),
        ("te_library.so", b"x"),
        ("te_header.h", b"x"),
        ("te_torn.json", b"{\"binFileName\":\"te_to"),
        ("te_empty.json", b""),
        ("te_side_mix_aic.json", b"{\"binFileName\":\"te_side_mix_aic\",\"binFileSuffix\":\".o\"}"),
        ("te_side_mix_aic.o", b"x"),
        ("te_half_mix_aiv.o", b"x"),
        ("te_x.json_1_2_3.temp", b"x"),
        ("te_dead.lock", b""),
        ("te_dead_pre.lock", b""),
    ];
    let cache = Cache::new();
    let fill = |minutes| {
        useless.iter().for_each(|(name, bytes)| cache.put(name, bytes, minutes));
        cache.put("te_alone.json", json("te_alone"), minutes);
    };
    cache.kernel("te_whole", 10, 3);
    cache.put("te_whole_pre.json", "{}", 900);
    cache.put("te_trial_pre.json", "{}", 900);
    cache.put("te_trial_pre.lock", "", 900);
    let whole = cache.files();
    fill(29);
    let young = cache.files();
    let report = cache.gc(|_| {});
    assert_eq!((cache.files(), counts(&report)), (young.clone(), [0; 5]), "nothing within half an hour");
    fill(31);
    let dry = cache.gc(|options| options.dry_run = true);
    assert_eq!(cache.files(), young, "a dry run changes nothing");
    let report = cache.gc(|_| {});
    assert_eq!(cache.files(), whole);
    assert_eq!(counts(&report), [0, 0, 8, 1, 2], "{report:?}");
    assert_eq!(
        (counts(&dry), dry.removed, dry.after.total()),
        (counts(&report), report.removed, dry.after.total())
    );
    assert_eq!((report.before.total().bytes - report.removed.total().bytes), cache.bytes());
    assert_eq!(report.failed, 0);
}

#[test]
fn a_kernel_is_deleted_completely_the_description_first_and_the_object_last() {
    let cache = Cache::new();
    cache.kernel("te_a", 100, 700);
    for (name, minutes) in
        [("te_a.h", 900), ("te_a_pre.json", 900), ("te_a.lock", 900), ("te_a_pre.lock", 900)]
    {
        cache.put(name, "", minutes);
    }
    let master = r#"{"jsonList":[{"coreType":"AIC","jsonFileName":"te_m_mix_aic.json"},
        {"coreType":"AIV","jsonFileName":"te_m_mix_aiv.json"}]}"#;
    cache.put("te_m.json", master, 600);
    for side in ["te_m_mix_aic", "te_m_mix_aiv"] {
        cache.kernel(side, 100, 600);
    }
    cache.kernel("te_young", 100, 10);
    let order = RefCell::new(Vec::new());
    let progress = |step: GcProgress<'_>| {
        if let GcProgress::Removed { file, .. } = step {
            assert!(!cache.has(file));
            order.borrow_mut().push(file.to_owned());
        }
    };
    let report =
        run(&cache.dir(), |options| (options.progress, options.older_than) = (&progress, Some(HOUR)));
    let expected = [
        ["te_a.json", "te_a.h", "te_a_pre.json", "te_a.o"].as_slice(),
        &["te_m.json", "te_m_mix_aic.json", "te_m_mix_aiv.json", "te_m_mix_aic.o", "te_m_mix_aiv.o"],
    ];
    let order = order.into_inner();
    let data: Vec<&str> = order.iter().map(String::as_str).filter(|name| !name.ends_with(".lock")).collect();
    assert_eq!(data, expected.concat());
    assert_eq!(
        order[4..6].iter().filter(|name| name.ends_with(".lock")).count(),
        2,
        "then the locks: {order:?}"
    );
    assert_eq!(cache.files(), names(["te_young.json", "te_young.o"]));
    assert_eq!(
        (report.removed.count(FileGroupKind::Kernel), report.removed.totals(FileGroupKind::Kernel).files),
        (2, 11)
    );
}

#[test]
fn nothing_is_deleted_within_half_an_hour() {
    let everything = |cache: &Cache| {
        let first = cache.gc(|options| options.older_than = Some(Duration::ZERO));
        let second = cache.gc(|options| options.max_bytes = Some(0));
        assert!(second.still_over || cache.files().is_empty());
        (first, second)
    };
    let cache = Cache::new();
    cache.kernel("te_used", 10, 29);
    cache.kernel("te_written", 10, 600);
    set_age(&cache.dir().join("te_written.o"), 600, 29);
    cache.kernel("te_described", 10, 600);
    set_age(&cache.dir().join("te_described.json"), 600, 29);
    cache.put("te_trial_pre.json", "{}", 600);
    set_age(&cache.dir().join("te_trial_pre.json"), 29, 600);
    let future = cache.dir().join("te_future.json");
    cache.kernel("te_future", 10, 600);
    let later = std::time::SystemTime::now() + 10 * HOUR;
    fs::File::open(&future).unwrap().set_times(fs::FileTimes::new().set_accessed(later)).unwrap();
    let all = cache.files();
    everything(&cache);
    assert_eq!(cache.files(), all);
    cache.kernel("te_used", 10, 31);
    assert_eq!(everything(&cache).0.removed.count(FileGroupKind::Kernel), 1);
    assert!(!cache.has("te_used.json") && !cache.has("te_used.o") && cache.files().len() == 7);
    // A new lock file belongs to a process that is about to lock it.
    cache.kernel("te_used", 10, 31);
    cache.put("te_used.lock", "", 5);
    everything(&cache);
    assert!(cache.has("te_used.lock") && !cache.has("te_used.o"));
}

#[test]
fn the_limits_of_cann_are_applied() {
    let ini = |size: &str| {
        format!(
            "[op_compiler_cache]\nadk_version=7\nops_version=7\nmax_op_cache_size={size}\nremain_cache_size_ratio=25\n"
        )
    };
    let environment = LimitSettings::new().with_size(2).with_ratio(75);
    // Object and description have 64 KiB together, so 16 kernels have exactly a megabyte.
    let fill = |cache: &Cache, count: u64| {
        for number in 0..count {
            let stem = format!("te_{number:02}");
            let object = 65_536 - json(&stem).len();
            cache.kernel(&stem, object, 1000 - number);
        }
    };
    let left = |cache: &Cache| cache.files().iter().filter(|name| name.ends_with(".json")).count();
    let gc = |cache: &Cache| run(&cache.dir(), |options| options.environment = &environment);

    let cache = Cache::new();
    fill(&cache, 15);
    fs::write(cache.base().join("kernel_cache/op_cache.ini"), ini("1")).unwrap();
    assert_eq!((gc(&cache).removed.count(FileGroupKind::Kernel), left(&cache)), (0, 15), "below the limit");
    fill(&cache, 16);
    let report = gc(&cache);
    assert_eq!(
        (report.removed.count(FileGroupKind::Kernel), left(&cache)),
        (12, 4),
        "as much as the limit: {report:?}"
    );
    assert!(!cache.has("te_11.json") && cache.has("te_12.json"), "the longest idle ones");
    assert_eq!(report.limits.unwrap().max_bytes, Some(1 << 20));

    fs::remove_file(cache.base().join("kernel_cache/op_cache.ini")).unwrap();
    fill(&cache, 31);
    assert_eq!(gc(&cache).removed.count(FileGroupKind::Kernel), 0, "2 MB by the environment");
    fill(&cache, 40);
    assert_eq!((gc(&cache).removed.count(FileGroupKind::Kernel), left(&cache)), (16, 24));

    fs::write(cache.base().join("kernel_cache/op_cache.ini"), ini("-1")).unwrap();
    fill(&cache, 40);
    cache.put("te_rest.o", "", 40);
    let report = gc(&cache);
    assert_eq!((counts(&report), report.limits.unwrap().max_bytes), ([0, 0, 1, 0, 0], None), "no aging");
    assert!(!report.still_over);
    let report = cache.gc(|options| options.max_bytes = Some(10 * 65_536));
    assert_eq!(
        (report.removed.count(FileGroupKind::Kernel), left(&cache)),
        (30, 10),
        "unless a size is given"
    );
    let report = cache.gc(|options| options.max_bytes = Some(10 * 65_536));
    assert_eq!(report.removed.count(FileGroupKind::Kernel), 0, "exactly this size is within the limit");

    // A file that cannot be read sets no limit, not even the default.
    fs::remove_file(cache.base().join("kernel_cache/op_cache.ini")).unwrap();
    fs::create_dir(cache.base().join("kernel_cache/op_cache.ini")).unwrap();
    let report = gc(&cache);
    assert_eq!((report.limits.unwrap().max_bytes, report.warnings.len()), (None, 1));
}

#[test]
fn unknown_files_are_counted_and_stay() {
    let cache = Cache::new();
    let outside = cache.base().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["te_x.o", "te_y.o", "te_y.json"] {
        fs::write(outside.join(name), "precious").unwrap();
        set_age(&outside.join(name), 900, 900);
    }
    for name in [
        "notes.txt",
        "model.o",
        "config.json",
        "my.lock",
        "my.temp",
        "README",
        "x_pre.json",
        "te_.tmp",
        "my.h",
    ] {
        cache.put(name, "{}", 900);
    }
    let dir = cache.dir();
    symlink(outside.join("te_x.o"), dir.join("te_link.o")).unwrap();
    symlink(&outside, dir.join("linked")).unwrap();
    fs::write(dir.join(OsStr::from_bytes(b"te_\xff.o")), "x").unwrap();
    set_age(&dir.join(OsStr::from_bytes(b"te_\xff.o")), 900, 900);
    cache.put("tbe.opkeep-quarantine/te_z.o", "kept to be restored", 900);
    let stays = cache.files();
    // Descriptions that name files outside the directory.
    cache.put("te_out.json", r#"{"binFileName":"../../outside/te_x","binFileSuffix":".o"}"#, 900);
    cache.put("te_absolute.json", format!(r#"{{"binFileName":"{}/te_x"}}"#, outside.display()), 900);
    cache.put("te_master.json", r#"{"jsonList":[{"jsonFileName":"../../outside/te_y.json"}]}"#, 900);
    let total = cache.bytes();
    let report = cache.gc(|options| (options.older_than, options.max_bytes) = (Some(HOUR), Some(0)));
    assert_eq!(cache.files(), stays);
    assert!(report.still_over);
    assert_eq!(report.unknown_count, 12, "{:?}", report.unknown);
    assert!(report.unknown.is_sorted(), "{:?}", report.unknown);
    for name in ["model.o", "te_link.o", "linked", "te_\u{fffd}.o"] {
        assert!(report.unknown.iter().any(|unknown| unknown == name), "{name}: {:?}", report.unknown);
    }
    // CANN does not count the sizes of links.
    let links: u64 =
        ["te_link.o", "linked"].map(|name| fs::symlink_metadata(dir.join(name)).unwrap().len()).iter().sum();
    assert_eq!(report.before.total().bytes, total - links);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 3);
}

#[test]
fn files_belong_to_the_descriptions_that_name_them() {
    let cache = Cache::new();
    let named =
        |bin: &str| format!(r#"{{"binFileName":"{bin}","binFileSuffix":".o","headerFileSuffix":".h"}}"#);
    // The object has another name, and the object with the own name is not read.
    cache.put("te_other.json", named("te_elsewhere"), 900);
    for name in ["te_elsewhere.o", "te_elsewhere.h", "te_other.o"] {
        cache.put(name, "x", 900);
    }
    // One object for two kernels, one of them in use.
    for (stem, minutes) in [("te_old", 900), ("te_new", 5)] {
        cache.put(&format!("{stem}.json"), named("te_shared"), minutes);
    }
    cache.put("te_shared.o", "x", 900);
    // The object of a kernel in use, which the description of an idle one names, too.
    cache.kernel("te_plain", 10, 5);
    cache.put("te_copy.json", json("te_plain"), 900);
    // A library, with one of the names that CANN tries.
    cache.put("te_lib.json", r#"{"binFileName":"te_lib","binFileSuffix":".so"}"#, 900);
    cache.put("libte_lib.so", "x", 900);
    // Recognised by its content.
    cache.put("Old_7.json", named("Old_7"), 900);
    cache.put("Old_7.o", "x", 900);
    let all = cache.files();
    let report = cache.gc(|_| {});
    assert_eq!((cache.files(), counts(&report)), (all, [0; 5]), "no file is an orphan: {report:?}");
    let report = cache.gc(|options| options.older_than = Some(HOUR));
    assert_eq!(cache.files(), names(["te_new.json", "te_plain.json", "te_plain.o", "te_shared.o"]));
    assert_eq!(report.removed.count(FileGroupKind::Kernel), 5);
    set_age(&cache.dir().join("te_plain.json"), 40, 1440);
    set_age(&cache.dir().join("te_new.json"), 40, 40);
    cache.gc(|options| options.older_than = Some(HOUR));
    cache.gc(|options| options.max_bytes = Some(0));
    assert!(cache.files().is_empty(), "{:?}", cache.files());
}

#[test]
fn files_that_a_linked_description_may_name_stay() {
    let cache = Cache::new();
    cache.put("te_b.o", "x", 900);
    let elsewhere = cache.base().join("elsewhere");
    fs::write(&elsewhere, json("te_b")).unwrap();
    symlink(&elsewhere, cache.dir().join("te_a.json")).unwrap();
    cache.gc(|_| {});
    assert!(cache.has("te_b.o"));
    fs::remove_file(cache.dir().join("te_a.json")).unwrap();
    cache.gc(|_| {});
    assert!(!cache.has("te_b.o"));
}

#[test]
fn a_quarantine_is_not_collected() {
    let cache = Cache::new();
    cache.put("te_a.opkeep-quarantine/run/te_b.o", "x", 900);
    let environment = LimitSettings::new();
    for below in ["te_a.opkeep-quarantine", "te_a.opkeep-quarantine/run"] {
        let error =
            opkeep_cann_cache::gc(&cache.dir().join(below), &GcOptions::new(&environment)).unwrap_err();
        assert!(matches!(error, GcError::Quarantine), "{error:?}");
    }
    assert!(cache.has("te_a.opkeep-quarantine/run/te_b.o"));
}

#[test]
fn directories_below_are_collected_too() {
    let cache = Cache::new();
    cache.kernel("te_top", 1000, 600);
    cache.kernel("sub/deep/te_below", 1000, 700);
    // The description names the object without its directory.
    cache.put("sub/deep/te_below.json", json("te_below"), 700);
    cache.put("sub/te_orphan.o", "x", 700);
    let total = cache.bytes();
    let report = cache.gc(|options| options.max_bytes = Some(1500));
    assert_eq!(report.before.total().bytes, total);
    assert_eq!(counts(&report), [1, 0, 1, 0, 0]);
    assert_eq!(cache.files(), names(["te_top.json", "te_top.o"]));
}

/// CANN knows by access times which kernels are used, so a collection must not change them.
#[test]
fn reading_does_not_count_as_use() {
    let cache = Cache::new();
    cache.kernel("te_a", 10, 6000);
    cache.kernel("te_b", 10, 5000);
    cache.put("te_c.o", "", 3);
    let times = || {
        let time = |name: &String| fs::metadata(cache.dir().join(name)).unwrap().atime();
        cache.files().iter().map(time).collect::<Vec<_>>()
    };
    let before = times();
    for dry_run in [true, false] {
        cache.gc(|options| (options.max_bytes, options.dry_run) = (Some(1 << 20), dry_run));
        cache.gc(|options| (options.older_than, options.dry_run) = (Some(5000 * HOUR), dry_run));
    }
    assert_eq!(times(), before);
    assert_eq!(cache.gc(|options| options.max_bytes = Some(10)).removed.count(FileGroupKind::Kernel), 2);
}

/// A kernel that is used, or replaced, after it was listed stays.
#[test]
fn kernels_that_are_used_meanwhile_stay() {
    let cache = Cache::new();
    for (number, stem) in ["te_0", "te_1", "te_2", "te_3"].into_iter().enumerate() {
        cache.kernel(stem, 10, 900 - number as u64);
    }
    cache.put("te_orphan.o", "x", 600);
    cache.put("te_stored.o", "x", 600);
    cache.put("te_x.o_1_2_3.temp", "x", 600);
    let progress = |step: GcProgress<'_>| {
        if let GcProgress::Removed { file: "te_x.o_1_2_3.temp", .. } = step {
            cache.put("te_stored.json", json("te_stored"), 600);
        }
        if let GcProgress::Removed { file: "te_0.json", .. } = step {
            set_age(&cache.dir().join("te_1.json"), 0, 1440);
            cache.kernel("te_2", 11, 800);
        }
        if let GcProgress::Listed { .. } | GcProgress::Done { done: 0, .. } = step {
            unreachable!("so few files are listed at once");
        }
    };
    let report =
        run(&cache.dir(), |options| (options.older_than, options.progress) = (Some(HOUR), &progress));
    assert_eq!(
        cache.files(),
        names(["te_1.json", "te_1.o", "te_2.json", "te_2.o", "te_stored.json", "te_stored.o"])
    );
    assert_eq!((report.in_use.changed, report.removed.count(FileGroupKind::Kernel)), (3, 2), "{report:?}");
}

#[test]
fn a_cancelled_collection_deletes_only_complete_kernels() {
    let cache = Cache::new();
    (0..6).for_each(|number| cache.kernel(&format!("te_{number}"), 10, 900));
    let removed = RefCell::new(0);
    let progress = |step: GcProgress<'_>| {
        if matches!(step, GcProgress::Removed { .. }) {
            *removed.borrow_mut() += 1;
        }
    };
    let cancelled = || *removed.borrow() >= 3;
    let report = run(&cache.dir(), |options| {
        (options.older_than, options.progress, options.is_cancelled) = (Some(HOUR), &progress, &cancelled);
    });
    assert!(report.cancelled);
    assert_eq!((report.removed.count(FileGroupKind::Kernel), cache.files().len()), (2, 8));
}

/// Pseudo-random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Random caches beside a second implementation of the rule, by age and size alone.
#[test]
fn random_caches_are_collected_by_the_rule() {
    let mut numbers = Numbers(7);
    let (mut evicted, mut kept) = (0, 0);
    for _ in 0..150 {
        let cache = Cache::new();
        // Minutes idle, bytes, stem. All ages differ, so that the order is defined.
        let mut ages: Vec<u64> = (0..100).map(|step| 1 + step).collect();
        let mut kernels = Vec::new();
        for number in 0..numbers.below(14) {
            let age = ages.swap_remove(usize::try_from(numbers.below(ages.len() as u64)).unwrap());
            let stem = format!("te_{number}");
            let size = numbers.below(3000);
            cache.kernel(&stem, usize::try_from(size).unwrap(), age);
            let mut bytes = size + json(&stem).len() as u64;
            if numbers.below(3) == 0 {
                cache.put(&format!("{stem}_pre.json"), vec![b' '; 700], 1440);
                bytes += 700;
            }
            if numbers.below(3) == 0 {
                cache.put(&format!("{stem}.h"), vec![b' '; 90], 1440);
                cache.put(&format!("{stem}.lock"), "", 1440);
                bytes += 90;
            }
            kernels.push((age, bytes, stem));
        }
        let (mut orphans, mut foreign) = (0, 0);
        for number in 0..numbers.below(4) {
            let age = numbers.below(60);
            cache.put(&format!("te_orphan_{number}.o"), vec![0; 500], age);
            orphans += if age >= 30 { 0 } else { 500 };
        }
        if numbers.below(3) == 0 {
            cache.put("note.txt", vec![0; 800], 900);
            foreign = 800;
        }
        let max = numbers.below(16_000);
        let older = (numbers.below(2) == 0).then(|| numbers.below(120));

        let floor = |minutes: u64| minutes.max(30);
        kernels.sort_by_key(|(age, ..)| std::cmp::Reverse(*age));
        kernels.retain(|(age, ..)| older.is_none_or(|older| *age < floor(older)));
        let total = |kernels: &[(u64, u64, String)]| -> u64 {
            kernels.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + orphans + foreign
        };
        while total(&kernels) > max && kernels.first().is_some_and(|(age, ..)| *age >= 30) {
            kernels.remove(0);
        }
        let expected: BTreeSet<&str> = kernels.iter().map(|(.., stem)| stem.as_str()).collect();

        let before = cache.files().iter().filter(|name| name.ends_with(".h") || name.ends_with(".o")).count();
        let report = cache.gc(|options| {
            options.max_bytes = Some(max);
            options.older_than = older.map(|minutes| Duration::from_secs(60 * minutes));
        });
        let files = cache.files();
        let left: BTreeSet<&str> = files
            .iter()
            .filter(|name| !name.ends_with("_pre.json"))
            .filter_map(|name| name.strip_suffix(".json"))
            .collect();
        assert_eq!(left, expected, "of {before} files, {max} bytes, {older:?}: {report:?}");
        assert_eq!(cache.bytes(), total(&kernels), "{files:?}");
        assert_eq!(report.after.total().bytes, cache.bytes());
        assert_eq!(report.still_over, cache.bytes() > max);
        evicted += report.removed.count(FileGroupKind::Kernel);
        kept += left.len();
    }
    assert!(evicted > 200 && kept > 200, "{evicted} deleted, {kept} kept");
}
