//! Operators that work element by element, with broadcasting.

use opkeep_descriptor::Attr;
use opkeep_ops::{TensorId, float_attr, ge_number, int_attr, str_attr};

use crate::dtype;
use crate::node::{Mapped, Node};
use crate::value::{Value, product};

/// The shape to which values broadcast.
pub(super) fn broadcast(values: &[&Value]) -> Result<Vec<i64>, String> {
    let mut shape = Vec::new();
    for value in values {
        shape = opkeep_ops::broadcast(&shape, &value.shape).ok_or_else(|| {
            let shapes: Vec<&[i64]> = values.iter().map(|value| value.shape.as_slice()).collect();
            format!("shapes {shapes:?} do not broadcast: each dimension must be equal, or 1")
        })?;
    }
    Ok(shape)
}

/// `op_type` of the first input.
pub(crate) fn unary(node: &mut Node<'_>, op_type: &str) -> Mapped {
    with(node, op_type, Vec::new())
}

/// `op_type` of the first input, with attributes.
fn with(node: &mut Node<'_>, op_type: &str, attrs: Vec<Attr>) -> Mapped {
    let x = node.input(0)?;
    let y = node.emit(op_type, &[x.id], attrs)?;
    Ok(vec![node.value(y, x.shape)?])
}

/// `op_type` of two inputs.
pub(crate) fn binary(node: &mut Node<'_>, op_type: &str) -> Mapped {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let shape = broadcast(&[&a, &b])?;
    let y = node.emit(op_type, &[a.id, b.id], [])?;
    Ok(vec![node.value(y, shape)?])
}

/// `op_type` with a float attribute under another name.
pub(crate) fn scaled(node: &mut Node<'_>, op_type: &str, onnx: &str, default: f32, ir: &str) -> Mapped {
    let value = node.float(onnx, default)?;
    with(node, op_type, vec![float_attr(ir, value)])
}

pub(crate) fn hard_sigmoid(node: &mut Node<'_>) -> Mapped {
    let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
    with(node, "HardSigmoid", vec![float_attr("alpha", alpha), float_attr("beta", beta)])
}

/// `Selu` of the IR has fixed coefficients; for others, `Elu` is used.
pub(crate) fn selu(node: &mut Node<'_>) -> Mapped {
    const ALPHA: f32 = 1.673_263_2;
    const GAMMA: f32 = 1.050_701;
    let (alpha, gamma) = (node.float("alpha", ALPHA)?, node.float("gamma", GAMMA)?);
    match alpha == ALPHA && gamma == GAMMA {
        true => with(node, "Selu", Vec::new()),
        false => with(node, "Elu", vec![float_attr("alpha", alpha), float_attr("scale", gamma)]),
    }
}

pub(crate) fn gelu(node: &mut Node<'_>) -> Mapped {
    let form = node.text("approximate", "none")?;
    match form.as_str() {
        "none" | "tanh" => with(node, "GeluV2", vec![str_attr("approximate", &form)]),
        _ => Err(format!("attribute `approximate` is `{form}`, expected `none` or `tanh`")),
    }
}

pub(crate) fn shrink(node: &mut Node<'_>) -> Mapped {
    let (lambd, bias) = (node.float("lambd", 0.5)?, node.float("bias", 0.0)?);
    with(node, "Shrink", vec![float_attr("lambd", lambd), float_attr("bias", bias)])
}

/// Infinities of both signs, or of one.
pub(crate) fn is_inf(node: &mut Node<'_>) -> Mapped {
    let signs = (node.flag("detect_negative", true)?, node.flag("detect_positive", true)?);
    let x = node.input(0)?;
    let side = match signs {
        (true, true) => return with(node, "IsInf", Vec::new()),
        (false, false) => return Ok(vec![node.fill("bool", &x.shape, 0.0)?]),
        (true, false) => "Less",
        (false, true) => "Greater",
    };
    let dtype = node.dtype(x.id).to_owned();
    let zero = node.fill(&dtype, &[], 0.0)?;
    let infinite = node.add_step("infinite", "IsInf", &[x.id], [])?;
    let side = node.add_step("side", side, &[x.id, zero.id], [])?;
    let y = node.emit("LogicalAnd", &[infinite, side], [])?;
    Ok(vec![node.value(y, x.shape)?])
}

/// The remainder has the divisor's sign, as in Python; with `fmod` the dividend's, as in C.
pub(crate) fn modulo(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    match node.flag("fmod", false)? {
        true => binary(node, "Mod"),
        false if node.is_float(x.id) => {
            Err(format!("the remainder of {} needs attribute `fmod` = 1", node.dtype(x.id)))
        }
        false => binary(node, "FloorMod"),
    }
}

