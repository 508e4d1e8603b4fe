//! From a job to C.
//!
//! One generator serves every elementwise operator: an expression from the table in `expression.rs`, in a loop over
//! the output's elements. Dimensions that broadcast alike are merged first, so the common case is one plain loop that
//! compilers vectorise.

use std::fmt::Write as _;

use opbuild_backend::{BackendError, Unsupported};
use opbuild_descriptor::{Arg, Job, Op, Source, Tensor};
use opbuild_ops::OpSpec;

use crate::LAUNCH_ABI;
use crate::expression::expression;

/// About how many elements one block computes: small enough to spread over threads, large enough to be worth it.
const GRAIN: u64 = 32 * 1024;
/// The most blocks of a launch, the vendor's bound for `blockDim`.
const MAX_BLOCKS: u64 = 65_535;

/// Generated C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The text of the file.
    pub text: String,
    /// How many blocks a launch has.
    pub blocks: u32,
}

/// The C for `job`, with `symbol` as the kernel's function; `overrides` may replace an operator's expression.
///
/// # Errors
/// [`BackendError::Unsupported`], for a job that this backend has no code for.
pub fn generate(
    job: &Job,
    symbol: &str,
    overrides: impl Fn(&str) -> Option<String>,
) -> Result<Generated, BackendError> {
    let [op] = job.ops.as_slice() else {
        return Err(Unsupported::Fused { backend: "cpu", ops: job.ops.len() }.into());
    };
    let spec = checked(op)?;
    let value = match overrides(&op.op_type) {
        Some(value) => value,
        None => expression(spec, op)?,
    };
    let operands = operands(job, op)?;
    let output = op.outputs[0].iter().next().ok_or_else(|| not_one_tensor(op))?;
    let loops = Loops::new(&output.shape, &operands);
    let text = render(symbol, op, output, &operands, &loops, &value);
    Ok(Generated { text, blocks: loops.blocks() as u32 })
}

/// The row of an operator that there can be code for; else the most telling reason.
fn checked(op: &Op) -> Result<&'static OpSpec, Unsupported> {
    let op_type = || op.op_type.clone();
    let spec = OpSpec::of(op).map_err(|_| Unsupported::Op { backend: "cpu", op_type: op_type() })?;
    let inputs = || op.inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor);
    let mut tensors = inputs().chain(op.outputs.iter().flat_map(Arg::iter));
    if let Some(tensor) = tensors.find(|tensor| tensor.shape.iter().any(|dim| *dim < 0)) {
        let shape = tensor.shape.clone();
        return Err(Unsupported::DynamicShape { backend: "cpu", op_type: op_type(), shape });
    }
    if let Some(input) = inputs().find(|input| input.dtype != "float32") {
        let dtype = input.dtype.clone();
        return Err(Unsupported::Dtype { backend: "cpu", op_type: op_type(), dtype, known: "float32" });
    }
    spec.check(op)?;
    Ok(spec)
}

/// An input of the operator.
struct Operand<'a> {
    /// What the expression calls it.
    name: &'static str,
    /// Which of the kernel's inputs it is.
    argument: usize,
    tensor: &'a Tensor,
}

fn operands<'a>(job: &Job, op: &'a Op) -> Result<Vec<Operand<'a>>, BackendError> {
    let names: &[&str] = if op.inputs.len() == 1 { &["x"] } else { &["a", "b"] };
    let mut operands = Vec::new();
    for (input, name) in op.inputs.iter().flat_map(Arg::iter).zip(names) {
        let Source::Data { data, tensor } = input.source else {
            let problem = "one of its inputs is fed by nothing in the descriptor".to_owned();
            return Err(Unsupported::Other { backend: "cpu", op_type: op.op_type.clone(), problem }.into());
        };
        // What is launched with is checked against the data, what is read follows the operator: they must agree.
        let fed = job.data.get(data).and_then(|data| data.outputs.iter().flat_map(Arg::iter).nth(tensor));
        if fed.is_none_or(|fed| (&fed.dtype, &fed.shape) != (&input.tensor.dtype, &input.tensor.shape)) {
            let show = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
            let (takes, fed) = (show(&input.tensor), fed.map_or("nothing".to_owned(), show));
            let problem = format!("its input `{name}` is {takes}, but what feeds it is {fed}");
            return Err(Unsupported::Other { backend: "cpu", op_type: op.op_type.clone(), problem }.into());
        }
        let before = job.data[..data].iter().flat_map(|data| &data.outputs).flat_map(Arg::iter).count();
        operands.push(Operand { name, argument: before + tensor, tensor: &input.tensor });
    }
    Ok(operands)
}

