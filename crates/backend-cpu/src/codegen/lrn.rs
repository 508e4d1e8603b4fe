//! `LRN`.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::Call;

use crate::codegen::code::{Args, Code, argument, constants, invalid, refused};
use crate::codegen::elementwise::dims;
use crate::codegen::expression::{float_value, literal};
use crate::codegen::loops::Rows;
use crate::codegen::nest::STRIP;

/// `LRN` across channels, the tensor's second dimension.
pub(crate) fn lrn(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let region = call.text("norm_region").map_err(invalid)?;
    if region != "ACROSS_CHANNELS" {
        return Err(refused(
            call,
            format!("attribute `norm_region` is {region:?}, expected \"ACROSS_CHANNELS\""),
        ));
    }
    let shape = dims(&call.tensor(0).map_err(invalid)?.shape);
    let [_, channels, image @ ..] = shape.as_slice() else {
        return Err(refused(call, format!("its input {shape:?} has no channels")));
    };
    let radius = call.int("depth_radius").map_err(invalid)?;
    let radius = u64::try_from(radius)
        .map_err(|_| refused(call, format!("attribute `depth_radius` is {radius}, expected 0 or more")))?
        .min(*channels);
    let (bias, alpha) = (float_value(call, "bias")?, float_value(call, "alpha")?);
    // Few squares are summed well enough as they are.
    let sum = if radius <= 32 { "float" } else { "double" };
    let rows = Rows::new(shape[0] * channels, image.iter().product());

    let mut before = constants(&[("channels", *channels), ("radius", radius), ("pixels", rows.length)]);
    let power = power(float_value(call, "beta")?);
    let _ = writeln!(before, "static inline float power(float base)\n{{\n    return {power};\n}}\n");
    let mut c = String::new();
    let _ = writeln!(c, "    const float *restrict x_data = inputs[{}];", argument(call, args, 0)?);
    let _ = writeln!(c, "    float *restrict y_data = outputs[0];");
    let (begin, end) = rows.open(&mut c);
    let _ = writeln!(
        c,
        "        const unsigned long channel = row % channels;\n\
         \x20       const unsigned long low = channel < radius ? 0 : channel - radius;\n\
         \x20       const unsigned long high = channel + radius < channels ? channel + radius : channels - 1;\n\
         \x20       const float *restrict image = x_data + (row - channel) * pixels;\n\
         \x20       const float *restrict x = x_data + row * pixels;\n\
         \x20       float *restrict y = y_data + row * pixels;\n\
         \x20       for (unsigned long from = {begin}; from < {end}; from += {STRIP}) {{\n\
         \x20           const unsigned long width = {end} - from < {STRIP} ? {end} - from : {STRIP};\n\
         \x20           {sum} squares[{STRIP}];\n\
         \x20           for (unsigned long j = 0; j < width; j++)\n\
         \x20               squares[j] = 0.0f;\n\
         \x20           for (unsigned long other = low; other <= high; other++)\n\
         \x20               for (unsigned long j = 0; j < width; j++) {{\n\
         \x20                   const {sum} value = image[other * pixels + from + j];\n\
         \x20                   squares[j] += value * value;\n\
         \x20               }}\n\
         \x20           for (unsigned long j = 0; j < width; j++)\n\
         \x20               y[from + j] = x[from + j] / power({} + {} * (float)squares[j]);\n\
         \x20       }}\n    }}",
        literal(bias),
        literal(alpha)
    );
    Ok(Code { before, body: c, blocks: rows.blocks() })
}

/// `base` to the power of `beta`. Square roots are rounded correctly, so two of them are as good as the library's
/// power, and compilers vectorise them.
fn power(beta: f32) -> String {
    match beta {
        0.5 => "__builtin_sqrtf(base)".to_owned(),
        0.75 => "__builtin_sqrtf(base) * __builtin_sqrtf(__builtin_sqrtf(base))".to_owned(),
        1.0 => "base".to_owned(),
        beta => format!("__builtin_powf(base, {})", literal(beta)),
    }
}
