//! Windows that slide over an image: convolutions and poolings.

use opkeep_text::counted;

use crate::{Call, OpsError};

/// One spatial dimension of a sliding window, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Size of the input.
    pub input: u64,
    /// Size of the output.
    pub output: u64,
    /// Taps of the kernel.
    pub kernel: u64,
    /// Distance between windows.
    pub stride: u64,
    /// Distance between taps.
    pub dilation: u64,
    /// Padding before the first element.
    pub before: u64,
    /// Padding after the last.
    pub after: u64,
}

/// The position of windows at an image's edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The given padding; with `ceil`, a last window that is only partly on the image counts.
    Padded { before: u64, after: u64, ceil: bool },
    /// As much padding as gives `ceil(input / stride)` windows, with an odd element after the image.
    Same,
}

impl Window {
    /// A window on an image of `input` elements; `None` if the kernel does not fit.
    pub(crate) fn new(input: u64, kernel: u64, stride: u64, dilation: u64, edge: Edge) -> Option<Self> {
        if kernel == 0 || stride == 0 || dilation == 0 {
            return None;
        }
        let reach = (kernel - 1).checked_mul(dilation)?.checked_add(1)?;
        let (output, before, after) = match edge {
            Edge::Same => {
                let output = input.div_ceil(stride);
                let needed = output.saturating_sub(1).checked_mul(stride)?.checked_add(reach)?;
                let padding = needed.saturating_sub(input);
                (output, padding / 2, padding - padding / 2)
            }
            Edge::Padded { before, after, ceil } => {
                let room = input.checked_add(before)?.checked_add(after)?.checked_sub(reach)?;
                let mut output = if ceil { room.div_ceil(stride) } else { room / stride } + 1;
                // A window that begins in the padding after the image would contain none of its elements.
                if ceil && (output - 1).checked_mul(stride)? >= input + before {
                    output -= 1;
                }
                (output, before, after)
            }
        };
        Some(Self { input, output, kernel, stride, dilation, before, after })
    }
}

/// Pads, kernel sizes, strides and dilations in the order of the IR, for the last `rank` dimensions of a tensor whose
/// first two are batch and channels.
pub(crate) struct Geometry<'c> {
    pub(crate) call: &'c Call<'c>,
    pub(crate) rank: usize,
    pub(crate) strides: Vec<i64>,
    pub(crate) dilations: Vec<i64>,
    /// A pair for each dimension: before and after.
    pub(crate) pads: Vec<i64>,
    pub(crate) ceil: bool,
    pub(crate) same: bool,
}

impl Geometry<'_> {
    /// The windows of a kernel with the sizes `kernel` on an image with the sizes `image`.
    pub(crate) fn windows(&self, image: &[i64], kernel: &[i64]) -> Result<Vec<Window>, OpsError> {
        let Self { call, rank, strides, dilations, pads, .. } = self;
        for (name, values, expected) in
            [("strides", strides, rank + 2), ("dilations", dilations, rank + 2), ("pads", pads, rank * 2)]
        {
            if values.len() != expected {
                return Err(call.misfit(format!(
                    "`{name}` must have {expected}, found {values:?}",
                    expected = counted(expected, "value")
                )));
            }
        }
        let outer = |values: &[i64]| values[0] == 1 && values[1] == 1;
        if !outer(strides) || !outer(dilations) {
            let problem =
                format!("strides {strides:?} and dilations {dilations:?} must begin with 1, 1 (NCHW)");
            return Err(call.misfit(problem));
        }
        let window = |axis: usize| {
            let size = |value: i64| u64::try_from(value).ok();
            let edge = match self.same {
                true => Edge::Same,
                false => Edge::Padded {
                    before: size(pads[2 * axis])?,
                    after: size(pads[2 * axis + 1])?,
                    ceil: self.ceil,
                },
            };
            let (stride, dilation) = (size(strides[axis + 2])?, size(dilations[axis + 2])?);
            Window::new(size(image[axis])?, size(kernel[axis])?, stride, dilation, edge)
        };
        (0..*rank)
            .map(|axis| {
                window(axis).ok_or_else(|| {
                    call.misfit(format!(
                        "a kernel of {kernel:?}, strides {strides:?}, dilations {dilations:?}, pads {pads:?} does not \
                         fit an image of {image:?}"
                    ))
                })
            })
            .collect()
    }
}

/// A `Conv2D` for code generators. Tensors are NCHW, the filter is OIHW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Images in the batch.
    pub batch: u64,
    /// Groups of channels, each computed separately.
    pub groups: u64,
    /// Input channels of one group.
    pub in_channels: u64,
    /// Output channels of one group.
    pub out_channels: u64,
    /// Vertical.
    pub y: Window,
    /// Horizontal.
    pub x: Window,
    /// Whether there is a bias, one value for each output channel.
    pub bias: bool,
}

