//! Operators that move elements without changing them.

use opkeep_text::counted;

use super::reduce::axis;
use crate::{Call, OpsError};

fn dims(shape: &[i64]) -> Vec<u64> {
    shape.iter().map(|dim| dim.unsigned_abs()).collect()
}

/// The axis with the number `given`.
fn one_axis(call: &Call<'_>, name: &str, given: i64, shape: &[i64]) -> Result<usize, OpsError> {
    axis(given, shape.len()).ok_or_else(|| call.misfit(format!("{name} {given} is no axis of {shape:?}")))
}

/// The order of dimensions of a `Transpose`: dimension `i` of the output is dimension `perm[i]` of the input.
///
/// # Errors
/// An order that does not have each dimension once.
pub fn permutation(call: &Call<'_>) -> Result<Vec<usize>, OpsError> {
    let shape = &call.tensor(0)?.shape;
    let given = call.values(1)?;
    let perm: Option<Vec<usize>> = given.iter().map(|at| axis(*at, shape.len())).collect();
    let each_once = |perm: &Vec<usize>| {
        let mut sorted = perm.clone();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..shape.len())
    };
    perm.filter(each_once)
        .ok_or_else(|| call.misfit(format!("perm {given:?} does not have each dimension of {shape:?} once")))
}

/// Refuses a number of inputs that differs from `N`.
pub(crate) fn check_count(call: &Call<'_>, inputs: usize) -> Result<(), OpsError> {
    match call.int("N")? {
        count if usize::try_from(count) == Ok(inputs) => Ok(()),
        count => {
            Err(call
                .misfit(format!("N is {count}, and there are {inputs}", inputs = counted(inputs, "input"))))
        }
    }
}

/// Refuses a fill value that is not a single element of the output's type.
pub(crate) fn one_element(call: &Call<'_>, at: usize, dtype: &str) -> Result<(), OpsError> {
    match call.optional(at) {
        Some(value) if value.dtype != dtype || value.shape.iter().any(|dim| *dim != 1) => {
            let (name, shape) = (call.spec().inputs[at].name, &value.shape);
            Err(call.misfit(format!("`{name}` is {} {shape:?}, expected one {dtype}", value.dtype)))
        }
        _ => Ok(()),
    }
}

/// The axis of a `ConcatD`, and the output's shape.
///
/// # Errors
/// Inputs that differ in another dimension.
pub fn concat(call: &Call<'_>) -> Result<(usize, Vec<i64>), OpsError> {
    let inputs = call.group(0);
    let mut shape = call.tensor(0)?.shape.clone();
    let at = one_axis(call, "concat_dim", call.int("concat_dim")?, &shape)?;
    check_count(call, inputs.len())?;
    for input in &inputs[1..] {
        let alike = input.shape.len() == shape.len()
            && (0..shape.len()).all(|dim| dim == at || input.shape[dim] == shape[dim]);
        let sum = input.shape.get(at).and_then(|dim| shape[at].checked_add(*dim)).filter(|_| alike);
        shape[at] = sum.ok_or_else(|| {
            call.misfit(format!("{:?} and {shape:?} differ in more than dimension {at}", input.shape))
        })?;
    }
    Ok((at, shape))
}

/// A `GatherV2` for code generators: from each of `outer` blocks of `size` items with `inner` elements, the items that
/// the indices name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Blocks.
    pub outer: u64,
    /// Items of a block; an index is from 0, or from `-size` if `negative`, to `size - 1`.
    pub size: u64,
    /// Elements of an item.
    pub inner: u64,
    /// The number of indices.
    pub indices: u64,
    /// Whether negative indices count from the end.
    pub negative: bool,
    /// The output's shape.
    pub output: Vec<i64>,
}

