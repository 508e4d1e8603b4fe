//! Storage formats of tensors, and the shapes that belong to them.
//!
//! A plain format has the tensor's dimensions in the order of its letters (`ND`: in their own order). A blocked format
//! divides channels, or the last two dimensions, into blocks that a chip's matrix units process at once, and pads the
//! last block: `NC1HWC0` has `C1` blocks of `C0` channels. The rules are those of CANN's graph engine (`metadef`,
//! `transfer_shape_utils`, and `expand_dimension` for fewer dimensions), the sizes of blocks those of its
//! `platform_config` (`[DtypeMKN]`), which are equal for all chips whose files were read.

use std::borrow::Cow;

use opkeep_descriptor::Tensor;

use crate::OpsError;

/// The rows of a block, for every element type.
const ROWS: i64 = 16;

const BLOCKED: [&str; 5] = ["NC1HWC0", "NDC1HWC0", "FRACTAL_Z", "FRACTAL_Z_3D", "FRACTAL_NZ"];
const ORDERED: [&str; 7] = ["NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN"];

/// The field for a tensor's groups of weights; only some tensors have it.
const SUB_FORMAT: &str = "sub_format";

/// The storage of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Storage {
    /// Element type.
    pub dtype: String,
    /// Format.
    pub format: String,
    /// Groups of a convolution's weights in `FRACTAL_Z`; 1 in other formats.
    pub groups: i64,
}

impl Storage {
    /// A storage without groups.
    pub fn new(dtype: impl Into<String>, format: impl Into<String>) -> Self {
        Self { dtype: dtype.into(), format: format.into(), groups: 1 }
    }

    /// The storage of `tensor`.
    pub fn of(tensor: &Tensor) -> Self {
        let groups = tensor.extra.get(SUB_FORMAT).and_then(|groups| groups.as_i64()).unwrap_or(1);
        Self { dtype: tensor.dtype.clone(), format: tensor.format.clone(), groups }
    }

    /// The same logical tensor in this storage.
    ///
    /// # Errors
    /// [`OpsError::Storage`]: the shape has no such format.
    pub fn apply(&self, tensor: &Tensor) -> Result<Tensor, OpsError> {
        let logical = logical(tensor);
        let ordered = ordered(&logical);
        let none = || OpsError::Storage {
            shape: logical.shape.clone(),
            dtype: self.dtype.clone(),
            format: self.format.clone(),
        };
        let shape = storage_shape(&logical.shape, ordered, self).ok_or_else(none)?;
        let mut stored =
            Tensor { dtype: self.dtype.clone(), format: self.format.clone(), ..logical.as_ref().clone() };
        if is_blocked(&self.format) || shape.len() == ordered.len() && ordered != self.format {
            stored.ori_format = Some(ordered.to_owned());
            stored.ori_shape = Some(logical.shape.clone());
        }
        stored.shape = shape;
        if self.groups > 1 {
            stored.extra.insert(SUB_FORMAT.to_owned(), self.groups.into());
        }
        Ok(stored)
    }
}

/// Whether `format` divides dimensions into blocks.
pub fn is_blocked(format: &str) -> bool {
    BLOCKED.contains(&format)
}

/// The order of a tensor's dimensions in the framework: `NCHW`, ...
pub fn ordered(tensor: &Tensor) -> &str {
    let said = tensor.ori_format.as_deref().unwrap_or(&tensor.format);
    let rank = tensor.ori_shape.as_ref().unwrap_or(&tensor.shape).len();
    match said {
        // Frameworks give all their tensors the same format.
        "NCHW" | "ND" if rank == 5 => "NCDHW",
        "ND" if rank == 4 => "NCHW",
        said => said,
    }
}

/// The number of channels in a block, `C0`.
///
/// ```
/// assert_eq!(["float16", "float32", "int8"].map(opkeep_ops::block), [16, 16, 32]);
/// ```
pub fn block(dtype: &str) -> i64 {
    match dtype {
        "int8" | "uint8" => 32,
        "int4" | "uint4" => 64,
        "int2" | "uint2" => 128,
        "uint1" => 256,
        _ => 16,
    }
}

