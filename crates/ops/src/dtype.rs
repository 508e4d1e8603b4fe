//! Element types.

/// An element type: its name, the bytes of an element, and the number by which CANN's graph engine knows it
/// (`ge::DataType`, as in `Cast`'s `dst_type`).
const DTYPES: [(&str, usize, i64); 14] = [
    ("float32", 4, 0),
    ("float16", 2, 1),
    ("int8", 1, 2),
    ("int32", 4, 3),
    ("uint8", 1, 4),
    ("int16", 2, 6),
    ("uint16", 2, 7),
    ("uint32", 4, 8),
    ("int64", 8, 9),
    ("uint64", 8, 10),
    ("float64", 8, 11),
    ("bool", 1, 12),
    ("complex64", 8, 16),
    ("bfloat16", 2, 27),
];

/// Bytes of one element of type `dtype`.
///
/// ```
/// assert_eq!(opbuild_ops::dtype_bytes("int64"), Some(8));
/// assert_eq!(opbuild_ops::dtype_bytes("string"), None);
/// ```
pub fn dtype_bytes(dtype: &str) -> Option<usize> {
    DTYPES.iter().find(|(name, ..)| *name == dtype).map(|(_, bytes, _)| *bytes)
}

/// The number by which CANN's graph engine knows `dtype`.
pub fn ge_number(dtype: &str) -> Option<i64> {
    DTYPES.iter().find(|(name, ..)| *name == dtype).map(|(.., number)| *number)
}

/// The element type behind such a number.
pub(crate) fn of_ge_number(number: i64) -> Option<&'static str> {
    DTYPES.iter().find(|(.., known)| *known == number).map(|(name, ..)| *name)
}
