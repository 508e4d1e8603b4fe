//! Convolutions.
//!
//! Most are matrix products: the filter by what its taps see, which is laid out panel by panel and never as a whole.
//! Where a group has few output channels, depthwise ones above all, that would be more work than the product itself;
//! those add up one tap after the other along lines of the image.

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Conv2d, Window};

use crate::codegen::code::{Args, Code, invalid};
use crate::codegen::gemm::{ENOUGH_UNITS, Parts, Product};
use crate::codegen::tiling::{EACH_UNIT, LEAST, RANGE, VECTORS, WorkSplit, check, defines, plain, pointers};

/// A group of more output channels than this is a matrix product.
const FEW_CHANNELS: u64 = 12;
/// Floats of an image's lines that a block of a direct convolution holds at a time.
const STRIP: u64 = 8 * 1024;
/// Columns of the output that a block of a direct convolution computes at most.
const STRIP_COLUMNS: u64 = 512;
/// `TILE_COLUMNS` of `vectors.c`: what a strip may be read beyond its last column.
const TILE_COLUMNS: u64 = 16;
/// The C that reads lines of an image.
const IMAGE: &str = include_str!("c/image.c");

/// The code of a `Conv2D`.
pub(crate) fn conv2d(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let mut conv = Conv2d::of(call).map_err(invalid)?;
    check(call, &conv.output())?;
    (conv.y, conv.x) = (plain(call, &conv.y)?, plain(call, &conv.x)?);
    let pointers = pointers(&[("x", args.at(0)), ("filter", args.at(1)), ("bias", args.at(2))]);
    Ok(match Strip::of(&conv) {
        Some(strip) => direct(&conv, &strip, pointers),
        None => product(&conv, pointers),
    })
}

/// The constants of a convolution's geometry.
fn geometry(conv: &Conv2d) -> String {
    let Conv2d { groups, in_channels, out_channels, y, x, .. } = conv;
    defines(&[
        ("GROUPS", *groups),
        ("IN_CHANNELS", *in_channels),
        ("OUT_CHANNELS", *out_channels),
        ("IN_Y", y.input),
        ("IN_X", x.input),
        ("OUT_Y", y.output),
        ("OUT_X", x.output),
        ("KERNEL_Y", y.kernel),
        ("KERNEL_X", x.kernel),
        ("TAPS", y.kernel * x.kernel),
        ("STRIDE_Y", y.stride),
        ("STRIDE_X", x.stride),
        ("DILATION_Y", y.dilation),
        ("DILATION_X", x.dilation),
        ("PAD_TOP", y.before),
        ("PAD_LEFT", x.before),
    ])
}

/// For each image and group, the product of its filters and what their taps see.
fn product(conv: &Conv2d, pointers: String) -> Code {
    let product = Product {
        instances: conv.batch * conv.groups,
        rows: conv.out_channels,
        depth: conv.in_channels * conv.y.kernel * conv.x.kernel,
        columns: conv.y.output * conv.x.output,
        transposed: false,
    };
    let (image, pack) = match is_whole(&conv.y) && is_whole(&conv.x) {
        true => (String::new(), include_str!("c/pack_rows.c")),
        false => (format!("{RANGE}\n{IMAGE}\n"), include_str!("c/pack_taps.c")),
    };
    product.code(Parts {
        before: geometry(conv),
        pack: &format!("{image}{pack}"),
        pointers,
        first: "filter + instance % GROUPS * ROWS * DEPTH".to_owned(),
        second: "x + instance * IN_CHANNELS * IN_Y * IN_X".to_owned(),
        start: if conv.bias { "bias[instance % GROUPS * ROWS + row + r]" } else { "0" }.to_owned(),
    })
}

/// Whether the output has one element for each of the input's: then the input is a matrix as it is.
fn is_whole(window: &Window) -> bool {
    window.kernel == 1 && window.stride == 1 && window.before == 0 && window.output == window.input
}

/// The part of a plane that a unit of a direct convolution works on.
struct Strip {
    /// Output lines and columns.
    lines: u64,
    columns: u64,
    /// Columns of the image that are the stride apart, side by side.
    phase: u64,
    /// Lines of the image.
    height: u64,
}

impl Strip {
    /// Strips for `conv`, if it is to be computed directly.
    fn of(conv: &Conv2d) -> Option<Self> {
        let (y, x) = (&conv.y, &conv.x);
        if conv.out_channels > FEW_CHANNELS || conv.in_channels == 0 || y.kernel * x.kernel == 1 {
            return None;
        }
        let columns = x.output.min(STRIP_COLUMNS);
        let reach = (x.kernel - 1) * x.dilation / x.stride;
        let phase = columns.next_multiple_of(TILE_COLUMNS) + reach + 1;
        let room = STRIP.checked_div(phase.checked_mul(x.stride)?)?;
        // As many output lines as the strip holds all lines of the image for; fewer, where there would be few strips.
        let spare = room.checked_sub((y.kernel - 1) * y.dilation + 1)?;
        let wanted = ENOUGH_UNITS.div_ceil(conv.batch * conv.groups * x.output.div_ceil(columns));
        let lines = (spare / y.stride + 1).min(y.output.div_ceil(wanted));
        Some(Self { lines, columns, phase, height: (lines - 1) * y.stride + (y.kernel - 1) * y.dilation + 1 })
    }
}

