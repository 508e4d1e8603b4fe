//! Stored kernels are judged by their content: genuine kernels pass, and a kernel under the key of another one is reported.
#![expect(clippy::disallowed_methods, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{Bench, build, files, request};
use opkeep::requests;
use opkeep_descriptor::{BuildSpec, read_info};
use opkeep_kernel_entry::{EntryError, verify_entry};
use opkeep_onnx::{Options, read};
use opkeep_store::{
    Access, Entry, EntryBuilder, Lookup, Overwrite, RepairOptions, Store, StoreConfig, TargetStore,
    VerifyOptions,
};
use opkeep_testkit::NullBackend;
use opkeep_validator::Validator;

const TARGET: &str = "cpu";

fn shelf(bench: &Bench) -> TargetStore {
    Store::open(StoreConfig::new(bench.root())).unwrap().target(TARGET).unwrap()
}

/// A store with the kernels of two operators, whose members can be exchanged.
struct Two {
    bench: Bench,
    entries: [Entry; 2],
}

impl Two {
    fn new() -> Self {
        let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
        build(&bench.engine(&backend), &[request("Square", &[3]), request("Relu", &[3])]);
        let shelf = shelf(&bench);
        let keys = shelf.keys(9);
        let entries = [keys[0], keys[1]].map(|key| match shelf.peek(&key) {
            Lookup::Hit(entry) => *entry,
            Lookup::Miss(miss) => unreachable!("{miss}"),
        });
        Self { bench, entries }
    }

    /// Returns the verdict about an entry under the key of the first kernel, with the members that `choose` returns.
    fn judged(&self, choose: impl Fn(&str) -> Option<Vec<u8>>) -> Result<(), EntryError> {
        let [one, _] = &self.entries;
        let names: Vec<String> = one.names().map(str::to_owned).collect();
        let members: Vec<(String, Option<Vec<u8>>)> =
            names.into_iter().map(|name| (name.clone(), choose(&name))).collect();
        let mut draft = EntryBuilder::new(one.validation());
        for (name, bytes) in &members {
            let Some(bytes) = bytes else { continue };
            draft = match one.member(name) {
                Some(_) => draft.eager(name, bytes),
                None => draft.lazy(name, bytes),
            };
        }
        let shelf = shelf(&self.bench);
        shelf.put_replacing(one.key(), &draft, Overwrite::Always).unwrap();
        let Lookup::Hit(entry) = shelf.peek(one.key()) else { unreachable!("its bytes are right") };
        verify_entry(&entry, TARGET, &Validator::builtin()).into_result()
    }

