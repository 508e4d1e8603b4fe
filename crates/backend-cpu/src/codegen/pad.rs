//! `PadV3` and `MirrorPad`: row by row, each the part that the input has, and an edge on either side.

use std::fmt::Write as _;

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Pad, PadMode};

use crate::codegen::code::{Args, Code, argument, invalid, word_of};
use crate::codegen::loops::{Rows, index};

/// A dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dim {
    input: i64,
    /// Elements added before it; cut off, if negative.
    before: i64,
    output: i64,
}

impl Dim {
    const fn is_plain(self) -> bool {
        self.before == 0 && self.input == self.output
    }

    /// This dimension and the one after it as one, if that changes nothing.
    fn with(self, inner: Self, mode: PadMode) -> Option<Self> {
        let whole = inner.is_plain() && (self.is_plain() || mode == PadMode::Constant);
        let before = self.before.checked_mul(inner.input).filter(|_| whole)?;
        Some(Self { input: self.input * inner.input, before, output: self.output * inner.output })
    }
}

/// `PadV3` and `MirrorPad`.
pub(crate) fn pad(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let padding = Pad::of(call).map_err(invalid)?;
    let mode = padding.mode;
    let c_type = word_of(call, call.tensor(0).map_err(invalid)?)?;
    let mut dims = merged(&padding);
    let row = dims.pop().unwrap_or(Dim { input: 1, before: 0, output: 1 });
    let outer: Vec<u64> = dims.iter().map(|dim| dim.output.unsigned_abs()).collect();
    let rows = Rows::new(outer.iter().product(), row.output.unsigned_abs());

    let mut c = String::new();
    let _ = writeln!(c, "    const {c_type} *restrict x_data = inputs[{}];", argument(call, args, 0)?);
    let _ = writeln!(c, "    {c_type} *restrict y_data = outputs[0];");
    if mode == PadMode::Constant {
        let value = args.at(2).map_or("0".to_owned(), |at| format!("*(const {c_type} *)inputs[{at}]"));
        let _ = writeln!(c, "    const {c_type} value = {value};");
    }
    let (begin, end) = rows.open(&mut c);
    let _ = writeln!(c, "        {c_type} *restrict y = y_data + row * {}ul;", row.output);
    let mut stride = row.input;
    let (mut start, mut seen) = (String::new(), Vec::new());
    for (axis, dim) in dims.iter().enumerate().rev() {
        let index = index("row", &outer, axis);
        let (at, size) = (shifted(&format!("(long)({index})"), dim.before), dim.input);
        let at =
            if dim.is_plain() || mode == PadMode::Constant { at } else { format!("inside({at}, {size}l)") };
        let _ = writeln!(c, "        const long at{axis} = {at};");
        let _ = write!(start, " + at{axis} * {stride}l");
        if !dim.is_plain() {
            seen.push(format!("at{axis} >= 0 && at{axis} < {size}l"));
        }
        stride *= dim.input;
    }
    // The part of a row that the input has; none of it, where the row lies outside.
    let first = row.before.clamp(0, row.output);
    let last = row.before.saturating_add(row.input).clamp(0, row.output);
    let _ = writeln!(c, "        const unsigned long left = clamp({first}ul, {begin}, {end});");
    let _ = write!(c, "        const unsigned long right = ");
    if mode == PadMode::Constant && !seen.is_empty() {
        let _ = writeln!(c, "{} ? clamp({last}ul, {begin}, {end}) : left;", seen.join(" && "));
    } else {
        let _ = writeln!(c, "clamp({last}ul, {begin}, {end});");
    }
    let within = shifted("(long)i", row.before);
    let edge = match mode {
        PadMode::Constant => "value".to_owned(),
        _ => format!("x_data[start + inside({within}, {}l)]", row.input),
    };
    let start = start.strip_prefix(" + ").unwrap_or("0").to_owned();
    let _ = writeln!(c, "        const long start = {start};");
    for (from, to, value) in [
        (begin.as_str(), "left", edge.as_str()),
        ("left", "right", &format!("x_data[start + {within}]")),
        ("right", &end, &edge),
    ] {
        let _ = writeln!(c, "        for (unsigned long i = {from}; i < {to}; i++)");
        let _ = writeln!(c, "            y[i] = {value};");
    }
    c.push_str("    }\n");
    Ok(Code { before: functions(mode, &c), body: c, blocks: rows.blocks() })
}

/// The dimensions, with those as one that can be.
fn merged(padding: &Pad) -> Vec<Dim> {
    let mut dims: Vec<Dim> = Vec::new();
    for (at, input) in padding.input.iter().enumerate() {
        let (input, output) = (input.cast_signed(), padding.output[at]);
        let before = match padding.mode {
            // All that is cut off is cut off; how much more does not matter, and must not overflow.
            PadMode::Constant | PadMode::Edge => padding.before[at].max(-input),
            _ => padding.before[at],
        };
        let dim = Dim { input, before, output };
        match dims.last_mut() {
            Some(outer) if let Some(both) = outer.with(dim, padding.mode) => *outer = both,
            _ => dims.push(dim),
        }
    }
    dims
}

/// `at - before`.
fn shifted(at: &str, before: i64) -> String {
    match before {
        0 => at.to_owned(),
        before if before < 0 => format!("{at} + {}l", before.unsigned_abs()),
        before => format!("{at} - {before}l"),
    }
}

/// The functions that `body` calls.
fn functions(mode: PadMode, body: &str) -> String {
    let mut c =
        "static inline unsigned long clamp(unsigned long at, unsigned long begin, unsigned long end)\n\
        {\n    return at < begin ? begin : at < end ? at : end;\n}\n\n"
            .to_owned();
    let (low, high) = match mode {
        PadMode::Constant => return c,
        PadMode::Reflect => ("-at", "2 * (size - 1) - at"),
        PadMode::Symmetric => ("-at - 1", "2 * size - 1 - at"),
        PadMode::Edge => ("0", "size - 1"),
    };
    if crate::codegen::code::mentions(body, "inside") {
        let _ = writeln!(
            c,
            "/* The element of a dimension that is seen at a place before, in or behind it. */\n\
             static inline long inside(long at, long size)\n\
             {{\n    return at < 0 ? {low} : at < size ? at : {high};\n}}\n"
        );
    }
    c
}
