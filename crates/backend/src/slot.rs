//! The buffer that a kernel takes for a tensor.

use opkeep_descriptor::Tensor;
use opkeep_ops::dtype_bytes;

use crate::error::{BackendError, Unsupported};

/// The place of a tensor among a kernel's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The length of a buffer for it.
    pub bytes: usize,
    /// The number that its address is a multiple of: the size of an element.
    pub align: usize,
}

impl Slot {
    /// The place of `tensor` in a kernel of `backend`.
    ///
    /// # Errors
    /// An element type without a size, or a shape that is not known, or of more bytes than there can be.
    pub fn of(tensor: &Tensor, backend: &'static str) -> Result<Self, BackendError> {
        let align = dtype_bytes(&tensor.dtype).ok_or_else(|| Unsupported::Dtype {
            backend,
            op_type: "launch".to_owned(),
            dtype: tensor.dtype.clone(),
            known: "the element types of the IR",
        })?;
        let bytes =
            tensor.shape.iter().try_fold(align, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?));
        let bytes = bytes.ok_or_else(|| Unsupported::DynamicShape {
            backend,
            op_type: "launch".to_owned(),
            shape: tensor.shape.clone(),
        })?;
        Ok(Self { bytes, align })
    }

    /// Checks that `inputs` and `outputs` are buffers for `kernel`: their number, lengths and alignment.
    ///
    /// # Errors
    /// [`BackendError::Launch`], for the first that does not fit.
    pub fn check(
        kernel: &str,
        (slots, inputs): (&[Self], &[&[u8]]),
        (output_slots, outputs): (&[Self], &[&mut [u8]]),
    ) -> Result<(), BackendError> {
        Self::check_each(slots, inputs.iter().copied(), kernel, "input")?;
        Self::check_each(output_slots, outputs.iter().map(|output| &**output), kernel, "output")
    }

    fn check_each<'a>(
        slots: &[Self],
        found: impl ExactSizeIterator<Item = &'a [u8]>,
        kernel: &str,
        what: &str,
    ) -> Result<(), BackendError> {
        let refuse = |what: String, expected: String, found: String| {
            Err(BackendError::Launch { kernel: kernel.to_owned(), what, expected, found })
        };
        if found.len() != slots.len() {
            return refuse(format!("number of {what}s"), slots.len().to_string(), found.len().to_string());
        }
        for (at, (slot, found)) in slots.iter().zip(found).enumerate() {
            if found.len() != slot.bytes {
                return refuse(
                    format!("bytes of {what} {at}"),
                    slot.bytes.to_string(),
                    found.len().to_string(),
                );
            }
            if !found.as_ptr().addr().is_multiple_of(slot.align) {
                let (expected, found) = (slot.align.to_string(), format!("address {:p}", found.as_ptr()));
                return refuse(format!("alignment of {what} {at}"), expected, found);
            }
        }
        Ok(())
    }
}
