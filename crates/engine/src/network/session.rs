//! Runs of a network whose kernels are built.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use opkeep_backend::{BackendError, Buffer, LoadedKernel, Loader};
use opkeep_fs::CancelToken;
use opkeep_ops::{Constant, Graph, Origin, TensorId, dtype_bytes};
use opkeep_text::counted;
use thiserror::Error;

use crate::BuildReport;

/// The reason why a network could not be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The build left a node without a kernel.
    #[error("node `{node}` has no kernel: {reason}")]
    NoKernel {
        /// The node.
        node: String,
        /// The reason in the report.
        reason: String,
    },
    /// The report is of another network.
    #[error(
        "the report is of a build of {found}, and the network has {expected}; build this network",
        found = counted(*.found, "operator")
    )]
    Report {
        /// The number of nodes of the network.
        expected: usize,
        /// The number of operators in the report.
        found: usize,
    },
    /// A kernel cannot be loaded, or does not take its buffers.
    #[error("node `{node}`: {source}")]
    Node {
        /// The node.
        node: String,
        /// The backend's error.
        source: Box<BackendError>,
    },
    /// The elements of a constant cannot be read.
    #[error("constant {shape:?} of {dtype}: {source}")]
    Constant {
        /// The constant's element type.
        dtype: String,
        /// The constant's shape.
        shape: Vec<i64>,
        /// The reason.
        source: std::io::Error,
    },
    /// The inputs do not fit the network.
    #[error("input {what}: expected {expected}, found {found}")]
    Input {
        /// The input, and the property that does not fit.
        what: String,
        /// The value that the network takes.
        expected: String,
        /// The given value.
        found: String,
    },
    /// There is not enough memory for a tensor.
    #[error("there is no memory for a tensor {shape:?} of {dtype}")]
    Memory {
        /// The tensor's element type.
        dtype: String,
        /// The tensor's shape.
        shape: Vec<i64>,
    },
    /// The run was cancelled.
    #[error("interrupted")]
    Cancelled,
}

/// The time that a node of a network took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeTiming {
    /// The node's index in [`Graph::nodes`].
    pub node: usize,
    /// The time that the node's kernel took.
    pub elapsed: Duration,
}

/// A loaded network: its kernels and constants are in memory.
pub struct Session<'a> {
    graph: &'a Graph,
    kernels: Vec<Box<dyn LoadedKernel>>,
    /// The kernel of each node: an index into `kernels`.
    kernel_of: Vec<usize>,
    /// The elements of each tensor that is a constant and is read, by the tensor's index.
    constants: Vec<Option<Buffer>>,
    /// The number of reads of each tensor, by nodes and as an output. A read of a view counts for the tensor under it.
    reads: Vec<usize>,
}

impl<'a> Session<'a> {
    /// Loads `graph`. `report` must be of a build whose requests were the nodes of `graph`.
    ///
    /// # Errors
    /// A kernel was not built or cannot be loaded, or a constant cannot be read.
    pub fn new(graph: &'a Graph, report: &BuildReport, loader: &dyn Loader) -> Result<Self, RunError> {
        let mut loaded: Vec<Option<usize>> = vec![None; report.kernels.len()];
        let (mut kernels, mut kernel_of) = (Vec::new(), Vec::new());
        let (expected, found) = (graph.nodes().len(), report.kernel_of.len());
        if expected != found {
            return Err(RunError::Report { expected, found });
        }
        for (at, (node, kernel)) in graph.nodes().iter().zip(&report.kernel_of).enumerate() {
            let at = match loaded[*kernel] {
                Some(at) => at,
                None => {
                    let built = &report.kernels[*kernel];
                    let Some(artifact) = &built.artifact else {
                        let reason = built.reason.clone().unwrap_or_else(|| built.outcome.to_string());
                        return Err(RunError::NoKernel { node: node.name.clone(), reason });
                    };
                    let job = graph.job(at).ok_or(RunError::Report { expected, found })?;
                    let kernel = loader.load(artifact, &job);
                    kernels.push(kernel.map_err(|source| at_node(&node.name, source))?);
                    kernels.len() - 1
                }
            };
            loaded[*kernel] = Some(at);
            kernel_of.push(at);
        }
        let mut session = Self {
            constants: graph.tensors().map(|_| None).collect(),
            reads: vec![0; graph.len()],
            graph,
            kernels,
            kernel_of,
        };
        let read = graph.nodes().iter().flat_map(|node| node.inputs.iter().flatten());
        for id in read.chain(graph.outputs().iter().map(|(_, id)| id)) {
            session.reads[graph.source(*id).index()] += 1;
        }
        session.read_constants()?;
        Ok(session)
    }

