//! The outputs that follow from inputs and attributes, and the refusals.

use crate::common::{Inputs, known, made, misfit, of, of_unknown, refused, shape, with, x};
use opkeep_descriptor::{Attr, ConstValue, Tensor};
use opkeep_ops::{
    LayerNorm, MatMul, OpsError, Reduce, axis, bool_attr, float_attr, int_attr, ints_attr, str_attr,
};

#[test]
fn elementwise_operators_broadcast() {
    assert_eq!(shape("Add", vec![x(&[2, 1, 4]), x(&[3, 1])], &[]), [2, 3, 4]);
    assert_eq!(shape("Relu", vec![x(&[])], &[]), [0i64; 0]);
    assert_eq!(made("Less", vec![x(&[2]), x(&[1])], &[]).unwrap(), [("bool".to_owned(), vec![2])]);
    let select = vec![of("bool", &[3, 1]), of("int8", &[2]), of("int8", &[1])];
    assert_eq!(made("SelectV2", select, &[]).unwrap(), [("int8".to_owned(), vec![3, 2])]);
    refused!(
        made("SelectV2", vec![x(&[1]), x(&[1]), x(&[1])], &[]),
        OpsError::Dtype { name: "condition", .. }
    );
    refused!(made("SelectV2", vec![of("bool", &[2]), x(&[3]), x(&[3])], &[]), OpsError::Broadcast { .. });
    refused!(
        made("SelectV2", vec![of("bool", &[1]), x(&[1]), of("int8", &[1])], &[]),
        OpsError::Dtype { .. }
    );
    refused!(made("Add", vec![x(&[2]), of("int32", &[2])], &[]), OpsError::Dtype { name: "x2", .. });
    refused!(made("Add", vec![x(&[2]), x(&[3])], &[]), OpsError::Broadcast { .. });
    refused!(made("Add", vec![x(&[2])], &[]), OpsError::Count { expected: 2, found: 1, .. });
    refused!(made("Add", vec![x(&[2]), vec![]], &[]), OpsError::Port { found: 0, .. });
    refused!(made("Add", vec![x(&[2]), [x(&[2]), x(&[2])].concat()], &[]), OpsError::Port { found: 2, .. });
}

#[test]
fn sums_clips_and_channels() {
    let n = |count| [int_attr("N", count)];
    assert_eq!(shape("AccumulateNV2", vec![[x(&[2, 1]), x(&[3])].concat()], &n(2)), [2, 3]);
    for count in [1, 3, -2, i64::MIN, i64::MAX] {
        let message = misfit("AccumulateNV2", vec![[x(&[2]), x(&[2])].concat()], &n(count));
        assert!(message.contains("2 inputs"), "{message}");
    }
    refused!(made("AccumulateNV2", vec![vec![]], &n(0)), OpsError::Port { .. });

    assert_eq!(shape("ClipByValue", vec![x(&[2, 3]), x(&[1]), x(&[3])], &[]), [2, 3]);
    assert!(misfit("ClipByValue", vec![x(&[3]), x(&[2, 3]), x(&[1])], &[]).contains("[2, 3]"));

    let infer = |channels: &[i64], x_shape: &[i64]| {
        let parameter = || x(channels);
        let inputs = vec![x(x_shape), parameter(), parameter(), parameter(), parameter()];
        made("BNInfer", inputs, &[float_attr("epsilon", 1e-5)])
    };
    assert_eq!(infer(&[3], &[2, 3, 4, 4]).unwrap()[0].1, [2, 3, 4, 4]);
    refused!(infer(&[4], &[2, 3, 4, 4]), OpsError::Misfit { .. });
    refused!(infer(&[1], &[2, 3, 4, 4]), OpsError::Misfit { .. });
    assert_eq!(shape("PRelu", vec![x(&[2, 3, 4]), x(&[1])], &[]), [2, 3, 4]);
    assert_eq!(shape("PRelu", vec![x(&[2, 3, 4]), x(&[3])], &[]), [2, 3, 4]);
    assert!(misfit("PRelu", vec![x(&[2, 3, 4]), x(&[3, 1])], &[]).contains("[3]"));

    let cast = |number| made("Cast", vec![x(&[2])], &[int_attr("dst_type", number)]);
    assert_eq!(cast(9).unwrap(), [("int64".to_owned(), vec![2])]);
    refused!(cast(99), OpsError::AttrValue { attr: "dst_type", .. });
    refused!(made("Cast", vec![x(&[2])], &[]), OpsError::MissingAttr { attr: "dst_type", .. });
}

