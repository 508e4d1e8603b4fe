//! Convolutions, pools and normalisations.

use super::model::{Model, float, int, ints, unary, word};

fn conv(shape: &[i64], filter: &[i64], attrs: &[Vec<u8>]) -> Model {
    Model::new(13)
        .input("x", shape)
        .weight("w", filter)
        .node("Conv", &["x", "w"], &["y"], attrs)
        .outputs(&["y"])
}

#[test]
fn pads_of_a_convolution_come_in_pairs() {
    let attrs = [
        ints("kernel_shape", &[3, 2]),
        ints("strides", &[2, 1]),
        ints("pads", &[1, 2, 3, 4]),
        ints("dilations", &[1, 2]),
        int("group", 2),
    ];
    // Height (9 + 1 + 3 - 3) / 2 + 1, width 8 + 2 + 4 - 3 + 1.
    assert_eq!(
        conv(&[1, 4, 9, 8], &[6, 2, 3, 2], &attrs).becomes(),
        [
            "Conv2D(x, const) strides=[1, 1, 2, 1] pads=[1, 3, 2, 4] dilations=[1, 1, 1, 2] groups=2 data_format=NCHW \
          -> [1, 6, 6, 12]"
        ]
    );
}

#[test]
fn a_bias_is_the_third_input() {
    let model = Model::new(11)
        .input("x", &[1, 1, 4, 4])
        .weight("w", &[2, 1, 3, 3])
        .weight("b", &[2])
        .node("Conv", &["x", "w", "b"], &["y"], &[])
        .outputs(&["y"]);
    assert_eq!(
        model.becomes(),
        ["Conv2D(x, const, const) strides=[1, 1, 1, 1] pads=[0, 0, 0, 0] data_format=NCHW -> [1, 2, 2, 2]"]
    );
}

#[test]
fn automatic_padding_is_made_explicit() {
    // 7 by 8 in steps of 2: 4 by 4 windows, that is 3 * 2 + 4 = 10 rows and 10 columns: 3 and 2 more than there are.
    for (auto, pads, shape) in [
        ("SAME_UPPER", "[1, 2, 1, 1]", "[1, 1, 4, 4]"),
        ("SAME_LOWER", "[2, 1, 1, 1]", "[1, 1, 4, 4]"),
        ("VALID", "[0, 0, 0, 0]", "[1, 1, 2, 3]"),
    ] {
        let attrs = [word("auto_pad", auto), ints("strides", &[2, 2])];
        let expected =
            format!("Conv2D(x, const) strides=[1, 1, 2, 2] pads={pads} data_format=NCHW -> {shape}");
        assert_eq!(conv(&[1, 1, 7, 8], &[1, 1, 4, 4], &attrs).becomes(), [expected]);
    }
    // Strides longer than the window need no padding, and remove none.
    let attrs = [word("auto_pad", "SAME_UPPER"), ints("strides", &[5, 5])];
    assert!(conv(&[1, 1, 7, 7], &[1, 1, 1, 1], &attrs).becomes()[0].contains("pads=[0, 0, 0, 0]"));
    // Elements between dilated taps count: 5 + 4 columns for 5 windows.
    let attrs = [word("auto_pad", "SAME_UPPER"), ints("dilations", &[2, 2])];
    assert!(conv(&[1, 1, 5, 5], &[1, 1, 3, 3], &attrs).becomes()[0].contains("pads=[2, 2, 2, 2]"));
}

#[test]
fn over_one_axis_images_have_height_one() {
    let attrs = [ints("strides", &[2]), ints("pads", &[1, 2]), ints("dilations", &[3])];
    let network = conv(&[2, 3, 10], &[4, 3, 2], &attrs).network();
    // (10 + 1 + 2 - 4) / 2 + 1
    assert_eq!(
        super::render::nodes(&network),
        ["Conv2D(x as [2, 3, 1, 10], const as [4, 3, 1, 2]) strides=[1, 1, 1, 2] pads=[0, 0, 1, 2] \
          dilations=[1, 1, 1, 3] data_format=NCHW -> [2, 4, 1, 5]"]
    );
    assert_eq!(super::render::outputs(&network), ["%0 as [2, 4, 5] float32 [2, 4, 5]"]);
}

