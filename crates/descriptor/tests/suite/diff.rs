//! The differences of two jobs.

use opkeep_descriptor::{
    Arg, Attr, AttrValue, ConstValue, Diff, Extra, Float, Input, Job, OmittedArg, ResolvedSpec, Source,
    Tensor,
};
use serde_json::json;

use crate::tree::{COMPOSITE, EXAMPLE, OLDER, RICH, parse, read, read_value, with};

fn lines(old: &Job, new: &Job) -> Vec<String> {
    let diff = Diff::of_jobs(old, new);
    assert_eq!(diff.is_empty(), old.digest() == new.digest(), "{diff}");
    diff.to_string().lines().map(str::to_owned).collect()
}

/// The lines for one change of the rich job.
fn changed(change: impl FnOnce(&mut Job)) -> Vec<String> {
    let old = read(RICH).job;
    let mut new = old.clone();
    change(&mut new);
    lines(&old, &new)
}

fn one<T>(arg: &mut Arg<T>) -> &mut T {
    match arg {
        Arg::One(item) => item,
        _ => panic!("not one tensor"),
    }
}

#[test]
fn a_field_is_named_by_its_path() {
    let old = read(EXAMPLE).job;
    let mut new = old.clone();
    for arg in &mut new.ops[0].inputs {
        one(arg).tensor.shape = vec![4];
        one(arg).tensor.range = Some(vec![[4, 4]]);
    }
    assert_eq!(
        lines(&old, &new),
        ["ops[0].inputs[0].shape: [3] -> [4]", "ops[0].inputs[0].range: [[3, 3]] -> [[4, 4]]"]
    );
    assert_eq!(lines(&old, &old), [""; 0]);
}

#[test]
fn every_kind_of_field_is_shown_as_it_is() {
    assert_eq!(changed(|job| job.l1_size = 7), ["l1_size: 1048576 -> 7"]);
    assert_eq!(changed(|job| job.ops[0].op_type = "Other".into()), ["ops[0].op_type: ConcatD -> Other"]);
    assert_eq!(
        changed(|job| job.ops[0].flags.unknown_shape = Some(true)),
        ["ops[0].flags.unknown_shape: false -> true"]
    );
    assert_eq!(changed(|job| one(&mut job.ops[1].outputs[0]).format = "ND2".into()).len(), 1);
    assert_eq!(
        changed(|job| one(&mut job.ops[1].inputs[0]).tensor.valid = Some(false)),
        ["ops[1].inputs[0].valid: true -> false"]
    );
    assert_eq!(
        changed(|job| one(&mut job.ops[2].inputs[1]).tensor.slice.slice_offset = None),
        ["ops[2].inputs[1].slice_offset: [0, 8] -> []"]
    );
    assert_eq!(
        changed(|job| one(&mut job.ops[2].inputs[1]).tensor.slice.l1_fusion_type = None),
        ["ops[2].inputs[1].L1_fusion_type: 1 -> -1"]
    );
    assert_eq!(
        changed(|job| one(&mut job.data[3].outputs[0]).const_value = None),
        ["data[3].outputs[0].const_value: [0,-1] -> (none)"]
    );
    let other = ConstValue { value: json!([0, 1]), dtype: Some("int32".into()) };
    assert_eq!(
        changed(|job| one(&mut job.data[3].outputs[0]).const_value = Some(other)),
        [
            "data[3].outputs[0].const_value[1]: -1 -> 1",
            "data[3].outputs[0].const_value.dtype: int64 -> int32"
        ]
    );
    assert_eq!(
        changed(|job| _ = job.extra.insert("future_top".into(), json!({ "a": 2, "b": [] }))),
        ["future_top.a: 1 -> 2", "future_top.b: (none) -> []"]
    );
    assert_eq!(
        changed(|job| _ = job.data[0].extra.remove("future_data")),
        ["data[0].future_data: \"kept\" -> (none)"]
    );
}