#[test]
fn attributes_are_checked() {
    let adds = |attrs: &[Attr]| made("Adds", vec![x(&[2])], attrs);
    assert!(adds(&[float_attr("value", 1.0)]).is_ok());
    refused!(adds(&[]), OpsError::MissingAttr { attr: "value", .. });
    refused!(adds(&[int_attr("value", 1)]), OpsError::AttrType { attr: "value", .. });
    refused!(adds(&[float_attr("value", 1.0), int_attr("axis", 1)]), OpsError::UnknownAttr { .. });
    // Marks of the framework, and attributes without a value, are no attributes.
    let mut absent = int_attr("axis", 1);
    absent.valid = Some(false);
    assert!(adds(&[float_attr("value", 1.0), bool_attr("isRef", true), absent]).is_ok());
    for (op_type, attr) in [
        ("SoftmaxV2", int_attr("axes", 1)),
        ("SoftmaxV2", bool_attr("axes", true)),
        ("LRN", str_attr("depth_radius", "5")),
        ("LRN", float_attr("norm_region", 1.0)),
    ] {
        refused!(made(op_type, vec![x(&[2, 3])], &[attr]), OpsError::AttrType { .. });
    }
}

#[test]
fn matrices_and_their_batches() {
    let turned = |left, right| [bool_attr("transpose_x1", left), bool_attr("transpose_x2", right)];
    let product = |left: &[i64], right: &[i64], attrs: &[Attr]| {
        made("MatMulV2", vec![x(left), x(right), vec![], vec![]], attrs)
    };
    assert_eq!(product(&[2, 3], &[3, 4], &[]).unwrap()[0].1, [2, 4]);
    assert_eq!(product(&[3, 2], &[4, 3], &turned(true, true)).unwrap()[0].1, [2, 4]);
    refused!(product(&[2, 3], &[4, 3], &[]), OpsError::Misfit { .. });
    refused!(product(&[2, 3], &[3, 4], &turned(true, false)), OpsError::Misfit { .. });
    refused!(product(&[1, 2, 3], &[3, 4], &[]), OpsError::Misfit { .. });
    refused!(product(&[3], &[3, 4], &[]), OpsError::Misfit { .. });
    refused!(product(&[2, 3], &[3, 4], &[int_attr("offset_x", 1)]), OpsError::Misfit { .. });
    let bias = |bias: &[i64]| made("MatMulV2", vec![x(&[2, 3]), x(&[3, 4]), x(bias), vec![]], &[]);
    assert!(bias(&[4]).is_ok());
    refused!(bias(&[2]), OpsError::Misfit { .. });

    let batched = |left: &[i64], right: &[i64], attrs: &[Attr]| {
        with("BatchMatMulV2", &vec![x(left), x(right), vec![], vec![]], attrs, MatMul::of)
    };
    let product = batched(&[5, 1, 2, 3], &[7, 3, 4], &[]).unwrap();
    assert_eq!(product.output(), [5, 7, 2, 4]);
    assert_eq!((product.left_steps, product.right_steps), (vec![1, 0], vec![0, 1]));
    assert_eq!(batched(&[2, 3], &[6, 4, 3], &[bool_attr("adj_x2", true)]).unwrap().output(), [6, 2, 4]);
    refused!(batched(&[5, 2, 3], &[6, 3, 4], &[]), OpsError::Misfit { .. });
    refused!(batched(&[3], &[3, 4], &[]), OpsError::Misfit { .. });
    refused!(
        made("BatchMatMulV2", vec![x(&[1 << 30, 1]), x(&[1, 1 << 30]), vec![], vec![]], &[]),
        OpsError::Shape { .. }
    );
}

#[test]
fn axes_are_counted_from_either_end() {
    assert_eq!([axis(0, 3), axis(-3, 3), axis(2, 3), axis(-1, 3)], [Some(0), Some(0), Some(2), Some(2)]);
    assert_eq!([axis(3, 3), axis(-4, 3), axis(0, 0), axis(i64::MIN, 3), axis(i64::MAX, 3)], [None; 5]);
    let keep = |keep| [bool_attr("keep_dims", keep)];
    let reduced = |axes: &[i64], attrs: &[Attr]| shape("ReduceSum", vec![x(&[2, 3, 4]), known(axes)], attrs);
    assert_eq!(reduced(&[1], &[]), [2, 4]);
    assert_eq!(reduced(&[-1, 0], &keep(true)), [1, 3, 1]);
    assert_eq!(reduced(&[0, 1, 2], &[]), [1]);
    assert_eq!(reduced(&[], &[]), [2, 3, 4]);
    let everything = [bool_attr("noop_with_empty_axes", false)];
    assert_eq!(reduced(&[], &everything), [1]);
    let of = |axes: &[i64]| with("ReduceMax", &vec![x(&[2, 3, 4]), known(axes)], &everything, Reduce::of);
    assert_eq!(of(&[]).unwrap().axes, [0, 1, 2]);
    assert_eq!(of(&[-1, 0]).unwrap().axes, [0, 2]);
    for axes in [&[3][..], &[-4], &[1, 1], &[1, -2], &[i64::MIN]] {
        assert!(misfit("ReduceSum", vec![x(&[2, 3, 4]), known(axes)], &[]).contains("axes"));
    }
    refused!(made("ReduceSum", vec![x(&[2]), of_unknown()], &[]), OpsError::NotConstant { name: "axes", .. });
    let softmax = |axes: &[i64]| made("SoftmaxV2", vec![x(&[2, 3])], &[ints_attr("axes", axes)]);
    assert_eq!(softmax(&[0, 1]).unwrap()[0].1, [2, 3]);
    refused!(softmax(&[2]), OpsError::Misfit { .. });
}