fn not_one_tensor(op: &Op) -> BackendError {
    let problem = "its output is not one tensor".to_owned();
    Unsupported::Other { backend: "cpu", op_type: op.op_type.clone(), problem }.into()
}

/// The loop nest: rows of equal length, each row one run through memory for every operand.
#[derive(Debug, PartialEq)]
struct Loops {
    /// Merged dimensions of the output, the last one the length of a row.
    dims: Vec<u64>,
    /// For each operand, the elements that one step in each dimension moves.
    strides: Vec<Vec<u64>>,
    /// A row is computed in this many pieces,
    pieces: u64,
    /// each of this many elements, the last one possibly shorter.
    piece: u64,
    /// Pieces that one block computes.
    per_block: u64,
}

impl Loops {
    fn new(output: &[i64], operands: &[Operand<'_>]) -> Self {
        let output: Vec<u64> = output.iter().map(|dim| dim.unsigned_abs()).collect();
        let aligned: Vec<Vec<u64>> =
            operands.iter().map(|operand| strides(&operand.tensor.shape, &output)).collect();

        // Merge a dimension into the one before it where every operand runs on without a jump.
        let mut dims: Vec<u64> = Vec::new();
        let mut merged: Vec<Vec<u64>> = vec![Vec::new(); operands.len()];
        for (axis, dim) in output.iter().enumerate().filter(|(_, dim)| **dim != 1) {
            let runs_on = dims.last().is_some()
                && merged.iter().zip(&aligned).all(|(merged, aligned)| {
                    merged.last().is_some_and(|outer| *outer == aligned[axis] * dim)
                });
            if runs_on && let Some(last) = dims.last_mut() {
                *last *= dim;
                merged.iter_mut().zip(&aligned).for_each(|(merged, aligned)| {
                    merged.pop();
                    merged.push(aligned[axis]);
                });
            } else {
                dims.push(*dim);
                merged.iter_mut().zip(&aligned).for_each(|(merged, aligned)| merged.push(aligned[axis]));
            }
        }
        if dims.is_empty() {
            dims.push(1);
            merged.iter_mut().for_each(|strides| strides.push(1));
        }

        let row = dims.last().copied().unwrap_or(1);
        let piece = row.clamp(1, GRAIN);
        let pieces = row.div_ceil(piece);
        let total = dims[..dims.len() - 1].iter().product::<u64>() * pieces;
        let per_block = (GRAIN / piece).max(total.div_ceil(MAX_BLOCKS)).max(1);
        Self { dims, strides: merged, pieces, piece, per_block }
    }

    fn rows(&self) -> u64 {
        self.dims[..self.dims.len() - 1].iter().product()
    }

    fn total_pieces(&self) -> u64 {
        self.rows() * self.pieces
    }

    /// At least one, so that a launch of an empty tensor is still a launch.
    fn blocks(&self) -> u64 {
        self.total_pieces().div_ceil(self.per_block).max(1)
    }
}

/// Elements that one step in each dimension of `output` moves in a dense tensor of `shape`; 0 where it broadcasts.
fn strides(shape: &[i64], output: &[u64]) -> Vec<u64> {
    let mut strides = vec![0; output.len()];
    let mut step = 1;
    for (at, dim) in shape.iter().enumerate().rev() {
        let dim = dim.unsigned_abs();
        let axis = at + output.len() - shape.len();
        if dim != 1 || output[axis] == 1 {
            strides[axis] = step;
        }
        step *= dim;
    }
    strides
}

fn c_type(dtype: &str) -> &'static str {
    if dtype == "bool" { "unsigned char" } else { "float" }
}

