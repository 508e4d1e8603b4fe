//! Names that MindSpore, AKG and CANN give.

use opkeep_descriptor::{
    Arg, BuildSpec, Data, Descriptor, Envelope, Extra, ForeignName, Generation, Input, Job, KernelName,
    NameError, Op, OpFlags, Source, Tensor,
};
use serde_json::{Value, json};

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, parse, read, read_value, with};

const NAMES: &str = include_str!("../../../../fixtures/names/names.txt");

const DOCUMENTS: [(&str, &str); 6] = [
    ("square", EXAMPLE),
    ("rich", RICH),
    ("fused", FUSED),
    ("older", OLDER),
    ("oldest", OLDEST),
    ("composite", COMPOSITE),
];

pub(crate) fn name(
    descriptor: &Descriptor,
    generation: Generation,
    device: u32,
) -> Result<String, NameError> {
    KernelName::mindspore(descriptor, generation, device).map(|name| name.to_string())
}

/// The name on the device that the document states, if it states one.
fn named(document: &Value, generation: Generation) -> String {
    let stated = document.pointer("/job_content/SocInfo/deviceId").and_then(Value::as_str);
    let device = stated.map_or(2, |device| device.parse().unwrap());
    name(&read_value(document).unwrap(), generation, device).unwrap()
}

