//! Resized images. The elements that contribute to a result are known in advance: one, or two with weights.

use opkeep_ops::{TensorId, bool_attr};
use opkeep_text::counted;

use super::views::one_axis;
use crate::fold::LIMIT;
use crate::node::{Mapped, Node};
use crate::number::Numbers;
use crate::value::Value;

/// The way in which a result is computed from the elements around it.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
}

/// The positions of the results on the image, by ONNX's names.
struct Grid {
    mode: Mode,
    coordinates: String,
    rounding: String,
}

/// One axis: its size, its new size, and the scale.
struct Axis {
    at: usize,
    from: i64,
    to: i64,
    scale: f32,
}

/// `Upsample` up to version 9, and its successor `Resize` of version 10.
pub(crate) fn upsample(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let scales = match node.floats("scales")? {
        Some(scales) => scales,
        None => scales(node, 1)?.ok_or("its scales are not given")?,
    };
    let grid = Grid { mode: mode(node)?, coordinates: "asymmetric".to_owned(), rounding: "floor".to_owned() };
    let along: Vec<usize> = (0..x.rank()).collect();
    let axes = scaled(&x, &along, &scales)?;
    resized(node, x, &grid, &axes)
}

/// `Resize` since version 11: to sizes or by scales, of all axes, or since version 18 of some.
pub(crate) fn resize(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    for (name, plain) in [("antialias", 0), ("exclude_outside", 0)] {
        if node.int(name, plain)? != plain {
            return Err(format!("attribute `{name}` is set"));
        }
    }
    let policy = node.text("keep_aspect_ratio_policy", "stretch")?;
    if policy != "stretch" {
        return Err(format!("attribute `keep_aspect_ratio_policy` is `{policy}`, expected stretch"));
    }
    let grid = Grid {
        mode: mode(node)?,
        coordinates: node.text("coordinate_transformation_mode", "half_pixel")?,
        rounding: node.text("nearest_mode", "round_prefer_floor")?,
    };
    let along = match node.ints("axes")? {
        Some(given) => given.iter().map(|at| one_axis(*at, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    // An empty input counts as omitted.
    let sizes = node.known(3, "sizes")?.filter(|sizes| !sizes.is_empty());
    let axes = match (scales(node, 2)?, sizes) {
        (Some(scales), None) => scaled(&x, &along, &scales)?,
        (None, Some(sizes)) if sizes.len() == along.len() => {
            let axis = |(at, to): (&usize, &i64)| {
                let from = x.shape[*at];
                Axis { at: *at, from, to: *to, scale: *to as f32 / from as f32 }
            };
            along.iter().zip(&sizes).map(axis).collect()
        }
        (scales, sizes) => {
            return Err(format!("its scales are {scales:?} and its sizes {sizes:?}, expected one of them"));
        }
    };
    resized(node, x, &grid, &axes)
}

fn mode(node: &Node<'_>) -> Result<Mode, String> {
    match node.text("mode", "nearest")?.as_str() {
        "nearest" => Ok(Mode::Nearest),
        "linear" => Ok(Mode::Linear),
        other => Err(format!("attribute `mode` is `{other}`, expected nearest or linear")),
    }
}

/// The scales in input `at`.
fn scales(node: &Node<'_>, at: usize) -> Result<Option<Vec<f32>>, String> {
    let Some(value) = node.optional(at) else { return Ok(None) };
    match node.numbers(value.id)? {
        Some(Numbers::Floats(scales)) if scales.is_empty() => Ok(None),
        Some(Numbers::Floats(scales)) => Ok(Some(scales.into_iter().map(|scale| scale as f32).collect())),
        _ => Err("its scales must be a few known numbers".to_owned()),
    }
}

fn scaled(x: &Value, along: &[usize], scales: &[f32]) -> Result<Vec<Axis>, String> {
    if scales.len() != along.len() || !scales.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
        return Err(format!("its scales are {scales:?}, expected {} numbers above 0", along.len()));
    }
    let axis = |(at, scale): (&usize, &f32)| {
        let from = x.shape[*at];
        // In 32-bit floats, as in ONNX Runtime, although they do not represent every size.
        let to = if *scale == 1.0 { from } else { (from as f32 * scale).floor() as i64 };
        Axis { at: *at, from, to, scale: *scale }
    };
    Ok(along.iter().zip(scales).map(axis).collect())
}

fn resized(node: &mut Node<'_>, x: Value, grid: &Grid, axes: &[Axis]) -> Mapped {
    let mut y = x;
    let changed: Vec<&Axis> = axes.iter().filter(|axis| axis.scale != 1.0 || axis.to != axis.from).collect();
    if changed.is_empty() {
        return Ok(vec![y]);
    }
    for (place, axis) in changed.iter().enumerate() {
        if axis.from < 1 || axis.to < 1 || axis.to.unsigned_abs() > LIMIT {
            return Err(format!(
                "axis {} cannot be resized from {} to {}, expected 1 to {LIMIT}",
                axis.at,
                axis.from,
                counted(axis.to, "element")
            ));
        }
        let name = (place + 1 < changed.len()).then(|| format!("axis_{}", axis.at));
        let places = (0..axis.to).map(|at| place_of(grid, axis, at)).collect::<Result<Vec<f32>, _>>()?;
        y = match grid.mode {
            Mode::Nearest => {
                let nearest = places.iter().map(|place| nearest(grid, *place, axis.from));
                let nearest = nearest.collect::<Result<Vec<i64>, _>>()?;
                taken(node, &y, axis.at, nearest, name.as_deref())?
            }
            Mode::Linear => between(node, &y, axis, &places, name.as_deref())?,
        };
    }
    Ok(vec![y])
}

/// The position of a result on the image. In 32-bit floats, as in ONNX Runtime: on the edge between two elements, the
/// last bit decides.
fn place_of(grid: &Grid, axis: &Axis, at: i64) -> Result<f32, String> {
    let (x, to) = (at as f32, axis.to as f32);
    let half_pixel = (x + 0.5) / axis.scale - 0.5;
    Ok(match grid.coordinates.as_str() {
        "half_pixel" => half_pixel,
        "pytorch_half_pixel" if axis.to == 1 => 0.0,
        "pytorch_half_pixel" => half_pixel,
        "align_corners" if axis.to == 1 => 0.0,
        "align_corners" => x * (axis.from - 1) as f32 / (to - 1.0),
        "asymmetric" => x / axis.scale,
        other => {
            return Err(format!(
                "attribute `coordinate_transformation_mode` is `{other}`, expected half_pixel, pytorch_half_pixel, \
                 align_corners or asymmetric"
            ));
        }
    })
}

fn nearest(grid: &Grid, place: f32, size: i64) -> Result<i64, String> {
    let index = match grid.rounding.as_str() {
        "round_prefer_floor" => (place - 0.5).ceil(),
        "round_prefer_ceil" => (place + 0.5).floor(),
        "floor" => place.floor(),
        "ceil" => place.ceil(),
        other => {
            return Err(format!(
                "attribute `nearest_mode` is `{other}`, expected round_prefer_floor, round_prefer_ceil, floor or ceil"
            ));
        }
    };
    Ok((index as i64).clamp(0, size - 1))
}

/// The elements `indices` of an axis.
fn taken(
    node: &mut Node<'_>,
    x: &Value,
    at: usize,
    indices: Vec<i64>,
    step: Option<&str>,
) -> Result<Value, String> {
    let mut shape = x.shape.clone();
    shape[at] = indices.len() as i64;
    let indices = node.int_constant("int64", &[shape[at]], indices)?;
    let axis = node.parameter("int32", &[at as i64]);
    let attrs = [bool_attr("negative_index_support", true)];
    let y = match step {
        Some(step) => node.add_step(step, "GatherV2", &[x.id, indices.id, axis], attrs)?,
        None => node.emit("GatherV2", &[x.id, indices.id, axis], attrs)?,
    };
    node.value(y, shape)
}

/// For each position, the elements on both sides, weighted by their distance.
fn between(
    node: &mut Node<'_>,
    x: &Value,
    axis: &Axis,
    places: &[f32],
    step: Option<&str>,
) -> Result<Value, String> {
    let last = axis.from - 1;
    let places: Vec<f32> = places.iter().map(|place| place.clamp(0.0, last as f32)).collect();
    let before: Vec<i64> = places.iter().map(|place| *place as i64).collect();
    let after: Vec<i64> = before.iter().map(|at| (at + 1).min(last)).collect();
    let share: Vec<f64> =
        places.iter().zip(&before).map(|(place, at)| f64::from(*place) - *at as f64).collect();
    let rest: Vec<f64> = share.iter().map(|share| 1.0 - share).collect();
    let name = step.unwrap_or("taken");
    let mut part =
        |indices: Vec<i64>, shares: Vec<f64>, side: &str| -> Result<(TensorId, Vec<i64>), String> {
            let dtype = node.dtype(x.id).to_owned();
            let taken = taken(node, x, axis.at, indices, Some(&format!("{name}_{side}")))?;
            let mut shape = vec![1; x.rank() - axis.at];
            shape[0] = axis.to;
            let bytes = Numbers::Floats(shares).encode(&dtype);
            let shares =
                node.computed(&dtype, &shape, bytes.ok_or_else(|| format!("{dtype} has no shares"))?)?;
            let part = node.add_step(&format!("{name}_{side}_share"), "Mul", &[taken.id, shares.id], [])?;
            Ok((part, taken.shape))
        };
    let (first, shape) = part(before, rest, "before")?;
    let (second, _) = part(after, share, "after")?;
    let y = match step {
        Some(step) => node.add_step(step, "Add", &[first, second], [])?,
        None => node.emit("Add", &[first, second], [])?,
    };
    node.value(y, shape)
}