#[test]
fn convolutions_that_contradict_themselves_are_refused() {
    let shape = [1, 2, 5, 5];
    for (filter, attrs, why) in [
        (vec![1, 2, 3, 3], vec![ints("kernel_shape", &[3, 2])], "`kernel_shape` is [3, 2]"),
        (vec![1, 2, 3, 3], vec![ints("strides", &[1])], "`strides` is [1]"),
        (vec![1, 2, 3, 3], vec![ints("strides", &[0, 1])], "`strides` is [0, 1]"),
        (vec![1, 2, 3, 3], vec![ints("pads", &[-1, 0, 0, 0])], "`pads` is [-1, 0, 0, 0]"),
        (vec![1, 2, 3, 3], vec![word("auto_pad", "SOME")], "`auto_pad` is `SOME`"),
        (vec![1, 2, 3], vec![], "a filter of shape [1, 2, 3]"),
        (vec![1, 1, 3, 3], vec![], "in 1 group does not fit"),
        (vec![1, 2, 6, 6], vec![], "does not fit"),
        (vec![1, 2, 3, 3], vec![int("colour", 1)], "an attribute `colour`"),
        (vec![1, 2, 3, 3], vec![float("group", 1.0)], "`group` is not a whole number"),
    ] {
        let found = conv(&shape, &filter, &attrs).why();
        assert!(found.contains(why), "{found}");
    }
    assert!(conv(&[1, 1, 3, 3, 3], &[1, 1, 1, 1, 1], &[]).why().contains("over 3 axes"));
}

const POOL: &str = "strides=[1, 1, 2, 3] pads=[1, 0, 0, 2]";

#[test]
fn pools_are_those_of_the_ir() {
    let attrs = [ints("kernel_shape", &[2, 4]), ints("strides", &[2, 3]), ints("pads", &[1, 0, 0, 2])];
    assert_eq!(
        unary(12, "MaxPool", &[1, 2, 5, 8], &attrs).becomes(),
        [format!("MaxPoolV3(x) ksize=[1, 1, 2, 4] {POOL} -> [1, 2, 3, 3]")]
    );
    assert_eq!(
        unary(12, "AveragePool", &[1, 2, 5, 8], &attrs).becomes(),
        [format!("AvgPoolV2(x) ksize=[1, 1, 2, 4] {POOL} -> [1, 2, 3, 3]")]
    );
    let counted = [&attrs[..], &[int("count_include_pad", 1)]].concat();
    assert_eq!(
        unary(12, "AveragePool", &[1, 2, 5, 8], &counted).becomes(),
        [format!("AvgPoolV2(x) ksize=[1, 1, 2, 4] {POOL} exclusive=false -> [1, 2, 3, 3]")]
    );
    assert_eq!(
        unary(12, "MaxPool", &[1, 2, 6], &[ints("kernel_shape", &[3])]).becomes(),
        ["MaxPoolV3(x as [1, 2, 1, 6]) ksize=[1, 1, 1, 3] strides=[1, 1, 1, 1] -> [1, 2, 1, 4]"]
    );
}

