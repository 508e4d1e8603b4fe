//! Operators that move elements, each against a loop over the indices of its output.

use opkeep_descriptor::Attr;
use opkeep_ops::{bool_attr, dtype_bytes, int_attr, str_attr};

use crate::movement_and_reduction::case::{Case, Node, Rng, count, indices, offset, same};

/// One type of each size, and then the others.
const DTYPES: [&str; 14] = [
    "float32",
    "bool",
    "int64",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "uint64",
    "float64",
    "bfloat16",
    "complex64",
];

/// For each index along a dimension of the output, the index in the input.
type Axis = Vec<Option<i64>>;

/// The bytes of an output whose dimensions are mapped independently; `fill` for elements without a source.
fn seen(shape: &[i64], bytes: &[u8], axes: &[Axis], fill: &[u8]) -> Vec<u8> {
    let size = fill.len();
    let output: Vec<i64> = axes.iter().map(|axis| axis.len() as i64).collect();
    let mut made = Vec::new();
    for index in indices(&output) {
        let source: Option<Vec<i64>> = index.iter().zip(axes).map(|(at, axis)| axis[*at as usize]).collect();
        match source {
            Some(source) => {
                let from = offset(shape, &source) * size;
                made.extend_from_slice(&bytes[from..from + size]);
            }
            None => made.extend_from_slice(fill),
        }
    }
    made
}

/// A tensor with bytes.
struct Tensor {
    dtype: &'static str,
    size: usize,
    shape: Vec<i64>,
    bytes: Vec<u8>,
}

fn tensor(rng: &mut Rng, dtype: &'static str, shape: &[i64]) -> Tensor {
    let size = dtype_bytes(dtype).unwrap();
    let mut bytes = rng.bytes(count(shape) * size);
    if dtype == "bool" {
        bytes.iter_mut().for_each(|byte| *byte &= 1);
    }
    Tensor { dtype, size, shape: shape.to_vec(), bytes }
}

impl Tensor {
    fn node(&self) -> Node {
        Node::new().tensor(self.dtype, &self.shape, &self.bytes)
    }

    fn zero(&self) -> Vec<u8> {
        vec![0; self.size]
    }

    /// The case whose output is this tensor, mapped along `axes`.
    fn seen_as(&self, node: Node, op_type: &str, attrs: &[Attr], axes: &[Axis], fill: &[u8]) -> Case {
        let expected = vec![seen(&self.shape, &self.bytes, axes, fill)];
        node.case(op_type, attrs, move |found| same(&expected, found))
    }
}

/// A different type each time.
fn dtype(at: usize) -> &'static str {
    DTYPES[at % DTYPES.len()]
}

pub(crate) fn transposes() -> Vec<Case> {
    let mut rng = Rng::new(1);
    let mut cases = Vec::new();
    let mut shapes: Vec<Vec<i64>> = (0..40).map(|at| rng.shape(1 + at % 5, 6)).collect();
    // Shapes of more than a tile, with remainders; narrow ones; blocks that several threads share; empty ones.
    shapes.extend([vec![70, 45], vec![3, 2000], vec![2000, 3], vec![2, 33, 65, 3], vec![9, 5, 400, 2]]);
    shapes.extend([vec![300, 310], vec![2, 0, 3], vec![1, 1, 7], vec![40, 1, 50]]);
    for (at, shape) in shapes.iter().enumerate() {
        let perm = if at % 9 == 8 { (0..shape.len()).rev().collect() } else { rng.shuffled(shape.len()) };
        let x = tensor(&mut rng, dtype(at), shape);
        // Counted from the end as well.
        let given: Vec<i64> =
            perm.iter().map(|at| *at as i64 - (rng.int(0, 1) * shape.len() as i64)).collect();
        let output: Vec<i64> = perm.iter().map(|at| shape[*at]).collect();
        let mut expected = vec![0; x.bytes.len()];
        for index in indices(shape) {
            let moved: Vec<i64> = perm.iter().map(|at| index[*at]).collect();
            let (from, to) = (offset(shape, &index) * x.size, offset(&output, &moved) * x.size);
            expected[to..to + x.size].copy_from_slice(&x.bytes[from..from + x.size]);
        }
        let expected = vec![expected];
        cases.push(x.node().known(&given).case("Transpose", &[], move |found| same(&expected, found)));
    }
    cases
}

