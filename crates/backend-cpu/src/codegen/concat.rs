//! `ConcatD`, `Split` and `SplitV`: pieces that lie side by side in each row of a whole.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, concat as concat_axis, pieces};

use crate::codegen::code::{Args, Code, GRAIN, MAX_BLOCKS, argument, constants, invalid, word_of};
use crate::codegen::elementwise::dims;
use crate::codegen::loops::bounds;

/// `ConcatD`.
pub(crate) fn concat(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let (axis, output) = concat_axis(call).map_err(invalid)?;
    let sizes: Vec<u64> = call.group(0).iter().map(|input| input.shape[axis].unsigned_abs()).collect();
    let c_type = word_of(call, call.tensor(0).map_err(invalid)?)?;
    let rows = SideBySide::new(&dims(&output), axis, &sizes);
    let pointers = format!(
        "        const {c_type} *restrict x = inputs[argument[piece]];\n\
         \x20       {c_type} *restrict y = ({c_type} *)outputs[0] + from[piece];\n"
    );
    let arguments = args.group(0).iter().map(|argument| *argument as u64);
    let before = table("argument", arguments) + &rows.before();
    let copy = "y[row * whole + i] = x[row * length[piece] + i]";
    Ok(Code { before, body: rows.body(&pointers, copy), blocks: rows.blocks() })
}

/// `Split` and `SplitV`.
pub(crate) fn split(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let (axis, sizes) = pieces(call).map_err(invalid)?;
    let position = if call.spec().op_type == "Split" { 1 } else { 0 };
    let x = call.tensor(position).map_err(invalid)?;
    let c_type = word_of(call, x)?;
    let rows = SideBySide::new(&dims(&x.shape), axis, &dims(&sizes));
    let argument = argument(call, args, position)?;
    let pointers = format!(
        "        const {c_type} *restrict x = (const {c_type} *)inputs[{argument}] + from[piece];\n\
         \x20       {c_type} *restrict y = outputs[piece];\n"
    );
    let copy = "y[row * length[piece] + i] = x[row * whole + i]";
    Ok(Code { before: rows.before(), body: rows.body(&pointers, copy), blocks: rows.blocks() })
}

/// Rows of a whole, cut into pieces.
struct SideBySide {
    rows: u64,
    /// Elements of a row.
    whole: u64,
    /// Elements of each piece of a row.
    lengths: Vec<u64>,
    /// Of each piece of a long row, a block copies one of so many shares,
    shares: u64,
    /// for this many rows.
    per_block: u64,
}

impl SideBySide {
    fn new(shape: &[u64], axis: usize, sizes: &[u64]) -> Self {
        let inner: u64 = shape[axis + 1..].iter().product();
        let (rows, whole) = (shape[..axis].iter().product::<u64>(), shape[axis] * inner);
        let shares = whole.div_ceil(GRAIN).clamp(1, MAX_BLOCKS);
        let per_block = (GRAIN / whole.max(1)).max(rows.div_ceil(MAX_BLOCKS / shares)).max(1);
        Self { rows, whole, lengths: sizes.iter().map(|size| size * inner).collect(), shares, per_block }
    }

    fn blocks(&self) -> u64 {
        self.rows.div_ceil(self.per_block).max(1) * self.shares
    }

    fn before(&self) -> String {
        let mut end = 0;
        let begins = self.lengths.iter().map(|length| {
            end += length;
            end - length
        });
        let from = table("from", begins);
        table("length", self.lengths.iter().copied()) + &from + &constants(&[("whole", self.whole)])
    }

    /// The loops: `pointers` says where `piece` is read and written, `copy` moves its element `i` of `row`.
    fn body(&self, pointers: &str, copy: &str) -> String {
        let Self { rows, lengths, shares, per_block, .. } = self;
        let mut c = String::new();
        let (rows_of, begin, end) = match shares {
            1 => ("block".to_owned(), "0".to_owned(), "length[piece]".to_owned()),
            shares => (
                format!("block / {shares}ul"),
                format!("length[piece] * (block % {shares}ul) / {shares}ul"),
                format!("length[piece] * (block % {shares}ul + 1) / {shares}ul"),
            ),
        };
        bounds(&mut c, "    ", ["first", "last"], &rows_of, *per_block, *rows);
        let _ = writeln!(c, "    for (unsigned long piece = 0; piece < {}ul; piece++) {{", lengths.len());
        let _ = writeln!(c, "        const unsigned long begin = {begin}, end = {end};");
        c.push_str(pointers);
        let _ = writeln!(c, "        for (unsigned long row = first; row < last; row++)");
        let _ = writeln!(c, "            for (unsigned long i = begin; i < end; i++)");
        let _ = writeln!(c, "                {copy};\n    }}");
        c
    }
}

/// A table of numbers.
fn table(name: &str, values: impl Iterator<Item = u64>) -> String {
    let values: Vec<String> = values.map(|value| format!("{value}ul")).collect();
    format!("static const unsigned long {name}[] = {{{}}};\n", values.join(", "))
}