#[test]
fn attributes_are_shown_by_value() {
    let at = |name: &str| {
        let attrs = read(RICH).job.ops[1].attrs.clone().unwrap();
        attrs.iter().position(|attr| attr.name == name).unwrap()
    };
    let set = |name: &str, value: AttrValue| {
        let index = at(name);
        let found = changed(|job| job.ops[1].attrs.as_mut().unwrap()[index].value = value);
        let path = format!("ops[1].attrs[{index}].value");
        found.into_iter().map(|line| line.replace(&path, "value")).collect::<Vec<_>>()
    };
    let float = |value| AttrValue::Float(Float::new(value));
    assert_eq!(set("epsilon", float(1e-6)), ["value: 1e-05 -> 1e-06"]);
    assert_eq!(set("epsilon", AttrValue::Str("1e-05".into())), ["value: 1e-05 -> \"1e-05\""]);
    assert_eq!(set("alpha", AttrValue::Int(1)), ["value: 1.0 -> 1"]);
    assert_eq!(set("limit", float(f64::NAN)), ["value: inf -> NaN 0x7ff8000000000000"]);
    assert_eq!(set("begin_norm_axis", AttrValue::UInt(1)), ["value: 1 -> 1 (unsigned)"]);
    let pair = |a, b| AttrValue::ints(&[a, b]);
    assert_eq!(set("pads", AttrValue::List(vec![pair(0, 0), pair(1, 2)])), ["value[1][1]: -1 -> 2"]);
    assert_eq!(set("pads", AttrValue::List(vec![pair(0, 0)])), ["value: [[0, 0], [1, -1]] -> [[0, 0]]"]);
    assert_eq!(set("keep_dims", AttrValue::Null), ["value: true -> null"]);
    // As in the key, a float32 has 32 bits.
    assert_eq!(set("beta", float(0.1)), [""; 0]);
    let added = changed(|job| job.ops[0].attrs = Some(vec![Attr::new("axis", "int32", AttrValue::Int(1))]));
    assert!(added.iter().any(|line| line.ends_with(": (none) -> axis")), "{added:?}");
}

#[test]
fn values_of_one_side_only_are_shown_in_full() {
    let removed = changed(|job| _ = job.ops.pop());
    assert_eq!(removed, ["ops[2]: Add -> (none)"]);
    let removed = changed(|job| _ = job.ops[2].inputs.pop());
    assert_eq!(removed, ["ops[2].inputs[2]: float16 ND [-2] -> (none)"]);
    let x = Tensor::new("int8", [2]);
    let group = vec![
        Input { tensor: x.clone(), source: Source::Free(0) },
        Input { tensor: x, source: Source::Free(1) },
    ];
    let kinds = changed(|job| job.ops[1].inputs[1] = Arg::Many(group));
    assert_eq!(kinds.len(), 1);
    assert!(kinds[0].ends_with(" -> variadic [int8 ND [2], int8 ND [2]]"), "{kinds:?}");
    let absent = OmittedArg { param_type: Some("optional".into()), extra: Extra::new() };
    let kinds = changed(|job| job.ops[1].inputs[1] = Arg::Absent(absent));
    assert!(kinds[0].starts_with("ops[1].inputs[1]: ") && kinds[0].ends_with(" -> not given"), "{kinds:?}");
    let other = changed(|job| {
        let Arg::Absent(absent) = &mut job.ops[0].inputs[1] else { panic!() };
        absent.param_type = Some("required".into());
    });
    assert_eq!(other, ["ops[0].inputs[1].param_type: optional -> required"]);
}

#[test]
fn wires_are_shown_by_place() {
    let wire = |source| changed(|job| one(&mut job.ops[2].inputs[0]).source = source);
    let path = "ops[2].inputs[0].source: ops[1].outputs[0]";
    assert_eq!(wire(Source::Op { op: 0, output: 0 }), [format!("{path} -> ops[0].outputs[0]")]);
    assert_eq!(wire(Source::Data { data: 1, tensor: 1 }), [format!("{path} -> data[1].outputs[1]")]);
    // Another number for the same outside tensor is no difference; another tensor is.
    assert_eq!(changed(|job| one(&mut job.ops[2].inputs[2]).source = Source::Free(77)), [""; 0]);
    assert_eq!(wire(Source::Free(0)), [format!("{path} -> outside 0")]);
    assert_eq!(
        wire(Source::Free(5)),
        [format!("{path} -> outside 0"), "ops[2].inputs[2].source: outside 0 -> outside 1".to_owned()]
    );
}

/// Fields that do not count are not differences.
#[test]
fn defaults_and_spelling_are_no_difference() {
    let tensor = changed(|job| {
        let tensor = &mut one(&mut job.ops[1].inputs[0]).tensor;
        tensor.slice.l1_addr_offset = None;
        tensor.valid = None;
    });
    assert_eq!(tensor, [""; 0]);
    assert_eq!(changed(|job| job.ops[0].module_path = None), [""; 0]);
    assert_eq!(changed(|job| job.ops[0].flags.is_dynamic_impl = None), [""; 0]);
    let spelled = with(&parse(RICH), "/job_content/future_content", parse("3e0"));
    assert_eq!(lines(&read(RICH).job, &read_value(&spelled).unwrap().job), [""; 0]);
}