    /// Reads the constants that are used.
    fn read_constants(&mut self) -> Result<(), RunError> {
        for id in self.graph.tensors() {
            if let Origin::Constant(constant) = self.graph.origin(id)
                && self.reads[id.index()] > 0
            {
                self.constants[id.index()] = Some(elements(self.graph, id, constant)?);
            }
        }
        Ok(())
    }

    /// Runs the network once on up to `threads` threads, and returns its outputs in order. `inputs` are the elements of
    /// the graph's inputs, dense and row-major; `done` is called for each node that has run.
    ///
    /// # Errors
    /// The inputs do not fit, a kernel fails, there is too little memory, or the run is cancelled.
    pub fn run(
        &self,
        inputs: &[&[u8]],
        threads: NonZeroUsize,
        cancel: &CancelToken,
        mut done: impl FnMut(NodeTiming),
    ) -> Result<Vec<Buffer>, RunError> {
        let mut memory = TensorMemory::new(self, self.inputs(inputs)?);
        for (at, node) in self.graph.nodes().iter().enumerate() {
            if cancel.is_cancelled() {
                return Err(RunError::Cancelled);
            }
            let mut outputs =
                node.outputs.iter().map(|id| memory.take(*id)).collect::<Result<Vec<_>, _>>()?;
            let began = Instant::now();
            let read: Vec<&[u8]> = node.inputs.iter().flatten().map(|id| memory.elements(*id)).collect();
            let mut written: Vec<&mut [u8]> = outputs.iter_mut().map(Buffer::bytes_mut).collect();
            let launched = self.kernels[self.kernel_of[at]].launch(&read, &mut written, threads);
            launched.map_err(|source| at_node(&node.name, source))?;
            done(NodeTiming { node: at, elapsed: began.elapsed() });
            for (id, output) in node.outputs.iter().zip(outputs) {
                memory.keep(*id, output);
            }
            node.inputs.iter().flatten().for_each(|id| memory.was_read(*id));
        }
        self.graph.outputs().iter().map(|(_, id)| memory.output(*id)).collect()
    }

    /// Checks the number and the sizes of the graph's inputs, and copies the inputs.
    fn inputs(&self, given: &[&[u8]]) -> Result<Vec<(TensorId, Buffer)>, RunError> {
        let expected = self.graph.inputs();
        if given.len() != expected.len() {
            return Err(RunError::Input {
                what: "count".to_owned(),
                expected: expected.len().to_string(),
                found: given.len().to_string(),
            });
        }
        let mut inputs = Vec::with_capacity(given.len());
        for ((name, id), given) in expected.iter().zip(given) {
            let mut buffer = room(self.graph, *id)?;
            if buffer.bytes().len() != given.len() {
                let (expected, found) = (buffer.bytes().len().to_string(), given.len().to_string());
                return Err(RunError::Input { what: format!("`{name}`, bytes"), expected, found });
            }
            buffer.bytes_mut().copy_from_slice(given);
            inputs.push((*id, buffer));
        }
        Ok(inputs)
    }
}

/// The tensors of one run. The memory of a tensor is reused after its last read.
struct TensorMemory<'s, 'a> {
    session: &'s Session<'a>,
    /// The elements of each tensor that is not constant, until the last read, by the tensor's index.
    live: Vec<Option<Buffer>>,
    /// The number of remaining reads of each tensor.
    reads: Vec<usize>,
    free: Vec<Buffer>,
}

