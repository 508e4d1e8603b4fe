//! Matrix products as operators: which way a product is computed.
//!
//! The core of `gemm.rs` is for those in which every element is used often. Where few rows meet many, as in a fully
//! connected layer, it would take longer to lay out panels than to multiply; `small_gemm.rs` is for those.

use opkeep_backend::BackendError;
use opkeep_ops::{Call, MatMul};

use crate::codegen::code::{Args, Code, invalid};
use crate::codegen::gemm::{Parts, Product};
use crate::codegen::small_gemm::{Dots, Operands, Stream};
use crate::codegen::tiling::{check, pointers};

/// Scalar products are faster than panels for no more rows than this.
const FEW_DOTS: u64 = 16;
/// And so is reading the second matrix as it is.
const FEW_ROWS: u64 = 4;

/// The code of a `MatMulV2` or `BatchMatMulV2`.
pub(crate) fn matmul(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let matmul = MatMul::of(call).map_err(invalid)?;
    check(call, &matmul.output())?;
    let problem = Problem::of(matmul);
    let pointers = pointers(&[("x1", args.at(0)), ("x2", args.at(1)), ("bias", args.at(2))]);
    Ok(problem.code(pointers))
}

/// A product in its plainest form.
#[derive(Debug, PartialEq)]
struct Problem {
    /// The remaining repetitions.
    batch: Vec<u64>,
    /// In each batch dimension, the matrices that one step moves.
    steps: [Vec<u64>; 2],
    m: u64,
    k: u64,
    n: u64,
    /// The operands' rows (of the second one, its columns) run on along `k`.
    along: [bool; 2],
    bias: bool,
}

impl Problem {
    fn of(matmul: MatMul) -> Self {
        let MatMul {
            mut batch,
            left_steps,
            right_steps,
            mut m,
            k,
            n,
            left_transposed,
            right_transposed,
            bias,
        } = matmul;
        let mut steps = [left_steps, right_steps];
        // Where all batches share the second matrix, they are more rows of the first.
        let shared = batch.iter().zip(&steps[1]).all(|(dim, step)| *dim == 1 || *step == 0);
        if shared && (!left_transposed || m == 1) {
            m *= batch.drain(..).product::<u64>();
            steps = [Vec::new(), Vec::new()];
        }
        // A matrix of one row is stored as that of one column is.
        let along = [!left_transposed || matmul.m == 1, right_transposed || n == 1];
        Self { batch, steps, m, k, n, along, bias }
    }

    fn instances(&self) -> u64 {
        self.batch.iter().product()
    }

    /// The kernel.
    fn code(&self, pointers: String) -> Code {
        if self.along == [true, true] && self.m.min(self.n) <= FEW_DOTS {
            return self.dots(pointers);
        }
        // One column would leave most of a vector idle; turned around, the product has one row instead.
        let turned = self.n == 1;
        let (first, second) = if turned { (1, 0) } else { (0, 1) };
        let (rows, columns) = if turned { (1, self.m) } else { (self.m, self.n) };
        let start = match (self.bias, turned) {
            (false, _) => "0",
            (true, true) => "bias[0]",
            (true, false) => "bias[column + i]",
        };
        let (instances, depth, transposed) = (self.instances(), self.k, !self.along[first]);
        let (few, many) = (self.operand(first), self.operand(second));
        if rows <= FEW_ROWS && !self.along[second] {
            let operands = Operands { pointers, few, many };
            return Stream { instances, rows, depth, columns, transposed }.code(&operands, start);
        }
        Product { instances, rows, depth, columns, transposed }.code(Parts {
            before: String::new(),
            pack: match self.along[second] {
                true => include_str!("c/pack_transposed.c"),
                false => include_str!("c/pack_rows.c"),
            },
            pointers,
            first: few,
            second: many,
            start: start.to_owned(),
        })
    }

    fn dots(&self, pointers: String) -> Code {
        // The matrix of more rows is the one to be read once.
        let left_is_many = self.m > self.n;
        let (many, few) = if left_is_many { (0, 1) } else { (1, 0) };
        let sizes = [self.m, self.n];
        let steps = [self.n, 1];
        let dots = Dots {
            instances: self.instances(),
            few: sizes[few],
            many: sizes[many],
            depth: self.k,
            few_step: steps[few],
            many_step: steps[many],
        };
        let start = match (self.bias, left_is_many) {
            (false, _) => "0",
            (true, true) => "bias[f]",
            (true, false) => "bias[m]",
        };
        dots.code(&Operands { pointers, few: self.operand(few), many: self.operand(many) }, start)
    }

    /// The start of an operand in product number `instance`.
    fn operand(&self, at: usize) -> String {
        let (name, matrix) = [("x1", self.m * self.k), ("x2", self.k * self.n)][at];
        let index = index(&self.batch, &self.steps[at]);
        if index.is_empty() { name.to_owned() } else { format!("{name} + ({index}) * {matrix}l") }
    }
}

/// The number of a matrix, as terms over `instance`; empty if that is always 0.
fn index(dims: &[u64], steps: &[u64]) -> String {
    let mut terms = Vec::new();
    let mut below = 1;
    for (axis, (dim, step)) in dims.iter().zip(steps).enumerate().rev() {
        if *step != 0 && *dim != 1 {
            let outer = dims[..axis].iter().all(|dim| *dim == 1);
            let mut term = "instance".to_owned();
            if below != 1 {
                term += &format!(" / {below}l");
            }
            if !outer {
                term += &format!(" % {dim}l");
            }
            if *step != 1 {
                term += &format!(" * {step}l");
            }
            terms.push(term);
        }
        below *= dim;
    }
    terms.join(" + ")
}
