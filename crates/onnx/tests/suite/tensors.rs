//! Tensors in ONNX's files: every element type in every field, and invalid tensors.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that are read")]

use crate::common::tensor;
use crate::common::wire::Message;
use opkeep_onnx::{OnnxError, Tensor, TensorProblem, read_tensor};

fn read(content: &Message) -> Result<Tensor, OnnxError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tensor.pb");
    std::fs::write(&path, &content.0).unwrap();
    read_tensor(&path)
}

fn problem(content: &Message) -> TensorProblem {
    match read(content).unwrap_err() {
        OnnxError::TensorFile { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

/// An element type, a field for it with three values in protobuf's form, and their bytes in memory.
type Case = (u64, &'static str, Message, &'static [u8]);

/// The bytes were worked out by hand, from IEEE 754 and two's complement.
fn cases() -> Vec<Case> {
    let ints = |field, values: [i64; 3]| Message::default().packed(field, values);
    let floats = Message::default().packed_floats(4, [1.0, -2.5, 1e-40]);
    let doubles: Vec<u8> = [1.0_f64, -2.5, 0.1].into_iter().flat_map(f64::to_le_bytes).collect();
    vec![
        (1, "float32", floats, &[0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 0xc2, 0x16, 1, 0]),
        (2, "uint8", ints(5, [0, 200, 255]), &[0, 200, 255]),
        (3, "int8", ints(5, [-1, 127, -128]), &[0xff, 0x7f, 0x80]),
        (4, "uint16", ints(5, [1, 0x1234, 0xffff]), &[1, 0, 0x34, 0x12, 0xff, 0xff]),
        (5, "int16", ints(5, [-2, 0x1234, -0x8000]), &[0xfe, 0xff, 0x34, 0x12, 0, 0x80]),
        (
            6,
            "int32",
            ints(5, [-2, 0x1234_5678, 7]),
            &[0xfe, 0xff, 0xff, 0xff, 0x78, 0x56, 0x34, 0x12, 7, 0, 0, 0],
        ),
        (
            7,
            "int64",
            ints(7, [-2, 0x0102_0304_0506_0708, i64::MIN]),
            &[
                0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0,
                0x80,
            ],
        ),
        (9, "bool", ints(5, [1, 0, 256]), &[1, 0, 1]),
        (10, "float16", ints(5, [0x3c00, 0xc100, 0x0001]), &[0, 0x3c, 0, 0xc1, 1, 0]),
        (
            11,
            "float64",
            Message::default().bytes(10, doubles),
            &[
                0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0xc0, 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99,
                0xb9, 0x3f,
            ],
        ),
        (12, "uint32", ints(11, [1, 0xffff_fffe, 300]), &[1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x2c, 1, 0, 0]),
        (
            13,
            "uint64",
            ints(11, [1, -2, 300]),
            &[
                1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x2c, 1, 0, 0, 0, 0,
                0, 0,
            ],
        ),
        (16, "bfloat16", ints(5, [0x3f80, 0xc020, 0x0001]), &[0x80, 0x3f, 0x20, 0xc0, 1, 0]),
    ]
}

fn joined(parts: [&Message; 2]) -> Message {
    Message(parts.iter().flat_map(|part| part.0.clone()).collect())
}

#[test]
fn elements_in_the_field_for_their_type() {
    for (number, dtype, field, bytes) in cases() {
        let found = read(&joined([&tensor("t", number, &[3, 1]), &field])).unwrap();
        let expected =
            Tensor { name: "t".into(), dtype: dtype.into(), shape: vec![3, 1], bytes: bytes.to_vec() };
        assert_eq!(found, expected);
    }
}

#[test]
fn elements_as_raw_data() {
    for (number, dtype, _, bytes) in cases() {
        // At every offset in the file.
        for name in ["", "t", "tensor"] {
            let found = read(&tensor(name, number, &[3]).bytes(9, bytes)).unwrap();
            assert_eq!((&*found.dtype, &found.bytes[..]), (dtype, bytes), "{name}");
        }
    }
}

#[test]
fn truth_values_are_0_or_1() {
    let found = read(&tensor("t", 9, &[4]).bytes(9, [2, 0, 0x80, 1])).unwrap();
    assert_eq!(found.bytes, [1, 0, 1, 1]);
}

#[test]
fn elements_in_several_pieces() {
    // Other valid forms of the same values.
    let ints = tensor("t", 7, &[5]).packed(7, [1, 300]).packed(7, []).packed(7, [-1]).packed(7, [4, 5]);
    let expected: Vec<u8> = [1_i64, 300, -1, 4, 5].into_iter().flat_map(i64::to_le_bytes).collect();
    assert_eq!(read(&ints).unwrap().bytes, expected);
    let floats = tensor("t", 1, &[3]).packed_floats(4, [1.0]).packed_floats(4, [2.0, -0.0]);
    let expected: Vec<u8> = [1.0_f32, 2.0, -0.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(read(&floats).unwrap().bytes, expected);
}

#[test]
fn scalars_and_nothing() {
    assert_eq!(read(&tensor("t", 7, &[]).packed(7, [9])).unwrap().bytes, [9, 0, 0, 0, 0, 0, 0, 0]);
    // Also with packed sizes.
    let packed = Message::default().packed(1, [0, 3]).varint(2, 1);
    let found = read(&packed).unwrap();
    assert_eq!((found.shape, found.bytes.len()), (vec![0, 3], 0));
    assert!(matches!(problem(&packed.bytes(9, [0])), TensorProblem::Size { expected: 0, found: 1, .. }));
}

#[test]
fn another_number_of_elements() {
    let found = problem(&tensor("t", 1, &[2, 3]).bytes(9, [0; 23])).to_string();
    assert_eq!(found, "`raw_data` has 23 bytes, expected 24 for float32 [2, 3]");
    let found = problem(&tensor("t", 1, &[2]).packed_floats(4, [1.0, 2.0, 3.0])).to_string();
    assert_eq!(found, "`float_data` has 12 bytes, expected 8 for float32 [2]");
    let found = problem(&tensor("t", 10, &[2]).packed(5, [1, 2, 300])).to_string();
    assert_eq!(found, "`int32_data` has 3 values, expected 2 for float16 [2]");
    assert!(matches!(problem(&tensor("t", 1, &[2])), TensorProblem::NoData { expected: 2 }));
    // A scalar has one.
    assert!(matches!(problem(&tensor("t", 1, &[])), TensorProblem::NoData { expected: 1 }));
}

#[test]
fn elements_in_the_wrong_place() {
    let found = problem(&tensor("t", 7, &[1]).packed(5, [1])).to_string();
    assert_eq!(found, "its elements are in `int32_data`, expected int64 in `int64_data` or `raw_data`");
    let both = tensor("t", 7, &[1]).packed(7, [1]).bytes(9, [0; 8]);
    assert!(matches!(problem(&both), TensorProblem::Mixed { first: "int64_data", second: "raw_data" }));
    let both = tensor("t", 7, &[1]).packed(7, [1]).varint(14, 1);
    assert!(matches!(problem(&both), TensorProblem::Mixed { second: "external_data", .. }));
    assert!(matches!(problem(&tensor("t", 7, &[1]).varint(14, 2)), TensorProblem::Location { found: 2 }));
    // Entries that a tool left when it moved the elements into the model.
    let entry = Message::default().bytes(1, "location").bytes(2, "gone");
    assert_eq!(read(&tensor("t", 2, &[1]).packed(5, [3]).message(13, entry)).unwrap().bytes, [3]);
}

#[test]
fn shapes_that_no_tensor_has() {
    let found = problem(&tensor("t", 1, &[2, u64::MAX]).bytes(9, [0; 8])).to_string();
    assert_eq!(found, "dimension 1 is -1, expected 0 or more");
    // Products that overflow, or exceed any memory; also with a zero among them.
    let cases: [&[u64]; 4] = [&[1 << 48, 2], &[1 << 62, 4], &[0, 1 << 62, 1 << 62], &[u64::MAX >> 1; 64]];
    for dims in cases {
        assert!(matches!(problem(&tensor("t", 2, dims)), TensorProblem::TooManyElements { .. }), "{dims:?}");
    }
    assert!(matches!(problem(&tensor("t", 2, &[1 << 48])), TensorProblem::NoData { .. }));
    assert!(matches!(problem(&tensor("t", 2, &[1; 65])), TensorProblem::Rank { found: 65, limit: 64 }));
    assert_eq!(read(&tensor("t", 2, &[1; 64]).packed(5, [8])).unwrap().bytes, [8]);
}

#[test]
fn element_types_that_nothing_here_has() {
    for (number, name) in [(8, "string"), (14, "complex64"), (19, "float8e5m2"), (22, "int4"), (26, "int2")] {
        let found = problem(&tensor("t", number, &[1]).bytes(9, [0])).to_string();
        assert!(found.starts_with(&format!("its elements are of type {name}, expected float32")), "{found}");
    }
    let found = problem(&tensor("t", 27, &[1])).to_string();
    assert!(found.starts_with("its elements are of type 27, "), "{found}");
    // Negative numbers in protobuf's form.
    let found = problem(&tensor("t", i64::from(i32::MIN) as u64, &[1])).to_string();
    assert!(found.starts_with("its elements are of type -2147483648, "), "{found}");
}

#[test]
fn packed_numbers_that_are_none() {
    for bytes in
        [&[0x80][..], &[1, 0xff], &[0x80; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
    {
        let found = problem(&tensor("t", 7, &[1]).bytes(7, bytes));
        assert!(matches!(found, TensorProblem::Packed { field: "int64_data" }), "{found}");
    }
}

#[test]
fn other_files_are_no_tensors() {
    let message = |content: &Message| read(content).unwrap_err().to_string();
    let found = message(&Message::default());
    assert!(found.contains("is not a tensor (`.pb` of ONNX, or `.npy`): it is empty"), "{found}");
    let found = message(&crate::common::small_model());
    assert!(found.contains("is not a tensor"), "{found}");
    let found = message(&Message::default().varint(1, 3));
    assert!(found.contains("without an element type"), "{found}");
    let whole = tensor("t", 1, &[4]).bytes(9, [0; 16]).0;
    let found = message(&Message(whole[..whole.len() - 3].to_vec()));
    assert!(found.contains("the field `raw_data` at byte 7 is 3 bytes longer than the file"), "{found}");
    // Unpacked elements, which the specification does not have.
    let found = message(&tensor("t", 1, &[1]).fixed32(4, 1.0_f32.to_le_bytes()));
    assert!(found.contains("TensorProto.float_data"), "{found}");
}