#[test]
fn jobs_of_different_kinds_have_differences() {
    let jobs = [EXAMPLE, RICH, OLDER, COMPOSITE].map(|text| read(text).job);
    for old in &jobs {
        for new in &jobs {
            assert_eq!(lines(old, new).is_empty(), old == new);
            assert_eq!(lines(old, new).len(), lines(new, old).len());
        }
    }
}

#[test]
fn long_values_are_cut() {
    let long = changed(|job| job.ops[0].op_type = "é".repeat(1000));
    assert!(long[0].ends_with(&format!(" -> {}...", "é".repeat(200))), "{long:?}");
}

/// Of two long values, the text around the first difference is shown.
#[test]
fn long_values_are_cut_around_the_first_difference() {
    for common in [0, 100, 160, 161, 300, 5000] {
        let mode = |rest: &str| {
            let mut job = read(EXAMPLE).job;
            let value = AttrValue::Str(format!("{}{rest}", "é".repeat(common)));
            job.ops[0].attrs = Some(vec![Attr::new("mode", "str", value)]);
            job
        };
        let tail = "x".repeat(500);
        for (old, new) in [("old", "new"), ("old", ""), (&tail, "y"), ("", &tail)] {
            let diff = Diff::of_jobs(&mode(old), &mode(new));
            let [change] = diff.changes.as_slice() else { panic!("{diff}") };
            assert_ne!(change.old, change.new, "{common}: {old:.3} {new:.3}");
            assert!(change.old.chars().count() <= 206 && change.new.chars().count() <= 206, "{change}");
        }
    }
    let at = |length: usize| {
        let mut job = read(EXAMPLE).job;
        job.ops[0].func_name = format!("{}{}", "a".repeat(300), "b".repeat(length));
        job
    };
    // The texts differ after the first `b`.
    let common = format!("...{}b", "a".repeat(39));
    assert_eq!(lines(&at(1), &at(2)), [format!("ops[0].func_name: {common} -> {common}b")]);
}

/// Every field that counts is listed with its hashed value, whether a file states it or not.
#[test]
fn the_fields_of_a_job_are_listed() {
    let job = read(EXAMPLE).job;
    let fields = job.fields();
    let value = |path: &str| fields.iter().find(|(at, _)| at == path).map(|(_, value)| value.as_str());
    for (path, expected) in [
        ("ops[0].op_type", "Square"),
        ("ops[0].flags.max_kernel_id", "10"),
        ("ops[0].inputs[0].shape", "[3]"),
        ("ops[0].inputs[0].ori_format", "NCHW"),
        ("ops[0].inputs[0].range", "[[3, 3]]"),
        ("ops[0].inputs[0].L1_fusion_type", "-1"),
        ("ops[0].inputs[0].source", "data[0].outputs[0]"),
        ("data[0].outputs[0].dtype", "float32"),
        ("l1_size", "-1"),
    ] {
        assert_eq!(value(path), Some(expected), "{path}");
    }
    let rich = read(RICH).job.fields();
    let value = |path: &str| rich.iter().find(|(at, _)| at == path).map(|(_, value)| value.as_str());
    for (path, expected) in [
        ("ops[1].attrs[4].value", "[0.5, 2.0, -inf]"),
        ("ops[1].attrs[8].value", "\"FRACTAL_Z\""),
        ("ops[0].inputs[1].param_type", "optional"),
        ("ops[0].inputs[0][1].shape", "[12, 16]"),
        ("ops[1].outputs[2].future_tensor", "{\"deep\":[null,true,1e-3]}"),
        ("data[3].outputs[0].const_value", "[0,-1]"),
        ("future_top", "{\"a\":1}"),
    ] {
        assert_eq!(value(path), Some(expected), "{path}");
    }
    // Nothing is listed twice, and fields that do not count are not listed.
    let paths: std::collections::BTreeSet<_> = rich.iter().map(|(path, _)| path).collect();
    assert_eq!(paths.len(), rich.len());
    assert!(!rich.iter().any(|(path, _)| path.contains("module_path") || path.contains("name_0")));
}

#[test]
fn specs_are_compared_too() {
    let spec = |target: &str, options: &[(&str, &str)], debug| ResolvedSpec {
        target: target.into(),
        options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        debug,
    };
    let old = spec("Ascend910A", &[("coreNum", "32"), ("mode", "")], false);
    let new = spec("Ascend910B2", &[("coreNum", "24"), ("level", "1")], true);
    assert_eq!(
        Diff::of_specs(&old, &new).to_string(),
        "target: Ascend910A -> Ascend910B2\noptions.coreNum: 32 -> 24\noptions.mode:  -> (none)\n\
         options.level: (none) -> 1\ndebug: false -> true\n"
    );
    assert!(Diff::of_specs(&old, &old).is_empty());
    assert!(!Diff::of_specs(&old, &new).is_empty());
}
