//! Loading kernels into this process and launching them.

use std::io::Write;
use std::num::NonZeroUsize;

use opbuild_artifact::{Artifact, BlockDim, Json, KernelMeta};
use opbuild_backend::{BackendError, Kernel, Loader, Unsupported};
use opbuild_descriptor::{Arg, Job, Tensor};
use opbuild_digest::Digest;
use opbuild_ops::dtype_bytes;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::compile::JOB_FIELD;
use crate::ffi::LoadedKernel;

/// Loads kernels of launch ABI 1.
pub(crate) struct CpuLoader;

impl Loader for CpuLoader {
    fn load(&self, artifact: &Artifact, job: &Job) -> Result<Box<dyn Kernel>, BackendError> {
        let refuse =
            |kernel: &str, problem: String| BackendError::Load { kernel: kernel.to_owned(), problem };
        let meta = KernelMeta::parse(&artifact.json).map_err(|error| refuse("?", error.to_string()))?;
        let symbol = meta.kernel_name.unwrap_or_default();
        let sha256 = Digest::of(&artifact.object).to_string();
        if meta.sha256.as_deref() != Some(&sha256) {
            return Err(refuse(
                &symbol,
                format!("its SHA-256 is {sha256}, its .json says {:?}", meta.sha256),
            ));
        }
        let made_for = meta.extra.get(JOB_FIELD).and_then(Json::as_string);
        if made_for != Some(job.digest().to_string()) {
            return Err(refuse(&symbol, format!("it was compiled for another job ({made_for:?})")));
        }
        let Some(BlockDim::Fixed(blocks)) = meta.block_dim else {
            return Err(refuse(
                &symbol,
                format!("blockDim is {:?}, expected a fixed number", meta.block_dim),
            ));
        };
        if let Some(workspace) = meta.workspace.filter(|workspace| !workspace.size.is_empty()) {
            return Err(refuse(
                &symbol,
                format!("it asks for workspace {:?}, ABI 1 has none", workspace.size),
            ));
        }
        let inputs = job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter).map(Buffer::of);
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outputs = job.ops.iter().flat_map(|op| &op.outputs).flat_map(Arg::iter).map(Buffer::of);
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let file = sealed(&artifact.object).map_err(|source| BackendError::Io {
            action: "hold in memory",
            path: symbol.clone().into(),
            source,
        })?;
        let loaded = LoadedKernel::open(file, &symbol).map_err(|error| refuse(&symbol, error.to_string()))?;
        let bytes = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.bytes).collect();
        Ok(Box::new(CpuKernel {
            input_bytes: bytes(&inputs),
            output_bytes: bytes(&outputs),
            inputs,
            outputs,
            symbol,
            blocks,
            loaded,
        }))
    }
}

/// The bytes in a file that lives in memory and that nobody can change any more, ourselves included.
fn sealed(bytes: &[u8]) -> std::io::Result<std::os::fd::OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("opbuild-kernel", flags)?);
    file.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )?;
    Ok(file.into())
}

/// What a buffer must be like.
struct Buffer {
    bytes: usize,
    align: usize,
}

impl Buffer {
    fn of(tensor: &Tensor) -> Result<Self, BackendError> {
        let align = dtype_bytes(&tensor.dtype).ok_or_else(|| Unsupported::Dtype {
            backend: "cpu",
            op_type: "launch".to_owned(),
            dtype: tensor.dtype.clone(),
            known: "the element types of the IR",
        })?;
        let bytes =
            tensor.shape.iter().try_fold(align, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?));
        let bytes = bytes.ok_or_else(|| Unsupported::DynamicShape {
            backend: "cpu",
            op_type: "launch".to_owned(),
            shape: tensor.shape.clone(),
        })?;
        Ok(Self { bytes, align })
    }
}

struct CpuKernel {
    symbol: String,
    blocks: u32,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    input_bytes: Vec<usize>,
    output_bytes: Vec<usize>,
    loaded: LoadedKernel,
}

impl CpuKernel {
    fn check<'a>(
        &self,
        what: &str,
        expected: &[Buffer],
        found: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), BackendError> {
        let refuse = |what: String, expected: String, found: String| {
            Err(BackendError::Launch { kernel: self.symbol.clone(), what, expected, found })
        };
        if found.len() != expected.len() {
            return refuse(format!("number of {what}s"), expected.len().to_string(), found.len().to_string());
        }
        for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
            if found.len() != expected.bytes {
                let (expected, found) = (expected.bytes.to_string(), found.len().to_string());
                return refuse(format!("bytes of {what} {at}"), expected, found);
            }
            if !found.as_ptr().addr().is_multiple_of(expected.align) {
                let (expected, found) = (expected.align.to_string(), format!("address {:p}", found.as_ptr()));
                return refuse(format!("alignment of {what} {at}"), expected, found);
            }
        }
        Ok(())
    }
}

impl Kernel for CpuKernel {
    fn input_bytes(&self) -> &[usize] {
        &self.input_bytes
    }

    fn output_bytes(&self) -> &[usize] {
        &self.output_bytes
    }

    fn launch(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        threads: NonZeroUsize,
    ) -> Result<(), BackendError> {
        self.check("input", &self.inputs, inputs.iter().copied())?;
        self.check("output", &self.outputs, outputs.iter().map(|output| &**output))?;
        // Counts, lengths and alignments were checked just above; exclusive borrows do not overlap.
        self.loaded.launch(self.blocks, threads, inputs, outputs);
        Ok(())
    }
}
