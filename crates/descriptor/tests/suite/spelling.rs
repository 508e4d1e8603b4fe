//! Different spellings of one job have one key; similar texts of different jobs have two.

use std::collections::BTreeSet;

use opkeep_descriptor::{Arg, AttrValue, Descriptor, Diff, Float, Generation, KernelName, write_info};
use opkeep_digest::Digest;
use serde_json::{Value, json};

use crate::tree::{EXAMPLE, FUSED, RICH, each_named, parse, read, read_value, with};

const LAYER_NORM: &str = "/job_content/op_list/5";

fn digest(document: &Value) -> Digest {
    read_value(document).unwrap_or_else(|error| panic!("{error}")).job.digest()
}

/// The rich job, its attribute 0 of type `dtype` and value `token`, `attr_desc` in step.
fn with_attr(dtype: &str, token: &str) -> Digest {
    let document = with(&parse(RICH), &format!("{LAYER_NORM}/attrs/0/value"), parse(token));
    let document = with(&document, &format!("{LAYER_NORM}/attr_desc/0"), parse(token));
    digest(&with(&document, &format!("{LAYER_NORM}/attrs/0/dtype"), dtype.into()))
}

fn with_unknown(token: &str) -> Digest {
    digest(&with(&parse(RICH), "/job_content/future_content", parse(token)))
}

fn all_differ(digests: &[Digest]) {
    assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len(), "{digests:#?}");
}

#[test]
fn numbers_count_by_value() {
    for token in ["1e-5", "0.00001", "1E-5", "1.0e-05", "0.1e-4"] {
        assert_eq!(with_attr("float32", token), with_attr("float32", "1e-05"), "{token}");
        assert_eq!(with_attr("float64", token), with_attr("float64", "1e-05"), "{token}");
        assert_eq!(with_unknown(token), with_unknown("1e-05"), "{token}");
    }
    // A whole number of a float attribute is a float; in an unknown field its type is unknown.
    assert_eq!(with_attr("float32", "1"), with_attr("float32", "1.0"));
    assert_ne!(with_unknown("1"), with_unknown("1.0"));
}

/// Two tokens that no framework writes come back in other words: an exponent without a sign or with a capital
/// letter, and a whole minus zero.
/// Value, key and name are those of what was read.
#[test]
fn tokens_that_come_back_in_other_words_are_the_same() {
    let attr = |dtype: &str, token: &str| {
        let attr = json!({ "name": "a", "dtype": dtype, "value": parse(token), "valid": true });
        let mut document = parse(EXAMPLE);
        document["job_content"]["op_list"][1]["attrs"] = json!([attr]);
        document["job_content"]["op_list"][1]["future"] = parse(token);
        document.to_string().replace(&parse(token).to_string(), token)
    };
    for (dtype, read_as, written, plain) in [
        ("float32", "1e5", "1e+5", "100000.0"),
        ("float32", "1E5", "1e+5", "100000.0"),
        ("float64", "25e12", "25e+12", "25000000000000.0"),
        ("int32", "-0", "0", "0"),
    ] {
        let (first, other) = (attr(dtype, read_as), attr(dtype, plain));
        assert!(first.contains(&format!("\"value\":{read_as}")), "{first}");
        let descriptor = read(&first);
        let again = write_info(&descriptor);
        assert!(again.contains(&format!("\"value\": {written}\n")), "{again}");
        assert_eq!(read(&again), descriptor);
        let value = |descriptor: &Descriptor| descriptor.job.ops[0].attrs.as_ref().unwrap()[0].value.clone();
        assert_eq!(value(&descriptor), value(&read(&other)), "{read_as}");
        assert_eq!(descriptor.job.digest(), read(&other).job.digest(), "{read_as}");
        let name = |text: &str| KernelName::mindspore(&read(text), Generation::R1_5, 2).unwrap();
        assert_eq!(name(&first), name(&other), "{read_as}");
    }
    let shape = EXAMPLE.replacen("3\n", "-0\n", 1);
    assert_eq!(read(&shape).job, read(&EXAMPLE.replacen("3\n", "0\n", 1)).job);
}

