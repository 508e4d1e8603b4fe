//! Normalisations and softmaxes.

use opkeep_ops::{float_attr, int_attr, ints_attr};

use super::conv::spatial;
use super::elementwise::cast;
use super::movement::expand_to;
use super::reduce::over;
use super::views::one_axis;
use crate::node::{Mapped, Node};
use crate::value::{Value, product};

pub(crate) fn batch_norm(node: &mut Node<'_>) -> Mapped {
    if node.flag("training_mode", false)? {
        return Err("it is in training mode".to_owned());
    }
    if !node.flag("spatial", true)? {
        return Err("attribute `spatial` is 0: statistics of each element are not supported".to_owned());
    }
    if (1..node.proto.output.len()).any(|at| node.is_used(at)) {
        return Err("its statistics are used, which it has in training only".to_owned());
    }
    let inputs = node.all()?;
    let ids: Vec<_> = inputs.iter().map(|value| value.id).collect();
    let epsilon = node.float("epsilon", 1e-5)?;
    let y = node.emit("BNInfer", &ids, [float_attr("epsilon", epsilon)])?;
    Ok(vec![node.value(y, inputs[0].shape.clone())?])
}

/// `x` viewed as runs of `length` elements, each normalised separately, without scale.
fn normalised(node: &mut Node<'_>, x: &Value, runs: i64, length: i64, epsilon: f32) -> Result<Value, String> {
    let dtype = node.dtype(x.id).to_owned();
    let (one, zero) = (node.fill(&dtype, &[length], 1.0)?, node.fill(&dtype, &[length], 0.0)?);
    let rows = node.view(x, &[runs, length])?;
    let attrs =
        [int_attr("begin_norm_axis", 1), int_attr("begin_params_axis", 1), float_attr("epsilon", epsilon)];
    let y = node.add_step("normalised", "LayerNorm", &[rows, one.id, zero.id], attrs)?;
    node.value(y, [runs, length])
}

/// `y * scale + shift`, with one scale and one shift for each of `count` slices along the second axis of `y` viewed as
/// `shape`.
fn scaled(
    node: &mut Node<'_>,
    y: &Value,
    shape: [i64; 3],
    scale: &Value,
    shift: &Value,
) -> Result<Value, String> {
    let mut column = |value: &Value| match value.shape == [shape[1]] {
        true => node.view(value, &[shape[1], 1]),
        false => Err(format!("a scale or shift of shape {:?}, expected [{}]", value.shape, shape[1])),
    };
    let (scale, shift) = (column(scale)?, column(shift)?);
    let y = node.view(y, &shape)?;
    let y = node.add_step("scaled", "Mul", &[y, scale], [])?;
    let y = node.emit("Add", &[y, shift], [])?;
    node.value(y, shape)
}

/// Normalises each channel of each image separately.
pub(crate) fn instance_norm(node: &mut Node<'_>) -> Mapped {
    let (x, scale, shift) = (node.input(0)?, node.input(1)?, node.input(2)?);
    spatial(&x)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let (batch, channels, area) = (x.shape[0], x.shape[1], product(&x.shape[2..]));
    let y = normalised(node, &x, batch.saturating_mul(channels), area, epsilon)?;
    let y = scaled(node, &y, [batch, channels, area], &scale, &shift)?;
    Ok(vec![node.value(y.id, x.shape)?])
}

/// Normalises groups of channels of each image separately. There is one scale and one shift for each group in version
/// 18, and for each channel since version 21.
pub(crate) fn group_norm(node: &mut Node<'_>) -> Mapped {
    let (x, scale, shift) = (node.input(0)?, node.input(1)?, node.input(2)?);
    spatial(&x)?;
    let (epsilon, groups) = (node.float("epsilon", 1e-5)?, node.int("num_groups", 0)?);
    let (batch, channels, area) = (x.shape[0], x.shape[1], product(&x.shape[2..]));
    if groups < 1 || channels % groups != 0 {
        return Err(format!(
            "attribute `num_groups` is {groups}, which {channels} channels cannot be divided into"
        ));
    }
    let length = (channels / groups).saturating_mul(area);
    let y = normalised(node, &x, batch.saturating_mul(groups), length, epsilon)?;
    let shape = if node.opset >= 21 { [batch, channels, area] } else { [batch, groups, length] };
    let y = scaled(node, &y, shape, &scale, &shift)?;
    Ok(vec![node.value(y.id, x.shape)?])
}

