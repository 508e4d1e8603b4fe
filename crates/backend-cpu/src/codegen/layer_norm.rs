//! `LayerNorm`.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, LayerNorm};

use crate::codegen::code::{Args, Code, argument, constants, invalid, refused};
use crate::codegen::expression::literal;
use crate::codegen::nest::{Fold, Nest, plus, total};

/// `LayerNorm`: mean first, then the squares of what is off it, in double precision.
pub(crate) fn layer_norm(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let LayerNorm { rows, length, epsilon, .. } = LayerNorm::of(call).map_err(invalid)?;
    if length == 0 {
        return Err(refused(call, "it normalises runs of no elements, which have no mean"));
    }
    // Runs of one element are runs too.
    let runs = Nest::rows(rows, length);
    let squares = Fold {
        name: "squares",
        parameters: ", double mean",
        step: |a, x| format!("{a} += ({x} - mean) * ({x} - mean);"),
        join: plus,
        ..total()
    };
    let before = constants(&[("length", length)]) + &runs.function(&total()) + &runs.function(&squares);
    let mut c = String::new();
    for (position, name) in ["x_data", "gamma", "beta"].into_iter().enumerate() {
        let argument = argument(call, args, position)?;
        let _ = writeln!(c, "    const float *restrict {name} = inputs[{argument}];");
    }
    for (output, name) in ["y_data", "means", "variances"].into_iter().enumerate() {
        let _ = writeln!(c, "    float *restrict {name} = outputs[{output}];");
    }
    let start = runs.open(&mut c).start;
    let _ = writeln!(
        c,
        "        const float *restrict x = x_data{start};\n\
         \x20       float *restrict y = y_data{start};\n\
         \x20       const double mean = total(x) / length, variance = squares(x, mean) / length;\n\
         \x20       const double scale = 1.0 / __builtin_sqrt(variance + {});\n\
         \x20       for (unsigned long i = 0; i < length; i++)\n\
         \x20           y[i] = (float)((x[i] - mean) * scale) * gamma[i] + beta[i];\n\
         \x20       means[row] = (float)mean;\n\
         \x20       variances[row] = (float)variance;\n    }}",
        literal(epsilon)
    );
    Ok(Code { before, body: c, blocks: runs.blocks() })
}
