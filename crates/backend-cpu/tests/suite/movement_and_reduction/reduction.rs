//! Operators that combine many elements, against their definitions in double precision.

use std::collections::BTreeMap;

use opkeep_descriptor::Attr;
use opkeep_ops::{bool_attr, float_attr, int_attr, ints_attr};

use crate::movement_and_reduction::case::{Case, Node, Rng, bytes_of, count, indices};

/// For each index of the other axes, the offsets of the combined elements, in order.
fn groups(shape: &[i64], axes: &[usize]) -> BTreeMap<Vec<i64>, Vec<usize>> {
    let mut groups: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
    for (place, index) in indices(shape).into_iter().enumerate() {
        let others = index.iter().enumerate().map(|(axis, at)| if axes.contains(&axis) { 0 } else { *at });
        groups.entry(others.collect()).or_default().push(place);
    }
    groups
}

/// An expected value, and the maximum error of a result.
type Near = (f64, f64);

/// Judges one output of floats.
fn near(expected: Vec<Near>) -> impl Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync {
    move |found| near_one(&expected, &found[0])
}

fn near_one(expected: &[Near], found: &[u8]) -> Result<(), String> {
    let found = crate::common::floats(found);
    if found.len() != expected.len() {
        return Err(format!("{} elements, expected {}", found.len(), expected.len()));
    }
    for (at, ((expected, off), found)) in expected.iter().zip(found).enumerate() {
        let equal = f64::from(found) == *expected || (expected.is_nan() && found.is_nan());
        // One unit in the last place is for the rounding to a float.
        let unit = f64::from((*expected as f32).abs().next_up()) - f64::from((*expected as f32).abs());
        let close = (f64::from(found) - expected).abs() <= off.max(unit);
        if !equal && !close {
            return Err(format!("element {at} is {found:e}, expected {expected:e} but for {off:e}"));
        }
    }
    Ok(())
}

/// Shapes and axes: each kind of loop nest, and sizes near those of the blocks of loops.
fn nests(rng: &mut Rng) -> Vec<(Vec<i64>, Vec<i64>)> {
    let mut all: Vec<(Vec<i64>, Vec<i64>)> = vec![
        (vec![2, 3, 7, 7], vec![2, 3]),
        (vec![40, 50, 49], vec![-1]),
        (vec![300_001], vec![0]),
        (vec![3, 1, 257], vec![0]),
        (vec![100, 513], vec![0]),
        (vec![2, 90, 600], vec![1]),
        (vec![3, 5, 4, 6], vec![0, 2]),
        (vec![3, 5, 4, 6], vec![1, 3]),
        (vec![2, 3, 4, 5, 6], vec![0, 2, 4]),
        (vec![20_000, 3], vec![1]),
        (vec![20_000, 3], vec![0]),
        (vec![4, 8], vec![1]),
        (vec![4, 9], vec![1]),
        (vec![1, 6, 1], vec![0, 2]),
        (vec![1], vec![0]),
    ];
    for at in 0..9 {
        let shape = rng.shape(1 + at % 5, 9);
        let axes = rng.shuffled(shape.len())[..rng.int(1, shape.len() as i64) as usize].to_vec();
        let named = axes.iter().map(|axis| *axis as i64 - rng.int(0, 1) * shape.len() as i64).collect();
        all.push((shape, named));
    }
    all
}

fn places(axes: &[i64], rank: usize) -> Vec<usize> {
    axes.iter().map(|axis| if *axis < 0 { (axis + rank as i64) as usize } else { *axis as usize }).collect()
}

