//! A kernel of a device that no backend here knows: the command judges a part of it, and reports the rest as unverifiable.

#[path = "../../../engine/examples/ptx_backend/ptx.rs"]
mod ptx;

use std::path::Path;
use std::sync::Arc;

use opkeep::{BuildSpec, Config, Engine, Request};
use opkeep_artifact::{CheckId, Expectations, Format, MetadataRules, OpaqueRules};
use opkeep_digest::Digest;
use opkeep_store::{EntryBuilder, Store, StoreConfig};

use crate::common::Place;

pub(crate) const PTX: &[u8] = b".version 8.0\n.target sm_90\n";

/// A store with one kernel of PTX, and its file.
pub(crate) fn stocked(check: Option<&str>, object: &[u8]) -> (Place, String) {
    let place = Place::new();
    let rules = OpaqueRules::new(*b".version", 1 << 20);
    let rules = check.map_or(rules.clone(), |check| rules.with_check(CheckId::new(check, 1)));
    let expected = Expectations::new("sm_90", Format::Opaque(rules), MetadataRules::None).encode();
    let target = Store::open(StoreConfig::new(place.path("cache"))).unwrap().target("sm_90").unwrap();
    let draft =
        EntryBuilder::new(0).eager("json", b"").eager("object", object).lazy("expectations", &expected);
    target.put(&Digest::of(b"a key"), &draft).unwrap();
    let file = place.entries().remove(0);
    (place, file.to_string_lossy().into_owned())
}

#[test]
fn a_missing_check_is_reported_and_nothing_is_quarantined() {
    let (place, file) = stocked(Some("ptx-text"), PTX);
    let verified = place.run(&["verify"]).ended_with(0);
    assert!(
        verified.stdout.contains("cannot be judged in full") && verified.stdout.contains("ptx-text"),
        "{}",
        verified.stdout
    );
    let json = place.run(&["verify", "--format", "json"]).ended_with(0).json();
    let target = &json["stores"][0]["targets"][0];
    assert_eq!(
        (&target["valid"], target["unverifiable"].as_array().unwrap().len()),
        (&0.into(), 1),
        "{target}"
    );
    assert!(place.run(&["verify", &file]).ended_with(0).stdout.contains("ptx-text"));
    assert!(place.run(&["inspect", &file]).ended_with(0).stdout.contains("ptx-text"));
    for args in [&["repair", "--dry-run"][..], &["repair"], &["gc", "--dry-run"], &["gc"]] {
        place.run(args).ended_with(0);
        assert!(Path::new(&file).exists(), "{args:?}");
    }
}

#[test]
fn a_kernel_with_complete_expectations_is_valid_or_refused() {
    let (place, file) = stocked(None, PTX);
    let json = place.run(&["verify", "--format", "json"]).ended_with(0).json();
    assert_eq!(json["stores"][0]["targets"][0]["valid"], 1, "{json}");
    place.run(&["verify", &file]).ended_with(0);

    let (place, file) = stocked(None, b"no PTX");
    place.run(&["verify"]).ended_with(1);
    place.run(&["verify", &file]).ended_with(1);
    place.run(&["repair"]).ended_with(0);
    assert!(!Path::new(&file).exists());
}

/// A store that the engine's example filled: its backend is outside the workspace's tables, and its check is missing.
#[test]
fn the_store_of_an_unknown_backend_is_verified_and_kept() {
    for has_check in [true, false] {
        let place = Place::new();
        let mut config = Config::with_store(StoreConfig::new(place.path("cache")));
        config.work_dir = Some(place.path("tmp"));
        let engine = Engine::new(Arc::new(ptx::Ptx { has_check }), config);
        let requests = ["Square", "Neg"].map(|op_type| {
            let descriptor = opkeep_testkit::descriptor("net/a", op_type, &[&[3]]);
            Request::new(descriptor).with_spec(BuildSpec::new(ptx::TARGET))
        });
        let outcomes =
            |report: opkeep::BuildReport| report.kernels.iter().map(|it| it.outcome.name()).collect();
        let built: Vec<&str> = outcomes(engine.build(&requests).unwrap());
        assert_eq!(built, ["compiled", "compiled"]);

        let verified = place.run(&["verify", "--format", "json"]).ended_with(0).json();
        let target = &verified["stores"][0]["targets"][0];
        assert_eq!(target["unverifiable"].as_array().unwrap().len(), 2, "{target}");
        for args in [&["repair", "--dry-run"][..], &["repair"], &["gc"], &["stats"]] {
            place.run(args).ended_with(0);
            assert_eq!(place.entries().len(), 2, "{args:?}");
        }
        // No backend here builds for it, and that is reported.
        assert!(place.run(&["explain", crate::common::SQUARE, "--target", ptx::TARGET]).code != Some(0));
        let built: Vec<&str> = outcomes(engine.build(&requests).unwrap());
        assert_eq!(built, ["reused", "reused"]);
        place.run(&["gc", "--older-than", "0s"]).ended_with(0);
        assert!(place.entries().is_empty());
    }
}
