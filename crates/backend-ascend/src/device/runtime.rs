//! The device of this machine: the name of its chip, and calls in its context.
//!
//! Compiling needs none of this. The target `ascend` is the chip of the device; loading kernels needs a device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_fs::Fs;

use crate::AclError;
use crate::Toolkit;
use crate::device::acl_codes::REPEAT_INITIALIZE;
use crate::ffi::{Acl, Context};

const LIBRARY: &str = "libascendcl.so";
/// The first of the devices that this process sees: `ASCEND_RT_VISIBLE_DEVICES` selects them.
const DEVICE: i32 = 0;
/// The maximum number of libraries that one library needs: the runtime has fewer.
const MAX_NEIGHBOURS: usize = 64;

/// The runtime's library.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(crate) acl: Arc<Acl>,
}

impl Runtime {
    /// Loads the library of `toolkit`, or else the one that the system's loader finds.
    ///
    /// Libraries beside it that it needs are found, as if `set_env.sh` had been sourced.
    ///
    /// # Errors
    /// [`AclError::NoLibrary`], [`AclError::Unloadable`].
    pub fn open(toolkit: Option<&Toolkit>) -> Result<Self, AclError> {
        let dirs = toolkit.map(|toolkit| [toolkit.root.join("lib64"), toolkit.host().join("lib64")]);
        let mut looked: Vec<PathBuf> = dirs.into_iter().flatten().map(|dir| dir.join(LIBRARY)).collect();
        if let Some(path) = looked.iter().find(|path| Fs::new().is_file(path)) {
            return Self::open_library(path);
        }
        let name = PathBuf::from(LIBRARY);
        looked.push(name.clone());
        match Acl::open(&name) {
            Ok(acl) => Ok(Self { acl: Arc::new(acl) }),
            Err(problem) if missing(&problem) == Some(LIBRARY) => {
                Err(AclError::NoLibrary { looked, problem })
            }
            Err(problem) => Err(AclError::Unloadable { library: name, problem }),
        }
    }

    /// Loads the library at `path`.
    ///
    /// # Errors
    /// [`AclError::Unloadable`].
    pub fn open_library(path: &Path) -> Result<Self, AclError> {
        let unloadable = |problem| AclError::Unloadable { library: path.to_owned(), problem };
        let acl = open_with_neighbours(path, &mut Vec::new()).map_err(unloadable)?;
        Ok(Self { acl: Arc::new(acl) })
    }

    /// The library.
    pub fn library(&self) -> &Path {
        self.acl.path()
    }

    /// The number of devices.
    ///
    /// # Errors
    /// The error of the runtime.
    pub fn device_count(&self) -> Result<u32, AclError> {
        self.acl.device_count()
    }

    /// The name of the device's chip, as a target names it: `Ascend910B1`.
    ///
    /// # Errors
    /// [`AclError::NoDevice`] without a driver or a device, [`AclError::Stub`] for the stub library.
    pub fn soc_name(&self) -> Result<String, AclError> {
        if let Some(name) = self.acl.soc_name()?.filter(|name| !name.is_empty()) {
            return Ok(name);
        }
        let text = self.acl.recent_error();
        // The error of counting devices may show why there is no name.
        let text = match self.acl.device_count() {
            Err(error @ AclError::Stub { .. }) => return Err(error),
            Err(error @ AclError::Call { .. }) => Some(error.to_string()),
            Ok(_) | Err(_) => text,
        };
        Err(AclError::NoDevice { library: self.library().to_owned(), text })
    }
}

/// Loads a library. If the system's loader does not find a library that it needs, and that one is in the same
/// directory, it is loaded first: the loader then finds it by its name.
fn open_with_neighbours(path: &Path, tried: &mut Vec<PathBuf>) -> Result<Acl, String> {
    loop {
        let problem = match Acl::open(path) {
            Ok(acl) => return Ok(acl),
            Err(problem) => problem,
        };
        let neighbour =
            missing(&problem).filter(|name| !name.contains('/')).map(|name| path.with_file_name(name));
        let Some(neighbour) = neighbour.filter(|path| Fs::new().is_file(path)) else { return Err(problem) };
        if tried.contains(&neighbour) || tried.len() == MAX_NEIGHBOURS {
            return Err(problem);
        }
        tried.push(neighbour.clone());
        open_with_neighbours(&neighbour, tried)?;
    }
}

/// The file that is missing according to the loader's message: the library itself, or one that it needs.
fn missing(problem: &str) -> Option<&str> {
    let (name, rest) = problem.split_once(": ")?;
    rest.starts_with("cannot open shared object file").then_some(name)
}

/// A device that is in use by this process.
#[derive(Debug)]
pub(crate) struct Session {
    acl: Arc<Acl>,
    context: Context,
    /// Whether this session initialised the runtime, and so must finalise it: a process can do that only once.
    began: bool,
}

impl Session {
    pub(crate) fn begin(runtime: &Runtime) -> Result<Self, AclError> {
        let acl = Arc::clone(&runtime.acl);
        let began = match acl.init() {
            Ok(()) => true,
            Err(AclError::Call { code: REPEAT_INITIALIZE, .. }) => false,
            Err(error) => return Err(error),
        };
        match Self::context(runtime) {
            Ok(context) => Ok(Self { acl, context, began }),
            Err(error) => {
                if began {
                    let _ = acl.finalize();
                }
                Err(error)
            }
        }
    }

    fn context(runtime: &Runtime) -> Result<Context, AclError> {
        let acl = &runtime.acl;
        if acl.device_count()? == 0 {
            let library = runtime.library().to_owned();
            return Err(AclError::NoDevice { library, text: acl.recent_error() });
        }
        // A framework's thread keeps its context.
        let before = acl.current_context().ok();
        acl.set_device(DEVICE)?;
        let context = acl.current_context();
        if let Some(before) = before {
            let _ = acl.set_current_context(&before);
        }
        if context.is_err() {
            let _ = acl.reset_device(DEVICE);
        }
        context
    }

    /// Directs this thread's calls to the device until the return value is dropped.
    pub(crate) fn bind(&self) -> Result<Bound<'_>, AclError> {
        let before = self.acl.current_context().ok();
        self.acl.set_current_context(&self.context)?;
        Ok(Bound { acl: &self.acl, before })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A runtime that a framework initialised is left alone: in old runtimes, a reset takes the device from all its
        // users. A drop cannot report a failure.
        if self.began {
            let _ = self.acl.reset_device(DEVICE);
            let _ = self.acl.finalize();
        }
    }
}

/// A thread whose calls go to the device.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    pub(crate) acl: &'a Acl,
    before: Option<Context>,
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = self.acl.set_current_context(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_library_is_read_off_the_loaders_words() {
        let words = "libruntime.so: cannot open shared object file: No such file or directory";
        assert_eq!(missing(words), Some("libruntime.so"));
        assert_eq!(missing("/x/libascendcl.so: invalid ELF header"), None);
        assert_eq!(missing(""), None);
    }
}
