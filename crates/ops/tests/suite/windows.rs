//! Convolutions and poolings.

use crate::common::{made, misfit, of, refused, shape, with, x};
use opkeep_descriptor::{Attr, Tensor};
use opkeep_ops::{Conv2d, OpsError, Pool, PoolKind, bool_attr, int_attr, ints_attr, str_attr};

/// NCHW attributes of a window.
fn window(strides: [i64; 2], pads: [i64; 4], dilations: [i64; 2]) -> Vec<Attr> {
    vec![
        ints_attr("strides", &[1, 1, strides[0], strides[1]]),
        ints_attr("pads", &pads),
        ints_attr("dilations", &[1, 1, dilations[0], dilations[1]]),
        str_attr("data_format", "NCHW"),
    ]
}

#[test]
fn convolutions() {
    let attrs = |groups| [window([2, 1], [1, 1, 2, 0], [1, 3]), vec![int_attr("groups", groups)]].concat();
    let inputs = || vec![x(&[2, 6, 9, 11]), x(&[4, 3, 3, 2]), x(&[4]), vec![]];
    assert_eq!(shape("Conv2D", inputs(), &attrs(2)), [2, 4, 5, 10]);
    let conv = with("Conv2D", &inputs(), &attrs(2), Conv2d::of).unwrap();
    assert_eq!((conv.batch, conv.groups, conv.in_channels, conv.out_channels), (2, 2, 3, 2));
    assert_eq!((conv.y.output, conv.x.output, conv.bias), (5, 10, true));
    assert_eq!((conv.y.stride, conv.x.dilation, conv.x.before, conv.x.after), (2, 3, 2, 0));

    let changed = |at: usize, tensors: Vec<Tensor>, groups| {
        let mut inputs = inputs();
        inputs[at] = tensors;
        misfit("Conv2D", inputs, &attrs(groups))
    };
    for groups in [0, -1, 1, 3, i64::MIN, i64::MAX] {
        let counted = if groups == 1 { "1 group".to_owned() } else { format!("{groups} groups") };
        let text = misfit("Conv2D", inputs(), &attrs(groups));
        assert!(text.contains(&format!("a filter [4, 3, 3, 2] in {counted} does not fit")), "{text}");
    }
    assert!(changed(0, x(&[2, 6, 9]), 2).contains("four dimensions"));
    assert!(changed(1, x(&[5, 3, 3, 2]), 2).contains("5 output channels"));
    assert!(changed(1, x(&[4, 3, 12, 2]), 2).contains("does not fit"));
    assert!(changed(1, x(&[4, 3, 0, 2]), 2).contains("does not fit"));
    assert!(changed(2, x(&[3]), 2).contains("bias"));
    assert!(changed(3, x(&[1]), 2).contains("quantised"));
    refused!(
        made("Conv2D", vec![x(&[2, 6, 9, 11]), of("int8", &[4, 3, 3, 2]), vec![], vec![]], &attrs(2)),
        OpsError::Dtype { .. }
    );
    let format = [attrs(2), vec![]].concat().into_iter().filter(|attr| attr.name != "data_format");
    refused!(
        made("Conv2D", inputs(), &format.collect::<Vec<_>>()),
        OpsError::AttrValue { attr: "data_format", .. }
    );

    // Numbers that overflow arithmetic.
    for odd in [i64::MIN, -1, 0, i64::MAX] {
        for attrs in [
            window([odd, 1], [0; 4], [1, 1]),
            window([1, 1], [0, odd, odd, 0], [1, 1]),
            window([1, 1], [odd; 4], [1, 1]),
            window([1, 1], [0; 4], [1, odd]),
            vec![ints_attr("strides", &[1, odd, 1, 1]), ints_attr("pads", &[0; 4])],
            vec![ints_attr("strides", &[1]), ints_attr("pads", &[odd])],
        ] {
            let _ = made("Conv2D", vec![x(&[1, 1, 5, 5]), x(&[1, 1, 2, 2]), vec![], vec![]], &attrs);
        }
    }
    let huge = window([1, 1], [1 << 47; 4], [1, 1]);
    refused!(
        made("Conv2D", vec![x(&[1, 1, 5, 5]), x(&[1, 1, 2, 2]), vec![], vec![]], &huge),
        OpsError::Shape { .. }
    );
}

/// The number of windows, counted one by one.
fn windows(size: i64, kernel: i64, stride: i64, before: i64, after: i64, ceil: bool) -> i64 {
    let mut count = 0;
    loop {
        let begin = count * stride - before;
        let whole = begin + kernel <= size + after;
        // A window that is partly outside counts if it begins on the image, or before it.
        let partly = ceil && begin < size && begin + kernel - stride < size + after;
        if !whole && !partly {
            return count;
        }
        count += 1;
    }
}

