//! Loops over a tensor's elements, cut into blocks.

use std::fmt::Write as _;

use crate::codegen::code::{GRAIN, per_block};

/// Rows of equal length. Long ones are cut into pieces; a block computes some pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rows: u64,
    /// Elements of a row.
    pub(crate) length: u64,
    /// A row is computed in this many pieces,
    pieces: u64,
    /// each of this many elements, the last one possibly shorter.
    piece: u64,
    /// Pieces that one block computes.
    per_block: u64,
}

impl Rows {
    pub(crate) fn new(rows: u64, length: u64) -> Self {
        let piece = length.clamp(1, GRAIN);
        let pieces = length.div_ceil(piece);
        Self { rows, length, pieces, piece, per_block: per_block(rows * pieces, piece) }
    }

    fn total_pieces(&self) -> u64 {
        self.rows * self.pieces
    }

    /// At least one, so that a launch of an empty tensor is still a launch.
    pub(crate) fn blocks(&self) -> u64 {
        self.total_pieces().div_ceil(self.per_block).max(1)
    }

    /// Begins the loop over this block's pieces of rows. In it, `row` is one of the rows; what is given is the first of
    /// its elements that the piece has, and the one after the last.
    pub(crate) fn open(&self, c: &mut String) -> (String, String) {
        bounds(c, "    ", ["first", "last"], "block", self.per_block, self.total_pieces());
        if self.pieces == 1 {
            let _ = writeln!(c, "    for (unsigned long row = first; row < last; row++) {{");
            return ("0".to_owned(), format!("{}ul", self.length));
        }
        let _ = writeln!(c, "    for (unsigned long piece = first; piece < last; piece++) {{");
        let _ = writeln!(c, "        const unsigned long row = piece / {}ul;", self.pieces);
        let from = format!("piece % {}ul", self.pieces);
        bounds(c, "        ", ["begin", "end"], &from, self.piece, self.length);
        ("begin".to_owned(), "end".to_owned())
    }
}

/// Defines `names` as the bounds of part number `part` of `limit` items, of which each part has `count`.
pub(crate) fn bounds(c: &mut String, indent: &str, names: [&str; 2], part: &str, count: u64, limit: u64) {
    let [begin, end] = names;
    let _ = writeln!(c, "{indent}const unsigned long {begin} = {part} * {count}ul;");
    let _ = writeln!(
        c,
        "{indent}const unsigned long {end} = {begin} + {count}ul < {limit}ul ? {begin} + {count}ul : {limit}ul;"
    );
}

/// The index in dimension `axis` of the item number `item` of dimensions `dims`.
pub(crate) fn index(item: &str, dims: &[u64], axis: usize) -> String {
    let below: u64 = dims[axis + 1..].iter().map(|dim| (*dim).max(1)).product();
    match (axis, below) {
        (0, 1) => item.to_owned(),
        (0, below) => format!("{item} / {below}ul"),
        (_, 1) => format!("{item} % {}ul", dims[axis]),
        (_, below) => format!("{item} / {below}ul % {}ul", dims[axis]),
    }
}

/// Where item number `item` of dimensions `dims` is, as terms to be added to a pointer.
pub(crate) fn start(item: &str, dims: &[u64], strides: &[i64]) -> String {
    let mut text = String::new();
    for axis in (0..dims.len()).rev() {
        let index = index(item, dims, axis);
        let sign = if strides[axis] < 0 { '-' } else { '+' };
        let _ = match strides[axis].unsigned_abs() {
            0 => Ok(()),
            1 => write!(text, " {sign} {index}"),
            stride => write!(text, " {sign} {index} * {stride}ul"),
        };
    }
    text
}

/// Something that is read beside the output, element by element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    /// Its name in expressions.
    pub(crate) name: String,
    /// Which of the kernel's inputs it is.
    pub(crate) argument: usize,
    pub(crate) c_type: &'static str,
    /// The element that goes with the output's first.
    pub(crate) offset: u64,
    /// For each dimension of the output, the elements that one step in it moves.
    pub(crate) strides: Vec<i64>,
}

/// Elements that one step in each dimension of `output` moves in a dense tensor of `shape`; 0 where it broadcasts.
pub(crate) fn strides(shape: &[i64], output: &[u64]) -> Vec<i64> {
    let mut strides = vec![0; output.len()];
    let mut step = 1;
    for (dim, stride) in shape.iter().rev().zip(strides.iter_mut().rev()) {
        if *dim != 1 {
            *stride = step;
        }
        step *= dim;
    }
    strides
}

/// `output` and, for each operand, its strides, with dimensions that all of them run through without a jump as one.
pub(crate) fn merge<'a>(
    output: &[u64],
    operands: impl ExactSizeIterator<Item = &'a [i64]> + Clone,
) -> (Vec<u64>, Vec<Vec<i64>>) {
    let mut dims: Vec<u64> = Vec::new();
    let mut merged: Vec<Vec<i64>> = vec![Vec::new(); operands.len()];
    for (axis, dim) in output.iter().enumerate().filter(|(_, dim)| **dim != 1) {
        let runs_on = merged
            .iter()
            .zip(operands.clone())
            .all(|(merged, strides)| merged.last().copied() == strides[axis].checked_mul(dim.cast_signed()));
        match dims.last_mut().filter(|_| runs_on) {
            Some(last) => {
                *last *= dim;
                merged.iter_mut().for_each(|strides| {
                    strides.pop();
                });
            }
            None => dims.push(*dim),
        }
        merged.iter_mut().zip(operands.clone()).for_each(|(merged, strides)| merged.push(strides[axis]));
    }
    (dims, merged)
}