#[test]
fn normalisations() {
    let norm = |begin: i64, params: i64, gamma: &[i64]| {
        let attrs = [int_attr("begin_norm_axis", begin), int_attr("begin_params_axis", params)];
        with("LayerNorm", &vec![x(&[2, 3, 4]), x(gamma), x(gamma)], &attrs, |call| {
            call.infer()?;
            LayerNorm::of(call)
        })
    };
    let found = norm(1, -2, &[3, 4]).unwrap();
    assert_eq!((found.rows, found.length, found.statistics), (2, 12, vec![2, 1, 1]));
    refused!(norm(1, 2, &[3, 4]), OpsError::Misfit { .. });
    refused!(norm(3, 3, &[4]), OpsError::Misfit { .. });
    refused!(norm(1, 1, &[4]), OpsError::Misfit { .. });
    let outputs = made("LayerNorm", vec![x(&[2, 3]), x(&[2, 3]), x(&[2, 3])], &[]).unwrap();
    let shapes: Vec<_> = outputs.into_iter().map(|(_, shape)| shape).collect();
    assert_eq!(shapes, [vec![2, 3], vec![1, 1], vec![1, 1]]);
}

/// For any input, an operator is refused or its outputs have a size.
#[test]
fn no_operator_trips_over_odd_sizes() {
    let odd = [i64::MIN, -1, 0, 1, 3, 1 << 24, 1 << 48, i64::MAX];
    let mut seen = (0, 0);
    for spec in opkeep_ops::all() {
        for (at, one) in odd.iter().enumerate() {
            for other in odd {
                for rank in [1, 2, 4, 5] {
                    let mut dims = vec![2; rank];
                    dims[at % rank] = *one;
                    dims[(at + 1) % rank] = other;
                    let inputs: Inputs = spec
                        .inputs
                        .iter()
                        .map(|port| match (port.name, port.kind.param_type()) {
                            (_, "optional") => vec![],
                            ("condition", _) => of("bool", &dims),
                            ("indices", _) => of("int64", &dims),
                            _ => {
                                let mut tensor = Tensor::new("float32", dims.clone());
                                tensor.const_value = Some(ConstValue::ints("int64", &[*one, other]));
                                vec![tensor]
                            }
                        })
                        .collect();
                    let attr = |spec: &opkeep_ops::AttrSpec| match (spec.dtype(), spec.name) {
                        ("int32", _) => int_attr(spec.name, *one),
                        ("list_int32", _) => ints_attr(spec.name, &[1, 1, *one, other][..rank.min(4)]),
                        ("float32", _) => float_attr(spec.name, 0.5),
                        ("bool", _) => bool_attr(spec.name, true),
                        (_, "data_format") => str_attr(spec.name, "NCHW"),
                        (_, "mode") => str_attr(spec.name, "reflect"),
                        _ => str_attr(spec.name, "SAME"),
                    };
                    let attrs: Vec<Attr> = spec.attrs.iter().map(attr).collect();
                    match made(spec.op_type, inputs, &attrs) {
                        Ok(outputs) => {
                            seen.0 += 1;
                            let sizes = outputs.iter().flat_map(|(_, shape)| shape);
                            assert!(
                                sizes.into_iter().all(|dim| (0..=1 << 48).contains(dim)),
                                "{}",
                                spec.op_type
                            );
                        }
                        Err(error) => {
                            seen.1 += 1;
                            assert!(error.to_string().contains(spec.op_type), "{error}");
                        }
                    }
                }
            }
        }
    }
    assert!(seen.0 > 1000 && seen.1 > 1000, "{seen:?}");
}
