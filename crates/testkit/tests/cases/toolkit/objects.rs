//! The stand-in's objects are as genuine as those that Rust writes.

use std::io::Write as _;
use std::process::Stdio;

use opkeep_testkit::ascend::{Argument, Chip, Cores, Era, Kernel};
use serde_json::{Value, json};

use super::Case;
use super::bench::{Bench, attention, good_conv2d, report, run, square, tensor, unary};

pub(crate) const CASES: &[Case] = &[
    ("objects_are_those_of_rust_byte_for_byte", bytes),
    ("kernels_are_valid_on_every_family", families),
    ("each_kind_of_cores_has_its_magic", cores),
    ("dynamic_kernels_have_tiling_keys", dynamic),
    ("chips_of_which_no_object_was_seen_are_refused", unseen),
];

const STAMP: &str = "2026-07-30T20:53:21+08:00 clang version 15.0.5";

const WRITE: &str = "
import json, sys
from opkeep_standin.kernel import Kernel
for spec in json.load(sys.stdin):
    cores = spec.pop('cores')
    spec['arguments'] = [tuple(item) for item in spec['arguments']]
    print(Kernel(cores=cores if isinstance(cores, str) else tuple(cores), **spec).object().hex())
";

fn bytes() {
    let bench = Bench::new();
    let mix = Cores::Mix { cube: 1, vector: 2 };
    let only_vector = Cores::Mix { cube: 0, vector: 1 };
    let kernels = [
        (Chip::Ascend910, Cores::AiCore, &[][..], Era::Cann8Late),
        (Chip::Ascend910, Cores::AiCore, &[0, 1], Era::Cann8Late),
        (Chip::Ascend310B, Cores::AiCore, &[0, 7], Era::Cann8Late),
        (Chip::Ascend310B, Cores::AiCore, &[], Era::Cann8Late),
        (Chip::Ascend310P, Cores::AiCore, &[0], Era::Cann8Late),
        (Chip::Ascend310P, Cores::Vector, &[], Era::Cann8Late),
        (Chip::Ascend910B, Cores::Vector, &[], Era::Cann9),
        (Chip::Ascend910B, Cores::Vector, &[0, 1, 12], Era::Cann9),
        (Chip::Ascend910B, Cores::Vector, &[0], Era::Cann8),
        (Chip::Ascend910B, Cores::Vector, &[3, 4], Era::Cann8Late),
        (Chip::Ascend910B, Cores::AiCore, &[10], Era::Cann9),
        (Chip::Ascend910B, mix, &[3, 10_000_000_000_000_000_000], Era::Cann9),
        (Chip::Ascend910_93, only_vector, &[0, 1], Era::Cann9),
    ];
    let arguments = [
        Argument::InputList(4),
        Argument::Input,
        Argument::Output,
        Argument::Workspace,
        Argument::Tiling(64),
    ];
    let spelt = json!([["inputs", 4], ["input", 0], ["output", 0], ["workspace", 0], ["tiling", 64]]);
    let specs: Vec<Value> = kernels
        .iter()
        .map(|(chip, cores, keys, era)| {
            let cores = match cores {
                Cores::AiCore => json!("AiCore"),
                Cores::Vector => json!("VectorCore"),
                Cores::Mix { cube, vector } => json!([cube, vector]),
            };
            json!({"family": format!("{chip:?}"), "name": "te_square_1f", "cores": cores, "keys": keys,
                "arguments": spelt, "late": *era == Era::Cann9, "note": *era != Era::Cann8, "stamp": STAMP})
        })
        .collect();
    let mut python = bench.command(&super::bench::python());
    python.args(["-c", WRITE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().unwrap();
    child.stdin.take().unwrap().write_all(Value::from(specs).to_string().as_bytes()).unwrap();
    let written = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(written.lines().count(), kernels.len());
    for ((chip, cores, keys, era), written) in kernels.iter().zip(written.lines()) {
        let kernel = Kernel::new(*chip, "te_square_1f").cores(*cores).keys(*keys).era(*era).stamp(STAMP);
        let object = kernel.arguments(arguments).build().object;
        let expected: String = object.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, expected, "{chip:?} {cores:?} {keys:?} {era:?}");
    }
}

fn families() {
    let bench = Bench::new();
    for soc in ["Ascend910A", "Ascend910B", "Ascend910B1", "Ascend910_9391", "Ascend310P3", "Ascend310B1"] {
        let (x, any) = (tensor("float16", "ND", &[3]), tensor("float16", "ND", &[-1, 3]));
        for params in [unary("Square", &x, &[]), unary("Square", &any, &[])] {
            let (object, json) = bench.compiled(soc, &params, &[]);
            let report = report(soc, json.to_string().as_bytes(), &object);
            assert_eq!(report.findings, [], "{soc}: {params}");
            assert_eq!(json["sha256"].as_str().unwrap().len(), 64);
        }
    }
}

fn cores() {
    let bench = Bench::new();
    let soc = "Ascend910B1";
    let magic = |params: &Value, options: &[&str]| {
        let (object, json) = bench.compiled(soc, params, options);
        assert_eq!(report(soc, json.to_string().as_bytes(), &object).findings, [], "{json}");
        [json["magic"].clone(), json["coreType"].clone(), json["taskRation"].clone()]
    };
    let elf = |rest: &str| json!(format!("RT_DEV_BINARY_MAGIC_ELF{rest}"));
    assert_eq!(magic(&square(), &[]), [elf("_AIVEC"), json!("VectorCore"), Value::Null]);
    assert_eq!(magic(&square(), &["--core_type=AiCore"]), [elf("_AICUBE"), json!("AiCore"), Value::Null]);
    assert_eq!(magic(&good_conv2d(), &[]), [elf("_AICUBE"), json!("AiCore"), Value::Null]);
    assert_eq!(magic(&attention(16), &[]), [elf(""), json!("MIX"), json!("tilingKey")]);
    // Vector cores have no matrix multiplication.
    let run = bench.compile(soc, &good_conv2d(), &["--core_type=VectorCore"]);
    assert!(run.stdout.contains("have no cube unit"), "{}", run.stdout);
}

fn dynamic() {
    let bench = Bench::new();
    let names = |params: &Value, options: &[&str]| {
        let (_, json) = bench.compiled("Ascend910B1", params, options);
        let list = json["kernelList"].as_array().cloned().unwrap_or_default();
        let names: Vec<Value> = list.into_iter().map(|item| item["kernelName"].clone()).collect();
        (json["kernelName"].clone(), names, json["blockDim"].clone(), !json["compileInfo"].is_null())
    };
    let kernel = |rest: &str| json!(format!("Square_0123abcd{rest}"));
    assert_eq!(names(&square(), &[]), (kernel("__kernel0"), vec![], json!(48), false));
    let both = vec![kernel("_0"), kernel("_1")];
    assert_eq!(names(&square(), &["--op_mode=dynamic"]), (kernel(""), both, json!(-1), true));
    let one = (kernel(""), vec![kernel("_1")], json!(-1), true);
    assert_eq!(names(&square(), &["--op_mode=dynamic", "--tiling_key=1"]), one);
    let (_, json) = bench.compiled("Ascend910B1", &attention(-1), &[]);
    assert_eq!(json["kernelList"][0]["taskRation"], "1:2");
}

fn unseen() {
    let bench = Bench::new();
    for soc in ["Ascend310", "Ascend910_9599"] {
        let run = bench.compile(soc, &square(), &[]);
        assert_eq!(run.code, Some(0));
        assert!(run.stdout.contains("the stand-in writes no objects for"), "{}", run.stdout);
    }
    // Python's own message, if the name is not even a chip.
    let unknown =
        run(bench.command(&bench.installed.tool("opc")).args(bench.arguments("Ascend9", &square())));
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("set_current_compile_soc_info() return error."), "{}", unknown.stderr);
}
