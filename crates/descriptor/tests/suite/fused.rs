//! Files exactly as MindSpore writes them: a field that it leaves out is missing, and is not hashed into names.
//!
//! The names were computed by an independent script.

use opkeep_descriptor::{Descriptor, Generation, write_info};
use serde_json::{Value, json};

use crate::tree::{EXAMPLE, FUSED, parse, read, read_value};
use crate::vendor::name;

/// A tensor as it stands in fused jobs: without `param_type`, `range` and `valid`.
fn tensor(name: &str) -> Value {
    json!({ "L1_addr_offset": 0, "L1_fusion_type": -1, "L1_workspace_size": -1, "addr_type": 0, "data_type": "float32",
        "dtype": "float32", "format": "ND", "name": name, "ori_format": "NCHW", "ori_shape": [3], "output_index": 0,
        "shape": [3], "slice_offset": [], "split_index": 0, "total_shape": [], "valid_shape": [] })
}

/// An operator as it stands there: without `build_type`, `max_kernel_id` and `miss_support_info`.
fn op(op_type: &str, func: &str, input: &str, output: &str) -> Value {
    let mut repeat = tensor(output);
    repeat.as_object_mut().unwrap().remove("name");
    json!({ "dynamic_compile_static": false, "func_name": func, "input_desc": [tensor(input)], "int64mode": false,
        "module_name": format!("impl.{func}"), "name": output, "op_name": "", "ori_name": ["Default/x"],
        "output_data_desc": [repeat], "output_desc": [tensor(output)], "pattern": "Opaque",
        "py_module_path": "/usr/local/Ascend/opp/op_impl/built-in/ai_core/tbe", "type": op_type })
}

/// A square and a relu, fused, as `generation` writes them, under the name `given`.
fn square_relu(generation: Generation, given: &str) -> Value {
    let mut soc_info = parse(EXAMPLE)["job_content"]["SocInfo"].clone();
    let mut square = op("Square", "square", "Default/p", "Default/Square-op1");
    let mut relu = op("Relu", "relu", "Default/Square-op1", "Default/Relu-op2");
    if generation >= Generation::R1_7 {
        for op in [&mut square, &mut relu] {
            op["is_dynamic_impl"] = false.into();
            op["unknown_shape"] = false.into();
        }
        soc_info["coreType"] = "AiCore".into();
        soc_info["kernel_meta_temp_dir"] = "./rank_0/kernel_meta_temp_1/".into();
    }
    if generation == Generation::R2_1 {
        soc_info["coreNum"] = "32".into();
        soc_info["te_version"] = "7.2".into();
        soc_info["deterministic"] = false.into();
        soc_info["op_debug_config"] = "".into();
    }
    let data = json!({ "name": "Default/p", "output_desc": [tensor("Default/p")], "type": "Data" });
    let content = json!({ "SocInfo": soc_info, "full_name": "Default/x", "fusion_op_name": given, "graph_name": "",
        "l1_size": -1, "op_list": [data, square, relu], "scope_id": -1 });
    json!({ "job_content": content, "job_id": 7, "job_type": "Compile", "source_id": 2 })
}

/// The file round-trips, and `generation` gives it this name and no other.
fn bears(document: &Value, generation: Generation, given: &str, device: u32) -> Descriptor {
    let descriptor = read_value(document).unwrap();
    assert_eq!(parse(&write_info(&descriptor)), *document);
    assert_eq!(name(&descriptor, generation, device).unwrap(), given);
    assert_eq!(descriptor.named_by(given), Some(generation));
    descriptor
}

#[test]
fn fused_jobs_have_the_vendors_names() {
    for (generation, given) in [
        (Generation::R1_5, "te_fusion_square_relu_8042151941629239263_2"),
        (Generation::R1_7, "te_fusion_square_relu_520227473205825369_2"),
        (Generation::R2_1, "te_fusion_square_relu_17983393139876240825_2"),
    ] {
        let descriptor = bears(&square_relu(generation, given), generation, given, 2);
        assert_eq!(descriptor.envelope.generation, Some(generation));
        assert_eq!(descriptor.kernel_meta_stem().unwrap().as_str(), given);
    }
}

