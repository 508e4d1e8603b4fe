//! Keys that never change unless `KEY_SCHEMA` does.

use opkeep_descriptor::{
    Arg, Attr, AttrValue, ConstValue, Data, Extra, Float, Input, Job, KEY_SCHEMA, KernelName, KeyParts,
    OmittedArg, Op, OpFlags, ResolvedSpec, Source, Tensor,
};
use opkeep_digest::Fingerprint;
use serde_json::json;

use crate::tree::{COMPOSITE, EXAMPLE, FUSED, OLDER, OLDEST, RICH, read};

const GOLDEN: &str = include_str!("../../../../fixtures/keys/golden.txt");

fn op(name: &str, inputs: Vec<Arg<Input>>, output: Tensor) -> Op {
    Op {
        op_type: name.into(),
        func_name: name.to_lowercase(),
        module_name: format!("impl.{}", name.to_lowercase()),
        module_path: None,
        flags: OpFlags::default(),
        inputs,
        outputs: vec![Arg::One(output)],
        attrs: None,
        extra: Extra::new(),
    }
}

fn input(tensor: Tensor, source: Source) -> Input {
    Input { tensor, source }
}

fn job(data: &[Tensor], ops: Vec<Op>) -> Job {
    let data = data
        .iter()
        .map(|tensor| Data { outputs: vec![Arg::One(tensor.clone())], extra: Extra::new() })
        .collect();
    Job { data, ops, l1_size: -1, extra: Extra::new() }
}

fn data(data: usize) -> Source {
    Source::Data { data, tensor: 0 }
}

/// Two tensors of one shape, and nothing else.
fn add() -> Job {
    let x = Tensor::new("float32", [8, 16]);
    let inputs = vec![Arg::One(input(x.clone(), data(0))), Arg::One(input(x.clone(), data(1)))];
    job(&[x.clone(), x.clone()], vec![op("Add", inputs, x)])
}

/// Dynamic dimensions, unknown rank, ranges, a dynamic implementation.
fn dynamic() -> Job {
    let mut x = Tensor::new("float16", [-1, 16]);
    x.range = Some(vec![[1, -1], [16, 16]]);
    let unranked = Tensor::new("float16", [-2]);
    let inputs = vec![Arg::One(input(x.clone(), data(0))), Arg::One(input(unranked.clone(), data(1)))];
    let mut mul = op("Mul", inputs, unranked.clone());
    mul.flags = OpFlags { is_dynamic_impl: Some(true), unknown_shape: Some(true), ..OpFlags::default() };
    job(&[x, unranked], vec![mul])
}

/// Two fused operators and a tensor from outside, attributes of every type.
fn fused() -> Job {
    let x = Tensor::new("float32", [4]);
    let float = |value| AttrValue::Float(Float::new(value));
    let attr = |name: &str, dtype: &str, value| Attr {
        name: name.into(),
        dtype: dtype.into(),
        value,
        valid: None,
        extra: Extra::new(),
    };
    let mut first = op("Square", vec![Arg::One(input(x.clone(), data(0)))], x.clone());
    first.attrs = Some(vec![
        attr("epsilon", "float32", float(1e-5)),
        attr("limits", "list_float32", AttrValue::List(vec![float(f64::NEG_INFINITY), float(-0.0)])),
        attr("wide", "float64", float(0.1)),
        attr("axis", "int32", AttrValue::Int(-1)),
        attr("seed", "uint64", AttrValue::UInt(u64::MAX)),
        attr("mode", "str", AttrValue::Str("FRACTAL_Z".into())),
        attr("keep_dims", "bool", AttrValue::Bool(true)),
        attr("not_given", "int64", AttrValue::Null),
    ]);
    let from = Source::Op { op: 0, output: 0 };
    let inputs = vec![Arg::One(input(x.clone(), from)), Arg::One(input(x.clone(), Source::Free(0)))];
    job(std::slice::from_ref(&x), vec![first, op("Add", inputs, x.clone())])
}

/// A variadic input, an absent one, a constant, L1 and slice fields, unknown fields.
fn unusual() -> Job {
    let x = Tensor::new("int8", [2]);
    let mut axes = Tensor::new("int64", [1]);
    axes.const_value = Some(ConstValue { value: json!([0]), dtype: Some("int64".into()) });
    axes.slice.l1_fusion_type = Some(1);
    axes.slice.slice_offset = Some(vec![0, 8]);
    axes.extra = [("future".to_owned(), json!({ "a": [1, 2.5, "b", null, true] }))].into();
    let group = vec![
        input(x.clone(), Source::Data { data: 0, tensor: 0 }),
        input(x.clone(), Source::Data { data: 0, tensor: 1 }),
    ];
    let absent = Arg::Absent(OmittedArg { param_type: Some("optional".into()), extra: Extra::new() });
    let inputs = vec![Arg::Many(group), absent, Arg::One(input(axes.clone(), data(1)))];
    let variadic = Data { outputs: vec![Arg::One(x.clone()), Arg::One(x.clone())], extra: Extra::new() };
    let mut job = job(&[axes], vec![op("Concat", inputs, Tensor::new("int8", [4]))]);
    job.data.insert(0, variadic);
    job.l1_size = 1 << 20;
    job
}

/// A fused job with everything, also what frameworks write of single operators only.
fn rich() -> Job {
    let mut job = read(RICH).job;
    let flags = &mut job.ops[0].flags;
    flags.build_type = Some("fuzzily_build".into());
    flags.max_kernel_id = Some(12);
    flags.miss_support_info = Some("none".into());
    job
}

fn line(case: &str, job: &Job) -> String {
    let options = [("coreNum", "32"), ("op_impl_mode", "high_precision")];
    let spec = ResolvedSpec {
        target: "Ascend910A".into(),
        options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        debug: false,
    };
    let (mut toolchain, mut sources) = (Fingerprint::new(), Fingerprint::new());
    toolchain.text("compiler", "a fake one, 1.0");
    sources.text("impl", "a fake source");
    let parts = KeyParts::new("fake", job, &spec, toolchain, sources);
    let key = parts.key();
    format!("{case} {} {} {key} {}", parts.job, parts.spec, KernelName::new(job, &key))
}

#[test]
fn golden_keys_do_not_change() {
    let cases = [
        ("vendors-square", read(EXAMPLE).job),
        ("rich", rich()),
        ("vendors-fused", read(FUSED).job),
        ("add", add()),
        ("dynamic", dynamic()),
        ("fused", fused()),
        ("unusual", unusual()),
        ("older", read(OLDER).job),
        ("oldest", read(OLDEST).job),
        ("composite", read(COMPOSITE).job),
    ];
    let made: Vec<String> = cases.iter().map(|(case, job)| line(case, job)).collect();
    let golden: Vec<&str> = GOLDEN.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        GOLDEN.lines().next(),
        Some(format!("# KEY_SCHEMA {KEY_SCHEMA}").as_str()),
        "fixtures/keys/golden.txt is of another KEY_SCHEMA; write it again:\n{}\n",
        made.join("\n")
    );
    assert!(
        made == golden,
        "keys changed: every cache in the world would miss, or hit what it must not.\n\
         Not meant? Find what leaked into the key, or dropped out of it.\n\
         Meant? Raise KEY_SCHEMA (now {KEY_SCHEMA}) in the same commit, say why in CHANGELOG.md, and make \
         fixtures/keys/golden.txt these lines:\n{}\n",
        made.join("\n")
    );
}
