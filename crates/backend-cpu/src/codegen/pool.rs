//! Poolings.
//!
//! Lines of the output are computed one at a time, a tap of all their elements at a time, along the line: that is what
//! compilers make vectors of. Images of two dimensions are of three, one deep.

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Pool, PoolKind, Window};

use crate::codegen::code::{Args, Code, invalid, refused};
use crate::codegen::tiling::{EACH_UNIT, LEAST, RANGE, WorkSplit, check, defines, plain, pointers};

/// A dimension that is not there.
const FLAT: Window = Window { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0 };

/// The code of a `MaxPoolV3`, `MaxPool3D` or `AvgPoolV2`.
pub(crate) fn pool(call: &Call<'_>, args: &Args) -> Result<Code, BackendError> {
    let pool = Pool::of(call).map_err(invalid)?;
    check(call, &pool.output())?;
    let windows = pool.windows.iter().map(|window| plain(call, window)).collect::<Result<Vec<_>, _>>()?;
    let dims @ [z, y, x] = match windows.as_slice() {
        [y, x] => [FLAT, *y, *x],
        [z, y, x] => [*z, *y, *x],
        _ => return Err(refused(call, format!("{} spatial dimensions are not known", windows.len()))),
    };
    let taps = dims.iter().fold(x.output, |taps, window| taps.saturating_mul(window.kernel));
    let share = WorkSplit::new(pool.batch * pool.channels * z.output * y.output, taps);
    let (dims, units) = (geometry(&dims), defines(&share.constants()));
    let (kind, line) = (kind(pool.kind), include_str!("c/pool.c"));
    let before = format!("{dims}{units}\n{LEAST}\n{RANGE}\n{kind}\n{line}\n");
    let body = format!(
        "{}{EACH_UNIT}        const float *plane = x + unit / (OUT_Z * OUT_Y) * (IN_Z * IN_Y * IN_X);
        pool_line(plane, unit / OUT_Y % OUT_Z, unit % OUT_Y, y + unit * OUT_X);
    }}
",
        pointers(&[("x", args.at(0))])
    );
    Ok(Code { before, body, blocks: share.blocks })
}

/// The constants of a pooling's geometry.
fn geometry([z, y, x]: &[Window; 3]) -> String {
    defines(&[
        ("IN_Z", z.input),
        ("IN_Y", y.input),
        ("IN_X", x.input),
        ("OUT_Z", z.output),
        ("OUT_Y", y.output),
        ("OUT_X", x.output),
        ("KERNEL_Z", z.kernel),
        ("KERNEL_Y", y.kernel),
        ("KERNEL_X", x.kernel),
        ("STRIDE_Z", z.stride),
        ("STRIDE_Y", y.stride),
        ("STRIDE_X", x.stride),
        ("DILATION_Z", z.dilation),
        ("DILATION_Y", y.dilation),
        ("DILATION_X", x.dilation),
        ("PAD_FRONT", z.before),
        ("PAD_TOP", y.before),
        ("PAD_LEFT", x.before),
        ("PAD_BACK", z.after),
        ("PAD_BOTTOM", y.after),
        ("PAD_RIGHT", x.after),
    ])
}

/// The C of a window: its initial value, the update for each element, and the last step.
fn kind(kind: PoolKind) -> String {
    let (padding, divisor) = match kind {
        PoolKind::Max => return include_str!("c/pool_max.c").to_owned(),
        PoolKind::Average { padding, divisor } => (padding, divisor),
    };
    // Padding counts as far as it was asked for; what `ceil_mode` adds beyond it does not.
    let constants = match divisor {
        Some(divisor) => defines(&[("DIVISOR", divisor)]),
        None => defines(&[("PADDING_COUNTS", padding.into())]),
    };
    format!("{constants}\n{}", include_str!("c/pool_average.c"))
}