/// A tensor in its logical form, without blocks and in the framework's order. It is the tensor itself if it is stored
/// that way.
pub fn logical(tensor: &Tensor) -> Cow<'_, Tensor> {
    let Some(shape) = tensor.ori_shape.as_ref().filter(|_| is_stored_otherwise(tensor)) else {
        return Cow::Borrowed(tensor);
    };
    let mut plain = tensor.clone();
    plain.extra.remove(SUB_FORMAT);
    plain.shape.clone_from(shape);
    plain.ori_shape = None;
    plain.format = match (tensor.ori_format.as_deref(), shape.len()) {
        (Some(ordered), rank) if ordered.len() == rank => ordered.to_owned(),
        _ => "ND".to_owned(),
    };
    Cow::Owned(plain)
}

fn is_stored_otherwise(tensor: &Tensor) -> bool {
    let is_ordered = |format: &str| ORDERED.contains(&format);
    let reordered = is_ordered(&tensor.format)
        && tensor.ori_format.as_deref().is_some_and(|ori| is_ordered(ori) && ori != tensor.format);
    is_blocked(&tensor.format) || reordered
}

/// The shape in memory of a tensor whose dimensions are `shape` in the order `ordered`. A dynamic dimension stays -1.
///
/// A single dimension counts as the channels, three dimensions of `NCHW` as all but `N`. `None` for a shape without
/// such a format; two dimensions need a view that names them.
///
/// ```
/// use opkeep_ops::{Storage, storage_shape};
///
/// let half = Storage::new("float16", "NC1HWC0");
/// assert_eq!(storage_shape(&[1, 3, 224, 224], "NCHW", &half), Some(vec![1, 1, 224, 224, 16]));
/// let bytes = Storage::new("int8", "FRACTAL_Z");
/// assert_eq!(storage_shape(&[32, 32, 2, 2], "NCHW", &bytes), Some(vec![4, 2, 16, 32]));
/// ```
pub fn storage_shape(shape: &[i64], ordered: &str, storage: &Storage) -> Option<Vec<i64>> {
    let c0 = block(&storage.dtype);
    let axes = || Axes::of(shape, ordered);
    match storage.format.as_str() {
        "ND" => Some(shape.to_vec()),
        "NC1HWC0" if shape.len() != 5 => {
            let Axes { n, c, h, w, .. } = axes()?;
            Some(vec![n, blocks(c, c0), h, w, c0])
        }
        "NDC1HWC0" => {
            let Axes { n, d, c, h, w } = axes()?;
            Some(vec![n, d, blocks(c, c0), h, w, c0])
        }
        "FRACTAL_Z" if shape.len() == 2 => Some(vec![blocks(shape[0], c0), blocks(shape[1], ROWS), ROWS, c0]),
        "FRACTAL_Z" if shape.len() != 5 => axes()?.weights(c0, storage.groups),
        "FRACTAL_Z_3D" if shape.len() == 5 => axes()?.weights(c0, storage.groups),
        "FRACTAL_NZ" => match shape {
            [] => None,
            [columns] => Some(vec![1, blocks(*columns, ROWS), ROWS, c0]),
            [outer @ .., rows, columns] => {
                Some([outer, &[blocks(*columns, c0), blocks(*rows, ROWS), ROWS, c0]].concat())
            }
        },
        // The order of a single dimension does not matter.
        format if ORDERED.contains(&format) && shape.len() < format.len() => {
            (ordered == format).then(|| shape.to_vec())
        }
        format if ORDERED.contains(&format) && shape.len() == format.len() => {
            let axes = axes().filter(|_| ordered.len() == format.len())?;
            format.chars().map(|letter| axes.get(letter)).collect()
        }
        _ => None,
    }
}

/// Dimensions by their meaning.
struct Axes {
    n: i64,
    d: i64,
    c: i64,
    h: i64,
    w: i64,
}

impl Axes {
    fn of(shape: &[i64], ordered: &str) -> Option<Self> {
        let mut axes = Self { n: 1, d: 1, c: 1, h: 1, w: 1 };
        match shape {
            [channels] => axes.c = *channels,
            [c, h, w] if ordered == "NCHW" => (axes.c, axes.h, axes.w) = (*c, *h, *w),
            shape if shape.len() == ordered.len() && ORDERED.contains(&ordered) => {
                for (letter, dim) in ordered.chars().zip(shape) {
                    *axes.slot(letter)? = *dim;
                }
            }
            _ => return None,
        }
        Some(axes)
    }