impl Conv2d {
    /// The convolution that `call` describes.
    ///
    /// # Errors
    /// Shapes or attributes that contradict each other.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let (x, filter) = (call.tensor(0)?, call.tensor(1)?);
        let (&[batch, channels, height, width], &[out, per_group, rows, columns]) =
            (x.shape.as_slice(), filter.shape.as_slice())
        else {
            let problem =
                format!("input {:?} and filter {:?} must have four dimensions", x.shape, filter.shape);
            return Err(call.misfit(problem));
        };
        nchw(call)?;
        if call.optional(3).is_some() || call.int("offset_x")? != 0 {
            return Err(call.misfit("offsets are for quantised types"));
        }
        let groups = call.int("groups")?;
        if groups < 1 || per_group.checked_mul(groups) != Some(channels) || out % groups != 0 {
            let problem = format!(
                "a filter {:?} in {groups} does not fit {channels} input and {out} output channels",
                filter.shape,
                groups = counted(groups, "group")
            );
            return Err(call.misfit(problem));
        }
        let bias = call.optional(2);
        if let Some(bias) = bias
            && (bias.shape.as_slice() != [out] || bias.dtype != x.dtype)
        {
            let problem = format!(
                "bias {} {:?} is not one {} an output channel ({out})",
                bias.dtype, bias.shape, x.dtype
            );
            return Err(call.misfit(problem));
        }
        let geometry = Geometry {
            call,
            rank: 2,
            strides: call.ints("strides")?,
            dilations: call.ints("dilations")?,
            pads: call.ints("pads")?,
            ceil: false,
            same: false,
        };
        let windows = geometry.windows(&[height, width], &[rows, columns])?;
        Ok(Self {
            batch: batch.unsigned_abs(),
            groups: groups.unsigned_abs(),
            in_channels: per_group.unsigned_abs(),
            out_channels: (out / groups).unsigned_abs(),
            y: windows[0],
            x: windows[1],
            bias: bias.is_some(),
        })
    }

    /// The output's shape.
    pub fn output(&self) -> Vec<i64> {
        let dims = [self.batch, self.groups * self.out_channels, self.y.output, self.x.output];
        dims.map(u64::cast_signed).to_vec()
    }
}

/// The value that a pooling computes from a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Its greatest element.
    Max,
    /// Its mean; elements of the padding count as zeros if `padding`, and do not count if not.
    Average {
        /// Whether padding counts.
        padding: bool,
        /// The divisor of sums, if it is not the number of elements.
        divisor: Option<u64>,
    },
}

/// A pooling for code generators. Tensors are NCHW or NCDHW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The value computed from a window.
    pub kind: PoolKind,
    /// Images in the batch.
    pub batch: u64,
    /// Channels, each pooled separately.
    pub channels: u64,
    /// The spatial dimensions: two, or three.
    pub windows: Vec<Window>,
}

impl Pool {
    /// The pooling that `call` describes.
    ///
    /// # Errors
    /// Shapes or attributes that contradict each other.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let flat = call.spec().op_type != "MaxPool3D";
        let rank = if flat { 2 } else { 3 };
        let shape = &call.tensor(0)?.shape;
        if shape.len() != rank + 2 {
            return Err(call.misfit(format!("input {shape:?} must have {}", counted(rank + 2, "dimension"))));
        }
        nchw(call)?;
        let ksize = call.ints("ksize")?;
        if ksize.len() != rank + 2 || ksize[..2] != [1, 1] {
            return Err(call.misfit(format!("`ksize` must be 1, 1 and {rank} sizes (NCHW), found {ksize:?}")));
        }
        let padding = call.text(if flat { "padding_mode" } else { "padding" })?;
        let pads = match padding.as_str() {
            "CALCULATED" => call.ints("pads")?,
            "SAME" | "VALID" => vec![0; rank * 2],
            other => {
                let attr = if flat { "padding_mode" } else { "padding" };
                return Err(call.attr_value(attr, "CALCULATED, SAME or VALID", other));
            }
        };
        let global = flat && call.boolean("global_pooling")?;
        let geometry = Geometry {
            call,
            rank,
            strides: call.ints("strides")?,
            dilations: if flat { vec![1; 4] } else { call.ints("dilation")? },
            pads: if global { vec![0; rank * 2] } else { pads },
            ceil: if flat { call.boolean("ceil_mode")? } else { call.int("ceil_mode")? != 0 },
            same: padding == "SAME" && !global,
        };
        let kernel = if global { &shape[2..] } else { &ksize[2..] };
        let windows = geometry.windows(&shape[2..], kernel)?;
        let kind = match call.spec().op_type {
            "AvgPoolV2" => PoolKind::Average {
                padding: !call.boolean("exclusive")?,
                divisor: match call.int("divisor_override")? {
                    0 => None,
                    divisor => Some(
                        u64::try_from(divisor)
                            .map_err(|_| call.attr_value("divisor_override", "0 or more", divisor))?,
                    ),
                },
            },
            _ => PoolKind::Max,
        };
        Ok(Self { kind, batch: shape[0].unsigned_abs(), channels: shape[1].unsigned_abs(), windows })
    }

    /// The output's shape.
    pub fn output(&self) -> Vec<i64> {
        let spatial = self.windows.iter().map(|window| window.output);
        [self.batch, self.channels].into_iter().chain(spatial).map(u64::cast_signed).collect()
    }
}

/// Refuses tensors whose channels are not the second dimension.
fn nchw(call: &Call<'_>) -> Result<(), OpsError> {
    let format = call.text("data_format")?;
    match format.as_str() {
        "NCHW" | "NCDHW" => Ok(()),
        _ => Err(call.attr_value("data_format", "NCHW or NCDHW", format)),
    }
}