impl<'s, 'a> TensorMemory<'s, 'a> {
    fn new(session: &'s Session<'a>, inputs: Vec<(TensorId, Buffer)>) -> Self {
        let live = session.reads.iter().map(|_| None).collect();
        let mut memory = Self { session, live, reads: session.reads.clone(), free: Vec::new() };
        inputs.into_iter().for_each(|(id, buffer)| memory.live[id.index()] = Some(buffer));
        memory
    }

    /// Returns memory for a tensor that is about to be computed.
    fn take(&mut self, id: TensorId) -> Result<Buffer, RunError> {
        let bytes = size(self.session.graph, id)?;
        // The smallest free buffer that fits, unless more than half of it would stay unused.
        let most = bytes.max(4096).saturating_mul(2);
        let fits = |buffer: &Buffer| (bytes..=most).contains(&buffer.capacity());
        let free = self.free.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        match free.min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at) {
            Some(at) => self.free.swap_remove(at).resized(bytes).or_else(|_| room(self.session.graph, id)),
            None => room(self.session.graph, id),
        }
    }

    fn keep(&mut self, id: TensorId, buffer: Buffer) {
        match self.reads[id.index()] {
            0 => self.free.push(buffer),
            _ => self.live[id.index()] = Some(buffer),
        }
    }

    /// Returns the elements of a tensor. They are empty if it was never computed; the kernel that reads it then returns
    /// an error.
    fn elements(&self, id: TensorId) -> &[u8] {
        let at = self.session.graph.source(id).index();
        let buffer = self.session.constants[at].as_ref().or(self.live[at].as_ref());
        buffer.map_or(&[], Buffer::bytes)
    }

    fn was_read(&mut self, id: TensorId) {
        let at = self.session.graph.source(id).index();
        self.reads[at] = self.reads[at].saturating_sub(1);
        if self.reads[at] == 0 {
            self.free.extend(self.live[at].take());
        }
    }

    /// Returns the elements of an output, without a copy if this is their last use.
    fn output(&mut self, id: TensorId) -> Result<Buffer, RunError> {
        let at = self.session.graph.source(id).index();
        self.reads[at] = self.reads[at].saturating_sub(1);
        if self.reads[at] == 0
            && let Some(buffer) = self.live[at].take()
        {
            return Ok(buffer);
        }
        let mut copy = room(self.session.graph, id)?;
        copy.bytes_mut().copy_from_slice(self.elements(id));
        Ok(copy)
    }
}

fn at_node(node: &str, source: BackendError) -> RunError {
    RunError::Node { node: node.to_owned(), source: Box::new(source) }
}

fn no_memory(graph: &Graph, id: TensorId) -> RunError {
    let tensor = graph.tensor(id);
    RunError::Memory { dtype: tensor.dtype.clone(), shape: tensor.shape.clone() }
}

/// Returns the number of bytes of a tensor's elements.
fn size(graph: &Graph, id: TensorId) -> Result<usize, RunError> {
    let tensor = graph.tensor(id);
    let element = dtype_bytes(&tensor.dtype).unwrap_or(usize::MAX);
    let elements = |bytes: usize, dim: &i64| bytes.checked_mul(usize::try_from(*dim).ok()?);
    tensor.shape.iter().try_fold(element, elements).ok_or_else(|| no_memory(graph, id))
}

fn room(graph: &Graph, id: TensorId) -> Result<Buffer, RunError> {
    Buffer::try_zeroed(size(graph, id)?).map_err(|_| no_memory(graph, id))
}

fn elements(graph: &Graph, id: TensorId, constant: Constant) -> Result<Buffer, RunError> {
    let mut buffer = room(graph, id)?;
    let read = constant.copy_to(buffer.bytes_mut());
    read.map(|()| buffer).map_err(|source| {
        let tensor = graph.tensor(id);
        RunError::Constant { dtype: tensor.dtype.clone(), shape: tensor.shape.clone(), source }
    })
}