/// The loop nest over an output: rows, each one run through memory for every operand.
#[derive(Debug, PartialEq)]
pub(crate) struct Loops {
    rows: Rows,
    /// The dimensions of the rows' numbers.
    outer: Vec<u64>,
    /// For each operand, the elements that one step in each outer dimension moves, and one within a row.
    strides: Vec<(Vec<i64>, i64)>,
}

impl Loops {
    /// The loops over `output`. Dimensions in which every operand runs on without a jump become one.
    pub(crate) fn new(output: &[u64], operands: &[Operand]) -> Self {
        let (mut dims, merged) = merge(output, operands.iter().map(|operand| operand.strides.as_slice()));
        let length = dims.pop().unwrap_or(1);
        let strides = merged.into_iter().map(|mut strides| {
            let within = strides.pop().unwrap_or(1);
            (strides, within)
        });
        Self { rows: Rows::new(dims.iter().product(), length), strides: strides.collect(), outer: dims }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.rows.blocks()
    }

    /// The loops over this block's part of the output; `value` makes an element from those of the operands.
    pub(crate) fn render(&self, c: &mut String, operands: &[Operand], value: impl Fn(&[String]) -> String) {
        let one_row = self.rows.rows == 1;
        let items: Vec<String> = operands
            .iter()
            .zip(&self.strides)
            .map(|(operand, (_, within))| {
                let data = if one_row { format!("{}_data", operand.name) } else { operand.name.clone() };
                match within {
                    0 => format!("{data}[0]"),
                    1 => format!("{data}[i]"),
                    -1 => format!("{data}[-(long)i]"),
                    2.. => format!("{data}[i * {within}ul]"),
                    _ => format!("{data}[(long)i * {within}l]"),
                }
            })
            .collect();
        let value = value(&items);
        let Rows { length, piece, per_block, .. } = self.rows;
        if one_row {
            bounds(c, "    ", ["begin", "end"], "block", piece * per_block, length);
            let _ = writeln!(c, "    for (unsigned long i = begin; i < end; i++)");
            let _ = writeln!(c, "        y_data[i] = {value};");
            return;
        }
        let (begin, end) = self.rows.open(c);
        for (operand, (strides, _)) in operands.iter().zip(&self.strides) {
            let start = start("row", &self.outer, strides);
            let Operand { name, c_type, .. } = operand;
            let _ = writeln!(c, "        const {c_type} *restrict {name} = {name}_data{start};");
        }
        let _ = writeln!(c, "        for (unsigned long i = {begin}; i < {end}; i++)");
        let _ = writeln!(c, "            y_data[row * {length}ul + i] = {value};");
        c.push_str("    }\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::code::MAX_BLOCKS;

    fn loops(output: &[i64], inputs: &[&[i64]]) -> Loops {
        let output: Vec<u64> = output.iter().map(|dim| dim.unsigned_abs()).collect();
        let operand = |shape: &&[i64]| Operand {
            name: "x".to_owned(),
            argument: 0,
            c_type: "float",
            offset: 0,
            strides: strides(shape, &output),
        };
        Loops::new(&output, &inputs.iter().map(operand).collect::<Vec<_>>())
    }

    #[test]
    fn dimensions_that_run_on_are_merged() {
        let plain = loops(&[2, 3, 4], &[&[2, 3, 4], &[2, 3, 4]]);
        assert_eq!((plain.outer, plain.rows.length), (vec![], 24));
        assert_eq!(plain.strides, [(vec![], 1), (vec![], 1)]);
        let bias = loops(&[2, 3, 4], &[&[2, 3, 4], &[4]]);
        assert_eq!((bias.outer, bias.rows.length), (vec![6], 4));
        assert_eq!(bias.strides, [(vec![4], 1), (vec![0], 1)]);
        let channel = loops(&[2, 3, 4, 5], &[&[2, 3, 4, 5], &[1, 3, 1, 1]]);
        assert_eq!((channel.outer, channel.rows.length), (vec![2, 3], 20));
        assert_eq!(channel.strides, [(vec![60, 20], 1), (vec![0, 1], 0)]);
        let scalar = loops(&[2, 3], &[&[2, 3], &[1]]);
        assert_eq!((scalar.outer, scalar.rows.length), (vec![], 6));
        assert_eq!(scalar.strides, [(vec![], 1), (vec![], 0)]);
    }

    #[test]
    fn blocks_depend_on_the_shape_alone_and_stay_within_bounds() {
        assert_eq!(loops(&[3], &[&[3]]).blocks(), 1);
        assert_eq!(loops(&[0], &[&[0]]).blocks(), 1);
        assert_eq!(loops(&[GRAIN as i64 * 3 + 1], &[&[GRAIN as i64 * 3 + 1]]).blocks(), 4);
        assert!(loops(&[1 << 40], &[&[1 << 40]]).blocks() <= MAX_BLOCKS);
        assert!(loops(&[1 << 40, 2], &[&[1 << 40, 1],]).blocks() <= MAX_BLOCKS);
    }

    #[test]
    fn items_are_found_by_their_number() {
        assert_eq!(index("row", &[2, 3, 4], 0), "row / 12ul");
        assert_eq!(index("row", &[2, 3, 4], 1), "row / 4ul % 3ul");
        assert_eq!(index("row", &[2, 3, 4], 2), "row % 4ul");
        assert_eq!(index("row", &[2], 0), "row");
        assert_eq!(start("row", &[2, 3, 4], &[5, 0, -1]), " - row % 4ul + row / 12ul * 5ul");
    }
}
