//! Loading kernels onto the device, and launching them.
//!
//! Only kernels that need no tiling function can be launched: those for shapes that were known when they were compiled.
//! The arguments are addresses, as the vendor's own callers pass them: inputs, outputs, workspaces.

use std::ffi::CString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, LoadedKernel, Loader, Slot};
use opkeep_descriptor::Job;
use opkeep_fs::{Fs, TempDir};

use crate::AclError;
use crate::Runtime;
use crate::device::launch_plan::{LaunchPlan, Place};
use crate::device::runtime::{Bound, Session};
use crate::error::io_error;
use crate::ffi::{Binary, Function, Memory};

/// Loads kernels onto the first device that this process sees.
///
/// The runtime can be initialised once per process. If a framework has initialised it, the loader does not finalise it;
/// otherwise it is finalised when the loader and all its kernels are dropped, and cannot be initialised again.
#[derive(Debug)]
pub struct AscendLoader {
    session: Arc<Session>,
    scratch: PathBuf,
}

impl AscendLoader {
    /// A loader for the device of `runtime`.
    ///
    /// CANN 8.1 loads kernels from files only: they are written to temporary directories in `scratch`.
    ///
    /// # Errors
    /// There is no device, or it cannot be used.
    pub fn new(runtime: &Runtime, scratch: PathBuf) -> Result<Self, AclError> {
        Ok(Self { session: Arc::new(Session::begin(runtime)?), scratch })
    }
}

impl Loader for AscendLoader {
    fn load(&self, artifact: &Artifact, job: &Job) -> Result<Box<dyn LoadedKernel>, BackendError> {
        let plan = LaunchPlan::new(artifact, job)?;
        let failed = |error: AclError| error.loading(&plan.kernel);
        let bound = self.session.bind().map_err(failed)?;
        let binary = if bound.acl.loads_from_memory() {
            bound.acl.load_from_data(&artifact.object, plan.magic).map_err(failed)?
        } else {
            self.load_from_file(&bound, artifact, &plan)?
        };
        let function = match bound.acl.kernel(&binary, &plan.kernel_name) {
            Ok(function) => function,
            Err(error) => {
                let _ = bound.acl.unload(&binary);
                return Err(failed(error));
            }
        };
        drop(bound);
        Ok(Box::new(AscendKernel { session: Arc::clone(&self.session), binary, function, plan }))
    }
}

impl AscendLoader {
    /// Loads a kernel from a pair of files that no other user can create or change. The runtime reads a few fields of
    /// the `.json`.
    fn load_from_file(
        &self,
        bound: &Bound<'_>,
        artifact: &Artifact,
        plan: &LaunchPlan,
    ) -> Result<Binary, BackendError> {
        let dir = TempDir::create_in(&self.scratch, "opkeep-load-");
        let dir = dir.map_err(io_error("create a directory in", &self.scratch))?;
        put(dir.path(), ".json", &artifact.metadata)?;
        let object = put(dir.path(), ".o", &artifact.object)?;
        let path = std::path::absolute(&object).unwrap_or(object);
        let name = CString::new(path.as_os_str().as_bytes()).map_err(std::io::Error::other);
        let name = name.map_err(io_error("name", &path))?;
        bound.acl.load_from_file(&name, plan.magic).map_err(|error| error.loading(&plan.kernel))
    }
}

/// Writes the file `kernel<suffix>` in `dir`, which only this process uses.
fn put(dir: &Path, suffix: &str, bytes: &[u8]) -> Result<PathBuf, BackendError> {
    let path = dir.join(format!("kernel{suffix}"));
    Fs::new().write(&path, bytes).map_err(io_error("write", &path))?;
    Ok(path)
}

/// A kernel on the device.
struct AscendKernel {
    plan: LaunchPlan,
    function: Function,
    binary: Binary,
    session: Arc<Session>,
}

impl AscendKernel {
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), AclError> {
        let bound = self.session.bind()?;
        let memory = |bytes: usize| bound.acl.memory(bytes);
        let of_slots =
            |slots: &[Slot]| slots.iter().map(|slot| memory(slot.bytes)).collect::<Result<Vec<_>, _>>();
        let (given, made) = (of_slots(&self.plan.inputs)?, of_slots(&self.plan.outputs)?);
        let spaces = self.plan.workspaces.iter().copied().map(memory).collect::<Result<Vec<_>, _>>()?;
        for (memory, bytes) in given.iter().zip(inputs) {
            memory.fill(bytes)?;
        }
        let mut addresses = Vec::with_capacity(self.plan.arguments.len());
        for argument in &self.plan.arguments {
            let memory = match argument.place {
                Place::Input(at) => given.get(at),
                Place::Output(at) => made.get(at),
                Place::Workspace(at) => spaces.get(at),
                Place::Nowhere => None,
            };
            if argument.cleared {
                memory.map_or(Ok(()), Memory::clear)?;
            }
            addresses.push(memory.map_or(0, Memory::address));
        }
        // The stream is dropped before the memory, which also ends a kernel that still runs because waiting for it
        // failed.
        let stream = bound.acl.stream()?;
        stream.launch(&self.function, self.plan.blocks, self.plan.schedule_mode, &addresses)?;
        stream.wait()?;
        for (memory, bytes) in made.iter().zip(outputs) {
            memory.read(bytes)?;
        }
        Ok(())
    }
}

impl LoadedKernel for AscendKernel {
    fn inputs(&self) -> &[Slot] {
        &self.plan.inputs
    }

    fn outputs(&self) -> &[Slot] {
        &self.plan.outputs
    }

    fn launch(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        _threads: NonZeroUsize,
    ) -> Result<(), BackendError> {
        Slot::check(&self.plan.kernel, (self.inputs(), inputs), (self.outputs(), outputs))?;
        self.run(inputs, outputs).map_err(|error| error.launching(&self.plan.kernel))
    }
}

impl Drop for AscendKernel {
    fn drop(&mut self) {
        // A drop cannot report a failure.
        if let Ok(bound) = self.session.bind() {
            let _ = bound.acl.unload(&self.binary);
        }
    }
}
