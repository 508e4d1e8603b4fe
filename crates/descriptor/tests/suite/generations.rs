//! Files of every generation: read, and written as they were.

use opkeep_descriptor::{
    Arg, AttrValue, ConstValue, Descriptor, Float, Generation, InfoError, OmittedArg, Source, write_info,
};
use serde_json::{Value, json};

use crate::tree::{
    COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, parse, paths, read, read_value, with, without,
};

/// The files, each formatted as its framework formats.
const ALL: [(&str, Generation); 6] = [
    (OLDEST, Generation::R1_0),
    (OLDER, Generation::R1_2),
    (EXAMPLE, Generation::R1_5),
    (FUSED, Generation::R1_7),
    (RICH, Generation::R2_1),
    (COMPOSITE, Generation::Akg),
];

#[test]
fn files_come_back_byte_by_byte() {
    for (text, generation) in ALL {
        let descriptor = read(text);
        assert_eq!(descriptor.envelope.generation, Some(generation));
        assert_eq!(write_info(&descriptor).trim_end(), text.trim_end(), "{generation}");
        assert!(write_info(&descriptor).ends_with("}\n"), "{generation}");
        assert_eq!(read(&write_info(&descriptor)), descriptor, "{generation}");
    }
}

/// r1.5 and later write one form; fields of newer ones identify them.
#[test]
fn generations_of_one_form_are_distinguished() {
    let document = parse(EXAMPLE);
    let generation = |document: &Value| read_value(document).unwrap().envelope.generation.unwrap();
    let with_soc = |name: &str, value: Value| {
        let mut changed = document.clone();
        changed["job_content"]["SocInfo"][name] = value;
        changed
    };
    assert_eq!(generation(&document), Generation::R1_5);
    for (name, value) in
        [("te_version", json!("7")), ("deterministic", json!(false)), ("op_debug_config", json!(""))]
    {
        assert_eq!(generation(&with_soc(name, value)), Generation::R2_1, "{name}");
    }
    assert_eq!(generation(&with_soc("kernel_meta_temp_dir", json!("./"))), Generation::R1_7);
    assert_eq!(generation(&with_soc("future", json!("./"))), Generation::R1_5);
    let mut dynamic = document.clone();
    dynamic["job_content"]["op_list"][1]["is_dynamic_impl"] = false.into();
    assert_eq!(generation(&dynamic), Generation::R1_7);
}

#[test]
fn fields_of_r1_2() {
    let Descriptor { job, spec, envelope } = read(OLDER);
    assert_eq!(spec.target, "Ascend910A");
    assert_eq!(spec.option("op_debug_level").as_deref(), Some("0"));
    assert_eq!(spec.option("deviceId"), None);
    assert_eq!(envelope.soc_info["deviceId"], "5");
    assert_eq!(envelope.soc_info["op_debug_level"], "3");
    assert_eq!(envelope.ignored["impl_path"], "/opt/impl");
    assert_eq!(envelope.full_name, "Default/ConcatDemo-op3");
    assert_eq!(envelope.fusion_op_name, "ConcatDemo_1_5");
    let [op] = job.ops.as_slice() else { panic!("{job:?}") };
    assert_eq!((op.op_type.as_str(), op.func_name.as_str()), ("ConcatDemo", "concat_demo"));
    assert_eq!(op.module_name, "impl.concat_demo");
    assert_eq!(op.module_path.as_deref(), Some("/opt/ops/tbe"));
    assert_eq!(op.flags.unknown_shape, Some(true));
    assert_eq!(envelope.ops[0].ignored["dynamic_index"], 17);
    let attrs = op.attrs.as_deref().unwrap();
    assert_eq!(attrs[0].value, AttrValue::Int(1));
    assert_eq!(attrs[1].value, AttrValue::Float(Float::new(1e-5)));
    assert_eq!((&attrs[2].value, attrs[2].valid), (&AttrValue::Null, Some(false)));
    // A `Data` op for each input, as later versions write them.
    let sources: Vec<Source> = op.inputs.iter().flat_map(Arg::iter).map(|input| input.source).collect();
    let data = |data, tensor| Source::Data { data, tensor };
    assert_eq!(sources, [data(0, 0), data(1, 0), data(1, 1)]);
    assert_eq!(job.data.iter().map(|data| data.outputs.len()).collect::<Vec<_>>(), [1, 2, 1]);
    assert!(matches!(&job.data[2].outputs[..], [Arg::Absent(_)]));
    assert!(matches!(&op.inputs[1], Arg::Many(pair) if pair[1].tensor.shape == [2, 5, 3]));
    let Arg::Absent(OmittedArg { param_type, extra }) = &op.inputs[2] else { panic!("{:?}", op.inputs[2]) };
    assert_eq!((param_type.as_deref(), &extra["future_absent"]), (Some("optional"), &json!("kept")));
    assert_eq!(op.outputs[0].iter().next().unwrap().shape, [2, -2, 3]);
    assert_eq!(job.extra["op_info.future_top"], json!({ "b": 2 }));
    assert_eq!(op.extra["op_info.future_op"], json!({ "a": [1, 2] }));
}

