//! Models that would need disproportionate time or memory.

use opkeep_onnx::{Options, from_bytes};

use super::model::{FLOAT, Model, int, ints, unary, word};

#[test]
fn long_chains_take_no_stack() {
    let mut model = Model::new(13).input("x", &[2, 3]);
    let mut last = "x".to_owned();
    for at in 0..20_000 {
        let next = format!("t{at}");
        model = match at % 2 {
            0 => model.node("Flatten", &[&last], &[&next], &[int("axis", 0)]),
            _ => model.node("Relu", &[&last], &[&next], &[]),
        };
        last = next;
    }
    assert_eq!(model.outputs(&[&last]).network().graph.nodes().len(), 10_000);
}

#[test]
fn absurd_sizes_are_refused_or_stay_small() {
    let huge = |values: &[i64]| {
        let model = Model::new(13).ints("v", values);
        model.node("ConstantOfShape", &["v"], &["c"], &[])
    };
    assert!(huge(&[1 << 40, 1 << 40]).outputs(&["c"]).why().contains("absurdly large"));
    assert!(huge(&[-1]).outputs(&["c"]).why().contains("[-1] is no shape"));
    assert!(huge(&[0, i64::MAX, 2]).outputs(&["c"]).why().contains("absurdly large"));
    // An empty tensor with a dimension of any size.
    let empty = huge(&[1 << 47, 0]).node("Transpose", &["c"], &["y"], &[]).outputs(&["y"]);
    assert!(empty.becomes().is_empty());
    let sums = huge(&[1 << 47, 0]).node("Add", &["c", "c"], &["y"], &[]).outputs(&["y"]);
    assert!(sums.becomes().is_empty());
    let rows =
        huge(&[1 << 47, 0]).ints("i", &[0, 1, 2]).node("Gather", &["c", "i"], &["y"], &[int("axis", 0)]);
    assert!(rows.outputs(&["y"]).becomes().is_empty());
}

#[test]
fn absurd_numbers_do_not_overflow() {
    let least = i64::MIN;
    for attrs in [
        vec![ints("kernel_shape", &[i64::MAX, 1])],
        vec![
            ints("kernel_shape", &[2, 2]),
            ints("strides", &[i64::MAX, 1]),
            ints("dilations", &[i64::MAX, i64::MAX]),
        ],
        vec![ints("kernel_shape", &[2, 2]), ints("pads", &[i64::MAX, 0, i64::MAX, 0])],
        vec![
            ints("kernel_shape", &[i64::MAX, 2]),
            word("auto_pad", "SAME_UPPER"),
            ints("dilations", &[i64::MAX, 1]),
        ],
        vec![ints("kernel_shape", &[2, 2]), ints("strides", &[i64::MAX, 1]), int("ceil_mode", 1)],
    ] {
        // The call returns in any case.
        let _ = unary(19, "MaxPool", &[1, 1, 4, 4], &attrs).read();
        let _ = unary(19, "AveragePool", &[1, 1, 4, 4], &attrs).read();
    }
    for (op_type, attrs) in [
        ("Softmax", vec![int("axis", least)]),
        ("Flatten", vec![int("axis", least)]),
        ("Gather", vec![int("axis", least)]),
        ("LRN", vec![int("size", i64::MAX)]),
        ("DepthToSpace", vec![int("blocksize", i64::MAX)]),
        ("SpaceToDepth", vec![int("blocksize", 1 << 24)]),
        ("Cast", vec![int("to", i64::MAX)]),
        ("Transpose", vec![ints("perm", &[least; 4])]),
        ("GlobalAveragePool", vec![]),
    ] {
        let _ = unary(12, op_type, &[1 << 20, 1 << 20, 16, 16], &attrs).read();
    }
    for (op_type, values) in [
        ("Reshape", vec![-1, i64::MAX]),
        ("Reshape", vec![least, least]),
        ("Expand", vec![i64::MAX, 1, 1]),
        ("Expand", vec![1 << 40, 4, 4]),
        ("Tile", vec![i64::MAX, i64::MAX]),
        ("Tile", vec![1 << 20, 1 << 20]),
        ("Pad", vec![i64::MAX, i64::MAX, i64::MAX, i64::MAX]),
        ("Pad", vec![least, least, least, least]),
        ("Unsqueeze", vec![least]),
        ("Squeeze", vec![least]),
        ("Trilu", vec![least]),
    ] {
        for known in [true, false] {
            let model = Model::new(18).ints("v", &values);
            let model = if known { model.weight("x", &[4, 4]) } else { model.input("x", &[4, 4]) };
            let _ = model.node(op_type, &["x", "v"], &["y"], &[]).outputs(&["y"]).read();
        }
    }
    let attrs = [ints("output_padding", &[i64::MAX, 0]), ints("strides", &[1, i64::MAX])];
    let stretched = Model::new(13).input("x", &[1, 1, 4, 4]).weight("w", &[1, 1, 2, 2]);
    let _ = stretched.node("ConvTranspose", &["x", "w"], &["y"], &attrs).outputs(&["y"]).read();
    let slice = Model::new(13)
        .weight("x", &[4])
        .ints("from", &[i64::MAX])
        .ints("to", &[least])
        .ints("axes", &[0])
        .ints("steps", &[least])
        .node("Slice", &["x", "from", "to", "axes", "steps"], &["y"], &[])
        .outputs(&["y"]);
    assert!(slice.becomes().is_empty());
}

