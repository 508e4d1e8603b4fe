//! The C expression of each elementwise operator.

use opkeep_backend::{BackendError, Unsupported};
use opkeep_descriptor::AttrValue;
use opkeep_ops::Call;

use crate::codegen::code::{invalid, refused};

/// The C expression of `call` on float32, over `x`, or over `a` and `b`.
///
/// Formulas are the IR's; where it is silent, those of the CANN 8.1 kernels. NaN goes through everywhere unless a
/// formula says otherwise. `max_f` and `min_f` stand for helpers that `elementwise.rs` adds where they are used.
pub(crate) fn expression(call: &Call<'_>) -> Result<String, BackendError> {
    let float = |name: &'static str| float_value(call, name).map(literal);
    Ok(match call.spec().op_type {
        "Abs" => fixed("__builtin_fabsf(x)"),
        "Acos" => fixed("__builtin_acosf(x)"),
        "Acosh" => fixed("__builtin_acoshf(x)"),
        "Add" | "AddV2" => fixed("a + b"),
        "Adds" => format!("x + {}", float("value")?),
        "ApproximateEqual" => format!("__builtin_fabsf(a - b) < {}", float("tolerance")?),
        "Asin" => fixed("__builtin_asinf(x)"),
        "Asinh" => fixed("__builtin_asinhf(x)"),
        "Atan" => fixed("__builtin_atanf(x)"),
        "Atan2" => fixed("__builtin_atan2f(a, b)"),
        "Atanh" => fixed("__builtin_atanhf(x)"),
        "Axpy" => format!("a + {} * b", float("alpha")?),
        "BNLL" | "Softplus" => {
            fixed("max_f(x, 0.0f) + __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x)))")
        }
        "Ceil" => fixed("__builtin_ceilf(x)"),
        "Celu" => {
            let (alpha1, alpha2, alpha3) = (float("alpha1")?, divisor(call, "alpha2")?, float("alpha3")?);
            format!("{alpha3} * max_f(x, 0.0f) + {alpha1} * __builtin_expm1f(min_f(x, 0.0f) / {alpha2})")
        }
        "CeluV2" => {
            let alpha = divisor(call, "alpha")?;
            format!("max_f(x, 0.0f) + min_f({alpha} * __builtin_expm1f(x / {alpha}), 0.0f)")
        }
        "Cos" => fixed("__builtin_cosf(x)"),
        "Cosh" => fixed("__builtin_coshf(x)"),
        // On floats the 8.1 kernel of TruncateDiv divides and does not truncate.
        "Div" | "RealDiv" | "TruncateDiv" => fixed("a / b"),
        "DivNoNan" => fixed("b == 0.0f ? 0.0f : a / b"),
        "Elu" => {
            let (alpha, scale, input) = (float("alpha")?, float("scale")?, float("input_scale")?);
            format!("{scale} * (max_f(x, 0.0f) + {alpha} * __builtin_expm1f({input} * min_f(x, 0.0f)))")
        }
        "Equal" => fixed("a == b"),
        "Erf" => fixed("__builtin_erff(x)"),
        "Erfc" => fixed("__builtin_erfcf(x)"),
        "Exp" => base_scale_shift(call, "expf", "exp2f")?,
        "Expm1" => fixed("__builtin_expm1f(x)"),
        "FastGelu" => fixed("x / (1.0f + __builtin_expf(-1.702f * x))"),
        "FastGeluV2" => fixed(
            "x * (__builtin_copysignf(0.5f - 0.1444f * (min_f(0.7071f * __builtin_fabsf(x), 1.769f) - 1.769f) \
             * (min_f(0.7071f * __builtin_fabsf(x), 1.769f) - 1.769f), x) + 0.5f)",
        ),
        "Fills" => float("value")?,
        "Floor" => fixed("__builtin_floorf(x)"),
        "FloorDiv" => fixed("__builtin_floorf(a / b)"),
        // The remainder takes the divisor's sign.
        "FloorMod" => fixed(
            "__builtin_fmodf(a, b) != 0.0f && (b < 0.0f) != (__builtin_fmodf(a, b) < 0.0f) \
             ? __builtin_fmodf(a, b) + b : __builtin_fmodf(a, b)",
        ),
        "Gelu" => fixed(GELU_TANH),
        "GeluV2" => match call.attr("approximate") {
            Ok(AttrValue::Str(form)) if form == "none" => {
                fixed("0.5f * x * __builtin_erfcf(-0.70710678f * x)")
            }
            Ok(AttrValue::Str(form)) if form == "tanh" => fixed(GELU_TANH),
            other => {
                let problem = format!("attribute `approximate` is {other:?}, expected \"none\" or \"tanh\"");
                return Err(refused(call, problem));
            }
        },
        "Greater" => fixed("a > b"),
        "GreaterEqual" => fixed("a >= b"),
        "HardShrink" => format!("__builtin_fabsf(x) <= {} ? 0.0f : x", float("lambd")?),
        "HardSigmoid" => {
            format!("min_f(max_f({} * x + {}, 0.0f), 1.0f)", float("alpha")?, float("beta")?)
        }
        // Divided first: six times the input may be too large.
        "HardSwish" => fixed("x * (min_f(max_f(x + 3.0f, 0.0f), 6.0f) / 6.0f)"),
        "Inv" | "Reciprocal" => fixed("1.0f / x"),
        "IsClose" => is_close(call, &float("rtol")?, &float("atol")?)?,
        "IsFinite" => fixed("__builtin_fabsf(x) < __builtin_inff()"),
        "IsInf" => fixed("__builtin_fabsf(x) == __builtin_inff()"),
        "IsNan" => fixed("x != x"),
        "LeakyRelu" => format!("x > 0.0f ? x : {} * x", float("negative_slope")?),
        "Less" => fixed("a < b"),
        "LessEqual" => fixed("a <= b"),
        "Lgamma" => fixed("__builtin_lgammaf(x)"),
        "Log" => base_scale_shift(call, "logf", "log2f")?,
        "Log1p" => fixed("__builtin_log1pf(x)"),
        "LogSigmoid" => fixed("min_f(x, 0.0f) - __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x)))"),
        "Maximum" => fixed("max_f(a, b)"),
        "Minimum" => fixed("min_f(a, b)"),
        "Mish" => fixed(
            "x * __builtin_tanhf(max_f(x, 0.0f) + __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x))))",
        ),
        // The remainder takes the dividend's sign.
        "Mod" | "TruncateMod" => fixed("__builtin_fmodf(a, b)"),
        "Mul" => fixed("a * b"),
        "MulNoNan" => fixed("b == 0.0f ? 0.0f : a * b"),
        "Muls" => format!("x * {}", float("value")?),
        "Neg" => fixed("-x"),
        "NextAfter" => fixed("__builtin_nextafterf(a, b)"),
        "NotEqual" => fixed("a != b"),
        "OnesLike" => fixed("1.0f"),
        "Pow" => fixed("__builtin_powf(a, b)"),
        // The 8.1 kernel does not look at the input where the scale is 0.
        "Power" => match (float_value(call, "scale")?, float("shift")?, float("power")?) {
            (0.0, shift, power) => format!("__builtin_powf({shift}, {power})"),
            (scale, shift, power) => format!("__builtin_powf({shift} + {} * x, {power})", literal(scale)),
        },
        "Relu" => fixed("max_f(x, 0.0f)"),
        "Relu6" => fixed("min_f(max_f(x, 0.0f), 6.0f)"),
        "Rint" => fixed("__builtin_rintf(x)"),
        "Round" => match call.attr("decimals") {
            Ok(AttrValue::Int(0)) => fixed("__builtin_rintf(x)"),
            // Powers of ten, not of a tenth: those up to 10 are exact.
            Ok(AttrValue::Int(decimals @ -30..=-1)) => {
                let scale = literal(10f64.powi(-decimals as i32) as f32);
                format!("__builtin_rintf(x / {scale}) * {scale}")
            }
            // From 2^23 on floats are whole; scaling them could only lose bits, or overflow.
            Ok(AttrValue::Int(decimals @ 1..=30)) => {
                let scale = literal(10f64.powi(decimals as i32) as f32);
                format!(
                    "__builtin_fabsf(x * {scale}) < 8388608.0f ? __builtin_rintf(x * {scale}) / {scale} : x"
                )
            }
            other => {
                let problem = format!("attribute `decimals` is {other:?}, expected -30 to 30");
                return Err(refused(call, problem));
            }
        },
        "Rsqrt" => fixed("1.0f / __builtin_sqrtf(x)"),
        "Selu" => fixed("x > 0.0f ? 1.05070098736f * x : 1.75809934085f * __builtin_expm1f(x)"),
        // A bias larger than the input turns its sign.
        "Shrink" => {
            let (lambd, bias) = (float("lambd")?, float("bias")?);
            format!(
                "__builtin_fabsf(x) <= {lambd} ? 0.0f : x > 0.0f ? x - {bias} : x < 0.0f ? x + {bias} : x"
            )
        }
        "Sigmoid" => fixed("1.0f / (1.0f + __builtin_expf(-x))"),
        "Sign" => fixed("x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x"),
        "Sin" => fixed("__builtin_sinf(x)"),
        "Sinh" => fixed("__builtin_sinhf(x)"),
        // The 8.1 kernel turns NaN to 0 here.
        "SoftShrink" => {
            let lambd = float("lambd")?;
            format!("x > {lambd} ? x - {lambd} : x < -{lambd} ? x + {lambd} : 0.0f")
        }
        "SoftplusV2" => {
            let (beta, threshold) = (float("beta")?, float("threshold")?);
            // A threshold may be beyond what the exponential can take.
            format!(
                "{beta} * x > {threshold} ? x : (max_f({beta} * x, 0.0f) \
                 + __builtin_log1pf(__builtin_expf(-__builtin_fabsf({beta} * x)))) / {beta}"
            )
        }
        "Softsign" => fixed("x / (1.0f + __builtin_fabsf(x))"),
        "Sqrt" => fixed("__builtin_sqrtf(x)"),
        "Square" => fixed("x * x"),
        "SquaredDifference" => fixed("(a - b) * (a - b)"),
        "Sub" => fixed("a - b"),
        "Swish" => format!("x / (1.0f + __builtin_expf(-{} * x))", float("scale")?),
        "Tan" => fixed("__builtin_tanf(x)"),
        "Tanh" => fixed("__builtin_tanhf(x)"),
        "TensorMove" => fixed("x"),
        "Threshold" => format!("x > {} ? 1.0f : 0.0f", float("threshold")?),
        "ThresholdedRelu" => format!("x > {} ? x : 0.0f", float("alpha")?),
        "Trunc" => fixed("__builtin_truncf(x)"),
        "Xdivy" => fixed("a == 0.0f ? 0.0f : a / b"),
        "Xlog1py" => fixed("a == 0.0f ? 0.0f : a * __builtin_log1pf(b)"),
        "Xlogy" => fixed("a == 0.0f ? 0.0f : a * __builtin_logf(b)"),
        "ZerosLike" => fixed("0.0f"),
        other => return Err(Unsupported::Op { backend: "cpu", op_type: other.to_owned() }.into()),
    })
}

