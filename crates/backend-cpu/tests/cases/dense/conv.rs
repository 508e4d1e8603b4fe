//! Convolutions.

use opkeep_ops::{int_attr, ints_attr, str_attr};

use crate::dense::case::{Case, Random};

/// A convolution's description; pairs are vertical, horizontal.
#[derive(Clone, Debug)]
pub(crate) struct Conv {
    pub(crate) batch: i64,
    pub(crate) groups: i64,
    /// Of one group.
    pub(crate) channels: (i64, i64),
    pub(crate) image: (i64, i64),
    pub(crate) kernel: (i64, i64),
    pub(crate) stride: (i64, i64),
    pub(crate) dilation: (i64, i64),
    /// Top, bottom, left, right.
    pub(crate) pads: [i64; 4],
    pub(crate) bias: bool,
}

impl Conv {
    /// One group, one image, no padding.
    pub(crate) const fn new(channels: (i64, i64), image: (i64, i64), kernel: (i64, i64)) -> Self {
        let (stride, dilation) = ((1, 1), (1, 1));
        Self { batch: 1, groups: 1, channels, image, kernel, stride, dilation, pads: [0; 4], bias: false }
    }

    /// The size of the output.
    fn output(&self) -> (i64, i64) {
        let [top, bottom, left, right] = self.pads;
        let size = |image: i64, pads: i64, kernel: i64, stride: i64, dilation: i64| {
            let room = image + pads - (kernel - 1) * dilation - 1;
            if room < 0 { 0 } else { room / stride + 1 }
        };
        (
            size(self.image.0, top + bottom, self.kernel.0, self.stride.0, self.dilation.0),
            size(self.image.1, left + right, self.kernel.1, self.stride.1, self.dilation.1),
        )
    }

    /// The element at a place of a dense tensor.
    fn at(tensor: &[f32], shape: [i64; 4], place: [i64; 4]) -> f64 {
        let index = place.iter().zip(shape).fold(0, |index, (at, dim)| index * dim + at);
        f64::from(tensor[index as usize])
    }

    /// The sum over all taps, for every output element.
    fn reference(&self, inputs: &[Vec<f32>]) -> Vec<f64> {
        let (per_group, out_per_group) = self.channels;
        let x_shape = [self.batch, self.groups * per_group, self.image.0, self.image.1];
        let filter_shape = [self.groups * out_per_group, per_group, self.kernel.0, self.kernel.1];
        let (height, width) = self.output();
        let mut y = Vec::new();
        for image in 0..self.batch {
            for out in 0..self.groups * out_per_group {
                for (oy, ox) in (0..height).flat_map(|oy| (0..width).map(move |ox| (oy, ox))) {
                    let mut sum = if self.bias { f64::from(inputs[2][out as usize]) } else { 0.0 };
                    for channel in 0..per_group {
                        for ky in 0..self.kernel.0 {
                            let iy = oy * self.stride.0 + ky * self.dilation.0 - self.pads[0];
                            for kx in 0..self.kernel.1 {
                                let ix = ox * self.stride.1 + kx * self.dilation.1 - self.pads[2];
                                if (0..self.image.0).contains(&iy) && (0..self.image.1).contains(&ix) {
                                    let from = out / out_per_group * per_group + channel;
                                    sum += Self::at(&inputs[0], x_shape, [image, from, iy, ix])
                                        * Self::at(&inputs[1], filter_shape, [out, channel, ky, kx]);
                                }
                            }
                        }
                    }
                    y.push(sum);
                }
            }
        }
        y
    }

    pub(crate) fn case(self, name: impl Into<String>) -> Case {
        let (stride, dilation) = (self.stride, self.dilation);
        let attrs = vec![
            ints_attr("strides", &[1, 1, stride.0, stride.1]),
            ints_attr("pads", &self.pads),
            ints_attr("dilations", &[1, 1, dilation.0, dilation.1]),
            int_attr("groups", self.groups),
            str_attr("data_format", "NCHW"),
        ];
        let (per_group, out_per_group) = self.channels;
        let out = self.groups * out_per_group;
        let mut shapes = vec![
            vec![self.batch, self.groups * per_group, self.image.0, self.image.1],
            vec![out, per_group, self.kernel.0, self.kernel.1],
        ];
        if self.bias {
            shapes.push(vec![out]);
        }
        Case::new(name.into(), "Conv2D", &shapes, attrs, |inputs| self.reference(inputs))
    }
}

