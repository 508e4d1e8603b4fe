//! `SoftmaxV2` and `LogSoftmaxV2`.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Reduce};

use crate::codegen::code::{Args, Code, argument, invalid};
use crate::codegen::elementwise::{Elements, extreme, operand};
use crate::codegen::nest::{Fold, Inner, Nest, Place, STRIP, greater, total};

/// `e^x` for `x <= 0`, within 1.2 units in the last place, tiny results included. In place of the math library's
/// because compilers vectorise it.
const EXPONENTIAL: &str = "\
/* e^x for x <= 0: 2^n e^r with |r| <= ln(2) / 2, and e^r by its series. */
static inline float exp_f(float x)
{
    const float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    union { float value; unsigned int bits; } whole, power;
    x = x < -104.0f ? -104.0f : x;
    /* The last bits of a float of this size are a whole number. */
    whole.value = x * log2_e + 12582912.0f;
    const float n = whole.value - 12582912.0f;
    const float r = (x - n * ln2_high) - n * ln2_low;
    float y = 1.0f / 5040.0f;
    y = y * r + 1.0f / 720.0f;
    y = y * r + 1.0f / 120.0f;
    y = y * r + 1.0f / 24.0f;
    y = y * r + 1.0f / 6.0f;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    /* 2^(n + 64) first: 2^n itself may be too small for a float. */
    power.bits = (whole.bits << 23) + (191u << 23);
    return y * power.value * 0x1p-64f;
}

";

/// `SoftmaxV2` and `LogSoftmaxV2`, over any axes.
pub(crate) fn softmax(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let Reduce { shape, axes, .. } = Reduce::of(call).map_err(invalid)?;
    let log = call.spec().op_type == "LogSoftmaxV2";
    let Some(nest) = Nest::new(&shape, &axes) else {
        return alone(call, args, shape, log);
    };
    let greatest = Fold {
        name: "greatest",
        parameters: "",
        element: "float",
        result: "float",
        identity: "-__builtin_inff()".to_owned(),
        step: greater,
        join: greater,
    };
    let mut before = extreme("max_f", '>') + EXPONENTIAL;
    let mut c = String::new();
    let _ = writeln!(c, "    const float *restrict x_data = inputs[{}];", argument(call, args, 0)?);
    let _ = writeln!(c, "    float *restrict y_data = outputs[0];");
    let Place { start, from, width, .. } = nest.open(&mut c);
    match nest.inner {
        Inner::ProcessBuilder(length) => {
            before.push_str(&nest.function(&greatest));
            before.push_str(&nest.function(&total()));
            before.push_str(&run(&nest, length, log));
            let _ = writeln!(c, "        softmax(y_data{start}, x_data{start});");
        }
        Inner::Strip(_) => {
            before.push_str(&strip(&nest, log));
            let _ = writeln!(c, "        softmax(y_data{start}{from}, x_data{start}{from}, {width});");
        }
    }
    c.push_str("    }\n");
    Ok(Code { before, body: c, blocks: nest.blocks() })
}

/// Of a single element there is nothing to share; but what is no number stays none.
fn alone(call: &Call<'_>, args: &Args, output: Vec<u64>, log: bool) -> Result<Code, BackendError> {
    let operands = vec![operand(call, args, 0, "x", &output)?];
    let value = if log { "x - x" } else { "x - x + 1.0f" }.to_owned();
    Ok(Elements { result: "float", output, operands, value }.code())
}

/// The function for elements that are runs in memory.
fn run(nest: &Nest, length: u64, log: bool) -> String {
    let each = || format!("for (unsigned long i = 0; i < {length}ul; i++)");
    let mut c = "static inline void softmax(float *restrict y, const float *restrict x)\n{\n".to_owned();
    c.push_str("    const float most = greatest(x);\n");
    nest.over(&mut c, |at| vec![each(), format!("    y[{at}i] = exp_f(x[{at}i] - most);")]);
    if log {
        c.push_str("    const float rest = (float)__builtin_log(total(y));\n");
        nest.over(&mut c, |at| vec![each(), format!("    y[{at}i] = x[{at}i] - most - rest;")]);
    } else {
        c.push_str("    const float scale = (float)(1.0 / total(y));\n");
        nest.over(&mut c, |at| vec![each(), format!("    y[{at}i] *= scale;")]);
    }
    c.push_str("}\n\n");
    c
}

/// The function for elements of different results side by side.
fn strip(nest: &Nest, log: bool) -> String {
    let each = "for (unsigned long j = 0; j < width; j++)";
    let mut c =
        "static inline void softmax(float *restrict y, const float *restrict x, unsigned long width)\n{\n"
            .to_owned();
    let _ = writeln!(c, "    float most[{STRIP}], last[{STRIP}];\n    double total[{STRIP}];");
    let _ = writeln!(c, "    {each}\n        most[j] = -__builtin_inff();");
    nest.over(&mut c, |at| vec![each.to_owned(), format!("    most[j] = max_f(most[j], x[{at}j]);")]);
    let _ = writeln!(c, "    {each}\n        total[j] = 0.0;");
    nest.over(&mut c, |at| {
        vec![
            each.to_owned(),
            format!("    y[{at}j] = exp_f(x[{at}j] - most[j]);"),
            each.to_owned(),
            format!("    total[j] += y[{at}j];"),
        ]
    });
    let last = if log { "(float)__builtin_log(total[j])" } else { "(float)(1.0 / total[j])" };
    let _ = writeln!(c, "    {each}\n        last[j] = {last};");
    nest.over(&mut c, |at| {
        let share = match log {
            true => format!("    y[{at}j] = x[{at}j] - most[j] - last[j];"),
            false => format!("    y[{at}j] *= last[j];"),
        };
        vec![each.to_owned(), share]
    });
    c.push_str("}\n\n");
    c
}
