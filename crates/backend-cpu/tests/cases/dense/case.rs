//! A job, its inputs, and the expected output.

use std::num::NonZeroUsize;

use libtest_mimic::Failed;
use object::{Object, ObjectSymbol};
use opkeep_backend::{Backend, Buffer, LoadedKernel};
use opkeep_backend_cpu::CpuBackend;
use opkeep_descriptor::{Attr, Job};
use opkeep_ops::Graph;

/// A job with inputs and the expected output.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) job: Job,
    pub(crate) inputs: Vec<Vec<f32>>,
    pub(crate) expected: Vec<f64>,
}

impl Case {
    /// `op_type` on tensors of these shapes; `reference` computes the output from their elements.
    pub(crate) fn new(
        name: String,
        op_type: &str,
        shapes: &[Vec<i64>],
        attrs: Vec<Attr>,
        reference: impl Fn(&[Vec<f32>]) -> Vec<f64>,
    ) -> Self {
        let mut random = Random::new(&name);
        let inputs: Vec<Vec<f32>> = shapes.iter().map(|shape| random.elements(shape)).collect();
        let expected = reference(&inputs);
        Self { name, job: job(op_type, shapes, attrs), inputs, expected }
    }

    /// Compiles and runs it on one thread.
    pub(crate) fn run(&self, backend: &CpuBackend) -> Result<Vec<u8>, Failed> {
        let artifact = crate::common::compile(backend, &self.job).map_err(|error| error.to_string())?;
        let kernel = backend.loader().unwrap().load(&artifact, &self.job)?;
        self.launch(&*kernel, 1)
    }

    /// Compiles and runs it, and compares the output.
    pub(crate) fn check(&self, backend: &CpuBackend) -> Result<(), Failed> {
        let artifact = crate::common::compile(backend, &self.job).map_err(|error| error.to_string())?;
        let object = object::File::parse(artifact.object.as_slice())?;
        if let Some(symbol) = object.dynamic_symbols().find(|symbol| symbol.is_undefined()) {
            return Err(format!("it calls `{}`", symbol.name()?).into());
        }
        let kernel = backend.loader().unwrap().load(&artifact, &self.job)?;
        let found = self.launch(&*kernel, 1)?;
        close(&self.expected, &crate::common::floats(&found))?;
        for threads in [2, 3, 7] {
            if self.launch(&*kernel, threads)? != found {
                return Err(format!("{threads} threads compute something else than one").into());
            }
        }
        Ok(())
    }

    /// Runs it on tensors that are aligned to an element only, with other bytes around them.
    fn launch(&self, kernel: &dyn LoadedKernel, threads: usize) -> Result<Vec<u8>, Failed> {
        const BESIDE: usize = 1;
        let beside =
            |values: &[f32]| Buffer::of_f32(&[&[f32::NAN; BESIDE], values, &[f32::NAN; 99]].concat());
        let inner = |len: usize| 4 * BESIDE..4 * (BESIDE + len);
        let inputs: Vec<Buffer> = self.inputs.iter().map(|values| beside(values)).collect();
        let inputs: Vec<&[u8]> = inputs
            .iter()
            .zip(&self.inputs)
            .map(|(buffer, values)| &buffer.bytes()[inner(values.len())])
            .collect();
        // Adding zero to minus zero would change it.
        let before = Buffer::of_f32(&vec![-0.0; self.expected.len() + 100]);
        let mut output = Buffer::of_f32(&vec![-0.0; self.expected.len() + 100]);
        let range = inner(self.expected.len());
        // Bytes that a kernel does not write must not look like a result.
        output.bytes_mut()[range.clone()].fill(0xa5);
        kernel.launch(
            &inputs,
            &mut [&mut output.bytes_mut()[range.clone()]],
            NonZeroUsize::new(threads).unwrap(),
        )?;
        let outside =
            |buffer: &Buffer| [&buffer.bytes()[..range.start], &buffer.bytes()[range.end..]].concat();
        if outside(&output) != outside(&before) {
            return Err("it writes beside the output".into());
        }
        Ok(output.bytes()[range].to_vec())
    }
}

/// The job of one operator on tensors of these shapes.
pub(crate) fn job(op_type: &str, shapes: &[Vec<i64>], attrs: Vec<Attr>) -> Job {
    let mut graph = Graph::new("dense");
    let inputs: Vec<_> = shapes.iter().map(|shape| graph.input("x", "float32", shape.clone())).collect();
    graph.node("node", op_type, &inputs, attrs).unwrap();
    graph.jobs().remove(0).1
}

/// Whether the largest error is small relative to the usual elements. Infinities and NaNs must be equal.
pub(crate) fn close(expected: &[f64], found: &[f32]) -> Result<(), Failed> {
    if expected.len() != found.len() {
        return Err(format!("{} elements instead of {}", found.len(), expected.len()).into());
    }
    let finite = || expected.iter().filter(|value| value.is_finite());
    let usual = (finite().map(|value| value * value).sum::<f64>() / finite().count().max(1) as f64).sqrt();
    let allowed = 1e-5 * usual;
    for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
        let found = f64::from(*found);
        let same = expected == &found || (expected.is_nan() && found.is_nan());
        let near = (expected - found).abs() <= allowed;
        if !same && !near {
            return Err(
                format!("element {at}: expected {expected:e}, found {found:e}, usual {usual:e}").into()
            );
        }
    }
    Ok(())
}

/// Pseudorandom numbers from a fixed seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: &str) -> Self {
        let mix = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(seed.bytes().fold(0xcbf2_9ce4_8422_2325, mix) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// One of `items`.
    pub(crate) fn one<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.range(0, items.len() as i64 - 1) as usize]
    }

    /// Elements of both signs, from -1 to 1.
    fn elements(&mut self, shape: &[i64]) -> Vec<f32> {
        let count = shape.iter().product::<i64>();
        (0..count).map(|_| (self.next() % (1 << 24)) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}