/// Pieces with these `sizes` along `axis` of a tensor, each with its bytes.
fn pieces_of(x: &Tensor, axis: usize, sizes: &[i64]) -> Vec<(Vec<i64>, Vec<u8>)> {
    let mut begin = 0;
    let piece = |size: &i64| {
        let whole = |dim: &i64| (0..*dim).map(Some).collect::<Axis>();
        let mut axes: Vec<Axis> = x.shape.iter().map(whole).collect();
        axes[axis] = (begin..begin + size).map(Some).collect();
        begin += size;
        let mut shape = x.shape.clone();
        shape[axis] = *size;
        (shape, seen(&x.shape, &x.bytes, &axes, &x.zero()))
    };
    sizes.iter().map(piece).collect()
}

pub(crate) fn concats_and_splits() -> Vec<Case> {
    let mut rng = Rng::new(2);
    let mut cases = Vec::new();
    for at in 0..30 {
        let mut shape = rng.shape(1 + at % 4, 5);
        let axis = rng.int(0, shape.len() as i64 - 1) as usize;
        let sizes: Vec<i64> = match at {
            // Long rows, many short rows, and one piece.
            0 => vec![70_000, 1, 5, 30_000],
            1 => vec![7],
            _ => (0..rng.int(1, 6)).map(|_| rng.int(0, 4)).collect(),
        };
        if at == 2 {
            shape[0] = if shape.len() > 1 { 20_000 } else { shape[0] };
        }
        shape[axis] = sizes.iter().sum();
        let x = tensor(&mut rng, dtype(at), &shape);
        let pieces = pieces_of(&x, axis, &sizes);
        let named = axis as i64 - rng.int(0, 1) * shape.len() as i64;

        let mut node = Node::new();
        for (shape, bytes) in &pieces {
            node = node.tensor(x.dtype, shape, bytes);
        }
        let attrs = [int_attr("concat_dim", named), int_attr("N", sizes.len() as i64)];
        let whole = vec![x.bytes.clone()];
        cases.push(node.case("ConcatD", &attrs, move |found| same(&whole, found)));

        let parts: Vec<Vec<u8>> = pieces.into_iter().map(|(_, bytes)| bytes).collect();
        let attrs = [int_attr("num_split", sizes.len() as i64)];
        let node = x.node().known(&sizes).known(&[named]);
        cases.push(node.case("SplitV", &attrs, move |found| same(&parts, found)));

        let count = rng.int(1, 4);
        shape[axis] = count * rng.int(1, 3);
        let x = tensor(&mut rng, dtype(at + 1), &shape);
        let equal = vec![shape[axis] / count; count as usize];
        let parts: Vec<Vec<u8>> = pieces_of(&x, axis, &equal).into_iter().map(|(_, bytes)| bytes).collect();
        let node = Node::new().known(&[named]).tensor(x.dtype, &x.shape, &x.bytes);
        cases.push(node.case("Split", &[int_attr("num_split", count)], move |found| same(&parts, found)));
    }
    cases
}

pub(crate) fn gathers() -> Vec<Case> {
    let mut rng = Rng::new(3);
    let mut cases = Vec::new();
    for at in 0..32 {
        let mut shape = rng.shape(1 + at % 4, 6);
        let mut index_shape = rng.shape(at % 3 + usize::from(at < 3), 4);
        let mut axis = rng.int(0, shape.len() as i64 - 1) as usize;
        match at {
            // Rows of more than a block, many rows of one element, and empty ones.
            0 => (shape, axis) = (vec![3, 40_000], 0),
            1 => (shape, index_shape, axis) = (vec![50], vec![70_000], 0),
            2 => shape[axis] = 0,
            _ => {}
        }
        let (size, negative) = (shape[axis], at % 2 == 0);
        let x = tensor(&mut rng, dtype(at), &shape);
        // Also indices out of range, whose elements are zero.
        let given = |rng: &mut Rng| match rng.int(0, 9) {
            0 => [i64::from(i32::MIN), i64::from(i32::MAX), size, -size - 1][rng.int(0, 3) as usize],
            _ => rng.int(-size, size.max(1) - 1),
        };
        let numbers: Vec<i64> = (0..count(&index_shape)).map(|_| given(&mut rng)).collect();
        let (kind, bytes): (_, Vec<u8>) = match at % 3 {
            0 => ("int32", numbers.iter().flat_map(|number| (*number as i32).to_ne_bytes()).collect()),
            _ => ("int64", numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()),
        };
        let item = |number: i64| match number {
            number if number < 0 && negative => Some(number + size).filter(|item| *item >= 0),
            number if (0..size).contains(&number) => Some(number),
            _ => None,
        };
        // The indices in one dimension, and then in their own shape.
        let mut axes: Vec<Vec<Option<i64>>> = shape.iter().map(|dim| (0..*dim).map(Some).collect()).collect();
        axes[axis] = numbers.iter().map(|number| item(*number)).collect();
        let attrs = [bool_attr("negative_index_support", negative)];
        // A scalar is described as one element.
        let index_shape = if index_shape.is_empty() { vec![1] } else { index_shape };
        let node = x.node().tensor(kind, &index_shape, &bytes).known(&[axis as i64]);
        cases.push(x.seen_as(node, "GatherV2", &attrs, &axes, &x.zero()));
    }
    cases
}