#[test]
fn fields_of_r1_0() {
    let (oldest, older) = (read(OLDEST), read(OLDER));
    assert_eq!(oldest.spec.target, "Ascend910A");
    assert!(oldest.spec.options.is_empty());
    let (mut job, same) = (oldest.job, &older.job.ops[0]);
    // These files name no type; the module follows from the function.
    assert_eq!(job.ops[0].op_type, "");
    assert_eq!(job.ops[0].module_name, same.module_name);
    assert_eq!(job.ops[0].module_path, None);
    job.ops[0].op_type = same.op_type.clone();
    job.ops[0].module_path = same.module_path.clone();
    assert_eq!(job.ops[0], *same);
    assert_eq!(job.data, older.job.data);
}

#[test]
fn fields_of_akg() {
    let Descriptor { job, spec, envelope } = read(COMPOSITE);
    assert_eq!(spec.target, "Ascend910B2");
    assert_eq!(spec.option("process").as_deref(), Some("aicore"));
    assert_eq!(spec.option("platform").as_deref(), Some("AKG_V2"));
    assert_eq!(spec.options["target_info"], json!({ "feature": "x" }));
    assert_eq!(envelope.fusion_op_name, "Fused_Mul_AddN_ReduceSum_fusion_1");
    assert_eq!(
        envelope.ignored.keys().collect::<Vec<_>>(),
        ["composite_graph", "id", "node_name", "op_full_name"]
    );
    assert_eq!(envelope.ops[1].ignored["ptr_address"], "Default/AddN-op2_43");
    let types: Vec<&str> = job.ops.iter().map(|op| op.op_type.as_str()).collect();
    assert_eq!(types, ["Mul", "AddN", "ReduceSum"]);
    let sources = |op: usize| -> Vec<Source> {
        job.ops[op].inputs.iter().flat_map(Arg::iter).map(|input| input.source).collect()
    };
    let data = |data, tensor| Source::Data { data, tensor };
    let from = |op| Source::Op { op, output: 0 };
    assert_eq!(sources(0), [data(0, 0), Source::Free(0)]);
    assert_eq!(sources(1), [from(0), data(1, 0), data(1, 1)]);
    assert_eq!(sources(2), [from(1), Source::Free(1)]);
    assert!(matches!(&job.ops[1].inputs[..], [Arg::Many(three)] if three.len() == 3));
    let Arg::One(scalar) = &job.ops[0].inputs[1] else { panic!() };
    let Some(ConstValue { value, dtype: None }) = &scalar.tensor.const_value else { panic!("{scalar:?}") };
    assert_eq!(value.to_string(), "1e-05");
    assert!(job.ops[0].attrs.is_none() && envelope.ops[0].null_attrs);
    let attrs = job.ops[2].attrs.as_deref().unwrap();
    assert_eq!((attrs[0].dtype.as_str(), &attrs[0].value), ("bool", &AttrValue::Bool(false)));
    assert_eq!(attrs[1].value, AttrValue::Float(Float::new(f64::from(0.1f32))));
    // Which tensors the composite gives counts; their names do not.
    assert_eq!(job.extra["akg.output_desc"][0]["(tensor)"], json!(["op", 2, 0]));
    assert_eq!(job.extra["akg.output_desc"][1]["(tensor)"], json!(["op", 0, 0]));
    assert_eq!(job.extra["akg.version"], 2);
}

