//! Kernels of other vendors are judged by the stored expectations, with or without their backend.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opkeep::{Engine, Request, ViewConfig};
use opkeep_artifact::{
    Artifact, ArtifactCheck, CheckId, CheckInput, ElfLayout, ElfRules, Expectations, Format, MetadataRules,
    OpaqueRules, Severity,
};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context, Support};
use opkeep_cache::RemoteConfig;
use opkeep_descriptor::{BuildSpec, Job, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_kernel_entry::{EntryError, EntryVerdict, verify_entry};
use opkeep_store::{
    Entry, EntryBuilder, GcOptions, Lookup, Overwrite, RepairOptions, Store, TargetStore, VerifyOptions,
};
use opkeep_testkit::NullBackend;
use opkeep_testkit::elf::host_object;
use opkeep_testkit::remote::{FakeRemote, names};
use opkeep_validator::{Code, Validator};

use crate::common::{Bench, build, outcomes, request};

const TARGET: &str = "gfx90a";
/// The name of this module's check.
const PTX_TEXT: &str = "ptx-text";

/// A backend for a device that no crate here knows.
struct Device {
    null: NullBackend,
    object: Vec<u8>,
    format: Mutex<Format>,
    check: Option<Arc<PtxText>>,
}

/// A check that PTX has a directive.
struct PtxText {
    version: u32,
    runs: AtomicUsize,
}

impl ArtifactCheck for PtxText {
    fn id(&self) -> CheckId {
        CheckId::new(PTX_TEXT, self.version)
    }

    fn check(&self, input: &CheckInput<'_>, found: &mut dyn FnMut(Severity, String)) {
        self.runs.fetch_add(1, Ordering::SeqCst);
        if !input.artifact.object.windows(7).any(|text| text == b".target") {
            found(Severity::Error, "there is no `.target`".to_owned());
        }
    }
}

impl Backend for Device {
    fn name(&self) -> &'static str {
        "device"
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

    fn supports(&self, _job: &Job, _spec: &ResolvedSpec) -> Support {
        Support::Unknown
    }

    fn expectations(&self, _spec: &ResolvedSpec) -> Expectations {
        // A backend may name its targets in any way. The store uses the names of its directories.
        Expectations::new("a device", self.format.lock().unwrap().clone(), MetadataRules::None)
    }

    fn checks(&self) -> Vec<Arc<dyn ArtifactCheck>> {
        self.check.iter().map(|check| Arc::<PtxText>::clone(check) as Arc<dyn ArtifactCheck>).collect()
    }

    fn compile(&self, _cx: &Context<'_>, _request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        Ok(Artifact { metadata: Vec::new(), object: self.object.clone(), extra: Vec::new() })
    }
}

fn elf(machine: u16) -> Arc<Device> {
    let mut object = host_object(&["kernel"], "of a test");
    object[18..20].copy_from_slice(&machine.to_le_bytes());
    let format = Mutex::new(Format::Elf(ElfRules::new([machine], ElfLayout::Unspecified)));
    Arc::new(Device { null: NullBackend::default(), object, format, check: None })
}

fn ptx_rules(version: u32) -> Format {
    Format::Opaque(OpaqueRules::new(*b".version", 1 << 20).with_check(CheckId::new(PTX_TEXT, version)))
}

fn ptx(version: u32) -> Arc<Device> {
    let check = Some(Arc::new(PtxText { version, runs: AtomicUsize::new(0) }));
    let object = b".version 8.0\n.target sm_90\n".to_vec();
    Arc::new(Device { null: NullBackend::default(), object, format: Mutex::new(ptx_rules(version)), check })
}

fn square() -> [Request; 1] {
    [request("Square", &[3]).with_spec(BuildSpec::new(TARGET))]
}

fn engine(bench: &Bench, device: &Arc<Device>) -> Engine {
    bench.engine_of(Arc::<Device>::clone(device))
}

fn target(bench: &Bench) -> TargetStore {
    Store::open(opkeep_store::StoreConfig::new(bench.root())).unwrap().target(TARGET).unwrap()
}

fn entry(bench: &Bench) -> Entry {
    let target = target(bench);
    let Lookup::Hit(entry) = target.peek(&target.keys(9)[0]) else { panic!("nothing was kept") };
    *entry
}

/// The entry in the store, with other members now.
fn replace(bench: &Bench, changes: &[(&str, &[u8])]) -> Entry {
    replace_in(&target(bench), &entry(bench), changes)
}

fn replace_in(target: &TargetStore, old: &Entry, changes: &[(&str, &[u8])]) -> Entry {
    let mut draft = EntryBuilder::new(old.validation());
    for name in old.names() {
        let changed = changes.iter().find(|(changed, _)| *changed == name).map(|(_, bytes)| *bytes);
        let bytes = changed.or(old.lazy_member(name).unwrap()).unwrap();
        draft = if old.member(name).is_some() { draft.eager(name, bytes) } else { draft.lazy(name, bytes) };
    }
    target.put_replacing(old.key(), &draft, Overwrite::Always).unwrap();
    let Lookup::Hit(entry) = target.peek(old.key()) else { panic!("nothing was kept") };
    *entry
}

/// Evicts what was not used for a day, and then everything.
fn collected(bench: &Bench) {
    let target = target(bench);
    let file = target.path(&target.keys(9)[0]);
    let day = Duration::from_secs(24 * 3600);
    let older_than = |age| GcOptions::default().with_older_than(age);
    target.gc(&older_than(day)).unwrap();
    assert!(file.exists());
    let unused = SystemTime::now() - 2 * day;
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(unused).unwrap();
    target.gc(&older_than(day)).unwrap();
    assert!(!file.exists());
}

/// A program without the backend verifies the store, and repairs nothing in it.
fn left_alone(bench: &Bench) {
    let judge = |entry: &Entry| {
        verify_entry(entry, TARGET, &Validator::builtin()).into_result().map_err(|error| error.to_string())
    };
    for dry_run in [true, false] {
        let verify = VerifyOptions::default().with_check(&judge);
        let report = target(bench).repair(&RepairOptions::new(verify).with_dry_run(dry_run)).unwrap();
        assert!(
            report.actions.is_empty() && report.unrepaired.is_empty() && report.valid.files == 1,
            "{report:?}"
        );
    }
}

#[test]
fn elf_of_any_machine_is_built_found_and_verified() {
    for machine in [190, 224] {
        let (bench, device) = (Bench::new(), elf(machine));
        assert_eq!(build(&engine(&bench, &device), &square()), ["compiled"]);
        assert_eq!(build(&engine(&bench, &device), &square()), ["reused"]);
        let verdict = verify_entry(&entry(&bench), TARGET, &Validator::builtin());
        assert!(matches!(verdict, EntryVerdict::Valid), "{verdict:?}");
        left_alone(&bench);
        let report = engine(&bench, &device).explain(&square()).unwrap();
        assert_eq!(report.len(), 1);

        // A valid object for another machine, under the right key.
        let changed = replace(&bench, &[("object", &elf(62).object)]);
        let EntryVerdict::Invalid(EntryError::Invalid { errors }) =
            verify_entry(&changed, TARGET, &Validator::builtin())
        else {
            panic!("it is the other machine's")
        };
        assert_eq!(errors[0].code(), Code::MACHINE);
        collected(&bench);
    }
}

#[test]
fn a_host_that_is_not_built_in_is_judged_by_the_stored_expectations() {
    const HOST: &str = "cpu-riscv64";
    let (bench, device) = (Bench::new(), elf(243));
    let square = [request("Square", &[3]).with_spec(BuildSpec::new(HOST))];
    assert_eq!(build(&engine(&bench, &device), &square), ["compiled"]);
    let target = Store::open(opkeep_store::StoreConfig::new(bench.root())).unwrap().target(HOST).unwrap();
    let Lookup::Hit(entry) = target.peek(&target.keys(9)[0]) else { panic!("nothing was kept") };
    let verdict = verify_entry(&entry, HOST, &Validator::builtin());
    assert!(matches!(verdict, EntryVerdict::Valid), "{verdict:?}");
}

#[test]
fn a_kernel_with_a_check_of_its_backend_is_unverifiable_without_it() {
    let (bench, device) = (Bench::new(), ptx(1));
    assert_eq!(build(&engine(&bench, &device), &square()), ["compiled"]);
    assert_eq!(build(&engine(&bench, &device), &square()), ["reused"]);
    let check = device.check.clone().unwrap();
    assert_eq!(check.runs.load(Ordering::SeqCst), 1, "a hit is not judged again");

    let stored = entry(&bench);
    let EntryVerdict::Unverifiable { why } = verify_entry(&stored, TARGET, &Validator::builtin()) else {
        panic!("nobody here has that check")
    };
    assert!(why.contains(PTX_TEXT), "{why}");
    left_alone(&bench);
    let knows = Validator::builtin().with(check);
    assert!(matches!(verify_entry(&stored, TARGET, &knows), EntryVerdict::Valid));
    let moved = verify_entry(&stored, "gfx942", &knows).into_result().unwrap_err();
    assert!(matches!(moved, EntryError::HeaderMismatch { field: "target", .. }), "{moved}");

    // Certain errors are still found: a wrong start by any program, the rest by a program with the check.
    let no_target = replace(&bench, &[("object", b".version 8.0\n")]);
    assert!(matches!(
        verify_entry(&no_target, TARGET, &Validator::builtin()),
        EntryVerdict::Unverifiable { .. }
    ));
    assert!(verify_entry(&no_target, TARGET, &knows).into_result().is_err());
    let other = replace(&bench, &[("object", b"// no PTX")]);
    assert!(verify_entry(&other, TARGET, &Validator::builtin()).into_result().is_err());
    collected(&bench);
}

#[test]
fn expectations_of_a_later_version_are_unverifiable() {
    let (bench, device) = (Bench::new(), elf(224));
    build(&engine(&bench, &device), &square());
    for later in [
        &br#"{"version":2,"anything":1}"#[..],
        br#"{"version":1,"target":"gfx90a","format":{"wasm":{}},"metadata":"none"}"#,
    ] {
        let changed = replace(&bench, &[("expectations", later)]);
        let verdict = verify_entry(&changed, TARGET, &Validator::builtin());
        assert!(matches!(verdict, EntryVerdict::Unverifiable { .. }), "{verdict:?}");
        left_alone(&bench);
        // The backend has new expectations, and the kernel is validated again.
        assert_eq!(build(&engine(&bench, &device), &square()), ["reused"]);
    }
}

#[test]
fn a_known_target_is_judged_by_its_own_rules_with_any_stored_expectations() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    build(&bench.engine(&backend), &[request("Square", &[3])]);
    let cpu = Store::open(opkeep_store::StoreConfig::new(bench.root())).unwrap().target("cpu").unwrap();
    let Lookup::Hit(good) = cpu.peek(&cpu.keys(9)[0]) else { panic!("nothing was kept") };
    assert!(matches!(verify_entry(&good, "cpu", &Validator::builtin()), EntryVerdict::Valid));
    let lax = Format::Opaque(OpaqueRules::new(*b"", u64::MAX));
    let lax = Expectations::new("cpu", lax, MetadataRules::None).encode();
    let bad = replace_in(&cpu, &good, &[("expectations", &lax), ("object", b"nothing")]);
    assert!(verify_entry(&bad, "cpu", &Validator::builtin()).into_result().is_err());
}

