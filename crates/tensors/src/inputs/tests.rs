use super::*;

fn info(dtype: &str, shape: &[i64]) -> ValueInfo {
    ValueInfo { name: "x".into(), dtype: dtype.into(), shape: shape.to_vec() }
}

#[test]
fn a_ramp_goes_from_zero_to_just_below_one() {
    let ramp = generated(&info("float32", &[2, 2]), Fill::Ramp, 0).unwrap();
    assert_eq!(ramp.to_f32(), [0.0, 0.25, 0.5, 0.75]);
    assert_eq!(generated(&info("int8", &[3]), Fill::Ramp, 0).unwrap().bytes(), [0, 1, 0]);
}

#[test]
fn random_values_are_normal_repeatable_and_differ_between_inputs() {
    let of = |seed, at| generated(&info("float32", &[10_000]), Fill::Random { seed }, at).unwrap().to_f32();
    let values = of(1, 0);
    assert_eq!(values, of(1, 0));
    assert!(values != of(2, 0) && values != of(1, 1));
    let mean = values.iter().sum::<f32>() / 1e4;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / 1e4;
    assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
}