fn render(
    symbol: &str,
    op: &Op,
    output: &Tensor,
    operands: &[Operand<'_>],
    loops: &Loops,
    value: &str,
) -> String {
    let mut c = String::new();
    let shapes: Vec<String> = operands.iter().map(|operand| format!("{:?}", operand.tensor.shape)).collect();
    let result = c_type(&output.dtype);
    // Writing to a String cannot fail.
    let _ = writeln!(
        c,
        "/* {}: {} -> {:?}, {}. Made by opbuild, launch ABI {LAUNCH_ABI}. */\n",
        op.op_type,
        shapes.join(", "),
        output.shape,
        output.dtype,
    );
    let signature = format!(
        "__attribute__((visibility(\"default\")))\n\
         void {symbol}(const void *const *inputs, void *const *outputs, void *workspace, unsigned long block)\n{{"
    );
    if output.shape.contains(&0) {
        let unused = "(void)inputs;\n    (void)outputs;\n    (void)workspace;\n    (void)block;";
        let _ = writeln!(c, "{signature}\n    {unused}\n}}");
        return c;
    }
    for (name, than) in [("max_f", '>'), ("min_f", '<')] {
        if value.contains(name) {
            let _ = writeln!(
                c,
                "static inline float {name}(float a, float b)\n{{\n    return a {than} b || a != a ? a : b;\n}}\n"
            );
        }
    }
    let parameters: Vec<String> = operands.iter().map(|operand| format!("float {}", operand.name)).collect();
    let parameters = parameters.join(", ");
    let unused: String = operands.iter().map(|operand| format!("    (void){};\n", operand.name)).collect();
    let _ =
        writeln!(c, "static inline {result} element({parameters})\n{{\n{unused}    return {value};\n}}\n");

    let _ = writeln!(c, "{signature}");
    for operand in operands {
        let _ =
            writeln!(c, "    const float *restrict {0}_data = inputs[{1}];", operand.name, operand.argument);
    }
    let _ = writeln!(c, "    {result} *restrict y_data = outputs[0];");
    let _ = writeln!(c, "    (void)workspace;");
    body(&mut c, operands, loops);
    c.push_str("}\n");
    c
}

/// The loops over this block's part of the output.
fn body(c: &mut String, operands: &[Operand<'_>], loops: &Loops) {
    let row = loops.dims.last().copied().unwrap_or(1);
    let bounds = |c: &mut String,
                  indent: &str,
                  begin: &str,
                  end: &str,
                  from: &str,
                  count: u64,
                  limit: u64| {
        let _ = writeln!(c, "{indent}const unsigned long {begin} = {from} * {count}ul;");
        let _ = writeln!(
            c,
            "{indent}const unsigned long {end} = {begin} + {count}ul < {limit}ul ? {begin} + {count}ul : {limit}ul;"
        );
    };
    let items: Vec<String> = operands
        .iter()
        .zip(&loops.strides)
        .map(|(operand, strides)| match (loops.rows(), strides.last()) {
            (1, Some(0)) => format!("{}_data[0]", operand.name),
            (1, _) => format!("{}_data[i]", operand.name),
            (_, Some(0)) => format!("{}[0]", operand.name),
            _ => format!("{}[i]", operand.name),
        })
        .collect();
    let items = items.join(", ");
    if loops.rows() == 1 {
        bounds(c, "    ", "begin", "end", "block", loops.piece * loops.per_block, row);
        let _ = writeln!(c, "    for (unsigned long i = begin; i < end; i++)");
        let _ = writeln!(c, "        y_data[i] = element({items});");
        return;
    }
    bounds(c, "    ", "first", "last", "block", loops.per_block, loops.total_pieces());
    let (begin, end) = if loops.pieces == 1 {
        let _ = writeln!(c, "    for (unsigned long row = first; row < last; row++) {{");
        ("0".to_owned(), format!("{row}ul"))
    } else {
        let _ = writeln!(c, "    for (unsigned long piece = first; piece < last; piece++) {{");
        let _ = writeln!(c, "        const unsigned long row = piece / {}ul;", loops.pieces);
        let from = format!("piece % {}ul", loops.pieces);
        bounds(c, "        ", "begin", "end", &from, loops.piece, row);
        ("begin".to_owned(), "end".to_owned())
    };
    for (operand, strides) in operands.iter().zip(&loops.strides) {
        let start = row_start(&loops.dims, strides);
        let _ = writeln!(c, "        const float *restrict {0} = {0}_data{start};", operand.name);
    }
    let _ = writeln!(c, "        for (unsigned long i = {begin}; i < {end}; i++)");
    let _ = writeln!(c, "            y_data[row * {row}ul + i] = element({items});");
    c.push_str("    }\n");
}

/// Where a row begins in an operand, as terms over `row`.
fn row_start(dims: &[u64], strides: &[u64]) -> String {
    let mut text = String::new();
    let mut below = 1;
    let outer = dims.len() - 1;
    for axis in (0..outer).rev() {
        let index = match (axis, below) {
            (0, 1) => "row".to_owned(),
            (0, below) => format!("row / {below}ul"),
            (_, 1) => format!("row % {}ul", dims[axis]),
            (_, below) => format!("row / {below}ul % {}ul", dims[axis]),
        };
        match strides[axis] {
            0 => {}
            1 => text.push_str(&format!(" + {index}")),
            stride => text.push_str(&format!(" + {index} * {stride}ul")),
        }
        below *= dims[axis].max(1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(output: &[i64], inputs: &[&[i64]]) -> Loops {
        let tensors: Vec<Tensor> = inputs.iter().map(|shape| Tensor::new("float32", *shape)).collect();
        let operands: Vec<Operand<'_>> =
            tensors.iter().map(|tensor| Operand { name: "x", argument: 0, tensor }).collect();
        Loops::new(output, &operands)
    }

    #[test]
    fn dimensions_that_run_on_are_merged() {
        let plain = loops(&[2, 3, 4], &[&[2, 3, 4], &[2, 3, 4]]);
        assert_eq!((plain.dims, plain.strides), (vec![24], vec![vec![1], vec![1]]));
        let bias = loops(&[2, 3, 4], &[&[2, 3, 4], &[4]]);
        assert_eq!((bias.dims, bias.strides), (vec![6, 4], vec![vec![4, 1], vec![0, 1]]));
        let channel = loops(&[2, 3, 4, 5], &[&[2, 3, 4, 5], &[1, 3, 1, 1]]);
        assert_eq!(channel.dims, [2, 3, 20]);
        assert_eq!(channel.strides, [vec![60, 20, 1], vec![0, 1, 0]]);
        let scalar = loops(&[2, 3], &[&[2, 3], &[1]]);
        assert_eq!((scalar.dims, scalar.strides), (vec![6], vec![vec![1], vec![0]]));
    }

    #[test]
    fn blocks_depend_on_the_shape_alone_and_stay_within_bounds() {
        assert_eq!(loops(&[3], &[&[3]]).blocks(), 1);
        assert_eq!(loops(&[0], &[&[0]]).blocks(), 1);
        assert_eq!(loops(&[GRAIN as i64 * 3 + 1], &[&[GRAIN as i64 * 3 + 1]]).blocks(), 4);
        assert!(loops(&[1 << 40], &[&[1 << 40]]).blocks() <= MAX_BLOCKS);
        assert!(loops(&[1 << 40, 2], &[&[1 << 40, 1],]).blocks() <= MAX_BLOCKS);
    }
}