/// The fusion pattern of a single operator is a note of the framework; that of several is passed to the compiler.
#[test]
fn the_pattern_counts_where_operators_are_fused() {
    for (text, at, counts) in [
        (EXAMPLE, "/job_content/op_list/1/pattern", false),
        (FUSED, "/job_content/op_list/3/pattern", true),
        (RICH, "/job_content/op_list/6/pattern", true),
    ] {
        let other = read_value(&with(&parse(text), at, "Segment".into())).unwrap();
        assert_eq!(other.job.digest() != read(text).job.digest(), counts, "{at}");
        assert_eq!(Diff::of_jobs(&read(text).job, &other.job).is_empty(), !counts, "{at}");
        assert!(write_info(&other).contains("Segment"), "{at}");
    }
}

#[test]
fn a_float32_counts_by_its_32_bits() {
    let single = f64::from(0.1f32);
    assert_eq!(with_attr("float32", "0.1"), with_attr("float32", &single.to_string()));
    assert_eq!(with_attr("list_float32", "[0.1]"), with_attr("list_float32", &format!("[{single}]")));
    assert_ne!(with_attr("float64", "0.1"), with_attr("float64", &single.to_string()));
    let next = f64::from(f32::from_bits(0.1f32.to_bits() + 1));
    assert_ne!(with_attr("float32", "0.1"), with_attr("float32", &next.to_string()));
    // Zero and minus zero have different bits, and divide to different infinities: they are two kernels.
    assert_ne!(with_attr("float32", "0.0"), with_attr("float32", "-0.0"));
    assert_ne!(with_unknown("0.0"), with_unknown("-0.0"));
    // A number that only overflows is not infinity.
    all_differ(&[
        with_attr("float32", "1e39"),
        with_attr("float32", "1e40"),
        with_attr("float32", "\"inf\""),
        with_attr("float32", "\"-inf\""),
        with_attr("str", "\"inf\""),
    ]);
}

/// Beyond what 64 bits hold, neighbours stay apart.
#[test]
fn great_whole_numbers_are_not_rounded() {
    all_differ(&[
        with_unknown("18446744073709551615"),
        with_unknown("18446744073709551616"),
        with_unknown("18446744073709551617"),
        with_unknown("-9223372036854775809"),
        with_unknown("-9223372036854775810"),
        with_unknown("1e999"),
        with_unknown("1e998"),
        with_unknown("\"18446744073709551616\""),
    ]);
}

/// Types go before values: no list of one kind reads like a value of another.
#[test]
fn values_of_different_types_never_collide() {
    let unknown = [
        "null",
        "true",
        "1",
        "1.0",
        "\"1\"",
        "[]",
        "{}",
        "[1]",
        "[[1]]",
        "\"\"",
        "[\"\"]",
        "[null]",
        "\"f64\"",
        r#"["object",["a",1]]"#,
        r#"[{"a":1}]"#,
        r#"[[["object",["a",1]],"b",2],[{"a":1,"b":2},0]]"#,
        r#"[[["object",["a",1]],"b",2],["object",["a",1],"b",2,0]]"#,
        r#"["f64",4607182418800017408]"#,
        r#"{"f64":4607182418800017408}"#,
        r#"["text","a"]"#,
        r#"["a"]"#,
    ];
    all_differ(&unknown.map(with_unknown));
    let attrs = [
        "true",
        "1",
        "1.0",
        "\"1\"",
        "[]",
        "[1]",
        "[[1]]",
        "[null]",
        "\"\"",
        r#"["f64",9223372036854775808]"#,
        "[-0.0]",
        "[-0.0,[]]",
        r#"["text","a"]"#,
        r#"["a"]"#,
        "18446744073709551615",
    ];
    all_differ(&attrs.map(|token| with_attr("other", token)));
}

/// Null and an empty text differ from a missing field.
#[test]
fn null_and_absent_are_different_where_nothing_says_they_are_the_same() {
    let document = parse(RICH);
    let mut removed = document.clone();
    removed.pointer_mut(&format!("{LAYER_NORM}/attrs/0")).unwrap().as_object_mut().unwrap().remove("value");
    let removed = with(&removed, &format!("{LAYER_NORM}/attr_desc/0"), Value::Null);
    assert_ne!(with_attr("float32", "null"), digest(&removed));
}

#[test]
fn the_attributes_values_count_however_they_were_made() {
    let mut job = read(RICH).job;
    let digest = job.digest();
    let attrs = job.ops[1].attrs.as_mut().unwrap();
    assert!(matches!(&attrs[0].value, AttrValue::Float(float) if float.value() == 1e-5));
    attrs[0].value = AttrValue::Float(Float::new(1e-5));
    assert_eq!(job.digest(), digest);
    // The order in which the function takes them counts.
    job.ops[1].attrs.as_mut().unwrap().swap(0, 1);
    assert_ne!(job.digest(), digest);
}

