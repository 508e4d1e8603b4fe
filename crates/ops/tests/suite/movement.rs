//! Operators that move elements: orders, pieces, slices, pads, repeats.

use crate::common::{known, made, misfit, of, of_unknown, refused, shape, with, x};
use opkeep_descriptor::Tensor;
use opkeep_ops::{
    Gather, OpsError, Pad, Slice, bool_attr, concat, int_attr, multiples, permutation, pieces, str_attr,
};

#[test]
fn orders_pieces_and_items() {
    let transposed = |perm: &[i64]| made("Transpose", vec![x(&[2, 3, 4]), known(perm)], &[]);
    assert_eq!(transposed(&[2, 0, 1]).unwrap()[0].1, [4, 2, 3]);
    assert_eq!(transposed(&[-1, 0, -2]).unwrap()[0].1, [4, 2, 3]);
    for perm in [&[0, 1][..], &[0, 1, 1], &[0, 1, -2], &[0, 1, 3], &[0, 1, 2, 0]] {
        refused!(transposed(perm), OpsError::Misfit { .. });
    }
    let perm = with("Transpose", &vec![x(&[2, 3]), known(&[-1, 0])], &[], permutation).unwrap();
    assert_eq!(perm, [1, 0]);

    let joined = |shapes: &[&[i64]], at: i64, n: i64| {
        let inputs = vec![shapes.iter().flat_map(|shape| x(shape)).collect()];
        with("ConcatD", &inputs, &[int_attr("concat_dim", at), int_attr("N", n)], |call| {
            call.infer()?;
            concat(call)
        })
    };
    assert_eq!(joined(&[&[2, 3], &[2, 0], &[2, 5]], -1, 3).unwrap(), (1, vec![2, 8]));
    refused!(joined(&[&[2, 3], &[3, 3]], 1, 2), OpsError::Misfit { .. });
    refused!(joined(&[&[2, 3], &[2, 3, 1]], 1, 2), OpsError::Misfit { .. });
    refused!(joined(&[&[2, 3], &[2, 3]], 2, 2), OpsError::Misfit { .. });
    for n in [1, -2, i64::MIN] {
        refused!(joined(&[&[2, 3], &[2, 3]], 1, n), OpsError::Misfit { .. });
    }
    refused!(joined(&[&[1 << 47], &[1 << 47], &[1 << 47]], 0, 3), OpsError::Shape { .. });

    let gathered = |indices: Vec<Tensor>, at: i64, batch: i64| {
        let inputs = vec![x(&[2, 3, 4]), indices, known(&[at])];
        with("GatherV2", &inputs, &[int_attr("batch_dims", batch)], |call| {
            call.infer()?;
            Gather::of(call)
        })
    };
    let found = gathered(of("int32", &[5, 6]), -2, 0).unwrap();
    assert_eq!((found.outer, found.size, found.inner, found.indices), (2, 3, 4, 30));
    assert_eq!(found.output, [2, 5, 6, 4]);
    refused!(gathered(x(&[5]), 0, 0), OpsError::Dtype { name: "indices", .. });
    refused!(gathered(of("int64", &[5]), 3, 0), OpsError::Misfit { .. });
    refused!(gathered(of("int64", &[5]), 0, 1), OpsError::AttrValue { .. });
    let two = vec![x(&[2, 3]), of("int64", &[5]), known(&[0, 1])];
    assert!(misfit("GatherV2", two, &[]).contains("one number"));
}

/// Python's `list(range(size))[begin:end:step]`, element by element.
fn python(size: i64, begin: i64, end: i64, step: i64) -> Vec<i64> {
    let place = |bound: i64| if bound < 0 { (bound + size).max(-1) } else { bound };
    let at = if step > 0 { place(begin).max(0) } else { place(begin).min(size - 1) };
    // No element is before the first one; -1 must not mean the last one.
    let end = if end < 0 && end + size < 0 { -1 } else { place(end) };
    let mut at = if begin < 0 && begin + size < 0 && step < 0 { -1 } else { at };
    let mut taken = Vec::new();
    while at >= 0 && at < size && if step > 0 { at < end } else { at > end } {
        taken.push(at);
        at += step;
    }
    taken
}

#[test]
fn slices_are_pythons() {
    for size in 0..6 {
        for begin in -8..8 {
            for end in -8..8 {
                for step in [-7, -3, -2, -1, 1, 2, 3, 7] {
                    let inputs = vec![x(&[size]), known(&[begin]), known(&[end]), vec![], known(&[step])];
                    let slice = with("StridedSliceV2", &inputs, &[], |call| {
                        call.infer()?;
                        Slice::of(call)
                    })
                    .unwrap();
                    let (start, count) = (slice.start[0] as i64, slice.count[0] as i64);
                    let found: Vec<i64> = (0..count).map(|at| start + at * slice.step[0]).collect();
                    assert_eq!(found, python(size, begin, end, step), "{size}: {begin}:{end}:{step}");
                }
            }
        }
    }
    let odd = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    for begin in odd {
        for end in odd {
            for step in odd.into_iter().filter(|step| *step != 0) {
                let inputs = vec![x(&[5]), known(&[begin]), known(&[end]), known(&[0]), known(&[step])];
                let slice = with("StridedSliceV2", &inputs, &[], Slice::of).unwrap();
                assert!(slice.count[0] <= 5 && (slice.count[0] == 0 || slice.start[0] < 5));
            }
        }
    }
}