/// The exponent may have another type; the result has the base's.
pub(crate) fn pow(node: &mut Node<'_>) -> Mapped {
    let (base, exponent) = (node.input(0)?, node.input(1)?);
    let shape = broadcast(&[&base, &exponent])?;
    let dtype = node.dtype(base.id).to_owned();
    let y = if node.is_float(base.id) || !node.is_float(exponent.id) {
        let exponent = cast(node, "exponent", exponent.id, &dtype)?;
        node.emit("Pow", &[base.id, exponent], [])?
    } else {
        // A fraction of the exponent counts, so it must not be truncated first.
        let base = cast(node, "base", base.id, "float64")?;
        let exponent = cast(node, "exponent", exponent.id, "float64")?;
        let power = node.add_step("power", "Pow", &[base, exponent], [])?;
        cast(node, "result", power, &dtype)?
    };
    Ok(vec![node.value(y, shape)?])
}

/// `x` as elements of type `dtype`.
pub(super) fn cast(node: &mut Node<'_>, step: &str, x: TensorId, dtype: &str) -> Result<TensorId, String> {
    match ge_number(dtype) {
        _ if node.dtype(x) == dtype => Ok(x),
        Some(number) => node.add_step(step, "Cast", &[x], [int_attr("dst_type", number)]),
        None => Err(format!("{dtype} is not an element type that can be cast to")),
    }
}

/// `saturate` and `round_mode` matter only for 8-bit floats, which are not supported.
pub(crate) fn cast_to(node: &mut Node<'_>) -> Mapped {
    let to = node.int("to", 0)?;
    let number = i32::try_from(to).unwrap_or_default();
    let target = dtype::of_onnx(number)
        .ok_or_else(|| format!("casts to {}, which is no type here", dtype::shown(number)))?;
    cast_as(node, target)
}

/// A cast to the type of another tensor.
pub(crate) fn cast_like(node: &mut Node<'_>) -> Mapped {
    let like = node.input(1)?;
    let target = node.dtype(like.id).to_owned();
    cast_as(node, &target)
}

fn cast_as(node: &mut Node<'_>, target: &str) -> Mapped {
    let x = node.input(0)?;
    if node.dtype(x.id) == target {
        return Ok(vec![x]);
    }
    let number = ge_number(target).ok_or_else(|| format!("casts to {target}, which is no type here"))?;
    with(node, "Cast", vec![int_attr("dst_type", number)])
}

/// One slope for all elements, or one for each channel; any other shape needs three kernels.
pub(crate) fn prelu(node: &mut Node<'_>) -> Mapped {
    let (x, slope) = (node.input(0)?, node.input(1)?);
    let shape = broadcast(&[&x, &slope])?;
    if shape != x.shape {
        return Err(format!(
            "a slope of shape {:?} does not fit an input of shape {:?}",
            slope.shape, x.shape
        ));
    }
    let elements = product(&slope.shape);
    // Shapes are aligned at their ends, so the index of the channel dimension is less by the difference of the ranks.
    let channel = (1 + slope.rank()).checked_sub(x.rank()).and_then(|at| slope.shape.get(at));
    let per_channel = x.rank() >= 2 && channel == Some(&elements) && x.shape[1] == elements;
    let y = if elements == 1 || per_channel {
        let slope = node.view(&slope, &[elements])?;
        node.emit("PRelu", &[x.id, slope], [])?
    } else {
        let dtype = node.dtype(x.id).to_owned();
        let zero = node.fill(&dtype, &[], 0.0)?;
        let negative = node.add_step("negative", "Less", &[x.id, zero.id], [])?;
        let sloped = node.add_step("sloped", "Mul", &[x.id, slope.id], [])?;
        node.emit("SelectV2", &[negative, sloped, x.id], [])?
    };
    Ok(vec![node.value(y, shape)?])
}

/// `op_type` of the first two inputs, then of the result and the third, and so on.
pub(crate) fn chain(node: &mut Node<'_>, op_type: &str) -> Mapped {
    let values = node.all()?;
    let Some((last, rest)) = values.split_last().filter(|(_, rest)| !rest.is_empty()) else {
        return Ok(values);
    };
    let shape = broadcast(&values.iter().collect::<Vec<_>>())?;
    let mut so_far = rest[0].id;
    for (at, value) in rest.iter().enumerate().skip(1) {
        so_far = node.add_step(&format!("{at}"), op_type, &[so_far, value.id], [])?;
    }
    let y = node.emit(op_type, &[so_far, last.id], [])?;
    Ok(vec![node.value(y, shape)?])
}

