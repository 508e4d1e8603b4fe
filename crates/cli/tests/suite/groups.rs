//! Groups of files, which frameworks store: the commands report, judge and evict them.

use std::fs;
use std::time::{Duration, SystemTime};

use opkeep_artifact::{Expectations, Format, MetadataRules, OpaqueRules};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_kernel_entry::{GroupKey, GroupRecord, StoredExpectations, encode_group};
use opkeep_store::{Lookup, Overwrite, Store, StoreConfig, TargetStore};
use opkeep_testkit::device;
use opkeep_validator::{Validator, device_formats};
use serde_json::Value;

use crate::common::{Place, SQUARE};

/// A group of Triton: a cubin and its metadata.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) kernel: &'static str,
    pub(crate) source: &'static str,
    pub(crate) ptxas: &'static str,
    pub(crate) has_rules: bool,
    pub(crate) is_local: bool,
}

pub(crate) const TRITON: Group =
    Group { kernel: "add_kernel", source: "source", ptxas: "12.8", has_rules: true, is_local: false };
const TARGET: &str = "cuda-sm_90";

impl Group {
    fn record(&self) -> GroupRecord {
        let mut toolchain = Fingerprint::new();
        toolchain.add("ptxas", Digest::of(self.ptxas.as_bytes()), self.ptxas);
        let mut record = GroupRecord::new(GroupKey {
            framework: "triton".to_owned(),
            target: TARGET.to_owned(),
            framework_key: Digest::of(self.source.as_bytes()),
            name: format!("{}.json", self.kernel),
            toolchain,
        });
        record.kernel = self.kernel.to_owned();
        record.is_local = self.is_local;
        record.framework_version = "3.9.0".to_owned();
        record.object = Some("add.cubin".to_owned());
        record.metadata = Some("add.json".to_owned());
        record.compile_time = Some(Duration::from_millis(1500));
        record
    }

    /// The key of its entry.
    pub(crate) fn key(&self) -> Digest {
        self.record().key.digest()
    }

    /// Stores the group. Returns its key.
    pub(crate) fn put(&self, place: &Place) -> Digest {
        let mut rules = device_formats::cubin("sm_90");
        rules.target = TARGET.to_owned();
        let rules = StoredExpectations::new(rules, &Validator::builtin());
        let metadata = metadata(self.kernel);
        let object = device::cubin(self.kernel, 90);
        let files =
            [("add.json", metadata.as_bytes()), ("add.cubin", &object[..]), ("add.ptx", b".version 8.0")];
        let record = self.record();
        let encoded = encode_group(files, &record, self.has_rules.then_some(&rules), 1);
        target(place).put_replacing(encoded.key(), &encoded.builder(), Overwrite::Always).unwrap();
        *encoded.key()
    }
}

