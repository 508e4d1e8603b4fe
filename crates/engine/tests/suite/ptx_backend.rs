//! The example's backend, whose target, format and check are in no table of the workspace.

#[path = "../../examples/ptx_backend/ptx.rs"]
mod ptx;

use std::sync::Arc;

use opkeep::{ArtifactCheck, CacheStatus, Engine, Request};
use opkeep_descriptor::BuildSpec;
use opkeep_kernel_entry::{EntryVerdict, verify_entry};
use opkeep_store::{Entry, Lookup, RepairOptions, Store, StoreConfig, TargetStore, VerifyOptions};
use opkeep_validator::Validator;
use ptx::{Ptx, PtxText, TARGET};

use crate::common::{Bench, build, outcomes, request};

fn requests() -> Vec<Request> {
    ["Square", "Neg"].map(|op_type| request(op_type, &[2, 3]).with_spec(BuildSpec::new(TARGET))).into()
}

fn engine(bench: &Bench, has_check: bool) -> Engine {
    bench.engine_of(Arc::new(Ptx { has_check }))
}

fn store(bench: &Bench) -> TargetStore {
    Store::open(StoreConfig::new(bench.root())).unwrap().target(TARGET).unwrap()
}

fn entries(bench: &Bench) -> Vec<Entry> {
    let store = store(bench);
    let entry = |key| match store.peek(&key) {
        Lookup::Hit(entry) => *entry,
        Lookup::Miss(miss) => panic!("{miss}"),
    };
    store.keys(9).into_iter().map(entry).collect()
}

#[test]
fn kernels_are_built_found_explained_and_verified() {
    let bench = Bench::new();
    assert_eq!(build(&engine(&bench, true), &requests()), ["compiled", "compiled"]);
    assert_eq!(build(&engine(&bench, true), &requests()), ["reused", "reused"]);
    let kernel = engine(&bench, true).get_or_build(&requests()[0]).unwrap();
    let text = String::from_utf8(kernel.artifact.object.clone()).unwrap();
    assert!(text.contains(&format!(".visible .entry {}(", kernel.name)), "{text}");
    assert!(text.contains("mul.f32 %f2, %f1, %f1;") && text.contains("%r4, 6;"), "{text}");

    let explained = engine(&bench, true).explain(&requests()).unwrap();
    assert!(explained.iter().all(|it| matches!(it.status, CacheStatus::Hit)), "{explained:?}");
    let other = request("Neg", &[7]).with_spec(BuildSpec::new(TARGET));
    let why = engine(&bench, true).explain(&[other]).unwrap().remove(0).status;
    assert!(matches!(&why, CacheStatus::Miss(miss) if miss.nearest.is_some()), "{why:?}");
    let report =
        engine(&bench, true).build(&[request("Exp", &[3]).with_spec(BuildSpec::new(TARGET))]).unwrap();
    assert_eq!(outcomes(&report), ["failed"]);

    let knows = Validator::builtin().with(Arc::new(PtxText));
    for entry in entries(&bench) {
        assert!(matches!(verify_entry(&entry, TARGET, &knows), EntryVerdict::Valid));
        let verdict = verify_entry(&entry, TARGET, &Validator::builtin());
        let EntryVerdict::Unverifiable { why } = verdict else { panic!("{verdict:?}") };
        assert!(why.contains(&PtxText.id().id), "{why}");
    }
}

/// A program without the check finds nothing damaged, and repairs nothing.
#[test]
fn without_the_check_nothing_is_damaged() {
    for has_check in [true, false] {
        let bench = Bench::new();
        assert_eq!(build(&engine(&bench, has_check), &requests()), ["compiled", "compiled"]);
        assert_eq!(build(&engine(&bench, !has_check), &requests()), ["reused", "reused"]);
        let check = |entry: &Entry| {
            let verdict = verify_entry(entry, TARGET, &Validator::builtin());
            verdict.into_result().map_err(|error| error.to_string())
        };
        for dry_run in [true, false] {
            let verify = VerifyOptions::default().with_check(&check);
            let report = store(&bench).repair(&RepairOptions::new(verify).with_dry_run(dry_run)).unwrap();
            assert!(report.actions.is_empty() && report.valid.files == 2, "{report:?}");
        }
    }
}