/// Optional parts of ONNX are added: a shift of zeros, and the inverse of the deviation.
pub(crate) fn layer_norm(node: &mut Node<'_>) -> Mapped {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let (at, epsilon) = (one_axis(node.int("axis", -1)?, x.rank())?, node.float("epsilon", 1e-5)?);
    let dtype = node.dtype(x.id).to_owned();
    let inner = x.shape[at..].to_vec();
    let scale = expand_to(node, &scale, &inner, "scale")?;
    let shift = match node.optional(2) {
        Some(shift) => expand_to(node, &shift, &inner, "shift")?,
        None => node.fill(&dtype, &inner, 0.0)?,
    };
    let attrs = [
        int_attr("begin_norm_axis", at as i64),
        int_attr("begin_params_axis", at as i64),
        float_attr("epsilon", epsilon),
    ];
    let made = node.emit_all("LayerNorm", &[Some(x.id), Some(scale.id), Some(shift.id)], attrs)?;
    let mut outputs = vec![node.value(made[0], x.shape.clone())?];
    if node.is_used(1) || node.is_used(2) {
        let statistics: Vec<i64> = [&x.shape[..at], &vec![1; x.rank() - at]].concat();
        let sum = node.add_step("variance", "Adds", &[made[2]], [float_attr("value", epsilon)])?;
        let inverse = node.add_step("inverse", "Rsqrt", &[sum], [])?;
        for (role, id) in [("mean_type", made[1]), ("inverse_type", inverse)] {
            // ONNX defines them as 32-bit floats if the attribute is unset.
            let stash = node.int("stash_type", 1)?;
            let stash = crate::dtype::of_onnx(i32::try_from(stash).unwrap_or_default());
            let id = cast(node, role, id, stash.ok_or("attribute `stash_type` is no element type here")?)?;
            outputs.push(node.value(id, statistics.clone())?);
        }
    }
    Ok(outputs)
}

/// Divides by the root of the mean of squares.
pub(crate) fn rms_norm(node: &mut Node<'_>) -> Mapped {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let (at, epsilon) = (one_axis(node.int("axis", -1)?, x.rank())?, node.float("epsilon", 1e-5)?);
    let axes: Vec<usize> = (at..x.rank()).collect();
    let squares = node.add_step("squares", "Square", &[x.id], [])?;
    let squares = Value { id: squares, shape: x.shape.clone() };
    let mean = over(node, "ReduceMean", Some("mean"), &squares, &axes, true)?;
    let sum = node.add_step("epsilon", "Adds", &[mean.id], [float_attr("value", epsilon)])?;
    let inverse = node.add_step("inverse", "Rsqrt", &[sum], [])?;
    let normalised = node.add_step("normalised", "Mul", &[x.id, inverse], [])?;
    let scale = expand_to(node, &scale, &x.shape[at..], "scale")?;
    let y = node.emit("Mul", &[normalised, scale.id], [])?;
    Ok(vec![node.value(y, x.shape)?])
}

/// Normalises over neighbouring channels. The IR expects alpha divided by `size`, and half the number of
/// neighbours.
pub(crate) fn lrn(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    spatial(&x)?;
    let size = node.int("size", 0)?;
    if size < 1 || size % 2 == 0 {
        return Err(format!(
            "attribute `size` is {size}, expected an odd number: as many channels before as behind"
        ));
    }
    let (alpha, beta, bias) =
        (node.float("alpha", 1e-4)?, node.float("beta", 0.75)?, node.float("bias", 1.0)?);
    let attrs = [
        int_attr("depth_radius", (size - 1) / 2),
        float_attr("bias", bias),
        float_attr("alpha", alpha / size as f32),
        float_attr("beta", beta),
    ];
    let (outer, image) = x.shape.split_at(2);
    let flat = if image.len() == 2 { x.shape.clone() } else { [outer, &[product(image), 1]].concat() };
    let flat = node.view(&x, &flat)?;
    let y = node.emit("LRN", &[flat], attrs)?;
    Ok(vec![node.value(y, x.shape)?])
}

/// Over one axis; before version 13, over it and all that follow, which are viewed as one.
pub(crate) fn softmax(node: &mut Node<'_>, op_type: &str) -> Mapped {
    let x = node.input(0)?;
    let one = node.opset >= 13;
    let given = node.int("axis", if one { -1 } else { 1 })?;
    if x.rank() == 0 {
        return Err("its input is a scalar".to_owned());
    }
    // For a vector, the default axis of old versions is after its last one.
    if !one && given == x.rank() as i64 {
        let shape = [product(&x.shape), 1];
        return softmax_over(node, op_type, &x, &shape, 1);
    }
    let at = one_axis(given, x.rank())?;
    if one || at + 1 == x.rank() {
        return softmax_over(node, op_type, &x, &x.shape.clone(), at);
    }
    let shape = [product(&x.shape[..at]), product(&x.shape[at..])];
    softmax_over(node, op_type, &x, &shape, 1)
}

fn softmax_over(node: &mut Node<'_>, op_type: &str, x: &Value, shape: &[i64], at: usize) -> Mapped {
    let seen = node.view(x, shape)?;
    let y = node.emit(op_type, &[seen], [ints_attr("axes", &[at as i64])])?;
    Ok(vec![node.value(y, x.shape.clone())?])
}
