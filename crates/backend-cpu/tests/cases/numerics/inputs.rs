//! The inputs of the operators.

use crate::common::numbers;

/// Numbers at which formulas break: zeros, very small and very large numbers, thresholds and their neighbours; also negated.
const EDGES: [f32; 62] = [
    0.0,
    1e-45,
    1e-40,
    f32::MIN_POSITIVE,
    1e-30,
    1e-20,
    1e-12,
    1e-8,
    1e-4,
    0.01,
    0.1,
    0.25,
    0.3,
    0.499_999_97,
    0.5,
    0.500_000_06,
    0.7,
    0.999_999_94,
    1.0,
    1.000_000_1,
    1.5,
    1.769,
    2.0,
    2.5,
    2.999_999_8,
    3.0,
    3.5,
    4.0,
    5.5,
    6.0,
    6.000_000_5,
    9.25,
    10.0,
    16.7,
    20.0,
    20.5,
    30.0,
    50.0,
    87.0,
    88.5,
    88.8,
    89.0,
    95.0,
    100.0,
    103.5,
    110.0,
    150.0,
    1000.0,
    12_345.678,
    347_000.5,
    4_194_304.5,
    8_388_607.5,
    8_388_608.0,
    16_777_217.0,
    1e9,
    2_147_483_648.0,
    1e13,
    1e19,
    1e20,
    3e38,
    f32::MAX,
    f32::INFINITY,
];

fn edges() -> Vec<f32> {
    EDGES.into_iter().flat_map(|value| [value, -value]).chain([f32::NAN]).collect()
}

/// The inputs of operators with one input.
pub(crate) fn unary() -> Vec<f32> {
    let mut values = edges();
    values.extend((-4000..4000).map(|step| step as f32 / 256.0));
    values.extend(numbers(2000, 1));
    values
}

/// The inputs of operators with two inputs.
pub(crate) fn binary() -> (Vec<f32>, Vec<f32>) {
    let edges = edges();
    let mut left: Vec<f32> = edges.iter().flat_map(|value| vec![*value; edges.len()]).collect();
    let mut right = edges.repeat(edges.len());
    left.extend(numbers(4000, 2));
    right.extend(numbers(4000, 3));
    // Numbers near each other, for comparisons with a tolerance.
    left.extend(numbers(1000, 4));
    right.extend(numbers(1000, 4).iter().enumerate().map(|(at, value)| value * (1.0 + at as f32 * 4e-8)));
    (left, right)
}
