//! The expected result of each operator, written from the formulas of the IR and not from the generated code.

use std::f64::consts::PI;

use opkeep_descriptor::{Attr, AttrValue};

use crate::common::{attr, float};
use crate::numerics::special::{erf, erfc, lgamma, next_after};

/// The comparison of a result with its reference.
pub(crate) enum Reference {
    /// Equal bits, or both NaN.
    Exact(Box<dyn Fn(f32, f32) -> f32>),
    /// The maximum error in units in the last place, or as a number. With 0 units, the result is rounded correctly.
    Near(f64, f64, Box<dyn Fn(f64, f64) -> f64>),
    /// A truth value.
    Is(Box<dyn Fn(f32, f32) -> bool>),
}

/// An operator with attributes and its reference.
pub(crate) struct Case {
    pub(crate) op_type: &'static str,
    pub(crate) attrs: Vec<Attr>,
    pub(crate) reference: Reference,
}

#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, op_type: &'static str, attrs: &[Attr], reference: Reference) {
        self.0.push(Case { op_type, attrs: attrs.to_vec(), reference });
    }

    fn exact(&mut self, op_type: &'static str, attrs: &[Attr], f: impl Fn(f32) -> f32 + 'static) {
        self.add(op_type, attrs, Reference::Exact(Box::new(move |x, _| f(x))));
    }

    fn exact2(&mut self, op_type: &'static str, attrs: &[Attr], f: impl Fn(f32, f32) -> f32 + 'static) {
        self.add(op_type, attrs, Reference::Exact(Box::new(f)));
    }

    fn near(
        &mut self,
        op_type: &'static str,
        attrs: &[Attr],
        ulps: f64,
        off: f64,
        f: impl Fn(f64) -> f64 + 'static,
    ) {
        self.add(op_type, attrs, Reference::Near(ulps, off, Box::new(move |x, _| f(x))));
    }

    fn near2(&mut self, op_type: &'static str, ulps: f64, f: impl Fn(f64, f64) -> f64 + 'static) {
        self.add(op_type, &[], Reference::Near(ulps, 0.0, Box::new(f)));
    }

    fn is(&mut self, op_type: &'static str, f: impl Fn(f32) -> bool + 'static) {
        self.add(op_type, &[], Reference::Is(Box::new(move |x, _| f(x))));
    }

    fn is2(&mut self, op_type: &'static str, attrs: &[Attr], f: impl Fn(f32, f32) -> bool + 'static) {
        self.add(op_type, attrs, Reference::Is(Box::new(f)));
    }
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Cases::default();
    exact_unary(&mut cases);
    rounding(&mut cases);
    functions(&mut cases);
    exponentials(&mut cases);
    activations(&mut cases);
    gelus(&mut cases);
    binary(&mut cases);
    predicates(&mut cases);
    cases.0
}

