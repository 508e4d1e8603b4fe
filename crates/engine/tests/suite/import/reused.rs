//! The reuse of imported kernels.

use opkeep::{CacheMode, CacheStatus, Engine, ViewConfig};
use opkeep_cache::RemoteConfig;
use opkeep_descriptor::{Attr, AttrValue, Generation};
use opkeep_testkit::caches::Rank;
use opkeep_testkit::remote::FakeRemote;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Place, counts, request, square};

const REUSED: (&str, bool) = ("reused", true);

#[test]
fn a_build_that_trusts_reuses_it_and_says_so() {
    let place = Place::with_squares(3);
    assert_eq!(counts(&place.import()), (3, 0, 0, vec![]));
    let requests = [1, 2, 3].map(square);
    let report = place.build(&place.trusting(), &requests);
    for kernel in &report.kernels {
        let imported = kernel.imported.as_ref().unwrap();
        assert_eq!(kernel.outcome.name(), "reused");
        let reason = kernel.reason.as_ref().unwrap();
        for said in ["imported from", &imported.directory, &imported.name, "r1.7 to r2.0", "unknown"] {
            assert!(reason.contains(said), "{said}: {reason}");
        }
        assert!(imported.directory.ends_with("rank_0/kernel_meta") && imported.has_options);
    }
    // The bytes are the framework's.
    let kept = Rank::new(0).square(2);
    let artifact = report.kernels[1].artifact.as_ref().unwrap();
    assert_eq!((&artifact.metadata, &artifact.object), (&kept.json, &kept.object));
}

/// Device, rank, directories and names never count, nor does the release that wrote the job.
#[test]
fn every_rank_and_release_finds_it() {
    let place = Place::with_squares(1);
    place.import();
    for rank in [0, 5] {
        for generation in [Generation::R1_5, Generation::R1_6, Generation::R1_7, Generation::R2_1] {
            let rank = Rank { generation, device: rank + 2, ..Rank::new(rank) };
            assert_eq!(place.outcome(&place.trusting(), &request(&rank.square(1))), REUSED, "{rank:?}");
            // The first kernel of the job stays, even if another cache has another one.
            place.keep(&rank, 1);
        }
    }
    let report = place.import();
    assert!(report.caches.iter().all(|cache| cache.imported.is_empty() && cache.skipped.is_empty()));
    assert_eq!(place.bench.entries().len(), 1);
}

/// The kernel is written to a rank's directory under the name by which that rank looks for it, with an unchanged `.json`.
#[test]
fn another_rank_finds_it_in_its_own_directory() {
    let place = Place::with_squares(1);
    place.import();
    let (own, theirs) = (Rank::new(5).square(1), Rank::new(0).square(1));
    let base = place.bench.dir.path().join("other");
    let view = ViewConfig::rank(base.clone(), "5".to_owned());
    assert_ne!(own.stem, theirs.stem);
    assert_eq!(
        place.outcome(&place.trusting().with_config(|config| config.view = Some(view)), &request(&own)),
        REUSED
    );
    let file = |ending: &str| {
        std::fs::read(base.join("rank_5/kernel_meta").join(format!("{}.{ending}", own.stem))).unwrap()
    };
    assert_eq!((file("json"), file("o")), (theirs.json, theirs.object));
    assert_eq!(file("info"), own.info.unwrap());
}

#[test]
fn only_a_build_that_trusts_imported_kernels_reuses_it() {
    let place = Place::with_squares(1);
    place.import();
    // A plain build compiles a kernel of its own, which takes precedence from then on.
    assert_eq!(place.outcome(&place.engine(), &square(1)), ("compiled", false));
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", false));
    assert_eq!(place.outcome(&place.engine(), &square(1)), ("reused", false));
    assert_eq!(place.bench.entries().len(), 2);
}

#[test]
fn another_job_target_or_option_is_compiled() {
    let place = Place::with_squares(1);
    place.import();
    let mut attr = square(1);
    let value = AttrValue::Bool(true);
    attr.descriptor.job.ops[0].attrs = Some(vec![Attr::new("fast", "bool", value)]);
    let mut shape = square(1);
    shape.descriptor.job.l1_size = 7;
    let mut option = square(1);
    option.spec.options.insert("op_impl_mode".to_owned(), "high_precision".into());
    let mut target = square(1);
    target.spec.target = "Ascend910B1".to_owned();
    for other in [&attr, &shape, &option, &target, &square(2)] {
        assert_eq!(place.outcome(&place.trusting(), other), ("compiled", false), "{other:?}");
    }
    let mut debug = square(1);
    debug.spec.options.insert("op_debug_level".to_owned(), "1".into());
    assert_eq!(place.outcome(&place.trusting(), &debug), ("bypassed", false));
    assert_eq!(place.outcome(&place.trusting(), &square(1)), REUSED);
}

