//! The findings about caches of frameworks.

use libtest_mimic::Trial;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use opkeep_descriptor::Generation;
use opkeep_framework_cache::scan::{
    CacheDir, CacheScan, Effect, InUse, Item, ItemKind, ItemProblem, ItemState, Kind, Note, Orphan,
    ScanOptions, compare, find, scan,
};
use opkeep_testkit::caches::{Rank, age, cann_kernel};

fn options() -> ScanOptions<'static> {
    ScanOptions::new(NonZeroUsize::new(2).unwrap())
}

fn scan_of(place: &CacheDir) -> CacheScan {
    scan(place, &options()).unwrap()
}

/// The only cache below `base`.
fn only(base: &Path) -> CacheScan {
    let places = find(base).unwrap().caches;
    assert_eq!(places.len(), 1, "{places:?}");
    scan_of(&places[0])
}

fn findings(scan: &CacheScan) -> Vec<&Item> {
    scan.items.iter().filter(|item| item.is_finding()).collect()
}

fn intact_caches_have_no_findings() {
    let base = tempfile::tempdir().unwrap();
    for generation in [Generation::R1_5, Generation::R1_6, Generation::R1_7, Generation::R2_1] {
        let rank = Rank { generation, ..Rank::new(generation as u32) };
        for elements in 1..=5 {
            rank.square(elements).write(&rank.dir(base.path())).unwrap();
        }
    }
    for number in 0..4 {
        cann_kernel("Ascend910B2", number)
            .write(&base.path().join("atc_data/kernel_cache/Ascend910B2"))
            .unwrap();
    }
    let places = find(base.path()).unwrap().caches;
    assert_eq!(places.len(), 5);
    for place in &places {
        let scan = scan_of(place);
        let intact: Vec<_> =
            scan.items.iter().map(|item| (&item.name, item.state_name(), &item.notes)).collect();
        assert!(scan.items.iter().all(|item| matches!(item.state, ItemState::Intact)), "{intact:?}");
        assert!(scan.items.iter().all(|item| item.kernel.is_some() && item.behavior.effect == Effect::Used));
        assert_eq!(scan.items.len(), if place.kind == Kind::Cann { 4 } else { 5 });
        let named = |note: &Note| matches!(note, Note::DescriptorName { .. });
        assert!(!scan.items.iter().flat_map(|item| &item.notes).any(named), "{intact:?}");
    }
    assert_eq!(places.iter().filter_map(|place| place.rank.clone()).collect::<Vec<_>>().len(), 4);
    assert!(places[1..].iter().all(|place| place.base().as_deref() == Some(base.path())));
}

/// A cache with three intact kernels, for tests to damage.
fn broken(harm: impl FnOnce(&Path, &str)) -> (tempfile::TempDir, CacheScan) {
    let base = tempfile::tempdir().unwrap();
    let rank = Rank::new(0);
    let dir = rank.dir(base.path());
    let kernels: Vec<_> = (1..=3).map(|elements| rank.square(elements)).collect();
    kernels.iter().for_each(|kernel| kernel.write(&dir).unwrap());
    harm(&dir, &kernels[0].stem);
    for file in fs::read_dir(&dir).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            age(&path).unwrap();
        }
    }
    let scan = only(base.path());
    (base, scan)
}

