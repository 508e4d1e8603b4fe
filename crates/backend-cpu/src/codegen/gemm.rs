//! Matrix products by blocks: the core of convolutions and of `MatMul`.
//!
//! A unit of work is a part of the rows of the output by a part of its columns. It lays out its columns of the second
//! matrix in a panel on the stack, a few rows at a time, and multiplies that with its rows of the first; how the panel
//! is filled is the operator's own affair. Every element of the output is one start value plus one sum a panel, in
//! order: neither the number of threads nor the machine's vectors change a bit of it.

use crate::codegen::code::Code;
use crate::codegen::tiling::{EACH_UNIT, LEAST, VECTORS, WorkSplit, defines};

/// Parts of rows are multiples of this, and so of every machine's `TILE_ROWS` (see `vectors.c`).
const ROW_STEP: u64 = 12;
/// Rows that make laying out a panel worth it.
const ENOUGH_ROWS: u64 = 36;
/// Units that are enough for any number of threads that kernels meet.
pub(crate) const ENOUGH_UNITS: u64 = 32;
/// Columns of a panel: four tiles, so that a row of it is a few cache lines side by side.
const PANEL_COLUMNS: u64 = 64;
/// The most rows of a panel: one tile's columns of so many fill half of a small first cache.
const PANEL_DEPTH: u64 = 256;
/// Floats between rows of a panel that are not part of it: without them, rows would compete for the same lines of the
/// first cache.
const GAP: u64 = 16;

/// A number of matrix products of one size, one after the other in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// How many products.
    pub(crate) instances: u64,
    /// Rows of the first matrix and of the output.
    pub(crate) rows: u64,
    /// Columns of the first matrix, rows of the second.
    pub(crate) depth: u64,
    /// Columns of the second matrix and of the output.
    pub(crate) columns: u64,
    /// The first matrix is stored column by column.
    pub(crate) transposed: bool,
}

/// The C that an operator adds to the core.
pub(crate) struct Parts<'a> {
    /// Its own constants.
    pub(crate) before: String,
    /// The function `pack`, which fills panels.
    pub(crate) pack: &'a str,
    /// Pointers to arguments.
    pub(crate) pointers: String,
    /// The start of the first matrix of product number `instance`.
    pub(crate) first: String,
    /// The start of the second one.
    pub(crate) second: String,
    /// The initial value of a sum in row `row + r` and column `column + i`.
    pub(crate) start: String,
}

/// How a product is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    panel_depth: u64,
    column_parts: u64,
    part_rows: u64,
    row_parts: u64,
    share: WorkSplit,
}

impl Product {
    fn split(&self) -> Split {
        // Panels of equal depth: a last one of a few rows would cost almost as much as a full one.
        let panel_depth = self.depth.div_ceil(self.depth.div_ceil(PANEL_DEPTH).max(1)).max(1);
        let column_parts = self.columns.div_ceil(PANEL_COLUMNS);
        let wanted = ENOUGH_UNITS / (self.instances * column_parts).clamp(1, ENOUGH_UNITS);
        let row_parts = wanted.clamp(1, (self.rows / ENOUGH_ROWS).max(1));
        let part_rows = self.rows.div_ceil(row_parts).next_multiple_of(ROW_STEP);
        let row_parts = self.rows.div_ceil(part_rows);
        let steps = part_rows.min(self.rows) * PANEL_COLUMNS.min(self.columns);
        let share =
            WorkSplit::new(self.instances * row_parts * column_parts, steps.saturating_mul(self.depth));
        Split { panel_depth, column_parts, part_rows, row_parts, share }
    }

