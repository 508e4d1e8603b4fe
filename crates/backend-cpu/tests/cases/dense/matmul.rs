//! Matrix products.

use opkeep_ops::bool_attr;

use crate::dense::case::{Case, Random};

/// A product's description.
#[derive(Clone, Debug)]
struct Product {
    /// Batch dimensions of both operands.
    batch: (Vec<i64>, Vec<i64>),
    m: i64,
    k: i64,
    n: i64,
    turned: (bool, bool),
    bias: bool,
}

impl Product {
    fn shapes(&self) -> Vec<Vec<i64>> {
        let Self { batch, m, k, n, turned, bias } = self;
        let shape = |batch: &[i64], turned: bool, [rows, columns]: [i64; 2]| {
            let matrix = if turned { [columns, rows] } else { [rows, columns] };
            [batch, &matrix].concat()
        };
        let mut shapes = vec![shape(&batch.0, turned.0, [*m, *k]), shape(&batch.1, turned.1, [*k, *n])];
        shapes.extend(bias.then(|| vec![*n]));
        shapes
    }

    /// The batch dimensions of the output.
    fn output(&self) -> Vec<i64> {
        let (left, right) = &self.batch;
        let rank = left.len().max(right.len());
        let dim =
            |dims: &[i64], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
        (0..rank).map(|axis| if dim(left, axis) == 1 { dim(right, axis) } else { dim(left, axis) }).collect()
    }

    /// The index of the operand's matrix in product `number`.
    fn matrix(&self, batch: &[i64], mut number: i64) -> i64 {
        let (mut matrix, mut below) = (0, 1);
        for (back, dim) in self.output().iter().rev().enumerate() {
            let at = number % dim;
            number /= dim;
            if let Some(axis) = batch.len().checked_sub(back + 1) {
                matrix += if batch[axis] == 1 { 0 } else { at * below };
                below *= batch[axis];
            }
        }
        matrix
    }

    fn reference(&self, inputs: &[Vec<f32>]) -> Vec<f64> {
        let Self { batch, m, k, n, turned, bias } = self;
        let mut y = Vec::new();
        for number in 0..self.output().iter().product() {
            let left = |row: i64, at: i64| {
                let index = if turned.0 { at * m + row } else { row * k + at };
                f64::from(inputs[0][(self.matrix(&batch.0, number) * m * k + index) as usize])
            };
            let right = |at: i64, column: i64| {
                let index = if turned.1 { column * k + at } else { at * n + column };
                f64::from(inputs[1][(self.matrix(&batch.1, number) * k * n + index) as usize])
            };
            for (row, column) in (0..*m).flat_map(|row| (0..*n).map(move |column| (row, column))) {
                let start = if *bias { f64::from(inputs[2][column as usize]) } else { 0.0 };
                y.push((0..*k).fold(start, |sum, at| sum + left(row, at) * right(at, column)));
            }
        }
        y
    }

    fn case(self, name: String) -> Case {
        let batched = !self.batch.0.is_empty() || !self.batch.1.is_empty();
        let (op_type, turns) = match batched {
            true => ("BatchMatMulV2", ["adj_x1", "adj_x2"]),
            false => ("MatMulV2", ["transpose_x1", "transpose_x2"]),
        };
        let attrs = vec![bool_attr(turns[0], self.turned.0), bool_attr(turns[1], self.turned.1)];
        Case::new(name, op_type, &self.shapes(), attrs, |inputs| self.reference(inputs))
    }
}

const PLAIN: (bool, bool) = (false, false);
const RIGHT: (bool, bool) = (false, true);
const LEFT: (bool, bool) = (true, false);
const BOTH: (bool, bool) = (true, true);

fn flat(m: i64, k: i64, n: i64, turned: (bool, bool), bias: bool) -> Product {
    Product { batch: (Vec::new(), Vec::new()), m, k, n, turned, bias }
}

fn batched(left: &[i64], right: &[i64], [m, k, n]: [i64; 3], turned: (bool, bool), bias: bool) -> Product {
    Product { batch: (left.to_vec(), right.to_vec()), m, k, n, turned, bias }
}

fn chosen() -> Vec<(&'static str, Product)> {
    vec![
        ("square", flat(129, 300, 131, PLAIN, true)),
        ("turned_right", flat(61, 270, 75, RIGHT, false)),
        ("turned_left", flat(61, 270, 75, LEFT, true)),
        ("turned_both", flat(50, 33, 70, BOTH, false)),
        ("connected", flat(1, 2048, 999, RIGHT, true)),
        ("connected_batch", flat(5, 259, 301, RIGHT, true)),
        ("few_columns", flat(301, 259, 5, RIGHT, true)),
        ("one_row", flat(1, 515, 1100, PLAIN, true)),
        ("one_row_turned", flat(1, 515, 140, BOTH, false)),
        ("three_rows", flat(3, 77, 700, PLAIN, false)),
        ("one_column", flat(333, 517, 1, PLAIN, true)),
        ("one_column_turned", flat(1100, 70, 1, LEFT, true)),
        ("one_number", flat(1, 1000, 1, PLAIN, true)),
        ("outer_product", flat(29, 1, 35, PLAIN, true)),
        ("no_depth", flat(7, 0, 9, PLAIN, true)),
        ("no_depth_thin", flat(2, 0, 9, RIGHT, true)),
        ("no_depth_nor_bias", flat(20, 0, 30, PLAIN, false)),
        ("batch", batched(&[6], &[6], [20, 30, 17], PLAIN, false)),
        ("batch_shared", batched(&[3, 4], &[], [11, 40, 37], PLAIN, true)),
        ("batch_shared_of_one", batched(&[3, 4], &[1, 1], [1, 40, 37], BOTH, true)),
        ("batch_shared_left", batched(&[], &[5], [19, 21, 23], PLAIN, false)),
        ("batch_crossed", batched(&[3, 1, 2], &[4, 1], [18, 9, 20], RIGHT, false)),
        ("batch_thin", batched(&[2, 3], &[2, 3], [3, 40, 50], RIGHT, true)),
        ("batch_turned_left", batched(&[2, 3], &[], [13, 40, 20], LEFT, false)),
        ("attention", batched(&[1, 4], &[1, 4], [50, 64, 50], RIGHT, false)),
    ]
}

fn random(seed: u32) -> Product {
    let mut random = Random::new(&format!("matmul {seed}"));
    let batches: [(&[i64], &[i64]); 5] =
        [(&[], &[]), (&[3], &[3]), (&[2, 1], &[1, 3]), (&[4], &[1]), (&[1], &[2, 2])];
    let (left, right) = random.one(&batches);
    let size = |random: &mut Random| random.one(&[1, 2, 5, 12, 17, 31, 48, 65, 100]);
    let sizes = [size(&mut random), random.range(1, 400), size(&mut random)];
    let turned = random.one(&[PLAIN, RIGHT, LEFT, BOTH]);
    batched(left, right, sizes, turned, random.range(0, 1) == 1)
}

pub(crate) fn cases() -> Vec<Case> {
    let chosen = chosen().into_iter().map(|(name, product)| product.case(format!("matmul::{name}")));
    chosen.chain((0..20).map(|seed| random(seed).case(format!("matmul::random_{seed}")))).collect()
}