#[test]
fn slices_that_do_not_fit() {
    let sliced = |begin: &[i64], end: &[i64], axes: Option<&[i64]>, steps: Option<&[i64]>| {
        let optional = |values: Option<&[i64]>| values.map_or(Vec::new(), known);
        made(
            "StridedSliceV2",
            vec![x(&[4, 5, 6]), known(begin), known(end), optional(axes), optional(steps)],
            &[],
        )
    };
    assert_eq!(sliced(&[1, 1], &[9, -1], None, None).unwrap()[0].1, [3, 3, 6]);
    assert_eq!(sliced(&[1, 5], &[9, -9], Some(&[-1, 0]), Some(&[2, -1])).unwrap()[0].1, [4, 5, 3]);
    refused!(sliced(&[1], &[9, 9], None, None), OpsError::Misfit { .. });
    refused!(sliced(&[1], &[9], Some(&[0, 1]), None), OpsError::Misfit { .. });
    refused!(sliced(&[1], &[9], None, Some(&[0])), OpsError::Misfit { .. });
    refused!(sliced(&[1, 1], &[9, 9], Some(&[0, -3]), None), OpsError::Misfit { .. });
    refused!(sliced(&[1], &[9], Some(&[3]), None), OpsError::Misfit { .. });
    refused!(sliced(&[0; 4], &[9; 4], None, None), OpsError::Misfit { .. });
    let inputs = vec![x(&[4]), known(&[0]), known(&[2]), vec![], vec![]];
    refused!(
        made("StridedSliceV2", inputs, &[int_attr("begin_mask", 1)]),
        OpsError::AttrValue { attr: "begin_mask", .. }
    );
    let inputs = vec![x(&[4]), of_unknown(), known(&[2]), vec![], vec![]];
    refused!(made("StridedSliceV2", inputs, &[]), OpsError::NotConstant { name: "begin", .. });
}

#[test]
fn splits_make_up_the_whole() {
    let even = |shape: &[i64], dim: i64, count: i64| {
        made("Split", vec![known(&[dim]), x(shape)], &[int_attr("num_split", count)])
            .map(|made| made.into_iter().map(|(_, shape)| shape).collect::<Vec<_>>())
    };
    assert_eq!(even(&[2, 6], -1, 3).unwrap(), vec![vec![2, 2]; 3]);
    assert_eq!(even(&[2, 0], 1, 2).unwrap(), vec![vec![2, 0]; 2]);
    for count in [0, -1, 4, 5, 12, i64::MIN, i64::MAX] {
        refused!(even(&[2, 6], 1, count), OpsError::Misfit { .. });
    }
    refused!(even(&[2, 0], 1, i64::MAX), OpsError::AttrValue { .. });
    refused!(even(&[2, 6], 2, 2), OpsError::Misfit { .. });

    let sizes = |sizes: &[i64], count: i64| {
        with("SplitV", &vec![x(&[2, 6]), known(sizes), known(&[1])], &[int_attr("num_split", count)], pieces)
    };
    assert_eq!(sizes(&[1, 0, 5], 3).unwrap(), (1, vec![1, 0, 5]));
    for (given, count) in
        [(&[1, 5][..], 3), (&[1, 4], 2), (&[7, -1], 2), (&[], 0), (&[6], -1), (&[i64::MAX, i64::MAX], 2)]
    {
        refused!(sizes(given, count), OpsError::Misfit { .. });
    }
    let outputs = made("SplitV", vec![x(&[2, 6]), known(&[4, 2]), known(&[-1])], &[int_attr("num_split", 2)]);
    assert_eq!(outputs.unwrap().into_iter().map(|(_, shape)| shape).collect::<Vec<_>>(), [[2, 4], [2, 2]]);
}

