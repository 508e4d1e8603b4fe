//! Matrix products in which one matrix has few rows.
//!
//! Their time is that of reading the other matrix. So nothing is laid out: that matrix is read once, in the order in
//! which it lies in memory.

use crate::codegen::code::Code;
use crate::codegen::tiling::{EACH_UNIT, LEAST, VECTORS, WorkSplit, defines};

/// Steps that a unit of scalar products should make.
const DOT_STEPS: u64 = 128 * 1024;
/// Rows that one scalar product takes at a time.
const DOTS: u64 = 2;
/// Products whose sums are formed before they are added to the output.
const STREAM_DEPTH: u64 = 256;

/// The operands of a thin product, in C.
pub(crate) struct Operands {
    /// Pointers to arguments.
    pub(crate) pointers: String,
    /// Where the matrices of product number `instance` begin: that of few rows, that of many.
    pub(crate) few: String,
    pub(crate) many: String,
}

/// Products of two matrices whose rows are multiplied with each other, each with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dots {
    /// How many products.
    pub(crate) instances: u64,
    /// Rows of the matrices.
    pub(crate) few: u64,
    pub(crate) many: u64,
    /// Elements of a row.
    pub(crate) depth: u64,
    /// Elements that one step along the rows of each moves in the output.
    pub(crate) few_step: u64,
    pub(crate) many_step: u64,
}

impl Dots {
    /// The kernel. Sums start from `start`, for row `m` of the many and row `f` of the few.
    pub(crate) fn code(&self, operands: &Operands, start: &str) -> Code {
        let Self { instances, few, many, depth, few_step, many_step } = *self;
        let part = DOT_STEPS.div_ceil((depth * few).max(1)).next_multiple_of(DOTS).min(many);
        let parts = many.div_ceil(part);
        let share = WorkSplit::new(instances * parts, (part * few).saturating_mul(depth));
        let constants = defines(&[
            ("DEPTH", depth),
            ("MANY", many),
            ("FEW", few),
            ("PART", part),
            ("PARTS", parts),
            ("DOTS", DOTS),
            ("MANY_STEP", many_step),
            ("FEW_STEP", few_step),
        ]);
        let (units, dot) = (defines(&share.constants()), include_str!("c/dot.c"));
        let before = format!("{constants}{units}\n{LEAST}\n{VECTORS}\n{dot}\n");
        let Operands { pointers, few, many } = operands;
        let body = format!(
            "{pointers}{EACH_UNIT}        const long first = unit % PARTS * PART;
        const long last = least(first + PART, MANY);
        const long instance = unit / PARTS;
        const float *many = {many};
        const float *few = {few};
        float *out = y + instance * (MANY * FEW);
        for (long row = first; row < last; row += DOTS)
            for (long f = 0; f < FEW; f++) {{
                float result[DOTS];
                if (row + DOTS <= last)
                    dot(DOTS, few + f * DEPTH, many + row * DEPTH, result);
                else
                    dot(1, few + f * DEPTH, many + row * DEPTH, result);
                for (long m = row; m < least(row + DOTS, last); m++)
                    out[m * MANY_STEP + f * FEW_STEP] = {start} + result[m - row];
            }}
    }}
"
        );
        Code { before, body, blocks: share.blocks }
    }
}

/// Products of a few rows and a matrix that is stored row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    /// How many products.
    pub(crate) instances: u64,
    /// Rows of the first matrix.
    pub(crate) rows: u64,
    /// Columns of the first matrix, rows of the second.
    pub(crate) depth: u64,
    /// Columns of the second.
    pub(crate) columns: u64,
    /// The first matrix is stored column by column.
    pub(crate) transposed: bool,
}

impl Stream {
    /// The kernel. Sums start from `start`, for column `column + i`.
    pub(crate) fn code(&self, operands: &Operands, start: &str) -> Code {
        let Self { instances, rows, depth, columns, transposed } = *self;
        // Long runs are read faster, but there are to be a few parts.
        let part = (columns / 8).next_multiple_of(16).clamp(128, 1024);
        let parts = columns.div_ceil(part);
        let share = WorkSplit::new(instances * parts, (part.min(columns) * rows).saturating_mul(depth));
        let (row, step) = if transposed { (1, rows) } else { (depth, 1) };
        let constants = defines(&[
            ("ROWS", rows),
            ("DEPTH", depth),
            ("COLUMNS", columns),
            ("A_ROW", row),
            ("A_DEPTH", step),
            ("PART", part),
            ("PARTS", parts),
            ("PART_DEPTH", STREAM_DEPTH),
        ]);
        let (units, stream) = (defines(&share.constants()), include_str!("c/stream.c"));
        let before = format!("{constants}{units}\n{LEAST}\n{stream}\n");
        let Operands { pointers, few, many } = operands;
        let body = format!(
            "{pointers}{EACH_UNIT}        const long column = unit % PARTS * PART;
        const long columns = least(PART, COLUMNS - column);
        const long instance = unit / PARTS;
        const float *a = {few};
        const float *b = {many} + column;
        float *out = y + instance * (ROWS * COLUMNS) + column;
        for (long r = 0; r < ROWS; r++)
            for (long i = 0; i < columns; i++)
                out[r * COLUMNS + i] = {start};
        for (long k = 0; k < DEPTH; k += PART_DEPTH)
            stream(a + k * A_DEPTH, b + k * COLUMNS, least(PART_DEPTH, DEPTH - k), out, columns);
    }}
"
        );
        Code { before, body, blocks: share.blocks }
    }
}
