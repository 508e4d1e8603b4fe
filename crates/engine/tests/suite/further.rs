//! An artifact may have further kernels. All of them must be as valid as the first one to get into the store.

use std::sync::{Arc, Mutex};

use crate::common::{Bench, outcomes, request};
use opkeep::{Config, Engine, ViewConfig};
use opkeep_artifact::{Artifact, Expectations, Member};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context, Support};
use opkeep_cann_meta::KernelMeta;
use opkeep_descriptor::{Job, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_kernel_entry::verify_entry;
use opkeep_store::{Lookup, Store, StoreConfig};
use opkeep_testkit::NullBackend;
use opkeep_validator::Validator;

type Change = Box<dyn Fn(&mut Artifact) + Send>;

/// The null backend, whose artifacts are changed.
struct Changed {
    null: NullBackend,
    change: Mutex<Change>,
}

impl Backend for Changed {
    fn name(&self) -> &'static str {
        self.null.name()
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        self.null.toolchain(cx)
    }

    fn op_sources(
        &self,
        cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        self.null.op_sources(cx, job, spec)
    }

    fn supports(&self, job: &Job, spec: &ResolvedSpec) -> Support {
        self.null.supports(job, spec)
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        self.null.expectations(spec)
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        let mut made = self.null.compile(cx, request)?;
        (self.change.lock().unwrap())(&mut made);
        Ok(made)
    }
}

/// The outcome of a build whose artifacts are changed by a function, and whether a second build finds it.
fn built(change: impl Fn(&mut Artifact) + Send + 'static) -> Result<bool, String> {
    let bench = Bench::new();
    let changed = Changed { null: NullBackend::default(), change: Mutex::new(Box::new(change)) };
    let backend: Arc<dyn Backend> = Arc::new(changed);
    let engine = Engine::new(backend, Config::with_store(StoreConfig::new(bench.root())));
    let requests = [request("Square", &[3])];
    let report = engine.build(&requests).unwrap();
    if let Some(error) = &report.kernels[0].error {
        assert!(bench.entries().is_empty(), "it is in the store");
        return Err(error.to_string());
    }
    let target = Store::open(StoreConfig::new(bench.root())).unwrap().target("cpu").unwrap();
    let Lookup::Hit(entry) = target.peek(&target.keys(1)[0]) else { panic!("nothing was kept") };
    verify_entry(&entry, "cpu", &Validator::builtin()).into_result().unwrap();
    Ok(outcomes(&engine.build(&requests).unwrap()) == ["reused"])
}

/// A multi-part kernel is not written to the view, where a framework would find a description without an object.
#[test]
fn multi_part_kernels_are_reported_and_not_written_to_the_view() {
    let bench = Bench::new();
    let changed = Changed { null: NullBackend::default(), change: Mutex::new(Box::new(split)) };
    let view = ViewConfig::rank(bench.root().join("base"), "0".to_owned());
    let engine = Engine::new(Arc::new(changed), Config::with_store(StoreConfig::new(bench.root())))
        .with_config(|config| config.view = Some(view));
    let report = engine.build(&[request("Square", &[3])]).unwrap();
    let placed = report.view.unwrap().unwrap();
    assert_eq!((placed.names.len(), placed.multi_part_names.len()), (0, 1));
    assert!(!placed.directory.join(format!("{}.json", placed.multi_part_names[0])).exists());
    assert!(!placed.directory.join(format!("{}.o", placed.multi_part_names[0])).exists());
}

/// Adds the same kernel under another file name.
fn add_pair(artifact: &mut Artifact, stem: &str) {
    let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
    meta.bin_file_name = Some(stem.to_owned());
    let member = |name: String, bytes: Vec<u8>| Member { name, bytes };
    artifact.extra.push(member(format!("{stem}.json"), meta.to_json().into_bytes()));
    artifact.extra.push(member(format!("{stem}.o"), artifact.object.clone()));
}

/// Makes the artifact a multi-part kernel with two pairs of files.
fn split(artifact: &mut Artifact) {
    add_pair(artifact, "side_aic");
    add_pair(artifact, "side_aiv");
    let part = |core: &str| {
        let file = format!("side_{}.json", core.to_lowercase());
        serde_json::json!({ "coreType": format!("MIX_{core}"), "jsonFileName": file })
    };
    let master = serde_json::json!({ "jsonList": [part("AIC"), part("AIV")] });
    artifact.metadata = master.to_string().into_bytes();
    artifact.object.clear();
}

#[test]
fn twins_and_parts_that_are_in_order_are_kept() {
    assert_eq!(built(|artifact| add_pair(artifact, "twin_deterministic")), Ok(true));
    assert_eq!(built(split), Ok(true));
}

#[test]
fn invalid_sub_kernels_are_reported_and_nothing_is_stored() {
    let torn = |artifact: &mut Artifact| {
        add_pair(artifact, "twin");
        artifact.extra[1].bytes.truncate(100);
    };
    let other_digest = |artifact: &mut Artifact| {
        add_pair(artifact, "twin");
        let mut meta = KernelMeta::parse(&artifact.extra[0].bytes).unwrap();
        meta.sha256 = Some(Digest::of(b"another").to_string());
        artifact.extra[0].bytes = meta.to_json().into_bytes();
    };
    let without_object = |artifact: &mut Artifact| {
        add_pair(artifact, "twin");
        artifact.extra.truncate(1);
    };
    let no_json = |artifact: &mut Artifact| {
        add_pair(artifact, "twin");
        artifact.extra[0].bytes = b"{".to_vec();
    };
    for (change, says) in [
        (Box::new(torn) as Change, "twin.json"),
        (Box::new(other_digest), "sha256"),
        (Box::new(without_object), "`twin.o` is missing"),
        (Box::new(no_json), "twin.json"),
        (
            Box::new(|artifact: &mut Artifact| {
                split(artifact);
                artifact.extra.drain(2..);
            }),
            "side_aiv.json",
        ),
    ] {
        let error = built(change).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
}