#[test]
fn reasons_are_short() {
    let values = vec![7; 5000];
    let why = Model::new(13)
        .input("x", &[2])
        .ints("shape", &values)
        .node("Reshape", &["x", "shape"], &["y"], &[])
        .outputs(&["y"])
        .why();
    assert!(why.starts_with("[2] cannot be reshaped to [7, 7") || why.contains("dimensions"), "{why}");
    assert!(why.chars().count() <= 501);
}

/// Each of these nodes would compute half a megabyte from a few bytes of the model.
#[test]
fn folding_is_bounded() {
    let mut model =
        Model::new(13).ints("one", &[1]).int_tensor("zero", &[], &[0]).int_tensor("end", &[], &[65_536]);
    model = model.int_tensor("step", &[], &[1]).node("Range", &["zero", "end", "step"], &["r"], &[]);
    let names: Vec<String> = (0..200).map(|at| format!("y{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let model = names.iter().fold(model, |model, name| model.node("Add", &["r", "one"], &[name], &[]));
    // Each computes half a MiB and reads as much, which counts eightfold; the range has used half of one of 64 MiB.
    assert_eq!(model.outputs(&names).network().graph.nodes().len(), 200 - 14);
    let many: Vec<&str> = vec!["w"; 100];
    let sum = Model::new(13).weight("w", &[1 << 12]).node("Sum", &many, &["y"], &[]).outputs(&["y"]);
    assert_eq!(sum.network().graph.nodes().len(), 1);
}

#[test]
fn dimensions_are_numbered() {
    let axes: Vec<i64> = (0..64).collect();
    let model = |rank| {
        let model = Model::new(13).input("x", &[2]).ints("axes", &axes[..rank]);
        model.node("Unsqueeze", &["x", "axes"], &["y"], &[]).outputs(&["y"])
    };
    assert!(model(63).becomes().is_empty());
    assert_eq!(model(64).why(), "it has an output of 65 dimensions, expected at most 64");
    let ones =
        Model::new(13).ints("ones", &[1; 65]).node("ConstantOfShape", &["ones"], &["y"], &[]).outputs(&["y"]);
    assert!(ones.why().contains("absurdly large"));
}

/// After any change of a byte of a model, the result is a network or an error.
#[test]
fn changed_bytes_do_no_harm() {
    let model = Model::new(13)
        .input("x", &[1, 2, 5, 5])
        .weight("w", &[2, 2, 3, 3])
        .ints("shape", &[1, -1])
        .node("Conv", &["x", "w"], &["c"], &[ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 2])])
        .node("MaxPool", &["c"], &["p"], &[ints("kernel_shape", &[2, 2]), int("ceil_mode", 1)])
        .node("Reshape", &["p", "shape"], &["r"], &[])
        .node("Shape", &["r"], &["s"], &[])
        .node("ConstantOfShape", &["s"], &["z"], &[])
        .node("Add", &["r", "z"], &["y"], &[])
        .declared("y", FLOAT, &["1", "8"]);
    let bytes = model.bytes();
    assert_eq!(model.becomes().len(), 3);
    for at in 0..bytes.len() {
        for value in [0, 1, 7, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at].wrapping_add(1)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let _ = from_bytes(changed.into(), None, &Options::default());
        }
    }
}