/// For each output line, one tap after the other.
fn direct(conv: &Conv2d, strip: &Strip, pointers: String) -> Code {
    let (line_parts, column_parts) =
        (conv.y.output.div_ceil(strip.lines), conv.x.output.div_ceil(strip.columns));
    let channels = conv.in_channels * conv.out_channels;
    let steps = channels * conv.y.kernel * conv.x.kernel * strip.lines * strip.columns;
    let share = WorkSplit::new(conv.batch * conv.groups * line_parts * column_parts, steps);
    let constants = defines(&[
        ("STRIP_LINES", strip.lines),
        ("STRIP_COLUMNS", strip.columns),
        ("LINE_PARTS", line_parts),
        ("COLUMN_PARTS", column_parts),
        ("PHASE", strip.phase),
        ("PITCH", strip.phase * conv.x.stride),
        ("STRIP_HEIGHT", strip.height),
    ]);
    let (geometry, share_constants) = (geometry(conv), defines(&share.constants()));
    let span = include_str!("c/direct.c");
    let before =
        format!("{geometry}{constants}{share_constants}\n{LEAST}\n{VECTORS}\n{RANGE}\n{IMAGE}\n{span}\n");
    let start = if conv.bias { "bias[channel]" } else { "0" };
    let body = format!(
        "{pointers}    float strip[STRIP_HEIGHT * PITCH] __attribute__((aligned(64)));
{EACH_UNIT}        const long column = unit % COLUMN_PARTS * STRIP_COLUMNS;
        const long columns = least(STRIP_COLUMNS, OUT_X - column);
        const long line = unit / COLUMN_PARTS % LINE_PARTS * STRIP_LINES;
        const long lines = least(STRIP_LINES, OUT_Y - line);
        const long instance = unit / (COLUMN_PARTS * LINE_PARTS);
        for (long in = 0; in < IN_CHANNELS; in++) {{
            lay_strip(x + (instance * IN_CHANNELS + in) * IN_Y * IN_X, line, column, lines, strip);
            for (long out = 0; out < OUT_CHANNELS; out++) {{
                const long channel = instance % GROUPS * OUT_CHANNELS + out;
                const float *taps = filter + (channel * IN_CHANNELS + in) * TAPS;
                const float start = {start};
                float *plane = y + (instance * OUT_CHANNELS + out) * OUT_Y * OUT_X;
                for (long l = 0; l < lines; l++)
                    add_taps(strip + l * STRIDE_Y * PITCH, taps, plane + (line + l) * OUT_X + column, columns,
                             in == 0 ? &start : 0);
            }}
        }}
    }}
"
    );
    Code { before, body, blocks: share.blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(input: u64, kernel: u64, stride: u64, dilation: u64) -> Option<Window> {
        let output = input.checked_sub((kernel - 1) * dilation + 1)? / stride + 1;
        Some(Window { input, output, kernel, stride, dilation, before: 0, after: 0 })
    }

    /// Whatever a convolution is like, strips stay on the stack and cover the output.
    #[test]
    fn strips_fit_the_stack() {
        let sizes = [1, 2, 3, 7, 16, 100, 1000, 8192, 1 << 20, 1 << 40];
        let mut seen = 0;
        let windows = || sizes.into_iter().flat_map(|input| sizes.map(|kernel| (input, kernel)));
        for (stride, dilation) in
            sizes.into_iter().flat_map(|stride| sizes.map(|dilation| (stride, dilation)))
        {
            for (input, kernel) in windows().filter(|(_, kernel)| *kernel <= 1000) {
                let Some(window) = window(input, kernel, stride, dilation) else { continue };
                for (y, x) in [(window, window), (window, FLAT), (FLAT, window)] {
                    let conv =
                        Conv2d { batch: 1, groups: 3, in_channels: 2, out_channels: 1, y, x, bias: false };
                    let Some(strip) = Strip::of(&conv) else { continue };
                    assert!(strip.height * strip.phase * x.stride <= STRIP, "{conv:?}");
                    assert!(strip.lines >= 1 && strip.lines <= y.output, "{conv:?}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{seen}");
    }

    const FLAT: Window =
        Window { input: 5, output: 4, kernel: 2, stride: 1, dilation: 1, before: 0, after: 0 };

    #[test]
    fn strips_and_vectors_agree_on_the_width_of_a_tile() {
        assert!(VECTORS.contains(&format!("#define TILE_COLUMNS {TILE_COLUMNS}\n")));
    }
}