fn problems_are_reported_with_their_effects() {
    type Harm = fn(&Path, &str);
    let json = |dir: &Path, stem: &str| dir.join(format!("{stem}.json"));
    let cut: Harm = |dir, stem| {
        let path = dir.join(format!("{stem}.json"));
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..100]).unwrap();
    };
    let empty: Harm = |dir, stem| fs::write(dir.join(format!("{stem}.json")), "").unwrap();
    let no_object: Harm = |dir, stem| fs::remove_file(dir.join(format!("{stem}.o"))).unwrap();
    let no_json: Harm = |dir, stem| fs::remove_file(dir.join(format!("{stem}.json"))).unwrap();
    let cut_object: Harm = |dir, stem| {
        let path = dir.join(format!("{stem}.o"));
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    };
    for (harm, state, effect, says) in [
        (cut, "damaged", Effect::Aborts, "cut off"),
        (empty, "damaged", Effect::Aborts, "empty"),
        (no_object, "damaged", Effect::CompiledAgain, "missing"),
        (cut_object, "damaged", Effect::CompiledAgain, "OPV005"),
        (no_json, "orphan", Effect::CompiledAgain, "without its .json"),
    ] {
        let (base, scan) = broken(harm);
        let found = findings(&scan);
        assert_eq!(found.len(), 1, "{says}: {:?}", scan.items);
        let text = match &found[0].state {
            ItemState::Damaged(flaws) => flaws[0].to_string(),
            ItemState::Orphan(orphan) => orphan.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(text.contains(says), "{text}");
        assert_eq!((found[0].state_name(), found[0].behavior.effect), (state, effect), "{says}");
        assert_eq!(scan.items.iter().filter(|item| item.kernel.is_some()).count(), 2);
        // A file that was just written may be in progress.
        let path =
            [json(&scan.cache.path, &found[0].name), scan.cache.path.join(format!("{}.o", found[0].name))];
        let there = path.iter().find(|path| path.exists()).unwrap();
        let bytes = fs::read(there).unwrap();
        fs::write(there, bytes).unwrap();
        let scan = only(base.path());
        let wrong = scan.items.iter().find(|item| item.kernel.is_none()).unwrap();
        assert!(matches!(wrong.in_use, Some(InUse::RecentlyWritten { .. })), "{wrong:?}");
        assert!(!wrong.is_finding() && wrong.state_name() == "in progress");
    }
}

fn a_kernel_that_a_process_has_open_is_in_progress() {
    let (base, _survey) = broken(|dir, stem| fs::remove_file(dir.join(format!("{stem}.json"))).unwrap());
    let object =
        fs::read_dir(base.path().join("rank_0/kernel_meta")).unwrap().map(|file| file.unwrap().path());
    let alone = object
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "o") && !path.with_extension("json").exists());
    let file = fs::File::open(alone.unwrap()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
    let scan = only(base.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let wrong = scan.items.iter().find(|item| item.kernel.is_none()).unwrap();
    assert_eq!(wrong.in_use, Some(InUse::Open { process: child.id() }));
    assert_eq!(findings(&only(base.path())).len(), 1);
}

fn foreign_files_are_counted_and_ignored() {
    let (_base, scan) = broken(|dir, stem| {
        fs::write(dir.join("file.lock"), "").unwrap();
        fs::write(dir.join("not_support_fusion_op.cache"), "a\n").unwrap();
        fs::write(dir.join(format!("{stem}_loc.json")), "{").unwrap();
        fs::write(dir.join("README"), "").unwrap();
        fs::write(dir.join("fusion_result.json"), "{\"a\": 1}").unwrap();
        fs::create_dir(dir.join("tbe_prebuild_res")).unwrap();
        fs::write(dir.join("tbe_prebuild_res/a.json"), "{}").unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.join("link.json")).unwrap();
    });
    assert!(findings(&scan).is_empty(), "{:?}", scan.items);
    assert_eq!((scan.known, scan.skipped, scan.foreign_count), (3, 1, 2), "{:?}", scan.foreign);
    let record = scan.items.iter().find(|item| item.kind == ItemKind::OtherJson).unwrap();
    assert_eq!((record.name.as_str(), record.behavior.effect), ("fusion_result", Effect::Ignored));
}

fn precompiles_are_judged_too() {
    let (_base, scan) = broken(|dir, _| {
        fs::create_dir(dir.join("tbe_prebuild_res")).unwrap();
        fs::write(dir.join("tbe_prebuild_res/a.json"), "").unwrap();
        age(&dir.join("tbe_prebuild_res/a.json")).unwrap();
    });
    let found = findings(&scan);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind, found[0].below), (ItemKind::Precompile, Some("tbe_prebuild_res")));
    assert!(
        matches!(&found[0].state, ItemState::Damaged(flaws) if matches!(flaws[..], [ItemProblem::EmptyJson]))
    );
}

