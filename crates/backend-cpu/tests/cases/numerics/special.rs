//! Functions that the standard library does not have, to about 1e-14.

use std::f64::consts::PI;

/// The error function, by its series without cancellation.
pub(crate) fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 6.0 {
        return x.signum();
    }
    if x.abs() > 2.0 {
        return x.signum() * (1.0 - erfc(x.abs()));
    }
    // erf x = 2/sqrt(pi) e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!!
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// Its complement; for large arguments by its continued fraction, from the far end.
pub(crate) fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 2.0 {
        return 1.0 - erf(x);
    }
    if x > 30.0 {
        return 0.0;
    }
    // erfc x = e^(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))
    let below = (1..200).rev().fold(x, |below, n| x + f64::from(n) / 2.0 / below);
    (-x * x).exp() / PI.sqrt() / below
}

/// The logarithm of the absolute value of the gamma function, by Stirling's series beyond 20.
pub(crate) fn lgamma(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.is_infinite() || (x <= 0.0 && x.fract() == 0.0) {
        return f64::INFINITY;
    }
    if x < 0.0 {
        // Gamma(x) Gamma(1-x) = pi / sin(pi x), and the sine repeats.
        return (PI / (PI * (x - x.round())).sin().abs()).ln() - lgamma(1.0 - x);
    }
    let (mut product, mut z) = (1.0, x);
    while z < 20.0 {
        product *= z;
        z += 1.0;
    }
    let (inverse, square) = (1.0 / z, 1.0 / (z * z));
    let series = inverse
        * (1.0 / 12.0
            - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * PI).ln() + series - f64::ln(product)
}

/// The next float from `from` towards `to`.
pub(crate) fn next_after(from: f32, to: f32) -> f32 {
    if from.is_nan() || to.is_nan() {
        f32::NAN
    } else if from == to {
        to
    } else if to > from {
        from.next_up()
    } else {
        from.next_down()
    }
}

/// Known values, from the tables of Abramowitz and Stegun and from identities.
pub(crate) fn check() {
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() <= 1e-13 * expected.abs().max(1e-30), "{found:e}, not {expected:e}");
    };
    near(erf(0.5), 0.520_499_877_813_046_5);
    near(erf(1.0), 0.842_700_792_949_714_9);
    near(erf(-2.0), -0.995_322_265_018_952_7);
    near(erf(3.0), 0.999_977_909_503_001_4);
    near(erfc(0.5), 0.479_500_122_186_953_5);
    near(erfc(2.5), 4.069_520_174_449_589e-4);
    near(erfc(5.0), 1.537_459_794_428_034_8e-12);
    near(erfc(10.0), 2.088_487_583_762_545e-45);
    near(lgamma(0.5), PI.sqrt().ln());
    near(lgamma(10.0), 362_880_f64.ln());
    near(lgamma(-0.5), (2.0 * PI.sqrt()).ln());
    near(lgamma(0.25), 1.288_022_524_698_077_5);
    near(lgamma(100.0), 359.134_205_369_575_4);
    assert!(lgamma(1.0).abs() < 1e-13 && lgamma(2.0).abs() < 1e-13);
}