/// Reused outputs, tensors that are not given, and what `output_data_desc` and `attr_desc` leave out.
#[test]
fn the_fused_example_has_a_name_in_every_generation() {
    let mut oldest = parse(FUSED);
    for op in oldest.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap() {
        let op = op.as_object_mut().unwrap();
        op.remove("is_dynamic_impl");
        op.remove("unknown_shape");
    }
    oldest["job_content"]["SocInfo"].as_object_mut().unwrap().remove("kernel_meta_temp_dir");
    bears(&oldest, Generation::R1_5, "te_fusion_mul_leaky_relu_771111740590199017_6", 6);
    bears(&oldest, Generation::R1_6, "te_fusion_mul_leaky_relu_4463932615109375777_6", 6);

    let mut newest = parse(FUSED);
    for (field, value) in [
        ("te_version", json!("7.2")),
        ("deterministic", json!(false)),
        ("op_debug_config", json!("")),
        ("coreNum", json!("32")),
    ] {
        newest["job_content"]["SocInfo"][field] = value;
    }
    newest["job_content"]["op_list"][4]["attr_desc"] = parse("[0.20000000298023224,false]");
    bears(&newest, Generation::R2_1, "te_fusion_mul_leaky_relu_15016074138113777754_6", 6);
    // All of them are one job.
    let digest = read(FUSED).job.digest();
    assert_eq!(read_value(&oldest).unwrap().job.digest(), digest);
    assert_eq!(read_value(&newest).unwrap().job.digest(), digest);
}

/// The example of a single operator, with one field less, or in another order.
#[test]
fn fields_that_a_file_lacks_are_not_hashed() {
    let op_list = "/job_content/op_list";
    let changed = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut document = parse(EXAMPLE);
        change(document.pointer_mut(op_list).unwrap().as_array_mut().unwrap());
        document
    };
    let without = |op: &mut Value, field: &str| _ = op.as_object_mut().unwrap().remove(field).unwrap();
    let no_int64 = changed(&|ops| without(&mut ops[1], "int64mode"));
    let example = read(EXAMPLE).job.digest();
    let descriptor = bears(&no_int64, Generation::R1_6, "square_4190619129964367730_2", 2);
    assert_eq!(descriptor.job.digest(), example);

    let no_inputs = changed(&|ops| {
        without(&mut ops[1], "input_desc");
        ops.remove(0);
    });
    bears(&no_inputs, Generation::R1_6, "square_9733224738190540277_2", 2);
    let empty_inputs = changed(&|ops| {
        ops[1]["input_desc"] = json!([]);
        ops.remove(0);
    });
    bears(&empty_inputs, Generation::R1_6, "square_11344630884505784242_2", 2);

    let data_last = changed(&|ops| ops.swap(0, 1));
    let descriptor = bears(&data_last, Generation::R1_6, "square_17615816879736169658_2", 2);
    assert_eq!(descriptor.job.digest(), example);
}

/// `Data` ops stand where they stood, also among operators; those of a job that was changed stand where they can.
#[test]
fn data_ops_keep_their_places() {
    for order in [[0, 1, 2, 3, 4], [3, 0, 4, 1, 2], [3, 4, 0, 1, 2], [0, 3, 1, 4, 2]] {
        let mut document = parse(FUSED);
        let ops = document["job_content"]["op_list"].as_array().unwrap().clone();
        document["job_content"]["op_list"] = order.iter().map(|at| ops[*at].clone()).collect();
        let mut descriptor = read_value(&document).unwrap();
        assert_eq!(parse(&write_info(&descriptor)), document, "{order:?}");
        assert_eq!(descriptor.job.digest(), read(FUSED).job.digest());
        descriptor.job.ops.pop();
        assert_eq!(read(&write_info(&descriptor)).job.digest(), descriptor.job.digest());
        descriptor.job.data.pop();
        assert_eq!(read(&write_info(&descriptor)).job.digest(), descriptor.job.digest());
    }
}
