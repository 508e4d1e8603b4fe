//! Descriptions made to exhaust or mislead.

use opkeep_digest::Digest;
use opkeep_testkit::ascend::{Chip, Kernel, Pair};
use opkeep_testkit::most_bytes;
use opkeep_validator::{Code, Report, validate, validate_full};

use crate::hostile::{Files, alone, beside_others, expect};

fn pair() -> Pair {
    Kernel::new(Chip::Ascend910B, "k").build()
}

/// The `.json` of a kernel with `text` before its other fields.
fn with_text(text: &str) -> Files {
    let pair = pair();
    let rest = String::from_utf8(pair.json).unwrap();
    let json = format!("{{{text},{}", rest.trim_start().strip_prefix('{').unwrap());
    Files { json: json.into_bytes(), object: pair.object }
}

/// A text of about this number of bytes.
type Make = fn(usize) -> String;

fn repeated(item: &str, bytes: usize) -> String {
    vec![item; (bytes / (item.len() + 1)).max(1)].join(",")
}

const TEXTS: [(&str, Make); 12] = [
    ("unknown fields", |bytes| {
        let field = |at| format!(r#""u{at}":{at}"#);
        (0..bytes / 16).map(field).collect::<Vec<_>>().join(",")
    }),
    ("an unknown field of many numbers", |bytes| format!(r#""u":[{}]"#, repeated("1e5", bytes))),
    ("an unknown field of many objects", |bytes| format!(r#""u":[{}]"#, repeated("{}", bytes))),
    ("an unknown field with a long text", |bytes| format!(r#""u":"{}""#, "x".repeat(bytes))),
    ("an unknown field with a long name", |bytes| format!(r#""{}":1"#, "x".repeat(bytes))),
    ("escapes", |bytes| format!(r#""u":"{}""#, r"\u0041".repeat(bytes / 6))),
    ("digits", |bytes| format!(r#""u":{}"#, "9".repeat(bytes))),
    ("debug options", |bytes| format!(r#""debugOptions":"{}""#, "printf,".repeat(bytes / 7))),
    ("deep lists", |bytes| format!(r#""u":{}1{}"#, "[".repeat(bytes / 2), "]".repeat(bytes / 2))),
    ("deep objects", |bytes| format!(r#""u":{}1{}"#, r#"{"a":"#.repeat(bytes / 6), "}".repeat(bytes / 6))),
    ("deep lists that never end", |bytes| format!(r#""u":{}"#, "[".repeat(bytes))),
    ("one field again and again", |bytes| repeated(r#""blockDim":1"#, bytes)),
];

/// Fields that are lists, with a function for one item.
const LISTS: [(&str, &str); 6] = [
    ("parameters", "null"),
    ("parameters", r#"{"dtype":"float32","init_value":0}"#),
    ("kernelList", r#"{"kernelName":"k_0"}"#),
    ("kernelList", r#"{"kernelName":"nothing","tilingKey":0}"#),
    ("jsonList", r#"{"coreType":"AIC","jsonFileName":"a.json"}"#),
    ("memoryStamping", r#""x""#),
];

fn replaced(field: &str, value: &str) -> Files {
    let pair = pair().without_field(field);
    let rest = String::from_utf8(pair.json).unwrap();
    let json = format!(r#"{{"{field}":{value},{}"#, rest.trim_start().strip_prefix('{').unwrap());
    Files { json: json.into_bytes(), object: pair.object }
}

/// All of them, of about this number of bytes.
fn all(bytes: usize) -> impl Iterator<Item = (String, Files)> {
    let texts = TEXTS.into_iter().map(move |(name, make)| (name.to_owned(), with_text(&make(bytes))));
    let lists = LISTS.into_iter().map(move |(field, item)| {
        (format!("{field} of {item}"), replaced(field, &format!("[{}]", repeated(item, bytes))))
    });
    let sizes = (String::from("workspace"), {
        let value = format!(r#"{{"num":1,"size":[{}],"type":[]}}"#, repeated("-1", bytes));
        replaced("workspace", &value)
    });
    texts.chain(lists).chain([sizes])
}

pub(super) fn memory_is_bounded_by_the_descriptions_size() {
    let _alone = alone();
    for (name, files) in all(512 << 10) {
        for ask in [Files::validate, Files::validate_full] {
            let (_, most) = most_bytes(|| ask(&files));
            // An item of a list takes a few bytes in the file, and a record of many optional fields in memory.
            let limit = 96 * files.bytes() + (256 << 10);
            assert!(most <= limit, "{name}: {most} bytes for {}", files.bytes());
        }
    }
}

pub(super) fn every_description_ends_in_a_verdict() {
    let _others = beside_others();
    for bytes in [1 << 10, 100 << 10] {
        for (_, files) in all(bytes) {
            files.ask();
        }
    }
}

pub(super) fn depth_is_no_danger() {
    let _others = beside_others();
    for bytes in [1 << 10, 4 << 20] {
        for (name, make) in TEXTS.iter().filter(|(name, _)| name.starts_with("deep")) {
            let report = with_text(&make(bytes)).validate_full();
            let refused = report.find(Code::JSON).or(report.find(Code::FIELD));
            assert!(refused.is_some(), "{name}: {:?}", report.findings);
        }
    }
    // Genuine depths are accepted.
    assert!(with_text(r#""u":[[[[[[[[1]]]]]]]]"#).validate().is_valid());
}

/// Many names are looked up among many kernels.
pub(super) fn many_names_are_found_among_many_kernels() {
    let _alone = alone();
    let time = |count: u64| {
        let pair =
            Kernel::new(Chip::Ascend910B, "k").code_bytes(4).keys((0..count).collect::<Vec<_>>()).build();
        let missing = pair.clone().with_fields(|fields| {
            for item in fields["kernelList"].as_array_mut().unwrap() {
                item["kernelName"] = format!("{}x", item["kernelName"].as_str().unwrap()).into();
            }
        });
        assert!(validate(&pair.json, &pair.object, &expect()).is_valid());
        let report = validate(&missing.json, &missing.object, &expect());
        assert!(report.find(Code::KERNEL).is_some());
        let run = |pair: &Pair| -> Report { validate(&pair.json, &pair.object, &expect()) };
        let least = |pair: &Pair| {
            let once = |_| {
                let start = opkeep_testkit::CpuTime::start();
                drop(run(pair));
                start.elapsed()
            };
            (0..3).map(once).min().unwrap()
        };
        [least(&pair), least(&missing)]
    };
    let (few, many) = (time(1000), time(8000));
    for (few, many) in few.into_iter().zip(many) {
        assert!(many < few * 24, "{few:?}, then {many:?}");
    }
}

/// In a fat binary each item has a key, and each object has all the names.
pub(super) fn many_keys_are_found_among_many_objects() {
    let _alone = alone();
    let small = pair().object;
    let time = |count: usize| {
        let table = 8 + 16 * count;
        let offsets = (0..count).map(|at| (table + at * small.len()) as u64);
        let words = std::iter::once(count as u64).chain(0..count as u64).chain(offsets);
        let object: Vec<u8> = words.flat_map(u64::to_le_bytes).chain(small.repeat(count)).collect();
        // Half of the items have the key of a missing object, and get the first one.
        let items: Vec<_> =
            (0..count).map(|at| serde_json::json!({"kernelName": "k_0", "configKey": at * 2})).collect();
        let pair = pair().with_object(|file| *file = object).with_field("kernelList", items);
        let report = validate(&pair.json, &pair.object, &expect());
        assert!(report.is_valid() && report.others.len() == count - 1, "{:?}", report.findings);
        let once = |_| {
            let start = opkeep_testkit::CpuTime::start();
            drop(validate(&pair.json, &pair.object, &expect()));
            start.elapsed()
        };
        (0..3).map(once).min().unwrap()
    };
    let (few, many) = (time(100), time(800));
    assert!(many < few * 24, "{few:?}, then {many:?}");
}

/// Equal offsets and equal keys mean fewer objects, not more work.
pub(super) fn a_table_of_one_object_costs_one_object() {
    let _others = beside_others();
    let count = 10_000;
    let table = 8 + 16 * count;
    let words = std::iter::once(count as u64).chain(0..count as u64).chain(vec![table as u64; count]);
    let object = words.flat_map(u64::to_le_bytes).chain(pair().object).collect();
    let pair = pair()
        .with_object(|file| *file = object)
        .with_field("kernelList", serde_json::json!([{"kernelName": "k_0", "configKey": 9999}]));
    let report = validate(&pair.json, &pair.object, &expect());
    assert!(report.is_valid() && report.others.is_empty(), "{:?}", report.findings);
}

pub(super) fn names_that_lead_elsewhere_are_refused() {
    let _others = beside_others();
    let names = [
        ".",
        "..",
        "../k",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "a:b",
        "a b",
        "a\0b",
        "a\nb",
        "~",
        "é",
        "\u{202e}k",
        "k\u{0}",
    ];
    for name in names.iter().map(|name| (*name).to_owned()).chain(["k".repeat(254), "../".repeat(2000)]) {
        let pair = pair().with_field("binFileName", name.clone());
        let report = validate_full(&pair.json, &pair.object, &expect());
        let finding = report.find(Code::UNSAFE_NAME).unwrap_or_else(|| panic!("{name:?} is accepted"));
        let text = finding.to_string();
        assert!(text.len() < 2000 && !text.contains(['\n', '\0', '\u{202e}']), "{text:?}");
    }
    for suffix in ["", "o", ".o/../../x", "./o", ".O", ".exe", ".o\0", "..", ".so/"] {
        let pair = pair().with_field("binFileSuffix", suffix);
        let report = validate(&pair.json, &pair.object, &expect());
        assert!(!report.is_valid(), "{suffix:?} is accepted");
    }
    // The files that a master names.
    for name in ["../k.json", "/k.json", "k\0.json", ""] {
        let json = serde_json::json!({"jsonList": [{"coreType": "AIC", "jsonFileName": name}]}).to_string();
        let report = validate(json.as_bytes(), &[], &expect());
        assert!(!report.is_valid(), "{name:?} is accepted");
    }
}

pub(super) fn kernels_are_not_found_by_half_a_name() {
    let _others = beside_others();
    // NUL ends a name in an object, but not in a description.
    for name in ["k_0\0", "k_0\0_mix_aic", "k", "k_", "_0", "", "K_0", "k_0_mix_aic", "k_00", " k_0"] {
        let pair = pair().with_field("kernelList", serde_json::json!([{ "kernelName": name }]));
        let report = validate(&pair.json, &pair.object, &expect());
        assert!(!report.is_valid(), "{name:?} is accepted");
    }
}

pub(super) fn a_digest_of_something_else_is_no_digest() {
    let _others = beside_others();
    let pair = pair();
    let digest = Digest::of(&pair.object).to_string();
    let others = [
        digest.to_uppercase(),
        digest[1..].to_owned(),
        format!("{digest}0"),
        format!(" {digest}"),
        format!("{digest}\0"),
        "0".repeat(64),
        String::new(),
        "x".repeat(64),
    ];
    for other in others {
        let pair = pair.clone().with_field("sha256", other.clone());
        assert!(!validate(&pair.json, &pair.object, &expect()).is_valid(), "{other:?} is accepted");
    }
}

/// For each missing name it matters whether all objects were read completely.
pub(super) fn many_names_are_missing_in_many_objects() {
    let _alone = alone();
    let header = pair().object[..64].to_vec();
    let time = |count: usize| {
        let mut bare = header.clone();
        // Neither section headers nor program headers.
        for field in [32..40, 40..48, 56..58, 60..62, 62..64] {
            bare[field].fill(0);
        }
        let table = 8 + 16 * count;
        let offsets = (0..count).map(|at| (table + at * bare.len()) as u64);
        let words = std::iter::once(count as u64).chain(0..count as u64).chain(offsets);
        let object: Vec<u8> = words.flat_map(u64::to_le_bytes).chain(bare.repeat(count)).collect();
        let items: Vec<_> = (0..count)
            .map(|at| serde_json::json!({"kernelName": format!("none{at}"), "configKey": at}))
            .collect();
        let pair = pair().with_object(|file| *file = object).with_field("kernelList", items);
        let once = |_| {
            let start = opkeep_testkit::CpuTime::start();
            let report = validate(&pair.json, &pair.object, &expect());
            assert!(report.find(Code::KERNEL).is_some() && report.others.len() == count - 1);
            start.elapsed()
        };
        (0..3).map(once).min().unwrap()
    };
    let (few, many) = (time(4000), time(32_000));
    assert!(many < few * 24, "{few:?}, then {many:?}");
}