impl Gather {
    /// The gathering that `call` describes.
    ///
    /// # Errors
    /// An axis that the input does not have, or indices that are not whole numbers.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let (x, indices) = (call.tensor(0)?, call.tensor(1)?);
        if !matches!(indices.dtype.as_str(), "int32" | "int64") {
            return Err(OpsError::Dtype {
                op_type: call.op_type(),
                name: "indices",
                expected: "int32 or int64".to_owned(),
                found: indices.dtype.clone(),
            });
        }
        if call.int("batch_dims")? != 0 {
            return Err(call.attr_value("batch_dims", "0", call.int("batch_dims")?));
        }
        let at = one_axis(call, "axis", call.value(2)?, &x.shape)?;
        let product = |dims: &[i64]| dims.iter().map(|dim| dim.unsigned_abs()).product();
        let (before, after) = (&x.shape[..at], &x.shape[at + 1..]);
        Ok(Self {
            outer: product(before),
            size: x.shape[at].unsigned_abs(),
            inner: product(after),
            indices: product(&indices.shape),
            negative: call.boolean("negative_index_support")?,
            output: [before, &indices.shape, after].concat(),
        })
    }
}

/// A `StridedSliceV2` for code generators: along each dimension, `count` elements from `start` on, `step` apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The input's dimensions.
    pub input: Vec<u64>,
    /// The first element that is taken; arbitrary if none is.
    pub start: Vec<u64>,
    /// The number of elements that are taken.
    pub count: Vec<u64>,
    /// Their distance, backwards if negative.
    pub step: Vec<i64>,
}

impl Slice {
    /// The slice that `call` describes.
    ///
    /// # Errors
    /// Bounds that do not fit the input, or masks.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let shape = &call.tensor(0)?.shape;
        for mask in ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"] {
            if call.int(mask)? != 0 {
                return Err(call.attr_value(mask, "0", call.int(mask)?));
            }
        }
        let (begin, end) = (call.values(1)?, call.values(2)?);
        let along = match call.optional(3) {
            Some(_) => call.values(3)?,
            None => (0..begin.len()).map(|at| at as i64).collect(),
        };
        let steps = match call.optional(4) {
            Some(_) => call.values(4)?,
            None => vec![1; begin.len()],
        };
        let alike = [end.len(), along.len(), steps.len()].iter().all(|len| *len == begin.len());
        if !alike {
            let problem = "`begin`, `end`, `axes` and `strides` differ in their number of values";
            return Err(call.misfit(problem));
        }
        let input = dims(shape);
        let mut slice =
            Self { start: vec![0; input.len()], step: vec![1; input.len()], count: input.clone(), input };
        let mut seen = vec![false; shape.len()];
        for (at, axis) in along.into_iter().enumerate() {
            let dim = one_axis(call, "axis", axis, shape)?;
            if steps[at] == 0 || std::mem::replace(&mut seen[dim], true) {
                let problem = format!("axis {axis} is sliced with step {}, or more than once", steps[at]);
                return Err(call.misfit(problem));
            }
            let (start, count) = slice_range(begin[at], end[at], steps[at], shape[dim]);
            (slice.start[dim], slice.count[dim], slice.step[dim]) = (start, count, steps[at]);
        }
        Ok(slice)
    }

    /// The output's shape.
    pub fn output(&self) -> Vec<i64> {
        self.count.iter().map(|count| count.cast_signed()).collect()
    }
}

/// The start and the number of elements of a slice of a dimension of `size` elements; `step` is not 0. Bounds beyond
/// the dimension are clamped; negative ones count from its end.
pub fn slice_range(begin: i64, end: i64, step: i64, size: i64) -> (u64, u64) {
    // 128 bits, so that nothing overflows.
    let (size, step) = (i128::from(size), i128::from(step));
    let from_start = |bound: i64| if bound < 0 { i128::from(bound) + size } else { i128::from(bound) };
    let (least, most) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let (begin, end) = (from_start(begin).clamp(least, most), from_start(end).clamp(least, most));
    let count = if step > 0 { (end - begin + step - 1) / step } else { (begin - end - step - 1) / -step };
    (u64::try_from(begin).unwrap_or(0), u64::try_from(count).unwrap_or(0))
}

/// The values with which a `PadV3` or `MirrorPad` fills the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// The third input, or zero if it is omitted.
    Constant,
    /// The elements mirrored at the edge, without the outermost element.
    Reflect,
    /// The elements mirrored at the edge, with the outermost element.
    Symmetric,
    /// The outermost element.
    Edge,
}

/// A padding for code generators. Negative pads remove elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pad {
    /// The values at the edge.
    pub mode: PadMode,
    /// The input's dimensions.
    pub input: Vec<u64>,
    /// Elements added before each dimension.
    pub before: Vec<i64>,
    /// The output's shape.
    pub output: Vec<i64>,
}