/// The elements of Python's `range(size)[begin:end:step]`.
fn sliced(size: i64, begin: i64, end: i64, step: i64) -> Axis {
    let place = |bound: i64| if bound < 0 { i128::from(bound) + i128::from(size) } else { i128::from(bound) };
    let (mut at, end) = (place(begin), place(end));
    if step > 0 {
        at = at.max(0);
    } else {
        at = at.min(i128::from(size) - 1);
    }
    let mut places = Vec::new();
    while (0..i128::from(size)).contains(&at) && if step > 0 { at < end } else { at > end } {
        places.push(Some(at as i64));
        at += i128::from(step);
    }
    places
}

/// Begin, end and step, usually of a slice that is not empty.
fn some_of(rng: &mut Rng, size: i64) -> (i64, i64, i64) {
    const STEPS: [i64; 10] = [1, 1, 2, 3, -1, -1, -2, -3, i64::MAX, i64::MIN];
    let step = STEPS[rng.int(0, 9) as usize];
    if rng.int(0, 9) == 0 {
        return (rng.int(-size - 2, size + 2), rng.int(-size - 2, size + 2), step);
    }
    let (low, high) = (rng.int(0, size / 3), rng.int(size / 2 + 1, size + 1));
    // The same index counted from the end, or an index out of range, which is clamped.
    let from_end = |rng: &mut Rng, place: i64| if rng.int(0, 1) == 0 { place - size } else { place };
    match step > 0 {
        true => {
            let end =
                if high > size { [i64::MAX, i64::from(i32::MAX)][rng.int(0, 1) as usize] } else { high };
            (from_end(rng, low), end, step)
        }
        false => {
            let end = if low == 0 { [i64::MIN, -size - 1][rng.int(0, 1) as usize] } else { low - 1 };
            (from_end(rng, high - 1), end, step)
        }
    }
}

pub(crate) fn slices() -> Vec<Case> {
    let mut rng = Rng::new(4);
    let mut cases = Vec::new();
    for at in 0..45 {
        let shape = match at {
            0 => vec![3, 70_001],
            1 => vec![20_000, 2, 4],
            2 => vec![100_000],
            _ => rng.shape(1 + at % 4, 9),
        };
        let x = tensor(&mut rng, dtype(at), &shape);
        let mut axes: Vec<Axis> = shape.iter().map(|dim| (0..*dim).map(Some).collect()).collect();
        let chosen: Vec<usize> =
            rng.shuffled(shape.len())[..rng.int(1, shape.len() as i64) as usize].to_vec();
        let (mut begin, mut end, mut step) = (Vec::new(), Vec::new(), Vec::new());
        for axis in &chosen {
            let size = shape[*axis];
            let (first, last, by) = match at {
                0..3 => (rng.int(0, 1), i64::MAX, 1 + at as i64),
                _ => some_of(&mut rng, size),
            };
            begin.push(first);
            end.push(last);
            step.push(by);
            axes[*axis] = sliced(size, begin[begin.len() - 1], end[end.len() - 1], step[step.len() - 1]);
        }
        let named: Vec<i64> =
            chosen.iter().map(|axis| *axis as i64 - rng.int(0, 1) * shape.len() as i64).collect();
        let node = x.node().known(&begin).known(&end).known(&named).known(&step);
        cases.push(x.seen_as(node, "StridedSliceV2", &[], &axes, &x.zero()));
    }
    // Without axes and strides: the first dimensions, one by one.
    let x = tensor(&mut rng, "float32", &[5, 6, 7]);
    let axes = [sliced(5, 1, 4, 1), sliced(6, -3, 6, 1), (0..7).map(Some).collect()];
    cases.push(x.seen_as(x.node().known(&[1, -3]).known(&[4, 6]), "StridedSliceV2", &[], &axes, &[0; 4]));
    let steps = [sliced(5, 4, 0, -2), sliced(6, 0, 6, 5), (0..7).map(Some).collect()];
    let node = x.node().known(&[4, 0]).known(&[0, 6]).absent().known(&[-2, 5]);
    cases.push(x.seen_as(node, "StridedSliceV2", &[], &steps, &[0; 4]));
    cases
}

