//! Stretched images: transposed convolutions and resizing.

use opkeep_ops::Origin;

use super::model::{Model, float, int, ints, unary, word};
use super::render::{float32s, int64s, nodes, outputs};

fn transposed(x: &[i64], filter: &[i64], attrs: &[Vec<u8>]) -> Model {
    Model::new(13)
        .input("x", x)
        .weight("w", filter)
        .node("ConvTranspose", &["x", "w"], &["y"], attrs)
        .outputs(&["y"])
}

#[test]
fn a_transposed_convolution_is_one_of_a_stretched_image() {
    let attrs = [ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1]), ints("output_padding", &[1, 1])];
    let network = transposed(&[1, 2, 3, 4], &[2, 3, 3, 3], &attrs).network();
    // Height 2 * (3 - 1) + 1 + 3 - 2, width 2 * (4 - 1) + 1 + 3 - 2.
    assert_eq!(
        nodes(&network),
        [
            "PadV3(x as [1, 2, 3, 1, 4, 1], int64[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]) paddings_contiguous=false \
             -> [1, 2, 3, 2, 4, 2]",
            "Conv2D(%0 as [1, 2, 6, 8], const) strides=[1, 1, 1, 1] pads=[1, 1, 1, 1] data_format=NCHW \
             -> [1, 3, 6, 8]",
        ]
    );
    // The filter has its channels swapped and its taps in reverse.
    let filter = network.graph.nodes()[1].inputs[1][0];
    assert_eq!(network.graph.tensor(filter).shape, [3, 2, 3, 3]);
    let mut bytes = vec![0; 54 * 4];
    match network.graph.origin(network.graph.source(filter)) {
        Origin::Constant(constant) => constant.copy_to(&mut bytes).unwrap(),
        other => panic!("{other:?}"),
    }
    let taps: Vec<f32> = bytes.as_chunks().0.iter().map(|tap| f32::from_le_bytes(*tap)).collect();
    let tap = |out: usize, channel: usize, at: usize| taps[(out * 2 + channel) * 9 + at];
    assert_eq!(
        (tap(0, 0, 0), tap(0, 0, 8), tap(0, 1, 0), tap(1, 0, 0), tap(2, 1, 1)),
        (8.0, 0.0, 35.0, 17.0, 52.0)
    );
}

#[test]
fn cut_off_outputs_are_not_computed() {
    // Of 7 outputs, 2 at the start and 1 at the end are cut off, where 1 tap reaches over the edge.
    let network = transposed(&[1, 1, 6], &[1, 1, 2], &[ints("pads", &[2, 1])]).network();
    assert_eq!(
        nodes(&network),
        [
            "StridedSliceV2(x as [1, 1, 1, 6], int64[0, 1], int64[1, 6], int64[2, 3], int64[1, 1]) -> [1, 1, 1, 5]",
            "Conv2D(%0, const) strides=[1, 1, 1, 1] pads=[0, 0, 0, 0] data_format=NCHW -> [1, 1, 1, 4]",
        ]
    );
    assert_eq!(outputs(&network), ["%1 as [1, 1, 4] float32 [1, 1, 4]"]);
}

#[test]
fn the_size_of_a_transposed_convolution_may_be_asked_for() {
    // 2 * 3 + 3 = 9 outputs; by default, the odd surplus element is removed at the start.
    for (attrs, pads) in [
        (vec![ints("output_shape", &[8])], "pads=[0, 0, 1, 1]"),
        (vec![ints("output_shape", &[8]), word("auto_pad", "SAME_UPPER")], "pads=[0, 0, 2, 0]"),
        (vec![word("auto_pad", "SAME_LOWER")], "pads=[0, 0, 1, 1]"),
        (vec![word("auto_pad", "SAME_UPPER")], "pads=[0, 0, 2, 0]"),
        (vec![ints("output_shape", &[10])], "pads=[0, 0, 2, 2]"),
    ] {
        let attrs = [attrs, vec![ints("strides", &[2])]].concat();
        let found = transposed(&[1, 1, 4], &[1, 1, 3], &attrs).becomes();
        assert!(found[1].contains(pads), "{found:?}");
    }
    for (attrs, why) in [
        (int("group", 3), "3 groups"),
        (ints("output_padding", &[-1, 0]), "`output_padding` is [-1, 0]"),
        (ints("output_shape", &[4]), "`output_shape` is [4]"),
        (ints("kernel_shape", &[2, 2]), "`kernel_shape` is [2, 2]"),
    ] {
        let found = transposed(&[1, 2, 4, 4], &[2, 1, 3, 3], &[attrs]).why();
        assert!(found.contains(why), "{found}");
    }
}