const GELU_TANH: &str = "x / (1.0f + __builtin_expf(-1.5957691216f * (x + 0.044715f * x * x * x)))";

fn fixed(text: &str) -> String {
    text.to_owned()
}

/// The value of a float attribute.
pub(crate) fn float_value(call: &Call<'_>, name: &'static str) -> Result<f32, BackendError> {
    call.float(name).map_err(invalid)
}

/// The literal of a float attribute that the formula divides by.
fn divisor(call: &Call<'_>, name: &'static str) -> Result<String, BackendError> {
    match float_value(call, name)? {
        0.0 => Err(refused(call, format!("attribute `{name}` is 0, which the formula divides by"))),
        value => Ok(literal(value)),
    }
}

/// `Exp` and `Log`: over `scale * x + shift`, to the base e or another.
fn base_scale_shift(call: &Call<'_>, natural: &str, binary: &str) -> Result<String, BackendError> {
    let (base, scale, shift) =
        (float_value(call, "base")?, float_value(call, "scale")?, float_value(call, "shift")?);
    let argument = match (scale, shift) {
        (1.0, 0.0) => "x".to_owned(),
        _ => format!("{} * x + {}", literal(scale), literal(shift)),
    };
    match base {
        -1.0 => Ok(format!("__builtin_{natural}({argument})")),
        2.0 => Ok(format!("__builtin_{binary}({argument})")),
        base if base > 0.0 && base.is_finite() && natural == "expf" => {
            Ok(format!("__builtin_powf({}, {argument})", literal(base)))
        }
        base if base > 0.0 && base.is_finite() && base != 1.0 => {
            Ok(format!("__builtin_logf({argument}) / {}", literal(f64::from(base).ln() as f32)))
        }
        base => {
            let problem = format!("attribute `base` is {base}, expected -1 (for e) or a positive number");
            Err(refused(call, problem))
        }
    }
}

