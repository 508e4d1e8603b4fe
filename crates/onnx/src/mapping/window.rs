//! Windows of convolutions and pools, with explicit padding for each of ONNX's ways to state it.

use opkeep_text::counted;

use crate::node::Node;

/// A window that slides over an image, with one value for each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    /// Padding before the first element.
    pub(super) before: Vec<i64>,
    /// Padding after the last.
    pub(super) after: Vec<i64>,
}

impl Window {
    /// The window of `kernel` taps of `node`, on an image of the sizes `image`.
    pub(super) fn of(node: &Node<'_>, image: &[i64], kernel: Vec<i64>) -> Result<Self, String> {
        let rank = image.len();
        let list = |name: &str, count: usize, default: i64, least: i64| {
            let values = node.ints(name)?.unwrap_or_else(|| vec![default; count]);
            match values.len() == count && values.iter().all(|value| *value >= least) {
                true => Ok(values),
                false => Err(format!(
                    "attribute `{name}` is {values:?}, expected {count} of {least} or more for an image of \
                     {image:?}",
                    count = counted(count, "value")
                )),
            }
        };
        if kernel.len() != rank || kernel.iter().any(|size| *size < 1) {
            return Err(format!("a window of {kernel:?} does not fit an image of {image:?}"));
        }
        let (strides, dilations) = (list("strides", rank, 1, 1)?, list("dilations", rank, 1, 1)?);
        let auto = node.text("auto_pad", "NOTSET")?;
        let (before, after) = match auto.as_str() {
            "NOTSET" | "" => {
                let pads = list("pads", 2 * rank, 0, 0)?;
                (pads[..rank].to_vec(), pads[rank..].to_vec())
            }
            "VALID" => (vec![0; rank], vec![0; rank]),
            "SAME_UPPER" | "SAME_LOWER" => {
                let lower = auto == "SAME_LOWER";
                let pads = |at: usize| same(image[at], kernel[at], strides[at], dilations[at], lower);
                let pads: Option<Vec<(i64, i64)>> = (0..rank).map(pads).collect();
                pads.ok_or_else(|| format!("a window of {kernel:?} is absurdly large"))?.into_iter().unzip()
            }
            other => {
                return Err(format!(
                    "attribute `auto_pad` is `{other}`, expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"
                ));
            }
        };
        Ok(Self { kernel, strides, dilations, before, after })
    }

    /// The pads in the IR's order: a pair for each axis.
    pub(super) fn pads(&self) -> Vec<i64> {
        self.before.iter().zip(&self.after).flat_map(|(before, after)| [*before, *after]).collect()
    }

    /// The same window on an image with `axes` additional leading axes of one element.
    pub(super) fn lifted(&self, axes: usize) -> Self {
        let lift = |values: &[i64], value: i64| [&vec![value; axes], values].concat();
        Self {
            kernel: lift(&self.kernel, 1),
            strides: lift(&self.strides, 1),
            dilations: lift(&self.dilations, 1),
            before: lift(&self.before, 0),
            after: lift(&self.after, 0),
        }
    }

    /// The number of elements from a window's first tap to its last on one axis; `None` if it overflows.
    pub(super) fn reach(&self, at: usize) -> Option<i64> {
        reach(self.kernel[at], self.dilations[at])
    }

    /// The number of windows on one axis of `size` elements. With `ceil`, a last window that is only partly on the
    /// padded image counts, unless it begins after the image.
    pub(super) fn count(&self, at: usize, size: i64, ceil: bool) -> Result<i64, String> {
        let room = || {
            let padded = size.checked_add(self.before[at])?.checked_add(self.after[at])?;
            padded.checked_sub(self.reach(at)?).filter(|room| *room >= 0)
        };
        let room = room().ok_or_else(|| {
            format!(
                "a window of {:?} (dilations {:?}, pads {:?}) does not fit axis {at} of the image, of {size}",
                self.kernel,
                self.dilations,
                self.pads(),
                size = counted(size, "element")
            )
        })?;
        let stride = self.strides[at];
        if !ceil {
            return Ok(room / stride + 1);
        }
        let last = room / stride + i64::from(room % stride != 0);
        let is_behind = last.saturating_mul(stride) >= size + self.before[at];
        Ok(if is_behind { last } else { last + 1 })
    }

    /// The padding after the last element that gives exactly `count` windows on one axis of `size` elements.
    pub(super) fn after_for(&self, at: usize, size: i64, count: i64) -> Option<i64> {
        let last = (count - 1).checked_mul(self.strides[at])?.checked_add(self.reach(at)?)?;
        Some((last - size - self.before[at]).max(0))
    }
}

fn reach(kernel: i64, dilation: i64) -> Option<i64> {
    (kernel - 1).checked_mul(dilation)?.checked_add(1)
}

/// The padding with which an axis of `size` elements has a window every `stride` elements; an odd element is added
/// before the first one if `lower`.
fn same(size: i64, kernel: i64, stride: i64, dilation: i64, lower: bool) -> Option<(i64, i64)> {
    let windows = size / stride + i64::from(size % stride != 0);
    let needed = (windows - 1).max(0).checked_mul(stride)?.checked_add(reach(kernel, dilation)?)?;
    let padding = (needed - size).max(0);
    let (less, more) = (padding / 2, padding - padding / 2);
    Some(if lower { (more, less) } else { (less, more) })
}