fn reduce_case(
    op_type: &str,
    shape: &[i64],
    axes: &[i64],
    attrs: &[Attr],
    values: &[f32],
    all: bool,
) -> Case {
    let reduced = if all { (0..shape.len()).collect() } else { places(axes, shape.len()) };
    let groups: Vec<Vec<usize>> = match reduced.len() == shape.len() {
        true => vec![(0..values.len()).collect()],
        false => groups(shape, &reduced).into_values().collect(),
    };
    let expected = groups.into_iter().map(|group| {
        let group: Vec<f64> = group.into_iter().map(|place| f64::from(values[place])).collect();
        let size: f64 = group.iter().map(|value| value.abs()).sum();
        match op_type {
            "ReduceSum" => (group.iter().sum(), 1e-14 * size),
            "ReduceMean" => (group.iter().sum::<f64>() / group.len() as f64, 1e-14 * size),
            "ReduceProd" => (group.iter().product(), 0.0),
            "ReduceMax" => (group.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
            _ => (group.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
        }
    });
    let expected: Vec<Near> = expected.collect();
    let node = Node::new().tensor("float32", shape, &bytes_of(values)).known(axes);
    node.case(op_type, attrs, near(expected))
}

pub(crate) fn reductions() -> Vec<Case> {
    let mut rng = Rng::new(11);
    let mut cases = Vec::new();
    let operators = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"];
    for (at, (shape, axes)) in nests(&mut rng).into_iter().enumerate() {
        // Two operators for each nest, so that each nest has a sum and a minimum or maximum.
        for op_type in [operators[at % 2], operators[2 + at % 3]] {
            // Around 1 for products, so that they neither vanish nor grow.
            let shift = if op_type == "ReduceProd" { 1.5 } else { 0.7 };
            let scale = if op_type == "ReduceProd" { 0.5 } else { 5.0 };
            let values: Vec<f32> =
                rng.floats(count(&shape), scale).iter().map(|value| value + shift).collect();
            let keep = [bool_attr("keep_dims", at % 2 == 0)];
            cases.push(reduce_case(op_type, &shape, &axes, &keep, &values, false));
        }
    }
    // No axes mean all axes or none, as the attribute states.
    let values = rng.floats(60, 4.0);
    for noop in [false, true] {
        let attrs = [bool_attr("noop_with_empty_axes", noop), bool_attr("keep_dims", true)];
        cases.push(reduce_case("ReduceSum", &[3, 4, 5], &[], &attrs, &values, !noop));
    }
    cases
}

/// Sums of very many elements: equal ones, whose errors would add up, and ones of both signs.
pub(crate) fn long_sums() -> Vec<Case> {
    let mut rng = Rng::new(12);
    let million = 1_000_003;
    let mut cases = Vec::new();
    for shift in [0.0f32, 1000.1] {
        let values: Vec<f32> = rng.floats(million, 1.0).iter().map(|value| value + shift).collect();
        cases.push(reduce_case("ReduceSum", &[million as i64], &[0], &[], &values, false));
        cases.push(reduce_case("ReduceMean", &[million as i64], &[0], &[], &values, false));
    }
    cases
}

/// The result of an input with NaN is NaN; that of no elements is the neutral element.
pub(crate) fn odd_values() -> Vec<Case> {
    let mut cases = Vec::new();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for op_type in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"] {
        let rows: [&[f32]; 5] =
            [&[1.0, nan, 2.0], &[inf, 1.0, 2.0], &[-inf, 3.0, inf], &[-0.0, -0.0, -0.0], &[nan, inf, -inf]];
        let expected = rows.iter().map(|row| {
            let row: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
            let any = row.iter().any(|value| value.is_nan());
            let value = match op_type {
                _ if any => f64::NAN,
                "ReduceSum" => row.iter().sum(),
                "ReduceMean" => row.iter().sum::<f64>() / 3.0,
                "ReduceProd" => row.iter().product(),
                "ReduceMax" => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                _ => row.iter().copied().fold(f64::INFINITY, f64::min),
            };
            (value, 0.0)
        });
        let node = Node::new().tensor("float32", &[5, 3], &bytes_of(&rows.concat())).known(&[1]);
        cases.push(node.case(op_type, &[], near(expected.collect())));

        let neutral = match op_type {
            "ReduceSum" => 0.0,
            "ReduceProd" => 1.0,
            "ReduceMax" => f64::NEG_INFINITY,
            "ReduceMin" => f64::INFINITY,
            _ => f64::NAN,
        };
        let node = Node::new().tensor("float32", &[4, 0], &[]).known(&[1]);
        cases.push(node.case(op_type, &[], near(vec![(neutral, 0.0); 4])));
    }
    cases
}

/// Whole numbers: exact, and wrapping.
pub(crate) fn whole_numbers() -> Vec<Case> {
    let mut rng = Rng::new(13);
    let mut cases = Vec::new();
    for dtype in ["int32", "int64"] {
        for op_type in ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"] {
            for (shape, axes) in [(vec![5, 37, 20], vec![1, 2]), (vec![6, 3, 11], vec![0])] {
                let numbers: Vec<i64> =
                    (0..count(&shape))
                        .map(|_| {
                            if dtype == "int32" {
                                (rng.next() >> 32) as i32 as i64
                            } else {
                                rng.next() as i64
                            }
                        })
                        .collect();
                let bytes = |numbers: &[i64]| -> Vec<u8> {
                    match dtype {
                        "int32" => numbers.iter().flat_map(|number| (*number as i32).to_ne_bytes()).collect(),
                        _ => numbers.iter().flat_map(|number| number.to_ne_bytes()).collect(),
                    }
                };
                let results = groups(&shape, &places(&axes, shape.len())).into_values().map(|group| {
                    let group = group.into_iter().map(|place| numbers[place]);
                    match op_type {
                        "ReduceSum" => group.fold(0i64, i64::wrapping_add),
                        "ReduceProd" => group.fold(1i64, i64::wrapping_mul),
                        "ReduceMax" => group.max().unwrap(),
                        _ => group.min().unwrap(),
                    }
                });
                let expected = vec![bytes(&results.collect::<Vec<i64>>())];
                let node = Node::new().tensor(dtype, &shape, &bytes(&numbers)).known(&axes);
                cases.push(node.case(op_type, &[], move |found| {
                    crate::movement_and_reduction::case::same(&expected, found)
                }));
            }
        }
    }
    cases
}

