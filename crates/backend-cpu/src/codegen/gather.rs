//! `GatherV2`.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Gather};

use crate::codegen::code::{Args, Code, argument, c_type, constants, invalid, refused, word_of};
use crate::codegen::elementwise::Elements;
use crate::codegen::loops::Rows;

/// `GatherV2`. An index out of range gives zeros: the kernel must not read memory outside the tensor.
pub(crate) fn gather(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let gather = Gather::of(call).map_err(invalid)?;
    let (x, indices) = (call.tensor(0).map_err(invalid)?, call.tensor(1).map_err(invalid)?);
    let element_type = word_of(call, x)?;
    if gather.size == 0 {
        let output = crate::codegen::elementwise::dims(&gather.output);
        return Ok(
            Elements { result: element_type, output, operands: Vec::new(), value: "0".to_owned() }.code()
        );
    }
    let rows = Rows::new(gather.outer * gather.indices, gather.inner);
    let index_type = c_type(&indices.dtype)
        .ok_or_else(|| refused(call, format!("there is no code for indices of type {}", indices.dtype)))?;
    let (from, by) = (argument(call, args, 0)?, argument(call, args, 1)?);
    let (at, block) = match gather.outer {
        1 => ("row".to_owned(), String::new()),
        _ => (format!("row % {}ul", gather.indices), format!("row / {}ul * size + ", gather.indices)),
    };

    let before = constants(&[("size", gather.size), ("length", gather.inner)]);
    let mut c = String::new();
    let _ = writeln!(c, "    const {element_type} *restrict x_data = inputs[{from}];");
    let _ = writeln!(c, "    const {index_type} *restrict indices = inputs[{by}];");
    let _ = writeln!(c, "    {element_type} *restrict y_data = outputs[0];");
    let (begin, end) = rows.open(&mut c);
    let _ = writeln!(c, "        const long index = indices[{at}];");
    // An index that is still negative exceeds every size as an unsigned number.
    let named = if gather.negative {
        "index < 0 ? (unsigned long)index + size : (unsigned long)index"
    } else {
        "(unsigned long)index"
    };
    let _ = writeln!(c, "        const unsigned long item = {named};");
    let _ = writeln!(c, "        {element_type} *restrict y = y_data + row * length;");
    let _ = writeln!(c, "        if (item < size) {{");
    let _ = writeln!(c, "            const {element_type} *restrict x = x_data + ({block}item) * length;");
    let _ = writeln!(c, "            for (unsigned long i = {begin}; i < {end}; i++)");
    let _ = writeln!(c, "                y[i] = x[i];");
    let _ = writeln!(c, "        }} else {{");
    let _ = writeln!(c, "            for (unsigned long i = {begin}; i < {end}; i++)");
    let _ = writeln!(c, "                y[i] = 0;");
    let _ = writeln!(c, "        }}\n    }}");
    Ok(Code { before, body: c, blocks: rows.blocks() })
}