#[test]
fn names_are_those_that_the_vendor_gives() {
    let mut seen = Vec::new();
    for line in NAMES.lines().filter(|line| !line.starts_with('#')) {
        let [document, generation, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (_, text) = DOCUMENTS.into_iter().find(|(name, _)| *name == document).unwrap();
        let mut descriptor = read(text);
        let all = Generation::ALL.into_iter();
        let generation = all.clone().find(|known| format!("{known:?}") == generation).unwrap();
        let number = ForeignName::parse(&format!("x{expected}")).unwrap().number().unwrap();
        let states_its_words = !expected.starts_with('_');
        let given = if states_its_words { expected.to_owned() } else { format!("Any{expected}") };
        assert_eq!(descriptor.named_by(&given), Some(generation), "{line}");
        let others = [format!("x{given}"), given.replacen('_', "_x", 1)];
        assert!(
            !states_its_words || others.iter().all(|other| descriptor.named_by(other).is_none()),
            "{line}"
        );
        if descriptor.job.ops[0].op_type.is_empty() {
            assert_eq!(name(&descriptor, generation, 5), Err(NameError::NoType { number }));
            descriptor.job.ops[0].op_type = "ConcatDemo".into();
        }
        let device = ForeignName::parse(expected).and_then(|name| name.device()).unwrap_or(5);
        let made = name(&descriptor, generation, device).unwrap();
        assert!(made.ends_with(expected), "{line}: {made}");
        assert!(made == expected || made == format!("ConcatDemo{expected}"), "{line}: {made}");
        seen.push(generation);
    }
    assert!(Generation::ALL.iter().all(|generation| seen.contains(generation)), "{seen:?}");
}

#[test]
fn the_vendors_example_bears_its_name() {
    let example = read(EXAMPLE);
    assert_eq!(name(&example, Generation::R1_5, 2).unwrap(), "square_12484080525657478220_2");
    assert_eq!(name(&example, Generation::R1_5, 7).unwrap(), "square_12484080525657478220_7");
    assert_eq!(example.named_by("square_12484080525657478220_2"), Some(Generation::R1_5));
    // For any device, which is not hashed.
    assert_eq!(example.named_by("square_12484080525657478220_0"), Some(Generation::R1_5));
    for other in ["square_12484080525657478221_2", "square", "", "_12484080525657478220_2"] {
        assert_eq!(example.named_by(other), None, "{other}");
    }
    // If two generations hash a descriptor alike, the name is that of the generation that wrote the file.
    let mut newer = parse(EXAMPLE);
    newer["job_content"]["op_list"][1].as_object_mut().unwrap().remove("output_data_desc");
    let name = named(&newer, Generation::R1_5);
    assert_eq!(name, named(&newer, Generation::R1_6));
    assert_eq!(read_value(&newer).unwrap().named_by(&name), Some(Generation::R1_5));
    newer["job_content"]["op_list"][1]["is_dynamic_impl"] = true.into();
    let name = named(&newer, Generation::R1_7);
    assert_eq!(read_value(&newer).unwrap().named_by(&name), Some(Generation::R1_7));
    assert_eq!(example.kernel_meta_stem().unwrap().as_str(), "square_12484080525657478220_2");
}

/// The documentation's other example is the same operator; its tensors have another format.
#[test]
fn the_example_has_the_names_of_the_older_example() {
    let mut document = parse(EXAMPLE);
    for at in ["0/output_desc/0", "1/input_desc/0", "1/output_desc/0", "1/output_data_desc/0"] {
        document = with(&document, &format!("/job_content/op_list/{at}/format"), "NCHW".into());
    }
    document = with(&document, "/job_content/SocInfo/op_debug_level", "".into());
    let descriptor = read_value(&document).unwrap();
    assert_eq!(name(&descriptor, Generation::R1_0, 7).unwrap(), "Square_3307185124911971026_7");
    assert_eq!(name(&descriptor, Generation::R1_2, 7).unwrap(), "Square_2989580383048251395_7");
}

/// A job of type, tensors and target only, as a program makes it.
pub(crate) fn square() -> Descriptor {
    let mut x = Tensor::new("float32", [3]);
    x.ori_format = Some("NCHW".into());
    let input = Input { tensor: x.clone(), source: Source::Data { data: 0, tensor: 0 } };
    let op = Op {
        op_type: "Square".into(),
        func_name: "square".into(),
        module_name: "impl.square".into(),
        module_path: None,
        flags: OpFlags::default(),
        inputs: vec![Arg::One(input)],
        outputs: vec![Arg::One(x.clone())],
        attrs: None,
        extra: Extra::new(),
    };
    let data = vec![Data { outputs: vec![Arg::One(x)], extra: Extra::new() }];
    let job = Job { data, ops: vec![op], l1_size: -1, extra: Extra::new() };
    Descriptor { job, spec: BuildSpec::new("Ascend910A"), envelope: Envelope::default() }
}

/// A job made by a program or read from an older file has the name that the framework would give it.
#[test]
fn jobs_of_programs_have_the_frameworks_names() {
    let made = square();
    assert_eq!(name(&made, Generation::R1_5, 2).unwrap(), "square_12484080525657478220_2");
    // r1.7 and later also state whether the implementation is dynamic.
    let mut newer = parse(EXAMPLE);
    newer["job_content"]["op_list"][1]["is_dynamic_impl"] = false.into();
    let newer = named(&newer, Generation::R1_7);
    assert_eq!(newer, "square_14813224250232759267_2");
    assert_eq!(name(&made, Generation::R1_7, 2).unwrap(), newer);
    assert_eq!(made.kernel_meta_stem().unwrap().as_str(), newer.replace("_2", "_0"));

    let tensor = |name: &str| {
        json!({ "dtype": "float32", "format": "ND", "name": name, "ori_format": "NCHW", "ori_shape": [3],
            "param_type": "required", "range": [[3, 3]], "shape": [3], "valid": true })
    };
    let older = json!({ "SocInfo": { "socVersion": "Ascend910A" }, "op_info": { "Type": "Square", "name": "square",
        "module_name": "impl.square", "attrs": null, "inputs": [[tensor("x_0")]], "outputs": [[tensor("y")]] } });
    assert_eq!(named(&older, Generation::R1_5), "square_12484080525657478220_2");
    assert_eq!(named(&older, Generation::R1_6), named(&parse(EXAMPLE), Generation::R1_6));
    assert_eq!(name(&made, Generation::R1_6, 2).unwrap(), named(&older, Generation::R1_6));
}

/// The rich job, as a file of `generation` has it.
fn rich(generation: Generation) -> Value {
    let mut document = parse(RICH);
    let soc_info = document.pointer_mut("/job_content/SocInfo").unwrap().as_object_mut().unwrap();
    if generation != Generation::R2_1 {
        for name in ["te_version", "deterministic", "op_debug_config"] {
            soc_info.remove(name);
        }
    }
    if generation < Generation::R1_7 {
        soc_info.remove("kernel_meta_temp_dir");
        for op in document.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap() {
            op.as_object_mut().unwrap().remove("is_dynamic_impl");
        }
    }
    document
}

/// Fields that are not hashed: nodes, ids, and before r2.1 everything of `SocInfo`.
#[test]
fn fields_that_are_not_hashed_change_no_name() {
    const ALL: [Generation; 4] = [Generation::R1_5, Generation::R1_6, Generation::R1_7, Generation::R2_1];
    let at = "/job_content";
    for (place, value) in [
        ("/full_name", json!("other")),
        ("/fusion_op_name", json!("other_1_2")),
        ("/scope_id", json!(77)),
        ("/l1_size", json!(77)),
        ("/SocInfo/coreNum", json!("8")),
        ("/SocInfo/socVersion", json!("Ascend310")),
        ("/SocInfo/op_debug_dir", json!("./rank_9/")),
        ("/op_list/0/name", json!("other")),
        ("/op_list/5/name", json!("other")),
        ("/op_list/5/pattern", json!("Segment")),
        ("/op_list/5/ori_name", json!(["other"])),
        ("/op_list/1/output_desc/0/name", json!("other")),
        ("/op_list/4/input_desc/0/1/name", json!("other")),
        ("/op_list/4/input_desc/1/name", json!("other")),
    ] {
        for generation in ALL {
            let document = rich(generation);
            let changed = with(&document, &format!("{at}{place}"), value.clone());
            let same = named(&changed, generation) == named(&document, generation);
            let hashed = generation == Generation::R2_1 && place.starts_with("/SocInfo");
            assert_eq!(same, !hashed, "{generation}: {place}");
        }
    }
    for (place, value) in [
        ("/op_list/5/type", json!("Other")),
        ("/op_list/5/py_module_path", json!("/other")),
        ("/op_list/5/int64mode", json!(true)),
        ("/op_list/0/output_desc/0/range/0/1", json!(99)),
        ("/op_list/0/output_desc/0/future_data_tensor", json!(2)),
        ("/op_list/3/output_desc/0/const_value", json!([1])),
        ("/op_list/5/attrs/0/value", json!(2e-5)),
    ] {
        for generation in ALL {
            let document = rich(generation);
            let changed = with(&document, &format!("{at}{place}"), value.clone());
            assert_ne!(named(&changed, generation), named(&document, generation), "{generation}: {place}");
        }
    }
    // The name follows from the library's spelling, not from the file's.
    let document = rich(Generation::R1_5);
    let spelled = with(&document, "/job_content/op_list/5/attrs/0/value", parse("0.00001"));
    let spelled = with(&spelled, "/job_content/op_list/5/attr_desc/0", parse("1E-5"));
    assert_eq!(named(&spelled, Generation::R1_5), named(&document, Generation::R1_5));
}

/// Fields that r1.0 and r1.1 do not hash, even if a file has them.
#[test]
fn fields_that_the_oldest_do_not_hash_change_no_name() {
    let before = read(OLDEST);
    let number = |descriptor: &Descriptor| name(descriptor, Generation::R1_0, 0).unwrap_err();
    for field in
        ["Type", "full_name", "graph_id", "kernel_name", "gen_model", "module_name", "py_module_path"]
    {
        let mut document = parse(OLDEST);
        document[field] = "other".into();
        assert_eq!(number(&read_value(&document).unwrap()), number(&before), "{field}");
    }
    let mut document = parse(OLDEST);
    document["future"] = "other".into();
    assert_ne!(number(&read_value(&document).unwrap()), number(&before));
    for field in ["full_name", "graph_id", "kernel_name", "gen_model", "Type"] {
        let changed = with(&parse(OLDER), &format!("/op_info/{field}"), "Other".into());
        let tail = |document: &Value| named(document, Generation::R1_2).split_once('_').unwrap().1.to_owned();
        assert_eq!(tail(&changed), tail(&parse(OLDER)), "{field}");
    }
}

#[test]
fn akg_names_go_by_the_composite() {
    let document = parse(COMPOSITE);
    let akg = |document: &Value| named(document, Generation::Akg);
    for (place, value) in [
        ("/composite_graph", json!("other")),
        ("/id", json!(9)),
        ("/node_name", json!("other")),
        ("/op_full_name", json!("other")),
        ("/platform", json!("AKG")),
        ("/composite", json!(false)),
        ("/op_desc/0/ptr_address", json!("other")),
    ] {
        assert_eq!(akg(&with(&document, place, value)), akg(&document), "{place}");
    }
    for (place, value) in [
        ("/version", json!(1)),
        ("/process", json!("cpu")),
        ("/target_info/feature", json!("y")),
        ("/target_info/arch", json!("Ascend910B3")),
        ("/buffer_stitch", json!({})),
        ("/parallel_fusion", json!({})),
        ("/dynamic_input_index", json!("[1]")),
        ("/op_desc/0/name", json!("Add")),
        ("/op_desc/0/impl_path", json!("/other")),
        ("/op_desc/0/input_desc/1/0/value", json!(2.5)),
        ("/input_desc/0/0/tensor_name", json!("other")),
        ("/output_desc/1/shape", json!([1])),
    ] {
        assert_ne!(akg(&with(&document, place, value)), akg(&document), "{place}");
    }
    let nameless = read_value(&with(&document, "/op", "fused".into())).unwrap();
    let unstated = NameError::Unstated { generation: Generation::Akg, what: "the words of the name" };
    assert_eq!(name(&nameless, Generation::Akg, 0), Err(unstated));
}

/// An unknown name is not guessed.
#[test]
fn names_that_do_not_exist_are_refused() {
    use Generation::{Akg, R1_0, R1_2, R1_5, R2_1};
    let refused = |text: &str, generation| name(&read(text), generation, 0).unwrap_err();
    for generation in [R1_0, R1_2, R1_5, R2_1] {
        assert_eq!(refused(COMPOSITE, generation), NameError::OtherCompiler { generation });
    }
    for text in [EXAMPLE, RICH, OLDER, OLDEST] {
        assert_eq!(refused(text, Akg), NameError::OtherCompiler { generation: Akg });
    }
    assert_eq!(refused(RICH, R1_2), NameError::Operators { generation: R1_2, ops: 3 });
    let unstated = |generation, what| NameError::Unstated { generation, what };
    assert_eq!(refused(EXAMPLE, R2_1), unstated(R2_1, "`te_version`, directories and device"));
    assert_eq!(refused(OLDEST, R1_2), unstated(R1_2, "all options"));
    assert_eq!(name(&square(), R1_0, 0), Err(unstated(R1_0, "the names of inputs and outputs")));
    let mut typeless = square();
    typeless.job.ops[0].op_type.clear();
    assert_eq!(name(&typeless, R1_5, 0), Err(unstated(R1_5, "the operator's type")));
    let mut nothing = square();
    nothing.job.ops.clear();
    assert_eq!(name(&nothing, R1_0, 0), Err(NameError::Operators { generation: R1_0, ops: 0 }));

    // Other spellings of no attributes.
    let mut plain = read(EXAMPLE);
    plain.job.ops[0].attrs = Some(Vec::new());
    assert_eq!(name(&plain, R1_0, 0), name(&read(EXAMPLE), R1_0, 0));
    let great = with(&rich(R1_5), "/job_content/op_list/0/future_data", parse("1e400"));
    let error = name(&read_value(&great).unwrap(), R1_5, 0).unwrap_err();
    assert!(matches!(&error, NameError::Number { token } if token.contains("400")), "{error}");
}

/// A name is a file name: no descriptor results in a path to another directory.
#[test]
fn names_are_words() {
    for func in ["../x", "a b", "", "a/b", "é", "a\0", &"f".repeat(300)] {
        let mut descriptor = square();
        descriptor.job.ops[0].func_name = func.into();
        match name(&descriptor, Generation::R1_5, 0) {
            Err(NameError::NotAName { name }) => assert!(name.chars().count() <= 80, "{name}"),
            other => panic!("{func}: {other:?}"),
        }
    }
    let mut descriptor = square();
    descriptor.job.ops[0].func_name = "f".repeat(200);
    assert!(name(&descriptor, Generation::R1_5, 0).is_ok());
}

#[test]
fn a_changed_descriptor_gets_the_name_of_its_own_generation() {
    for text in [EXAMPLE, RICH, OLDER, COMPOSITE] {
        let mut descriptor = read(text);
        let generation = descriptor.envelope.generation.unwrap();
        let before = descriptor.kernel_meta_stem().unwrap();
        if let Arg::One(tensor) = &mut descriptor.job.ops[0].outputs[0] {
            tensor.shape.push(7);
        }
        let stem = descriptor.kernel_meta_stem().unwrap();
        assert_ne!(stem, before);
        assert_eq!(descriptor.named_by(stem.as_str()), Some(generation));
        descriptor.envelope.fusion_op_name = stem.to_string();
        assert_eq!(descriptor.kernel_meta_stem().unwrap(), stem);
    }
    // The device is the requested one; if there is none, the one in the name.
    let mut descriptor = read(EXAMPLE);
    descriptor.envelope.fusion_op_name = "square_1_6".into();
    assert!(descriptor.kernel_meta_stem().unwrap().as_str().ends_with("_2"));
    descriptor.envelope.source_id = None;
    assert!(descriptor.kernel_meta_stem().unwrap().as_str().ends_with("_6"));
    descriptor.envelope.fusion_op_name.clear();
    assert!(descriptor.kernel_meta_stem().unwrap().as_str().ends_with("_0"));
}

#[test]
fn names_are_taken_apart() {
    let mindspore =
        |words: &str, number, device| ForeignName::MindSpore { words: words.into(), number, device };
    let numbered = |words: &str, number| ForeignName::Numbered { words: words.into(), number };
    let parse = ForeignName::parse;
    assert_eq!(
        parse("square_12484080525657478220_2"),
        Some(mindspore("square", 12_484_080_525_657_478_220, 2))
    );
    assert_eq!(parse("te_fusion_add_relu_7_0"), Some(mindspore("te_fusion_add_relu", 7, 0)));
    assert_eq!(
        parse("Fused_Add_fusion_15759721826023052688"),
        Some(numbered("Fused_Add_fusion", 15_759_721_826_023_052_688))
    );
    // A second number that is not a device's id is part of the name.
    assert_eq!(
        parse("Fused_Add_2_15759721826023052688"),
        Some(numbered("Fused_Add_2", 15_759_721_826_023_052_688))
    );
    assert_eq!(parse("a_01_2"), Some(numbered("a_01", 2)));
    for other in [
        "square",
        "square_",
        "_5",
        "__5",
        "_7_5",
        "square_18446744073709551616",
        "square_05",
        "square_+5",
        "",
    ] {
        assert_eq!(parse(other).filter(|name| name.words() != "_"), None, "{other}");
    }

    let hash = "0123456789abcdef".repeat(4);
    let cann = |words: &str, suffix: Option<&str>| {
        Some(ForeignName::Cann { words: words.into(), hash: hash.clone(), suffix: suffix.map(str::to_owned) })
    };
    assert_eq!(parse(&format!("te_mul_{hash}")), cann("mul", None));
    assert_eq!(parse(&format!("te_Mul_{hash}")), cann("Mul", None));
    assert_eq!(parse(&format!("te_fused_op_add_relu_{hash}")), cann("fused_op_add_relu", None));
    assert_eq!(parse(&format!("te_rmsnorm_{hash}_1")), cann("rmsnorm", Some("1")));
    assert_eq!(parse(&format!("te_mul_{hash}_pre")), cann("mul", Some("pre")));
    for other in [
        format!("mul_{hash}"),
        format!("te_{hash}"),
        format!("te__{hash}"),
        format!("te_mul_{}", &hash[1..]),
        format!("te_mul_{}", hash.to_uppercase()),
        format!("te_mul_{hash}_x"),
        format!("te_mul_{hash}_01"),
    ] {
        assert_eq!(parse(&other), None, "{other}");
    }
    let name = parse(&format!("te_mul_{hash}")).unwrap();
    assert_eq!((name.words(), name.number(), name.device()), ("mul", None, None));
    assert_eq!(name.to_string(), "a name of CANN");
    assert!(parse("square_7_2").unwrap().to_string().contains("device 2"));
}
