//! Broadcasting and blocks: every element equals that of a naive reference, for any number of threads.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{backend, floats, job, kernel, launch, numbers};
use opkeep_ops::broadcast;

/// The number of elements of one block of the output.
const GRAIN: i64 = 32 * 1024;

fn elements(shape: &[i64]) -> usize {
    shape.iter().product::<i64>() as usize
}

/// Returns the offset in a tensor of `shape` of the element at `index` of the output.
fn offset(shape: &[i64], index: &[i64]) -> usize {
    let skipped = index.len() - shape.len();
    let dims = shape.iter().zip(&index[skipped..]);
    dims.fold(0, |offset, (dim, at)| offset * dim + if *dim == 1 { 0 } else { *at }) as usize
}

/// `a - b`, one index after the other.
fn naive(left: &[i64], a: &[f32], right: &[i64], b: &[f32]) -> Vec<f32> {
    let output = broadcast(left, right).unwrap();
    let mut index = vec![0; output.len()];
    let mut result = Vec::new();
    for _ in 0..elements(&output) {
        result.push(a[offset(left, &index)] - b[offset(right, &index)]);
        for axis in (0..output.len()).rev() {
            index[axis] += 1;
            if index[axis] < output[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    result
}

fn check(left: &[i64], right: &[i64], threads: &[usize]) {
    let (a, b) = (numbers(elements(left), 5), numbers(elements(right), 6));
    let kernel = kernel(backend(), &job("Sub", &[left, right], &[]));
    let expected: Vec<u32> = naive(left, &a, right, &b).iter().map(|value| value.to_bits()).collect();
    for threads in threads {
        let found = floats(&launch(&*kernel, &[&a, &b], *threads));
        let found: Vec<u32> = found.iter().map(|value| value.to_bits()).collect();
        let differ = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        assert!(
            expected == found,
            "{left:?} - {right:?} on {threads} threads: {} and {} elements, first difference at {differ:?}",
            expected.len(),
            found.len()
        );
    }
}

/// Runs `check` for every pair, on all processors.
fn check_all(pairs: &[(Vec<i64>, Vec<i64>)], threads: &[usize]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((left, right)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(left, right, threads);
                }
            });
        }
    });
}

#[test]
fn every_pair_of_small_shapes_is_numpys() {
    let shapes: [&[i64]; 22] = [
        &[],
        &[1],
        &[4],
        &[0],
        &[3, 1],
        &[1, 4],
        &[3, 4],
        &[3, 0],
        &[0, 4],
        &[1, 3, 1],
        &[2, 1, 1],
        &[2, 1, 4],
        &[2, 3, 1],
        &[2, 3, 4],
        &[2, 0, 4],
        &[5, 1, 1, 1],
        &[1, 2, 1, 4],
        &[5, 1, 3, 1],
        &[5, 2, 1, 1],
        &[5, 2, 3, 1],
        &[1, 2, 3, 4],
        &[5, 2, 3, 4],
    ];
    let mut pairs = Vec::new();
    for left in shapes {
        for right in shapes.into_iter().filter(|right| broadcast(left, right).is_some()) {
            pairs.push((left.to_vec(), right.to_vec()));
        }
    }
    assert!(pairs.len() > 150, "{}", pairs.len());
    check_all(&pairs, &[1]);
}

#[test]
fn sizes_around_the_grain_are_whole_for_any_number_of_threads() {
    let mut pairs = Vec::new();
    for size in [GRAIN - 1, GRAIN, GRAIN + 1, 3 * GRAIN + 1] {
        pairs.push((vec![size], vec![size]));
        pairs.push((vec![size], vec![1]));
        pairs.push((vec![3, size], vec![size]));
        pairs.push((vec![3, 1], vec![3, size]));
        pairs.push((vec![size, 2], vec![size, 1]));
    }
    for short in 1..=5 {
        pairs.push((vec![3 * GRAIN + 1, short], vec![short]));
        pairs.push((vec![short], vec![1, 3 * GRAIN / 2, 1]));
        pairs.push((vec![GRAIN + 7, 1, short], vec![2, 1]));
    }
    pairs.push((vec![40, 1, 50, 1], vec![1, 30, 1, 7]));
    pairs.push((vec![2, 3, 1, GRAIN + 1], vec![3, 2, 1]));
    check_all(&pairs, &[1, 2, 7]);
}

#[test]
fn a_large_tensor_has_many_blocks() {
    let artifact = crate::common::compile(backend(), &job("Sub", &[&[3 * GRAIN + 1], &[1]], &[])).unwrap();
    let meta = opkeep_cann_meta::KernelMeta::parse(&artifact.metadata).unwrap();
    assert_eq!(meta.block_dim, Some(opkeep_cann_meta::BlockDim::Fixed(4)));
}

/// Unary operators and those with truth values as results use the same loops.
#[test]
fn other_operators_are_complete_too() {
    let values = numbers((3 * GRAIN + 1) as usize, 7);
    let shape = [3 * GRAIN + 1];
    let neg = kernel(backend(), &job("Neg", &[&shape], &[]));
    let less = kernel(backend(), &job("Less", &[&shape, &[]], &[]));
    for threads in [1, 2, 7] {
        let expected: Vec<f32> = values.iter().map(|value| -value).collect();
        assert_eq!(floats(&launch(&*neg, &[&values], threads)), expected);
        let expected: Vec<u8> = values.iter().map(|value| u8::from(*value < 1.5)).collect();
        assert_eq!(launch(&*less, &[&values, &[1.5]], threads), expected);
    }
}
