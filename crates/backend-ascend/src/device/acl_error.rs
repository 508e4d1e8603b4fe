//! The error type of devices.

use std::path::PathBuf;

use opkeep_backend::BackendError;
use thiserror::Error;

use crate::device::acl_codes;

/// The reason why a device cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AclError {
    /// There is no library.
    #[error("the device library `libascendcl.so` is not found: {problem}; looked for {}", places(looked))]
    NoLibrary {
        /// The paths where it was looked for, in order; the system's loader looks up a bare name.
        looked: Vec<PathBuf>,
        /// The message of the system's loader.
        problem: String,
    },
    /// The library is there, but the system's loader does not take it.
    #[error("the device library `{}` cannot be loaded: {problem}", library.display())]
    Unloadable {
        /// The library.
        library: PathBuf,
        /// The message of the system's loader.
        problem: String,
    },
    /// The library is the one that programs are linked with on hosts without a device.
    #[error("`{}` is the stub that programs are linked with, not the runtime", library.display())]
    Stub {
        /// The library.
        library: PathBuf,
    },
    /// There is a library, but no device.
    #[error("`{}` finds no device{}", library.display(), said(text))]
    NoDevice {
        /// The library.
        library: PathBuf,
        /// The runtime's text.
        text: Option<String>,
    },
    /// The library is too old to have a function.
    #[error("`{}` has no function `{symbol}`, which CANN {since} and later have", library.display())]
    Symbol {
        /// The function.
        symbol: &'static str,
        /// The library.
        library: PathBuf,
        /// The oldest version that is known to have it.
        since: &'static str,
    },
    /// A function failed.
    #[error("`{call}` failed: {} ({code}){}", acl_codes::name(*code), said(text))]
    Call {
        /// The function.
        call: &'static str,
        /// Its code.
        code: i32,
        /// The runtime's text.
        text: Option<String>,
    },
    /// A function reported success, but gave nothing.
    #[error("`{call}` reported success, but gave nothing")]
    Nothing {
        /// The function.
        call: &'static str,
    },
}

impl AclError {
    /// The help for the user.
    pub fn help(&self) -> String {
        let help = match self {
            Self::NoLibrary { .. } => {
                "name the chip as the target, such as `Ascend910B1`: compiling needs no device; to use one, install the package \
                 Ascend-cann-toolkit, and the driver"
            }
            Self::Unloadable { .. } => {
                "name the chip as the target, such as `Ascend910B1`: compiling needs no device; to use one, install the driver, \
                 whose libraries this one needs, or add the directory of the library that is missing to LD_LIBRARY_PATH"
            }
            Self::Stub { .. } => {
                "take `devlib` and `stub` directories out of LD_LIBRARY_PATH, or put the toolkit's `lib64` before them"
            }
            Self::NoDevice { .. } => {
                "name the chip as the target, such as `Ascend910B1`: compiling needs no device; to use one, see with `npu-smi info` \
                 whether the driver and the device work, and whether this user or container may use them"
            }
            Self::Symbol { since, .. } => return format!("install CANN {since} or later"),
            Self::Call { code, .. } => acl_codes::help(*code),
            Self::Nothing { .. } => acl_codes::help(0),
        };
        help.to_owned()
    }

    /// The error of loading `kernel`.
    pub(crate) fn loading(&self, kernel: &str) -> BackendError {
        BackendError::Load { kernel: kernel.to_owned(), problem: format!("{self}; {}", self.help()) }
    }

    /// The error of launching `kernel`.
    pub(crate) fn launching(&self, kernel: &str) -> BackendError {
        let (what, expected) = match self {
            Self::Call { call, .. } | Self::Nothing { call } => ((*call).to_owned(), "ACL_SUCCESS (0)"),
            _ => ("launch".to_owned(), "a device that works"),
        };
        let found = format!("{self}; {}", self.help());
        BackendError::Launch { kernel: kernel.to_owned(), what, expected: expected.to_owned(), found }
    }
}

impl From<AclError> for BackendError {
    fn from(error: AclError) -> Self {
        Self::Toolchain { problem: error.to_string(), help: error.help(), tool: None }
    }
}

fn places(looked: &[PathBuf]) -> String {
    looked.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
}

fn said(text: &Option<String>) -> String {
    text.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}