/// The indices along a padded dimension, with the padding added element by element.
fn padded(size: i64, before: i64, after: i64, mode: &str) -> Axis {
    let mut places: Axis = (0..size).map(Some).collect();
    let far = |distance: i64, last: bool| match mode {
        "reflect" => Some(if last { size - 1 - distance } else { distance }),
        "symmetric" => Some(if last { size - distance } else { distance - 1 }),
        "edge" => Some(if last { size - 1 } else { 0 }),
        _ => None,
    };
    for distance in 1..=after {
        places.push(far(distance, true));
    }
    for distance in 1..=before {
        places.insert(0, far(distance, false));
    }
    let cut = |pad: i64| if pad < 0 { -pad as usize } else { 0 };
    let kept = places.len().saturating_sub(cut(after));
    places.truncate(kept);
    places.drain(..cut(before));
    places
}

pub(crate) fn pads() -> Vec<Case> {
    let mut rng = Rng::new(5);
    let mut cases = Vec::new();
    for at in 0..60 {
        let mode = ["constant", "reflect", "symmetric", "edge"][at % 4];
        let shape = match at {
            0 => vec![3, 40_000],
            1 => vec![2, 66_000],
            2 => vec![300, 2, 90],
            3 => vec![20_000, 3],
            _ => rng.shape(1 + at % 5, 5),
        };
        let x = tensor(&mut rng, dtype(at / 4), &shape);
        let pad = |rng: &mut Rng, size: i64| {
            let most = match mode {
                "reflect" => size - 1,
                "symmetric" => size,
                _ => 4,
            };
            if rng.int(0, 2) == 0 { 0 } else { rng.int(-1, most.min(4)) }
        };
        let pairs: Vec<(i64, i64)> = shape
            .iter()
            .map(|size| (pad(&mut rng, *size), pad(&mut rng, *size)))
            .zip(&shape)
            .map(|((before, after), size)| if before + after + size < 0 { (0, 0) } else { (before, after) })
            .collect();
        let axes: Vec<Axis> = shape
            .iter()
            .zip(&pairs)
            .map(|(size, (before, after))| padded(*size, *before, *after, mode))
            .collect();
        let contiguous = at % 3 == 0;
        let given: Vec<i64> = match contiguous {
            true => pairs.iter().flat_map(|(before, after)| [*before, *after]).collect(),
            false => pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect(),
        };
        let attrs = [str_attr("mode", mode), bool_attr("paddings_contiguous", contiguous)];
        let value = rng.bytes(x.size);
        let node = x.node().known(&given);
        cases.push(match mode == "constant" && at % 8 != 0 {
            true => x.seen_as(node.tensor(x.dtype, &[1], &value), "PadV3", &attrs, &axes, &value),
            false => x.seen_as(node, "PadV3", &attrs, &axes, &x.zero()),
        });
        if mode == "reflect" || mode == "symmetric" {
            let given: Vec<i64> = pairs.iter().flat_map(|(before, after)| [*before, *after]).collect();
            let attrs = [str_attr("mode", &mode.to_uppercase())];
            cases.push(x.seen_as(x.node().known(&given), "MirrorPad", &attrs, &axes, &x.zero()));
        }
    }
    // Nothing remains of the input, and the input is empty.
    let x = tensor(&mut rng, "int16", &[4, 3]);
    let axes = [vec![None; 5], (0..3).map(Some).collect()];
    cases.push(x.seen_as(x.node().known(&[-9, 10, 0, 0]), "PadV3", &[], &axes, &[0, 0]));
    let x = tensor(&mut rng, "float32", &[2, 0]);
    let axes = [vec![Some(0), Some(1)], vec![None; 3]];
    cases.push(x.seen_as(x.node().known(&[0, 0, 1, 2]), "PadV3", &[], &axes, &[0; 4]));
    cases
}

