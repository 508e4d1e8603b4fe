//! Reading and writing.

use opkeep_descriptor::{
    Arg, Attr, AttrValue, ConstValue, Descriptor, DtypeFields, Envelope, Float, Generation, OmittedArg,
    OpFlags, RepeatedAttrs, Source, read_info, write_info, write_info_named,
};
use serde_json::{Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, RICH, parse, read, read_value, with, without};

#[test]
fn the_vendors_example_comes_back_byte_by_byte() {
    assert_eq!(write_info(&read(EXAMPLE)), format!("{EXAMPLE}\n"));
}

#[test]
fn only_a_kernels_name_changes_with_it() {
    // A file of r1.0 does not state the kernel's name.
    for text in [EXAMPLE, RICH, FUSED, OLDER, COMPOSITE] {
        let descriptor = read(text);
        let own = &descriptor.envelope.fusion_op_name;
        assert_eq!(write_info_named(&descriptor, own), write_info(&descriptor));
        let renamed = write_info_named(&descriptor, "another_1_2");
        assert_eq!(read(&renamed).envelope.fusion_op_name, "another_1_2");
        assert_eq!(write_info_named(&read(&renamed), own), write_info(&descriptor));
    }
}

#[test]
fn the_vendors_example_is_read() {
    let Descriptor { job, spec, envelope } = read(EXAMPLE);
    assert_eq!((job.data.len(), job.ops.len(), job.l1_size), (1, 1, -1));
    assert!(job.extra.is_empty(), "{:?}", job.extra);

    let op = &job.ops[0];
    assert_eq!(op.op_type, "Square");
    assert_eq!(op.func_name, "square");
    assert_eq!(op.module_name, "impl.square");
    assert_eq!(op.module_path.as_deref(), Some("/usr/local/Ascend/opp/op_impl/built-in/ai_core/tbe"));
    assert_eq!(op.flags, OpFlags::default());
    assert_eq!(op.flags.build_type.as_deref(), Some("accurately_build"));
    assert_eq!(op.flags.is_dynamic_impl, None);
    assert_eq!(op.flags.max_kernel_id, Some(10));
    assert_eq!(op.flags.pattern.as_deref(), Some("Opaque"));
    assert_eq!(op.attrs, None);
    assert!(op.extra.is_empty(), "{:?}", op.extra);

    let (Arg::One(input), Arg::One(output), Arg::One(data)) =
        (&op.inputs[0], &op.outputs[0], &job.data[0].outputs[0])
    else {
        panic!("{job:?}")
    };
    assert_eq!(input.source, Source::Data { data: 0, tensor: 0 });
    for tensor in [&input.tensor, output, data] {
        assert_eq!(tensor.dtype, "float32");
        assert_eq!(tensor.format, "ND");
        assert_eq!(tensor.shape, [3]);
        assert_eq!(tensor.ori_format.as_deref(), Some("NCHW"));
        assert_eq!(tensor.ori_shape.as_deref(), Some(&[3][..]));
        assert_eq!(tensor.range.as_deref(), Some(&[[3, 3]][..]));
        assert_eq!(tensor.param_type, "required");
        assert_eq!(tensor.valid, Some(true));
        assert_eq!(tensor.const_value, None);
        assert_eq!(tensor.slice.l1_addr_offset, Some(0));
        assert_eq!(tensor.slice.l1_fusion_type, Some(-1));
        assert_eq!(tensor.slice.l1_workspace_size, Some(-1));
        assert_eq!(tensor.slice.addr_type, Some(0));
        assert_eq!(tensor.slice.split_index, Some(0));
        let empty = Some(&[][..]);
        assert_eq!(tensor.slice.slice_offset.as_deref(), empty);
        assert_eq!(tensor.slice.total_shape.as_deref(), empty);
        assert_eq!(tensor.slice.valid_shape.as_deref(), empty);
        assert!(tensor.extra.is_empty(), "{:?}", tensor.extra);
    }

    assert_eq!(spec.target, "Ascend910A");
    let options = json!({
        "autoTilingMode": "NO_TUNE", "coreNum": "", "coreType": "", "l1Fusion": "false", "l2Fusion": "false",
        "l2Mode": "2", "mdl_bank_path": "", "offlineTune": false, "op_bank_path": "", "op_bank_update": false,
        "op_debug_level": "0", "op_impl_mode": "", "op_impl_mode_list": [], "vector_fp_ceiling": "",
    });
    assert_eq!(serde_json::to_value(&spec.options).unwrap(), options);

    assert_eq!(envelope.generation, Some(Generation::R1_5));
    assert_eq!(envelope.job_type, "Compile");
    assert_eq!((envelope.job_id, envelope.source_id, envelope.scope_id), (Some(1), Some(2), Some(-1)));
    assert_eq!(envelope.full_name, "Default/Square-op1");
    assert_eq!(envelope.fusion_op_name, "square_12484080525657478220_2");
    assert_eq!(envelope.graph_name, "");
    let asked = json!({ "deviceId": "2", "op_debug_dir": "./rank_0/" });
    assert_eq!(serde_json::to_value(&envelope.soc_info).unwrap(), asked);
    assert_eq!(envelope.data[0].name, "x_0");
    assert_eq!(envelope.data[0].outputs[0].name.as_deref(), Some("x_0"));
    let labels = &envelope.ops[0];
    assert_eq!(labels.name, "Default/Square-op1");
    assert_eq!(labels.ori_name.as_deref(), Some(&["Default/Square-op1".to_owned()][..]));
    assert_eq!(labels.op_name.as_deref(), Some("square_12484080525657478220_2"));
    assert_eq!(labels.inputs[0].name.as_deref(), Some("x_0"));
    assert_eq!(labels.outputs[0].name.as_deref(), Some("y"));
    assert_eq!(labels.outputs[0].dtype_fields, DtypeFields::Both);
    let repeat = labels.output_data_desc.as_ref().unwrap();
    assert!(!repeat.described_only && repeat.labels[0].name.is_none() && labels.attr_desc.is_none());
}

