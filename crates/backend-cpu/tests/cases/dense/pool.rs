//! Poolings.

use opkeep_descriptor::Attr;
use opkeep_ops::{bool_attr, int_attr, ints_attr, str_attr};

use crate::dense::case::{Case, Random};

/// The function of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Max,
    /// Whether padding counts, and the divisor if it is not 0.
    Average(bool, i64),
}

/// One dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    pub(crate) size: i64,
    pub(crate) kernel: i64,
    pub(crate) stride: i64,
    pub(crate) dilation: i64,
    pub(crate) pads: (i64, i64),
}

impl Dim {
    pub(crate) const fn new(size: i64, kernel: i64, stride: i64, pads: (i64, i64)) -> Self {
        Self { size, kernel, stride, dilation: 1, pads }
    }

    fn output(&self, ceil: bool) -> i64 {
        let room = self.size + self.pads.0 + self.pads.1 - (self.kernel - 1) * self.dilation - 1;
        if room < 0 {
            return 0;
        }
        let windows = if ceil { (room + self.stride - 1) / self.stride } else { room / self.stride } + 1;
        // A window that begins behind the image and its first padding does not count.
        let behind = (windows - 1) * self.stride >= self.size + self.pads.0;
        if ceil && behind { windows - 1 } else { windows }
    }

    /// Positions of a window's elements.
    fn window(&self, at: i64) -> impl Iterator<Item = i64> + use<> {
        let Self { kernel, stride, dilation, pads, .. } = *self;
        (0..kernel).map(move |tap| at * stride - pads.0 + tap * dilation)
    }
}

/// A pooling's description; two dimensions or three.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) kind: Kind,
    pub(crate) planes: (i64, i64),
    pub(crate) dims: Vec<Dim>,
    pub(crate) ceil: bool,
}

impl Pool {
    fn shape(&self) -> Vec<i64> {
        [self.planes.0, self.planes.1].into_iter().chain(self.dims.iter().map(|dim| dim.size)).collect()
    }

    pub(crate) fn attrs(&self) -> Vec<Attr> {
        let outer =
            |of: fn(&Dim) -> i64| [1, 1].into_iter().chain(self.dims.iter().map(of)).collect::<Vec<_>>();
        let pads: Vec<i64> = self.dims.iter().flat_map(|dim| [dim.pads.0, dim.pads.1]).collect();
        let mut attrs = vec![
            ints_attr("ksize", &outer(|dim| dim.kernel)),
            ints_attr("strides", &outer(|dim| dim.stride)),
            ints_attr("pads", &pads),
        ];
        if self.dims.len() == 3 {
            attrs.extend([
                str_attr("padding", "CALCULATED"),
                ints_attr("dilation", &outer(|dim| dim.dilation)),
                int_attr("ceil_mode", self.ceil.into()),
                str_attr("data_format", "NCDHW"),
            ]);
        } else {
            attrs.push(bool_attr("ceil_mode", self.ceil));
        }
        if let Kind::Average(padding, divisor) = self.kind {
            attrs.extend([bool_attr("exclusive", !padding), int_attr("divisor_override", divisor)]);
        }
        attrs
    }

    fn op_type(&self) -> &'static str {
        match (self.kind, self.dims.len()) {
            (Kind::Average(..), _) => "AvgPoolV2",
            (Kind::Max, 2) => "MaxPoolV3",
            (Kind::Max, _) => "MaxPool3D",
        }
    }

    fn reference(&self, x: &[f32]) -> Vec<f64> {
        // Two dimensions are computed as three, with depth 1.
        let mut dims = vec![Dim::new(1, 1, 1, (0, 0)); 3 - self.dims.len()];
        dims.extend(&self.dims);
        let [deep, high, wide] = [dims[0], dims[1], dims[2]];
        let mut y = Vec::new();
        for plane in x.chunks((deep.size * high.size * wide.size) as usize) {
            for oz in 0..deep.output(self.ceil) {
                for oy in 0..high.output(self.ceil) {
                    for ox in 0..wide.output(self.ceil) {
                        let places = deep.window(oz).flat_map(|z| {
                            high.window(oy).flat_map(move |y| wide.window(ox).map(move |x| [z, y, x]))
                        });
                        y.push(self.value(plane, [deep, high, wide], places));
                    }
                }
            }
        }
        y
    }

    /// The value of the window of these places.
    fn value(&self, plane: &[f32], dims: [Dim; 3], places: impl Iterator<Item = [i64; 3]>) -> f64 {
        let (mut elements, mut padding) = (Vec::new(), 0);
        for place in places {
            let inside = |(at, dim): (&i64, Dim)| (0..dim.size).contains(at);
            // Only the stated padding.
            let padded = |(at, dim): (&i64, Dim)| (-dim.pads.0..dim.size + dim.pads.1).contains(at);
            if place.iter().zip(dims).all(inside) {
                let index = (place[0] * dims[1].size + place[1]) * dims[2].size + place[2];
                elements.push(f64::from(plane[index as usize]));
            } else if place.iter().zip(dims).all(padded) {
                padding += 1;
            }
        }
        let sum: f64 = elements.iter().sum();
        match self.kind {
            Kind::Max if elements.iter().any(|element| element.is_nan()) => f64::NAN,
            Kind::Max => elements.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Kind::Average(false, 0) => sum / elements.len() as f64,
            Kind::Average(true, 0) => sum / (elements.len() + padding) as f64,
            Kind::Average(_, divisor) => sum / divisor as f64,
        }
    }

    pub(crate) fn case(self, name: impl Into<String>) -> Case {
        Case::new(name.into(), self.op_type(), &[self.shape()], self.attrs(), |inputs| {
            self.reference(&inputs[0])
        })
    }
}