#[test]
fn modes_hold_for_imported_kernels() {
    let place = Place::with_squares(1);
    place.import();
    let entries = place.bench.entries().len();
    for mode in [CacheMode::Require, CacheMode::ReadOnly, CacheMode::Enable] {
        assert_eq!(
            place.outcome(&place.trusting().with_config(|config| config.mode = mode), &square(1)),
            REUSED,
            "{mode}"
        );
    }
    assert_eq!(
        place.outcome(&place.engine().with_config(|config| config.mode = CacheMode::Require), &square(1)),
        ("failed", false)
    );
    assert_eq!(
        place.outcome(&place.engine().with_config(|config| config.mode = CacheMode::ReadOnly), &square(1)),
        ("compiled", false)
    );
    assert_eq!(
        place.outcome(&place.trusting().with_config(|config| config.mode = CacheMode::Disable), &square(1)),
        ("compiled", false)
    );
    assert_eq!(place.bench.entries().len(), entries);
    assert_eq!(
        place.outcome(&place.trusting().with_config(|config| config.mode = CacheMode::Force), &square(1)),
        ("compiled", false)
    );
}

/// For a job that the backend cannot compile, such as a fused one, there are only imported kernels.
#[test]
fn a_job_that_the_backend_refuses_is_reused() {
    let place = Place::with_squares(1);
    place.compiler.refuses.store(true, Ordering::Relaxed);
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("failed", false));
    place.import();
    assert_eq!(place.outcome(&place.trusting(), &square(1)), REUSED);
    assert_eq!(place.outcome(&place.engine(), &square(1)), ("failed", false));
    assert_eq!(
        place.outcome(&place.trusting().with_config(|config| config.mode = CacheMode::Force), &square(1)),
        ("failed", false)
    );
    let one = place.trusting().get_or_build(&square(1)).unwrap();
    assert_eq!(one.artifact.object, Rank::new(0).square(1).object);
    assert!(place.engine().get_or_build(&square(1)).is_err());
    let explained = |trust: bool| {
        place
            .engine()
            .with_config(|config| config.trust_imported = trust)
            .explain(&[square(1)])
            .unwrap()
            .remove(0)
    };
    assert!(matches!(explained(true).status, CacheStatus::Hit) && explained(true).imported.is_some());
    assert!(
        matches!(explained(false).status, CacheStatus::Unsupported(_)) && explained(false).imported.is_some()
    );
}

#[test]
fn one_at_a_time_it_is_reused_too() {
    let place = Place::with_squares(1);
    place.import();
    let engine = place.trusting();
    for _ in 0..2 {
        let built = engine.get_or_build(&square(1)).unwrap();
        assert_eq!(
            (built.outcome.name(), &built.artifact.metadata),
            ("reused", &Rank::new(0).square(1).json)
        );
    }
    assert_eq!(place.compiler.compiles.load(Ordering::Relaxed), 0);
}

/// Releases since r2.1 state their toolchain. If both descriptors state one, they must agree.
#[test]
fn the_toolchain_in_a_descriptor_must_not_contradict() {
    let later = Rank { generation: Generation::R2_1, ..Rank::new(0) };
    let place = Place::new();
    place.keep(&later, 1);
    let report = place.import();
    assert_eq!(counts(&report), (1, 0, 0, vec![]));
    let mut wanted = request(&later.square(1));
    assert_eq!(place.outcome(&place.trusting(), &wanted), REUSED);
    assert_eq!(place.outcome(&place.trusting(), &square(1)), REUSED);
    wanted.spec.options.insert("te_version".to_owned(), "1.85".into());
    let explained = place.trusting().explain(std::slice::from_ref(&wanted)).unwrap().remove(0);
    assert!(explained.imported_problem.unwrap().contains("1.84") && explained.imported.is_none());
    let report = place.build(&place.trusting(), &[wanted]);
    assert_eq!(report.kernels[0].outcome.name(), "compiled");
    assert!(report.kernels[0].reason.as_ref().unwrap().contains("`te_version` 1.84, but 1.85 is requested"));
}