fn in_the_cache_of_cann_orphans_block_their_keys() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    let kernels: Vec<_> = (0..6).map(|number| cann_kernel("Ascend910B2", number)).collect();
    kernels.iter().for_each(|kernel| kernel.write(&dir).unwrap());
    let stem = |at: usize| &kernels[at].stem;
    fs::remove_file(dir.join(format!("{}.json", stem(0)))).unwrap();
    fs::remove_file(dir.join(format!("{}.o", stem(1)))).unwrap();
    for (name, bytes) in [
        (format!("{}_pre.json", stem(2)), "{\"pattern\": "),
        (format!("{}_pre.json", stem(3)), "{\"pattern\": \"Opaque\"}"),
        (format!("{}.lock", stem(3)), ""),
        ("te_gone_00.lock".to_owned(), ""),
        (format!("{}.o_7_12_3.temp", stem(4)), "half"),
    ] {
        fs::write(dir.join(&name), bytes).unwrap();
        age(&dir.join(&name)).unwrap();
    }
    let scan = only(base.path());
    let mut found: Vec<_> = findings(&scan)
        .into_iter()
        .map(|item| (item.kind, item.state_name(), item.behavior.effect))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            (ItemKind::Kernel, "damaged", Effect::RecompiledEveryTime),
            (ItemKind::Kernel, "orphan", Effect::RecompiledEveryTime),
            (ItemKind::Precompile, "damaged", Effect::CompiledAgain),
            (ItemKind::Temp, "orphan", Effect::Ignored),
            (ItemKind::Lock, "orphan", Effect::Ignored),
        ]
    );
    assert!(scan.items.iter().any(|item| matches!(item.state, ItemState::Orphan(Orphan::StaleLock))));
}

fn kernels_that_ranks_lack_are_reported_by_name() {
    for generation in [Generation::R1_6, Generation::R1_7, Generation::R2_1] {
        let base = tempfile::tempdir().unwrap();
        let ranks: Vec<_> = [0, 1, 2, 10].map(|rank| Rank { generation, ..Rank::new(rank) }).into();
        for rank in &ranks {
            (1..=4).for_each(|elements| rank.square(elements).write(&rank.dir(base.path())).unwrap());
        }
        let surveys = || -> Vec<_> { find(base.path()).unwrap().caches.iter().map(scan_of).collect() };
        let lacks = |surveys: &[CacheScan]| -> Vec<(String, usize, usize)> {
            let compared = compare(surveys).remove(0);
            assert_eq!((compared.base.as_path(), compared.kernels), (base.path(), 4));
            compared.ranks.into_iter().map(|rank| (rank.rank, rank.has, rank.lacks.len())).collect()
        };
        let of = |rank: &str, has| (rank.to_owned(), has, 4 - has);
        assert_eq!(lacks(&surveys()), [of("0", 4), of("1", 4), of("2", 4), of("10", 4)], "{generation}");
        // A damaged kernel counts as missing; a rank may lack all kernels.
        let of_1 = ranks[1].square(2).stem;
        fs::write(ranks[1].dir(base.path()).join(format!("{of_1}.json")), "").unwrap();
        fs::remove_dir_all(ranks[2].dir(base.path())).unwrap();
        let surveys = surveys();
        assert_eq!(lacks(&surveys), [of("0", 4), of("1", 3), of("2", 0), of("10", 4)], "{generation}");
        let lack = compare(&surveys).remove(0).ranks[1].lacks[0].clone();
        assert_eq!((lack.name, lack.in_rank.as_str()), (ranks[0].square(2).stem, "0"));
    }
}

/// CANN evicts by access times, so a scan must not change them.
fn a_scan_leaves_access_times_unchanged() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    let times = || {
        ["json", "o"]
            .map(|end| fs::metadata(dir.join(format!("{}.{end}", kernel.stem))).unwrap().accessed().unwrap())
    };
    // As old as the last write, so that a mount with relatime would update it at the next read.
    let before = times();
    assert_eq!(only(base.path()).items.len(), 1);
    assert_eq!(times(), before);
}

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        intact_caches_have_no_findings,
        problems_are_reported_with_their_effects,
        a_kernel_that_a_process_has_open_is_in_progress,
        foreign_files_are_counted_and_ignored,
        precompiles_are_judged_too,
        in_the_cache_of_cann_orphans_block_their_keys,
        kernels_that_ranks_lack_are_reported_by_name,
        a_scan_leaves_access_times_unchanged
    ]
}
