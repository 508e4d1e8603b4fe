//! NumPy's files of one array.
//!
//! NumPy has no bfloat16. The package `ml_dtypes` adds it, and its files describe such elements as two bytes without
//! meaning, `V2`; the same is written and read here.
//!
//! The crate npyz is not used: it allocates whatever length a header claims, multiplies sizes without a check, and accepts
//! repeated fields and trailing bytes. All of our checks would stay here, beside its parser generator and big integers.

use crate::error::{NpyError, TensorProblem, shortened};
use crate::tensor::dense::Tensor;
use crate::tensor::elements;
use crate::tensor::npy_header::{self, Header};
use crate::tensor::payload::Truth;

/// The beginning of every such file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The limit on the header's length. Longer headers describe records with many fields.
const MAX_HEADER_BYTES: u64 = 1 << 16;

/// The alignment of the elements in a written file, as in NumPy's own.
const ALIGNMENT: usize = 64;

/// Element types: NumPy's description without the byte order, and the name in the operator table.
const DTYPES: [(&str, &str, usize); 13] = [
    ("f4", "float32", 4),
    ("f2", "float16", 2),
    ("f8", "float64", 8),
    ("V2", "bfloat16", 2),
    ("b1", "bool", 1),
    ("i1", "int8", 1),
    ("i2", "int16", 2),
    ("i4", "int32", 4),
    ("i8", "int64", 8),
    ("u1", "uint8", 1),
    ("u2", "uint16", 2),
    ("u4", "uint32", 4),
    ("u8", "uint64", 8),
];

/// The array in `file`, which begins with the magic.
pub(crate) fn parse(file: &[u8]) -> Result<Tensor, NpyError> {
    let (header, data) = split(file)?;
    let header = npy_header::parse(header)?;
    let (dtype, width, big_endian) = dtype(&header.descr)?;
    let count = elements(&header.shape)?;
    let (expected, found) = (count * width as u64, data.len() as u64);
    if expected != found {
        let dims = header.shape;
        return Err(TensorProblem::Size { field: "data", dtype, dims, unit: "bytes", expected, found }.into());
    }
    let mut bytes = in_c_order(&header, data, width);
    if big_endian {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Truth(dtype == "bool").settle(&mut bytes);
    Ok(Tensor { name: String::new(), dtype: dtype.to_owned(), shape: header.shape, bytes })
}

/// The header, and the bytes after it.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), NpyError> {
    let rest = file.get(MAGIC.len()..).unwrap_or_default();
    let found = file.len() as u64;
    let truncated = |expected| NpyError::Truncated { expected, found };
    let [major, minor, rest @ ..] = rest else { return Err(truncated(MAGIC.len() as u64 + 2)) };
    let (length, rest) = match (major, rest) {
        (1, [a, b, rest @ ..]) => (u64::from(u16::from_le_bytes([*a, *b])), rest),
        (2 | 3, [a, b, c, d, rest @ ..]) => (u64::from(u32::from_le_bytes([*a, *b, *c, *d])), rest),
        (1..=3, _) => return Err(truncated(MAGIC.len() as u64 + 2 + if *major == 1 { 2 } else { 4 })),
        _ => return Err(NpyError::Version { major: *major, minor: *minor }),
    };
    if length > MAX_HEADER_BYTES {
        return Err(NpyError::LongHeader { found: length, limit: MAX_HEADER_BYTES });
    }
    let before = found - rest.len() as u64;
    rest.split_at_checked(length as usize).ok_or_else(|| truncated(before + length))
}

/// An element type, its size, and whether its bytes must be swapped.
fn dtype(descr: &str) -> Result<(&'static str, usize, bool), NpyError> {
    let known = descr.strip_prefix(['<', '>', '|', '=']).unwrap_or(descr);
    match DTYPES.iter().find(|(numpy, ..)| *numpy == known) {
        Some((_, dtype, width)) => Ok((dtype, *width, descr.starts_with('>'))),
        None => Err(NpyError::DataType { found: shortened(descr) }),
    }
}

/// The elements in row-major order.
fn in_c_order(header: &Header, data: &[u8], width: usize) -> Vec<u8> {
    if !header.fortran_order || data.is_empty() {
        return data.to_vec();
    }
    // The distance in `data` between elements whose indices differ by one. The product of the sizes was checked.
    let sizes: Vec<usize> = header.shape.iter().map(|dim| *dim as usize).collect();
    let steps: Vec<usize> = sizes
        .iter()
        .scan(width, |step, size| Some(std::mem::replace(step, step.saturating_mul(*size))))
        .collect();
    let mut index = vec![0; sizes.len()];
    let mut bytes = Vec::with_capacity(data.len());
    let mut at = 0;
    while bytes.len() < data.len() {
        bytes.extend_from_slice(&data[at..at + width]);
        for axis in (0..sizes.len()).rev() {
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < sizes[axis] {
                break;
            }
            at -= steps[axis] * sizes[axis];
            index[axis] = 0;
        }
    }
    bytes
}

/// The part of a file before the elements of `tensor`.
pub(crate) fn header(tensor: &Tensor) -> Result<Vec<u8>, TensorProblem> {
    let Some((numpy, dtype, width)) = DTYPES.iter().find(|(_, dtype, _)| *dtype == tensor.dtype) else {
        return Err(TensorProblem::DataType { found: shortened(&tensor.dtype) });
    };
    let (expected, found) = (elements(&tensor.shape)? * *width as u64, tensor.bytes.len() as u64);
    if expected != found {
        let dims = tensor.shape.clone();
        return Err(TensorProblem::Size { field: "bytes", dtype, dims, unit: "bytes", expected, found });
    }
    let order = if *width == 1 { '|' } else { '<' };
    let sizes: Vec<String> = tensor.shape.iter().map(i64::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let sizes = sizes.join(", ");
    let text = format!("{{'descr': '{order}{numpy}', 'fortran_order': False, 'shape': ({sizes}{comma}), }}");
    let mut header = [MAGIC, &[1, 0, 0, 0], text.as_bytes()].concat();
    let padded = (header.len() + 1).next_multiple_of(ALIGNMENT);
    header.resize(padded - 1, b' ');
    header.push(b'\n');
    // At most 64 dimensions of 20 digits: far below 2^16.
    let length = (padded - MAGIC.len() - 4) as u16;
    header[MAGIC.len() + 2..][..2].copy_from_slice(&length.to_le_bytes());
    Ok(header)
}