#[test]
fn explain_says_that_one_matches() {
    let place = Place::with_squares(1);
    let explained = |trust: bool| {
        place
            .engine()
            .with_config(|config| config.trust_imported = trust)
            .explain(&[square(1)])
            .unwrap()
            .remove(0)
    };
    assert!(explained(true).imported.is_none());
    place.import();
    let plain = explained(false);
    assert!(matches!(plain.status, CacheStatus::Miss { .. }), "{plain:?}");
    assert!(plain.imported.unwrap().to_string().contains("its toolchain and its sources are unknown"));
    let trusting = explained(true);
    assert!(matches!(trusting.status, CacheStatus::Hit) && trusting.imported.is_some(), "{trusting:?}");
    // Nothing is reported if the kernel would not be reused anyway.
    let forced = place
        .trusting()
        .with_config(|config| config.mode = CacheMode::Force)
        .explain(&[square(1)])
        .unwrap()
        .remove(0);
    assert!(matches!(forced.status, CacheStatus::Miss { .. }) && forced.imported.is_none());
    // It is not the nearest of the compiled kernels.
    let other = place.engine().explain(&[square(2)]).unwrap().remove(0);
    assert!(
        matches!(&other.status, CacheStatus::Miss(miss) if miss.nearest.is_none())
            && other.imported.is_none(),
        "{other:?}"
    );
    // The compiled kernel takes precedence.
    place.build(&place.engine(), &[square(1)]);
    assert!(matches!(explained(true).status, CacheStatus::Hit) && explained(true).imported.is_none());
}

/// A look-up that ends with an imported kernel is one hit; one that ends with none is one miss.
#[test]
fn each_look_up_is_counted_once() {
    let place = Place::with_squares(2);
    place.import();
    place.build(&place.trusting(), &[square(1), square(2), square(3)]);
    let statistics = place.shelf().statistics();
    assert_eq!((statistics.hits, statistics.misses()), (2, 1), "{statistics:?}");
    place.build(&place.trusting(), &[square(3)]);
    let statistics = place.shelf().statistics();
    assert_eq!((statistics.hits, statistics.misses()), (3, 1), "{statistics:?}");
}

/// An imported kernel that exists and cannot be used is a miss.
#[test]
fn one_that_will_not_do_is_a_miss_and_no_hit() {
    let later = Rank { generation: Generation::R2_1, ..Rank::new(0) };
    let place = Place::new();
    place.keep(&later, 1);
    place.import();
    let mut wanted = request(&later.square(1));
    wanted.spec.options.insert("te_version".to_owned(), "1.85".into());
    assert_eq!(place.outcome(&place.trusting(), &wanted), ("compiled", false));
    let statistics = place.shelf().statistics();
    assert_eq!((statistics.hits, statistics.misses()), (0, 1), "{statistics:?}");
}

/// An engine that does not trust imported kernels does not use those in the memory of one that does.
#[test]
fn trust_that_ends_is_not_remembered() {
    let place = Place::with_squares(1);
    place.import();
    let engine = place.trusting();
    assert_eq!(engine.get_or_build(&square(1)).unwrap().outcome.name(), "reused");
    let engine = engine.with_config(|config| config.trust_imported = false);
    assert_eq!(engine.get_or_build(&square(1)).unwrap().outcome.name(), "compiled");
}

/// A damaged compiled kernel is reported, quarantined and compiled again, even if there is an imported one. Only a build that
/// must not compile uses the imported one.
#[test]
fn a_damaged_kernel_of_ours_is_not_hidden_by_an_imported_one() {
    let place = Place::with_squares(1);
    place.build(&place.engine(), &[square(1)]);
    let path = place.bench.entries().remove(0);
    place.import();
    let damage = || {
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
    };
    damage();
    assert_eq!(
        place.outcome(&place.trusting().with_config(|config| config.mode = CacheMode::Require), &square(1)),
        REUSED
    );
    let status = |mode| {
        place
            .trusting()
            .with_config(|config| config.mode = mode)
            .explain(&[square(1)])
            .unwrap()
            .remove(0)
            .status
    };
    assert!(matches!(
        (status(CacheMode::Require), status(CacheMode::Enable)),
        (CacheStatus::Hit, CacheStatus::Miss { .. })
    ));
    let report = place.build(&place.trusting(), &[square(1)]);
    assert_eq!(report.kernels[0].outcome.name(), "compiled");
    assert!(report.warnings.iter().any(|warning| warning.text.contains("damaged")), "{:?}", report.warnings);
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", false));
}

#[test]
fn a_compiled_kernel_of_the_remote_tier_comes_before_an_imported_one() {
    let (remote, other, place) = (FakeRemote::new(), Place::new(), Place::with_squares(2));
    place.import();
    let tier = RemoteConfig::new(Arc::new(remote));
    let shared = |engine: Engine| engine.with_config(|config| config.remote = Some(tier.clone()));
    assert_eq!(other.outcome(&shared(other.engine()), &square(1)), ("compiled", false));
    assert_eq!(place.outcome(&shared(place.trusting()), &square(1)), ("reused", false));
    // The kernel is in this store from now on.
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", false));
    // The tier does not have this kernel.
    assert_eq!(place.outcome(&shared(place.trusting()), &square(2)), REUSED);
}