fn is_close(call: &Call<'_>, rtol: &str, atol: &str) -> Result<String, BackendError> {
    // Equal infinities are close, and their difference is NaN; unequal ones are not, whatever the tolerance.
    let finite = "__builtin_fabsf(b) < __builtin_inff()";
    let close =
        format!("a == b || ({finite} && __builtin_fabsf(a - b) <= {atol} + {rtol} * __builtin_fabsf(b))");
    match call.attr("equal_nan") {
        Ok(AttrValue::Bool(true)) => Ok(format!("{close} || (a != a && b != b)")),
        Ok(AttrValue::Bool(false)) => Ok(close),
        other => Err(refused(call, format!("attribute `equal_nan` is {other:?}"))),
    }
}

/// A C literal with exactly this value: the shortest decimal that reads back as the same float.
pub(crate) fn literal(value: f32) -> String {
    let text = match value {
        value if value.is_nan() => "__builtin_nanf(\"\")".to_owned(),
        f32::INFINITY => "__builtin_inff()".to_owned(),
        f32::NEG_INFINITY => "-__builtin_inff()".to_owned(),
        value => {
            let short = format!("{value:?}");
            let short = if short.contains(['.', 'e']) { short } else { format!("{short}.0") };
            format!("{short}f")
        }
    };
    if text.starts_with('-') { format!("({text})") } else { text }
}

/// The builtins that every compiler turns into instructions; all others call libm.
const INLINE: [&str; 7] = ["fabsf", "sqrtf", "sqrt", "copysignf", "inff", "inf", "nanf"];

/// Whether code generated from `source` calls libm.
pub(crate) fn calls_libm(source: &str) -> bool {
    source.split("__builtin_").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        !INLINE.contains(&&rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_exact_c() {
        for (value, text) in [
            (0.1, "0.1f"),
            (1.0, "1.0f"),
            (-2.5, "(-2.5f)"),
            (1e-8, "1e-8f"),
            (3.0e38, "3e38f"),
            (f32::NEG_INFINITY, "(-__builtin_inff())"),
        ] {
            assert_eq!(literal(value), text);
        }
    }

    #[test]
    fn libm_calls_are_seen() {
        assert!(!calls_libm("__builtin_fabsf(x) < __builtin_inff()"));
        assert!(calls_libm("__builtin_fabsf(__builtin_expf(x))"));
        assert!(calls_libm("__builtin_sqrtf2(x)"));
    }
}
