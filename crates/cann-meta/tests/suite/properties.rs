//! Random documents.

use opkeep_cann_meta::{
    BlockDim, CoreType, Flag, Json, KernelEntry, KernelMeta, Magic, Parameter, TaskRation, Word, Workspace,
    fuzz,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

const DOCUMENTS: [&str; 2] = [
    include_str!("../../../../fixtures/mindspore/square_12484080525657478220_2.json"),
    include_str!("documents/every_field.json"),
];

/// Names of known fields, so that the values below them are read.
const NAMES: [&str; 24] = [
    "KBHit",
    "binFileName",
    "blockDim",
    "compileInfo",
    "configKey",
    "coreType",
    "debugBufSize",
    "debugOptions",
    "dtype",
    "init_value",
    "jsonFileName",
    "jsonList",
    "kernelList",
    "kernelName",
    "magic",
    "num",
    "parameters",
    "runInfo",
    "sha256",
    "size",
    "taskRation",
    "tilingKey",
    "type",
    "workspace",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => proptest::sample::select(&NAMES[..]).prop_map(|name| format!("\"{name}\"")),
        1 => "\"[a-c]{0,2}\"",
        1 => Just(r#""kern\u0065lName""#.to_owned()),
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    const WORDS: [&str; 11] =
        ["null", "true", "false", "-1", "0", "1", "65536", "18446744073709551615", "-0", "1e-05", "2.0"];
    const TEXTS: [&str; 7] = [
        r#""""#,
        r#""1:2""#,
        r#""tilingKey""#,
        r#""AIC""#,
        r#""RT_DEV_BINARY_MAGIC_ELF""#,
        r#""\ud800""#,
        r#""a\u001b[2J""#,
    ];
    prop_oneof![
        proptest::sample::select(&WORDS[..]).prop_map(str::to_owned),
        proptest::sample::select(&TEXTS[..]).prop_map(str::to_owned),
        "-?[1-9][0-9]{0,20}",
    ]
}

/// JSON, with optional white space.
fn json() -> impl Strategy<Value = String> {
    let members = |value: BoxedStrategy<String>| {
        vec((name(), "[ \n]?", value), 0..6).prop_map(|members| {
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, space, value)| format!("{name}{space}:{space}{value}"))
                .collect();
            format!("{{{}}}", members.join(" ,"))
        })
    };
    let value = scalar().boxed().prop_recursive(4, 40, 6, move |value| {
        prop_oneof![
            members(value.clone()),
            vec(value, 0..4).prop_map(|items| format!("[ {}\t]", items.join(","))),
        ]
    });
    members(value.boxed())
}

fn text() -> impl Strategy<Value = String> {
    "[a-z_\"\\\\\u{e9}\n]{0,8}"
}

fn task_ration() -> impl Strategy<Value = TaskRation> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(cube, vector)| TaskRation::Ratio { cube, vector }),
        Just(TaskRation::TilingKey),
        any::<i64>().prop_map(TaskRation::Number),
        text().prop_map(TaskRation::Other),
    ]
}

fn kernel() -> impl Strategy<Value = KernelEntry> {
    (text(), of(any::<u64>()), of(task_ration()), of(any::<bool>())).prop_map(|(name, key, ration, sync)| {
        KernelEntry {
            kernel_name: name,
            tiling_key: key,
            task_ration: ration,
            cross_core_sync: sync.map(Flag::Bool),
            ..KernelEntry::default()
        }
    })
}

fn word<T: Copy + std::fmt::Debug + 'static>(words: &'static [T]) -> impl Strategy<Value = Word<T>> {
    prop_oneof![
        proptest::sample::select(words).prop_map(Word::Known),
        "[a-z]{0,3}".prop_map(|text| Word::Other(text)),
    ]
}

fn workspace() -> impl Strategy<Value = Workspace> {
    (vec(any::<i64>(), 0..4), of(vec(any::<i64>(), 0..4))).prop_map(|(size, kind)| Workspace {
        num: Some(size.len() as u64),
        size,
        kind,
        ..Workspace::default()
    })
}

