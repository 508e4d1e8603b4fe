//! Pools.

use opkeep_descriptor::Attr;
use opkeep_ops::{TensorId, bool_attr, float_attr, int_attr, ints_attr, str_attr};
use opkeep_text::counted;

use super::conv::{lifted, lowered, spatial};
use super::reduce::over;
use super::window::Window;
use crate::fold::LIMIT;
use crate::node::{Mapped, Node};
use crate::value::{Value, product};

/// A pool's window on an image that is lifted to at least two axes.
struct Pool {
    window: Window,
    /// The image's axes.
    image: Vec<i64>,
    /// The numbers of windows.
    counts: Vec<i64>,
}

impl Pool {
    fn of(node: &Node<'_>, x: &Value) -> Result<Self, String> {
        let rank = spatial(x)?;
        let kernel = node.ints("kernel_shape")?.ok_or("attribute `kernel_shape` is not given")?;
        let mut window = Window::of(node, &x.shape[2..], kernel)?;
        for (apart, _) in window.dilations.iter_mut().zip(&window.kernel).filter(|(_, taps)| **taps == 1) {
            // The dilation of a single tap has no effect.
            *apart = 1;
        }
        let padded_whole = |at: usize| {
            let reach = (window.kernel[at] - 1).saturating_mul(window.dilations[at]);
            window.before[at].max(window.after[at]) > reach
        };
        if let Some(at) = (0..rank).find(|at| padded_whole(*at)) {
            return Err(format!(
                "pads {:?} are as wide as the window {:?} on axis {at}, so that it may see nothing but padding",
                window.pads(),
                window.kernel
            ));
        }
        let ceil = node.flag("ceil_mode", false)?;
        let counts =
            (0..rank).map(|at| window.count(at, x.shape[at + 2], ceil)).collect::<Result<Vec<_>, _>>()?;
        let flat = vec![1; 2usize.saturating_sub(rank)];
        Ok(Self {
            window: window.lifted(flat.len()),
            image: [&flat, &x.shape[2..]].concat(),
            counts: [flat, counts].concat(),
        })
    }

    /// The window with enough padding after the image for that number of windows, if the last one must lie completely
    /// on the padded image.
    fn reached(&self) -> Result<Window, String> {
        let after = |at: usize| match self.window.count(at, self.image[at], false) {
            Ok(count) if count == self.counts[at] => Some(self.window.after[at]),
            _ => self.window.after_for(at, self.image[at], self.counts[at]),
        };
        let after = (0..self.image.len()).map(after).collect::<Option<Vec<i64>>>();
        let after = after.ok_or_else(|| format!("a window of {:?} is absurdly large", self.window.kernel))?;
        Ok(Window { after, ..self.window.clone() })
    }
}

/// `1, 1` for batch and channels, then `values` for the other axes.
fn full(values: &[i64]) -> Vec<i64> {
    [&[1, 1], values].concat()
}

/// Attributes of a pool over two axes.
fn flat(window: &Window) -> Vec<Attr> {
    vec![
        ints_attr("ksize", &full(&window.kernel)),
        ints_attr("strides", &full(&window.strides)),
        str_attr("padding_mode", "CALCULATED"),
        ints_attr("pads", &window.pads()),
        str_attr("data_format", "NCHW"),
    ]
}

/// A pool over one axis is a pool of images of height 1. With dilations it is a pool of volumes of depth 1, since the
/// IR's pool of images has none.
pub(crate) fn max_pool(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    if node.is_used(1) {
        return Err("its second output, the places of the maxima, is used".to_owned());
    }
    let rank = spatial(&x)?;
    // Padding is never a maximum, so it may be as wide as windows reach.
    let window = Pool::of(node, &x)?.reached()?;
    let y = match (rank, window.dilations.iter().all(|dilation| *dilation == 1)) {
        (1 | 2, true) => {
            let image = lifted(node, &x, 2)?;
            node.emit("MaxPoolV3", &[image], flat(&window))?
        }
        (1..=3, _) => {
            let window = window.lifted(3 - window.kernel.len());
            let attrs = [
                ints_attr("ksize", &full(&window.kernel)),
                ints_attr("strides", &full(&window.strides)),
                str_attr("padding", "CALCULATED"),
                ints_attr("pads", &window.pads()),
                ints_attr("dilation", &full(&window.dilations)),
                str_attr("data_format", "NCDHW"),
            ];
            let volume = lifted(node, &x, 3)?;
            node.emit("MaxPool3D", &[volume], attrs)?
        }
        _ => return Err(format!("a pool over {rank}, expected one to three", rank = counted(rank, "axis"))),
    };
    Ok(vec![lowered(node, y, rank)?])
}

