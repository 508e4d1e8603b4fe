//! Operators that make each element of the output from one element of each input: one expression in one loop.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_descriptor::Tensor;
use opkeep_ops::{Call, PortKind};

use crate::codegen::cast;
use crate::codegen::code::{
    Args, Code, argument, c_type, invalid, mentions, per_block, refused, word, word_of,
};
use crate::codegen::expression::{self, float_value};
use crate::codegen::integer;
use crate::codegen::loops::{Loops, Operand, bounds, strides};

/// The expression for each element of an output.
pub(crate) struct Elements {
    /// The C type of the output.
    pub(crate) result: &'static str,
    /// The output's dimensions.
    pub(crate) output: Vec<u64>,
    /// Its operands.
    pub(crate) operands: Vec<Operand>,
    /// The C expression, over the operands' names.
    pub(crate) value: String,
}

impl Elements {
    pub(crate) fn code(self) -> Code {
        let Self { result, output, operands, value } = self;
        let loops = Loops::new(&output, &operands);
        let mut before = String::new();
        let plain = operands.iter().position(|operand| operand.name == value);
        if plain.is_none() {
            before = element(result, &operands, &value);
        }
        let mut body = String::new();
        for Operand { name, argument, c_type, offset, .. } in &operands {
            let data = match offset {
                0 => format!("inputs[{argument}]"),
                offset => format!("(const {c_type} *)inputs[{argument}] + {offset}ul"),
            };
            let _ = writeln!(body, "    const {c_type} *restrict {name}_data = {data};");
        }
        let _ = writeln!(body, "    {result} *restrict y_data = outputs[0];");
        loops.render(&mut body, &operands, |items| match plain {
            Some(at) => items[at].clone(),
            None => format!("element({})", items.join(", ")),
        });
        Code { before, body, blocks: loops.blocks() }
    }
}

