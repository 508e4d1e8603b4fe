//! Loading kernels into this process and launching them.

use std::io::Write;
use std::num::NonZeroUsize;

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, LoadedKernel, Loader, Slot, check_dynamic_loading};
use opkeep_cann_meta::{BlockDim, Json, KernelMeta};
use opkeep_descriptor::{Arg, Job};
use opkeep_digest::Digest;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::compile::JOB_FIELD;
use crate::ffi::KernelLibrary;

/// Loads kernels of launch ABI 1.
pub(crate) struct CpuLoader;

impl Loader for CpuLoader {
    fn load(&self, artifact: &Artifact, job: &Job) -> Result<Box<dyn LoadedKernel>, BackendError> {
        check_dynamic_loading()?;
        let refuse =
            |kernel: &str, problem: String| BackendError::Load { kernel: kernel.to_owned(), problem };
        let meta = KernelMeta::parse(&artifact.metadata).map_err(|error| refuse("?", error.to_string()))?;
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
        let inputs = job
            .data
            .iter()
            .flat_map(|data| &data.outputs)
            .flat_map(Arg::iter)
            .map(|tensor| Slot::of(tensor, "cpu"));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outputs = job
            .ops
            .iter()
            .flat_map(|op| &op.outputs)
            .flat_map(Arg::iter)
            .map(|tensor| Slot::of(tensor, "cpu"));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let file = sealed(&artifact.object).map_err(|source| BackendError::Io {
            action: "hold in memory",
            path: symbol.clone().into(),
            source,
        })?;
        let loaded =
            KernelLibrary::open(file, &symbol).map_err(|error| refuse(&symbol, error.to_string()))?;
        Ok(Box::new(CpuKernel { inputs, outputs, symbol, blocks, loaded }))
    }
}

/// The bytes in a sealed file in memory: no process can change it, this one included.
fn sealed(bytes: &[u8]) -> std::io::Result<std::os::fd::OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("opkeep-kernel", flags)?);
    file.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )?;
    Ok(file.into())
}

struct CpuKernel {
    symbol: String,
    blocks: u32,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    loaded: KernelLibrary,
}

impl LoadedKernel for CpuKernel {
    fn inputs(&self) -> &[Slot] {
        &self.inputs
    }

    fn outputs(&self) -> &[Slot] {
        &self.outputs
    }

    fn launch(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        threads: NonZeroUsize,
    ) -> Result<(), BackendError> {
        Slot::check(&self.symbol, (&self.inputs, inputs), (&self.outputs, outputs))?;
        // Counts, lengths and alignments were checked just above; exclusive borrows do not overlap.
        self.loaded.launch(self.blocks, threads, inputs, outputs);
        Ok(())
    }
}
