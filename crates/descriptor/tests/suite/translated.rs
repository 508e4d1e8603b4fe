//! Names by other generations than that of the file; there is no name if it is not certain.

use opkeep_descriptor::{
    Arg, Attr, AttrValue, ConstValue, Extra, Generation, NameError, OmittedArg, Op, Tensor,
};
use serde_json::{Value, json};

use crate::tree::{EXAMPLE, OLDER, RICH, parse, read, read_value, with};
use crate::vendor::{name, square};

use Generation::{R1_0, R1_2, R1_5, R1_6, R1_7, R2_1};

fn spelling(generation: Generation, what: &'static str) -> Result<String, NameError> {
    Err(NameError::Spelling { generation, what })
}

/// The example as r1.7 and later write it.
fn newer(dynamic: bool) -> Value {
    let mut document = parse(EXAMPLE);
    document["job_content"]["op_list"][1]["is_dynamic_impl"] = dynamic.into();
    document
}

/// One operator has one name in each generation, whatever generation wrote the file.
#[test]
fn one_operator_has_one_name_a_generation() {
    let (old, new) = (read(EXAMPLE), read_value(&newer(false)).unwrap());
    for (generation, expected) in
        [(R1_5, "square_12484080525657478220_2"), (R1_6, "square_16124809792232096824_2")]
    {
        assert_eq!(name(&old, generation, 2).unwrap(), expected);
        assert_eq!(name(&new, generation, 2).unwrap(), expected);
    }
    assert_eq!(name(&new, R1_7, 2).unwrap(), "square_14813224250232759267_2");
    let what = "whether the implementation is dynamic";
    assert_eq!(name(&old, R1_7, 2), Err(NameError::Unstated { generation: R1_7, what }));
    let dynamic = read_value(&newer(true)).unwrap();
    for generation in [R1_5, R1_6] {
        assert_eq!(name(&dynamic, generation, 2), spelling(generation, "dynamic implementations"));
    }
    assert!(name(&dynamic, R1_7, 2).is_ok());
}

/// Since r2.1 the device and its directories are hashed: the name on another device is not known.
#[test]
fn since_r2_1_names_are_of_one_device() {
    let mut document = newer(false);
    for (field, value) in [
        ("coreType", json!("AiCore")),
        ("kernel_meta_temp_dir", json!("./rank_0/kernel_meta_temp_1/")),
        ("op_debug_config", json!("")),
        ("deterministic", json!(false)),
        ("te_version", json!("7.2")),
        ("coreNum", json!("32")),
    ] {
        document["job_content"]["SocInfo"][field] = value;
    }
    let descriptor = read_value(&document).unwrap();
    assert_eq!(name(&descriptor, R2_1, 2).unwrap(), "square_7079398452968708076_2");
    let other = NameError::OtherDevice { generation: R2_1, stated: "2".into(), asked: 5 };
    assert_eq!(name(&descriptor, R2_1, 5), Err(other));
    assert_eq!(descriptor.named_by("square_7079398452968708076_2"), Some(R2_1));
    assert_eq!(descriptor.named_by("square_7079398452968708076_5"), None);
    let on_5 = with(&document, "/job_content/SocInfo/deviceId", "5".into());
    assert_eq!(name(&read_value(&on_5).unwrap(), R2_1, 5).unwrap(), "square_5744936664655887602_5");
    let soc_info = document["job_content"]["SocInfo"].as_object_mut().unwrap();
    soc_info.remove("deviceId");
    assert!(matches!(name(&read_value(&document).unwrap(), R2_1, 2), Err(NameError::Unstated { .. })));
}

/// The whole name must be that of the descriptor: a kernel whose name has other words is another kernel.
#[test]
fn a_name_of_other_words_is_not_its_name() {
    let mut descriptor = read(EXAMPLE);
    for other in
        ["relu_12484080525657478220_9", "Square_12484080525657478220_2", "square_12484080525657478220"]
    {
        assert_eq!(descriptor.named_by(other), None, "{other}");
        descriptor.envelope.fusion_op_name = other.to_owned();
        let stem = descriptor.kernel_meta_stem().unwrap();
        assert_eq!(stem.as_str(), "square_12484080525657478220_2", "{other}");
    }
    assert_eq!(descriptor.named_by("square_12484080525657478220_9"), Some(R1_5));

    let older = read(OLDER);
    let given = name(&older, R1_2, 5).unwrap();
    let relu = read_value(&with(&parse(OLDER), "/op_info/Type", "Relu".into())).unwrap();
    assert_eq!((older.named_by(&given), relu.named_by(&given)), (Some(R1_2), None));
    assert_eq!(relu.named_by(&given.replace("ConcatDemo", "Relu")), Some(R1_2));
}