/// The function of one element, and the functions that it calls.
fn element(result: &str, operands: &[Operand], value: &str) -> String {
    let mut c = String::new();
    for (name, than) in [("max_f", '>'), ("min_f", '<')] {
        if mentions(value, name) {
            c.push_str(&extreme(name, than));
        }
    }
    let parameter = |operand: &Operand| format!("{} {}", operand.c_type, operand.name);
    let parameters = match operands {
        [] => "void".to_owned(),
        operands => operands.iter().map(parameter).collect::<Vec<_>>().join(", "),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(c, "static inline {result} element({parameters})\n{{");
    for Operand { name, .. } in operands.iter().filter(|operand| !mentions(value, &operand.name)) {
        let _ = writeln!(c, "    (void){name};");
    }
    let _ = writeln!(c, "    return {value};\n}}\n");
    c
}

/// A function that gives the greater or the smaller of two floats; NaN goes through.
pub(crate) fn extreme(name: &str, than: char) -> String {
    format!(
        "static inline float {name}(float a, float b)\n{{\n    return a {than} b || a != a ? a : b;\n}}\n\n"
    )
}

/// Dimensions as unsigned numbers.
pub(crate) fn dims(shape: &[i64]) -> Vec<u64> {
    shape.iter().map(|dim| dim.unsigned_abs()).collect()
}

/// The shape of the only output of `call`.
pub(crate) fn output(call: &Call<'_>) -> Result<Vec<u64>, BackendError> {
    let made = call.infer().map_err(invalid)?;
    let shape = made.first().and_then(|made| made.first()).map(|made| dims(&made.shape));
    shape.ok_or_else(|| refused(call, "it has no output"))
}

/// The operand `name`: the tensor at a position, broadcast to `output`.
pub(crate) fn operand(
    call: &Call<'_>,
    args: &Args,
    position: usize,
    name: &str,
    output: &[u64],
) -> Result<Operand, BackendError> {
    let tensor = call.tensor(position).map_err(invalid)?;
    made_of(call, tensor, argument(call, args, position)?, name.to_owned(), output)
}

/// The operand `name`: `tensor`, which is the kernel's input `argument`, broadcast to `output`.
fn made_of(
    call: &Call<'_>,
    tensor: &Tensor,
    argument: usize,
    name: String,
    output: &[u64],
) -> Result<Operand, BackendError> {
    let c_type = c_type(&tensor.dtype).or_else(|| word(&tensor.dtype));
    let c_type = c_type.ok_or_else(|| refused(call, format!("it has no code for {}", tensor.dtype)))?;
    Ok(Operand { name, argument, c_type, offset: 0, strides: strides(&tensor.shape, output) })
}

/// Operands `names`, position by position.
fn operands(
    call: &Call<'_>,
    args: &Args,
    names: &[&str],
    output: &[u64],
) -> Result<Vec<Operand>, BackendError> {
    names.iter().enumerate().map(|(at, name)| operand(call, args, at, name, output)).collect()
}

/// `Elementwise` and `Predicate`: an expression over `x`, or over `a` and `b`. `instead` replaces ours.
pub(crate) fn elementwise(
    call: &Call<'_>,
    args: &Args,
    instead: Option<String>,
) -> Result<Code, BackendError> {
    let names: &[&str] = if call.spec().inputs.len() == 1 { &["x"] } else { &["a", "b"] };
    let output = output(call)?;
    let mut operands = operands(call, args, names, &output)?;
    let tensor = call.tensor(0).map_err(invalid)?;
    let dtype = tensor.dtype.as_str();
    let predicate = call.spec().rule == opkeep_ops::Rule::Predicate;
    let mut result = if predicate { "unsigned char" } else { operands[0].c_type };
    let value = match (instead, call.spec().op_type) {
        (Some(value), _) => value,
        (None, "TensorMove") => {
            result = word_of(call, tensor)?;
            operands[0].c_type = result;
            "x".to_owned()
        }
        (None, _) if dtype == "float32" => expression::expression(call)?,
        (None, op_type) => integer::expression(op_type, dtype)
            .ok_or_else(|| refused(call, format!("it has no expression for {dtype}")))?,
    };
    Ok(Elements { result, output, operands, value }.code())
}

/// `SelectV2`: elements are moved, whatever they are.
pub(crate) fn select(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let output = output(call)?;
    let result = word_of(call, call.tensor(1).map_err(invalid)?)?;
    let mut operands = operands(call, args, &["condition", "a", "b"], &output)?;
    operands[1..].iter_mut().for_each(|operand| operand.c_type = result);
    let value = "condition != 0 ? a : b".to_owned();
    Ok(Elements { result, output, operands, value }.code())
}

/// `ClipByValue`: where the bounds contradict each other, the upper one holds.
pub(crate) fn clip(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let output = output(call)?;
    let operands = operands(call, args, &["x", "low", "high"], &output)?;
    let result = operands[0].c_type;
    let value = match result {
        "float" => "min_f(max_f(x, low), high)",
        _ => "x < low ? (low < high ? low : high) : (x < high ? x : high)",
    };
    Ok(Elements { result, output, operands, value: value.to_owned() }.code())
}

/// The most inputs of a sum that are written out: compilers take time by the square of their number.
const MANY: usize = 32;

/// `AccumulateNV2`: from the first to the last.
pub(crate) fn accumulate(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let output = output(call)?;
    let alike = call.group(0).iter().all(|tensor| dims(&tensor.shape) == output);
    if call.group(0).len() > MANY && alike {
        return accumulate_many(call, args, &output);
    }
    let inputs = call.group(0).iter().zip(args.group(0)).enumerate();
    let operands: Vec<Operand> = inputs
        .map(|(at, (tensor, argument))| made_of(call, tensor, *argument, format!("x{at}"), &output))
        .collect::<Result<_, _>>()?;
    let result = operands.first().map_or("float", |operand| operand.c_type);
    // Whole numbers wrap, which only unsigned ones do.
    let (of, sum) = match result {
        "float" => ("", ""),
        "int" => ("(unsigned int)", "(int)"),
        _ => ("(unsigned long)", "(long)"),
    };
    let terms: Vec<String> = operands.iter().map(|operand| format!("{of}{}", operand.name)).collect();
    let value = match terms.as_slice() {
        [_] => operands[0].name.clone(),
        terms if sum.is_empty() => terms.join(" + "),
        terms => format!("{sum}({})", terms.join(" + ")),
    };
    Ok(Elements { result, output, operands, value }.code())
}

/// A sum of many tensors of one shape: tensor by tensor, a block's part of each.
fn accumulate_many(call: &Call<'_>, args: &Args, output: &[u64]) -> Result<Code, BackendError> {
    let dtype = &call.tensor(0).map_err(invalid)?.dtype;
    // Whole numbers wrap, which only unsigned ones do.
    let element = match c_type(dtype) {
        Some("int") => "unsigned int",
        Some("long") => "unsigned long",
        Some(element) => element,
        None => return Err(refused(call, format!("{dtype} is no type that it adds"))),
    };
    let arguments: Vec<String> = args.group(0).iter().map(ToString::to_string).collect();
    let count: u64 = output.iter().product();
    let per_block = per_block(count, 1);
    let before = format!(
        "/* The tensors that are added, in order. */\nstatic const unsigned int argument[] = {{{}}};\n\n",
        arguments.join(", ")
    );
    let mut body = String::new();
    bounds(&mut body, "    ", ["begin", "end"], "block", per_block, count);
    let _ = write!(
        body,
        "    {element} *restrict y = outputs[0];
    for (unsigned long i = begin; i < end; i++)
        y[i] = ((const {element} *)inputs[argument[0]])[i];
    for (unsigned long tensor = 1; tensor < {}ul; tensor++) {{
        const {element} *restrict x = inputs[argument[tensor]];
        for (unsigned long i = begin; i < end; i++)
            y[i] += x[i];
    }}
",
        arguments.len()
    );
    Ok(Code { before, body, blocks: count.div_ceil(per_block).max(1) })
}

/// `PRelu` and `BNInfer`: all inputs but the first have one value for each channel.
pub(crate) fn per_channel(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let output = output(call)?;
    let (names, value): (&[&str], String) = match call.spec().op_type {
        "PRelu" => (&["x", "weight"], "x > 0.0f ? x : weight * x".to_owned()),
        "BNInfer" => {
            let epsilon = expression::literal(float_value(call, "epsilon")?);
            let scale = format!("(scale / __builtin_sqrtf(variance + {epsilon}))");
            (&["x", "scale", "offset", "mean", "variance"], format!("(x - mean) * {scale} + offset"))
        }
        other => return Err(refused(call, format!("{other} has no expression"))),
    };
    let mut operands = operands(call, args, names, &output)?;
    for (at, operand) in operands.iter_mut().enumerate().skip(1) {
        // The only dimension that such a tensor has is the output's second.
        let own: &Tensor = call.tensor(at).map_err(invalid)?;
        operand.strides = vec![0; output.len()];
        if let Some(stride) = operand.strides.get_mut(1) {
            *stride = i64::from(own.shape != [1]);
        }
    }
    Ok(Elements { result: "float", output, operands, value }.code())
}

/// `Cast`.
pub(crate) fn cast(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let made = call.infer().map_err(invalid)?;
    let from = &call.tensor(0).map_err(invalid)?.dtype;
    let to = made.first().and_then(|made| made.first()).map_or("", |made| made.dtype.as_str());
    let refuse = || refused(call, format!("it does not make {from} into {to}"));
    let (value, result) = (cast::expression(from, to).ok_or_else(refuse)?, c_type(to).ok_or_else(refuse)?);
    let output = output(call)?;
    let operands = operands(call, args, &["x"], &output)?;
    Ok(Elements { result, output, operands, value }.code())
}

/// `BroadcastTo`, `Expand` and `Fill`: the tensor that is no shape, broadcast.
pub(crate) fn broadcast_to(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let position = call.spec().inputs.iter().position(|port| port.kind == PortKind::Required).unwrap_or(0);
    let output = output(call)?;
    let result = word_of(call, call.tensor(position).map_err(invalid)?)?;
    let x = Operand { c_type: result, ..operand(call, args, position, "x", &output)? };
    Ok(Elements { result, output, operands: vec![x], value: "x".to_owned() }.code())
}