#[test]
fn pads_fit_their_mode() {
    let padded = |shape: &[i64], pads: &[i64], mode: &str| {
        let attrs = [str_attr("mode", mode)];
        with("PadV3", &vec![x(shape), known(pads), vec![]], &attrs, |call| {
            call.infer()?;
            Pad::of(call)
        })
    };
    assert_eq!(padded(&[2, 3], &[1, 0, 2, 4], "constant").unwrap().output, [3, 9]);
    assert_eq!(padded(&[2, 3], &[1, 0, -1, -1], "constant").unwrap().output, [3, 1]);
    // The largest pad of each mode, and one more.
    for (mode, most) in [("reflect", 2), ("symmetric", 3)] {
        assert_eq!(padded(&[3], &[most, most], mode).unwrap().output, [3 + 2 * most]);
        refused!(padded(&[3], &[most + 1, 0], mode), OpsError::Misfit { .. });
        refused!(padded(&[3], &[0, most + 1], mode), OpsError::Misfit { .. });
        // An empty dimension has nothing to mirror.
        assert_eq!(padded(&[0, 3], &[0, 0, 1, 0], mode).unwrap().output, [0, 4]);
        refused!(padded(&[0], &[1, 0], mode), OpsError::Misfit { .. });
    }
    assert_eq!(padded(&[3], &[9, 9], "edge").unwrap().output, [21]);
    refused!(padded(&[0], &[1, 0], "edge"), OpsError::Misfit { .. });
    assert_eq!(padded(&[0], &[1, 2], "constant").unwrap().output, [3]);
    refused!(padded(&[2], &[-2, -1], "constant"), OpsError::Misfit { .. });
    refused!(padded(&[2], &[1], "constant"), OpsError::Misfit { .. });
    refused!(padded(&[2], &[0, 0], "wrap"), OpsError::AttrValue { attr: "mode", .. });
    for pads in
        [[i64::MAX, i64::MAX], [i64::MIN, i64::MIN], [i64::MIN, i64::MAX], [i64::MAX, i64::MIN], [1 << 48, 0]]
    {
        for mode in ["constant", "reflect", "symmetric", "edge"] {
            let _ = padded(&[2], &pads, mode);
        }
    }
    refused!(padded(&[2], &[1 << 48, 0], "constant"), OpsError::Shape { .. });

    let order = [bool_attr("paddings_contiguous", false)];
    let pads = known(&[1, 2, 3, 4]);
    assert_eq!(shape("PadV3", vec![x(&[2, 3]), pads, vec![]], &order), [6, 9]);
    let mirrored =
        |mode: &str| made("MirrorPad", vec![x(&[2, 3]), known(&[1, 0, 0, 1])], &[str_attr("mode", mode)]);
    assert_eq!(mirrored("REFLECT").unwrap()[0].1, [3, 4]);
    refused!(mirrored("CONSTANT"), OpsError::AttrValue { .. });

    // The value is one element of the tensor's type, as kernels read it.
    let value = |value: Vec<Tensor>| made("PadV3", vec![x(&[2]), known(&[1, 1]), value], &[]);
    assert!(value(x(&[1])).is_ok() && value(x(&[])).is_ok());
    for other in [x(&[0]), x(&[2]), of("int32", &[1]), of("float64", &[1])] {
        refused!(value(other), OpsError::Misfit { .. });
    }
}

#[test]
fn fills_and_repeats() {
    let filled = |dims: &[i64], value: Vec<Tensor>| made("Fill", vec![known(dims), value], &[]);
    assert_eq!(filled(&[2, 0, 3], of("int8", &[1])).unwrap(), [("int8".to_owned(), vec![2, 0, 3])]);
    assert_eq!(filled(&[], x(&[1])).unwrap()[0].1, [1]);
    refused!(filled(&[2, -1], x(&[1])), OpsError::Shape { .. });
    refused!(filled(&[1 << 40, 1 << 40], x(&[1])), OpsError::Shape { .. });
    refused!(filled(&[2], x(&[0])), OpsError::Misfit { .. });
    refused!(filled(&[2], x(&[2])), OpsError::Misfit { .. });

    for op_type in ["BroadcastTo", "Expand"] {
        let wide = |from: &[i64], to: &[i64]| made(op_type, vec![x(from), known(to)], &[]);
        assert_eq!(wide(&[3, 1], &[2, 3, 4]).unwrap()[0].1, [2, 3, 4]);
        assert_eq!(wide(&[1], &[]).unwrap()[0].1, [1]);
        assert_eq!(wide(&[1], &[0]).unwrap()[0].1, [0]);
        refused!(wide(&[3], &[4]), OpsError::Misfit { .. });
        refused!(wide(&[3, 4], &[4]), OpsError::Misfit { .. });
        refused!(wide(&[3], &[1]), OpsError::Misfit { .. });
        refused!(wide(&[1], &[-1]), OpsError::Shape { .. });
    }
    let tiled = |times: &[i64]| made("Tile", vec![x(&[2, 3]), known(times)], &[]);
    assert_eq!(tiled(&[3, 0]).unwrap()[0].1, [6, 0]);
    for times in [&[1][..], &[1, 1, 1], &[1, -1], &[i64::MAX, 1]] {
        refused!(tiled(times), OpsError::Misfit { .. });
    }
    refused!(tiled(&[1 << 40, 1 << 40]), OpsError::Shape { .. });
    assert_eq!(with("Tile", &vec![x(&[2]), known(&[7])], &[], multiples).unwrap(), [7]);
}
