//! Convolutions.

use opkeep_ops::{int_attr, ints_attr, str_attr};
use opkeep_text::counted;

use super::window::Window;
use crate::node::{Mapped, Node};
use crate::value::Value;

/// A convolution over one axis is a convolution of images of height 1.
pub(crate) fn conv(node: &mut Node<'_>) -> Mapped {
    let (x, filter) = (node.input(0)?, node.input(1)?);
    let rank = spatial(&x)?;
    let kernel = kernel_of(node, &x, &filter)?;
    let window = Window::of(node, &x.shape[2..], kernel)?.lifted(2 - rank);
    let attrs = [
        ints_attr("strides", &[&[1, 1], &window.strides[..]].concat()),
        ints_attr("pads", &window.pads()),
        ints_attr("dilations", &[&[1, 1], &window.dilations[..]].concat()),
        int_attr("groups", node.int("group", 1)?),
        str_attr("data_format", "NCHW"),
    ];
    let bias = node.optional(2).map(|bias| bias.id);
    let (image, taps) = (lifted(node, &x, 2)?, lifted(node, &filter, 2)?);
    let y = node.emit_all("Conv2D", &[Some(image), Some(taps), bias], attrs)?[0];
    Ok(vec![lowered(node, y, rank)?])
}

/// The sizes of a filter along the axes of the images `x`, which have one or two.
pub(super) fn kernel_of(node: &Node<'_>, x: &Value, filter: &Value) -> Result<Vec<i64>, String> {
    if filter.rank() != x.rank() {
        return Err(format!(
            "a filter of shape {:?} does not fit an input of shape {:?}",
            filter.shape, x.shape
        ));
    }
    let kernel = filter.shape[2..].to_vec();
    if kernel.len() > 2 {
        return Err(format!("a convolution over {}, expected one or two", counted(kernel.len(), "axis")));
    }
    match node.ints("kernel_shape")?.filter(|given| *given != kernel) {
        Some(given) => {
            Err(format!("attribute `kernel_shape` is {given:?}, and the filter has shape {:?}", filter.shape))
        }
        None => Ok(kernel),
    }
}

/// The number of axes of an image after batch and channels.
pub(super) fn spatial(x: &Value) -> Result<usize, String> {
    match x.rank() {
        rank @ 3.. => Ok(rank - 2),
        _ => Err(format!("an input of shape {:?}, expected batch, channels and at least one axis", x.shape)),
    }
}

/// `x` with axes of one element after batch and channels, so that `rank` axes follow these.
pub(super) fn lifted(node: &mut Node<'_>, x: &Value, rank: usize) -> Result<opkeep_ops::TensorId, String> {
    let (outer, image) = x.shape.split_at(2);
    let shape = [outer, &vec![1; rank.saturating_sub(image.len())], image].concat();
    node.view(x, &shape)
}

/// The result of an operator on a [`lifted`] image, with `rank` axes after batch and channels.
pub(super) fn lowered(node: &mut Node<'_>, y: opkeep_ops::TensorId, rank: usize) -> Result<Value, String> {
    let (outer, image) = node.graph.tensor(y).shape.split_at(2);
    let shape = [outer, &image[image.len().saturating_sub(rank)..]].concat();
    node.value(y, shape)
}
