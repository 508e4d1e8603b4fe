use super::*;

fn errors_of(comparison: &Comparison) -> &ElementErrors {
    let Comparison::Compared(errors) = comparison else { panic!("{comparison}") };
    errors
}

fn worst_index(comparison: &Comparison) -> &[usize] {
    &errors_of(comparison).worst.as_ref().unwrap().index
}

fn compared(found: &[f32], expected: &[f32], rtol: f64, atol: Option<f64>) -> Comparison {
    let rtol = Some(rtol);
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
    let shape = vec![1, expected.len() as i64];
    let output = ValueInfo { name: "y".into(), dtype: "float32".into(), shape: shape.clone() };
    let reference = Tensor { name: "y".into(), dtype: "float32".into(), shape, bytes: bytes(expected) };
    compare(&output, &bytes(found), &reference, Tolerance { rtol, atol })
}

#[test]
fn the_worst_element_is_found_and_decides() {
    let close = compared(&[1.0, 2.0, 3.0005], &[1.0, 2.0, 3.0], 1e-3, Some(0.0));
    assert!(close.passed());
    let far = compared(&[1.0, 2.1, 3.0], &[1.0, 2.0, 3.0], 1e-3, Some(0.0));
    assert!(!far.passed());
    assert_eq!(worst_index(&far), [0, 1]);
    assert_eq!(errors_of(&far).outside, 1);
    // Small elements are judged by the size of all elements, unless a tolerance is given.
    assert!(compared(&[100.0, 0.00009], &[100.0, 0.0], 1e-3, None).passed());
    assert!(!compared(&[100.0, 0.001], &[100.0, 0.0], 1e-3, None).passed());
    assert!(!compared(&[100.0, 0.001], &[100.0, 0.0], 1e-3, Some(1e-7)).passed());
    assert!(!compared(&[100.0, 0.1], &[100.0, 0.0], 1e-3, None).passed());
}

#[test]
fn a_tolerance_that_is_no_number_is_none() {
    for unusable in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(!compared(&[2.0], &[1.0], unusable, Some(0.0)).passed(), "{unusable}");
        assert!(!compared(&[2.0], &[1.0], 0.0, Some(unusable)).passed(), "{unusable}");
        assert!(compared(&[1.0], &[1.0], unusable, Some(unusable)).passed(), "{unusable}");
    }
}

#[test]
fn the_worst_element_is_reported_with_any_tolerance() {
    let last = compared(&[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 3.5, 4.0], 0.0, Some(1e30));
    assert!(last.passed());
    assert_eq!(worst_index(&last), [0, 3]);
}

#[test]
fn huge_references_do_not_raise_the_tolerance_of_others() {
    let huge = f32::MAX;
    // A quarter, half, and all but one of them, as after a mask.
    for references in [
        vec![300.0, 200.0, 100.0, huge],
        vec![300.0, huge],
        vec![300.0, huge, -huge, huge, -huge, huge],
        vec![300.0, 1e10, 1e18, 1e26, 1e34, huge],
        vec![300.0, -1e12, -1e12],
        vec![300.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY],
    ] {
        let with = |first: f32| [&[first], &references[1..]].concat();
        for wrong in [3.0, 299.0, -300.0, 0.0, f32::NAN, huge] {
            let found = compared(&with(wrong), &references, 1e-3, None);
            assert!(!found.passed(), "{wrong} in {references:?}: {found}");
            assert_eq!(worst_index(&found), [0, 0], "{references:?}");
        }
        assert!(compared(&with(300.1), &references, 1e-3, None).passed(), "{references:?}");
    }
    let zero = compared(&[5.0, 1.0, huge, huge], &[0.0, 1.0, huge, huge], 1e-3, None);
    assert!(!zero.passed(), "{}", zero.to_string());
}

#[test]
fn references_of_any_size_are_judged_by_their_own_size() {
    for size in [1e-38_f32, 1e-30, 1e-6, 1.0, 1e30] {
        let references = [size, -2.0 * size, 0.5 * size, 0.0];
        assert!(compared(&references, &references, 1e-3, None).passed());
        assert!(
            compared(&[size * 1.0005, references[1], references[2], 0.0], &references, 1e-3, None).passed()
        );
        for (at, wrong) in [(0, size * 1.01), (0, 0.0), (3, size * 0.01), (2, -0.5 * size)] {
            let mut found = references;
            found[at] = wrong;
            assert!(!compared(&found, &references, 1e-3, None).passed(), "{wrong} at {at} of {references:?}");
        }
    }
    // If all are 0, there is no size to compare with.
    assert!(compared(&[0.0, -0.0], &[0.0, 0.0], 1e-3, None).passed());
    assert!(!compared(&[1e-30, 0.0], &[0.0, 0.0], 1e-3, None).passed());
    assert!(compared(&[1e-30, 0.0], &[0.0, 0.0], 1e-3, Some(1e-20)).passed());
    assert!(compared(&[], &[], 1e-3, None).passed());
}