#[test]
fn a_last_window_on_the_edge_becomes_padding() {
    let pool = |op_type: &str, size, kernel, stride, pads: &[i64], more: &[Vec<u8>]| {
        let attrs = [
            ints("kernel_shape", &[kernel]),
            ints("strides", &[stride]),
            ints("pads", pads),
            int("ceil_mode", 1),
        ];
        unary(12, op_type, &[1, 1, size], &[&attrs[..], more].concat()).becomes()
    };
    // 7 elements with stride 3: a third window contains only the last element.
    assert_eq!(
        pool("MaxPool", 7, 3, 3, &[0, 0], &[]),
        [
            "MaxPoolV3(x as [1, 1, 1, 7]) ksize=[1, 1, 1, 3] strides=[1, 1, 1, 3] pads=[0, 0, 0, 2] -> [1, 1, 1, 3]"
        ]
    );
    // A window that would begin after the image does not count, even if there is padding for it.
    assert_eq!(
        pool("MaxPool", 7, 2, 8, &[0, 3 - 2], &[]),
        [
            "MaxPoolV3(x as [1, 1, 1, 7]) ksize=[1, 1, 1, 2] strides=[1, 1, 1, 8] pads=[0, 0, 0, 1] -> [1, 1, 1, 1]"
        ]
    );
    assert_eq!(
        pool("MaxPool", 4, 2, 2, &[0, 1], &[]),
        [
            "MaxPoolV3(x as [1, 1, 1, 4]) ksize=[1, 1, 1, 2] strides=[1, 1, 1, 2] pads=[0, 0, 0, 1] -> [1, 1, 1, 2]"
        ]
    );
    // In an average, requested padding counts, and elements beyond it do not.
    assert_eq!(
        pool("AveragePool", 7, 4, 3, &[2, 1], &[int("count_include_pad", 1)]),
        [
            "AvgPoolV2(x as [1, 1, 1, 7]) ksize=[1, 1, 1, 4] strides=[1, 1, 1, 3] pads=[0, 0, 2, 1] exclusive=false \
          -> [1, 1, 1, 3]"
        ]
    );
    assert_eq!(
        pool("AveragePool", 7, 3, 3, &[0, 1], &[int("count_include_pad", 1)]),
        [
            "PadV3(x as [1, 1, 1, 7], int64[0, 0, 0, 0, 0, 0, 0, 1]) paddings_contiguous=false -> [1, 1, 1, 8]",
            "AvgPoolV2(%0) ksize=[1, 1, 1, 3] strides=[1, 1, 1, 3] pads=[0, 0, 0, 1] -> [1, 1, 1, 3]",
        ]
    );
    assert_eq!(
        pool("AveragePool", 7, 3, 3, &[0, 1], &[]),
        [
            "AvgPoolV2(x as [1, 1, 1, 7]) ksize=[1, 1, 1, 3] strides=[1, 1, 1, 3] pads=[0, 0, 0, 2] -> [1, 1, 1, 3]"
        ]
    );
}

#[test]
fn spread_windows_are_pooled_in_three_dimensions_or_summed() {
    let attrs = [ints("kernel_shape", &[2, 3]), ints("dilations", &[2, 1]), ints("pads", &[1, 0, 1, 0])];
    assert_eq!(
        unary(12, "MaxPool", &[1, 2, 5, 6], &attrs).becomes(),
        ["MaxPool3D(x as [1, 2, 1, 5, 6]) ksize=[1, 1, 1, 2, 3] strides=[1, 1, 1, 1, 1] padding=CALCULATED \
          pads=[0, 0, 1, 1, 0, 0] dilation=[1, 1, 1, 2, 1] data_format=NCDHW -> [1, 2, 1, 5, 4]"]
    );
    // The first and the last row of windows contain one row of the image, the others two: 3 or 6 elements.
    assert_eq!(
        unary(19, "AveragePool", &[1, 2, 5, 6], &attrs).becomes(),
        [
            "Conv2D(x as [2, 1, 5, 6], 1) strides=[1, 1, 1, 1] pads=[1, 1, 0, 0] dilations=[1, 1, 2, 1] \
             data_format=NCHW -> [2, 1, 5, 4]",
            "RealDiv(%0 as [1, 2, 5, 4], const) -> [1, 2, 5, 4]",
            "RealDiv(%1, const) -> [1, 2, 5, 4]",
        ]
    );
    let counted = [&attrs[..], &[int("count_include_pad", 1)]].concat();
    assert_eq!(
        unary(19, "AveragePool", &[1, 2, 5, 6], &counted).becomes()[1],
        "Muls(%0 as [1, 2, 5, 4]) value=0.16666667 -> [1, 2, 5, 4]"
    );
}

