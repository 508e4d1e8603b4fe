//! A kernel with its inputs and the check of its outputs.

use opkeep_backend::Backend;
use opkeep_backend_cpu::CpuBackend;
use opkeep_descriptor::{Arg, Attr, Job};
use opkeep_ops::{Graph, TensorId, dtype_bytes};

/// Judges the outputs' bytes.
pub(crate) type Judge = Box<dyn Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync>;

/// A kernel with its inputs and the check of its outputs.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) job: Job,
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) judge: Judge,
}

impl Case {
    /// Compiles, runs and judges. For any number of threads the bits are the same.
    pub(crate) fn run(&self, backend: &CpuBackend) -> Result<(), String> {
        let artifact =
            crate::common::compile(backend, &self.job).map_err(|error| format!("{}: {error}", self.name))?;
        stands_alone(&artifact.object).map_err(|problem| format!("{}: {problem}", self.name))?;
        let loader = backend.loader().ok_or("no loader")?;
        let kernel = loader.load(&artifact, &self.job).map_err(|error| error.to_string())?;
        let found = crate::common::launch_bytes(&*kernel, &self.inputs, 1);
        for threads in [2, 3, 7] {
            if crate::common::launch_bytes(&*kernel, &self.inputs, threads) != found {
                return Err(format!("{}: other bits on {threads} threads", self.name));
            }
        }
        (self.judge)(&found).map_err(|problem| format!("{}: {problem}", self.name))
    }
}

/// Whether an object needs at most two functions of the math library. There is no C library, so no code may have
/// become a call of `memcpy`.
pub(crate) fn stands_alone(object: &[u8]) -> Result<(), String> {
    let known = |name: &String| name.starts_with("libm.so") || name == "log" || name == "powf";
    match crate::common::needs(object).into_iter().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(format!("it needs `{name}`")),
    }
}

/// A node under construction: its inputs, and their bytes.
pub(crate) struct Node {
    graph: Graph,
    ids: Vec<Option<TensorId>>,
    bytes: Vec<Vec<u8>>,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { graph: Graph::new("case"), ids: Vec::new(), bytes: Vec::new() }
    }

    /// An input tensor.
    pub(crate) fn tensor(mut self, dtype: &str, shape: &[i64], bytes: &[u8]) -> Self {
        let size = shape.iter().product::<i64>() as usize * dtype_bytes(dtype).unwrap();
        assert_eq!(size, bytes.len(), "{dtype} {shape:?}");
        self.ids.push(Some(self.graph.input(&format!("x{}", self.ids.len()), dtype, shape)));
        self.bytes.push(bytes.to_vec());
        self
    }

    /// An input that the compiler must know. The buffer at the launch must not matter.
    pub(crate) fn known(mut self, values: &[i64]) -> Self {
        self.ids.push(Some(self.graph.parameter("int64", values)));
        self.bytes.push(vec![0xff; values.len() * 8]);
        self
    }

    /// An optional input that is left out.
    pub(crate) fn absent(mut self) -> Self {
        self.ids.push(None);
        self
    }

    /// The case.
    pub(crate) fn case(
        mut self,
        op_type: &str,
        attrs: &[Attr],
        judge: impl Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Case {
        let made = self.graph.add("node", op_type, &self.ids, attrs);
        let inputs: Vec<_> =
            self.ids.iter().flatten().map(|id| self.graph.tensor(*id).shape.clone()).collect();
        let shown: Vec<_> = attrs.iter().map(|attr| format!("{}={:?}", attr.name, attr.value)).collect();
        let name = format!("{op_type} {inputs:?} {}", shown.join(" "));
        made.unwrap_or_else(|error| panic!("{name}: {error}"));
        let job = self.graph.jobs().remove(0).1;
        // A scalar is described as one element, and so may be longer than the test's data.
        let described = job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter);
        let fits = |tensor: &opkeep_descriptor::Tensor, bytes: &Vec<u8>| {
            tensor.shape.iter().product::<i64>() as usize * dtype_bytes(&tensor.dtype).unwrap() == bytes.len()
        };
        assert!(described.zip(&self.bytes).all(|(tensor, bytes)| fits(tensor, bytes)), "{name}");
        Case { name, job, inputs: self.bytes, judge: Box::new(judge) }
    }
}

/// Pseudorandom numbers from a fixed seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn int(&mut self, low: i64, high: i64) -> i64 {
        low + ((self.next() >> 16) % (high - low + 1) as u64) as i64
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 40) as u8).collect()
    }

    pub(crate) fn shape(&mut self, rank: usize, most: i64) -> Vec<i64> {
        (0..rank).map(|_| self.int(1, most)).collect()
    }

    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, self.int(0, at as i64) as usize);
        }
        order
    }

    /// Floats with a few bits each, about as large as `scale`, so that no two tensors are equal.
    pub(crate) fn floats(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 40) as f32 / (1u64 << 23) as f32 * scale - scale).collect()
    }
}

/// Elements of a shape.
pub(crate) fn count(shape: &[i64]) -> usize {
    shape.iter().product::<i64>() as usize
}

/// Every index of a shape, the last dimension fastest.
pub(crate) fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for dim in shape {
        let longer = |index: &Vec<i64>| {
            let index = index.clone();
            (0..*dim).map(move |at| [&index[..], &[at]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Returns the offset of the element at `index`.
pub(crate) fn offset(shape: &[i64], index: &[i64]) -> usize {
    shape.iter().zip(index).fold(0, |offset, (dim, at)| offset * dim + at) as usize
}

/// The bytes of floats, and floats of bytes.
pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn same(expected: &[Vec<u8>], found: &[Vec<u8>]) -> Result<(), String> {
    for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
        if let Some(byte) =
            (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))
        {
            return Err(format!(
                "output {at} differs from byte {byte} of {} ({})",
                expected.len(),
                found.len()
            ));
        }
    }
    if expected.len() == found.len() { Ok(()) } else { Err("another number of outputs".to_owned()) }
}