#[test]
fn the_worst_relative_error_is_printed() {
    let found = compared(&[1.0, 2.2, 0.0], &[1.0, 2.0, 0.0], 1.0, Some(1.0));
    let relative = errors_of(&found).relative;
    assert!((relative - 0.1).abs() < 1e-6, "{relative}");
    assert!(found.to_string().ends_with("worst relative error 1.0e-1"), "{}", found);
    assert!(compared(&[1.0], &[1.0], 1.0, None).to_string().ends_with("worst relative error 0 (exact)"));
    // There is no relative error of 0 or of NaN.
    for (wrong, expected) in
        [(0.001, 0.0), (-1e-45, 0.0), (1.0, f32::NAN), (f32::NAN, 1.0), (1.0, f32::INFINITY)]
    {
        let found = compared(&[1.0, 2.2, wrong], &[1.0, 2.0, expected], 1.0, Some(1.0));
        assert_eq!(errors_of(&found).relative, f64::INFINITY, "{wrong} {expected}");
        assert!(found.to_string().contains("worst relative error inf"), "{}", found);
    }
    let found = compared(&[1.0, 2.2, 0.001], &[1.0, 2.0, 0.0], 1.0, Some(1.0));
    assert!(found.to_string().contains("inf, and 1.0e-1 where"), "{}", found);
    assert!(compared(&[f32::NAN], &[f32::NAN], 1.0, None).to_string().contains("0 (exact)"));
}

#[test]
fn nan_is_the_worst_error() {
    assert!(!compared(&[f32::NAN], &[1.0], 1.0, Some(1e30)).passed());
    assert!(!compared(&[f32::INFINITY], &[1.0], 1.0, Some(1e30)).passed());
    assert!(!compared(&[1.0], &[f32::INFINITY], 1.0, Some(1e30)).passed());
    assert!(!compared(&[1.0, f32::NAN], &[f32::NAN, 1.0], 1.0, Some(1e30)).passed());
    assert!(compared(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY], 0.0, Some(0.0)).passed());
    // Only the same infinity is equal; the largest finite number is not, whatever the tolerance.
    for (found, expected) in
        [(f32::NEG_INFINITY, f32::INFINITY), (f32::MAX, f32::INFINITY), (f32::INFINITY, f32::MAX)]
    {
        assert!(!compared(&[found], &[expected], 1e308, Some(1e308)).passed(), "{found} {expected}");
    }
    // NaNs are equal whatever their bits are.
    assert!(compared(&[f32::from_bits(0xffc0_1234)], &[f32::NAN], 0.0, Some(0.0)).passed());
}

#[test]
fn integers_are_equal_or_not() {
    let output = ValueInfo { name: "y".into(), dtype: "int64".into(), shape: vec![2] };
    let bytes = |values: [i64; 2]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
    let reference =
        Tensor { name: String::new(), dtype: "int64".into(), shape: vec![2], bytes: bytes([2, 100_050]) };
    let compared = |found, tolerance| compare(&output, &bytes(found), &reference, tolerance);
    let default = Tolerance { rtol: None, atol: None };
    assert!(compared([2, 100_050], default).passed());
    let wrong = compared([2, 100_051], default);
    assert!(!wrong.passed());
    assert_eq!(worst_index(&wrong), [1]);
    // A relative tolerance is for floats; an absolute one applies to integers, too.
    assert!(!compared([2, 100_051], Tolerance { rtol: Some(0.1), atol: None }).passed());
    assert!(compared([2, 100_051], Tolerance { rtol: None, atol: Some(1.0) }).passed());
    // Two integers that are equal as float64.
    let (near, far) = (bytes([i64::MAX, 0]), bytes([i64::MAX - 1, 0]));
    let reference = Tensor { bytes: near, ..reference };
    assert!(!compare(&output, &far, &reference, default).passed());
}

#[test]
fn booleans_must_be_equal_with_any_tolerance() {
    let output = ValueInfo { name: "y".into(), dtype: "bool".into(), shape: vec![2] };
    let reference = Tensor { name: String::new(), dtype: "bool".into(), shape: vec![2], bytes: vec![1, 0] };
    let tolerance = Tolerance { rtol: Some(1e9), atol: Some(1e9) };
    let passed = |found: &[u8]| compare(&output, found, &reference, tolerance).passed();
    assert!(passed(&[1, 0]) && passed(&[7, 0]) && !passed(&[1, 1]) && !passed(&[0, 0]));
}

#[test]
fn another_shape_is_a_difference() {
    let output = ValueInfo { name: "y".into(), dtype: "float32".into(), shape: vec![2] };
    let reference =
        Tensor { name: String::new(), dtype: "float32".into(), shape: vec![1, 2], bytes: vec![0; 8] };
    let tolerance = Tolerance { rtol: Some(1.0), atol: None };
    let comparison = compare(&output, &[0; 8], &reference, tolerance);
    assert!(!comparison.passed());
    assert!(comparison.to_string().contains("shape: expected [1, 2], found [2]"));
}