#[test]
fn pools_that_cannot_be_mapped_say_why() {
    let kernel = || ints("kernel_shape", &[2, 2]);
    let places = Model::new(12)
        .input("x", &[1, 1, 4, 4])
        .node("MaxPool", &["x"], &["y", "places"], &[kernel()])
        .outputs(&["y", "places"]);
    assert!(places.why().contains("the places of the maxima"));
    // No node reads them, so their interpretation does not matter.
    let unread = Model::new(12)
        .input("x", &[1, 1, 4, 4])
        .node("MaxPool", &["x"], &["y", "places"], &[kernel(), int("storage_order", 1)])
        .outputs(&["y"]);
    assert_eq!(unread.becomes().len(), 1);
    for (op_type, shape, attrs, why) in [
        ("MaxPool", vec![1, 1, 4, 4], vec![], "`kernel_shape` is not given"),
        ("MaxPool", vec![1, 4], vec![kernel()], "shape [1, 4]"),
        ("MaxPool", vec![1, 1, 4, 4], vec![kernel(), ints("pads", &[2, 0, 0, 0])], "as wide as the window"),
        ("MaxPool", vec![1, 1, 1, 4], vec![kernel()], "does not fit axis 0"),
        ("MaxPool", vec![1, 1, 4, 4], vec![kernel(), int("ceil_mode", 2)], "`ceil_mode` is 2"),
        ("AveragePool", vec![1, 1, 4, 4, 4], vec![ints("kernel_shape", &[1, 1, 1])], "over 3 axes"),
    ] {
        let found = unary(12, op_type, &shape, &attrs).why();
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn global_pools_are_reductions() {
    assert_eq!(
        unary(9, "GlobalAveragePool", &[2, 3, 4, 5], &[]).becomes(),
        ["ReduceMean(x, int32[2, 3]) keep_dims=true noop_with_empty_axes=false -> [2, 3, 1, 1]"]
    );
    assert_eq!(
        unary(9, "GlobalMaxPool", &[2, 3, 4], &[]).becomes(),
        ["ReduceMax(x, int32[2]) keep_dims=true noop_with_empty_axes=false -> [2, 3, 1]"]
    );
    assert!(unary(9, "GlobalMaxPool", &[2, 3, 1, 1], &[]).becomes().is_empty());
}

fn batch_norm(opset: u64, attrs: &[Vec<u8>], outputs: &[&str], read: &[&str]) -> Model {
    let mut model = Model::new(opset).input("x", &[1, 3, 2, 2]);
    for name in ["scale", "shift", "mean", "variance"] {
        model = model.weight(name, &[3]);
    }
    let inputs = ["x", "scale", "shift", "mean", "variance"];
    model.node("BatchNormalization", &inputs, outputs, attrs).outputs(read)
}

#[test]
fn batch_normalisation_is_that_of_inference() {
    let expected =
        |epsilon| format!("BNInfer(x, const, const, const, const) epsilon={epsilon} -> [1, 3, 2, 2]");
    assert_eq!(batch_norm(9, &[float("momentum", 0.5)], &["y"], &["y"]).becomes(), [expected("0.00001")]);
    assert_eq!(batch_norm(15, &[float("epsilon", 0.25)], &["y"], &["y"]).becomes(), [expected("0.25")]);
    assert_eq!(batch_norm(7, &[int("spatial", 1)], &["y", "m"], &["y"]).becomes(), [expected("0.00001")]);
    for (model, why) in [
        (batch_norm(14, &[int("training_mode", 1)], &["y"], &["y"]), "training mode"),
        (batch_norm(7, &[int("spatial", 0)], &["y"], &["y"]), "`spatial` is 0"),
        (batch_norm(9, &[], &["y", "m"], &["y", "m"]), "statistics are used"),
        (batch_norm(14, &[int("spatial", 1)], &["y"], &["y"]), "an attribute `spatial`"),
    ] {
        assert!(model.why().contains(why), "{}", model.why());
    }
}

#[test]
fn instances_and_groups_are_normalised_as_layers() {
    let scaled = |op_type: &str, opset, count, attrs: &[Vec<u8>]| {
        Model::new(opset)
            .input("x", &[2, 6, 4, 5])
            .weight("s", &[count])
            .weight("b", &[count])
            .node(op_type, &["x", "s", "b"], &["y"], attrs)
            .outputs(&["y"])
            .becomes()
    };
    let norm = "begin_norm_axis=1 begin_params_axis=1 epsilon=0.00001";
    assert_eq!(
        scaled("InstanceNormalization", 9, 6, &[]),
        [
            format!("LayerNorm(x as [12, 20], 1, 0) {norm} -> [12, 20], [12, 1], [12, 1]"),
            "Mul(%0 as [2, 6, 20], const as [6, 1]) -> [2, 6, 20]".to_owned(),
            "Add(%1, const as [6, 1]) -> [2, 6, 20]".to_owned(),
        ]
    );
    // Three groups of two channels: one scale for each group in version 18, for each channel in version 21.
    assert_eq!(
        scaled("GroupNormalization", 18, 3, &[int("num_groups", 3)])[..2],
        [
            format!("LayerNorm(x as [6, 40], 1, 0) {norm} -> [6, 40], [6, 1], [6, 1]"),
            "Mul(%0 as [2, 3, 40], const as [3, 1]) -> [2, 3, 40]".to_owned(),
        ]
    );
    assert_eq!(
        scaled("GroupNormalization", 21, 6, &[int("num_groups", 3)])[1],
        "Mul(%0 as [2, 6, 20], const as [6, 1]) -> [2, 6, 20]"
    );
}

#[test]
fn layers_get_onnxs_defaults() {
    let model = |outputs: &[&str], read: &[&str]| {
        Model::new(17)
            .input("x", &[2, 3, 4])
            .weight("s", &[3, 4])
            .node("LayerNormalization", &["x", "s"], outputs, &[int("axis", -2), float("epsilon", 0.5)])
            .outputs(read)
    };
    let norm = "LayerNorm(x, const, 0) begin_norm_axis=1 begin_params_axis=1 epsilon=0.5 \
                -> [2, 3, 4], [2, 1, 1], [2, 1, 1]";
    assert_eq!(model(&["y"], &["y"]).becomes(), [norm]);
    let statistics = model(&["y", "mean", "inverse"], &["mean", "inverse"]).network();
    assert_eq!(
        super::render::nodes(&statistics),
        [norm, "Adds(%0.2) value=0.5 -> [2, 1, 1]", "Rsqrt(%1) -> [2, 1, 1]"]
    );
    assert_eq!(super::render::outputs(&statistics), ["%0.1 float32 [2, 1, 1]", "%2 float32 [2, 1, 1]"]);
    // A shorter scale is broadcast.
    let spread = Model::new(17)
        .input("x", &[2, 3, 4])
        .input("s", &[4])
        .node("LayerNormalization", &["x", "s"], &["y"], &[int("axis", 1)])
        .outputs(&["y"]);
    assert_eq!(spread.becomes()[0], "Expand(s, int64[3, 4]) -> [3, 4]");
}

#[test]
fn neighbours_share_alpha() {
    let attrs = [int("size", 5), float("alpha", 0.5), float("beta", 0.25), float("bias", 2.0)];
    assert_eq!(
        unary(13, "LRN", &[1, 6, 2, 2], &attrs).becomes(),
        ["LRN(x) depth_radius=2 bias=2 alpha=0.1 beta=0.25 -> [1, 6, 2, 2]"]
    );
    assert_eq!(
        unary(13, "LRN", &[1, 6, 2], &[int("size", 1)]).becomes(),
        ["LRN(x as [1, 6, 2, 1]) depth_radius=0 alpha=0.0001 beta=0.75 -> [1, 6, 2, 1]"]
    );
    assert!(unary(13, "LRN", &[1, 6, 2, 2], &[int("size", 4)]).why().contains("expected an odd number"));
    assert!(unary(13, "LRN", &[1, 6, 2, 2], &[]).why().contains("`size` is 0"));
}

#[test]
fn old_softmaxes_are_over_all_that_follows_the_axis() {
    let softmax = |opset, shape: &[i64], attrs: &[Vec<u8>]| unary(opset, "Softmax", shape, attrs).becomes();
    assert_eq!(softmax(13, &[2, 3, 4], &[]), ["SoftmaxV2(x) axes=[2] -> [2, 3, 4]"]);
    assert_eq!(softmax(13, &[2, 3, 4], &[int("axis", -3)]), ["SoftmaxV2(x) axes=[0] -> [2, 3, 4]"]);
    assert_eq!(softmax(12, &[2, 3, 4], &[]), ["SoftmaxV2(x as [2, 12]) axes=[1] -> [2, 12]"]);
    assert_eq!(softmax(11, &[2, 3, 4], &[int("axis", 0)]), ["SoftmaxV2(x as [1, 24]) axes=[1] -> [1, 24]"]);
    assert_eq!(softmax(11, &[2, 3, 4], &[int("axis", -1)]), ["SoftmaxV2(x) axes=[2] -> [2, 3, 4]"]);
    assert_eq!(softmax(9, &[2, 3], &[]), ["SoftmaxV2(x) axes=[1] -> [2, 3]"]);
    assert_eq!(
        unary(12, "LogSoftmax", &[2, 3, 4], &[]).becomes(),
        ["LogSoftmaxV2(x as [2, 12]) axes=[1] -> [2, 12]"]
    );
    assert!(
        unary(13, "Softmax", &[2, 3], &[int("axis", 2)]).why().contains("axis 2 is none of 2 dimensions")
    );
}