/// The first versions of AKG name no chip.
#[test]
fn without_a_chip_the_processor_is_the_target() {
    for (removed, left) in [("/target_info", None), ("/target_info/arch", Some(json!({ "feature": "x" })))] {
        let document = without(&parse(COMPOSITE), removed).unwrap();
        let descriptor = read_value(&document).unwrap();
        assert_eq!(descriptor.spec.target, "aicore");
        assert_eq!(descriptor.spec.options.get("process"), None);
        assert_eq!(descriptor.spec.options.get("target_info"), left.as_ref());
        assert_eq!(parse(&write_info(&descriptor)), document);
    }
    let numbered = with(&parse(COMPOSITE), "/target_info/arch", json!(7));
    assert_eq!(read_value(&numbered).unwrap().spec.target, "aicore");
    assert_eq!(parse(&write_info(&read_value(&numbered).unwrap())), numbered);
}

/// A composite with two tensors of one name differs from one whose tensors have two names.
#[test]
fn shared_names_of_composites_count() {
    let again = with(&parse(COMPOSITE), "/op_desc/1/output_desc/0/tensor_name", "input_0".into());
    let shared = with(&again, "/op_desc/2/input_desc/0/0/tensor_name", "elsewhere".into());
    let apart = with(&shared, "/op_desc/1/output_desc/0/tensor_name", "unused".into());
    let (shared, apart) = (read_value(&shared).unwrap(), read_value(&apart).unwrap());
    assert_eq!(shared.job.ops, apart.job.ops);
    assert_ne!(shared.job.digest(), apart.job.digest());
    assert_eq!(read(&write_info(&shared)), shared);
}

/// Another target is written where the file's own stands.
#[test]
fn another_target_stands_where_the_first_did() {
    for (text, places) in [
        (OLDEST, vec!["/socVersion"]),
        (OLDER, vec!["/SocInfo/socVersion", "/op_info/socVersion"]),
        (EXAMPLE, vec!["/job_content/SocInfo/socVersion"]),
        (COMPOSITE, vec!["/target_info/arch"]),
    ] {
        let mut descriptor = read(text);
        descriptor.spec = descriptor.spec.retarget("cpu");
        let mut expected = parse(text);
        for place in places {
            expected = with(&expected, place, "cpu".into());
        }
        assert_eq!(parse(&write_info(&descriptor)), expected);
    }
}

/// Rare fields, and fields that no framework writes, round-trip, too.
#[test]
fn oddities_of_every_generation_come_back() {
    for (text, at, value) in [
        (OLDER, "/op_info/attrs", Value::Null),
        (OLDER, "/op_info/socVersion", json!("Ascend310")),
        (OLDER, "/platform", json!("AKG")),
        (OLDER, "/op_info/attr_desc", json!([7])),
        (OLDER, "/op_info/inputs/1", json!([])),
        (
            OLDER,
            "/op_info/inputs/0/0",
            json!({ "name": "x", "shape": "NULL", "data_type": 0, "valid": false }),
        ),
        (OLDER, "/op_info/inputs", json!([])),
        (OLDEST, "/attrs", Value::Null),
        (RICH, "/job_content/op_list/6/attrs", Value::Null),
        (COMPOSITE, "/input_desc/1", json!([])),
        (COMPOSITE, "/op_desc/1/input_desc/0", json!([])),
        (COMPOSITE, "/op_desc/2/attr", json!([])),
        (COMPOSITE, "/output_desc/0/tensor_name", json!("nowhere")),
        (COMPOSITE, "/output_desc/0", json!({})),
        (COMPOSITE, "/op_desc/2/input_desc/1/0/value", Value::Null),
        (COMPOSITE, "/op_desc/2/attr/0/data_type", json!("")),
        (COMPOSITE, "/op_desc/2/attr/0/value", Value::Null),
    ] {
        let changed = with(&parse(text), at, value);
        let descriptor = read_value(&changed).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(parse(&write_info(&descriptor)), changed, "{at}");
        assert_eq!(read(&write_info(&descriptor)), descriptor, "{at}");
    }
    for (text, removed) in [
        (OLDER, "/op_info/attrs"),
        (OLDER, "/op_info/attr_desc"),
        (OLDER, "/op_info/py_module_path"),
        (OLDER, "/op_info/dynamic_index"),
        (OLDER, "/impl_path"),
        (OLDER, "/op_info/inputs/0/0/name"),
        (COMPOSITE, "/op_desc/0/ptr_address"),
        (COMPOSITE, "/op_desc/0/impl_path"),
        (COMPOSITE, "/op_desc/0/attr"),
        (COMPOSITE, "/op_desc/0/input_desc/0/0/tensor_name"),
        (COMPOSITE, "/op_desc/0/input_desc/0/0/format"),
        (COMPOSITE, "/node_name"),
        (COMPOSITE, "/platform"),
    ] {
        let changed = without(&parse(text), removed).unwrap();
        assert_eq!(parse(&write_info(&read_value(&changed).unwrap())), changed, "{removed}");
    }
}