/// A build with other expectations validates a stored kernel again, and records that only if its rules are newer.
#[test]
fn other_expectations_judge_again_and_never_rewrite_newer_ones() {
    let (bench, first, second) = (Bench::new(), ptx(1), ptx(2));
    assert_eq!(build(&engine(&bench, &first), &square()), ["compiled"]);
    let old = entry(&bench);
    let runs = |device: &Device| device.check.as_ref().unwrap().runs.load(Ordering::SeqCst);
    assert_eq!(build(&engine(&bench, &second), &square()), ["reused"]);
    let new = entry(&bench);
    assert_eq!((runs(&second), new.validation() > old.validation()), (1, true));
    assert_ne!(new.member_digest("expectations"), old.member_digest("expectations"));
    assert_eq!(build(&engine(&bench, &second), &square()), ["reused"]);
    assert_eq!(runs(&second), 1, "once is enough");

    assert_eq!(build(&engine(&bench, &first), &square()), ["reused"]);
    assert_eq!(runs(&first), 2);
    let left = entry(&bench);
    assert_eq!(left.validation(), new.validation(), "an older version rewrote it");
    assert_eq!(left.member_digest("expectations"), new.member_digest("expectations"));

    // The kernel does not satisfy the new expectations, so it is no hit.
    *first.format.lock().unwrap() = Format::Opaque(OpaqueRules::new(*b"//", 1 << 20));
    let report = engine(&bench, &first).build(&square()).unwrap();
    assert_eq!(outcomes(&report), ["failed"]);
}

