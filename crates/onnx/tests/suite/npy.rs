//! NumPy's files.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that are read")]

use std::path::{Path, PathBuf};

use opkeep_onnx::{NpyError, OnnxError, Tensor, TensorProblem, read_tensor, write_npy};
use tempfile::TempDir;

/// A file of format `version`: `header`, then `data`.
fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let length = header.len() as u32;
    let length =
        if version == 1 { length.to_le_bytes()[..2].to_vec() } else { length.to_le_bytes().to_vec() };
    [b"\x93NUMPY", &[version, 0][..], &length, header.as_bytes(), data].concat()
}

fn described(descr: &str, order: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n")
}

fn with_file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    // The file's name has another suffix.
    let path = directory.path().join("array.pb");
    std::fs::write(&path, bytes).unwrap();
    (directory, path)
}

fn read(bytes: &[u8]) -> Result<Tensor, OnnxError> {
    let (_directory, path) = with_file(bytes);
    read_tensor(&path)
}

fn problem(bytes: &[u8]) -> NpyError {
    match read(bytes).unwrap_err() {
        OnnxError::Npy { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

fn tensor(dtype: &str, shape: &[i64], bytes: &[u8]) -> Tensor {
    Tensor { name: String::new(), dtype: dtype.into(), shape: shape.to_vec(), bytes: bytes.to_vec() }
}

#[test]
fn every_format_and_element_type() {
    let data: Vec<u8> = (1..=64).collect();
    let types = [
        ("<f4", "float32", 4),
        ("<f2", "float16", 2),
        ("<f8", "float64", 8),
        ("<V2", "bfloat16", 2),
        ("|i1", "int8", 1),
        ("<i2", "int16", 2),
        ("<i4", "int32", 4),
        ("<i8", "int64", 8),
        ("|u1", "uint8", 1),
        ("<u2", "uint16", 2),
        ("<u4", "uint32", 4),
        ("<u8", "uint64", 8),
    ];
    for version in 1..=3 {
        for (descr, dtype, width) in types {
            let bytes = &data[..6 * width];
            let content = file(version, &described(descr, "False", "(2, 3)"), bytes);
            assert_eq!(read(&content).unwrap(), tensor(dtype, &[2, 3], bytes));
        }
    }
    let truths = file(1, &described("|b1", "False", "(3,)"), &[0, 1, 9]);
    assert_eq!(read(&truths).unwrap(), tensor("bool", &[3], &[0, 1, 1]));
    let scalar = file(1, &described("<i2", "False", "()"), &[7, 1]);
    assert_eq!(read(&scalar).unwrap(), tensor("int16", &[], &[7, 1]));
    let nothing = file(1, &described("<f4", "True", "(0, 4)"), &[]);
    assert_eq!(read(&nothing).unwrap(), tensor("float32", &[0, 4], &[]));
}

#[test]
fn the_other_order_of_bytes() {
    let content = file(1, &described(">i4", "False", "(2,)"), &[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(read(&content).unwrap(), tensor("int32", &[2], &[4, 3, 2, 1, 0xfe, 0xff, 0xff, 0xff]));
}

#[test]
fn the_other_order_of_indices() {
    // The element at i, j, k is the number ijk; the first index runs fastest.
    let mut data = Vec::new();
    for k in 0..4 {
        for j in 0..3 {
            for i in 0..2_u16 {
                data.extend((100 * i + 10 * j + k).to_be_bytes());
            }
        }
    }
    let mut expected = Vec::new();
    for i in 0..2 {
        for j in 0..3 {
            for k in 0..4_u16 {
                expected.extend((100 * i + 10 * j + k).to_le_bytes());
            }
        }
    }
    let content = file(2, &described(">u2", "True", "(2, 3, 4)"), &data);
    assert_eq!(read(&content).unwrap(), tensor("uint16", &[2, 3, 4], &expected));
    // The column-major elements of the matrix [[1, 3, 5], [2, 4, 6]].
    let content = file(1, &described("|u1", "True", "(2, 3)"), &[1, 2, 3, 4, 5, 6]);
    assert_eq!(read(&content).unwrap().bytes, [1, 3, 5, 2, 4, 6]);
}

#[test]
fn files_that_are_damaged() {
    let whole = file(1, &described("<f4", "False", "(2,)"), &[1, 2, 3, 4, 5, 6, 7, 8]);
    let header = whole.len() - 8;
    for cut in 6..header {
        assert!(matches!(problem(&whole[..cut]), NpyError::Truncated { .. }), "{cut}");
    }
    for cut in header..whole.len() {
        let found = problem(&whole[..cut]);
        let NpyError::Tensor(TensorProblem::Size { expected: 8, found, .. }) = found else {
            panic!("{found}")
        };
        assert_eq!(found as usize, cut - header);
    }
    let more = [&whole[..], &[0]].concat();
    assert!(matches!(problem(&more), NpyError::Tensor(TensorProblem::Size { found: 9, .. })));
    assert!(matches!(problem(&file(4, "", &[])), NpyError::Version { major: 4, minor: 0 }));
    let long = file(2, &" ".repeat(65537), &[]);
    assert!(matches!(problem(&long), NpyError::LongHeader { found: 65537, limit: 65536 }));
    let dtype = problem(&file(1, &described("<c8", "False", "(1,)"), &[0; 8]));
    assert!(matches!(&dtype, NpyError::DataType { found } if found == "<c8"), "{dtype}");
    let huge = problem(&file(1, &described("<f8", "True", "(4611686018427387904, 4)"), &[]));
    assert!(matches!(huge, NpyError::Tensor(TensorProblem::TooManyElements { .. })));
    let nothing = problem(&file(1, &described("<f8", "True", "(0, 4611686018427387904, 4)"), &[]));
    assert!(matches!(nothing, NpyError::Tensor(TensorProblem::TooManyElements { .. })));
    // The message names the file and a remedy.
    let found = read(&whole[..20]).unwrap_err().to_string();
    assert!(
        found.contains("array.pb` is not a NumPy file that can be read: it ends after 20 bytes"),
        "{found}"
    );
}

#[test]
fn written_files_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.npy");
    let bytes: Vec<u8> = (0..48).collect();
    let cases = [
        tensor("float32", &[2, 3, 2], &bytes),
        tensor("int64", &[6], &bytes),
        tensor("bfloat16", &[24, 1], &bytes),
        tensor("bool", &[2], &[1, 0]),
        tensor("float64", &[], &bytes[..8]),
        tensor("uint8", &[5, 0], &[]),
        tensor("int8", &[1; 64], &[9]),
    ];
    for tensor in cases {
        write_npy(&path, &tensor).unwrap();
        assert_eq!(read_tensor(&path).unwrap(), tensor);
    }
    // No other file is left.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// The bytes that NumPy 2.4 writes.
#[test]
fn numpys_own_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.npy");
    let cases = [
        (
            tensor("float32", &[], &[0, 0, 0x80, 0x3f]),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
        ),
        (tensor("int8", &[3], &[1, 2, 3]), "{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }"),
        (
            tensor("int16", &[1, 2], &[1, 2, 3, 4]),
            "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }",
        ),
    ];
    for (tensor, header) in cases {
        write_npy(&path, &tensor).unwrap();
        let expected = format!("{header:<117}\n");
        let expected = [b"\x93NUMPY\x01\x00\x76\x00", expected.as_bytes(), &tensor.bytes].concat();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
    }
}

#[test]
fn invalid_tensors_are_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.npy");
    let problem = |path: &Path, tensor: &Tensor| write_npy(path, tensor).unwrap_err();
    let found = problem(&path, &tensor("float32", &[2], &[0; 7]));
    assert!(matches!(found, OnnxError::TensorFile { problem: TensorProblem::Size { expected: 8, .. }, .. }));
    let found = problem(&path, &tensor("complex64", &[1], &[0; 8]));
    assert!(matches!(found, OnnxError::TensorFile { problem: TensorProblem::DataType { .. }, .. }));
    let found = problem(&path, &tensor("int8", &[-1], &[]));
    assert!(matches!(found, OnnxError::TensorFile { problem: TensorProblem::NegativeDim { .. }, .. }));
    assert!(!path.exists());
    let found = problem(&directory.path().join("no/out.npy"), &tensor("int8", &[1], &[1]));
    assert!(matches!(found, OnnxError::Io { action: "write", .. }), "{found}");
    // An existing file stays if the new one cannot be written.
    write_npy(&path, &tensor("int8", &[1], &[1])).unwrap();
    problem(&path, &tensor("int8", &[1], &[1, 2]));
    assert_eq!(read_tensor(&path).unwrap().bytes, [1]);
}