    fn member(&self, of: usize, name: &str) -> Option<Vec<u8>> {
        self.entries[of].lazy_member(name).unwrap().map(<[u8]>::to_vec)
    }
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// Every built kernel passes, so its key matches its members.
#[test]
fn a_built_kernel_passes() {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let mut all = Vec::new();
    for network in ["bert", "lenet", "resnet18", "squeezenet"] {
        let model = read(&fixture(&format!("networks/{network}/model.onnx")), &Options::default()).unwrap();
        all.extend(requests(&model.graph, &BuildSpec::new("cpu")));
    }
    let info = std::fs::read(fixture("mindspore/square_12484080525657478220_2.info")).unwrap();
    all.push(opkeep::Request::new(read_info(&info).unwrap()).with_spec(BuildSpec::new("cpu")));
    build(&bench.engine(&backend), &all);
    let kernels =
        files(&bench.root()).into_iter().filter(|path| path.extension().is_some_and(|it| it == "kern"));
    let config = StoreConfig::new(bench.root()).with_access(Access::ReadOnly);
    let shelf = Store::open(config).unwrap().target(TARGET).unwrap();
    let judge = |entry: &Entry| {
        verify_entry(entry, TARGET, &Validator::builtin()).into_result().map_err(|error| error.to_string())
    };
    let report = shelf.verify(&VerifyOptions::default().with_check(&judge));
    assert!(report.is_valid(), "{:#?}", report.problems);
    assert!(report.valid.files > 80 && report.valid.files == kernels.count() as u64, "{:?}", report.valid);
}

#[test]
fn a_whole_entry_of_another_kernel_is_named() {
    let two = Two::new();
    assert!(two.judged(|name| two.member(0, name)).is_ok());
    // All members of the other kernel.
    let error = two.judged(|name| two.member(1, name)).unwrap_err();
    assert!(matches!(error, EntryError::NameMismatch { .. }), "{error}");
    assert!(error.to_string().contains(&format!("_{}", two.entries[0].key().prefix_u64())), "{error}");
    // The right kernel with the header of another one, or with the descriptor of another one.
    let error = two.judged(|name| two.member(usize::from(name == "header"), name)).unwrap_err();
    assert!(matches!(error, EntryError::HeaderMismatch { field: "key", .. }), "{error}");
    let error = two.judged(|name| two.member(usize::from(name == "info"), name)).unwrap_err();
    assert!(matches!(error, EntryError::KeyMismatch { .. }), "{error}");
    // Half of the kernel is from another one.
    let error = two.judged(|name| two.member(usize::from(name == "object"), name)).unwrap_err();
    assert!(matches!(error, EntryError::Invalid { .. }) && error.to_string().contains("OPV005"), "{error}");
    let error = two.judged(|name| two.member(0, name).filter(|_| name != "object")).unwrap_err();
    assert!(matches!(error, EntryError::Incomplete { member: "object" }), "{error}");
}

/// Returns a header with a changed text.
fn header(two: &Two, from: &str, to: &str) -> Option<Vec<u8>> {
    let text = String::from_utf8(two.member(0, "header").unwrap()).unwrap();
    assert!(text.contains(from), "{text}");
    Some(text.replace(from, to).into_bytes())
}

#[test]
fn the_header_of_an_entry_must_fit() {
    let two = Two::new();
    let with_header = |header: Option<Vec<u8>>| {
        two.judged(|name| if name == "header" { header.clone() } else { two.member(0, name) })
    };
    let error = with_header(header(&two, r#""target":"cpu""#, r#""target":"Ascend910B1""#)).unwrap_err();
    assert!(matches!(error, EntryError::HeaderMismatch { field: "target", .. }), "{error}");
    // A kernel of a backend with another name would have another key.
    let error = with_header(header(&two, r#""backend":"null""#, r#""backend":"cpu""#)).unwrap_err();
    assert!(matches!(error, EntryError::KeyMismatch { .. }), "{error}");
    // A key of an older schema cannot be checked, nor can an entry without a header.
    let other = header(&two, r#""backend":"null""#, r#""backend":"cpu""#).unwrap();
    let older = String::from_utf8(other).unwrap().replace(r#""key_schema":1"#, r#""key_schema":0"#);
    assert!(with_header(Some(older.into_bytes())).is_ok());
    assert!(with_header(Some(b"not for us".to_vec())).is_ok());
    assert!(with_header(None).is_ok());
}

/// A kernel for another machine is in the directory of this target.
#[test]
fn the_target_decides_the_expectations() {
    let two = Two::new();
    let [one, _] = &two.entries;
    let error = verify_entry(one, "Ascend910B1", &Validator::builtin()).into_result().unwrap_err();
    assert!(matches!(error, EntryError::Invalid { .. }) && error.to_string().contains("OPV023"), "{error}");
    // Of an unknown target, the machine of the object counts, and then the header.
    let error = verify_entry(one, "tpu", &Validator::builtin()).into_result().unwrap_err();
    assert!(matches!(error, EntryError::HeaderMismatch { field: "target", .. }), "{error}");
}

/// The entries are found, quarantined, and compiled again by the next build.
#[test]
fn poisoned_entries_are_repaired() {
    let two = Two::new();
    two.judged(|name| two.member(1, name)).unwrap_err();
    let backend = Arc::new(NullBackend::default());
    let square_and_relu = [request("Square", &[3]), request("Relu", &[3])];
    let shelf = shelf(&two.bench);
    let judge = |entry: &Entry| {
        verify_entry(entry, TARGET, &Validator::builtin()).into_result().map_err(|error| error.to_string())
    };
    let verify = VerifyOptions::default().with_check(&judge);
    assert_eq!(shelf.verify(&verify).problems.len(), 1);
    let report = shelf.repair(&RepairOptions::new(verify)).unwrap();
    assert!(report.is_valid() && report.actions.len() == 1 && two.bench.quarantined() == 1, "{report:?}");
    let mut outcomes = build(&two.bench.engine(&backend), &square_and_relu);
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["compiled", "reused"]);
    assert!(shelf.verify(&verify).is_valid());
}

/// A group of a framework's files under the key of a job, even with the members of the kernel, is compiled again.
#[test]
fn a_group_is_taken_for_no_kernel() {
    use opkeep_kernel_entry::{EntryVerdict, GroupKey, GroupRecord, encode_group};
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let square = [request("Square", &[3])];
    assert_eq!(build(&bench.engine(&backend), &square), ["compiled"]);
    let shelf = shelf(&bench);
    let key = shelf.keys(1)[0];
    let Lookup::Hit(kernel) = shelf.peek(&key) else { unreachable!("it was built") };
    let record = GroupRecord::new(GroupKey {
        framework: "triton".to_owned(),
        target: TARGET.to_owned(),
        framework_key: key,
        name: String::new(),
        toolchain: opkeep_digest::Fingerprint::new(),
    });
    let group = encode_group([("a", &b"data"[..])], &record, None, u32::MAX);
    let members: Vec<(&str, &[u8])> =
        ["json", "object"].map(|name| (name, kernel.member(name).unwrap())).into();
    for members in [&members[..], &[]] {
        let forged = members.iter().fold(group.builder(), |entry, (name, bytes)| entry.eager(name, bytes));
        shelf.put_replacing(&key, &forged, Overwrite::Always).unwrap();
        let Lookup::Hit(entry) = shelf.peek(&key) else { unreachable!("its bytes are right") };
        let verdict = verify_entry(&entry, TARGET, &Validator::builtin());
        assert!(matches!(verdict, EntryVerdict::Invalid(EntryError::KeyMismatch { .. })), "{verdict:?}");
        assert_eq!(build(&bench.engine(&backend), &square), ["compiled"]);
        assert_eq!(build(&bench.engine(&backend), &square), ["reused"]);
    }
}