#[test]
fn the_rich_job_comes_back_token_by_token() {
    let first = read(RICH);
    let written = write_info(&first);
    assert_eq!(parse(&written), parse(RICH));
    // The file is formatted as MindSpore formats, so equal tokens are equal bytes.
    assert_eq!(written, RICH);
    for token in ["1e-05", "1.0", "0.10000000149011612", "\"inf\"", "2.50", "1e-3", "3.00"] {
        assert!(RICH.contains(token), "{token}");
    }
    assert_eq!(read(&written), first);
}

#[test]
fn the_rich_job_is_read() {
    let Descriptor { job, spec, envelope } = read(RICH);
    assert_eq!((job.data.len(), job.ops.len(), job.l1_size), (4, 3, 1 << 20));
    let extra = json!({ "future_top": { "a": 1 } });
    assert_eq!(job.extra["future_top"], extra["future_top"]);
    assert_eq!(job.extra["job_content.future_content"].to_string(), "3.00");

    assert_eq!(job.data[1].outputs.len(), 2);
    let Arg::Absent(OmittedArg { param_type, extra }) = &job.data[2].outputs[0] else {
        panic!("{:?}", job.data[2])
    };
    assert_eq!(param_type.as_deref(), Some("optional"));
    assert_eq!(extra["future_absent"], "kept");
    let Arg::One(axes) = &job.data[3].outputs[0] else { panic!("{:?}", job.data[3]) };
    let constant = ConstValue { value: json!([0, -1]), dtype: Some("int64".into()) };
    assert_eq!(axes.const_value, Some(constant));

    let sources = |op: usize| -> Vec<Source> {
        job.ops[op].inputs.iter().flat_map(Arg::iter).map(|input| input.source).collect()
    };
    let data = |data, tensor| Source::Data { data, tensor };
    let from = |op, output| Source::Op { op, output };
    // An absent tensor takes no place: the two of `b_dynamic` are tensors 0 and 1.
    assert_eq!(sources(0), [data(1, 0), data(1, 1)]);
    assert_eq!(sources(1), [from(0, 0), data(0, 0), data(3, 0)]);
    assert_eq!(sources(2), [from(1, 0), from(1, 2), Source::Free(0)]);
    assert!(matches!(&job.ops[0].inputs[..], [Arg::Many(pair), Arg::Absent(_)] if pair.len() == 2));

    let flags = &job.ops[0].flags;
    assert_eq!((flags.dynamic_compile_static, flags.int64_mode), (Some(true), Some(true)));
    assert_eq!((flags.is_dynamic_impl, flags.unknown_shape), (Some(false), Some(false)));
    // Files do not state these of fused operators.
    assert_eq!((&flags.build_type, flags.max_kernel_id, &flags.miss_support_info), (&None, None, &None));
    assert_eq!(flags.pattern.as_deref(), Some("ElemWise"));
    assert_eq!(job.ops[1].flags.is_dynamic_impl, Some(true));

    let Arg::One(y) = &job.ops[1].outputs[0] else { panic!() };
    assert_eq!(y.shape, [-1, 16]);
    assert_eq!(y.range.as_deref(), Some(&[[1, -1], [16, 16]][..]));
    let Arg::One(sliced) = &job.ops[2].inputs[1] else { panic!() };
    let slice = &sliced.tensor.slice;
    assert_eq!(
        (slice.l1_addr_offset, slice.l1_fusion_type, slice.l1_workspace_size),
        (Some(64), Some(1), Some(4096))
    );
    assert_eq!((slice.addr_type, slice.split_index), (Some(1), Some(2)));
    assert_eq!(slice.slice_offset.as_deref(), Some(&[0, 8][..]));
    assert_eq!(slice.total_shape.as_deref(), Some(&[8, 16][..]));
    assert_eq!(slice.valid_shape.as_deref(), Some(&[4, 16][..]));
    let Arg::One(unranked) = &job.ops[2].inputs[2] else { panic!() };
    assert_eq!(unranked.tensor.shape, [-2]);
    // A reused output of a fused job states no format, and its type but once.
    let Arg::One(reused) = &job.ops[2].outputs[1] else { panic!() };
    assert_eq!((reused.format.as_str(), reused.dtype.as_str(), reused.valid), ("", "float32", None));
    assert_eq!(envelope.ops[2].outputs[1].dtype_fields, DtypeFields::DataType);
    assert!(envelope.ops[2].outputs[1].no_param_type);

    let attrs = job.ops[1].attrs.as_deref().unwrap();
    let float = |value| AttrValue::Float(Float::new(value));
    let value = |name: &str| &attrs.iter().find(|attr| attr.name == name).unwrap().value;
    assert_eq!(*value("epsilon"), float(1e-5));
    assert_eq!(*value("alpha"), float(1.0));
    assert_eq!(*value("beta"), float(f64::from(0.1f32)));
    assert_eq!(*value("limit"), float(f64::INFINITY));
    assert_eq!(*value("ratios"), AttrValue::List(vec![float(0.5), float(2.0), float(f64::NEG_INFINITY)]));
    assert_eq!(*value("begin_norm_axis"), AttrValue::Int(1));
    assert_eq!(*value("wide"), AttrValue::List(vec![AttrValue::UInt(u64::MAX), AttrValue::Int(0)]));
    let pair = |a, b| AttrValue::List(vec![AttrValue::Int(a), AttrValue::Int(b)]);
    assert_eq!(*value("pads"), AttrValue::List(vec![pair(0, 0), pair(1, -1)]));
    assert_eq!(*value("mode"), AttrValue::Str("FRACTAL_Z".into()));
    assert_eq!(*value("keep_dims"), AttrValue::Bool(true));
    assert_eq!(*value("not_given"), AttrValue::Null);
    assert!(matches!(attrs, [.., Attr { valid: Some(false), .. }, _]));
    assert_eq!(job.ops[2].attrs, Some(Vec::new()));
    assert_eq!(envelope.ops[1].attr_desc, Some(RepeatedAttrs::WithoutRef));
    assert_eq!(envelope.ops[2].attr_desc, Some(RepeatedAttrs::WithoutRef));
    assert!(envelope.ops[1].output_data_desc.is_some() && envelope.ops[2].output_data_desc.is_none());

    assert_eq!(spec.target, "Ascend910B2");
    assert_eq!(spec.option("te_version").as_deref(), Some("7.2.0"));
    assert_eq!(spec.option("deterministic").as_deref(), Some("true"));
    assert_eq!(spec.option("op_debug_config").as_deref(), Some("oom"));
    assert_eq!(spec.option("future_soc").as_deref(), Some("x"));
    assert_eq!(spec.option("op_bank_path"), None);
    // Levels 3 and 4 are 0 to a compiler.
    assert_eq!(spec.option("op_debug_level").as_deref(), Some("0"));
    assert_eq!(envelope.soc_info["op_debug_level"], "3");
    assert_eq!(envelope.soc_info["kernel_meta_temp_dir"], "./rank_3/kernel_meta/kernel_meta_temp_1/");
    assert_eq!(spec.retarget("cpu").options, spec.options);
}