/// The elements of the image count, and with `count_include_pad` those of the requested padding. Elements beyond that
/// never count.
pub(crate) fn average_pool(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let rank = spatial(&x)?;
    if rank > 2 {
        return Err(format!("an average over {rank}, expected one or two", rank = counted(rank, "axis")));
    }
    let padding_counts = node.flag("count_include_pad", false)?;
    let pool = Pool::of(node, &x)?;
    let reached = pool.reached()?;
    let y = if reached.dilations.iter().any(|dilation| *dilation != 1) {
        spread_average(node, &x, &pool, &reached, padding_counts)?
    } else {
        let image = lifted(node, &x, 2)?;
        let beyond: Vec<i64> = reached
            .after
            .iter()
            .zip(&pool.window.after)
            .map(|(reached, asked)| (reached - asked).max(0))
            .collect();
        let all_counts = beyond.iter().all(|beyond| *beyond == 0);
        if padding_counts && !all_counts {
            let padded = padded(node, image, &pool.window)?;
            let rest = Window { before: vec![0; 2], after: beyond, ..reached };
            average(node, padded, &rest, true)?
        } else {
            average(node, image, &reached, !padding_counts)?
        }
    };
    Ok(vec![lowered(node, y, rank)?])
}

fn average(
    node: &mut Node<'_>,
    image: TensorId,
    window: &Window,
    exclusive: bool,
) -> Result<TensorId, String> {
    let attrs = [flat(window), vec![bool_attr("exclusive", exclusive)]].concat();
    node.emit("AvgPoolV2", &[image], attrs)
}

/// An image with its padding as explicit zeros.
fn padded(node: &mut Node<'_>, image: TensorId, window: &Window) -> Result<TensorId, String> {
    let pads = [&[0, 0], &window.before[..], &[0, 0], &window.after[..]].concat();
    let pads = node.parameter("int64", &pads);
    let attrs = [str_attr("mode", "constant"), bool_attr("paddings_contiguous", false)];
    node.add_step("padded", "PadV3", &[image, pads], attrs)
}

/// A dilated average, for which the IR has no pool: the sum, by a convolution with ones, divided by the number of taps
/// that count.
fn spread_average(
    node: &mut Node<'_>,
    x: &Value,
    pool: &Pool,
    reached: &Window,
    padding_counts: bool,
) -> Result<TensorId, String> {
    let dtype = node.dtype(x.id).to_owned();
    let planes = product(&x.shape[..2]);
    let planes = node.view(x, &[&[planes, 1], &pool.image[..]].concat())?;
    let ones = node.fill(&dtype, &full(&reached.kernel), 1.0)?;
    let attrs = [
        ints_attr("strides", &full(&reached.strides)),
        ints_attr("pads", &reached.pads()),
        ints_attr("dilations", &full(&reached.dilations)),
        int_attr("groups", 1),
        str_attr("data_format", "NCHW"),
    ];
    let sum = node.add_step("sum", "Conv2D", &[planes, ones.id], attrs)?;
    let sum = node.value(sum, [&x.shape[..2], &pool.counts].concat())?;
    let taps = |at: usize| taps(pool, at, padding_counts);
    let (rows, columns) = (taps(0)?, taps(1)?);
    let alike = |taps: &[i64]| taps.iter().all(|count| *count == taps[0]);
    if alike(&rows) && alike(&columns) {
        let share = 1.0 / (rows[0] as f32 * columns[0] as f32);
        return node.emit("Muls", &[sum.id], [float_attr("value", share)]);
    }
    let rows = node.int_constant(&dtype, &[rows.len() as i64, 1], rows)?;
    let by_rows = node.add_step("rows", "RealDiv", &[sum.id, rows.id], [])?;
    let columns = node.int_constant(&dtype, &[columns.len() as i64], columns)?;
    node.emit("RealDiv", &[by_rows, columns.id], [])
}

/// The number of taps that count in each window on one axis.
fn taps(pool: &Pool, at: usize, padding_counts: bool) -> Result<Vec<i64>, String> {
    let (window, count) = (&pool.window, pool.counts[at]);
    let work = count.saturating_mul(window.kernel[at]);
    if count < 1 || work.unsigned_abs() > LIMIT {
        return Err(format!(
            "an average of spread taps with {count} windows on an axis, which is not supported"
        ));
    }
    let (least, most) = match padding_counts {
        true => (-window.before[at], pool.image[at] + window.after[at]),
        false => (0, pool.image[at]),
    };
    let counted = |start: i64| {
        (0..window.kernel[at])
            .filter(|tap| (least..most).contains(&(start + tap * window.dilations[at])))
            .count()
    };
    Ok((0..count).map(|place| counted(place * window.strides[at] - window.before[at]) as i64).collect())
}

/// A reduction over all axes except batch and channels: the IR's own global pools have no kernels.
pub(crate) fn global(node: &mut Node<'_>, op_type: &str) -> Mapped {
    let x = node.input(0)?;
    let axes: Vec<usize> = (2..spatial(&x)? + 2).collect();
    let y = over(node, op_type, None, &x, &axes, true)?;
    Ok(vec![y])
}