/// Other names for everything, in step, are the same job.
#[test]
fn consistent_renaming_changes_nothing() {
    for text in [EXAMPLE, RICH] {
        let before = read(text);
        let mut document = parse(text);
        let names = ["full_name", "fusion_op_name", "graph_name", "op_name", "deviceId", "op_debug_dir"];
        each_named(&mut document, &names, &mut |name| name.push_str("_renamed"));
        for op in document.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap() {
            op["name"] = "renamed".into();
            for tensors in ["input_desc", "output_desc"] {
                if let Some(tensors) = op.get_mut(tensors) {
                    // Names in reverse order of letters: no two become one, but their order changes.
                    each_named(tensors, &["name"], &mut |name| {
                        *name = name.bytes().map(|byte| char::from(b'~' - (byte - b' '))).collect();
                    });
                }
            }
            if op.get("ori_name").is_some() {
                op["ori_name"] = json!(["a", "b"]);
                op["py_module_path"] = "/home/me/custom.py".into();
            }
        }
        for (at, value) in [
            ("/job_id", json!(999)),
            ("/source_id", json!(6)),
            ("/job_type", json!("Other")),
            ("/job_content/scope_id", json!(77)),
        ] {
            document = with(&document, at, value);
        }
        let after = read_value(&document).unwrap();
        assert_eq!(after.job.digest(), before.job.digest());
        assert_eq!(after.spec, before.spec);
        assert_ne!(after.envelope, before.envelope);
    }
}

/// Rewiring a fused job changes it, even if each operator stays as it was.
#[test]
fn links_count() {
    let document = parse(RICH);
    let add = |input: usize| format!("/job_content/op_list/6/input_desc/{input}/name");
    let rewired = [
        document.clone(),
        with(&document, &add(0), "Default/LayerNorm-op4_1".into()),
        with(&document, &add(0), "Default/a".into()),
        with(&document, &add(0), "nowhere".into()),
        with(&document, &add(0), "Default/outside".into()),
        with(&document, &add(2), "Default/a".into()),
        with(&document, "/job_content/op_list/4/input_desc/0/0/name", "b_dynamic_1".into()),
        with(&document, "/job_content/op_list/0/output_desc/0/name", "unused".into()),
    ];
    all_differ(&rewired.map(|document| digest(&document)));
}

#[test]
fn data_order_and_operator_order_count() {
    let document = parse(RICH);
    let swapped = |a: usize, b: usize| {
        let mut document = document.clone();
        document.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap().swap(a, b);
        digest(&document)
    };
    all_differ(&[digest(&document), swapped(0, 3), swapped(1, 2), swapped(4, 5)]);
    // Where `Data` ops stand among the others does not: they are listed apart.
    let mut late = document.clone();
    let ops = late.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap();
    ops.rotate_left(4);
    assert_eq!(digest(&late), digest(&document));
}

#[test]
fn absent_tensors_count_by_their_place() {
    let document = parse(RICH);
    let mut first = document.clone();
    first.pointer_mut("/job_content/op_list/4/input_desc").unwrap().as_array_mut().unwrap().swap(0, 1);
    let first = read_value(&first).unwrap();
    assert_ne!(first.job.digest(), digest(&document));
    let sources: Vec<_> =
        first.job.ops[0].inputs.iter().flat_map(Arg::iter).map(|input| input.source).collect();
    let before = read(RICH);
    let expected: Vec<_> =
        before.job.ops[0].inputs.iter().flat_map(Arg::iter).map(|input| input.source).collect();
    assert_eq!(sources, expected);
    // The fields of an absent tensor in a fused job and in a single one.
    let short = json!({ "name": "x_optional_7", "shape": "NULL", "data_type": 0, "future_absent": "kept" });
    let short = with(&document, "/job_content/op_list/4/input_desc/1", short);
    assert_eq!(digest(&short), digest(&document));
    // A type that is more than a placeholder counts.
    let typed = with(&document, "/job_content/op_list/4/input_desc/1/data_type", "int8".into());
    assert_ne!(digest(&typed), digest(&document));
}
