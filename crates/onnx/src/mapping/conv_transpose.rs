//! Transposed convolutions, for which the IR's table has no row: each becomes a convolution of a stretched image.

use opkeep_ops::{TensorId, bool_attr, int_attr, ints_attr, str_attr};
use opkeep_text::counted;

use super::conv::{kernel_of, lifted, lowered, spatial};
use super::movement::transposed;
use super::window::Window;
use crate::node::{Mapped, Node};
use crate::value::Value;

/// Zeros are inserted between the elements of the image, and the filter is reversed; then every tap of the filter adds
/// to the same outputs as in a transposed convolution.
pub(crate) fn conv_transpose(node: &mut Node<'_>) -> Mapped {
    let (x, filter) = (node.input(0)?, node.input(1)?);
    let rank = spatial(&x)?;
    let kernel = kernel_of(node, &x, &filter)?;
    let groups = node.int("group", 1)?;
    if groups < 1 || filter.shape[0] != x.shape[1] || x.shape[1] % groups != 0 {
        return Err(format!(
            "a filter of shape {:?} in {groups} does not fit an input of shape {:?}",
            filter.shape,
            x.shape,
            groups = counted(groups, "group")
        ));
    }
    let (window, extra) = window(node, &x.shape[2..], kernel)?;
    let window = window.lifted(2 - rank);
    let extra = [vec![0; 2 - rank], extra].concat();
    let image = lifted(node, &x, 2)?;
    let image = node.graph.tensor(image).shape.clone();
    let mut stretched = stretched(node, &x, &image, &window.strides)?;
    // Taps reach over the edge, but not as far as the outputs that are cut off.
    let edge = |at: usize| {
        let over = window.reach(at)? - 1;
        let (before, after) = (over.checked_sub(window.before[at])?, over.checked_sub(window.after[at])?);
        Some((before, after.checked_add(extra[at])?.checked_sub(window.strides[at] - 1)?))
    };
    let edges = (0..2).map(edge).collect::<Option<Vec<(i64, i64)>>>();
    let edges = edges.ok_or_else(|| format!("a window of {:?} is absurdly large", window.kernel))?;
    stretched = cropped(node, stretched, &edges)?;
    let pads: Vec<i64> =
        edges.iter().flat_map(|(before, after)| [(*before).max(0), (*after).max(0)]).collect();
    let taps = turned(node, &filter, groups)?;
    let attrs = [
        ints_attr("strides", &[1; 4]),
        ints_attr("pads", &pads),
        ints_attr("dilations", &[&[1, 1], &window.dilations[..]].concat()),
        int_attr("groups", groups),
        str_attr("data_format", "NCHW"),
    ];
    let bias = node.optional(2).map(|bias| bias.id);
    let y = node.emit_all("Conv2D", &[Some(stretched), Some(taps), bias], attrs)?[0];
    Ok(vec![lowered(node, y, rank)?])
}

/// The window, whose padding is the part that is cut off the output, and the size that is added to the output's end.
fn window(node: &Node<'_>, image: &[i64], kernel: Vec<i64>) -> Result<(Window, Vec<i64>), String> {
    let rank = image.len();
    let mut window = Window::of(node, image, kernel)?;
    let extra = node.ints("output_padding")?.unwrap_or_else(|| vec![0; rank]);
    if extra.len() != rank || extra.iter().any(|extra| *extra < 0) {
        return Err(format!(
            "attribute `output_padding` is {extra:?}, expected {rank} of 0 or more",
            rank = counted(rank, "value")
        ));
    }
    let auto = node.text("auto_pad", "NOTSET")?;
    let is_asked = node.has("output_shape");
    let asked = match node.ints("output_shape")? {
        Some(shape) if shape.len() >= rank => Some(shape[shape.len() - rank..].to_vec()),
        Some(shape) => {
            return Err(format!(
                "attribute `output_shape` is {shape:?}, expected {rank}",
                rank = counted(rank, "value")
            ));
        }
        None if auto.starts_with("SAME") => {
            image.iter().zip(&window.strides).map(|(size, stride)| size.checked_mul(*stride)).collect()
        }
        None => None,
    };
    for (at, size) in asked.into_iter().flatten().enumerate() {
        let full = || {
            let steps = (image[at] - 1).checked_mul(window.strides[at])?;
            steps.checked_add(extra[at])?.checked_add(window.reach(at)?)?.checked_sub(size)
        };
        let cut = full().ok_or_else(|| {
            format!("an output of {size} is absurdly large", size = counted(size, "element"))
        })?;
        let less = cut / 2;
        (window.before[at], window.after[at]) = match auto.as_str() {
            // Missing elements are added at the end, if the size was requested.
            _ if cut < 0 => (0, if is_asked { cut } else { 0 }),
            "SAME_UPPER" => (less, cut - less),
            _ => (cut - less, less),
        };
    }
    Ok((window, extra))
}

