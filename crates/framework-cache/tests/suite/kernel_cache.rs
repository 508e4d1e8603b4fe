//! Making room in CANN's cache: what goes, what stays.
#![expect(clippy::disallowed_methods, reason = "tests make and break caches by hand")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use crate::laid_caches::{Cache, json, run, set_age};
use opkeep_framework_cache::gc::{FileGroupKind, GcProgress, GcReport, LimitSettings};

const HOUR: Duration = Duration::from_secs(3600);

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn counts(report: &GcReport) -> [u64; 5] {
    FileGroupKind::ALL.map(|what| report.removed.count(what))
}

/// What CANN itself would delete: sizes of everything, but only descriptions and objects go.
fn vendors_victims(cache: &Cache, max: u64) -> Vec<String> {
    let mut kernels: Vec<(i64, String, u64)> = Vec::new();
    for name in cache.files() {
        let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.ends_with("_pre")) else { continue };
        let stat = fs::metadata(cache.folder().join(&name)).unwrap();
        let object = fs::metadata(cache.folder().join(format!("{stem}.o"))).map_or(0, |stat| stat.len());
        kernels.push((stat.atime(), stem.to_owned(), stat.len() + object));
    }
    kernels.sort();
    let (total, mut gone) = (cache.bytes(), 0);
    let goal = if total >= max { total - max / 2 } else { 0 };
    let mut victims = Vec::new();
    for (_, stem, bytes) in kernels {
        if gone < goal {
            gone += bytes;
            victims.push(stem);
        }
    }
    victims
}

#[test]
fn what_cann_never_deletes_does_not_cost_the_kernels() {
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
    assert_eq!(vendors_victims(&cache, megabyte).len(), 5, "CANN would delete every kernel");
    let environment = LimitSettings { max_op_cache_size: Some("1".into()), ..LimitSettings::default() };
    let report = run(&cache.place(), |options| options.environment = &environment);
    assert_eq!(counts(&report), [0, 0, 80, 40, 40], "{report:?}");
    for number in 0..5 {
        assert!(cache.has(&format!("te_real_{number}.json")) && cache.has(&format!("te_real_{number}.o")));
    }
    assert!(!report.still_over && cache.bytes() < megabyte);
    assert_eq!(report.after.total().bytes, cache.bytes());

    // If trial compiles alone are too much, they go before any kernel.
    let report = cache.gc(|options| options.max_bytes = Some(60_000));
    assert_eq!(counts(&report)[..2], [0, 39], "{report:?}");
    assert!(cache.has("te_real_4.o"));
    let report = cache.gc(|options| options.max_bytes = Some(45_000));
    assert_eq!(counts(&report)[..2], [1, 1], "{report:?}");
    assert!(!cache.has("te_real_4.o") && cache.has("te_real_3.o"), "the longest unused one");
}

#[test]
fn what_nobody_can_use_goes_although_there_is_room() {
    let rests: [(&str, &[u8]); 11] = [
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
        rests.iter().for_each(|(name, bytes)| cache.put(name, bytes, minutes));
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
    assert_eq!((cache.files(), counts(&report)), (young.clone(), [0; 5]), "half an hour is waited");
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
fn all_of_a_kernel_goes_the_description_first_and_the_object_last() {
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
    let watch = |step: GcProgress<'_>| {
        if let GcProgress::Removed { file, .. } = step {
            assert!(!cache.has(file));
            order.borrow_mut().push(file.to_owned());
        }
    };
    let report = run(&cache.place(), |options| (options.watch, options.older_than) = (&watch, Some(HOUR)));
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
        (report.removed.count(FileGroupKind::Kernel), report.removed.amount(FileGroupKind::Kernel).files),
        (2, 11)
    );
}