/// Three spellings of no attributes are one job.
#[test]
fn null_attributes_are_none() {
    for (text, at) in
        [(OLDER, "/op_info/attrs"), (RICH, "/job_content/op_list/6/attrs"), (COMPOSITE, "/op_desc/0/attr")]
    {
        let bare = without(&parse(text), &at.replace("attrs", "attr_desc")).filter(|_| at.ends_with("attrs"));
        let bare = bare.unwrap_or_else(|| parse(text));
        let digest = |document: Value| read_value(&document).unwrap().job.digest();
        let none = digest(without(&bare, at).unwrap());
        assert_eq!(digest(with(&bare, at, Value::Null)), none, "{at}");
        assert_eq!(digest(with(&bare, at, json!([]))), none, "{at}");
    }
}

/// The example of r1.5, in the words of r1.2: the same operator is the same job, and the same kernel.
#[test]
fn one_operator_is_one_job_in_every_generation() {
    let example = read(EXAMPLE);
    let tensor = |name: &str| {
        json!({ "dtype": "float32", "format": "ND", "name": name, "ori_format": "NCHW", "ori_shape": [3],
            "param_type": "required", "range": [[3, 3]], "shape": [3], "valid": true })
    };
    let oldest = json!({ "attrs": null, "inputs": [[tensor("x_0")]], "is_dynamic_shape": false, "name": "square",
        "outputs": [[tensor("y")]], "socVersion": "Ascend910A" });
    let mut op_info = oldest.clone();
    op_info["Type"] = "Square".into();
    op_info["module_name"] = "impl.square".into();
    let soc_info = json!({ "socVersion": "Ascend910A" });
    let older = read_value(&json!({ "SocInfo": soc_info, "op_info": op_info })).unwrap();
    assert_eq!(older.job.digest(), example.job.digest());
    assert_eq!(older.spec.target, example.spec.target);
    let mut oldest = read_value(&oldest).unwrap();
    assert_ne!(oldest.job.digest(), example.job.digest());
    oldest.job.ops[0].op_type = "Square".into();
    assert_eq!(oldest.job.digest(), example.job.digest());
}