pub(crate) fn softmaxes() -> Vec<Case> {
    let mut rng = Rng::new(14);
    let mut cases = Vec::new();
    for (at, (shape, axes)) in nests(&mut rng).into_iter().enumerate() {
        // Also inputs so large that powers of e overflow, and so far apart that they become 0.
        let scale = [3.0, 40.0, 500.0][at % 3];
        let shift = [0.0, 300.0, -900.0][at / 3 % 3];
        let values: Vec<f32> = rng.floats(count(&shape), scale).iter().map(|value| value + shift).collect();
        for log in [false, true] {
            let mut expected = vec![(0.0, 0.0); values.len()];
            for group in groups(&shape, &places(&axes, shape.len())).into_values() {
                let most =
                    group.iter().map(|place| f64::from(values[*place])).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = group.iter().map(|place| (f64::from(values[*place]) - most).exp()).sum();
                // The subtrahend is rounded to a float, so the exponents are off, and the powers with them.
                let off = |below: f64| below.exp() * (4e-7 + 6e-8 * below.abs()) / total;
                let total_off: f64 = group
                    .iter()
                    .map(|place| f64::from(values[*place]) - most)
                    .map(|below| if below == 0.0 { 0.0 } else { off(below) })
                    .sum();
                for place in group {
                    let below = f64::from(values[place]) - most;
                    expected[place] = match log {
                        true => (below - total.ln(), 1.2e-7 * (below.abs() + total.ln()) + total_off),
                        false => (below.exp() / total, off(below) + below.exp() / total * total_off + 1e-44),
                    };
                }
            }
            let op_type = if log { "LogSoftmaxV2" } else { "SoftmaxV2" };
            let node = Node::new().tensor("float32", &shape, &bytes_of(&values));
            cases.push(node.case(op_type, &[ints_attr("axes", &axes)], near(expected)));
        }
    }
    // By default the last axis; and rows of NaN, or of minus infinity only.
    let inf = f32::INFINITY;
    let rows = [0.0, -inf, 0.0, f32::NAN, 1.0, 2.0, -inf, -inf, -inf, inf, 0.0, 1.0];
    let half = (0.5, 0.0);
    let nan = (f64::NAN, 0.0);
    let expected = vec![half, (0.0, 0.0), half, nan, nan, nan, nan, nan, nan, nan, nan, nan];
    let node = Node::new().tensor("float32", &[4, 3], &bytes_of(&rows));
    cases.push(node.case("SoftmaxV2", &[], move |found| {
        near_one(&expected[..9], &found[0][..36])?;
        // Beside an infinity, finite elements may become 0.
        if crate::common::floats(&found[0])[9].is_nan() { Ok(()) } else { Err("infinity is a number".into()) }
    }));
    cases
}