pub(crate) fn repeats() -> Vec<Case> {
    let mut rng = Rng::new(6);
    let mut cases = Vec::new();
    for at in 0..24 {
        let shape = if at == 0 { vec![2, 3, 11] } else { rng.shape(1 + at % 4, 4) };
        let x = tensor(&mut rng, dtype(at), &shape);
        let times: Vec<i64> = match at {
            0 => vec![5, 200, 3],
            _ => shape.iter().map(|_| rng.int(i64::from(at % 6 != 0), 3)).collect(),
        };
        let axis = |(dim, times): (&i64, &i64)| (0..dim * times).map(|at| Some(at % dim)).collect::<Axis>();
        let axes: Vec<Axis> = shape.iter().zip(&times).map(axis).collect();
        cases.push(x.seen_as(x.node().known(&times), "Tile", &[], &axes, &x.zero()));

        // Some dimensions of 1, and new ones before them.
        let shape: Vec<i64> = shape.iter().map(|dim| if rng.int(0, 1) == 0 { 1 } else { *dim }).collect();
        let x = tensor(&mut rng, dtype(at + 5), &shape);
        let wide: Vec<i64> = shape.iter().map(|dim| if *dim == 1 { rng.int(1, 9) } else { *dim }).collect();
        let new = rng.shape(at % 3, 4);
        let to = [&new[..], &wide[..]].concat();
        let aligned = [&vec![1; new.len()][..], &shape[..]].concat();
        let axis = |(to, from): (&i64, &i64)| (0..*to).map(|at| Some(at % from)).collect::<Axis>();
        let axes: Vec<Axis> = to.iter().zip(&aligned).map(axis).collect();
        let op_type = if at % 2 == 0 { "BroadcastTo" } else { "Expand" };
        let expected = vec![seen(&aligned, &x.bytes, &axes, &x.zero())];
        cases.push(x.node().known(&to).case(op_type, &[], move |found| same(&expected, found)));

        let dims = rng.shape(at % 4, 60);
        let value = rng.bytes(x.size);
        let expected = vec![value.repeat(count(&dims))];
        let node = Node::new().known(&dims).tensor(x.dtype, &[1], &value);
        cases.push(node.case("Fill", &[], move |found| same(&expected, found)));

        let expected = vec![x.bytes.clone()];
        cases.push(x.node().case("TensorMove", &[], move |found| same(&expected, found)));
    }
    cases
}

/// The condition and both choices, each of another shape.
pub(crate) fn selects() -> Vec<Case> {
    let mut rng = Rng::new(7);
    let mut cases = Vec::new();
    for (at, dtype) in DTYPES.into_iter().enumerate() {
        let output = if at == 0 { vec![3, 50, 700] } else { rng.shape(1 + at % 4, 5) };
        let narrowed = |rng: &mut Rng| -> Vec<i64> {
            let skipped = rng.int(0, output.len() as i64 - 1) as usize;
            output[skipped..].iter().map(|dim| if rng.int(0, 2) == 0 { 1 } else { *dim }).collect()
        };
        let (condition, then) = (narrowed(&mut rng), narrowed(&mut rng));
        let condition = tensor(&mut rng, "bool", &condition);
        let then = tensor(&mut rng, dtype, &then);
        let other = tensor(&mut rng, dtype, &output);
        let element = |tensor: &Tensor, index: &[i64]| {
            let own = &index[index.len() - tensor.shape.len()..];
            let own: Vec<i64> = own.iter().zip(&tensor.shape).map(|(at, dim)| at % dim).collect();
            let from = offset(&tensor.shape, &own) * tensor.size;
            tensor.bytes[from..from + tensor.size].to_vec()
        };
        let choose = |index: &Vec<i64>| match element(&condition, index)[0] {
            0 => element(&other, index),
            _ => element(&then, index),
        };
        let expected = vec![indices(&output).iter().flat_map(choose).collect::<Vec<u8>>()];
        let node =
            condition.node().tensor(dtype, &then.shape, &then.bytes).tensor(dtype, &output, &other.bytes);
        cases.push(node.case("SelectV2", &[], move |found| same(&expected, found)));
    }
    cases
}