/// A backend that names a check without providing it: the kernel is used, and is judged by programs with the check.
#[test]
fn an_unverifiable_kernel_is_judged_once_its_check_is_available() {
    let (bench, with) = (Bench::new(), ptx(1));
    let object = with.object.clone();
    let without = Arc::new(Device {
        null: NullBackend::default(),
        object,
        format: Mutex::new(ptx_rules(1)),
        check: None,
    });
    assert_eq!(build(&engine(&bench, &without), &square()), ["compiled"]);
    assert_eq!(entry(&bench).validation(), 0);
    assert_eq!(build(&engine(&bench, &without), &square()), ["reused"]);
    assert_eq!(build(&engine(&bench, &with), &square()), ["reused"]);
    assert_eq!(with.check.as_ref().unwrap().runs.load(Ordering::SeqCst), 1);
    assert!(entry(&bench).validation() > 0);
}

/// MindSpore finds a kernel by its `.json`.
#[test]
fn a_kernel_without_a_description_is_not_put_where_frameworks_look() {
    let (bench, device) = (Bench::new(), ptx(1));
    let view = ViewConfig::rank(bench.root().join("base"), "0".to_owned());
    let placed = engine(&bench, &device)
        .with_config(|config| config.view = Some(view))
        .build(&square())
        .unwrap()
        .view
        .unwrap()
        .unwrap();
    assert_eq!((placed.names.len(), placed.multi_part_names.len()), (0, 1));
    let kernels = crate::common::files(&placed.directory);
    assert!(!kernels.iter().any(|path| path.extension().is_some_and(|end| end == "o")), "{kernels:?}");
}