/// `max(x, 0)`; NaN stays NaN.
fn positive(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

fn negative(x: f64) -> f64 {
    if x > 0.0 { 0.0 } else { x }
}

/// `ln(1 + e^x)`.
fn softplus(x: f64) -> f64 {
    if x > 40.0 { x } else { x.exp().ln_1p() }
}

fn exact_unary(cases: &mut Cases) {
    cases.exact("Abs", &[], |x| f32::from_bits(x.to_bits() & 0x7fff_ffff));
    cases.exact("Neg", &[], |x| f32::from_bits(x.to_bits() ^ 0x8000_0000));
    cases.exact("TensorMove", &[], |x| x);
    cases.exact("OnesLike", &[], |_| 1.0);
    cases.exact("ZerosLike", &[], |_| 0.0);
    for value in [-2.5, 0.1, f64::INFINITY, f64::NAN] {
        cases.exact("Fills", &[float("value", value)], move |_| value as f32);
    }
    for value in [0.1, -1e30] {
        cases.exact("Adds", &[float("value", value)], move |x| x + value as f32);
        cases.exact("Muls", &[float("value", value)], move |x| x * value as f32);
    }
    cases.exact("Sign", &[], |x| if x.is_nan() || x == 0.0 { x } else { x.signum() });
    cases.exact("Square", &[], |x| x * x);
    cases.exact("Sqrt", &[], f32::sqrt);
    cases.exact("Inv", &[], |x| 1.0 / x);
    cases.exact("Reciprocal", &[], |x| 1.0 / x);
    let relu = |x: f32| if x <= 0.0 { 0.0 } else { x };
    cases.exact("Relu", &[], relu);
    cases.exact("Relu6", &[], move |x| if x > 6.0 { 6.0 } else { relu(x) });
    for slope in [0.0, 0.25, -3.0] {
        let f = move |x: f32| if x > 0.0 { x } else { slope as f32 * x };
        cases.exact("LeakyRelu", &[float("negative_slope", slope)], f);
    }
    for at in [0.0, 1.0, -3.5] {
        cases.exact("Threshold", &[float("threshold", at)], move |x| f32::from(u8::from(f64::from(x) > at)));
        let f = move |x: f32| if f64::from(x) > at { x } else { 0.0 };
        cases.exact("ThresholdedRelu", &[float("alpha", at)], f);
    }
    for lambd in [0.5f32, 3.0] {
        let attrs = [float("lambd", lambd.into())];
        cases.exact("HardShrink", &attrs, move |x| if x >= -lambd && x <= lambd { 0.0 } else { x });
        cases.exact("SoftShrink", &attrs, move |x| match x {
            x if x > lambd => x - lambd,
            x if x < -lambd => x + lambd,
            _ => 0.0,
        });
    }
    // Also with a bias larger than the input, so that the sign changes.
    for (lambd, bias) in [(0.5, 0.0), (2.0, 1.5), (0.25, 4.0), (1.0, -2.0)] {
        let attrs = [float("lambd", lambd), float("bias", bias)];
        cases.near("Shrink", &attrs, 0.0, 0.0, move |x| match x {
            x if x >= -lambd && x <= lambd => 0.0,
            x if x.is_nan() => x,
            x => x.signum() * (x.abs() - bias),
        });
    }
}

fn rounding(cases: &mut Cases) {
    cases.exact("Ceil", &[], f32::ceil);
    cases.exact("Floor", &[], f32::floor);
    cases.exact("Trunc", &[], f32::trunc);
    cases.exact("Rint", &[], f32::round_ties_even);
    let decimals = |decimals| [attr("decimals", "int32", AttrValue::Int(decimals))];
    cases.exact("Round", &decimals(0), f32::round_ties_even);
    // Floats above 2^23 are whole numbers.
    let whole = |x: f32| x.is_nan() || x.abs() >= 8_388_608.0;
    for (places, scale) in [(1, 10.0), (2, 100.0), (7, 1e7), (30, 1e30)] {
        let f = move |x: f32| if whole(x * scale) { x } else { (x * scale).round_ties_even() / scale };
        cases.exact("Round", &decimals(places), f);
    }
    for (places, scale) in [(-2, 100.0), (-5, 1e5)] {
        cases.exact("Round", &decimals(places), move |x| (x / scale).round_ties_even() * scale);
    }
}

/// Functions of the C library: two or three units, and more only where the C library documents it.
fn functions(cases: &mut Cases) {
    cases.near("Rsqrt", &[], 2.0, 0.0, |x| 1.0 / x.sqrt());
    cases.near("Sin", &[], 2.0, 0.0, f64::sin);
    cases.near("Cos", &[], 2.0, 0.0, f64::cos);
    cases.near("Tan", &[], 2.0, 0.0, f64::tan);
    cases.near("Asin", &[], 2.0, 0.0, f64::asin);
    cases.near("Acos", &[], 2.0, 0.0, f64::acos);
    cases.near("Atan", &[], 2.0, 0.0, f64::atan);
    cases.near("Sinh", &[], 3.0, 0.0, |x| {
        if x.abs() < 1.0 { (x.exp_m1() - (-x).exp_m1()) / 2.0 } else { (x.exp() - (-x).exp()) / 2.0 }
    });
    cases.near("Cosh", &[], 3.0, 0.0, |x| (x.exp() + (-x).exp()) / 2.0);
    cases.near("Tanh", &[], 3.0, 0.0, f64::tanh);
    cases.near("Asinh", &[], 3.0, 0.0, |x| match x.abs() {
        big if big.is_infinite() => x,
        small => (small + small * small / (1.0 + (small * small + 1.0).sqrt())).ln_1p().copysign(x),
    });
    cases.near("Acosh", &[], 3.0, 0.0, |x| {
        if x < 1.0 { f64::NAN } else { (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p() }
    });
    cases.near("Atanh", &[], 3.0, 0.0, |x| 0.5 * (2.0 * x / (1.0 - x)).ln_1p());
    cases.near("Erf", &[], 3.0, 0.0, erf);
    cases.near("Erfc", &[], 6.0, 0.0, erfc);
    cases.near("Lgamma", &[], 8.0, 1e-13, lgamma);
    cases.near("Expm1", &[], 2.0, 0.0, f64::exp_m1);
    cases.near("Log1p", &[], 2.0, 0.0, f64::ln_1p);
}

fn exponentials(cases: &mut Cases) {
    let attrs = |base: f64, scale: f64, shift: f64| {
        [float("base", base), float("scale", scale), float("shift", shift)]
    };
    // The error of an inexact exponent is multiplied by the exponent: 90 times half a unit.
    cases.near("Exp", &[], 2.0, 0.0, f64::exp);
    cases.near("Exp", &attrs(2.0, 1.0, 0.0), 2.0, 0.0, f64::exp2);
    cases.near("Exp", &attrs(10.0, 1.0, 0.0), 2.0, 0.0, |x| 10f64.powf(x));
    cases.near("Exp", &attrs(-1.0, -2.0, 0.5), 128.0, 0.0, |x| (-2.0 * x + 0.5).exp());
    cases.near("Exp", &attrs(0.5, 4.0, 3.0), 128.0, 0.0, |x| 0.5f64.powf(4.0 * x + 3.0));
    cases.near("Log", &[], 2.0, 0.0, f64::ln);
    cases.near("Log", &attrs(2.0, 1.0, 0.0), 2.0, 0.0, f64::log2);
    cases.near("Log", &attrs(10.0, 1.0, 0.0), 3.0, 0.0, f64::log10);
    // Near 1 the argument is off by half a unit of 1, and so is the logarithm.
    cases.near("Log", &attrs(-1.0, 0.5, 1.0), 2.0, 1e-7, |x| (0.5 * x + 1.0).ln());
    cases.near("Log", &attrs(3.0, -0.5, 0.25), 4.0, 1e-7, |x| (-0.5 * x + 0.25).ln() / 3f64.ln());
    for (power, scale, shift, ulps) in
        [(1.0, 1.0, 0.0, 0.0), (3.0, 2.0, 1.0, 8.0), (-0.5, 1.0, 0.0, 2.0), (0.0, 2.0, 1.0, 0.0)]
    {
        let attrs = [float("power", power), float("scale", scale), float("shift", shift)];
        cases.near("Power", &attrs, ulps, 0.0, move |x| (shift + scale * x).powf(power));
    }
    // The result is then `shift^power` for every input.
    let attrs = [float("power", 2.0), float("scale", 0.0), float("shift", 3.0)];
    cases.near("Power", &attrs, 0.0, 0.0, |_| 9.0);
}

fn activations(cases: &mut Cases) {
    for (alpha, scale, input) in [(1.0, 1.0, 1.0), (1.5, 2.0, 0.5), (-2.0, 3.0, 2.0)] {
        let attrs = [float("alpha", alpha), float("scale", scale), float("input_scale", input)];
        cases.near("Elu", &attrs, 4.0, 0.0, move |x| {
            scale * (positive(x) + alpha * (input * negative(x)).exp_m1())
        });
    }
    for (alpha1, alpha2, alpha3) in [(1.0, 1.0, 1.0), (0.75, 2.0, 3.0)] {
        let attrs = [float("alpha1", alpha1), float("alpha2", alpha2), float("alpha3", alpha3)];
        cases.near("Celu", &attrs, 4.0, 0.0, move |x| {
            alpha3 * positive(x) + alpha1 * (negative(x) / alpha2).exp_m1()
        });
    }
    for alpha in [1.0, 0.25, 4.0] {
        cases.near("CeluV2", &[float("alpha", alpha)], 4.0, 0.0, move |x| {
            if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() }
        });
    }
    cases.near("Selu", &[], 4.0, 0.0, |x| {
        1.050_700_987_36 * (positive(x) + 1.673_263_242_35 * negative(x).exp_m1())
    });
    cases.near("Sigmoid", &[], 4.0, 1.2e-38, |x| 1.0 / (1.0 + (-x).exp()));
    cases.near("LogSigmoid", &[], 4.0, 0.0, |x| -softplus(-x));
    cases.near("Softplus", &[], 4.0, 0.0, softplus);
    cases.near("BNLL", &[], 4.0, 0.0, softplus);
    for (beta, threshold) in [(1.0, 20.0), (2.0, 3.0), (0.5, 1000.0), (4.0, -1.0)] {
        let attrs = [float("beta", beta), float("threshold", threshold)];
        cases.near("SoftplusV2", &attrs, 4.0, 0.0, move |x| {
            if beta * x > threshold { x } else { softplus(beta * x) / beta }
        });
    }
    cases.near("Softsign", &[], 2.0, 0.0, |x| x / (1.0 + x.abs()));
    // The lost bits of a subnormal number are multiplied by the input.
    cases.near("Mish", &[], 6.0, 1e-42, |x| x * softplus(x).tanh());
    cases.near("HardSwish", &[], 3.0, 0.0, |x| x * (if x > 3.0 { 6.0 } else { positive(x + 3.0) }) / 6.0);
    for (alpha, beta) in [(f64::from(0.166_666_66_f32), 0.5), (0.25, 0.125), (-2.0, 1.0)] {
        cases.near("HardSigmoid", &[float("alpha", alpha), float("beta", beta)], 2.0, 1.2e-7, move |x| {
            let y = positive(alpha * x + beta);
            if y > 1.0 { 1.0 } else { y }
        });
    }
}

/// For large negative inputs the error of the exponent counts, where the result is almost 0.
fn gelus(cases: &mut Cases) {
    let tanh_form = |x: f64| x / (1.0 + (-2.0 * (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).exp());
    cases.near("Gelu", &[], 500.0, 1e-36, tanh_form);
    let approximate = |form: &str| [attr("approximate", "str", AttrValue::Str(form.to_owned()))];
    cases.near("GeluV2", &approximate("tanh"), 500.0, 1e-36, tanh_form);
    cases.near("GeluV2", &approximate("none"), 500.0, 1e-36, |x| x * 0.5 * erfc(-x / 2f64.sqrt()));
    cases.near("FastGelu", &[], 150.0, 1e-36, |x| x / (1.0 + (-1.702 * x).exp()));
    cases.near("FastGeluV2", &[], 8.0, 4e-7, |x| {
        let bend = (x.abs() * 7071.0 / 1e4).min(1.769) - 1.769;
        let sign = if x >= 0.0 { 1.0 } else { -1.0 };
        if x.is_nan() { x } else { x * (sign * (-0.1444 * bend * bend + 0.5) + 0.5) }
    });
    for (scale, ulps) in [(1.0, 4.0), (1.5, 150.0), (-2.0, 4.0)] {
        cases.near("Swish", &[float("scale", scale)], ulps, 1e-36, move |x| x / (1.0 + (-scale * x).exp()));
    }
}

fn binary(cases: &mut Cases) {
    cases.exact2("Add", &[], |a, b| a + b);
    cases.exact2("AddV2", &[], |a, b| a + b);
    cases.exact2("Sub", &[], |a, b| a - b);
    cases.exact2("Mul", &[], |a, b| a * b);
    // Two roundings: no machine may fuse them.
    for alpha in [0.1f32, -3.0] {
        cases.exact2("Axpy", &[float("alpha", alpha.into())], move |a, b| a + alpha * b);
    }
    for op_type in ["Div", "RealDiv", "TruncateDiv"] {
        cases.exact2(op_type, &[], |a, b| a / b);
    }
    cases.exact2("DivNoNan", &[], |a, b| if b == 0.0 { 0.0 } else { a / b });
    cases.exact2("MulNoNan", &[], |a, b| if b == 0.0 { 0.0 } else { a * b });
    cases.exact2("Xdivy", &[], |a, b| if a == 0.0 { 0.0 } else { a / b });
    cases.exact2("FloorDiv", &[], |a, b| (a / b).floor());
    cases.near2("FloorMod", 0.0, |a, b| {
        let rest = a % b;
        if rest != 0.0 && (rest > 0.0) != (b > 0.0) { rest + b } else { rest }
    });
    for op_type in ["Mod", "TruncateMod"] {
        cases.exact2(op_type, &[], |a, b| a % b);
    }
    cases.exact2("Maximum", &[], |a, b| if a.is_nan() || a > b { a } else { b });
    cases.exact2("Minimum", &[], |a, b| if a.is_nan() || a < b { a } else { b });
    cases.exact2("NextAfter", &[], next_after);
    cases.near2("SquaredDifference", 3.0, |a, b| (a - b).powi(2));
    cases.near2("Pow", 2.0, f64::powf);
    cases.near2("Atan2", 2.0, f64::atan2);
    cases.near2("Xlogy", 3.0, |a, b| if a == 0.0 { 0.0 } else { a * b.ln() });
    cases.near2("Xlog1py", 3.0, |a, b| if a == 0.0 { 0.0 } else { a * b.ln_1p() });
}

fn predicates(cases: &mut Cases) {
    cases.is("IsFinite", f32::is_finite);
    cases.is("IsInf", f32::is_infinite);
    cases.is("IsNan", f32::is_nan);
    cases.is2("Equal", &[], |a, b| a == b);
    cases.is2("NotEqual", &[], |a, b| a != b);
    cases.is2("Less", &[], |a, b| a < b);
    cases.is2("LessEqual", &[], |a, b| a <= b);
    cases.is2("Greater", &[], |a, b| a > b);
    cases.is2("GreaterEqual", &[], |a, b| a >= b);
    for tolerance in [1e-5f32, 0.25] {
        let f = move |a: f32, b: f32| (a - b).abs() < tolerance;
        cases.is2("ApproximateEqual", &[float("tolerance", tolerance.into())], f);
    }
    for (rtol, atol, equal_nan) in [(1e-5f32, 1e-8f32, false), (0.1, 2.0, false), (1e-5, 1e-8, true)] {
        let attrs = [
            float("rtol", rtol.into()),
            float("atol", atol.into()),
            attr("equal_nan", "bool", AttrValue::Bool(equal_nan)),
        ];
        cases.is2("IsClose", &attrs, move |a, b| match (a, b) {
            (a, b) if a.is_nan() || b.is_nan() => equal_nan && a.is_nan() && b.is_nan(),
            (a, b) if a.is_infinite() || b.is_infinite() => a == b,
            (a, b) => (a - b).abs() <= atol + rtol * b.abs(),
        });
    }
}
