//! The Ascend backend: finds CANN, Huawei's toolkit, fingerprints everything that its kernels depend on, and compiles
//! kernels with its compiler.
//!
//! Compiling needs no device. The facts about the toolkit come from published installs of CANN 8.1 and 9.1; the backend
//! has not been run on a real one.
//!
//! # Finding the toolkit
//!
//! [`Search::find`] takes the place that the caller names, else the one that `ASCEND_HOME_PATH`, `ASCEND_TOOLKIT_HOME`
//! or `ASCEND_OPP_PATH` names, else the first complete one of the usual places. If a place is named, no other
//! place is searched. Links are kept as they are (`latest` is one), so that an upgrade that moves a link is noticed.
//! [`Toolkit::variables`] has the values that the toolkit's `set_env.sh` would set; sourcing it is not necessary.
//!
//! # Fingerprints
//!
//! [`toolchain`] covers what all kernels share, part by part: versions with their build time, the compiler, the Python
//! packages that generate code, the files that describe chips and operators, knowledge banks in the order in which they
//! are read, packages of vendors. [`Sources::fingerprint`] covers what one job's kernel depends on besides: the modules of
//! its operators, their variants for unknown shapes, Ascend C sources, and everything that these import of the operators'
//! package. Both hold contents and names below a package, never a path outside it: the same toolkit in another directory
//! has the same fingerprints. Files that Python and locks leave behind (`__pycache__`, `*.pyc`, `*.lock`) do not count.
//!
//! # Driving the compiler
//!
//! [`AscendBackend`] compiles one operator a job, by one of two [drivers](Driver) that make the same kernels: a process
//! of `opc` each time, or workers, Python processes that import the toolkit once. A worker that crashes fails its own
//! job and is replaced; one whose modules were changed since it imported them is replaced before it compiles anything.
//! All processes end when this process ends, even if it is killed.
//!
//! The toolkit's exit status does not show whether a compile succeeded: a compile succeeded if both files exist. The
//! reason of a failure is in its log; [`slog`] finds codes and texts in it.
//!
//! # A device
//!
//! Two things need a device: [`Runtime::soc_name`] returns the name of its chip, and [`AscendLoader`] loads kernels onto
//! it. Both use `libascendcl.so`, which is loaded at their first call.
//!
//! # Networks
//!
//! [`Prepare`] makes a network fit the toolkit's operators: each node gets its module, function and attributes, and a
//! combination of element types and formats that its operator takes; `Cast` and `TransData` are put in where needed.
//! Operators that the operator information does not describe are asked through [`Formats`].

mod backend;
mod compile;
mod config;
mod device;
mod disk;
mod error;
mod ffi;
mod graph;
mod name;
mod probe;
mod process_error;
pub mod slog;
mod sources;
mod toolkit;
mod worker;

pub use backend::AscendBackend;
pub use config::{AscendConfig, Driver};
pub use device::acl_error::AclError;
pub use device::loader::AscendLoader;
pub use device::runtime::Runtime;
pub use error::{AscendError, MissingComponent, PathOrigin, SearchedPath};
pub use graph::prepare::Prepare;
pub use graph::select::{Formats, PortFormats, parse_formats};
pub use name::NAME;
pub use sources::op_sources::{Implementation, Sources};
pub use toolkit::environment::{Value, Variable};
pub use toolkit::find::{Search, Toolkit, VARIABLES, Versions};
pub use toolkit::fingerprint::toolchain;
pub use toolkit::knowledge_bank::KnowledgeBank;
pub use toolkit::ops_info::{AttrInfo, OpInfo, OpsInfo, PortInfo, PortKind};
pub use toolkit::platform::{Platforms, Soc};
pub use toolkit::vendors::Vendor;
pub use toolkit::version::Version;