/// The result of scaling 0, 1, 2, 3.
fn resized(scale: f32, attrs: &[Vec<u8>]) -> Vec<f32> {
    let network = Model::new(13)
        .weight("x", &[1, 1, 1, 4])
        .floats("scales", &[4], &[1.0, 1.0, 1.0, scale])
        .node("Resize", &["x", "", "scales"], &["y"], attrs)
        .outputs(&["y"])
        .network();
    assert!(nodes(&network).is_empty());
    float32s(&network, 0)
}

#[test]
fn images_are_resized_by_the_nearest_element() {
    let with = |grid: &str, rounding: &str| {
        vec![word("coordinate_transformation_mode", grid), word("nearest_mode", rounding)]
    };
    // Places -0.25, 0.25, 0.75, ...
    assert_eq!(resized(2.0, &[]), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    // Places 0.5 and 2.5 are in the middle of two elements.
    assert_eq!(resized(0.5, &[]), [0.0, 2.0]);
    assert_eq!(resized(0.5, &with("half_pixel", "round_prefer_ceil")), [1.0, 3.0]);
    assert_eq!(resized(0.5, &with("half_pixel", "ceil")), [1.0, 3.0]);
    assert_eq!(resized(1.5, &with("asymmetric", "floor")), [0.0, 0.0, 1.0, 2.0, 2.0, 3.0]);
    assert_eq!(resized(1.5, &with("asymmetric", "ceil")), [0.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    // Places 0, 0.5, 1, ..., 3.
    assert_eq!(resized(1.75, &with("align_corners", "floor")), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    assert_eq!(resized(0.25, &with("pytorch_half_pixel", "floor")), [0.0]);
    assert_eq!(resized(0.25, &with("half_pixel", "floor")), [1.0]);
}

#[test]
fn images_are_resized_between_two_elements() {
    let linear = |grid: &str| vec![word("mode", "linear"), word("coordinate_transformation_mode", grid)];
    assert_eq!(resized(2.0, &linear("half_pixel")), [0.0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.0]);
    assert_eq!(resized(2.0, &linear("asymmetric")), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.0]);
    let network = Model::new(11)
        .input("x", &[1, 2, 3, 4])
        .floats("none", &[0], &[])
        .ints("sizes", &[1, 2, 6, 4])
        .node("Resize", &["x", "none", "none", "sizes"], &["y"], &[word("mode", "linear")])
        .outputs(&["y"]);
    assert_eq!(
        network.becomes(),
        [
            "GatherV2(x, const, int32[2]) negative_index_support=true -> [1, 2, 6, 4]",
            "Mul(%0, const) -> [1, 2, 6, 4]",
            "GatherV2(x, const, int32[2]) negative_index_support=true -> [1, 2, 6, 4]",
            "Mul(%2, const) -> [1, 2, 6, 4]",
            "Add(%1, %3) -> [1, 2, 6, 4]",
        ]
    );
}

#[test]
fn images_are_resized_in_old_ways_and_along_some_axes() {
    let gathers = [
        "GatherV2(x, const, int32[2]) negative_index_support=true -> [1, 2, 6, 4]",
        "GatherV2(%0, const, int32[3]) negative_index_support=true -> [1, 2, 6, 12]",
    ];
    let old = |opset, op_type: &str| {
        Model::new(opset)
            .input("x", &[1, 2, 3, 4])
            .floats("scales", &[4], &[1.0, 1.0, 2.0, 3.0])
            .node(op_type, &["x", "scales"], &["y"], &[])
            .outputs(&["y"])
    };
    assert_eq!(old(9, "Upsample").becomes(), gathers);
    assert_eq!(old(10, "Resize").becomes(), gathers);
    assert!(old(10, "Upsample").why().contains("in the operator sets 7 to 8, 9 to 9 only"));
    let some = Model::new(18)
        .input("x", &[1, 2, 3, 4])
        .ints("sizes", &[12, 6])
        .node("Resize", &["x", "", "", "sizes"], &["y"], &[ints("axes", &[-1, 2])])
        .outputs(&["y"]);
    assert_eq!(
        some.becomes()[0],
        "GatherV2(x, const, int32[3]) negative_index_support=true -> [1, 2, 3, 12]"
    );
    let same = old(10, "Resize").floats("ones", &[4], &[1.0; 4]).node("Resize", &["x", "ones"], &["z"], &[]);
    assert_eq!(outputs(&same.outputs(&["z"]).network())[1], "x float32 [1, 2, 3, 4]");
}

#[test]
fn resizing_that_cannot_be_mapped_says_why() {
    let resize = |attrs: &[Vec<u8>], scales: &[f32]| {
        Model::new(19)
            .input("x", &[1, 4])
            .floats("scales", &[scales.len() as i64], scales)
            .node("Resize", &["x", "", "scales"], &["y"], attrs)
            .outputs(&["y"])
            .why()
    };
    for (attrs, scales, why) in [
        (vec![word("mode", "cubic")], &[1.0, 2.0][..], "`mode` is `cubic`"),
        (vec![int("antialias", 1)], &[1.0, 2.0], "`antialias` is set"),
        (vec![word("keep_aspect_ratio_policy", "not_larger")], &[1.0, 2.0], "`not_larger`"),
        (
            vec![word("coordinate_transformation_mode", "tf_crop_and_resize")],
            &[1.0, 2.0],
            "`tf_crop_and_resize`",
        ),
        (vec![word("nearest_mode", "up")], &[1.0, 2.0], "`nearest_mode` is `up`"),
        (vec![], &[1.0], "expected 2 numbers above 0"),
        (vec![], &[1.0, f32::NAN], "expected 2 numbers above 0"),
        (vec![], &[1.0, 0.1], "from 4 to 0 elements"),
        (vec![], &[1.0, 1e9], "elements, expected 1 to 65536"),
        (vec![], &[], "expected one of them"),
        (vec![float("mode", 1.0)], &[1.0, 2.0], "`mode` is not a text"),
    ] {
        let found = resize(&attrs, scales);
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn places_of_extremes() {
    assert_eq!(
        unary(13, "ArgMax", &[2, 3, 4], &[int("axis", 1), int("keepdims", 0)]).becomes(),
        [
            "ReduceMax(x, int32[1]) keep_dims=true noop_with_empty_axes=false -> [2, 1, 4]",
            "Equal(x, %0) -> bool [2, 3, 4]",
            "SelectV2(%1, const, int64:2) -> int64 [2, 3, 4]",
            "ReduceMin(%2, int32[1]) noop_with_empty_axes=false -> int64 [2, 4]",
        ]
    );
    let places = |op_type: &str, attrs: &[Vec<u8>]| {
        let model = Model::new(13).floats("x", &[2, 3], &[2.0, 7.0, 7.0, 1.0, 1.0, 5.0]);
        let attrs = [attrs, &[int("axis", 1)]].concat();
        int64s(&model.node(op_type, &["x"], &["y"], &attrs).outputs(&["y"]).network(), 0)
    };
    assert_eq!(places("ArgMax", &[]), [1, 2]);
    assert_eq!(places("ArgMax", &[int("select_last_index", 1)]), [2, 2]);
    assert_eq!(places("ArgMin", &[]), [0, 0]);
    assert_eq!(places("ArgMin", &[int("select_last_index", 1)]), [0, 1]);
}