pub(crate) fn metadata(kernel: &str) -> String {
    let target = r#"{"backend":"cuda","arch":90,"warp_size":32}"#;
    format!(r#"{{"name":"{kernel}","shared":2048,"num_warps":4,"target":{target}}}"#)
}

fn target(place: &Place) -> TargetStore {
    Store::open(StoreConfig::new(place.path("cache"))).unwrap().target(TARGET).unwrap()
}

/// A store with a kernel that opkeep compiled, and groups of two kernels.
fn stocked() -> (Place, [Digest; 3]) {
    let place = Place::new();
    place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let newer = Group { ptxas: "12.9", ..TRITON };
    let keys = [TRITON, newer, Group { kernel: "mul_kernel", ..TRITON }].map(|group| group.put(&place));
    (place, keys)
}

/// The JSON output about the target of the groups.
fn of_target(json: &Value) -> &Value {
    json["targets"].as_array().unwrap().iter().find(|target| target["target"] == TARGET).unwrap()
}

#[test]
fn valid_groups_are_counted_and_are_no_noise() {
    let (place, _) = stocked();
    let ran = place.run(&["verify"]).ended_with(0);
    assert!(ran.stdout.contains("triton made 3 kernels of cuda-sm_90"), "{ran:?}");
    assert!(ran.stdout.contains("4 kernels checked: 4 valid"), "{ran:?}");
    assert!(!ran.stdout.contains("note") && ran.stderr.is_empty(), "{ran:?}");
    let json = place.run(&["verify", "--format", "json"]).ended_with(0).json();
    let found = of_target(&json["stores"][0]);
    assert_eq!((&found["valid"], &found["frameworks"]["triton"]), (&3.into(), &3.into()), "{found}");
    for args in [&["repair", "--dry-run"][..], &["repair"], &["stats"], &["gc"]] {
        let ran = place.run(args).ended_with(0);
        assert!(!ran.stdout.contains("chip") && ran.stderr.is_empty(), "{ran:?}");
        assert_eq!(place.entries().len(), 4, "{args:?}");
    }
    // A build beside them is as before.
    let built = place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta", "--format", "json"]);
    assert_eq!(built.ended_with(0).count("reused"), 1);
    let miss = place.write("five.info", crate::common::square_of(5));
    let json = place.run(&["explain", miss.to_str().unwrap(), "--format", "json"]).ended_with(0).json();
    assert!(json["kernels"][0]["nearest"]["name"].as_str().unwrap().starts_with("square_"), "{json}");
}

/// A group with the bytes of another one, or with a kernel that its rules refuse.
#[test]
fn an_invalid_group_is_named_and_quarantined() {
    let (place, [key, ..]) = stocked();
    let store = target(&place);
    let Lookup::Hit(entry) = store.peek(&key) else { panic!("it was put") };
    let moved = Digest::of(b"another key");
    store.put(&moved, &entry.to_builder()).unwrap();
    let bad = Group { source: "other", ..TRITON };
    let record = bad.record();
    let mut rules = device_formats::cubin("sm_90");
    rules.target = TARGET.to_owned();
    let rules = StoredExpectations::new(rules, &Validator::builtin());
    let object = device::cubin("another_kernel", 90);
    let metadata = metadata(bad.kernel);
    let files = [("add.json", metadata.as_bytes()), ("add.cubin", &object[..])];
    let encoded = encode_group(files, &record, Some(&rules), 1);
    store.put(encoded.key(), &encoded.builder()).unwrap();

    let ran = place.run(&["verify"]).ended_with(1);
    assert_eq!(ran.stdout.matches("triton add_kernel: ").count(), 2, "{ran:?}");
    assert!(ran.stdout.contains("4 valid, 2 refused"), "{ran:?}");
    for file in [moved, *encoded.key()] {
        let file = place.entry(&file);
        let ran = place.run(&["verify", file.to_str().unwrap()]).ended_with(1);
        assert!(ran.stdout.contains("(triton add_kernel) for cuda-sm_90"), "{ran:?}");
        place.run(&["inspect", file.to_str().unwrap()]).ended_with(1);
    }
    let ran = place.run(&["repair"]).ended_with(0);
    assert_eq!(ran.stdout.matches("quarantined, ").count(), 2, "{ran:?}");
    let quarantined =
        place.entries().iter().filter(|path| path.to_string_lossy().contains("quarantine")).count();
    assert_eq!((quarantined, place.entries().len()), (2, 6));
    let ran = place.run(&["stats"]).ended_with(0);
    assert!(
        ran.stdout.contains(" with 2 quarantined kernels (4 files) and the store's own files\n"),
        "{ran:?}"
    );
    let json = place.run(&["stats", "--format", "json"]).ended_with(0).json();
    let stored = &of_target(&json)["store"];
    let bytes: u64 = crate::common::files(&place.path("cache"))
        .iter()
        .filter(|path| path.to_string_lossy().contains("/quarantine/"))
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert_eq!(
        stored["quarantined"],
        serde_json::json!({ "kernels": 2, "files": 4, "bytes": bytes }),
        "{json}"
    );
    place.run(&["verify"]).ended_with(0);
}

#[test]
fn an_unverifiable_group_is_named_and_stays() {
    let (place, [key, ..]) = stocked();
    let store = target(&place);
    let Lookup::Hit(entry) = store.peek(&key) else { panic!("it was put") };
    // As a later version would write it.
    let later = entry.revalidated(1, &[("group", br#"{"schema":2}"#)]);
    let later_key = Digest::of(b"a key of a later version");
    store.put(&later_key, &later).unwrap();
    let unjudged = Group { source: "other", has_rules: false, ..TRITON }.put(&place);
    let check = OpaqueRules::new(*b"", 1 << 20).with_check(opkeep_artifact::CheckId::new("of-a-plug-in", 1));
    let rules = Expectations::new(TARGET, Format::Opaque(check), MetadataRules::None).encode();
    let plug_in = Group { source: "plug-in", ..TRITON };
    let plug_in_key = plug_in.put(&place);
    let Lookup::Hit(entry) = store.peek(&plug_in_key) else { panic!("it was put") };
    store
        .put_replacing(&plug_in_key, &entry.revalidated(0, &[("expectations", &rules)]), Overwrite::Always)
        .unwrap();

    let ran = place.run(&["verify"]).ended_with(0);
    assert_eq!(ran.stdout.matches("cannot be judged in full").count(), 3, "{ran:?}");
    assert!(ran.stdout.contains(&format!("{unjudged} (triton add_kernel) of {TARGET}")), "{ran:?}");
    assert!(ran.stdout.contains("later version") && ran.stdout.contains("of-a-plug-in"), "{ran:?}");
    place.run(&["repair"]).ended_with(0);
    for key in [later_key, unjudged, plug_in_key] {
        let file = place.entry(&key);
        place.run(&["verify", file.to_str().unwrap()]).ended_with(0);
        assert!(place.run(&["inspect", file.to_str().unwrap()]).ended_with(0).stdout.contains("not judged"));
    }
}

#[test]
fn inspect_describes_a_group_and_its_kernel() {
    let (place, [key, ..]) = stocked();
    let file = place.entry(&key);
    let json = place.run(&["inspect", file.to_str().unwrap(), "--format", "json"]).ended_with(0).json();
    let fields = &json["files"][0]["fields"];
    let record = TRITON.record();
    for (name, value) in [
        ("framework", "triton 3.9.0"),
        ("kernel", "add_kernel"),
        ("target", TARGET),
        ("name", "add_kernel.json"),
        ("framework key", &record.key.framework_key.to_string()),
        ("compile time", "1500 ms"),
        ("metadata shared", "2048"),
        ("metadata num_warps", "4"),
    ] {
        assert_eq!(fields[name], value, "{fields:#}");
    }
    for (name, part) in [
        ("toolchain: ptxas", "12.8"),
        ("file add.ptx", "12 bytes"),
        ("file add.cubin", "sha256"),
        ("rules", "kernel-symbols"),
        ("kernel add_kernel", "2048 bytes of shared memory"),
        ("kernel add_kernel", "registers"),
    ] {
        assert!(fields[name].as_str().is_some_and(|text| text.contains(part)), "{name}: {fields:#}");
    }
    // Each file once, not as a member and as a file.
    let members: Vec<&String> =
        fields.as_object().unwrap().keys().filter(|name| name.starts_with("member ")).collect();
    assert_eq!(members, ["member expectations", "member group"]);
}

#[test]
fn inspect_describes_objects_of_gpu_compilers() {
    let place = Place::new();
    let cubin = place.write("add.cubin", device::cubin("add_kernel", 90));
    let alone = place.run(&["inspect", cubin.to_str().unwrap()]).ended_with(0);
    assert!(
        alone.stdout.contains("kernel add_kernel") && alone.stdout.contains("none beside it"),
        "{alone:?}"
    );
    place.write("add.json", metadata("add_kernel"));
    let pair = place.run(&["inspect", cubin.to_str().unwrap()]).ended_with(0);
    assert!(pair.stdout.contains("sm_90") && pair.stdout.contains("metadata num_warps"), "{pair:?}");
    place.write("add.json", metadata("another_kernel"));
    let other = place.run(&["inspect", cubin.to_str().unwrap()]).ended_with(1);
    assert!(other.stdout.contains("another_kernel"), "{other:?}");

    let hsaco = place.write("mul.hsaco", device::hsaco("mul_kernel", 0x4c));
    place.write("mul.json", metadata("mul_kernel").replace("90", "\"gfx942\"").replace("cuda", "hip"));
    let pair = place.run(&["inspect", hsaco.to_str().unwrap()]).ended_with(0);
    assert!(pair.stdout.contains("kernel mul_kernel") && pair.stdout.contains("gfx942"), "{pair:?}");
    let torn = place.write("torn.cubin", &device::cubin("add_kernel", 90)[..100]);
    let torn = place.run(&["inspect", torn.to_str().unwrap()]).ended_with(1);
    assert!(torn.stdout.contains("neither a cubin nor an hsaco"), "{torn:?}");
    place.run(&["inspect", "missing.cubin"]).ended_with(2);
}

#[test]
fn stats_by_framework_and_kernel() {
    let (place, _) = stocked();
    assert!(of_target(&place.run(&["stats", "--format", "json"]).json())["contents"].is_null());
    let contents = |by: &str| {
        let json = place.run(&["stats", "--by", by, "--format", "json"]).ended_with(0).json();
        of_target(&json)["contents"].as_array().unwrap().clone()
    };
    let [triton] = contents("framework").try_into().unwrap();
    assert_eq!((&triton["framework"], &triton["entries"]), (&"triton".into(), &3.into()), "{triton}");
    let sizes: u64 = place
        .entries()
        .iter()
        .filter(|path| path.to_string_lossy().contains(TARGET))
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert_eq!(triton["bytes"], sizes);
    let kernels = contents("kernel");
    let names: Vec<_> = kernels
        .iter()
        .map(|row| (row["kernel"].as_str().unwrap(), row["entries"].as_u64().unwrap()))
        .collect();
    assert_eq!(names, [("add_kernel", 2), ("mul_kernel", 1)]);
    let text = place.run(&["stats", "--by", "kernel"]).ended_with(0).stdout;
    assert!(text.contains("triton add_kernel") && text.contains("opkeep Square"), "{text}");
}

/// The framework chooses the names: none of them may break a report.
#[test]
fn a_kernel_may_have_a_name_of_any_length() {
    let place = Place::new();
    let long: &'static str = Box::leak("k".repeat(100_000).into_boxed_str());
    Group { kernel: long, ..TRITON }.put(&place);
    TRITON.put(&place);
    let reports: [&[&str]; 6] = [
        &["stats", "--by", "kernel"],
        &["stats", "--by", "framework"],
        &["explain", "--framework", "triton"],
        &["explain", "--framework", "triton", "--kernel", long],
        &["verify"],
        &["gc"],
    ];
    for args in reports {
        place.run(args).ended_with(0);
        place.run(&[args, &["--format", "json"]].concat()).ended_with(0);
    }
    let text = place.run(&["stats", "--by", "kernel"]).stdout;
    assert!(text.contains("triton add_kernel ") && text.lines().all(|line| line.len() < 400), "{text}");
    let entries: Vec<_> = place.entries();
    let paths: Vec<&str> = entries.iter().map(|path| path.to_str().unwrap()).collect();
    place.run(&[&["inspect"], &paths[..]].concat()).ended_with(0);
}

#[test]
fn explain_states_how_the_keys_of_a_kernel_differ() {
    let place = Place::new();
    TRITON.put(&place);
    Group { source: "edited", ..TRITON }.put(&place);
    Group { kernel: "mul_kernel", ..TRITON }.put(&place);
    let newest = Group { ptxas: "12.9", ..TRITON }.put(&place);

    let explain = |args: &[&str]| {
        place.run(&[&["explain", "--framework", "triton", "--format", "json"], args].concat()).json()
    };
    let json = explain(&["--kernel", "add_kernel"]);
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 3, "{json}");
    assert_eq!(
        (&groups[0]["key"], &groups[0]["differences"]),
        (&newest.to_string().into(), &Value::Array(vec![]))
    );
    // The same key of the framework with another toolchain comes first.
    assert_eq!(groups[1]["differences"], serde_json::json!(["`ptxas` changed: 12.8 -> 12.9"]));
    let edited = groups[2]["differences"].as_array().unwrap();
    assert!(edited.len() == 2 && edited[0].as_str().unwrap().contains("own key"), "{json}");
    assert_eq!(groups[2]["toolchain"][0]["note"], "12.8");
    assert_eq!(explain(&[])["groups"].as_array().unwrap().len(), 4);
    assert_eq!(explain(&["--target", TARGET])["groups"].as_array().unwrap().len(), 4);
    for other in [&["--target", "cuda-sm_80"][..], &["--kernel", "none"]] {
        assert_eq!(explain(other)["groups"], Value::Array(vec![]));
    }
    let text = place.run(&["explain", "--framework", "triton"]).ended_with(0).stdout;
    assert!(text.contains("triton add_kernel for cuda-sm_90: 3 stored"), "{text}");
    assert!(text.contains("to the newest: `ptxas` changed: 12.8 -> 12.9"), "{text}");
    place.run(&["explain", SQUARE, "--framework", "triton"]).ended_with(2);
    place.run(&["explain", SQUARE, "--kernel", "add"]).ended_with(2);
}

/// Idle groups are evicted; a hit makes a group recent.
#[test]
fn groups_age_as_all_entries_do() {
    let (place, [first, second, third]) = stocked();
    let two_hours_ago = SystemTime::now() - Duration::from_secs(7200);
    for key in [first, second] {
        fs::File::options().write(true).open(place.entry(&key)).unwrap().set_modified(two_hours_ago).unwrap();
    }
    assert!(matches!(target(&place).get(&second), Lookup::Hit(_)));
    place.run(&["gc", "--older-than", "1h"]).ended_with(0);
    let left = place.entries();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains(&first.to_string())), "{left:?}");
    assert!(place.entry(&second).exists() && place.entry(&third).exists() && left.len() == 3);
    let ran = place.run(&["clear"]).ended_with(0);
    assert!(ran.stdout.contains("cuda-sm_90: deleted 2 kernels"), "{ran:?}");
    assert!(place.entries().is_empty());
}