/// Convolutions of networks, smaller, and convolutions with unusual parameters.
fn chosen() -> Vec<(&'static str, Conv)> {
    let new = Conv::new;
    vec![
        ("3x3", Conv { pads: [1; 4], bias: true, ..new((37, 50), (19, 23), (3, 3)) }),
        ("1x1", Conv { batch: 2, bias: true, ..new((70, 41), (9, 15), (1, 1)) }),
        ("1x1_stride_2", Conv { stride: (2, 2), ..new((33, 27), (14, 13), (1, 1)) }),
        ("1x1_padded", Conv { pads: [1, 0, 2, 1], bias: true, ..new((5, 14), (6, 5), (1, 1)) }),
        ("7x7_stem", Conv { stride: (2, 2), pads: [3; 4], bias: true, ..new((3, 29), (45, 43), (7, 7)) }),
        ("11x11", Conv { stride: (4, 4), pads: [2; 4], ..new((3, 16), (47, 51), (11, 11)) }),
        ("5x5_asymmetric", Conv { pads: [2, 0, 1, 4], ..new((6, 13), (12, 17), (5, 5)) }),
        ("1x7", Conv { pads: [0, 0, 3, 3], bias: true, ..new((20, 21), (13, 17), (1, 7)) }),
        ("7x1", Conv { pads: [3, 3, 0, 0], ..new((20, 21), (17, 13), (7, 1)) }),
        ("all_of_the_image", Conv { batch: 3, bias: true, ..new((19, 30), (7, 7), (7, 7)) }),
        ("one_pixel", Conv { pads: [1; 4], ..new((260, 25), (1, 1), (3, 3)) }),
        ("deep", Conv { pads: [1; 4], ..new((130, 100), (7, 7), (3, 3)) }),
        (
            "huge_dilation",
            Conv { dilation: (40, 61), pads: [40, 40, 61, 61], ..new((4, 18), (11, 9), (3, 3)) },
        ),
        ("beyond_the_image", Conv { pads: [9, 8, 7, 9], bias: true, ..new((3, 17), (2, 3), (3, 2)) }),
        ("wide_stride", Conv { stride: (1 << 40, 9), ..new((4, 12), (12, 30), (2, 3)) }),
        ("few_of_many", Conv { pads: [1; 4], bias: true, ..new((40, 3), (21, 70), (3, 3)) }),
        ("few_of_many_1x1", Conv { bias: true, ..new((300, 2), (29, 41), (1, 1)) }),
        ("groups", Conv { batch: 2, groups: 4, pads: [1; 4], bias: true, ..new((5, 14), (10, 11), (3, 3)) }),
        ("groups_of_four", Conv { groups: 6, pads: [1; 4], stride: (2, 2), ..new((4, 4), (20, 19), (3, 3)) }),
        (
            "depthwise",
            Conv { groups: 21, batch: 2, pads: [1; 4], bias: true, ..new((1, 1), (23, 37), (3, 3)) },
        ),
        (
            "depthwise_stride",
            Conv { groups: 9, stride: (2, 2), pads: [0, 1, 0, 1], ..new((1, 1), (30, 34), (3, 3)) },
        ),
        ("depthwise_5x5", Conv { groups: 9, stride: (1, 3), pads: [2; 4], ..new((1, 1), (14, 40), (5, 5)) }),
        (
            "depthwise_multiplier",
            Conv { groups: 7, pads: [1; 4], bias: true, ..new((1, 3), (12, 18), (3, 3)) },
        ),
        (
            "depthwise_dilated",
            Conv { groups: 5, dilation: (2, 5), pads: [2, 2, 5, 5], ..new((1, 1), (16, 33), (3, 3)) },
        ),
        ("depthwise_wide", Conv { groups: 2, pads: [1; 4], ..new((1, 1), (5, 1301), (3, 3)) }),
        ("depthwise_tall", Conv { groups: 2, pads: [1; 4], bias: true, ..new((1, 1), (700, 40), (3, 3)) }),
        (
            "depthwise_far",
            Conv {
                groups: 3,
                dilation: (900, 700),
                pads: [900, 900, 700, 700],
                ..new((1, 1), (9, 8), (3, 3))
            },
        ),
        ("no_input_channels", Conv { bias: true, pads: [1; 4], ..new((0, 4), (3, 3), (3, 3)) }),
        ("no_image", Conv { bias: true, pads: [1, 2, 1, 1], ..new((3, 9), (0, 4), (2, 2)) }),
    ]
}

/// A random convolution with consistent parameters.
fn random(seed: u32) -> Conv {
    let mut random = Random::new(&format!("conv {seed}"));
    let mut number = |low, high| random.range(low, high);
    loop {
        let conv = Conv {
            batch: number(1, 2),
            groups: [1, 1, 2, 5][number(0, 3) as usize],
            channels: (number(1, 20), number(1, 30)),
            image: (number(1, 20), number(1, 30)),
            kernel: (number(1, 5), number(1, 5)),
            stride: (number(1, 3), number(1, 3)),
            dilation: (number(1, 3), number(1, 3)),
            pads: [number(0, 4), number(0, 4), number(0, 4), number(0, 4)],
            bias: number(0, 1) == 1,
        };
        if conv.output().0 > 0 && conv.output().1 > 0 {
            return conv;
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let chosen = chosen().into_iter().map(|(name, conv)| conv.case(format!("conv::{name}")));
    chosen.chain((0..24).map(|seed| random(seed).case(format!("conv::random_{seed}")))).collect()
}