fn remote_engine(bench: &Bench, device: &Arc<Device>, remote: &FakeRemote) -> Engine {
    let remote = RemoteConfig::new(Arc::new(remote.clone()));
    engine(bench, device).with_config(|config| config.remote = Some(remote))
}

/// Only the header names the key of the kernel.
#[test]
fn a_kernel_of_another_key_is_not_taken_from_a_remote_tier() {
    let (one, other, remote, device) = (Bench::new(), Bench::new(), FakeRemote::new(), elf(224));
    let requests = [3, 4].map(|length| request("Square", &[length]).with_spec(BuildSpec::new(TARGET)));
    let report = remote_engine(&one, &device, &remote).build(&requests).unwrap();
    let [first, second] = [0, 1].map(|at: usize| *report.kernels[at].key.unwrap().digest());
    let name = |key| names(TARGET).entry(&key);
    let good = Entry::decode(remote.object(&name(first)).unwrap(), Some(&first)).unwrap();
    let headless = good.members().filter(|(name, ..)| *name != "header");
    let headless = headless.fold(EntryBuilder::new(1), |entry, (name, bytes, is_eager)| match is_eager {
        true => entry.eager(name, bytes),
        false => entry.lazy(name, bytes),
    });
    for forged in [good.to_builder(), headless] {
        remote.set_object(&name(second), forged.encode(&second).unwrap());
        let host = Bench::new();
        let report = remote_engine(&host, &device, &remote).build(&requests).unwrap();
        assert_eq!(outcomes(&report), ["reused", "compiled"]);
        assert!(
            report.warnings.iter().any(|warning| warning.text.contains("remote cache")),
            "{:?}",
            report.warnings
        );
    }
    // The compiled kernel has replaced it.
    assert_eq!(build(&remote_engine(&other, &device, &remote), &requests), ["reused", "reused"]);
}

#[test]
fn a_kernel_from_a_remote_tier_is_validated_once() {
    let (one, other, remote, maker) = (Bench::new(), Bench::new(), FakeRemote::new(), ptx(1));
    build(&remote_engine(&one, &maker, &remote), &square());
    let device = ptx(1);
    let runs = || device.check.as_ref().unwrap().runs.load(Ordering::SeqCst);
    assert_eq!(build(&remote_engine(&other, &device, &remote), &square()), ["reused"]);
    assert_eq!((runs(), entry(&other).validation()), (1, entry(&one).validation()));
    assert_eq!(build(&remote_engine(&other, &device, &remote), &square()), ["reused"]);
    assert_eq!(runs(), 1);
}

/// The named check is unavailable: the rules of the format are checked nevertheless.
#[test]
fn without_the_check_a_remote_kernel_is_still_validated() {
    let (one, other, remote, maker) = (Bench::new(), Bench::new(), FakeRemote::new(), ptx(1));
    let report = remote_engine(&one, &maker, &remote).build(&square()).unwrap();
    let key = *report.kernels[0].key.unwrap().digest();
    let file = remote.object(&names(TARGET).entry(&key)).unwrap();
    let good = Entry::decode(file, Some(&key)).unwrap();
    let bad = good.members().fold(EntryBuilder::new(1), |entry, (name, bytes, is_eager)| match is_eager {
        true => entry.eager(name, if name == "object" { b"// no PTX" } else { bytes }),
        false => entry.lazy(name, bytes),
    });
    remote.set_object(&names(TARGET).entry(&key), bad.encode(&key).unwrap());
    let format = Mutex::new(ptx_rules(1));
    let object = maker.object.clone();
    let without = Arc::new(Device { null: NullBackend::default(), object, format, check: None });
    assert_eq!(build(&remote_engine(&other, &without, &remote), &square()), ["compiled"]);
}