pub(crate) fn layer_norms() -> Vec<Case> {
    let mut rng = Rng::new(15);
    let mut cases = Vec::new();
    for (shape, axis, epsilon, scale, shift) in [
        (vec![2, 3, 4], 1i64, 1e-5f32, 3.0f32, 0.5f32),
        (vec![50, 768], -1, 1e-5, 1.0, 0.0),
        (vec![7, 9], 0, 0.25, 2.0, -1.0),
        (vec![5, 1], 1, 1e-3, 2.0, 7.0),
        (vec![3, 2, 5, 5], 2, 1e-12, 1e-3, 0.0),
        // A variance that is small relative to the mean: a difference of squares would lose it.
        (vec![64, 100], 1, 1e-7, 0.5, 4096.0),
        (vec![2, 40_000], 1, 1e-5, 1.0, 3.0),
    ] {
        let begin = places(&[axis], shape.len())[0];
        let length = count(&shape[begin..]);
        let values: Vec<f32> = rng.floats(count(&shape), scale).iter().map(|value| value + shift).collect();
        let (gamma, beta) = (rng.floats(length, 2.0), rng.floats(length, 1.0));
        let (mut y, mut means, mut variances) = (Vec::new(), Vec::new(), Vec::new());
        for row in values.chunks(length) {
            let mean = row.iter().map(|value| f64::from(*value)).sum::<f64>() / length as f64;
            let off = |value: &f32| f64::from(*value) - mean;
            let variance = row.iter().map(|value| off(value).powi(2)).sum::<f64>() / length as f64;
            means.push((mean, 0.0));
            variances.push((variance, variance * 1e-7));
            let deviation = (variance + f64::from(epsilon)).sqrt();
            for (at, value) in row.iter().enumerate() {
                let scaled = off(value) / deviation * f64::from(gamma[at]);
                let value = scaled + f64::from(beta[at]);
                y.push((value, 3e-7 * (scaled.abs() + f64::from(beta[at]).abs())));
            }
        }
        let begins = [int_attr("begin_norm_axis", axis), int_attr("begin_params_axis", axis)];
        let attrs = [&begins[..], &[float_attr("epsilon", epsilon)]].concat();
        let node = Node::new()
            .tensor("float32", &shape, &bytes_of(&values))
            .tensor("float32", &shape[begin..], &bytes_of(&gamma))
            .tensor("float32", &shape[begin..], &bytes_of(&beta));
        cases.push(node.case("LayerNorm", &attrs, move |found| {
            for (expected, found) in [&y, &means, &variances].into_iter().zip(found) {
                near_one(expected, found)?;
            }
            if found.len() == 3 { Ok(()) } else { Err(format!("{} outputs", found.len())) }
        }));
    }
    cases
}

pub(crate) fn local_responses() -> Vec<Case> {
    let mut rng = Rng::new(16);
    let mut cases = Vec::new();
    for (shape, radius, bias, alpha, beta) in [
        (vec![2, 9, 5, 5], 2i64, 1.0f32, 1e-4f32, 0.75f32),
        (vec![1, 7, 20, 30], 1, 2.0, 0.3, 0.5),
        (vec![3, 4, 300], 0, 1.0, 0.5, 1.0),
        (vec![2, 6, 3], 5, 0.5, 2.0, 0.6),
        (vec![4, 100], 40, 1.0, 1.0, 0.75),
        (vec![1, 2, 40_000], i64::MAX, 1.0, 0.1, 1.25),
    ] {
        let values = rng.floats(count(&shape), 4.0);
        let (channels, pixels) = (shape[1] as usize, count(&shape[2..]));
        let mut expected = Vec::new();
        for at in 0..values.len() {
            let (image, channel, pixel) = (at / pixels / channels, at / pixels % channels, at % pixels);
            let near = |other: &usize| other.abs_diff(channel) as i64 <= radius;
            let squares = (0..channels)
                .filter(near)
                .map(|other| f64::from(values[(image * channels + other) * pixels + pixel]).powi(2));
            let base = f64::from(bias) + f64::from(alpha) * squares.sum::<f64>();
            let value = f64::from(values[at]) / base.powf(f64::from(beta));
            expected.push((value, value.abs() * 6e-7));
        }
        let attrs = [
            int_attr("depth_radius", radius),
            float_attr("bias", bias),
            float_attr("alpha", alpha),
            float_attr("beta", beta),
        ];
        let node = Node::new().tensor("float32", &shape, &bytes_of(&values));
        cases.push(node.case("LRN", &attrs, near(expected)));
    }
    cases
}