/// An image with zeros after each element, along each axis, so that the distance between its elements is the stride.
fn stretched(node: &mut Node<'_>, x: &Value, image: &[i64], strides: &[i64]) -> Result<TensorId, String> {
    if strides == [1, 1] {
        return node.view(x, image);
    }
    let [batch, channels, height, width] = <[i64; 4]>::try_from(image).map_err(|_| "no image".to_owned())?;
    let apart = node.view(x, &[batch, channels, height, 1, width, 1])?;
    let mut pads = [0; 12];
    (pads[9], pads[11]) = (strides[0] - 1, strides[1] - 1);
    let pads = node.parameter("int64", &pads);
    let attrs = [str_attr("mode", "constant"), bool_attr("paddings_contiguous", false)];
    let padded = node.add_step("stretched", "PadV3", &[apart, pads], attrs)?;
    // The padding has checked that the size fits.
    let shape = [batch, channels, height * strides[0], width * strides[1]];
    node.value(padded, shape).map(|value| value.id)
}

/// An image without the elements beyond negative edges.
fn cropped(node: &mut Node<'_>, image: TensorId, edges: &[(i64, i64)]) -> Result<TensorId, String> {
    if edges.iter().all(|(before, after)| *before >= 0 && *after >= 0) {
        return Ok(image);
    }
    let shape = node.graph.tensor(image).shape.clone();
    let begin: Vec<i64> = edges.iter().map(|(before, _)| -before.min(&0)).collect();
    let end: Vec<i64> =
        edges.iter().zip(&shape[2..]).map(|((_, after), size)| (size + after.min(&0)).max(0)).collect();
    let (begin, end) = (node.parameter("int64", &begin), node.parameter("int64", &end));
    let (axes, steps) = (node.parameter("int64", &[2, 3]), node.parameter("int64", &[1, 1]));
    node.add_step("cropped", "StridedSliceV2", &[image, begin, end, axes, steps], [])
}

/// A filter with input and output channels swapped within each group, and its taps reversed.
fn turned(node: &mut Node<'_>, filter: &Value, groups: i64) -> Result<TensorId, String> {
    let taps = lifted(node, filter, 2)?;
    let shape = node.graph.tensor(taps).shape.clone();
    let [channels, out, height, width] =
        <[i64; 4]>::try_from(shape.as_slice()).map_err(|_| "no filter".to_owned())?;
    let grouped = node.value(taps, [groups, channels / groups, out, height, width])?;
    let swapped = transposed(node, &grouped, &[0, 2, 1, 3, 4], Some("swapped"))?;
    let all = out.checked_mul(groups).ok_or("its filter is absurdly large")?;
    let taps = node.view(&swapped, &[all, channels / groups, height, width])?;
    if height == 1 && width == 1 {
        return Ok(taps);
    }
    let (begin, end) = ([height - 1, width - 1], [-height - 1, -width - 1]);
    let (begin, end) = (node.parameter("int64", &begin), node.parameter("int64", &end));
    let (axes, steps) = (node.parameter("int64", &[2, 3]), node.parameter("int64", &[-1, -1]));
    node.add_step("reversed", "StridedSliceV2", &[taps, begin, end, axes, steps], [])
}