/// A variadic input of one tensor is a group in every generation, and no job of one tensor.
#[test]
fn a_group_of_one_is_a_group_in_every_generation() {
    let example = parse(EXAMPLE);
    let op = "/job_content/op_list/1";
    let variadic = with(&example, &format!("{op}/input_desc/0/param_type"), "dynamic".into());
    let variadic = with(&variadic, "/job_content/op_list/0/output_desc/0/param_type", "dynamic".into());
    let group = json!([variadic.pointer(&format!("{op}/input_desc/0")).unwrap()]);
    let newer = read_value(&with(&variadic, &format!("{op}/input_desc/0"), group)).unwrap();
    let tensor = |name: &str, param_type: &str| {
        json!({ "dtype": "float32", "format": "ND", "name": name, "ori_format": "NCHW", "ori_shape": [3],
            "param_type": param_type, "range": [[3, 3]], "shape": [3], "valid": true })
    };
    let older = |param_type: &str| {
        json!({ "SocInfo": { "socVersion": "Ascend910A" }, "op_info": { "Type": "Square", "name": "square",
            "module_name": "impl.square", "attrs": null, "inputs": [[tensor("x_0", param_type)]],
            "outputs": [[tensor("y", "required")]] } })
    };
    let descriptor = read_value(&older("dynamic")).unwrap();
    assert!(matches!(&descriptor.job.ops[0].inputs[..], [Arg::Many(group)] if group.len() == 1));
    assert_eq!(descriptor.job.digest(), newer.job.digest());
    assert_eq!(parse(&write_info(&descriptor)), older("dynamic"));
    let single = read_value(&older("required")).unwrap();
    assert_eq!(single.job.digest(), read(EXAMPLE).job.digest());
    assert_ne!(single.job.digest(), newer.job.digest());
}

/// An operator called `Data` computes nothing, and would be lost in the newest form.
#[test]
fn an_operator_is_not_called_data() {
    for (text, at) in [(OLDER, "/op_info/Type"), (COMPOSITE, "/op_desc/1/name")] {
        let error = read_value(&with(&parse(text), at, "Data".into())).unwrap_err();
        assert!(matches!(error, InfoError::Wrong { found, .. } if found == "\"Data\""));
    }
}

/// Jobs of any generation are written in the newest form once their envelope is removed, or does not fit them.
#[test]
fn older_jobs_are_written_in_the_newest_form() {
    for (text, _) in ALL {
        let descriptor = read(text);
        let bare = Descriptor { envelope: Default::default(), ..descriptor.clone() };
        let again = read(&write_info(&bare));
        assert_eq!(again.job.digest(), descriptor.job.digest());
        assert_eq!(again.spec, descriptor.spec);
    }
    let mut two = read(OLDER);
    let second = two.job.ops[0].clone();
    two.job.ops.push(second);
    let again = read(&write_info(&two));
    assert_eq!(again.job.digest(), two.job.digest());
    assert!(write_info(&two).contains("job_content"));
}

/// A field that is missed is missed from the object that it was taken from.
#[test]
fn files_without_a_field_are_read_or_refused_by_place() {
    let mut refused = 0;
    for (text, generation) in ALL {
        let document = parse(text);
        for at in paths(&document) {
            let Some(changed) = without(&document, &at) else { continue };
            let (parent, _) = at.rsplit_once('/').unwrap();
            match read_value(&changed) {
                Ok(descriptor) => {
                    assert_eq!(parse(&write_info(&descriptor)), changed, "{generation} {at}");
                    assert_eq!(read(&write_info(&descriptor)), descriptor, "{generation} {at}");
                }
                Err(InfoError::Missing { field, object, line, column }) => {
                    let place = if parent.is_empty() { "(document)".to_owned() } else { dotted(parent) };
                    assert_eq!(object, place, "{field}");
                    let found = &changed.to_string()[column - 1..];
                    let expected = changed.pointer(parent).unwrap().to_string();
                    assert!(line == 1 && found.starts_with(&expected), "{at}: column {column}");
                    refused += 1;
                }
                Err(InfoError::Generation { .. }) => assert!(parent.is_empty(), "{at}"),
                // Without the shape that marks it, an absent tensor is one whose type is no text.
                Err(InfoError::Wrong { field, line, column, found, .. }) => {
                    assert!(field.starts_with(&dotted(parent)), "{field}");
                    let rest = &changed.to_string()[column - 1..];
                    assert!(line == 1 && rest.starts_with(&found), "{at}: column {column}");
                }
                Err(error) => panic!("{generation} {at}: {error}"),
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

/// A JSON pointer as errors show it.
fn dotted(pointer: &str) -> String {
    pointer.split('/').skip(1).fold(String::new(), |path, step| match step.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) if path.is_empty() => step.to_owned(),
        Err(_) => format!("{path}.{step}"),
    })
}
