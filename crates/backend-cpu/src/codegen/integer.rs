//! The C expressions of elementwise operators on integers and booleans.

/// The C expression of `op_type` over elements of type `dtype`: `int32`, `int64` or `bool`.
///
/// Whole numbers wrap; a division by zero gives 0. C leaves both undefined, and the second ends the process.
pub(crate) fn expression(op_type: &str, dtype: &str) -> Option<String> {
    match dtype {
        "int32" => whole(op_type, "int"),
        "int64" => whole(op_type, "long"),
        "bool" => truth(op_type).map(str::to_owned),
        _ => None,
    }
}

fn truth(op_type: &str) -> Option<&'static str> {
    Some(match op_type {
        "Equal" => "a == b",
        "LogicalAnd" => "a && b",
        "LogicalNot" => "!x",
        "LogicalOr" => "a || b",
        "LogicalXor" | "NotEqual" => "a != b",
        _ => return None,
    })
}

fn whole(op_type: &str, t: &str) -> Option<String> {
    let wrapping = |sign: char| format!("({t})((unsigned {t})a {sign} (unsigned {t})b)");
    let negated = |x: char| format!("({t})(0u - (unsigned {t}){x})");
    // The least number divided by -1 is one too large.
    let divided = |quotient: &str| format!("b == 0 ? 0 : b == -1 ? {} : {quotient}", negated('a'));
    let remainder = |rest: &str| format!("b == 0 || b == -1 ? 0 : {rest}");
    Some(match op_type {
        "Abs" => format!("x < 0 ? {} : x", negated('x')),
        "Add" | "AddV2" => wrapping('+'),
        "Div" | "RealDiv" | "TruncateDiv" => divided("a / b"),
        "Equal" => "a == b".to_owned(),
        "FloorDiv" => divided("a / b - (a % b != 0 && (a < 0) != (b < 0))"),
        // The remainder takes the divisor's sign.
        "FloorMod" => remainder("a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b"),
        "Greater" => "a > b".to_owned(),
        "GreaterEqual" => "a >= b".to_owned(),
        "Less" => "a < b".to_owned(),
        "LessEqual" => "a <= b".to_owned(),
        "Maximum" => "a > b ? a : b".to_owned(),
        "Minimum" => "a < b ? a : b".to_owned(),
        "Mod" | "TruncateMod" => remainder("a % b"),
        "Mul" => wrapping('*'),
        "Neg" => negated('x'),
        "NotEqual" => "a != b".to_owned(),
        "OnesLike" => "1".to_owned(),
        "Sign" => "(x > 0) - (x < 0)".to_owned(),
        "Square" => format!("({t})((unsigned {t})x * (unsigned {t})x)"),
        "Sub" => wrapping('-'),
        "ZerosLike" => "0".to_owned(),
        _ => return None,
    })
}