pub(crate) fn sum(node: &mut Node<'_>) -> Mapped {
    let values = node.all()?;
    if values.len() == 1 {
        return Ok(values);
    }
    let y = accumulate(node, &values, None)?;
    Ok(vec![y])
}

pub(crate) fn mean(node: &mut Node<'_>) -> Mapped {
    let values = node.all()?;
    if values.len() == 1 {
        return Ok(values);
    }
    let sum = accumulate(node, &values, Some("sum"))?;
    let y = node.emit("Muls", &[sum.id], [float_attr("value", 1.0 / values.len() as f32)])?;
    Ok(vec![node.value(y, sum.shape)?])
}

fn accumulate(node: &mut Node<'_>, values: &[Value], step: Option<&str>) -> Result<Value, String> {
    let shape = broadcast(&values.iter().collect::<Vec<_>>())?;
    let ids: Vec<TensorId> = values.iter().map(|value| value.id).collect();
    let count = [int_attr("N", i64::try_from(ids.len()).unwrap_or(i64::MAX))];
    let sum = match step {
        Some(step) => node.add_step(step, "AccumulateNV2", &ids, count)?,
        None => node.emit("AccumulateNV2", &ids, count)?,
    };
    node.value(sum, shape)
}

/// Bounds are attributes with finite defaults, which make infinities finite.
pub(crate) fn clip_between(node: &mut Node<'_>) -> Mapped {
    let (min, max) = (node.float("min", f32::MIN)?, node.float("max", f32::MAX)?);
    let x = node.input(0)?;
    let dtype = node.dtype(x.id).to_owned();
    let (min, max) = (node.fill(&dtype, &[], f64::from(min))?, node.fill(&dtype, &[], f64::from(max))?);
    let y = node.emit("ClipByValue", &[x.id, min.id, max.id], [])?;
    Ok(vec![node.value(y, x.shape)?])
}

/// Bounds are optional inputs.
pub(crate) fn clip(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let bounds = (node.optional(1), node.optional(2));
    for bound in [&bounds.0, &bounds.1].into_iter().flatten() {
        if product(&bound.shape) != 1 {
            return Err(format!("a bound of shape {:?}, expected one number", bound.shape));
        }
    }
    let one = |node: &mut Node<'_>, bound: &Value| node.view(bound, &[]);
    let y = match bounds {
        (None, None) => return Ok(vec![x]),
        (Some(min), Some(max)) => {
            let (min, max) = (one(node, &min)?, one(node, &max)?);
            node.emit("ClipByValue", &[x.id, min, max], [])?
        }
        (Some(min), None) => {
            let min = one(node, &min)?;
            node.emit("Maximum", &[x.id, min], [])?
        }
        (None, Some(max)) => {
            let max = one(node, &max)?;
            node.emit("Minimum", &[x.id, max], [])?
        }
    };
    Ok(vec![node.value(y, x.shape)?])
}

pub(crate) fn select(node: &mut Node<'_>) -> Mapped {
    let (condition, yes, no) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let shape = broadcast(&[&condition, &yes, &no])?;
    let y = node.emit("SelectV2", &[condition.id, yes.id, no.id], [])?;
    Ok(vec![node.value(y, shape)?])
}

/// Outside of training it has no effect.
pub(crate) fn dropout(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    if node.opset >= 12
        && let Some(training) = node.known(2, "training mode")?
        && training != [0]
    {
        return Err("it is in training mode".to_owned());
    }
    if !node.is_used(1) {
        return Ok(vec![x]);
    }
    // Before version 12, the mask has the input's type, or is undefined outside of training.
    if node.opset < 12 {
        return Err("its mask is used, which version 12 was the first to define".to_owned());
    }
    let mask = node.fill("bool", &x.shape, 1.0)?;
    Ok(vec![x, mask])
}

/// `com.microsoft.BiasGelu`.
pub(crate) fn bias_gelu(node: &mut Node<'_>) -> Mapped {
    let (x, bias) = (node.input(0)?, node.input(1)?);
    let shape = broadcast(&[&x, &bias])?;
    let sum = node.add_step("bias", "Add", &[x.id, bias.id], [])?;
    let y = node.emit("GeluV2", &[sum], [str_attr("approximate", "none")])?;
    Ok(vec![node.value(y, shape)?])
}