#[test]
fn poolings_have_the_sizes_of_their_modes() {
    let attrs = |kernel: i64, stride: i64, pads: [i64; 2], mode: &str, ceil: bool| {
        vec![
            ints_attr("ksize", &[1, 1, kernel, 1]),
            ints_attr("strides", &[1, 1, stride, 1]),
            ints_attr("pads", &[pads[0], pads[1], 0, 0]),
            str_attr("padding_mode", mode),
            bool_attr("ceil_mode", ceil),
        ]
    };
    for size in 1..12 {
        for kernel in 1..=size.min(4) {
            for stride in 1..5 {
                for pads in [[0, 0], [1, 0], [0, 1], [2, 1]] {
                    if pads[0] >= kernel || pads[1] >= kernel {
                        continue;
                    }
                    for ceil in [false, true] {
                        let found = shape(
                            "MaxPoolV3",
                            vec![x(&[1, 2, size, 3])],
                            &attrs(kernel, stride, pads, "CALCULATED", ceil),
                        );
                        let expected = windows(size, kernel, stride, pads[0], pads[1], ceil);
                        assert_eq!(found, [1, 2, expected, 3], "{size} {kernel} {stride} {pads:?} {ceil}");
                    }
                }
                let inputs = || vec![x(&[1, 2, size, 3])];
                let same = attrs(kernel, stride, [7, 7], "SAME", false);
                assert_eq!(shape("AvgPoolV2", inputs(), &same)[2], (size + stride - 1) / stride);
                let pool = with("AvgPoolV2", &inputs(), &same, Pool::of).unwrap();
                let (before, after) = (pool.windows[0].before, pool.windows[0].after);
                assert!(after == before || after == before + 1);
                let valid = attrs(kernel, stride, [7, 7], "VALID", false);
                assert_eq!(shape("AvgPoolV2", inputs(), &valid)[2], (size - kernel) / stride + 1);
            }
        }
    }
    let pool = |more: Attr| {
        let attrs = [attrs(2, 1, [0, 0], "CALCULATED", false), vec![more]].concat();
        with("AvgPoolV2", &vec![x(&[1, 2, 5, 3])], &attrs, Pool::of)
    };
    assert_eq!(pool(bool_attr("global_pooling", true)).unwrap().output(), [1, 2, 1, 1]);
    let kind = pool(bool_attr("exclusive", false)).unwrap().kind;
    assert_eq!(kind, PoolKind::Average { padding: true, divisor: None });
    let kind = pool(int_attr("divisor_override", 3)).unwrap().kind;
    assert_eq!(kind, PoolKind::Average { padding: false, divisor: Some(3) });
    refused!(pool(int_attr("divisor_override", -3)), OpsError::AttrValue { .. });
    refused!(pool(str_attr("data_format", "NHWC")), OpsError::AttrValue { .. });
}

#[test]
fn poolings_of_volumes_and_misfits() {
    let attrs = |ksize: &[i64], padding: &str| {
        vec![
            ints_attr("ksize", ksize),
            ints_attr("strides", &[1, 1, 2, 2, 2]),
            str_attr("padding", padding),
            str_attr("data_format", "NCDHW"),
        ]
    };
    let inputs = || vec![x(&[1, 2, 7, 8, 9])];
    assert_eq!(shape("MaxPool3D", inputs(), &attrs(&[1, 1, 3, 2, 1], "CALCULATED")), [1, 2, 3, 4, 5]);
    assert!(misfit("MaxPool3D", inputs(), &attrs(&[1, 1, 3, 2], "VALID")).contains("ksize"));
    assert!(misfit("MaxPool3D", inputs(), &attrs(&[1, 2, 3, 2, 1], "VALID")).contains("ksize"));
    assert!(misfit("MaxPool3D", inputs(), &attrs(&[1, 1, 3, 20, 1], "VALID")).contains("does not fit"));
    assert!(
        misfit("MaxPool3D", vec![x(&[1, 2, 7, 8])], &attrs(&[1, 1, 3, 2, 1], "VALID"))
            .contains("5 dimensions")
    );
    refused!(
        made("MaxPool3D", inputs(), &attrs(&[1, 1, 3, 2, 1], "FULL")),
        OpsError::AttrValue { attr: "padding", .. }
    );
    for odd in [i64::MIN, -1, 0, 1 << 62, i64::MAX] {
        let attrs = [
            ints_attr("ksize", &[1, 1, 3, 3]),
            ints_attr("strides", &[1, 1, odd, 1]),
            ints_attr("pads", &[odd; 4]),
            bool_attr("ceil_mode", true),
        ];
        for mode in ["CALCULATED", "SAME", "VALID"] {
            let attrs = [&attrs[..], &[str_attr("padding_mode", mode)]].concat();
            let _ = made("MaxPoolV3", vec![x(&[1, 1, 5, 5])], &attrs);
        }
    }
}