#[test]
fn debug_levels_3_and_4_are_0_and_no_other_level_is() {
    let document = parse(EXAMPLE);
    let at = "/job_content/SocInfo/op_debug_level";
    let texts = [("0", "0"), ("1", "1"), ("2", "2"), ("3", "0"), ("4", "0"), ("30", "30")];
    let texts = texts.map(|(level, built)| (json!(level), built));
    let numbers = [(json!(0), "0"), (json!(2), "2"), (json!(3), "0"), (json!(4), "0"), (json!(-4), "-4")];
    for (level, built) in texts.into_iter().chain(numbers) {
        let changed = with(&document, at, level);
        let mut descriptor = read_value(&changed).unwrap();
        assert_eq!(descriptor.spec.option("op_debug_level").as_deref(), Some(built));
        assert_eq!(parse(&write_info(&descriptor)), changed);
        // A level that a program sets is not overruled by the one that was read.
        descriptor.spec.options.insert("op_debug_level".into(), "1".into());
        let again = parse(&write_info(&descriptor));
        assert_eq!(again.pointer(at).unwrap(), "1");
    }
}

/// Rare fields, and fields that no framework writes, round-trip, too.
#[test]
fn oddities_come_back() {
    let document = parse(RICH);
    let op = "/job_content/op_list/5";
    let rare: Vec<(&str, String, Value)> = vec![
        ("explicit null", format!("{op}/attrs/0/value"), Value::Null),
        ("no type of an attribute", format!("{op}/attrs/0/dtype"), "".into()),
        ("no format", format!("{op}/output_desc/0/format"), "".into()),
        ("two types", format!("{op}/output_desc/0/data_type"), "int8".into()),
        ("other values", format!("{op}/attr_desc"), json!([1])),
        ("other outputs", format!("{op}/output_data_desc"), json!({ "a": [] })),
        ("no outputs", format!("{op}/output_data_desc"), json!([])),
        ("an empty kind", "/job_content/op_list/4/input_desc/1/param_type".into(), "".into()),
        ("absent name", "/job_content/op_list/4/input_desc/1/name".into(), json!(7)),
        ("constant null", "/job_content/op_list/3/output_desc/0/const_value".into(), Value::Null),
        ("a data op that computes", "/job_content/op_list/0/future_data".into(), json!({ "attrs": [1.5] })),
    ];
    for (what, at, value) in rare {
        let changed = with(&document, &at, value);
        assert_eq!(parse(&write_info(&read_value(&changed).unwrap())), changed, "{what}");
    }

    let mut changed = document.clone();
    let data = changed.pointer_mut("/job_content/op_list/0").unwrap().as_object_mut().unwrap();
    for (name, value) in [
        ("attrs", json!([{ "name": "a" }])),
        ("attr_desc", json!([])),
        ("build_type", json!("accurately_build")),
        ("func_name", json!("f")),
        ("input_desc", json!([])),
        ("max_kernel_id", json!(11)),
        ("op_name", json!("o")),
        ("ori_name", json!(["o"])),
        ("output_data_desc", json!([])),
        ("py_module_path", json!("/")),
    ] {
        data.insert(name.into(), value);
    }
    assert_eq!(parse(&write_info(&read_value(&changed).unwrap())), changed);

    for removed in [
        "/job_id",
        "/source_id",
        "/job_content/scope_id",
        "/job_content/op_list/5/attrs",
        "/job_content/op_list/5/attr_desc",
        "/job_content/op_list/5/output_data_desc",
        "/job_content/op_list/6/attrs",
        "/job_content/op_list/3/output_desc/0/const_value",
        "/job_content/op_list/4/input_desc/1/param_type",
        "/job_content/op_list/5/input_desc/1/param_type",
        "/job_content/op_list/5/input_desc/0/format",
        "/job_content/op_list/5/input_desc/0/dtype",
        "/job_content/op_list/5/input_desc/0/name",
    ] {
        let changed = without(&document, removed).unwrap();
        assert_eq!(parse(&write_info(&read_value(&changed).unwrap())), changed, "{removed}");
    }
}