fn flat(kind: Kind, dims: [Dim; 2], ceil: bool) -> Pool {
    Pool { kind, planes: (2, 5), dims: dims.to_vec(), ceil }
}

fn chosen() -> Vec<(&'static str, Pool)> {
    let new = Dim::new;
    let resnet = [new(57, 3, 2, (1, 1)), new(55, 3, 2, (1, 1))];
    let odd = [new(7, 2, 1, (0, 1)), new(4, 5, 3, (3, 3))];
    let hanging = [new(7, 3, 2, (1, 1)), new(8, 3, 3, (0, 1))];
    vec![
        ("max", flat(Kind::Max, resnet, false)),
        ("max_ceil", flat(Kind::Max, [new(13, 3, 2, (0, 0)), new(12, 3, 2, (0, 0))], true)),
        ("max_whole", flat(Kind::Max, [new(13, 13, 1, (0, 0)), new(17, 17, 1, (0, 0))], false)),
        ("max_beyond", flat(Kind::Max, [new(3, 2, 1, (4, 4)), new(2, 3, 2, (5, 3))], false)),
        ("average", flat(Kind::Average(false, 0), resnet, false)),
        ("average_padding", flat(Kind::Average(true, 0), resnet, false)),
        (
            "average_whole",
            flat(Kind::Average(false, 0), [new(31, 31, 1, (0, 0)), new(40, 40, 1, (0, 0))], false),
        ),
        ("average_ceil", flat(Kind::Average(false, 0), odd, true)),
        ("average_ceil_padding", flat(Kind::Average(true, 0), odd, true)),
        ("average_hanging", flat(Kind::Average(true, 0), hanging, true)),
        ("average_divisor", flat(Kind::Average(false, 7), hanging, true)),
        ("average_divisor_padding", flat(Kind::Average(true, 3), hanging, false)),
        (
            "max_three",
            Pool {
                kind: Kind::Max,
                planes: (2, 3),
                dims: vec![
                    Dim { dilation: 2, ..new(9, 3, 1, (1, 0)) },
                    Dim { dilation: 3, ..new(12, 2, 2, (1, 2)) },
                    new(10, 3, 2, (1, 1)),
                ],
                ceil: true,
            },
        ),
    ]
}

fn random(seed: u32) -> Pool {
    let mut random = Random::new(&format!("pool {seed}"));
    let three = random.range(0, 3) == 0;
    let kind = match random.range(0, 3) {
        _ if three => Kind::Max,
        0 => Kind::Max,
        1 => Kind::Average(false, 0),
        2 => Kind::Average(true, 0),
        _ => Kind::Average(random.range(0, 1) == 1, random.range(1, 9)),
    };
    let ceil = random.range(0, 1) == 1;
    let mut dim = || loop {
        let (size, kernel, stride) = (random.range(1, 20), random.range(1, 5), random.range(1, 4));
        let dilation = if three { random.range(1, 3) } else { 1 };
        let pads = (random.range(0, kernel - 1), random.range(0, kernel - 1));
        let dim = Dim { size, kernel, stride, dilation, pads };
        if dim.output(ceil) > 0 {
            return dim;
        }
    };
    let dims = (0..if three { 3 } else { 2 }).map(|_| dim()).collect();
    Pool { kind, planes: (2, 3), dims, ceil }
}

pub(crate) fn cases() -> Vec<Case> {
    let chosen = chosen().into_iter().map(|(name, pool)| pool.case(format!("pool::{name}")));
    chosen.chain((0..24).map(|seed| random(seed).case(format!("pool::random_{seed}")))).collect()
}
