use serde_json::Value as Tree;

use super::record::MAX_ITEMS;
use super::*;

const VENDOR: &str = include_str!("../../../../fixtures/mindspore/square_12484080525657478220_2.json");
const EVERY_FIELD: &str = include_str!("../../tests/suite/documents/every_field.json");

fn parse(text: &str) -> KernelMeta {
    KernelMeta::parse(text.as_bytes()).unwrap()
}

/// The rejected field, and the value in the message.
fn refused(text: &str) -> (String, String) {
    match KernelMeta::parse(text.as_bytes()) {
        Err(MetaError::Field { field, found, .. }) => (field, found),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn vendor_example_round_trips_byte_for_byte() {
    let meta = parse(VENDOR);
    assert_eq!(meta.block_dim, Some(BlockDim::Fixed(1)));
    assert_eq!(meta.entry_names(), ["square_12484080525657478220_2__kernel0"]);
    assert_eq!(meta.batch_bind_only, Some(Flag::Number(1)));
    assert_eq!(meta.parameters, Some(vec![Parameter::Int(0); 2]));
    assert_eq!(meta.extra, crate::Extra::new());
    assert_eq!(meta.to_json(), VENDOR.trim_end());
}

#[test]
fn every_field_round_trips_byte_for_byte() {
    let meta = parse(EVERY_FIELD);
    assert_eq!(meta.to_json(), EVERY_FIELD);
    // Typed fields are not in `extra`.
    assert_eq!(meta.extra.keys().collect::<Vec<_>>(), ["globalworkspace_other", "later"]);
    assert_eq!(meta.extra["later"].text(), r#"{"b":[-0,1E400,"\u00e9\/"],"a":null}"#);
    let first = &meta.kernel_list.as_ref().unwrap()[0];
    assert_eq!(first.extra.keys().collect::<Vec<_>>(), ["later"]);
    assert!(meta.run_info.as_ref().unwrap().extra.is_empty());
    assert!(meta.workspace.as_ref().unwrap().extra.is_empty());
}

#[test]
fn fields_have_the_values_in_the_file() {
    let meta = parse(EVERY_FIELD);
    let first = &meta.kernel_list.as_ref().unwrap()[0];
    assert_eq!(meta.entry_names(), ["blend_7_10000000000000000000", "blend_7_1"]);
    assert_eq!(first.tiling_key, Some(10_000_000_000_000_000_000));
    assert_eq!(first.task_ration, Some(TaskRation::Ratio { cube: 1, vector: 2 }));
    assert_eq!(first.block_dim, Some(BlockDim::Fixed(20)));
    assert!(first.cross_core_sync.unwrap().is_set());
    assert_eq!(meta.block_dim, Some(BlockDim::Dynamic));
    assert_eq!(meta.task_ration, Some(TaskRation::TilingKey));
    assert_eq!(meta.magic, Some(Magic::Elf.into()));
    assert_eq!(meta.core_type, Some(CoreType::Mix.into()));
    assert_eq!(meta.old_core_type, Some(CoreType::Aic.into()));
    assert_eq!(meta.kb_hit, Some(Flag::Bool(true)));
    assert_eq!(meta.workspace.as_ref().unwrap().size, [-1, 32]);
    assert_eq!(meta.workspace.as_ref().unwrap().kind.as_deref(), Some(&[0, 1][..]));
    assert_eq!(meta.args_remap, Some(vec![vec![0, 2], vec![1]]));
    assert_eq!(meta.spec_workspace.as_ref().unwrap().size, 32);
    assert_eq!(meta.run_info.as_ref().unwrap().tiling_key, Some(u64::MAX));
    let Some([Parameter::Null, Parameter::Int(1), Parameter::Clear(clear)]) = meta.parameters.as_deref()
    else {
        panic!("{:?}", meta.parameters);
    };
    assert_eq!(clear.dtype.as_deref(), Some("float32"));
    assert_eq!(clear.init_value.as_ref().unwrap().text(), "-3.40282347e+38");
    let sides = meta.json_list.as_ref().unwrap();
    assert_eq!(sides[1].core_type, Some(CoreType::MixAiv.into()));
    assert_eq!(sides[1].json_file_name, "blend_7_mix_aiv.json");
    assert!(meta.compile_info.as_ref().unwrap().text().contains(r#""eps":1e-05,"vars""#));
}

#[test]
fn masters_and_short_forms_are_accepted() {
    let master = parse(r#"{"jsonList": [{"coreType": "MIX_AIC", "jsonFileName": "a.json"}]}"#);
    assert_eq!((master.bin_file_name, master.json_list.unwrap().len()), (None, 1));
    let host = parse(r#"{"kernelName":"a_kernel","objSha256":"0","sha256":"1","threadNumber":"null"}"#);
    assert_eq!(host.thread_number.as_deref(), Some("null"));
    assert_eq!(host.obj_sha256.as_deref(), Some("0"));
    assert_eq!(parse("{}"), KernelMeta::default());
}

#[test]
fn forms_of_real_producers_are_accepted() {
    let old = parse(r#"{"taskRation": 0, "core_type": "AIV", "intercoreSync": true, "parameters": []}"#);
    assert_eq!(old.task_ration, Some(TaskRation::Number(0)));
    assert_eq!(old.intercore_sync, Some(Flag::Bool(true)));
    for text in ["", "1:2:3", "01:2", "a:b", "1:", "4294967296:1", "+1:2"] {
        let meta = parse(&format!(r#"{{"taskRation": "{text}"}}"#));
        assert_eq!(meta.task_ration, Some(TaskRation::Other(text.to_owned())));
    }
    let zero = parse(r#"{"taskRation": "0:1"}"#);
    assert_eq!(zero.task_ration, Some(TaskRation::Ratio { cube: 0, vector: 1 }));

    let floats = parse(r#"{"workspace": {"num": 1, "size": [1024.0]}, "blockDim": 2.0}"#);
    assert_eq!(floats.workspace.unwrap().size, [1024]);
    assert_eq!(floats.block_dim, Some(BlockDim::Fixed(2)));

    let strange = parse(r#"{"magic": "RT_DEV_BINARY_MAGIC_OM", "coreType": "QUANTUM"}"#);
    assert_eq!(strange.magic, Some(Word::Other("RT_DEV_BINARY_MAGIC_OM".to_owned())));
    assert_eq!(strange.core_type, Some(Word::Other("QUANTUM".to_owned())));
}

#[test]
fn wrong_types_are_named() {
    for (text, field, found) in [
        (r#"{"magic": 1128612421}"#, "magic", "1128612421"),
        (r#"{"blockDim": 65536}"#, "blockDim", "65536"),
        (r#"{"blockDim": -2}"#, "blockDim", "-2"),
        (r#"{"blockDim": 1.5}"#, "blockDim", "1.5"),
        (r#"{"blockDim": "1"}"#, "blockDim", "\"1\""),
        (r#"{"sha256": 1}"#, "sha256", "1"),
        (r#"{"sha256": null}"#, "sha256", "null"),
        (r#"{"opParaSize": "64"}"#, "opParaSize", "\"64\""),
        (r#"{"binFileName": []}"#, "binFileName", "[]"),
        (r#"{"kernelName": "\ud800"}"#, "kernelName", r#""\ud800""#),
        (r#"{"kernelList": {}}"#, "kernelList", "{}"),
        (r#"{"kernelList": [1]}"#, "kernelList[0]", "1"),
        (
            r#"{"kernelList": [ {"tilingKey": 1} ]}"#,
            "kernelList[0].kernelName",
            "no such field in {\"tilingKey\":1}",
        ),
        (r#"{"kernelList": [{"kernelName": null}]}"#, "kernelList[0].kernelName", "null"),
        (r#"{"kernelList": [{"kernelName": "a", "tilingKey": -1}]}"#, "kernelList[0].tilingKey", "-1"),
        (
            r#"{"kernelList": [{"kernelName": "a", "tilingKey": 18446744073709551616}]}"#,
            "kernelList[0].tilingKey",
            "18446744073709551616",
        ),
        (r#"{"workspace": []}"#, "workspace", "[]"),
        (r#"{"workspace": {"num": 2, "size": [1]}}"#, "workspace.num", "2, but 1 item"),
        (r#"{"workspace": {"size": [1, "x"]}}"#, "workspace.size[1]", "\"x\""),
        (r#"{"parameters": ["x"]}"#, "parameters[0]", "\"x\""),
        (r#"{"parameters": {}}"#, "parameters", "{}"),
        (r#"{"coreType": 2}"#, "coreType", "2"),
        (r#"{"taskRation": [1]}"#, "taskRation", "[1]"),
        (r#"{"intercoreSync": "1"}"#, "intercoreSync", "\"1\""),
        (r#"{"jsonList": [{"coreType": "MIX"}]}"#, "jsonList[0].jsonFileName", ""),
        ("[]", "(document)", "[]"),
        (" null", "(document)", "null"),
    ] {
        let (at, message) = refused(text);
        assert_eq!(at, field, "{text}");
        assert!(message.contains(found), "{text}: {message}");
    }
}

#[test]
fn null_counts_as_missing() {
    const FIELDS: [&str; 11] = [
        "blockDim",
        "coreType",
        "core_type",
        "intercoreSync",
        "jsonList",
        "kernelList",
        "objSha256",
        "opParaSize",
        "parameters",
        "taskRation",
        "workspace",
    ];
    let all: Vec<String> = FIELDS.iter().map(|field| format!("\"{field}\": null")).collect();
    let meta = parse(&format!("{{{}}}", all.join(",")));
    assert_eq!(meta.extra.keys().map(String::as_str).collect::<Vec<_>>(), FIELDS);
    assert_eq!(parse(&meta.to_json()), meta);
}

/// A field that does not decide which code runs is kept as spelled, whatever its type.
#[test]
fn untyped_fields_are_never_refused() {
    const STRICT: [&str; 16] = [
        "binFileName",
        "binFileSuffix",
        "blockDim",
        "coreType",
        "core_type",
        "intercoreSync",
        "jsonList",
        "kernelList",
        "kernelName",
        "magic",
        "objSha256",
        "opParaSize",
        "parameters",
        "sha256",
        "taskRation",
        "workspace",
    ];
    let Ok(Tree::Object(fields)) = serde_json::from_str(EVERY_FIELD) else { panic!() };
    for name in fields.keys() {
        let text = format!(r#"{{"{name}": {{"strange": [ 1.0 ]}}}}"#);
        if STRICT.contains(&name.as_str()) {
            let (field, _) = refused(&text);
            assert!(field.starts_with(name), "{field}");
        } else {
            let meta = parse(&text);
            let written = meta.to_json();
            assert!(written.contains(name) && written.contains("1.0"), "{written}");
            assert_eq!(parse(&written), meta);
        }
    }
}

#[test]
fn the_last_of_repeated_fields_counts() {
    let meta = parse(
        r#"{"blockDim": "x", "later": 1, "blockDim": 2, "KBHit": true, "KBHit": "x", "later": 2, "later": 3,
            "kernelList": [{"kernelName": "b"}, {"kernelName": "a", "kernelN\u0061me": "c"}],
            "workspace": {"size": [1], "size": [2]}}"#,
    );
    assert_eq!(meta.block_dim, Some(BlockDim::Fixed(2)));
    assert_eq!((meta.kb_hit, meta.extra["KBHit"].text()), (None, "\"x\""));
    assert_eq!(meta.extra["later"].text(), "3");
    assert_eq!(meta.entry_names(), ["b", "c"]);
    assert_eq!(meta.workspace.as_ref().unwrap().size, [2]);
    let places = ["KBHit", "blockDim", "later", "kernelList[1].kernelName", "workspace.size"];
    assert_eq!(meta.repeated, places);
    assert!(parse(EVERY_FIELD).repeated.is_empty());
}

#[test]
fn a_known_field_in_extra_is_written_once() {
    let mut meta = parse(r#"{"kernelName": "a"}"#);
    meta.extra.insert("kernelName".to_owned(), "b".into());
    assert_eq!(parse(&meta.to_json()).kernel_name.as_deref(), Some("a"));
    assert!(parse(&meta.to_json()).repeated.is_empty());
}

#[test]
fn every_truncation_is_a_typed_refusal() {
    for text in [VENDOR.trim_end(), EVERY_FIELD] {
        for end in 0..text.len() {
            let truncated = KernelMeta::parse(&text.as_bytes()[..end]);
            assert!(matches!(truncated, Err(MetaError::Json { .. })), "{end}");
        }
    }
    let error = KernelMeta::parse(b"{\n \"a\": 1").unwrap_err();
    assert!(matches!(error, MetaError::Json { bytes: 9, line: 2, column: 7, .. }), "{error:?}");
    assert!(matches!(KernelMeta::parse(b"{} x"), Err(MetaError::Json { .. })));
    assert!(matches!(KernelMeta::parse(b"\x0c{}"), Err(MetaError::Json { .. })));
}

#[test]
fn errors_of_encoding_have_a_position() {
    let error = KernelMeta::parse(b"{\n\"a\xff\": 1}").unwrap_err();
    assert!(matches!(error, MetaError::Json { line: 2, column: 3, .. }), "{error:?}");
    assert!(matches!(KernelMeta::parse(b"\xff\xfe{}"), Err(MetaError::Json { line: 1, column: 1, .. })));
}

#[test]
fn invalid_sizes_are_kept_as_spelled() {
    for size in ["-1", "18446744073709551616", "0.5"] {
        let meta = parse(&format!(r#"{{"opParaSize": {size}}}"#));
        assert_eq!((meta.op_para_size, meta.extra["opParaSize"].text()), (None, size));
    }
    assert_eq!(parse(r#"{"opParaSize": 64}"#).op_para_size, Some(64));
}

#[test]
fn an_empty_list_hides_no_name() {
    let meta = parse(r#"{"kernelName": "a", "kernelList": []}"#);
    assert_eq!((meta.entry_names(), meta.listed()), (vec!["a"], None));
    let meta = parse(r#"{"kernelName": "a", "kernelList": [{"kernelName": "b"}]}"#);
    assert_eq!((meta.entry_names(), meta.listed().map(<[_]>::len)), (vec!["b"], Some(1)));
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    let marked = |text: &str| KernelMeta::parse(format!("\u{feff}{text}").as_bytes());
    assert_eq!(marked("{}"), Ok(KernelMeta::default()));
    assert!(matches!(marked("\u{feff}{}"), Err(MetaError::Json { .. })));
    assert!(matches!(marked(""), Err(MetaError::Json { .. })));
}

#[test]
fn only_a_truncated_text_counts_as_interrupted() {
    let message = |text: &str| KernelMeta::parse(text.as_bytes()).unwrap_err().to_string();
    assert!(message("{\"a\": 1").ends_with("the writer was probably interrupted"));
    assert!(!message("{\"a\" 1}").contains("interrupted"));
    assert!(!message("{} {}").contains("interrupted"));
}

#[test]
fn lists_are_bounded() {
    let list = |items: usize| format!(r#"{{"parameters": [{}null]}}"#, "null,".repeat(items - 1));
    assert_eq!(parse(&list(MAX_ITEMS)).parameters.unwrap().len(), MAX_ITEMS);
    assert_eq!(refused(&list(MAX_ITEMS + 1)).0, "parameters");
}

#[test]
fn depth_and_size_are_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(parse(&format!(r#"{{"later": {}}}"#, nested(32))).extra["later"].text().len(), 64);
    for depth in [33, 100_000] {
        assert_eq!(refused(&format!(r#"{{"later": {}}}"#, nested(depth))).0, "later");
        assert_eq!(refused(&format!(r#"{{"compileInfo": {}}}"#, nested(depth))).0, "compileInfo");
        assert_eq!(refused(&format!(r#"{{"kernelList": [{}]}}"#, nested(depth))).0, "kernelList[0]");
    }
    let deep = format!(r#"{{"kernelList": [{{"kernelName": "a", "l\u001b": {}}}]}}"#, nested(33));
    assert_eq!(refused(&deep).0, "kernelList[0].l\u{fffd}");
    assert!(matches!(KernelMeta::parse("[".repeat(100_000).as_bytes()), Err(MetaError::Json { .. })));

    let mut large = b"{}".to_vec();
    large.resize(MAX_BYTES, b' ');
    assert_eq!(KernelMeta::parse(&large), Ok(KernelMeta::default()));
    large.push(b' ');
    let refusal = KernelMeta::parse(&large);
    assert_eq!(refusal, Err(MetaError::TooLarge { bytes: MAX_BYTES + 1, limit: MAX_BYTES }));
}