/// The effect of a change of the example on the name of each generation; `None` if the name stays certain.
fn change(change: &dyn Fn(&mut Op)) -> [Result<String, NameError>; 3] {
    [R1_0, R1_5, R1_6].map(|generation| {
        let mut descriptor = match generation {
            R1_0 => read(EXAMPLE),
            _ => square(),
        };
        change(&mut descriptor.job.ops[0]);
        name(&descriptor, generation, 2)
    })
}

fn one(op: &mut Op) -> &mut Tensor {
    let Arg::One(output) = &mut op.outputs[0] else { panic!() };
    output
}

#[test]
fn other_spellings_are_not_guessed() {
    let refused = |what, op: &dyn Fn(&mut Op)| {
        assert_eq!(change(op), [R1_0, R1_5, R1_6].map(|generation| spelling(generation, what)));
    };
    refused("attributes", &|op| op.attrs = Some(vec![Attr::new("a", "int32", AttrValue::Int(1))]));
    refused("unknown fields", &|op| _ = op.extra.insert("future".into(), json!(1)));
    refused("constants", &|op| one(op).const_value = Some(ConstValue::ints("int64", &[1])));
    refused("omitted tensors", &|op| {
        op.outputs.push(Arg::Absent(OmittedArg { param_type: None, extra: Extra::new() }));
    });
    refused("dynamic shapes", &|op| op.flags.unknown_shape = Some(true));
    refused("dynamic shapes", &|op| one(op).shape = vec![-1]);
    refused("variadic tensors", &|op| {
        let tensor = one(op).clone();
        op.outputs[0] = Arg::Many(vec![tensor]);
    });
}

/// Files of one form are not alike in everything, either.
#[test]
fn newer_files_are_not_guessed_either() {
    let at = "/job_content/op_list/1";
    let mut with_ref = newer(false);
    with_ref["job_content"]["op_list"][1]["attrs"] =
        json!([{ "name": "isRef", "dtype": "bool", "value": false, "valid": true }]);
    assert_eq!(name(&read_value(&with_ref).unwrap(), R1_5, 2), spelling(R1_5, "the attribute `isRef`"));
    let mut constant = newer(false);
    constant.pointer_mut(&format!("{at}/input_desc/0")).unwrap()["const_value"] = json!([1]);
    assert_eq!(name(&read_value(&constant).unwrap(), R1_6, 2), spelling(R1_6, "constants"));
    for generation in [R1_5, R1_6, R1_7] {
        assert!(matches!(name(&read(RICH), generation, 3), Err(NameError::Spelling { .. })));
    }
    let mut two = square();
    let second = two.job.ops[0].clone();
    two.job.ops.push(second);
    assert_eq!(name(&two, R1_7, 2), spelling(R1_7, "fused operators"));
}

/// A file of r1.2 in the words of r1.1: the same, as long as the operator is a plain one.
#[test]
fn dynamic_jobs_of_r1_2_have_no_older_name() {
    assert_eq!(name(&read(OLDER), R1_0, 5), spelling(R1_0, "unknown fields"));
    let mut plain = parse(OLDER);
    for field in ["future_op", "attrs", "attr_desc", "dynamic_index"] {
        plain["op_info"].as_object_mut().unwrap().remove(field);
    }
    plain["op_info"]["inputs"].as_array_mut().unwrap().truncate(1);
    plain["op_info"]["inputs"][0][0].as_object_mut().unwrap().remove("future_tensor");
    assert_eq!(name(&read_value(&plain).unwrap(), R1_0, 5), spelling(R1_0, "dynamic shapes"));
}

/// r1.2 hashes its options, and words some of them otherwise than later versions do.
#[test]
fn r1_2_has_a_name_where_its_options_are_known() {
    let options = "/job_content/SocInfo";
    assert_eq!(name(&read(EXAMPLE), R1_2, 7), spelling(R1_2, "these options"));
    let known = with(&parse(EXAMPLE), &format!("{options}/op_debug_level"), "".into());
    assert!(name(&read_value(&known).unwrap(), R1_2, 7).is_ok());
    for (field, value) in
        [("coreType", "AiCore"), ("op_impl_mode", "high_precision"), ("autoTilingMode", "RL")]
    {
        let changed = with(&known, &format!("{options}/{field}"), value.into());
        assert_eq!(name(&read_value(&changed).unwrap(), R1_2, 7), spelling(R1_2, "these options"), "{field}");
    }
}