#[test]
fn half_an_hour_is_never_undercut() {
    let everything = |cache: &Cache| {
        let first = cache.gc(|options| options.older_than = Some(Duration::ZERO));
        let second = cache.gc(|options| options.max_bytes = Some(0));
        assert!(second.still_over || cache.files().is_empty());
        (first, second)
    };
    let cache = Cache::new();
    cache.kernel("te_used", 10, 29);
    cache.kernel("te_written", 10, 600);
    set_age(&cache.folder().join("te_written.o"), 600, 29);
    cache.kernel("te_described", 10, 600);
    set_age(&cache.folder().join("te_described.json"), 600, 29);
    cache.put("te_trial_pre.json", "{}", 600);
    set_age(&cache.folder().join("te_trial_pre.json"), 29, 600);
    let future = cache.folder().join("te_future.json");
    cache.kernel("te_future", 10, 600);
    let later = std::time::SystemTime::now() + 10 * HOUR;
    fs::File::open(&future).unwrap().set_times(fs::FileTimes::new().set_accessed(later)).unwrap();
    let all = cache.files();
    everything(&cache);
    assert_eq!(cache.files(), all);
    cache.kernel("te_used", 10, 31);
    assert_eq!(everything(&cache).0.removed.count(FileGroupKind::Kernel), 1);
    assert!(!cache.has("te_used.json") && !cache.has("te_used.o") && cache.files().len() == 7);
    // A lock that was just made is somebody's who is about to take it.
    cache.kernel("te_used", 10, 31);
    cache.put("te_used.lock", "", 5);
    everything(&cache);
    assert!(cache.has("te_used.lock") && !cache.has("te_used.o"));
}

#[test]
fn limits_are_canns() {
    let ini = |size: &str| {
        format!(
            "[op_compiler_cache]\nadk_version=7\nops_version=7\nmax_op_cache_size={size}\nremain_cache_size_ratio=25\n"
        )
    };
    let environment =
        LimitSettings { max_op_cache_size: Some("2".into()), remain_cache_size_ratio: Some("75".into()) };
    // Descriptions as long as the rest of 64 KiB, so that 16 kernels are a megabyte to the byte.
    let stock = |cache: &Cache, count: u64| {
        for number in 0..count {
            let stem = format!("te_{number:02}");
            let object = 65_536 - json(&stem).len();
            cache.kernel(&stem, object, 1000 - number);
        }
    };
    let left = |cache: &Cache| cache.files().iter().filter(|name| name.ends_with(".json")).count();
    let gc = |cache: &Cache| run(&cache.place(), |options| options.environment = &environment);

    let cache = Cache::new();
    stock(&cache, 15);
    fs::write(cache.base().join("kernel_cache/op_cache.ini"), ini("1")).unwrap();
    assert_eq!((gc(&cache).removed.count(FileGroupKind::Kernel), left(&cache)), (0, 15), "below the limit");
    stock(&cache, 16);
    let report = gc(&cache);
    assert_eq!(
        (report.removed.count(FileGroupKind::Kernel), left(&cache)),
        (12, 4),
        "as much as the limit: {report:?}"
    );
    assert!(!cache.has("te_11.json") && cache.has("te_12.json"), "the longest unused went");
    assert_eq!(report.limits.unwrap().max_bytes, Some(1 << 20));

    fs::remove_file(cache.base().join("kernel_cache/op_cache.ini")).unwrap();
    stock(&cache, 31);
    assert_eq!(gc(&cache).removed.count(FileGroupKind::Kernel), 0, "2 MB by the environment");
    stock(&cache, 40);
    assert_eq!((gc(&cache).removed.count(FileGroupKind::Kernel), left(&cache)), (16, 24));

    fs::write(cache.base().join("kernel_cache/op_cache.ini"), ini("-1")).unwrap();
    stock(&cache, 40);
    cache.put("te_rest.o", "", 40);
    let report = gc(&cache);
    assert_eq!((counts(&report), report.limits.unwrap().max_bytes), ([0, 0, 1, 0, 0], None), "no aging");
    assert!(!report.still_over);
    let report = cache.gc(|options| options.max_bytes = Some(10 * 65_536));
    assert_eq!(
        (report.removed.count(FileGroupKind::Kernel), left(&cache)),
        (30, 10),
        "unless it is asked for"
    );
    let report = cache.gc(|options| options.max_bytes = Some(10 * 65_536));
    assert_eq!(report.removed.count(FileGroupKind::Kernel), 0, "exactly so much may be there");

    // A file that is no file limits nothing, rather than by default.
    fs::remove_file(cache.base().join("kernel_cache/op_cache.ini")).unwrap();
    fs::create_dir(cache.base().join("kernel_cache/op_cache.ini")).unwrap();
    let report = gc(&cache);
    assert_eq!((report.limits.unwrap().max_bytes, report.notices.len()), (None, 1));
}

