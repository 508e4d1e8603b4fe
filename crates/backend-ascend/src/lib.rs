//! The Ascend backend: finds CANN, Huawei's toolkit, tells what it knows of chips and operators, and fingerprints all
//! that its kernels depend on.
//!
//! It runs nothing of the toolkit: what is told here is read from its files, so it takes milliseconds and needs no
//! device. What is known of the toolkit was read in published installs of CANN 8.1 and 9.1; nothing here was tried on
//! a device.
//!
//! # Finding it
//!
//! [`Search::find`] takes the place that the caller names, else the one that `ASCEND_HOME_PATH`, `ASCEND_TOOLKIT_HOME`
//! or `ASCEND_OPP_PATH` names, else the first complete one of the usual places. Who names a place gets that one or an
//! error, never another. Links are kept as they are (`latest` is one), so that an upgrade that moves one is noticed.
//! [`Toolkit::variables`] is what the toolkit's `set_env.sh` would set: nobody has to source it.
//!
//! # Fingerprints
//!
//! [`toolchain`] is what all kernels share, part by part: versions with the time they were built, the compiler, the
//! Python packages that make code, what is known of chips and operators, knowledge banks in the order in which they are
//! asked, packages of vendors. [`Sources::fingerprint`] is what one job's kernel depends on besides: the modules of its
//! operators, their twins for unknown shapes, Ascend C sources, and everything that these import of the operators'
//! package. Both hold contents and names below a package, never a folder: the same toolkit elsewhere has the same
//! fingerprints. What Python and locks leave behind (`__pycache__`, `*.pyc`, `*.lock`) does not count.

mod ascendc;
mod banks;
mod closure;
mod disk;
mod environment;
mod error;
mod find;
mod fingerprint;
mod folder;
mod imports;
mod ops_info;
mod platform;
mod python;
mod sources;
mod vendors;
mod version;

pub use banks::Bank;
pub use environment::{Value, Variable};
pub use error::{AscendError, Looked, Missing, NamedBy};
pub use find::{Search, Toolkit, VARIABLES, Versions};
pub use fingerprint::toolchain;
pub use ops_info::{AttrInfo, OpInfo, OpsInfo, PortInfo, PortKind};
pub use platform::{Platforms, Soc};
pub use sources::{Implementation, Sources};
pub use vendors::Vendor;
pub use version::Version;

/// The backend's name: part of every key and path.
pub const NAME: &str = "ascend";