    fn slot(&mut self, letter: char) -> Option<&mut i64> {
        match letter {
            'N' => Some(&mut self.n),
            'D' => Some(&mut self.d),
            'C' => Some(&mut self.c),
            'H' => Some(&mut self.h),
            'W' => Some(&mut self.w),
            _ => None,
        }
    }

    fn get(&self, letter: char) -> Option<i64> {
        match letter {
            'N' => Some(self.n),
            'D' => Some(self.d),
            'C' => Some(self.c),
            'H' => Some(self.h),
            'W' => Some(self.w),
            _ => None,
        }
    }

    /// `FRACTAL_Z`: blocks of 16 filters and `c0` channels. Groups with few filters or channels share a block.
    fn weights(&self, c0: i64, groups: i64) -> Option<Vec<i64>> {
        let (mut filters, mut channels, mut parts) = (self.n, self.c, 1);
        if groups > 1 && filters >= groups && channels > 0 {
            filters /= groups;
            let fill = least_common_multiple(c0 / common(channels, c0), ROWS / common(filters, ROWS))?;
            let together = fill.min(groups);
            parts = blocks(groups, together);
            (filters, channels) = (filters.checked_mul(together)?, channels.checked_mul(together)?);
        }
        let dims = [parts, blocks(channels, c0), self.d, self.h, self.w];
        let product = dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim))?;
        let product = if dims.iter().any(|dim| *dim < 0) { -1 } else { product };
        Some(vec![product, blocks(filters, ROWS), ROWS, c0])
    }
}

/// The number of blocks of `size` that hold `dim`.
fn blocks(dim: i64, size: i64) -> i64 {
    if dim < 0 { -1 } else { dim / size + i64::from(dim % size != 0) }
}

/// The greatest common divisor of two numbers above 0.
fn common(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { common(other, one % other) }
}