/// Numbers that a program made are printed as the vendor prints them.
#[test]
fn floats_of_programs_are_printed_as_the_vendors() {
    let mut descriptor = read(EXAMPLE);
    let floats = [1e-5, 1.0, f64::from(0.1f32), -0.0, 1e16, f64::INFINITY, f64::NEG_INFINITY];
    let values = floats.map(|value| AttrValue::Float(Float::new(value))).to_vec();
    descriptor.job.ops[0].attrs = Some(vec![Attr::new("a", "list_float32", AttrValue::List(values))]);
    let written = write_info(&descriptor);
    let printed = parse(&written).pointer("/job_content/op_list/1/attrs/0/value").unwrap().to_string();
    assert_eq!(printed, r#"[1e-05,1.0,0.10000000149011612,-0.0,1e+16,"inf","-inf"]"#);
    assert_eq!(read(&written).job.digest(), descriptor.job.digest());
}

/// A job without its envelope is written with names by position, and is still the same job.
#[test]
fn a_job_without_names_keeps_its_digest() {
    let op = "/job_content/op_list/5";
    let other_values = with(&parse(RICH), &format!("{op}/attr_desc"), json!([1])).to_string();
    let two_types = with(&parse(RICH), &format!("{op}/input_desc/0/data_type"), "int8".into()).to_string();
    for text in [EXAMPLE, RICH, &fused_with_shared_names(), &other_values, &two_types] {
        let read_first = read(text);
        let bare = Descriptor { envelope: Envelope::default(), ..read_first.clone() };
        let again = read_info(write_info(&bare).as_bytes()).unwrap();
        assert_eq!(again.job.digest(), read_first.job.digest());
        assert_eq!(again.spec, read_first.spec);
        assert_eq!(again.envelope.job_type, "Compile");
    }
}

/// An envelope that no longer fits its job does not name its tensors.
#[test]
fn labels_that_do_not_fit_are_not_used() {
    let mut descriptor = read(EXAMPLE);
    let input = descriptor.job.ops[0].inputs[0].clone();
    descriptor.job.ops[0].inputs.push(input);
    let again = read(&write_info(&descriptor));
    assert_eq!(again.job.digest(), descriptor.job.digest());
}

fn fused_with_shared_names() -> String {
    let mut document = parse(RICH);
    let ops = document.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap();
    let repeated = ops[0].clone();
    ops.insert(1, repeated);
    document.to_string()
}

/// MindSpore writes a `Data` op for each input of a fused job, also where two inputs are one tensor.
#[test]
fn shared_names_are_linked_to_the_first_and_count() {
    let shared = fused_with_shared_names();
    let document = parse(&shared);
    let descriptor = read(&shared);
    assert_eq!(parse(&write_info(&descriptor)), document);
    let input = descriptor.job.ops[1].inputs[1].iter().next().unwrap();
    assert_eq!(input.source, Source::Data { data: 0, tensor: 0 });
    // The same links, but the second tensor has a name of its own: a compiler may make something else of it.
    let apart = with(&document, "/job_content/op_list/1/output_desc/0/name", "Default/other".into());
    let apart = read_value(&apart).unwrap();
    assert_eq!(apart.job.ops, descriptor.job.ops);
    assert_ne!(apart.job.digest(), descriptor.job.digest());
}

#[test]
fn operators_that_share_a_name_are_not_those_that_do_not() {
    let chain = |names: [&str; 5]| {
        let op = |input: &str, output: &str| {
            json!({ "type": "A", "func_name": "a", "module_name": "impl.a",
                "input_desc": [{ "name": input, "dtype": "int8", "shape": [1], "format": "ND" }],
                "output_desc": [{ "name": output, "dtype": "int8", "shape": [1], "format": "ND" }] })
        };
        let [first, a, b, c, last] = names;
        let ops = json!([op(first, a), op(b, c), op(last, "z")]);
        let document = json!({ "job_content": { "SocInfo": { "socVersion": "s" }, "op_list": ops } });
        read_value(&document).unwrap().job.digest()
    };
    let all = [
        chain(["x", "y", "y", "y", "y"]),
        chain(["x", "a", "a", "b", "a"]),
        chain(["x", "a", "a", "b", "b"]),
        chain(["y", "y", "b", "c", "d"]),
        chain(["x", "y", "b", "c", "d"]),
        chain(["b", "y", "b", "c", "b"]),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:#?}");
}

/// Which of several outside tensors are the same counts; how a program numbers them does not.
#[test]
fn numbers_of_free_tensors_do_not_count() {
    let descriptor = read(RICH);
    let mut renumbered = descriptor.job.clone();
    for input in renumbered.ops[2].inputs.iter_mut() {
        if let Arg::One(input) = input
            && input.source == Source::Free(0)
        {
            input.source = Source::Free(41);
        }
    }
    assert_ne!(renumbered, descriptor.job);
    assert_eq!(renumbered.digest(), descriptor.job.digest());

    let pair = |a, b| {
        let mut job = descriptor.job.clone();
        for (input, number) in job.ops[2].inputs.iter_mut().zip([a, b, 9]) {
            if let Arg::One(input) = input {
                input.source = Source::Free(number);
            }
        }
        job.digest()
    };
    assert_eq!(pair(0, 0), pair(5, 5));
    assert_eq!(pair(0, 1), pair(7, 3));
    assert_ne!(pair(0, 0), pair(0, 1));
}
