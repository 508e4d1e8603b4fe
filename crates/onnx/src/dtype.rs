//! Element types by their ONNX numbers.

use crate::wire::proto::data_type;

/// ONNX's numbers of element types: with this product's name, or the ONNX name of a type that tensors here cannot have.
const DTYPES: [(i32, Result<&str, &str>); 26] = [
    (data_type::FLOAT, Ok("float32")),
    (data_type::UINT8, Ok("uint8")),
    (data_type::INT8, Ok("int8")),
    (data_type::UINT16, Ok("uint16")),
    (data_type::INT16, Ok("int16")),
    (data_type::INT32, Ok("int32")),
    (data_type::INT64, Ok("int64")),
    (data_type::STRING, Err("string")),
    (data_type::BOOL, Ok("bool")),
    (data_type::FLOAT16, Ok("float16")),
    (data_type::DOUBLE, Ok("float64")),
    (data_type::UINT32, Ok("uint32")),
    (data_type::UINT64, Ok("uint64")),
    (14, Err("complex64")),
    (15, Err("complex128")),
    (data_type::BFLOAT16, Ok("bfloat16")),
    (17, Err("float8e4m3fn")),
    (18, Err("float8e4m3fnuz")),
    (19, Err("float8e5m2")),
    (20, Err("float8e5m2fnuz")),
    (21, Err("uint4")),
    (22, Err("int4")),
    (23, Err("float4e2m1")),
    (24, Err("float8e8m0")),
    (25, Err("uint2")),
    (26, Err("int2")),
];

/// The element type with that number, if tensors here may have it.
pub(crate) fn of_onnx(number: i32) -> Option<&'static str> {
    find(number).and_then(Result::ok)
}

/// The name of the element type with that number, for a message.
pub(crate) fn shown(number: i32) -> String {
    match find(number) {
        Some(Ok(name) | Err(name)) => name.to_owned(),
        None => format!("{number}"),
    }
}

fn find(number: i32) -> Option<Result<&'static str, &'static str>> {
    DTYPES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}