fn least_common_multiple(one: i64, other: i64) -> Option<i64> {
    (one / common(one, other)).checked_mul(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(shape: &[i64], ordered: &str, dtype: &str, format: &str) -> Option<Vec<i64>> {
        storage_shape(shape, ordered, &Storage::new(dtype, format))
    }

    /// Descriptions of tensors from the tests of the vendor's own operators (canndev, `ops/built-in/tests`).
    #[test]
    fn shapes_are_those_of_the_vendors_own_descriptions() {
        for (dims, ordered, dtype, format, stored) in [
            // avg_pool
            (&[-1, 32, 1, -1][..], "NCHW", "float16", "NC1HWC0", &[-1, 2, 1, -1, 16][..]),
            (&[32, 1, 2, 2], "NCHW", "float16", "FRACTAL_Z", &[4, 2, 16, 16]),
            // conv2d in int8
            (&[1, 1, 32, 32], "NCHW", "int8", "NC1HWC0", &[1, 1, 32, 32, 32]),
            (&[64, 1, 3, 3], "NCHW", "int8", "FRACTAL_Z", &[9, 4, 16, 32]),
            (&[32, 32, 2, 2], "NCHW", "int8", "FRACTAL_Z", &[4, 2, 16, 32]),
            // conv2d_backprop_input
            (&[3, 3, 32, 32], "HWCN", "float16", "FRACTAL_Z", &[18, 2, 16, 16]),
            (&[2, 14, 14, 32], "NHWC", "float16", "NC1HWC0", &[2, 2, 14, 14, 16]),
            // slice_d
            (&[16, 16, 16, 16], "NCHW", "float16", "FRACTAL_Z", &[256, 1, 16, 16]),
            // mul, batch_matmul, mat_mul
            (&[8192, 240], "ND", "float16", "FRACTAL_NZ", &[15, 512, 16, 16]),
            (&[16, 1024, 512], "ND", "float16", "FRACTAL_NZ", &[16, 32, 64, 16, 16]),
            (&[1, 16, 128, 64], "ND", "float16", "FRACTAL_NZ", &[1, 16, 4, 8, 16, 16]),
            // avg_pool3d_d
            (&[23, 19, 88, 2, 1124], "NDHWC", "float16", "NDC1HWC0", &[23, 19, 71, 88, 2, 16]),
            (&[1, 88, 2, 1124, 1], "DHWCN", "float16", "FRACTAL_Z_3D", &[12496, 1, 16, 16]),
        ] {
            assert_eq!(shape(dims, ordered, dtype, format), Some(stored.to_vec()), "{dims:?} {format}");
        }
    }

    #[test]
    fn other_shapes_follow_the_vendors_rules() {
        // A single dimension is the channels, as in `expand_dimension`.
        assert_eq!(shape(&[64], "NCHW", "float32", "NC1HWC0"), Some(vec![1, 4, 1, 1, 16]));
        assert_eq!(shape(&[64, 3, 2], "NCHW", "float16", "NC1HWC0"), Some(vec![1, 4, 3, 2, 16]));
        assert_eq!(shape(&[1, 3, 5, 7], "NCHW", "float32", "NHWC"), Some(vec![1, 5, 7, 3]));
        assert_eq!(shape(&[33, 17], "ND", "float16", "FRACTAL_Z"), Some(vec![3, 2, 16, 16]));
        assert_eq!(shape(&[17], "ND", "float16", "FRACTAL_NZ"), Some(vec![1, 2, 16, 16]));
        assert_eq!(shape(&[0, 3, 4, 4], "NCHW", "float16", "NC1HWC0"), Some(vec![0, 1, 4, 4, 16]));
        for (dims, ordered, format) in [
            (&[2, 64][..], "NCHW", "NC1HWC0"),
            (&[2, 3, 4, 5, 6], "NCDHW", "NC1HWC0"),
            (&[2, 3, 4, 5], "NCHW", "FRACTAL_Z_3D"),
            (&[2, 3, 4, 5], "ND", "NC1HWC0"),
            (&[2, 3], "NCHW", "NHWC"),
            (&[], "ND", "FRACTAL_NZ"),
            (&[2, 3, 4, 5], "NCHW", "C1HWNCoC0_or_such"),
            (&[1, i64::MAX, i64::MAX, 1], "NCHW", "FRACTAL_Z"),
        ] {
            assert_eq!(shape(dims, ordered, "float16", format), None, "{dims:?} {format}");
        }
    }

    #[test]
    fn groups_of_weights_share_blocks() {
        let of = |dims: &[i64], groups| {
            storage_shape(dims, "NCHW", &Storage { groups, ..Storage::new("float16", "FRACTAL_Z") })
        };
        // Each of 32 channels is a group: 16 of them fill a block.
        assert_eq!(of(&[32, 1, 3, 3], 32), Some(vec![2 * 9, 1, 16, 16]));
        // 4 groups of 8 filters and 8 channels: two of them fill a block.
        assert_eq!(of(&[32, 8, 1, 1], 4), Some(vec![2, 1, 16, 16]));
        // Groups that fill their blocks.
        assert_eq!(of(&[64, 16, 3, 3], 2), Some(vec![2 * 9, 2, 16, 16]));
        assert_eq!(of(&[64, 32, 3, 3], 1), Some(vec![2 * 9, 4, 16, 16]));
    }

    #[test]
    fn a_stored_tensor_keeps_its_logical_form() {
        let mut plain = Tensor::new("float32", [1, 3, 8, 8]);
        (plain.format, plain.ori_format) = ("NCHW".into(), Some("NCHW".into()));
        assert!(matches!(logical(&plain), Cow::Borrowed(_)));
        let storage = Storage { groups: 3, ..Storage::new("float16", "FRACTAL_Z") };
        let stored = storage.apply(&plain).unwrap();
        assert_eq!((stored.dtype.as_str(), Storage::of(&stored)), ("float16", storage));
        let back = logical(&stored);
        assert_eq!(Tensor { dtype: "float32".into(), ..back.into_owned() }, plain);
        // Another blocked format of the same tensor.
        let again = Storage::new("float16", "NC1HWC0").apply(&stored).unwrap();
        assert_eq!(
            (again.shape.as_slice(), again.ori_shape.as_deref()),
            (&[1, 1, 8, 8, 16][..], Some(&[1, 3, 8, 8][..]))
        );
        assert!(again.extra.is_empty());
        // A framework's tensor whose formats differ only in name has its logical storage.
        let mut line = Tensor::new("float32", [3]);
        (line.ori_format, line.ori_shape) = (Some("NCHW".into()), Some(vec![3]));
        assert!(matches!(logical(&line), Cow::Borrowed(_)));
        assert!(matches!(
            Storage::new("float32", "NC1HWC0").apply(&Tensor::new("float32", [2, 3])),
            Err(OpsError::Storage { .. })
        ));
    }
}
