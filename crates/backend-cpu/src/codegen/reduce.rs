//! The reductions.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Reduce};

use crate::codegen::code::{Args, Code, argument, c_type, invalid, refused};
use crate::codegen::elementwise::{Elements, dims, extreme, operand};
use crate::codegen::nest::{Fold, Inner, Nest, Place, STRIP, greater, plus};

/// `ReduceSum`, `ReduceMean`, `ReduceProd`, `ReduceMax` and `ReduceMin`.
pub(crate) fn reduce(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let x = call.tensor(0).map_err(invalid)?;
    let Reduce { shape, axes, .. } = Reduce::of(call).map_err(invalid)?;
    let element = c_type(&x.dtype).ok_or_else(|| refused(call, format!("it has no code for {}", x.dtype)))?;
    let op_type = call.spec().op_type;
    let fold = fold(op_type, element).ok_or_else(|| refused(call, "it is no reduction"))?;
    let Some(nest) = Nest::new(&shape, &axes) else {
        // One element each: they are their own results, for every reduction.
        let x = operand(call, args, 0, "x", &shape)?;
        return Ok(
            Elements { result: element, output: shape, operands: vec![x], value: "x".to_owned() }.code()
        );
    };
    // The mean is the only one that has to know how many there were.
    let finish = |value: &str| match (op_type, element) {
        ("ReduceMean", _) => format!("(float)({value} / {}.0)", nest.count),
        _ => format!("({element}){value}"),
    };
    if nest.count == 0 {
        let value = if op_type == "ReduceMean" { "__builtin_nanf(\"\")" } else { &fold.identity };
        let output = dims(&Reduce::of(call).map_err(invalid)?.output());
        let value = format!("({element})({value})");
        return Ok(Elements { result: element, output, operands: Vec::new(), value }.code());
    }
    let mut before = match (op_type, element) {
        ("ReduceMax", "float") => extreme("max_f", '>'),
        ("ReduceMin", "float") => extreme("min_f", '<'),
        _ => String::new(),
    };
    let mut c = String::new();
    let _ = writeln!(c, "    const {element} *restrict x_data = inputs[{}];", argument(call, args, 0)?);
    let _ = writeln!(c, "    {element} *restrict y_data = outputs[0];");
    let Place { start, results, from, width } = nest.open(&mut c);
    match nest.inner {
        Inner::ProcessBuilder(_) => {
            before.push_str(&nest.function(&fold));
            let _ =
                writeln!(c, "        y_data[row] = {};", finish(&format!("{}(x_data{start})", fold.name)));
        }
        Inner::Strip(_) => {
            before.push_str(&strip_function(&nest, &fold, element, &finish("all[j]")));
            let _ = writeln!(c, "        strip_of(y_data{results}{from}, x_data{start}{from}, {width});");
        }
    }
    c.push_str("    }\n");
    Ok(Code { before, body: c, blocks: nest.blocks() })
}

/// The function that makes `width` results side by side.
fn strip_function(nest: &Nest, fold: &Fold, element: &str, finish: &str) -> String {
    let Fold { result, identity, step, .. } = fold;
    let mut c = format!(
        "static inline void strip_of({element} *restrict y, const {element} *restrict x, unsigned long width)\n{{\n"
    );
    let each = "for (unsigned long j = 0; j < width; j++)";
    let _ = writeln!(c, "    {result} all[{STRIP}];\n    {each}\n        all[j] = {identity};");
    nest.over(&mut c, |at| vec![each.to_owned(), format!("    {}", step("all[j]", &format!("x[{at}j]")))]);
    let _ = writeln!(c, "    {each}\n        y[j] = {finish};\n}}\n");
    c
}

/// The reduction of elements of a C type. Integers wrap, so they are unsigned.
fn fold(op_type: &str, element: &'static str) -> Option<Fold> {
    let unsigned = match element {
        "int" => "unsigned int",
        "long" => "unsigned long",
        _ => "double",
    };
    let (least, most) = match element {
        "int" => ("-2147483647 - 1", "2147483647"),
        "long" => ("-9223372036854775807l - 1", "9223372036854775807l"),
        _ => ("-__builtin_inff()", "__builtin_inff()"),
    };
    let (result, identity, step): (_, _, fn(&str, &str) -> String) = match op_type {
        "ReduceSum" | "ReduceMean" => (unsigned, "0", plus),
        "ReduceProd" => (unsigned, "1", |a, b| format!("{a} *= {b};")),
        "ReduceMax" if element == "float" => (element, least, greater),
        "ReduceMax" => (element, least, |a, b| format!("{a} = {b} > {a} ? {b} : {a};")),
        "ReduceMin" if element == "float" => (element, most, |a, b| format!("{a} = min_f({a}, {b});")),
        "ReduceMin" => (element, most, |a, b| format!("{a} = {b} < {a} ? {b} : {a};")),
        _ => return None,
    };
    let name = "reduced";
    Some(Fold { name, parameters: "", element, result, identity: identity.to_owned(), step, join: step })
}
