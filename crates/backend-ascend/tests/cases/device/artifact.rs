//! Kernels for the stand-in: what they do is in their names.

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, Buffer, LoadedKernel, Loader};
use opkeep_cann_meta::KernelMeta;
use opkeep_descriptor::Job;
use opkeep_testkit::ascend;

use crate::device::stub::Stub;

/// A kernel for one shape, called `name`, as compilers leave it.
pub(crate) fn artifact(name: &str) -> Artifact {
    let pair = ascend::Kernel::new(ascend::Chip::Ascend910B, name).keys([]).build();
    Artifact { metadata: pair.json, object: pair.object, extra: Vec::new() }
}

/// The same with another description.
pub(crate) fn changed(name: &str, change: impl FnOnce(&mut KernelMeta)) -> Artifact {
    let artifact = artifact(name);
    let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
    change(&mut meta);
    Artifact { metadata: meta.to_json().into_bytes(), ..artifact }
}

/// y = x * x, of four elements.
pub(crate) fn square() -> (Artifact, Job) {
    (artifact("square_1"), job("Square", 1))
}

/// The job of an operator on `inputs` tensors of four elements.
pub(crate) fn job(op_type: &str, inputs: usize) -> Job {
    opkeep_testkit::job(op_type, &vec![&[4_i64][..]; inputs])
}

/// Loads it onto the stand-in's device.
pub(crate) fn load(
    stub: &Stub,
    artifact: &Artifact,
    job: &Job,
) -> Result<Box<dyn LoadedKernel>, BackendError> {
    stub.loader().unwrap().load(artifact, job)
}

/// Launches a kernel of one output.
pub(crate) fn launch(kernel: &dyn LoadedKernel, inputs: &[&[f32]]) -> Result<Vec<f32>, BackendError> {
    let inputs: Vec<Buffer> = inputs.iter().map(|values| Buffer::of_f32(values)).collect();
    let mut output = Buffer::zeroed(kernel.outputs()[0].bytes);
    let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    kernel.launch(&inputs, &mut [output.bytes_mut()], std::num::NonZeroUsize::MIN)?;
    Ok(output.to_f32())
}
