//! Matrix products.

use crate::shape::broadcast;
use crate::{Call, OpsError};

/// A `MatMulV2` or `BatchMatMulV2` for code generators: for each batch, `y[m][n] = sum over k of x1[m][k] * x2[k][n]`,
/// plus a bias for each column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatMul {
    /// The batch dimensions of the output.
    pub batch: Vec<u64>,
    /// The number of matrices by which one step in each batch dimension advances in the first operand; 0 if that
    /// dimension broadcasts.
    pub left_steps: Vec<u64>,
    /// The same for the second operand.
    pub right_steps: Vec<u64>,
    /// Rows of the output.
    pub m: u64,
    /// The dimension that is summed over.
    pub k: u64,
    /// Columns of the output.
    pub n: u64,
    /// The first operand is stored as `[k][m]`.
    pub left_transposed: bool,
    /// The second operand is stored as `[n][k]`.
    pub right_transposed: bool,
    /// Whether there is a bias, one value for each column.
    pub bias: bool,
}

impl MatMul {
    /// The product that `call` describes.
    ///
    /// # Errors
    /// Shapes that do not fit each other.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let (left, right) = (call.tensor(0)?, call.tensor(1)?);
        let batched = call.spec().op_type == "BatchMatMulV2";
        let [turn_left, turn_right] =
            if batched { ["adj_x1", "adj_x2"] } else { ["transpose_x1", "transpose_x2"] };
        let (turn_left, turn_right) = (call.boolean(turn_left)?, call.boolean(turn_right)?);
        if call.optional(3).is_some() || call.int("offset_x")? != 0 {
            return Err(call.misfit("offsets are for quantised types"));
        }
        let misfit = || {
            let shown = |turned: bool| if turned { " (transposed)" } else { "" };
            let (left, right) = (&left.shape, &right.shape);
            call.misfit(format!(
                "matrices {left:?}{} and {right:?}{} cannot be multiplied",
                shown(turn_left),
                shown(turn_right)
            ))
        };
        let least = |shape: &[i64]| shape.len() >= 2 && (batched || shape.len() == 2);
        if !least(&left.shape) || !least(&right.shape) {
            return Err(misfit());
        }
        let (left_batch, left_matrix) = left.shape.split_at(left.shape.len() - 2);
        let (right_batch, right_matrix) = right.shape.split_at(right.shape.len() - 2);
        let turned =
            |matrix: &[i64], turn| if turn { [matrix[1], matrix[0]] } else { [matrix[0], matrix[1]] };
        let ([m, k], [k_too, n]) = (turned(left_matrix, turn_left), turned(right_matrix, turn_right));
        if k != k_too {
            return Err(misfit());
        }
        let batch = broadcast(left_batch, right_batch).ok_or_else(misfit)?;
        let bias = call.optional(2);
        if let Some(bias) = bias
            && bias.shape.as_slice() != [n]
        {
            return Err(call.misfit(format!("bias {:?} is not one value a column ({n})", bias.shape)));
        }
        Ok(Self {
            left_steps: steps(left_batch, &batch),
            right_steps: steps(right_batch, &batch),
            batch: batch.iter().map(|dim| dim.unsigned_abs()).collect(),
            m: m.unsigned_abs(),
            k: k.unsigned_abs(),
            n: n.unsigned_abs(),
            left_transposed: turn_left,
            right_transposed: turn_right,
            bias: bias.is_some(),
        })
    }

    /// The output's shape.
    pub fn output(&self) -> Vec<i64> {
        self.batch.iter().chain([&self.m, &self.n]).map(|dim| dim.cast_signed()).collect()
    }
}

/// The number of items of `shape` by which one step in each dimension of `output` advances; 0 if that dimension
/// broadcasts.
pub(crate) fn steps(shape: &[i64], output: &[i64]) -> Vec<u64> {
    let mut steps = vec![0; output.len()];
    let mut step = 1u64;
    for (dim, slot) in shape.iter().rev().zip(steps.iter_mut().rev()) {
        if *dim != 1 {
            *slot = step;
        }
        step = step.saturating_mul(dim.unsigned_abs());
    }
    steps
}