impl Pad {
    /// The padding that `call` describes.
    ///
    /// # Errors
    /// Pads that do not fit the input.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let shape = &call.tensor(0)?.shape;
        let mode = match call.text("mode")?.to_ascii_lowercase().as_str() {
            "constant" if call.spec().op_type == "PadV3" => PadMode::Constant,
            "reflect" => PadMode::Reflect,
            "symmetric" => PadMode::Symmetric,
            "edge" => PadMode::Edge,
            other => return Err(call.attr_value("mode", "constant, reflect, symmetric or edge", other)),
        };
        let pads = call.values(1)?;
        if pads.len() != 2 * shape.len() {
            let problem = format!("`paddings` must have two values a dimension of {shape:?}, found {pads:?}");
            return Err(call.misfit(problem));
        }
        // In pairs, or first all before the dimensions and then all after them.
        let pairs = call.spec().op_type != "PadV3" || call.boolean("paddings_contiguous")?;
        let pad = |at: usize| match pairs {
            true => (pads[2 * at], pads[2 * at + 1]),
            false => (pads[at], pads[at + shape.len()]),
        };
        let mut padded = Self { mode, input: dims(shape), before: Vec::new(), output: Vec::new() };
        for (at, dim) in shape.iter().enumerate() {
            let (before, after) = pad(at);
            let size = dim.checked_add(before).and_then(|size| size.checked_add(after));
            let reach = match mode {
                PadMode::Constant => i64::MAX,
                PadMode::Reflect => (*dim - 1).max(0),
                PadMode::Symmetric => *dim,
                PadMode::Edge if *dim > 0 => i64::MAX,
                PadMode::Edge => 0,
            };
            let fits = before <= reach && after <= reach;
            let size = size.filter(|size| *size >= 0 && fits).ok_or_else(|| {
                call.misfit(format!(
                    "pads {before} and {after} do not fit dimension {at} of {shape:?} ({mode:?})"
                ))
            })?;
            padded.before.push(before);
            padded.output.push(size);
        }
        Ok(padded)
    }
}

/// The axis of a `Split` or `SplitV`, and the size of each piece.
///
/// # Errors
/// The sizes do not add up to the dimension.
pub fn pieces(call: &Call<'_>) -> Result<(usize, Vec<i64>), OpsError> {
    let count = call.int("num_split")?;
    let even = call.spec().op_type == "Split";
    let (x, dim) = if even { (1, 0) } else { (0, 2) };
    let shape = &call.tensor(x)?.shape;
    let at = one_axis(call, "split_dim", call.value(dim)?, shape)?;
    let sizes = match (even, usize::try_from(count)) {
        // More pieces than elements make no sense.
        (true, Ok(pieces))
            if count >= 1 && shape[at] % count == 0 && (count <= shape[at] || shape[at] == 0) =>
        {
            if count > 1 << 16 {
                return Err(call.attr_value("num_split", "at most 65536", count));
            }
            vec![shape[at] / count; pieces]
        }
        (false, Ok(pieces)) => {
            Some(call.values(1)?).filter(|sizes| sizes.len() == pieces).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let sum = sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size).filter(|_| *size >= 0));
    if sizes.is_empty() || sum != Some(shape[at]) {
        let sizes = if even { String::new() } else { format!(" of sizes {sizes:?}") };
        return Err(call.misfit(format!(
            "dimension {at} of {shape:?} does not consist of {count}{sizes}",
            count = counted(count, "piece")
        )));
    }
    Ok((at, sizes))
}

/// The number of repetitions of each dimension by a `Tile`.
///
/// # Errors
/// The number of values differs from that of the input's dimensions.
pub fn multiples(call: &Call<'_>) -> Result<Vec<u64>, OpsError> {
    let shape = &call.tensor(0)?.shape;
    let given = call.values(1)?;
    let multiples: Option<Vec<u64>> = given.iter().map(|times| u64::try_from(*times).ok()).collect();
    multiples
        .filter(|multiples| multiples.len() == shape.len())
        .ok_or_else(|| call.misfit(format!("multiples {given:?} do not fit {shape:?}")))
}