prop_compose! {
    fn meta()(
        names in (of(text()), of(text()), of(text())),
        block_dim in of(prop_oneof![(0..65536_u32).prop_map(BlockDim::Fixed), Just(BlockDim::Dynamic)]),
        kernel_list in of(vec(kernel(), 0..4)),
        magic in of(word(&Magic::ALL)),
        core_type in of(word(&[CoreType::AiCore, CoreType::MixAiv, CoreType::Aic])),
        task_ration in of(task_ration()),
        parameters in of(vec(prop_oneof![Just(Parameter::Null), any::<i64>().prop_map(Parameter::Int)], 0..4)),
        workspace in of(workspace()),
        number in of(any::<u64>()),
        extra in btree_map("x[a-z\"\n]{0,3}", text().prop_map(Json::from), 0..4),
    ) -> KernelMeta {
        let (bin_file_name, kernel_name, sha256) = names;
        KernelMeta {
            bin_file_name, kernel_name, sha256, block_dim, kernel_list, magic, core_type, task_ration, parameters,
            workspace, op_para_size: number, extra,
            ..KernelMeta::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_document_is_read_or_refused(json in json()) {
        fuzz(json.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..64)) {
        fuzz(&bytes);
    }

    /// Written documents read back equal.
    #[test]
    fn any_description_round_trips(meta in meta()) {
        prop_assert_eq!(KernelMeta::parse(meta.to_json().as_bytes()), Ok(meta));
    }

    /// Unknown fields keep their spelling.
    #[test]
    fn unknown_fields_keep_their_spelling(value in json()) {
        let meta = KernelMeta::parse(format!("{{\"unknown\":{value}}}").as_bytes()).unwrap();
        let (kept, read): (serde_json::Value, serde_json::Value) = match serde_json::from_str(&value) {
            Ok(read) => (serde_json::from_str(meta.extra["unknown"].text()).unwrap(), read),
            // serde_json's values cannot hold an unpaired surrogate.
            Err(_) => return Ok(()),
        };
        prop_assert_eq!(kept, read);
        let blank = |text: &str| text.replace([' ', '\n', '\t'], "");
        prop_assert_eq!(meta.extra["unknown"].text(), blank(&value));
    }
}

#[test]
fn truncated_documents_cause_no_panic() {
    for document in DOCUMENTS {
        for end in 0..=document.len() {
            fuzz(&document.as_bytes()[..end]);
        }
    }
}

#[test]
fn flipped_bits_cause_no_panic() {
    for document in DOCUMENTS {
        let mut bytes = document.trim_end().as_bytes().to_vec();
        for at in 0..bytes.len() {
            // All bits of the short document, one in each byte of the long one.
            let bits = if bytes.len() < 1000 { 0..8 } else { at % 8..at % 8 + 1 };
            for bit in bits {
                bytes[at] ^= 1 << bit;
                fuzz(&bytes);
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

/// Time and memory grow linearly with the file.
#[test]
fn large_documents_are_read_in_linear_time() {
    let start = opkeep_testkit::CpuTime::start();
    let many = |item: &str, count: usize| vec![item; count].join(",");
    let members: Vec<String> = (0..50_000).rev().map(|index| format!("\"{index:x}\":{index}")).collect();
    for document in [
        format!("{{{}}}", members.join(",")),
        format!("{{{}}}", many("\"a\":1", 100_000)),
        format!("{{{}}}", many("\"blockDim\":1,\"a\":2", 50_000)),
        format!("{{\"parameters\":[{}]}}", many("null", 100_000)),
        format!("{{\"taskRation\":\"tilingKey\",\"kernelList\":[{}]}}", many("1", 100_000)),
        format!(
            "{{\"taskRation\":\"tilingKey\",\"kernelList\":[{}]}}",
            many("{\"kernelName\":\"\"}", 20_000)
        ),
        format!("{{\"kernelName\":\"{}\"}}", "\\\\".repeat(500_000)),
        format!("{{\"x\":[{}]}}", " ".repeat(1_000_000)),
        format!("{{\"x\":{}}}", many(&"[".repeat(100_000), 3)),
    ] {
        fuzz(document.as_bytes());
    }
    // Seconds without optimisation; quadratic time would take hours.
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
}