#[test]
fn what_is_not_canns_is_counted_and_stays() {
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
    let folder = cache.folder();
    symlink(outside.join("te_x.o"), folder.join("te_link.o")).unwrap();
    symlink(&outside, folder.join("linked")).unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"te_\xff.o")), "x").unwrap();
    set_age(&folder.join(OsStr::from_bytes(b"te_\xff.o")), 900, 900);
    cache.put("tbe.opkeep-quarantine/te_z.o", "kept to be put back", 900);
    let stays = cache.files();
    // A description that leads out of the folder, in several ways.
    cache.put("te_out.json", r#"{"binFileName":"../../outside/te_x","binFileSuffix":".o"}"#, 900);
    cache.put("te_absolute.json", format!(r#"{{"binFileName":"{}/te_x"}}"#, outside.display()), 900);
    cache.put("te_master.json", r#"{"jsonList":[{"jsonFileName":"../../outside/te_y.json"}]}"#, 900);
    let total = cache.bytes();
    let report = cache.gc(|options| (options.older_than, options.max_bytes) = (Some(HOUR), Some(0)));
    assert_eq!(cache.files(), stays);
    assert!(report.still_over);
    assert_eq!(report.unknown_count, 12, "{:?}", report.unknown);
    for name in ["model.o", "te_link.o", "linked", "te_\u{fffd}.o"] {
        assert!(report.unknown.iter().any(|unknown| unknown == name), "{name}: {:?}", report.unknown);
    }
    // A link has a size of its own, which CANN does not count.
    let links: u64 = ["te_link.o", "linked"]
        .map(|name| fs::symlink_metadata(folder.join(name)).unwrap().len())
        .iter()
        .sum();
    assert_eq!(report.before.total().bytes, total - links);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 3);
}

#[test]
fn files_belong_to_the_descriptions_that_name_them() {
    let cache = Cache::new();
    let named =
        |bin: &str| format!(r#"{{"binFileName":"{bin}","binFileSuffix":".o","headerFileSuffix":".h"}}"#);
    // Named otherwise; and an object of its own name that nobody reads.
    cache.put("te_other.json", named("te_elsewhere"), 900);
    for name in ["te_elsewhere.o", "te_elsewhere.h", "te_other.o"] {
        cache.put(name, "x", 900);
    }
    // One object for two, one of them young.
    for (stem, minutes) in [("te_old", 900), ("te_new", 5)] {
        cache.put(&format!("{stem}.json"), named("te_shared"), minutes);
    }
    cache.put("te_shared.o", "x", 900);
    // One that is called after the young one, and is named by an old one, too.
    cache.kernel("te_plain", 10, 5);
    cache.put("te_copy.json", json("te_plain"), 900);
    // A library, by the names that CANN looks for.
    cache.put("te_lib.json", r#"{"binFileName":"te_lib","binFileSuffix":".so"}"#, 900);
    cache.put("libte_lib.so", "x", 900);
    // Recognised by what is in it.
    cache.put("Old_7.json", named("Old_7"), 900);
    cache.put("Old_7.o", "x", 900);
    let all = cache.files();
    let report = cache.gc(|_| {});
    assert_eq!((cache.files(), counts(&report)), (all, [0; 5]), "nothing is an orphan: {report:?}");
    let report = cache.gc(|options| options.older_than = Some(HOUR));
    assert_eq!(cache.files(), names(["te_new.json", "te_plain.json", "te_plain.o", "te_shared.o"]));
    assert_eq!(report.removed.count(FileGroupKind::Kernel), 5);
    set_age(&cache.folder().join("te_plain.json"), 40, 1440);
    set_age(&cache.folder().join("te_new.json"), 40, 40);
    cache.gc(|options| options.older_than = Some(HOUR));
    cache.gc(|options| options.max_bytes = Some(0));
    assert!(cache.files().is_empty(), "{:?}", cache.files());
}

#[test]
fn folders_below_count_and_age_too() {
    let cache = Cache::new();
    cache.kernel("te_top", 1000, 600);
    cache.kernel("sub/deep/te_below", 1000, 700);
    // The description names the object without the folder.
    cache.put("sub/deep/te_below.json", json("te_below"), 700);
    cache.put("sub/te_orphan.o", "x", 700);
    let total = cache.bytes();
    let report = cache.gc(|options| options.max_bytes = Some(1500));
    assert_eq!(report.before.total().bytes, total);
    assert_eq!(counts(&report), [1, 0, 1, 0, 0]);
    assert_eq!(cache.files(), names(["te_top.json", "te_top.o"]));
}

/// Access times are how CANN knows what is used: whoever looks must not change them.
#[test]
fn looking_does_not_count_as_use() {
    let cache = Cache::new();
    cache.kernel("te_a", 10, 6000);
    cache.kernel("te_b", 10, 5000);
    cache.put("te_c.o", "", 3);
    let times = || {
        let time = |name: &String| fs::metadata(cache.folder().join(name)).unwrap().atime();
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

/// A kernel that is used after it was listed stays, and so does one that was replaced.
#[test]
fn what_is_used_meanwhile_stays() {
    let cache = Cache::new();
    for (number, stem) in ["te_0", "te_1", "te_2", "te_3"].into_iter().enumerate() {
        cache.kernel(stem, 10, 900 - number as u64);
    }
    cache.put("te_orphan.o", "x", 600);
    cache.put("te_stored.o", "x", 600);
    cache.put("te_x.o_1_2_3.temp", "x", 600);
    let watch = |step: GcProgress<'_>| {
        if let GcProgress::Removed { file: "te_x.o_1_2_3.temp", .. } = step {
            cache.put("te_stored.json", json("te_stored"), 600);
        }
        if let GcProgress::Removed { file: "te_0.json", .. } = step {
            set_age(&cache.folder().join("te_1.json"), 0, 1440);
            cache.kernel("te_2", 11, 800);
        }
        if let GcProgress::Listed { .. } | GcProgress::Done { done: 0, .. } = step {
            unreachable!("so few files are listed at once");
        }
    };
    let report = run(&cache.place(), |options| (options.older_than, options.watch) = (Some(HOUR), &watch));
    assert_eq!(
        cache.files(),
        names(["te_1.json", "te_1.o", "te_2.json", "te_2.o", "te_stored.json", "te_stored.o"])
    );
    assert_eq!((report.kept.changed, report.removed.count(FileGroupKind::Kernel)), (3, 2), "{report:?}");
}

#[test]
fn whoever_gives_up_has_deleted_only_whole_kernels() {
    let cache = Cache::new();
    (0..6).for_each(|number| cache.kernel(&format!("te_{number}"), 10, 900));
    let removed = RefCell::new(0);
    let watch = |step: GcProgress<'_>| {
        if matches!(step, GcProgress::Removed { .. }) {
            *removed.borrow_mut() += 1;
        }
    };
    let cancelled = || *removed.borrow() >= 3;
    let report = run(&cache.place(), |options| {
        (options.older_than, options.watch, options.cancelled) = (Some(HOUR), &watch, &cancelled);
    });
    assert!(report.cancelled);
    assert_eq!((report.removed.count(FileGroupKind::Kernel), cache.files().len()), (2, 8));
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Random caches against a rule written down anew: which kernels are left, by age and size alone.
#[test]
fn random_caches_are_left_as_the_rule_says() {
    let mut numbers = Numbers(7);
    let (mut evicted, mut kept) = (0, 0);
    for _ in 0..150 {
        let cache = Cache::new();
        // Minutes idle, bytes, stem: all ages different, so that there is one order.
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
        let (mut rests, mut foreign) = (0, 0);
        for number in 0..numbers.below(4) {
            let age = numbers.below(60);
            cache.put(&format!("te_rest_{number}.o"), vec![0; 500], age);
            rests += if age >= 30 { 0 } else { 500 };
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
            kernels.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + rests + foreign
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
    assert!(evicted > 200 && kept > 200, "{evicted} went, {kept} stayed");
}