    /// The kernel.
    pub(crate) fn code(&self, parts: Parts<'_>) -> Code {
        let split = self.split();
        let (row, depth) = if self.transposed { (1, self.rows) } else { (self.depth, 1) };
        let constants = defines(&[
            ("ROWS", self.rows),
            ("DEPTH", self.depth),
            ("COLUMNS", self.columns),
            ("A_ROW", row),
            ("A_DEPTH", depth),
            ("PART_ROWS", split.part_rows),
            ("ROW_PARTS", split.row_parts),
            ("GROUP_ROWS", 2 * ROW_STEP),
            ("PANEL_COLUMNS", PANEL_COLUMNS),
            ("COLUMN_PARTS", split.column_parts),
            ("PANEL_DEPTH", split.panel_depth),
            ("PITCH", PANEL_COLUMNS + GAP),
        ]);
        let share = defines(&split.share.constants());
        let Parts { before, pack, pointers, first, second, start } = parts;
        let multiply = include_str!("c/gemm.c");
        let before = format!("{constants}{share}{before}\n{LEAST}\n{VECTORS}\n{pack}\n{multiply}\n");
        let body = format!(
            "{pointers}    float panel[PANEL_DEPTH * PITCH] __attribute__((aligned(64)));
{EACH_UNIT}        const long column = unit % COLUMN_PARTS * PANEL_COLUMNS;
        const long columns = least(PANEL_COLUMNS, COLUMNS - column);
        const long row = unit / COLUMN_PARTS % ROW_PARTS * PART_ROWS;
        const long rows = least(PART_ROWS, ROWS - row);
        const long instance = unit / (COLUMN_PARTS * ROW_PARTS);
        const float *a = {first} + row * A_ROW;
        const float *b = {second};
        float *out = y + (instance * ROWS + row) * COLUMNS + column;
        for (long r = 0; r < rows; r++)
            for (long i = 0; i < columns; i++)
                out[r * COLUMNS + i] = {start};
        for (long k = 0; k < DEPTH; k += PANEL_DEPTH) {{
            const long depth = least(PANEL_DEPTH, DEPTH - k);
            pack(b, k, k + depth, column, columns, panel);
            multiply(a + k * A_DEPTH, panel, depth, out, rows, columns);
        }}
    }}
"
        );
        Code { before, body, blocks: split.share.blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_product_and_panels_fit_the_stack() {
        for rows in [1, 4, 5, 11, 12, 13, 47, 48, 97, 512, 1000, 1 << 30] {
            for (depth, columns, instances) in
                [(0, 1, 1), (1, 49, 1), (257, 3136, 2), (4608, 49, 1), (1 << 40, 1, 1), (1, 1 << 40, 1)]
            {
                let product = Product { instances, rows, depth, columns, transposed: false };
                let split = product.split();
                assert!(split.part_rows * split.row_parts >= rows, "{product:?} {split:?}");
                assert!(split.part_rows * (split.row_parts - 1) < rows, "{product:?} {split:?}");
                assert!(split.part_rows.is_multiple_of(ROW_STEP));
                assert!(PANEL_COLUMNS * split.column_parts >= columns, "{product:?} {split:?}");
                assert!((PANEL_COLUMNS + GAP) * split.panel_depth * 4 <= 128 * 1024, "{split:?}");
            }
        }
    }

    /// Only a product's last part of rows may have a tile that is not full.
    #[test]
    fn parts_are_whole_tiles_on_every_machine() {
        let sizes = VECTORS.lines().filter_map(|line| line.strip_prefix("#define TILE_ROWS "));
        let sizes: Vec<u64> = sizes.map(|size| size.parse().unwrap()).collect();
        assert_eq!(sizes.len(), 4);
        assert!(sizes.iter().all(|size| ROW_STEP.is_multiple_of(*size)), "{sizes:?}");
    }

    #[test]
    fn small_images_are_split_over_channels() {
        let blocks = |rows, depth, columns| {
            let split = Product { instances: 1, rows, depth, columns, transposed: false }.split();
            split.share.blocks
        };
        assert_eq!(blocks(64, 576, 56 * 56), 49);
        assert!(blocks(512, 4608, 49) >= 8);
        assert!(blocks(2048, 512, 49) >= 16);
    }
}
