//! `Transpose`: rows are copied where the last dimension stays the last; else matrices are turned tile by tile.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, permutation};

use crate::codegen::code::{Args, Code, argument, constants, invalid, per_block, word_of};
use crate::codegen::elementwise::{Elements, dims};
use crate::codegen::loops::{Operand, bounds, merge, start, strides};

/// Elements of a tile: what is read and what is written of it must fit the fastest cache.
const TILE: u64 = 1024;
/// Rows and columns of a tile, where the matrix has as many.
const SIDE: u64 = 32;

/// `Transpose`.
pub(crate) fn transpose(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let x = call.tensor(0).map_err(invalid)?;
    let (perm, input) = (permutation(call).map_err(invalid)?, dims(&x.shape));
    let dense = strides(&x.shape, &input);
    let output: Vec<u64> = perm.iter().map(|at| input[*at]).collect();
    let strides: Vec<i64> = perm.iter().map(|at| dense[*at]).collect();
    let (argument, c_type) = (argument(call, args, 0)?, word_of(call, x)?);
    let (dims, mut merged) = merge(&output, [strides.as_slice()].into_iter());
    let steps = merged.pop().unwrap_or_default();
    match steps.iter().position(|step| *step == 1) {
        Some(row) if row + 1 < steps.len() => Ok(tiled(&dims, &steps, row, argument, c_type)),
        _ => {
            let x = Operand { name: "x".to_owned(), argument, c_type, offset: 0, strides };
            Ok(Elements { result: c_type, output, operands: vec![x], value: "x".to_owned() }.code())
        }
    }
}

/// Turns the matrix that dimension `row` of the output, the input's last, and the output's last make, for each index
/// of the other dimensions.
fn tiled(dims: &[u64], steps: &[i64], row: usize, argument: usize, c_type: &str) -> Code {
    let last = dims.len() - 1;
    let (rows, columns) = (dims[row], dims[last]);
    let mut tile_rows = rows.min(SIDE);
    let tile_columns = columns.min(TILE / tile_rows.max(1));
    tile_rows = rows.min(TILE / tile_columns.max(1));
    let (down, across) = (rows.div_ceil(tile_rows.max(1)), columns.div_ceil(tile_columns.max(1)));

    let others = || (0..last).filter(|axis| *axis != row);
    let outer: Vec<u64> = others().map(|axis| dims[axis]).collect();
    let dense = |axis: usize| dims[axis + 1..].iter().product::<u64>();
    let from: Vec<i64> = others().map(|axis| steps[axis]).collect();
    let to: Vec<i64> = others().map(|axis| dense(axis).cast_signed()).collect();
    let tiles = outer.iter().product::<u64>() * down * across;
    let per_block = per_block(tiles, tile_rows * tile_columns);

    let before = constants(&[("row_step", dense(row)), ("column_step", steps[last].unsigned_abs())]);
    let mut c = String::new();
    let _ = writeln!(c, "    const {c_type} *restrict x_data = inputs[{argument}];");
    let _ = writeln!(c, "    {c_type} *restrict y_data = outputs[0];");
    bounds(&mut c, "    ", ["first", "last"], "block", per_block, tiles);
    let _ = writeln!(c, "    for (unsigned long tile = first; tile < last; tile++) {{");
    if !outer.is_empty() {
        let _ = writeln!(c, "        const unsigned long matrix = tile / {}ul;", down * across);
    }
    let _ = writeln!(c, "        const {c_type} *restrict x = x_data{};", start("matrix", &outer, &from));
    let _ = writeln!(c, "        {c_type} *restrict y = y_data{};", start("matrix", &outer, &to));
    let part = format!("(tile / {across}ul % {down}ul)");
    bounds(&mut c, "        ", ["top", "bottom"], &part, tile_rows, rows);
    let part = format!("(tile % {across}ul)");
    bounds(&mut c, "        ", ["left", "right"], &part, tile_columns, columns);
    c.push_str(
        "        for (unsigned long i = top; i < bottom; i++)\n\
         \x20           for (unsigned long j = left; j < right; j++)\n\
         \x20               y[i * row_step + j] = x[i + j * column_step];\n    }\n",
    );
    Code { before, body: c, blocks: tiles.div_ceil(per_block).max(1) }
}
