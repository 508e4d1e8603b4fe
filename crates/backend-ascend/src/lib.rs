//! The Ascend backend: finds CANN, Huawei's toolkit, fingerprints all that its kernels depend on, and has its compiler
//! make them.
//!
//! Nothing here needs a device. What is known of the toolkit was read in published installs of CANN 8.1 and 9.1; nothing
//! here was tried on a real one.
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
//!
//! # Driving it
//!
//! [`AscendBackend`] compiles one operator a job, by one of two [drivers](Driver) that make the same kernels: a process of
//! `opc` each time, or workers, Python processes that import the toolkit once. A worker that crashes fails its own job
//! and is replaced; one whose modules were changed since it imported them is replaced before it compiles anything. All
//! processes end with us, whatever becomes of us.
//!
//! The toolkit tells by no exit status whether a compile went well: what counts is that both files are there. Its log is
//! read for the reason; [`slog`] finds codes and texts in it.
//!
//! # A device
//!
//! None is needed, but for two things: [`Runtime::soc_name`] asks it which chip it is, and [`AscendLoader`] loads kernels
//! onto it. Both go through `libascendcl.so`, which is loaded when they are asked for and not before.
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
